//! Faults and operators.

use super::process::Log;
use super::tally::Count;
use super::world::{Event, Pid, SLOTS_EACH, T, World};
use crate::id::NodeId;
use crate::node::action::{Led, Transaction, Write};
use crate::node::layout::Key;
use crate::node::{FailoverMode, NodeRequest};
use crate::slots::{Slot, SlotSet};
use weft_base::rng::Rng;

/// A fault, or an order of an operator.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    CutLink,
    CutStore,
    StoreDown,
    StoreSlow,
    Compact,
    LoseWatch,
    Kill,
    KillShard,
    Stop,
    RunTwice,
    ResetLink,
    FailOver,
    Move,
    Mark,
    CancelMoves,
}

/// All kinds, with their usual weights.
const KINDS: [(Kind, u64); 15] = [
    (Kind::CutLink, 10),
    (Kind::CutStore, 14),
    (Kind::StoreDown, 3),
    (Kind::StoreSlow, 4),
    (Kind::Compact, 4),
    (Kind::LoseWatch, 5),
    (Kind::Kill, 15),
    (Kind::KillShard, 3),
    (Kind::Stop, 13),
    (Kind::RunTwice, 5),
    (Kind::ResetLink, 6),
    (Kind::FailOver, 10),
    (Kind::Move, 9),
    (Kind::Mark, 12),
    (Kind::CancelMoves, 2),
];

/// The weight of each kind in a run.
pub(super) type Weights = [u64; KINDS.len()];

/// Each run has much of some kinds and nothing of others: a state that needs several faults of one kind is then
/// reached more often than by an equal mixture.
pub(super) fn weights(rng: &mut Rng) -> Weights {
    let mut weights = KINDS.map(|(_, usual)| usual * [0, 1, 1, 3][rng.below(4) as usize]);
    // Not a world in which nothing happens.
    weights[0] += 1;
    weights
}

/// Weights of a run whose shards may end.
pub(super) fn weights_without_marks(rng: &mut Rng) -> Weights {
    let mut weights = weights(rng);
    let is_mark = |kind: &Kind| matches!(kind, Kind::Mark);
    let at = KINDS.iter().position(|(kind, _)| is_mark(kind)).expect("it is a kind");
    weights[at] = 0;
    weights
}

/// The usual weights.
pub(super) fn usual_weights() -> Weights {
    KINDS.map(|(_, usual)| usual)
}

impl World {
    fn some_host(&mut self) -> usize {
        self.below(self.current.len() as u64) as usize
    }

    /// Half of the faults hit a primary.
    fn some_victim(&mut self) -> usize {
        let host = self.some_host();
        let line = self.store.truth.shard_of(self.ids[host]);
        let primary = line.map(|(_, shard)| shard.value.primary.node);
        match primary.and_then(|id| self.ids.iter().position(|known| *known == id)) {
            Some(primary) if self.chance(50) => primary,
            Some(_) | None => host,
        }
    }

    /// Injects a fault or an operator's command.
    pub fn chaos(&mut self) {
        let (host, kind) = (self.some_victim(), self.some_kind());
        if self.plan.settings.migrates && self.chance(8) {
            return self.orphan();
        }
        self.inject(kind, host);
    }

    pub fn inject(&mut self, kind: Kind, host: usize) {
        let (other, long) = (self.some_host(), 50 + self.below(3 * T));
        self.say(|| format!("---- {kind:?} for {host} and {other}, {long} ms"));
        match kind {
            Kind::CutLink => self.cut_link(host, other, long),
            Kind::CutStore => self.cut_store(host, long),
            Kind::StoreDown => {
                self.tally.count(Count::StoreDown);
                self.store_down = true;
                let long = self.below(4 * T);
                self.later(long, Event::StoreUp);
            }
            Kind::StoreSlow => {
                self.tally.count(Count::StoreSlow);
                self.store_slow = true;
                self.later(long, Event::StoreFast);
            }
            Kind::Compact => {
                self.tally.count(Count::Compaction);
                self.store.compact();
            }
            Kind::LoseWatch => {
                if let Some((op, _)) = self.processes[self.current[host]].watch.take() {
                    self.tally.count(Count::WatchLost);
                    self.later(5, Event::WatchLost(self.current[host], op));
                }
            }
            Kind::Kill => self.kill(host),
            Kind::KillShard => self.kill_shard(host),
            Kind::Stop => self.stop(self.current[host], long),
            Kind::RunTwice => self.duplicate(host),
            Kind::ResetLink => self.reset_link(self.current[host]),
            Kind::FailOver => self.order_failover(host),
            Kind::Move => self.order_move(host, other),
            Kind::Mark => self.order_mark(),
            Kind::CancelMoves => {
                let pid = self.current[host];
                if self.processes[pid].runs() {
                    self.request(pid, NodeRequest::CancelMoves);
                }
            }
        }
    }

    fn some_kind(&mut self) -> Kind {
        let weights = self.plan.weights;
        let mut at = self.below(weights.iter().sum());
        for (weight, (kind, _)) in weights.iter().zip(KINDS) {
            if at < *weight {
                return kind;
            }
            at -= weight;
        }
        unreachable!("`at` is below the sum")
    }

    fn cut_link(&mut self, host: usize, other: usize, long: u64) {
        if host == other {
            return;
        }
        self.cut.insert((host, other));
        if self.chance(60) {
            self.cut.insert((other, host));
            self.tally.count(Count::LinkCut);
        } else {
            self.tally.count(Count::LinkCutOneWay);
        }
        self.later(long, Event::HealLink(host, other));
    }

    fn cut_store(&mut self, host: usize, long: u64) {
        let way = match self.below(3) {
            0 => Count::StoreCut,
            1 => Count::StoreCutFromOnly,
            _ => Count::StoreCutToOnly,
        };
        self.tally.count(way);
        if way != Count::StoreCutFromOnly {
            self.cut_to_store.insert(host);
        }
        if way != Count::StoreCutToOnly {
            self.cut_from_store.insert(host);
        }
        self.later(long, Event::HealStore(host));
    }

    /// A machine or a rack loses its power: most nodes of a shard end at once.
    fn kill_shard(&mut self, host: usize) {
        for host in self.hosts_of_shard(host) {
            if self.chance(85) {
                self.kill(host);
            }
        }
    }

    /// The hosts of the nodes in the shard of this one.
    fn hosts_of_shard(&self, host: usize) -> Vec<usize> {
        let truth = &self.store.truth;
        let Some((shard, _)) = truth.shard_of(self.ids[host]) else { return Vec::new() };
        let is_member = |id: &NodeId| truth.nodes.get(id).is_some_and(|line| line.shard == shard);
        (0..self.ids.len()).filter(|host| is_member(&self.ids[*host])).collect()
    }

    /// Sometimes delays a transaction that changes a role, a list or slots, and strikes nodes of its shard meanwhile:
    /// such moments are short, so chance alone seldom finds them. Returns the delay.
    pub fn aim(&mut self, pid: Pid, of: &Transaction) -> u64 {
        let is_aim = |write: &Write| match write {
            Write::Put { key, .. } | Write::Delete { key } => {
                matches!(key, Key::Shard(_) | Key::Island(_) | Key::Failover(_))
            }
        };
        let gives_role = |write: &Write| matches!(write, Write::Delete { key: Key::Failover(_) });
        let often = if of.writes.iter().any(gives_role) { 30 } else { 8 };
        if self.calm || !of.writes.iter().any(is_aim) || !self.chance(often) {
            return 0;
        }
        let longest = if self.chance(70) { 60 } else { T };
        let delay = self.below(longest);
        let hosts = self.hosts_of_shard(self.processes[pid].host);
        for _ in 0..self.below(4) {
            if !hosts.is_empty() {
                let host = hosts[self.below(hosts.len() as u64) as usize];
                let at = self.below(delay + 20);
                self.later(at, Event::Strike(host));
            }
        }
        delay
    }

    pub fn strike(&mut self, host: usize) {
        let long = 50 + self.below(3 * T);
        match self.below(100) {
            0..60 => self.reset_link(self.current[host]),
            60..72 => self.kill(host),
            72..84 => self.stop(self.current[host], long),
            84..92 => self.cut_store(host, long),
            _ => self.order_failover(host),
        }
    }

    /// The data on the disk of a process: all, or those of some time ago.
    fn disk_of(&mut self, pid: Pid) -> (Log, Option<Led>) {
        let process = &self.processes[pid];
        let (mut log, durable) = (process.log.clone(), process.durable.filter(|_| process.whole));
        if !(process.kept && process.whole) {
            let len = match self.below(3) {
                0 => 0,
                1 => log.len(),
                _ => log.len().saturating_sub(self.below(10)),
            };
            log.truncate(len);
        }
        let process = &self.processes[pid];
        let lost = process.log.missing_in(&log).to_vec();
        self.tally.count_many(Count::Lost, lost.len() as u64);
        self.reported.extend(lost);
        (log, durable)
    }

    pub fn kill(&mut self, host: usize) {
        let pid = self.current[host];
        if !self.processes[pid].alive {
            return;
        }
        self.tally.count(Count::Kill);
        self.processes[pid].alive = false;
        self.deferred.remove(&pid);
        let rest = if self.chance(50) { 20 } else { 3 * T };
        let rest = self.below(rest);
        // As after a shutdown.
        if rest.is_multiple_of(8) {
            self.give_lease_up(pid);
        }
        self.later(rest, Event::Restart(host));
    }

    fn give_lease_up(&mut self, pid: Pid) {
        let lease = self.processes[pid].node.lease();
        if !self.store_down && lease.is_some_and(|lease| self.store.revoke(lease)) {
            self.tally.count(Count::GivenUp);
            self.store_changed();
        }
    }

    /// Kills the replicas of the second shard for so long that another shard's replica comes.
    fn orphan(&mut self) {
        let second = self.shard_ids[1];
        let members: Vec<NodeId> = self.store.truth.nodes_of(second).collect();
        let primary = self.store.truth.shards[&second].value.primary.node;
        for host in 0..self.ids.len() {
            let pid = self.current[host];
            let is_replica = members.contains(&self.ids[host]) && self.ids[host] != primary;
            if is_replica && self.processes[pid].alive {
                self.tally.count(Count::Kill);
                self.processes[pid].alive = false;
                self.deferred.remove(&pid);
                self.later(8 * T, Event::Restart(host));
            }
        }
    }

    pub fn restart(&mut self, host: usize) {
        let pid = self.current[host];
        if !self.processes[pid].alive {
            let (log, durable) = self.disk_of(pid);
            self.start(host, log, durable);
        }
    }

    pub fn stop(&mut self, pid: Pid, long: u64) {
        if self.processes[pid].runs() {
            self.tally.count(if long > T { Count::StopBeyondLease } else { Count::Stop });
            self.processes[pid].stopped = true;
            self.later(long, Event::Continue(pid));
        }
    }

    /// The process runs again, and serves the client that waits before it sees anything else.
    pub fn resume(&mut self, pid: Pid) {
        if !self.processes[pid].alive || !self.processes[pid].stopped {
            return;
        }
        self.processes[pid].stopped = false;
        self.note_old_data(pid);
        self.check_serving(pid);
        if self.processes[pid].serves(self.now) {
            let used = self.plan.shards as Slot * SLOTS_EACH;
            let slot = (0..used).find(|slot| self.processes[pid].serve.contains(*slot));
            slot.into_iter().for_each(|slot| self.write(pid, slot));
        }
        for event in self.deferred.remove(&pid).unwrap_or_default() {
            self.happen(event);
        }
    }

    fn note_old_data(&mut self, pid: Pid) {
        let process = &self.processes[pid];
        let (member, durable) = (process.member, process.durable);
        let primary = self.store.truth.shard_of(member.node).map(|(_, shard)| shard.value.primary);
        let is_old = durable.is_some_and(|led| {
            primary.is_some_and(|of| of.node == member.node && of.incarnation != led.incarnation)
        });
        if is_old {
            self.tally.count(Count::OldDataReturn);
        }
    }

    /// A process that only seems dead is started again: two of one node run.
    fn duplicate(&mut self, host: usize) {
        let pid = self.current[host];
        // Without the lease, only the lock of its file keeps a primary from running twice.
        if !self.processes[pid].runs() || self.plan.settings.continues {
            return;
        }
        self.tally.count(Count::RunsTwice);
        let returns_late = self.chance(50);
        let long = if returns_late { 3 * T + self.below(5 * T) } else { self.below(2 * T) };
        if self.chance(70) {
            self.stop(pid, long);
        }
        if returns_late {
            // The second process gets the role, and ends before the first one continues.
            let early = long / 3 + self.below(long / 3);
            self.later(early, Event::Then(Kind::FailOver, host));
            let late = long - self.below(T);
            self.later(late, Event::Then(Kind::KillShard, host));
        }
        // The second process lacks the writes that the first one confirms from now on.
        let (log, _) = self.disk_of(pid);
        self.start(host, log, None);
    }

    fn order_failover(&mut self, host: usize) {
        let pid = self.current[host];
        if !self.processes[pid].runs() {
            return;
        }
        let Some((_, shard)) = self.store.truth.shard_of(self.ids[host]) else { return };
        // With `continue`, the operator of a takeover asserts that the others are dead.
        let may_run = shard.value.list.iter().chain([&shard.value.primary]).any(|member| {
            member.node != self.ids[host]
                && self.processes.iter().any(|other| other.member == *member && other.alive)
        });
        let may_take = !(self.plan.settings.continues && may_run);
        let mode = match self.below(6) {
            0 | 1 => FailoverMode::Force,
            2 if may_take && self.chance(20) => {
                self.takeovers.insert(pid, self.now + 6 * T);
                FailoverMode::Takeover
            }
            _ => FailoverMode::Plain,
        };
        self.request(pid, NodeRequest::Failover(mode));
    }

    fn order_move(&mut self, host: usize, to: usize) {
        let pid = self.current[host];
        if !self.processes[pid].runs() {
            return;
        }
        let first = self.below(self.plan.shards as u64 * u64::from(SLOTS_EACH)) as Slot;
        let truth = &self.store.truth;
        let owner = truth
            .shards
            .keys()
            .find(|shard| truth.slots_of(**shard).is_some_and(|slots| slots.contains(first)));
        let Some(owner) = owner else { return };
        let owned = truth.slots_of(*owner).expect("it owns one");
        let used = self.plan.shards as Slot * SLOTS_EACH;
        let slots: SlotSet =
            (first..used.min(first + 3)).filter(|slot| owned.contains(*slot)).collect();
        if self.chance(60) {
            return self.order_copy(slots, to);
        }
        self.request(
            pid,
            NodeRequest::MoveSlots { slots: Box::new(slots), to: self.ids[to], leave_keys: false },
        );
    }

    /// The end of all faults.
    pub fn calm_down(&mut self) {
        self.say(|| "==== calm".to_string());
        self.calm = true;
        self.cut.clear();
        self.cut_to_store.clear();
        self.cut_from_store.clear();
        self.store_down = false;
        self.store_slow = false;
        for pid in 0..self.processes.len() {
            let host = self.processes[pid].host;
            if self.current[host] != pid && self.processes[pid].alive {
                self.processes[pid].alive = false;
                let lost = self.processes[pid].log.clone();
                self.reported.extend(lost.after(0));
            }
            self.resume(pid);
        }
        for host in 0..self.current.len() {
            self.restart(host);
        }
    }
}
