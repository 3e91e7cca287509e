//! ADDSLOTS, DELSLOTS, their ranges, and FLUSHSLOTS.

use super::Scene;
use crate::arguments;
use crate::change::{Change, Edit};
use crate::refusal::{Refusal, refusal};
use crate::slots::{Slot, SlotRange, SlotSet};

impl Scene<'_> {
    pub(super) fn add_slots(&self, args: &[&[u8]]) -> Result<Change, Refusal> {
        Ok(self.assign(self.listed(args, Self::check_free)?))
    }

    pub(super) fn del_slots(&self, args: &[&[u8]]) -> Result<Change, Refusal> {
        Ok(self.unassign(self.listed(args, Self::check_owned)?))
    }

    pub(super) fn add_slots_range(&self, args: &[&[u8]]) -> Result<Change, Refusal> {
        Ok(self.assign(self.ranges(args, "addslotsrange", Self::check_free)?))
    }

    pub(super) fn del_slots_range(&self, args: &[&[u8]]) -> Result<Change, Refusal> {
        Ok(self.unassign(self.ranges(args, "delslotsrange", Self::check_owned)?))
    }

    pub(super) fn flush_slots(&self) -> Result<Change, Refusal> {
        if self.facts.has_keys {
            return Err(refusal("DB must be empty to perform CLUSTER FLUSHSLOTS."));
        }
        let slots = Box::new(self.map.slots_of(self.myself.id));
        Ok(self.change().with(Edit::SetOwner { slots, owner: None }))
    }

    fn assign(&self, slots: SlotSet) -> Change {
        let change = self.without_imports(&slots);
        change.with(Edit::SetOwner { slots: Box::new(slots), owner: Some(self.myself.id) })
    }

    fn unassign(&self, slots: SlotSet) -> Change {
        let change = self.without_imports(&slots);
        change.with(Edit::SetOwner { slots: Box::new(slots), owner: None })
    }

    /// A change that ends the import of `slots`.
    fn without_imports(&self, slots: &SlotSet) -> Change {
        let imported = self.myself.importing.keys().filter(|slot| slots.contains(**slot));
        imported.fold(self.change(), |change, slot| {
            change.with(Edit::SetImporting { node: self.myself.id, slot: *slot, from: None })
        })
    }

    /// The slots in `args`: all must parse before one is checked.
    fn listed(&self, args: &[&[u8]], check: Check<Self>) -> Result<SlotSet, Refusal> {
        let slots: Vec<Slot> =
            args.iter().map(|arg| arguments::slot(arg)).collect::<Result<_, _>>()?;
        let mut set = SlotSet::default();
        for slot in slots {
            check(self, &mut set, SlotRange { first: slot, last: slot })?;
        }
        Ok(set)
    }

    /// The slots in the ranges in `args`: each range is checked before the next one is parsed.
    fn ranges(&self, args: &[&[u8]], name: &str, check: Check<Self>) -> Result<SlotSet, Refusal> {
        if !args.len().is_multiple_of(2) {
            let text = format!("wrong number of arguments for 'cluster|{name}' command");
            return Err(refusal(text));
        }
        let mut set = SlotSet::default();
        for pair in args.chunks_exact(2) {
            check(self, &mut set, arguments::range(pair[0], pair[1], "start")?)?;
        }
        Ok(set)
    }

    /// Adds `range` to `set`, if no slot of it has an owner.
    fn check_free(&self, set: &mut SlotSet, range: SlotRange) -> Result<(), Refusal> {
        add(set, range, |slot| match self.map.owner(slot) {
            Some(_) => Err(refusal(format!("Slot {slot} is already busy"))),
            None => Ok(()),
        })
    }

    /// Adds `range` to `set`, if each slot of it has an owner.
    fn check_owned(&self, set: &mut SlotSet, range: SlotRange) -> Result<(), Refusal> {
        add(set, range, |slot| match self.map.owner(slot) {
            Some(_) => Ok(()),
            None => Err(refusal(format!("Slot {slot} is already unassigned"))),
        })
    }
}

/// Checks a range and adds it to a set.
type Check<S> = fn(&S, &mut SlotSet, SlotRange) -> Result<(), Refusal>;

fn add(
    set: &mut SlotSet,
    range: SlotRange,
    check: impl Fn(Slot) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    for slot in range.slots() {
        check(slot)?;
        if !set.insert(slot) {
            return Err(refusal(format!("Slot {slot} specified multiple times")));
        }
    }
    Ok(())
}
