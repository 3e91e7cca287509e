//! SETSLOT.

use super::Scene;
use crate::arguments;
use crate::change::{Change, Edit};
use crate::map::Node;
use crate::refusal::{Refusal, refusal};
use crate::slots::{Slot, SlotSet};

const UNKNOWN_ACTION: &str =
    "Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP";

impl Scene<'_> {
    pub(super) fn set_slot(&self, args: &[&[u8]]) -> Result<Change, Refusal> {
        if !self.myself.is_primary() {
            return Err(refusal("Please use SETSLOT only with masters."));
        }
        let slot = arguments::slot(args[0])?;
        let is = |word: &str| args[1].eq_ignore_ascii_case(word.as_bytes());
        match args.get(2) {
            Some(other) if is("migrating") => {
                if !self.owns(slot) {
                    return Err(refusal(format!("I'm not the owner of hash slot {slot}")));
                }
                let to = self.other_end(other, "I don't know about node ")?.id;
                self.check_options(&args[3..])?;
                let node = self.myself.id;
                Ok(self.change().with(Edit::SetMigrating { node, slot, to: Some(to) }))
            }
            Some(other) if is("importing") => {
                if self.owns(slot) {
                    return Err(refusal(format!("I'm already the owner of hash slot {slot}")));
                }
                let from = self.other_end(other, "I don't know about node ")?.id;
                self.check_options(&args[3..])?;
                let node = self.myself.id;
                Ok(self.change().with(Edit::SetImporting { node, slot, from: Some(from) }))
            }
            Some(other) if is("node") => {
                let owner = self.other_end(other, "Unknown node ")?;
                let leaves = self.owns(slot) && owner.id != self.myself.id;
                if leaves && (self.facts.keys_in_slot)(slot) > 0 {
                    return Err(refusal(format!(
                        "Can't assign hashslot {slot} to a different node while I still hold keys \
                         for this hash slot."
                    )));
                }
                self.check_options(&args[3..])?;
                Ok(self.give_slot(slot, owner))
            }
            _ if is("stable") => {
                self.check_options(&args[2..])?;
                let node = self.myself.id;
                let change = self.change().with(Edit::SetImporting { node, slot, from: None });
                Ok(change.with(Edit::SetMigrating { node, slot, to: None }))
            }
            _ => Err(refusal(UNKNOWN_ACTION)),
        }
    }

    /// The node with the id `arg`, which must be a primary.
    fn other_end(&self, arg: &[u8], text: &str) -> Result<&Node, Refusal> {
        let node = arguments::node(self.map, arg, text)?;
        match node.is_primary() {
            true => Ok(node),
            false => Err(refusal("Target node is not a master")),
        }
    }

    /// Only a timeout is known, and other words are ignored.
    fn check_options(&self, args: &[&[u8]]) -> Result<(), Refusal> {
        for (at, _) in
            args.iter().enumerate().filter(|(_, arg)| arg.eq_ignore_ascii_case(b"timeout"))
        {
            let ms = args.get(at + 1).ok_or_else(|| refusal("Missing timeout value"))?;
            arguments::timeout(ms, self.facts.now_ms)?;
        }
        Ok(())
    }

    fn give_slot(&self, slot: Slot, owner: &Node) -> Change {
        let node = self.myself.id;
        let mut change = self.change();
        if self.myself.migrating.contains_key(&slot) && (self.facts.keys_in_slot)(slot) == 0 {
            change = change.with(Edit::SetMigrating { node, slot, to: None });
        }
        let slots = Box::new(SlotSet::from_iter([slot]));
        change = change.with(Edit::SetOwner { slots, owner: Some(owner.id) });
        if owner.id == node && self.myself.importing.contains_key(&slot) {
            change = change.with(Edit::SetImporting { node, slot, from: None });
            // The new epoch makes this claim win over that of the old owner.
            change = self.bump_epoch(change);
        }
        change
    }
}
