//! Actions of the machine, and its names for things. The driver executes actions in their order.

use super::layout::Key;
use crate::id::{NodeId, ShardId};
use crate::slots::SlotSet;
use std::fmt;
use std::sync::Arc;

/// Monotonic time of this node in milliseconds, from an arbitrary origin.
pub type Ms = u64;

/// A revision of the store: each transaction that writes has the next one.
pub type Revision = u64;

/// One start of a node. A process that restarts may have lost data, so it is another member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    pub node: NodeId,
    /// Random, made at the start of the process.
    pub incarnation: u64,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}.{}", self.node, self.incarnation)
    }
}

/// A primary of the past. No other one had the same epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Led {
    pub incarnation: u64,
    pub epoch: Revision,
}

/// A lease of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

/// An operation on the store. Never reused, so a late answer finds its operation or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// A command of an operator that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A suspension whose end of execution the driver reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DrainId(pub u64);

/// Writes that happen together, if each key has the revision on which they were decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The modification revision of a key; `None`: the key doesn't exist.
    pub compares: Vec<(Key, Option<Revision>)>,
    pub writes: Vec<Write>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    Put {
        key: Key,
        value: Vec<u8>,
        /// The store deletes the key when this lease ends.
        lease: Option<LeaseId>,
    },
    Delete {
        key: Key,
    },
}

/// An operation on the store. All of them are linearizable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Report `granted`.
    Grant { ttl: Ms },
    /// Report `kept_alive`, or `lease_unknown` if the store has no such lease.
    KeepAlive { lease: LeaseId },
    /// Nothing: report `answered`, so that the machine sees that answers arrive.
    Probe,
    /// All keys under the prefix: report `snapshot`.
    Snapshot,
    /// All changes after this revision, each revision as a whole: report `changes`. It ends
    /// earlier watches.
    Watch { after: Revision },
    /// Report `transacted`.
    Transact(Transaction),
}

/// The result of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done(Revision),
    /// A comparison failed, or a lease has ended: nothing was written, and nothing will be.
    Refused,
    /// No answer. The transaction may have been written, and may still be written later.
    Unknown,
}

/// The duty of this node in its shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duty {
    /// It neither serves nor follows: its data stay as they are.
    #[default]
    None,
    Lead {
        shard: ShardId,
        epoch: Revision,
    },
    /// Follow this primary, and refuse a handshake with another epoch.
    Follow {
        shard: ShardId,
        primary: NodeId,
        epoch: Revision,
    },
}

#[derive(Clone, Debug)]
pub enum Action {
    Store {
        op: OpId,
        operation: Operation,
    },
    /// Replies may leave before this time only; 0: none. It may go back.
    AcknowledgeUntil(Ms),
    /// The slots that are served now. Requests on others are held or redirected.
    Serve(Arc<SlotSet>),
    /// Report `drained` when all commands on slots that are not served have ended, and their
    /// replies have left or never will.
    Drain(DrainId),
    Duty(Duty),
    /// Quorum: writes up to this offset of the stream are confirmed.
    Confirm {
        through: u64,
    },
    /// Ask this replica for a promise over its replication link.
    AskPromise {
        member: Member,
        epoch: Revision,
        ask: OpId,
    },
    /// Answer the primary: this node will not try a promotion for `cluster-node-timeout`.
    Promise {
        to: NodeId,
        epoch: Revision,
        ask: OpId,
    },
    /// [`super::Node::map`] has changed. The driver reads it when it needs it.
    Publish,
    Reply {
        request: RequestId,
        result: Result<(), String>,
    },
    Log(String),
}
