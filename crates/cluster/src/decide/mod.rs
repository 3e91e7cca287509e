//! The effect of a CLUSTER command on the map, or the reason of a refusal. The order of the checks is that of Valkey.

mod migrate;
mod nodes;
mod plan;
mod set_slot;
mod slots;

pub use nodes::BUS_PORT_DISTANCE;
pub use plan::{Plan, plan};

use crate::change::Change;
use crate::id::NodeId;
use crate::map::{Map, Node};
use crate::refusal::Refusal;
use crate::request::{Request, Verb};
use crate::slots::Slot;

/// Facts outside of the map.
pub struct Facts<'a> {
    pub now_ms: i64,
    /// Whether the database of the client has keys.
    pub has_keys: bool,
    /// How many keys of a slot this node has, in all databases.
    pub keys_in_slot: &'a dyn Fn(Slot) -> usize,
    /// Whether a node was in the map a short time ago.
    pub was_known: &'a dyn Fn(NodeId) -> bool,
    /// Two unused ids, for CLUSTER RESET.
    pub new_ids: [NodeId; 2],
}

/// The change that `request` makes to `map`, sent to node `me`.
pub fn decide(
    map: &Map,
    me: NodeId,
    facts: &Facts<'_>,
    request: Request<'_>,
) -> Result<Change, Refusal> {
    let scene = Scene { map, myself: map.node(me).expect("the map has this node"), facts };
    let args = request.args;
    match request.verb {
        Verb::AddSlots => scene.add_slots(args),
        Verb::AddSlotsRange => scene.add_slots_range(args),
        Verb::BumpEpoch => Ok(scene.bump_epoch(scene.change())),
        Verb::DelSlots => scene.del_slots(args),
        Verb::DelSlotsRange => scene.del_slots_range(args),
        Verb::Failover => scene.fail_over(args),
        Verb::FlushSlots => scene.flush_slots(),
        Verb::Forget => scene.forget(args),
        Verb::Meet => scene.meet(args),
        Verb::MigrateSlots => scene.migrate_slots(args),
        Verb::Replicate => scene.replicate(args),
        Verb::Reset => scene.reset(args),
        Verb::SetConfigEpoch => scene.set_config_epoch(args),
        Verb::SetSlot => scene.set_slot(args),
    }
}

/// The map and the node that decides.
struct Scene<'a> {
    map: &'a Map,
    myself: &'a Node,
    facts: &'a Facts<'a>,
}

impl Scene<'_> {
    fn change(&self) -> Change {
        Change::of(self.map)
    }

    fn owns(&self, slot: Slot) -> bool {
        self.map.owner(slot).is_some_and(|owner| owner.id == self.myself.id)
    }
}
