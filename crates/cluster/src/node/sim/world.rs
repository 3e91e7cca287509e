//! The simulated world: time, events, hosts, links, and replies to clients.

use super::chaos;
use super::marks::MarkOrders;
use super::process::{Log, Process};
use super::store::Store;
use super::tally::{Count, Tally};
use crate::id::{NodeId, ShardId};
use crate::node::action::{Duty, Led, Member, Ms, OpId, Operation, Outcome, Revision};
use crate::node::layout::HandoverId;
use crate::node::state::Shard;
use crate::node::{Action, Change, Entry, LeaseId, Node, NodeRequest, RequestId, Settings};
use crate::slots::Slot;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use weft_base::rng::Rng;

/// The length of a lease.
pub(super) const T: Ms = 1000;
/// Slots that each shard begins with.
pub(super) const SLOTS_EACH: Slot = 4;
/// A client of the store gives up after this.
const STORE_TIMEOUT: Ms = 400;

pub(super) type Pid = usize;

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Granted(LeaseId),
    KeptAlive,
    LeaseUnknown,
    Probed,
    Snapshot(Revision, Vec<Entry>),
    Outcome(Outcome),
}

/// A message of the replication between two hosts.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// A replica asks for the stream after its log.
    Pull {
        from: Pid,
        link: u64,
        epoch: Revision,
        len: u64,
        hash: u64,
        attached: bool,
        whole: bool,
    },
    Push {
        to: Pid,
        link: u64,
        epoch: Revision,
        after: u64,
        writes: Vec<u64>,
    },
    Full {
        to: Pid,
        link: u64,
        epoch: Revision,
        log: Log,
    },
    Ask {
        epoch: Revision,
        ask: OpId,
    },
    Promise {
        from: Pid,
        ask: OpId,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    Tick(Pid),
    Pull(Pid),
    ToStore(Pid, OpId, Operation),
    FromStore(Pid, OpId, Answer),
    Timeout(Pid, OpId),
    Pump(Pid),
    Watched(Pid, OpId, Vec<(Revision, Vec<Change>)>),
    WatchLost(Pid, OpId),
    Net {
        from: usize,
        to: usize,
        message: Message,
    },
    Loaded(Pid, u64, Log),
    Drain(Pid),
    Expire,
    Client,
    Chaos,
    /// A fault of this host while a transaction of its shard is on its way.
    Strike(usize),
    /// A later fault of a chain.
    Then(chaos::Kind, usize),
    Calm,
    Check,
    // The ends of faults.
    HealLink(usize, usize),
    HealStore(usize),
    StoreUp,
    StoreFast,
    Restart(usize),
    Continue(Pid),
}

/// The conditions of a run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub hosts: usize,
    pub shards: usize,
    pub settings: Settings,
    /// Restarted processes have all their writes.
    pub durable: bool,
    /// How often each kind of fault or order happens.
    pub weights: chaos::Weights,
}

pub(super) struct World {
    pub rng: Rng,
    pub now: Ms,
    order: u64,
    queue: BinaryHeap<Reverse<(Ms, u64)>>,
    events: BTreeMap<u64, Event>,
    pub plan: Plan,
    pub store: Store,
    pub ids: Vec<NodeId>,
    pub shard_ids: Vec<ShardId>,
    pub processes: Vec<Process>,
    /// The last process of each host.
    pub current: Vec<Pid>,
    /// Events of stopped processes.
    pub deferred: BTreeMap<Pid, Vec<Event>>,
    /// Links from one host to another that lose everything.
    pub cut: BTreeSet<(usize, usize)>,
    /// Hosts whose requests don't reach the store; whose answers are lost.
    pub cut_to_store: BTreeSet<usize>,
    pub cut_from_store: BTreeSet<usize>,
    pub store_down: bool,
    pub store_slow: bool,
    /// Milliseconds of the store in 1000 real ones.
    pub store_rate: u64,
    pub calm: bool,
    writes: u64,
    requests: u64,
    /// Requests that move slots.
    moves: BTreeSet<RequestId>,
    pub marks: MarkOrders,
    /// Moves of keys whose target has everything: source and target.
    pub prepared: BTreeMap<HandoverId, (Pid, Pid)>,
    /// Acknowledged writes of each shard, with their offsets.
    pub acked: BTreeMap<ShardId, Vec<(u64, u64)>>,
    /// Writes that were reported as discarded, or died with a process.
    pub reported: BTreeSet<u64>,
    /// Processes whose takeover an operator has ordered, and until when it may happen.
    pub takeovers: BTreeMap<Pid, Ms>,
    /// The epoch and the primary of each shard.
    pub epochs: BTreeMap<ShardId, (Revision, Member)>,
    /// The shard of each node, at the last commit.
    pub shard_of: BTreeMap<NodeId, ShardId>,
    /// Errors that requests got.
    pub refused: Vec<String>,
    pub wrong: Option<String>,
    pub tally: Tally,
    pub verbose: bool,
}

impl World {
    pub fn new(rng: Rng, plan: Plan, verbose: bool) -> World {
        World {
            rng,
            now: 10,
            order: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            plan,
            store: Store::default(),
            ids: Vec::new(),
            shard_ids: Vec::new(),
            processes: Vec::new(),
            current: Vec::new(),
            deferred: BTreeMap::new(),
            cut: BTreeSet::new(),
            cut_to_store: BTreeSet::new(),
            cut_from_store: BTreeSet::new(),
            store_down: false,
            store_slow: false,
            store_rate: 1000,
            calm: false,
            writes: 0,
            requests: 0,
            moves: BTreeSet::new(),
            marks: MarkOrders::default(),
            prepared: BTreeMap::new(),
            acked: BTreeMap::new(),
            reported: BTreeSet::new(),
            takeovers: BTreeMap::new(),
            epochs: BTreeMap::new(),
            shard_of: BTreeMap::new(),
            refused: Vec::new(),
            wrong: None,
            tally: Tally::default(),
            verbose,
        }
    }

    pub fn say(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            println!("{:6} {}", self.now, text());
        }
    }

    pub fn fault(&mut self, wrong: String) {
        self.say(|| format!("WRONG {wrong}"));
        self.wrong.get_or_insert(wrong);
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    pub fn later(&mut self, after: Ms, event: Event) {
        self.order += 1;
        self.queue.push(Reverse((self.now + after, self.order)));
        self.events.insert(self.order, event);
    }

    pub fn next(&mut self) -> Option<Event> {
        let Reverse((time, order)) = self.queue.pop()?;
        self.now = time;
        self.events.remove(&order)
    }

    /// The time that a message takes.
    fn delay(&mut self) -> Ms {
        match self.rng.below(100) {
            0..3 if !self.calm => self.rng.below(2000),
            0..10 => self.rng.below(100),
            _ => 1 + self.rng.below(8),
        }
    }

    fn store_delay(&mut self) -> Ms {
        match self.store_slow {
            true => self.rng.below(350),
            false => self.delay(),
        }
    }

    // ---- processes

    /// Starts a process on a host.
    pub fn start(&mut self, host: usize, log: Log, durable: Option<Led>) -> Pid {
        let member = Member { node: self.ids[host], incarnation: self.rng.next_u64() };
        let settings = self.plan.settings.clone();
        let process = Process::new(self.now, host, member, settings, log.clone(), &mut self.rng);
        let pid = self.processes.len();
        self.say(|| format!("start {pid} on {host}: {member:?}"));
        self.processes.push(process);
        self.current[host] = pid;
        self.execute(pid);
        let load = if log.len() == 0 { 0 } else { self.rng.below(T / 2) };
        (self.processes[pid].durable, self.processes[pid].kept) = (durable, durable.is_some());
        self.later(load, Event::Loaded(pid, 0, log));
        let (tick, pull) = (self.rng.below(100), self.rng.below(50));
        self.later(tick, Event::Tick(pid));
        self.later(pull, Event::Pull(pid));
        pid
    }

    /// Passes one event to the machine.
    pub fn call(&mut self, pid: Pid, run: impl FnOnce(&mut Node, Ms, &mut Vec<Action>)) {
        let process = &mut self.processes[pid];
        let local = process.local(self.now);
        run(&mut process.node, local, &mut process.actions);
        self.check_order(pid);
        self.execute(pid);
    }

    /// Passes several events to the machine before its actions are executed.
    fn call_for_events(&mut self, pid: Pid, run: impl FnOnce(&mut Node, Ms, &mut Vec<Action>)) {
        let process = &mut self.processes[pid];
        let local = process.local(self.now);
        run(&mut process.node, local, &mut process.actions);
        self.execute(pid);
    }

    pub fn request(&mut self, pid: Pid, request: NodeRequest) {
        self.say(|| format!("{pid} operator: {request:?}"));
        self.requests += 1;
        let id = RequestId(self.requests);
        if matches!(request, NodeRequest::MoveSlots { .. }) {
            self.moves.insert(id);
        }
        self.note_mark_order(pid, id, &request);
        self.call(pid, |node, now, out| node.request(now, id, request, out));
    }

    fn execute(&mut self, pid: Pid) {
        let actions = std::mem::take(&mut self.processes[pid].actions);
        for action in actions {
            self.act(pid, action);
        }
        self.acknowledge(pid);
        self.check_serving(pid);
    }

    fn act(&mut self, pid: Pid, action: Action) {
        self.say(|| match &action {
            Action::Serve(slots) => format!("{pid} serves {slots:?}"),
            Action::Store { operation: Operation::KeepAlive { .. }, .. }
            | Action::AcknowledgeUntil(_)
            | Action::Publish => String::new(),
            Action::Store { op, operation: Operation::Transact(of) } => {
                let writes = of.writes.iter().map(|write| match write {
                    crate::node::Write::Put { key, value, .. } => {
                        format!("{key:.16}={:?}", String::from_utf8_lossy(value))
                    }
                    crate::node::Write::Delete { key } => format!("-{key:.16}"),
                });
                let writes: Vec<String> = writes.collect();
                format!("{pid} {op:?} {:?} {}", of.compares, writes.join(" "))
            }
            action => format!("{pid} {action:?}"),
        });
        let host = self.processes[pid].host;
        let process = &mut self.processes[pid];
        match action {
            Action::Store { op, operation } => {
                process.awaited.insert(op);
                let mut delay = self.store_delay();
                if let Operation::Transact(of) = &operation {
                    delay += self.aim(pid, of);
                }
                self.later(delay, Event::ToStore(pid, op, operation));
                self.later(STORE_TIMEOUT, Event::Timeout(pid, op));
            }
            Action::AcknowledgeUntil(deadline) => process.deadline = deadline,
            Action::Serve(slots) => process.serve = slots,
            Action::Drain(id) => {
                process.drains.push((id, self.now));
                let delay = self.rng.below(30);
                self.later(delay, Event::Drain(pid));
            }
            Action::Duty(duty) => {
                // Clients of a lost role don't get an answer.
                process.pending.clear();
                let shard = |duty: &Duty| match duty {
                    Duty::Lead { shard, .. } | Duty::Follow { shard, .. } => Some(*shard),
                    Duty::None => None,
                };
                if shard(&process.duty) != shard(&duty) {
                    // Messages on their way belong to the other shard's connection.
                    process.link += 1;
                }
                process.duty = duty;
                if let Duty::Lead { epoch, .. } = duty {
                    let led = Led { incarnation: process.member.incarnation, epoch };
                    process.durable = self.plan.durable.then_some(led);
                    process.kept = self.plan.durable;
                }
                process.attached = None;
                process.handshakes.clear();
                process.through = 0;
                self.check_data(pid);
            }
            Action::Confirm { through } => process.through = through,
            Action::AskPromise { member, epoch, ask } => {
                if let Some(to) = self.ids.iter().position(|id| *id == member.node) {
                    self.send(host, to, Message::Ask { epoch, ask });
                }
            }
            Action::Promise { to, ask, .. } => {
                if let Some(to) = self.ids.iter().position(|id| *id == to) {
                    self.tally.count(Count::Promised);
                    self.send(host, to, Message::Promise { from: pid, ask });
                }
            }
            Action::Reply { request, result } => {
                let is_move = self.moves.remove(&request);
                self.refused.extend(result.as_ref().err().cloned());
                if self.marks.is_pending(request) {
                    self.end_mark_order(request, result.is_ok());
                } else if result.is_ok() && is_move {
                    self.tally.count(Count::Moved);
                } else if result.is_ok() {
                    self.tally.count(Count::Handovers);
                }
            }
            Action::Publish | Action::Log(_) => {}
        }
    }

    // ---- the store

    pub fn store_now(&self) -> Ms {
        self.now * self.store_rate / 1000
    }

    pub fn reach_store(&mut self, pid: Pid, op: OpId, operation: Operation) {
        let host = self.processes[pid].host;
        if self.store_down || self.cut_to_store.contains(&host) {
            // A request may arrive long after its client has given up.
            if self.chance(40) {
                let delay = 20 + self.rng.below(2 * T);
                self.later(delay, Event::ToStore(pid, op, operation));
            }
            return;
        }
        let moved = self.moved_copies();
        let (before, store_now) = (self.store.revision, self.store_now());
        let answer = match operation {
            Operation::Grant { ttl } => Answer::Granted(self.store.grant(store_now, ttl)),
            Operation::KeepAlive { lease } => match self.store.keep_alive(store_now, lease) {
                true => Answer::KeptAlive,
                false => Answer::LeaseUnknown,
            },
            Operation::Probe => Answer::Probed,
            Operation::Snapshot => {
                let (revision, entries) = self.store.snapshot();
                Answer::Snapshot(revision, entries)
            }
            Operation::Watch { after } => {
                if self.processes[pid].awaited.remove(&op) {
                    self.processes[pid].watch = Some((op, after));
                    self.pump_later(pid);
                }
                return;
            }
            Operation::Transact(transaction) => Answer::Outcome(self.store.transact(&transaction)),
        };
        self.say(|| match answer {
            Answer::Outcome(outcome) => format!("store: {pid} {op:?} {outcome:?}"),
            _ => String::new(),
        });
        if self.cut_from_store.contains(&host) || (!self.calm && self.chance(1)) {
            self.tally.count(Count::Unknown);
        } else {
            let delay = self.store_delay();
            self.later(delay, Event::FromStore(pid, op, answer));
        }
        if self.store.revision > before {
            self.check_copies(&moved);
            self.check_marks();
            self.store_changed();
        }
    }

    pub fn deliver_answer(&mut self, pid: Pid, op: OpId, answer: Answer) {
        if !self.processes[pid].awaited.remove(&op) {
            return;
        }
        self.call(pid, |node, now, out| match answer {
            Answer::Granted(lease) => node.granted(now, op, lease, out),
            Answer::KeptAlive => node.kept_alive(now, op, out),
            Answer::LeaseUnknown => node.lease_unknown(now, op, out),
            Answer::Probed => node.answered(now, op, out),
            Answer::Snapshot(revision, entries) => node.snapshot(now, op, revision, entries, out),
            Answer::Outcome(outcome) => node.transacted(now, op, outcome, out),
        });
    }

    pub fn time_out(&mut self, pid: Pid, op: OpId) {
        if self.processes[pid].awaited.remove(&op) {
            self.call_for_events(pid, |node, now, out| {
                node.transacted(now, op, Outcome::Unknown, out);
                node.failed(now, op, out);
            });
        }
    }

    fn pump_later(&mut self, pid: Pid) {
        if self.processes[pid].watch.is_some() && !self.processes[pid].pump_due {
            self.processes[pid].pump_due = true;
            let delay = self.store_delay();
            self.later(delay, Event::Pump(pid));
        }
    }

    /// Sends a watch what it has not got.
    pub fn pump(&mut self, pid: Pid) {
        let process = &mut self.processes[pid];
        process.pump_due = false;
        let (host, Some((op, sent))) = (process.host, process.watch) else { return };
        if self.store_down || self.cut_from_store.contains(&host) {
            self.processes[pid].pump_due = true;
            self.later(50, Event::Pump(pid));
            return;
        }
        match self.store.changes_after(sent) {
            None => {
                self.processes[pid].watch = None;
                self.later(1, Event::WatchLost(pid, op));
            }
            Some([]) => {}
            Some(changes) => {
                let changes = changes.to_vec();
                self.processes[pid].watch = Some((op, self.store.revision));
                // One link delivers in order: with no delay after the pump's.
                self.later(0, Event::Watched(pid, op, changes));
            }
        }
    }

    /// After each commit: what must hold in the store and for those that serve.
    pub fn store_changed(&mut self) {
        self.check_migrations();
        self.check_primaries();
        self.check_layout();
        for pid in 0..self.processes.len() {
            if self.processes[pid].alive {
                self.pump_later(pid);
                self.check_serving(pid);
            }
        }
        let of_shard = |(id, shard): (&ShardId, &Shard)| (*id, (shard.epoch, shard.value.primary));
        let shards: Vec<_> = self.store.truth.shards.iter().map(of_shard).collect();
        for (id, (epoch, primary)) in shards {
            let earlier = self.epochs.insert(id, (epoch, primary));
            let (known, led) = earlier.unwrap_or((0, primary));
            if led.node == primary.node && led.incarnation != primary.incarnation {
                self.tally.count(Count::LedAgain);
            }
            if epoch < known {
                self.fault(format!("the epoch of {id:?} goes from {known} to {epoch}"));
            }
            if epoch > known && known > 0 {
                self.tally.count(Count::Promotions);
                self.made_primary(id);
            }
        }
    }

    // ---- links

    pub fn send(&mut self, from: usize, to: usize, message: Message) {
        let delay = self.delay();
        self.later(delay, Event::Net { from, to, message });
    }

    // ---- clients

    /// A client writes to, or reads from, a process that it believes to be right.
    pub fn client(&mut self) {
        let pid = match self.chance(85) {
            true => {
                let host = self.below(self.current.len() as u64) as usize;
                self.current[host]
            }
            false => self.below(self.processes.len() as u64) as usize,
        };
        let process = &self.processes[pid];
        if !process.serves(self.now) {
            return;
        }
        let used = self.plan.shards as Slot * SLOTS_EACH;
        let slots: Vec<Slot> = (0..used).filter(|slot| process.serve.contains(*slot)).collect();
        let slot = slots[self.rng.below(slots.len() as u64) as usize];
        self.write(pid, slot);
    }

    pub fn write(&mut self, pid: Pid, slot: Slot) {
        self.writes += 1;
        let write = self.writes;
        let process = &mut self.processes[pid];
        process.log.push(write);
        let offset = process.log.len();
        process.pending.push(super::process::Pending { write, slot, offset });
        process.node.written(offset);
        self.acknowledge(pid);
    }

    /// Replies to the writes that are confirmed, unless the deadline has passed.
    fn acknowledge(&mut self, pid: Pid) {
        let quorum = self.plan.settings.quorum > 0;
        let process = &mut self.processes[pid];
        let Duty::Lead { shard, .. } = process.duty else {
            process.pending.clear();
            return;
        };
        if process.pending.is_empty() {
            return;
        }
        if process.local(self.now) >= process.deadline {
            // Their connections are closed.
            process.pending.clear();
            return;
        }
        let through = if quorum { process.through } else { u64::MAX };
        let ready = process.pending.iter().take_while(|pending| pending.offset <= through).count();
        let ready: Vec<_> = process.pending.drain(..ready).collect();
        for pending in ready {
            if let Some(wrong) = self.processes[pid].check(&self.store, Some(pending.slot)) {
                self.fault(format!("acknowledged: {wrong}"));
            }
            self.tally.count(Count::Acked);
            self.say(|| format!("{pid} acknowledges {} at {}", pending.write, pending.offset));
            self.acked.entry(shard).or_default().push((pending.offset, pending.write));
        }
    }

    /// The commands on slots that aren't served have ended, or end without a reply.
    pub fn drain(&mut self, pid: Pid) {
        let now = self.now;
        let process = &mut self.processes[pid];
        let serve = process.serve.clone();
        let is_late = process.drains.iter().any(|(_, since)| now > since + T / 3);
        if is_late {
            process.pending.retain(|pending| serve.contains(pending.slot));
        }
        if process.pending.iter().any(|pending| !serve.contains(pending.slot)) {
            self.later(20, Event::Drain(pid));
            return;
        }
        for (id, _) in std::mem::take(&mut self.processes[pid].drains) {
            self.call(pid, |node, now, out| node.drained(now, id, false, out));
        }
    }
}
