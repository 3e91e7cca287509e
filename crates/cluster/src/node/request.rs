//! Requests of operators to a node.

use crate::id::NodeId;
use crate::slots::{Slot, SlotSet};

/// CLUSTER FAILOVER
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailoverMode {
    Plain,
    /// Without the primary's data.
    Force,
    /// Even if this replica isn't listed. The operator asserts that the primary is gone for good.
    Takeover,
}

/// Whether keys of a slot leave a shard or come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Migrating,
    Importing,
}

/// A change of a mark of SETSLOT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub slot: Slot,
    pub direction: Direction,
    /// A node of the other shard; `None`: the mark ends.
    pub other: Option<NodeId>,
}

/// A request of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeRequest {
    /// The nodes that this one has met, and those that the other one has, become one cluster.
    Meet(NodeId),
    /// This node follows the primary of another shard.
    Replicate(NodeId),
    Failover(FailoverMode),
    Forget(NodeId),
    /// This node leaves its island for one of its own: RESET, REPLICATE NO ONE.
    Leave,
    AddSlots(Box<SlotSet>),
    DeleteSlots(Box<SlotSet>),
    /// Slots come to this node, from their owners or from none: DELSLOTS and ADDSLOTS in one transaction of a client.
    TakeSlots(Box<SlotSet>),
    /// MIGRATESLOTS: the keys are copied first.
    CopySlots {
        slots: Box<SlotSet>,
        to: NodeId,
    },
    /// SETSLOT NODE
    MoveSlots {
        slots: Box<SlotSet>,
        to: NodeId,
        /// Also if their owner has keys of them.
        leave_keys: bool,
    },
    /// SETSLOT MIGRATING, IMPORTING, STABLE: marks of this node's shard.
    Mark(Vec<Mark>),
    /// CANCELSLOTMIGRATIONS
    CancelMoves,
}
