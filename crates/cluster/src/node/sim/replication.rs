//! Replication in the simulation: a replica pulls, its primary pushes, or sends a whole copy.

use super::process::Log;
use super::tally::Count;
use super::world::{Event, Message, Pid, T, World};
use crate::node::action::{Duty, OpId, Revision};

impl World {
    /// A replica asks its primary for more.
    pub fn pull(&mut self, pid: Pid) {
        let delay = 30 + self.below(20);
        self.later(delay, Event::Pull(pid));
        let (breaks, gives_up) = (!self.calm && self.chance(1), self.chance(5));
        let process = &self.processes[pid];
        let Duty::Follow { epoch, .. } = process.duty else { return };
        let is_attached = process.attached == Some(epoch);
        if is_attached && breaks || !is_attached && gives_up {
            self.reset_link(pid);
        }
        let process = &self.processes[pid];
        let Duty::Follow { primary, epoch, .. } = process.duty else { return };
        // The handshake comes after what it loads: its files, or a copy of an earlier link.
        if !process.whole && process.attached != Some(epoch) {
            return;
        }
        let Some(to) = self.ids.iter().position(|id| *id == primary) else { return };
        let len = process.log.len();
        let message = Message::Pull {
            from: pid,
            link: process.link,
            epoch,
            len,
            hash: process.log.hash(len),
            attached: process.attached == Some(epoch),
            whole: process.whole,
        };
        let host = process.host;
        self.send(host, to, message);
    }

    /// A message arrives at a host.
    pub fn receive(&mut self, from: usize, to: usize, message: Message) {
        let pid = self.current[to];
        match message {
            Message::Pull { .. } => self.receive_pull(pid, from, message),
            Message::Push { to, link, epoch, after, writes } => {
                if self.may_apply(to, link, from, epoch) {
                    self.apply(to, after, &writes);
                }
            }
            Message::Full { to, link, epoch, log } => {
                // One link delivers in order: no copy follows the stream.
                let is_new = self.processes[to].attached != Some(epoch);
                if is_new && self.may_apply(to, link, from, epoch) {
                    self.begin_load(to, log);
                }
            }
            Message::Ask { epoch, ask } => {
                let id = self.ids[from];
                self.call(pid, |node, now, out| node.promise_asked(now, id, epoch, ask, out));
            }
            Message::Promise { from, ask } => self.receive_promise(pid, from, ask),
        }
    }

    fn receive_promise(&mut self, pid: Pid, from: Pid, ask: OpId) {
        let member = self.processes[from].member;
        self.call(pid, |node, now, out| node.promised(now, member, ask, out));
    }

    fn receive_pull(&mut self, pid: Pid, from_host: usize, message: Message) {
        let Message::Pull { from, link, epoch, len, hash, attached, whole } = message else {
            return;
        };
        let process = &self.processes[pid];
        let leads = matches!(process.duty, Duty::Lead { epoch: own, .. } if own == epoch);
        if !leads {
            return;
        }
        // A new link of a replica ends its earlier ones.
        let last = process.handshakes.range((from, 0)..=(from, u64::MAX)).next_back();
        if last.is_some_and(|((_, last), _)| link < *last) {
            return;
        }
        let host = process.host;
        let is_prefix = process.log.has_prefix(len, hash);
        if attached && whole && !is_prefix {
            self.fault(format!("{from} follows {pid} with other data"));
            return;
        }
        if !attached {
            if !process.node.admits_replicas() {
                self.tally.count(Count::RefusedHandshake);
                return;
            }
            // A backlog may be too short for the missing part. A link has one handshake.
            let copies = !is_prefix || self.chance(20);
            let handshakes = &mut self.processes[pid].handshakes;
            let is_first = !handshakes.contains_key(&(from, link));
            let copies = *handshakes.entry((from, link)).or_insert(copies);
            if copies && !is_first {
                return;
            }
            if !copies && !is_prefix {
                return self.fault(format!("{from} has other data in its second handshake"));
            }
        }
        if !attached && self.processes[pid].handshakes[&(from, link)] {
            self.tally.count(Count::FullSyncs);
            let (log, member) = (self.processes[pid].log.clone(), self.processes[from].member);
            self.call(pid, |node, now, out| {
                node.replica_progress(now, member, epoch, 0, false, out);
            });
            self.send(host, from_host, Message::Full { to: from, link, epoch, log });
            return;
        }
        let (member, acked) = (self.processes[from].member, if whole { len } else { 0 });
        self.call(pid, |node, now, out| {
            node.replica_progress(now, member, epoch, acked, whole, out);
        });
        if whole {
            let writes = self.processes[pid].log.after(len).to_vec();
            let push = Message::Push { to: from, link, epoch, after: len, writes };
            self.send(host, from_host, push);
        }
    }

    fn may_apply(&mut self, pid: Pid, link: u64, from: usize, epoch: Revision) -> bool {
        let id = self.ids[from];
        let (now, process) = (self.now, &mut self.processes[pid]);
        if !process.alive || process.link != link || !process.node.may_follow(id, epoch) {
            return false;
        }
        process.node.heard_primary(process.local(now));
        if let Duty::Follow { epoch, .. } = process.duty {
            process.attached = Some(epoch);
        }
        true
    }

    fn apply(&mut self, pid: Pid, after: u64, writes: &[u64]) {
        let process = &mut self.processes[pid];
        if !process.whole || process.log.len() != after {
            return;
        }
        // Replicas don't sync what they acknowledge, and their mark stays.
        process.kept = false;
        writes.iter().for_each(|write| process.log.push(*write));
        let (len, durable) = (process.log.len(), process.durable);
        self.call(pid, |node, now, out| node.data_at(now, len, durable, out));
    }

    /// The data of this replica are dropped for a copy.
    fn begin_load(&mut self, pid: Pid, log: Log) {
        let process = &mut self.processes[pid];
        if !process.whole {
            return;
        }
        let discarded: Vec<u64> = process.log.missing_in(&log).to_vec();
        self.tally.count_many(Count::Discarded, discarded.len() as u64);
        self.reported.extend(discarded);
        let process = &mut self.processes[pid];
        process.log = Log::default();
        (process.whole, process.kept) = (false, false);
        process.load += 1;
        let load = process.load;
        self.call(pid, |node, now, out| node.data_incomplete(now, out));
        let time = self.below(T / 2);
        self.later(time, Event::Loaded(pid, load, log));
    }

    pub fn loaded(&mut self, pid: Pid, load: u64, log: Log) {
        let process = &mut self.processes[pid];
        if process.load != load || process.whole {
            return;
        }
        let (len, durable) = (log.len(), process.durable);
        process.log = log;
        process.whole = true;
        self.call(pid, |node, now, out| node.data_at(now, len, durable, out));
    }

    /// A node that has left its shard before it had a copy begins again with what it has.
    pub fn begin_again(&mut self, pid: Pid) {
        let process = &self.processes[pid];
        if process.whole && process.node.has_lost_data() {
            let len = process.log.len();
            self.call(pid, |node, now, out| node.data_at(now, len, None, out));
        }
    }

    /// The link of a replica breaks.
    pub fn reset_link(&mut self, pid: Pid) {
        self.tally.count(Count::LinkReset);
        let process = &mut self.processes[pid];
        process.link += 1;
        process.attached = None;
        let (member, Duty::Follow { primary, .. }) = (process.member, process.duty) else { return };
        let Some(to) = self.ids.iter().position(|id| *id == primary) else { return };
        let to = self.current[to];
        if self.processes[to].runs() {
            self.call(to, |node, now, out| node.replica_gone(now, member, out));
        }
    }
}
