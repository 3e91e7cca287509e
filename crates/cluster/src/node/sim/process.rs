//! A process in the simulation: a node, its data, and what its driver holds.

use super::store::Store;
use crate::node::action::{DrainId, Duty, Led, Member, Ms, OpId, Revision};
use crate::node::{Action, Ids, Node, Settings};
use crate::slots::{Slot, SlotSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weft_base::rng::Rng;

/// The writes that a process has, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    writes: Vec<u64>,
    /// Of each prefix, so that two logs are compared at once.
    hashes: Vec<u64>,
}

impl Log {
    pub fn len(&self) -> u64 {
        self.writes.len() as u64
    }

    pub fn push(&mut self, write: u64) {
        let hash = self.hash(self.len()).rotate_left(5) ^ write.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.writes.push(write);
        self.hashes.push(hash);
    }

    /// The hash of the first `len` writes.
    pub fn hash(&self, len: u64) -> u64 {
        if len == 0 { 0 } else { self.hashes[len as usize - 1] }
    }

    /// Whether the first `len` writes are those of a log with this hash.
    pub fn has_prefix(&self, len: u64, hash: u64) -> bool {
        len <= self.len() && self.hash(len) == hash
    }

    pub fn truncate(&mut self, len: u64) {
        self.writes.truncate(len as usize);
        self.hashes.truncate(len as usize);
    }

    pub fn after(&self, len: u64) -> &[u64] {
        &self.writes[len as usize..]
    }

    /// Whether the write that was number `offset` of its stream is here.
    pub fn has(&self, offset: u64, write: u64) -> bool {
        self.writes.get(offset as usize - 1) == Some(&write)
    }

    /// The writes that are not in `other`.
    pub fn missing_in<'a>(&'a self, other: &Log) -> &'a [u64] {
        let common = self.hashes.iter().zip(&other.hashes).take_while(|(a, b)| a == b).count();
        &self.writes[common..]
    }
}

/// A write that waits for its confirmation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub write: u64,
    pub slot: Slot,
    pub offset: u64,
}

pub(super) struct Process {
    pub host: usize,
    pub node: Node,
    pub member: Member,
    pub alive: bool,
    /// By SIGSTOP: it does nothing, and events wait.
    pub stopped: bool,
    /// Local milliseconds in 1000 real ones.
    rate: u64,
    start: Ms,
    /// Operations whose answers are still awaited.
    pub awaited: BTreeSet<OpId>,
    /// The watch, and the last revision that was sent to it.
    pub watch: Option<(OpId, Revision)>,
    pub pump_due: bool,
    pub deadline: Ms,
    pub serve: Arc<SlotSet>,
    pub duty: Duty,
    pub through: u64,
    pub pending: Vec<Pending>,
    pub drains: Vec<(DrainId, Ms)>,
    pub log: Log,
    /// The data are whole.
    pub whole: bool,
    /// They have all writes that this incarnation has confirmed.
    pub durable: Option<Led>,
    /// All of its data are on its disk.
    pub kept: bool,
    /// Counts loads, so that the end of a cancelled one is ignored.
    pub load: u64,
    /// Counts the links to primaries.
    pub link: u64,
    /// As a primary: whether the handshake on a link of a replica led to a copy.
    pub handshakes: BTreeMap<(usize, u64), bool>,
    /// The epoch whose primary has accepted this replica.
    pub attached: Option<Revision>,
    /// Actions of the last event, executed in their order.
    pub actions: Vec<Action>,
}

impl Process {
    pub fn new(
        now: Ms,
        host: usize,
        member: Member,
        settings: Settings,
        log: Log,
        rng: &mut Rng,
    ) -> Process {
        let (rate, start) = (950 + rng.below(101), rng.below(10_000_000));
        let mut ids = Rng::new(rng.next_u64());
        let ids: Ids = Box::new(move || {
            crate::NodeId::from_random(std::array::from_fn(|_| ids.below(256) as u8))
        });
        let mut actions = Vec::new();
        let local = start + now * rate / 1000;
        Process {
            host,
            node: Node::new(local, member, settings, ids, &mut actions),
            member,
            alive: true,
            stopped: false,
            rate,
            start,
            awaited: BTreeSet::new(),
            watch: None,
            pump_due: false,
            deadline: 0,
            serve: Arc::default(),
            duty: Duty::None,
            through: 0,
            pending: Vec::new(),
            drains: Vec::new(),
            log,
            whole: false,
            durable: None,
            kept: false,
            link: 0,
            handshakes: BTreeMap::new(),
            load: 0,
            attached: None,
            actions,
        }
    }

    pub fn local(&self, now: Ms) -> Ms {
        self.start + now * self.rate / 1000
    }

    pub fn runs(&self) -> bool {
        self.alive && !self.stopped
    }

    /// Whether it would answer a client's request now.
    pub fn serves(&self, now: Ms) -> bool {
        self.runs()
            && matches!(self.duty, Duty::Lead { .. })
            && self.local(now) < self.deadline
            && !self.serve.is_empty()
    }

    /// The violation, if the store doesn't say that this process may serve these slots.
    pub fn check(&self, store: &Store, slot: Option<Slot>) -> Option<String> {
        let Duty::Lead { shard, epoch } = self.duty else { return None };
        let Some(named) = store.truth.shards.get(&shard) else {
            return Some(format!("{:?} serves shard {shard:?}, which is gone", self.member));
        };
        if named.value.primary != self.member {
            let other = named.value.primary;
            return Some(format!("{:?} serves {shard:?}, its primary is {other:?}", self.member));
        }
        if named.epoch != epoch {
            return Some(format!("{:?} serves {shard:?} in an old epoch", self.member));
        }
        let owned = store.truth.slots_of(shard);
        let is_owned = |slot: Slot| owned.is_some_and(|owned| owned.contains(slot));
        let wrong = match slot {
            Some(slot) => (!is_owned(slot)).then_some(slot),
            None if owned.is_some_and(|owned| *owned == *self.serve) => None,
            None => self.serve.iter().find(|slot| !is_owned(*slot)),
        };
        wrong.map(|slot| format!("{:?} serves slot {slot} of another shard", self.member))
    }
}
