//! DELSLOTS and ADDSLOTS of the same slots in one transaction, with which tools take slots over from a node that can't move them.
//!
//! In Valkey, DELSLOTS changes the view of one node only, and the greater epoch of the node that adds the slots wins. Here, the
//! owner of the slots hands them over.

use crate::Driver;
use weft_cluster::node::NodeRequest;
use weft_cluster::{Map, SlotSet};

/// The slots that a client's transaction has deleted.
#[derive(Default)]
pub struct Released(Option<(u64, SlotSet)>);

impl Driver {
    /// A transaction of the client has deleted these slots, which belong to other nodes.
    pub fn release(&self, client: u64, slots: &SlotSet) {
        let mut released = self.released.lock().unwrap_or_else(|p| p.into_inner());
        match &mut released.0 {
            Some((of, all)) if *of == client => slots.iter().for_each(|slot| _ = all.insert(slot)),
            _ => released.0 = Some((client, slots.clone())),
        }
    }

    /// The map as the transaction of this client sees it: the slots that it has deleted have no owner.
    pub fn without_released(&self, client: u64, map: &Map) -> Map {
        let mut map = map.clone();
        let released = self.released.lock().unwrap_or_else(|p| p.into_inner());
        if let Some((_, slots)) = released.0.as_ref().filter(|(of, _)| *of == client) {
            slots.iter().for_each(|slot| map.set_owner(slot, None));
        }
        map
    }

    /// Takes slots for this node, from their owners if they have one. Ends what the client has released.
    pub fn take_over(&self, slots: &SlotSet) {
        self.released.lock().unwrap_or_else(|p| p.into_inner()).0 = None;
        self.request_without_reply(vec![NodeRequest::TakeSlots(Box::new(slots.clone()))]);
    }
}
