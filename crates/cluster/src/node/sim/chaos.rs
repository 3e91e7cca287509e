//! Faults and operators.

use super::process::Log;
use super::world::{Event, Pid, SLOTS_EACH, T, World};
use crate::node::action::Led;
use crate::node::{FailoverMode, NodeRequest};
use crate::slots::{Slot, SlotSet};

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
        let (host, other) = (self.some_victim(), self.some_host());
        let long = 50 + self.below(3 * T);
        let what = self.below(100);
        self.say(|| format!("---- {what} for {host} and {other}, {long} ms"));
        match what {
            0..10 if host != other => {
                self.cut.insert((host, other));
                if self.chance(60) {
                    self.cut.insert((other, host));
                }
                self.later(long, Event::HealLink(host, other));
            }
            0..10 => {}
            10..24 => {
                let ways = self.below(3);
                if ways != 1 {
                    self.cut_to_store.insert(host);
                }
                if ways != 2 {
                    self.cut_from_store.insert(host);
                }
                self.later(long, Event::HealStore(host));
            }
            24..27 => {
                self.store_down = true;
                let long = self.below(4 * T);
                self.later(long, Event::StoreUp);
            }
            27..31 => {
                self.store_slow = true;
                self.later(long, Event::StoreFast);
            }
            31..35 => self.store.compact(),
            35..40 => {
                if let Some((op, _)) = self.processes[self.current[host]].watch.take() {
                    self.later(5, Event::WatchLost(self.current[host], op));
                }
            }
            40..55 => self.kill(host),
            55..68 => self.stop(self.current[host], long),
            68..72 => self.duplicate(host),
            72..78 => self.reset_link(self.current[host]),
            78..88 => self.order_failover(host),
            88..97 => self.order_move(host, other),
            _ => {
                let pid = self.current[host];
                if self.processes[pid].runs() {
                    self.request(pid, NodeRequest::CancelMoves);
                }
            }
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
        self.tally.lost += lost.len() as u64;
        self.reported.extend(lost);
        (log, durable)
    }

    pub fn kill(&mut self, host: usize) {
        let pid = self.current[host];
        if !self.processes[pid].alive {
            return;
        }
        self.tally.kills += 1;
        self.processes[pid].alive = false;
        self.deferred.remove(&pid);
        let rest = if self.chance(50) { 20 } else { 3 * T };
        let rest = self.below(rest);
        self.later(rest, Event::Restart(host));
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
            self.tally.stops += 1;
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

    /// A process that only seems dead is started again: two of one node run.
    fn duplicate(&mut self, host: usize) {
        let pid = self.current[host];
        // Without the lease, only the lock of its file keeps a primary from running twice.
        if !self.processes[pid].runs() || self.plan.settings.continues {
            return;
        }
        self.tally.zombies += 1;
        let long = self.below(2 * T);
        if self.chance(70) {
            self.stop(pid, long);
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
                self.takeovers.insert(host, self.now + 6 * T);
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
