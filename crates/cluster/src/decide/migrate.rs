//! MIGRATESLOTS.

use super::Scene;
use crate::arguments;
use crate::change::Change;
use crate::id::NodeId;
use crate::map::Node;
use crate::refusal::{Refusal, refusal, refusal_with};
use crate::slots::{SlotRange, SlotSet};
use weft_base::num::parse_i64;

impl Scene<'_> {
    /// Without a store, a node has no other node to move slots to.
    pub(super) fn migrate_slots(&self, args: &[&[u8]]) -> Result<Change, Refusal> {
        match self.migrations(args)?.is_empty() {
            true => Ok(self.change()),
            false => Err(refusal("Moving slots needs a 'cluster-store'")),
        }
    }

    /// The slots to move, with their targets.
    pub(super) fn migrations(&self, args: &[&[u8]]) -> Result<Vec<(SlotSet, NodeId)>, Refusal> {
        if !self.myself.is_primary() {
            return Err(refusal("Slot migration can only be used on primary nodes."));
        }
        if !self.myself.importing.is_empty() {
            return Err(refusal("Slots are being manually imported"));
        }
        if !self.myself.migrating.is_empty() {
            return Err(refusal("Slots are being manually migrated"));
        }
        let (mut rest, mut earlier, mut migrations) = (args, Vec::new(), Vec::new());
        while let Some((word, after)) = rest.split_first() {
            if !is_word(word, b"slotsrange") {
                return Err(Refusal::Syntax);
            }
            let (ranges, source, after) = self.migrated_ranges(after)?;
            if source.id != self.myself.id {
                return Err(refusal("Slots are not served by this node."));
            }
            if ranges.iter().any(|range| earlier.iter().any(|other| overlaps(*range, *other))) {
                return Err(refusal("Slot ranges in migrations overlap"));
            }
            let [word, target, after @ ..] = after else { return Err(Refusal::Syntax) };
            if !is_word(word, b"node") {
                return Err(Refusal::Syntax);
            }
            let target = self.target(target)?;
            migrations.push((ranges.iter().flat_map(|range| range.slots()).collect(), target));
            earlier.extend(ranges);
            rest = after;
        }
        Ok(migrations)
    }

    fn target(&self, target: &[u8]) -> Result<NodeId, Refusal> {
        if target.len() != NodeId::LEN {
            return Err(refusal_with("Invalid node name: ", target));
        }
        let target = arguments::node(self.map, target, "Unknown node name: ")?;
        if target.id == self.myself.id {
            return Err(refusal("Target node can not be this node."));
        }
        if !target.is_primary() {
            return Err(refusal("Slot migration can only be used on primary nodes."));
        }
        Ok(target.id)
    }

    /// The ranges at the beginning of `args`, the owner of all of them, and the other arguments.
    fn migrated_ranges<'b>(&self, args: &'b [&'b [u8]]) -> Result<Migrated<'_, 'b>, Refusal> {
        let (mut rest, mut ranges, mut source) = (args, Vec::new(), None);
        while let Some(first) = rest.first().filter(|arg| parse_i64(arg).is_some()) {
            let first_slot = arguments::slot(first)?;
            let last = rest.get(1).ok_or_else(|| refusal("No end slot for final slot range"))?;
            let last_slot = arguments::slot(last)?;
            let range = SlotRange { first: first_slot, last: last_slot };
            if first_slot > last_slot {
                return Err(refusal(format!(
                    "Start slot number {first_slot} is greater than end slot number {last_slot}."
                )));
            }
            for slot in range.slots() {
                let owner = self.map.owner(slot);
                let owner =
                    owner.ok_or_else(|| refusal(format!("Slot {slot} has no node served.")))?;
                if source.get_or_insert(owner).id != owner.id {
                    return Err(refusal("Requested slots span multiple shards"));
                }
            }
            if let Some(other) = ranges.iter().find(|other| overlaps(range, **other)) {
                return Err(refusal(format!(
                    "Slot range {first_slot}-{last_slot} overlaps with previous range {}-{}.",
                    other.first, other.last
                )));
            }
            ranges.push(range);
            rest = &rest[2..];
        }
        match source {
            Some(source) => Ok((ranges, source, rest)),
            None => Err(refusal("No slot ranges specified")),
        }
    }
}

/// Ranges, their owner, the arguments after them.
type Migrated<'a, 'b> = (Vec<SlotRange>, &'a Node, &'b [&'b [u8]]);

/// valkey-cli 9.1 sends a zero byte with SLOTSRANGE, and Valkey compares up to the first one.
fn is_word(argument: &[u8], word: &[u8]) -> bool {
    argument.split(|&byte| byte == 0).next().is_some_and(|start| start.eq_ignore_ascii_case(word))
}

fn overlaps(one: SlotRange, other: SlotRange) -> bool {
    one.first <= other.last && other.first <= one.last
}
