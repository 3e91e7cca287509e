//! Clusters in a simulated world, by seed.
//!
//! Each run has 3 to 12 nodes in one to four shards, with the real machine. Clocks run at different
//! rates. The store is linearizable, and slow, cut off, restarted, compacted; it loses answers after
//! it has committed, and gets requests long after their sender has given up. Links lose messages in
//! one direction. Processes are killed, restarted with old data or all, stopped for longer than
//! their lease and continued, and started twice. Clients write through a model of replication;
//! operators order failovers and move slots. Then the faults end, and the cluster must converge.
//!
//! `orders` runs nodes that join and leave clusters, `races` has single scenes.
//!
//! `checks` and `process::Process::check` have the invariants. `CLUSTER_RUNS` is the number of runs;
//! `CLUSTER_SEED` repeats one with all output.

mod chaos;
mod checks;
mod copies;
mod marks;
mod orders;
mod process;
mod races;
mod replication;
mod store;
mod tally;
mod tests;
mod world;

use crate::id::NodeId;
use crate::map::Addresses;
use crate::node::action::{Ms, Transaction, Write};
use crate::node::layout::{IslandValue, Key, NodeValue, ShardValue};
use crate::node::{Node, Settings};
use crate::slots::{Slot, SlotSet};
use process::Log;
use tally::Tally;
use weft_base::rng::Rng;
use world::{Event, Pid, Plan, SLOTS_EACH, T, World};

/// Duration of the faults.
const FAULTS: Ms = 12_000;

fn plan(rng: &mut Rng) -> Plan {
    let shards = 1 + rng.below(3) as usize;
    let quorum = rng.below(3) as u32;
    let least = shards * (quorum as usize + 1).max(2);
    let hosts = (least + rng.below(4) as usize).clamp(3, 12);
    let settings =
        Settings { timeout: T, quorum, continues: rng.below(3) == 0, ..Settings::default() };
    let durable = rng.below(4) == 0;
    Plan { hosts, shards, settings, durable, weights: chaos::weights(rng) }
}

impl Plan {
    /// The shard with which a host begins. If replicas move, the first shard has more than it needs.
    fn shard_of(&self, host: usize) -> usize {
        match self.settings.migrates && host > 2 * self.settings.quorum.max(1) as usize + 1 {
            true => 0,
            false => host % self.shards,
        }
    }
}

fn new_id(rng: &mut Rng) -> NodeId {
    NodeId::from_random(std::array::from_fn(|_| rng.below(256) as u8))
}

fn start_hosts(world: &mut World) {
    let hosts = world.plan.hosts;
    world.ids = (0..hosts).map(|_| new_id(&mut world.rng)).collect();
    world.current = vec![0; hosts];
    for host in 0..hosts {
        world.start(host, Log::default(), None);
    }
}

/// Writes the layout of a cluster whose nodes have met.
fn populate(world: &mut World) {
    let (hosts, shards) = (world.plan.hosts, world.plan.shards);
    start_hosts(world);
    world.shard_ids = (0..shards).map(|_| new_id(&mut world.rng)).collect();
    let island = new_id(&mut world.rng);
    let put = |key, value| Write::Put { key, value, lease: None };
    let mut writes = Vec::new();
    let settings = world.plan.settings.clone();
    let mut owners = std::collections::BTreeMap::new();
    for (at, shard) in world.shard_ids.iter().enumerate() {
        let first = at as Slot * SLOTS_EACH;
        owners.insert(*shard, (first..first + SLOTS_EACH).collect::<SlotSet>());
        let value = ShardValue {
            island,
            epoch: None,
            primary: world.processes[at].member,
            list: Vec::new(),
            quorum: settings.quorum,
            continues: settings.continues,
        };
        writes.push(put(Key::Shard(*shard), value.encode()));
    }
    for host in 0..hosts {
        let value = NodeValue {
            shard: world.shard_ids[world.plan.shard_of(host)],
            addresses: Addresses::default(),
            zone: String::new(),
            no_failover: false,
        };
        writes.push(put(Key::Node(world.ids[host]), value.encode()));
    }
    writes.push(put(Key::Island(island), IslandValue::Slots(owners).encode()));
    writes.push(put(Key::Format, b"weft 1\n".to_vec()));
    world.store.transact(&Transaction { compares: Vec::new(), writes });
    world.store_changed();
}

impl World {
    /// The process that an event belongs to.
    fn process_of(&self, event: &Event) -> Option<Pid> {
        match event {
            Event::Tick(pid)
            | Event::Pull(pid)
            | Event::FromStore(pid, ..)
            | Event::Timeout(pid, _)
            | Event::Watched(pid, ..)
            | Event::WatchLost(pid, _)
            | Event::Loaded(pid, ..)
            | Event::Drain(pid) => Some(*pid),
            Event::Net { to, message, .. } => Some(match message {
                world::Message::Push { to, .. } | world::Message::Full { to, .. } => *to,
                world::Message::Pull { .. }
                | world::Message::Ask { .. }
                | world::Message::Promise { .. } => self.current[*to],
            }),
            Event::ToStore(..)
            | Event::Pump(_)
            | Event::Expire
            | Event::Client
            | Event::Chaos
            | Event::Strike(_)
            | Event::Then(..)
            | Event::Calm
            | Event::Check
            | Event::HealLink(..)
            | Event::HealStore(_)
            | Event::StoreUp
            | Event::StoreFast
            | Event::Restart(_)
            | Event::Continue(_) => None,
        }
    }

    pub(super) fn happen(&mut self, event: Event) {
        if let Event::Net { from, to, .. } = &event
            && self.cut.contains(&(*from, *to))
        {
            return;
        }
        if let Some(pid) = self.process_of(&event) {
            if !self.processes[pid].alive {
                return;
            }
            if self.processes[pid].stopped {
                self.deferred.entry(pid).or_default().push(event);
                return;
            }
        }
        match event {
            Event::Tick(pid) => {
                self.call(pid, Node::tick);
                self.drive_copies(pid);
                self.begin_again(pid);
                self.check_shown_marks(pid);
                let delay = 60 + self.below(40);
                self.later(delay, Event::Tick(pid));
            }
            Event::Pull(pid) => self.pull(pid),
            Event::ToStore(pid, op, operation) => self.reach_store(pid, op, operation),
            Event::FromStore(pid, op, answer) => self.deliver_answer(pid, op, answer),
            Event::Timeout(pid, op) => self.time_out(pid, op),
            Event::Pump(pid) => self.pump(pid),
            Event::Watched(pid, op, changes) => {
                for (revision, changes) in changes {
                    self.call(pid, |node, now, out| node.changes(now, op, revision, changes, out));
                }
            }
            Event::WatchLost(pid, op) => {
                self.call(pid, |node, now, out| node.failed(now, op, out));
            }
            Event::Net { from, to, message } => self.receive(from, to, message),
            Event::Loaded(pid, load, log) => self.loaded(pid, load, log),
            Event::Drain(pid) => self.drain(pid),
            other => self.happen_outside(other),
        }
    }

    /// Events that belong to no process.
    fn happen_outside(&mut self, event: Event) {
        match event {
            Event::Expire => {
                let now = self.store_now();
                if !self.store_down && self.store.expire(now) {
                    self.store_changed();
                }
                self.later(20, Event::Expire);
            }
            Event::Client => {
                self.client();
                let delay = 2 + self.below(30);
                self.later(delay, Event::Client);
            }
            Event::Chaos if self.calm => {}
            Event::Chaos => {
                self.chaos();
                let delay = self.below(600);
                self.later(delay, Event::Chaos);
            }
            Event::Strike(_) | Event::Then(..) if self.calm => {}
            Event::Then(kind, host) => self.inject(kind, host),
            Event::Strike(host) => self.strike(host),
            Event::Calm => self.calm_down(),
            Event::HealLink(one, other) => {
                self.cut.remove(&(one, other));
                self.cut.remove(&(other, one));
            }
            Event::HealStore(host) => {
                self.cut_to_store.remove(&host);
                self.cut_from_store.remove(&host);
            }
            Event::StoreUp => {
                self.store_down = false;
                let now = self.store_now();
                self.store.restart(now);
            }
            Event::StoreFast => self.store_slow = false,
            Event::Restart(host) => self.restart(host),
            Event::Continue(pid) => self.resume(pid),
            _ => unreachable!("the others belong to a process, or to the run"),
        }
    }
}

/// Runs a seed. Returns its totals, or the violation.
fn run(seed: u64, verbose: bool) -> Result<Tally, String> {
    let mut rng = Rng::new(seed);
    let mut plan = plan(&mut rng);
    if seed % 4 == 3 {
        plan.settings.migrates = true;
        plan.settings.migration_delay = T;
        plan.shards = 2;
        plan.hosts = plan.hosts.max(2 * (plan.settings.quorum as usize + 2)).max(6);
    }
    run_plan(rng, plan, verbose)
}

fn run_plan(rng: Rng, plan: Plan, verbose: bool) -> Result<Tally, String> {
    let mut world = World::new(rng, plan, verbose);
    world.store_rate = 950 + world.below(101);
    world.say(|| format!("{:?}", world.plan));
    populate(&mut world);
    world.later(20, Event::Expire);
    world.later(1500, Event::Chaos);
    world.later(100, Event::Client);
    world.later(FAULTS, Event::Calm);
    world.later(FAULTS + 3 * T, Event::Check);
    let end = FAULTS + world.patience();
    while let Some(event) = world.next() {
        match event {
            Event::Check => {
                let result = world.converged();
                match result {
                    Ok(()) => {
                        world.check_losses();
                        return world.wrong.take().map_or(Ok(world.tally), Err);
                    }
                    Err(reason) if world.now > end => return Err(format!("no rest: {reason}")),
                    Err(_) => {}
                }
                if world.now > FAULTS + 8 * T {
                    world.rescue();
                }
                world.later(251, Event::Check);
            }
            Event::Client if world.calm && world.now > FAULTS + 2 * T => {
                world.client();
                world.later(600, Event::Client);
            }
            event => world.happen(event),
        }
        if let Some(wrong) = world.wrong.take() {
            return Err(wrong);
        }
    }
    Err("nothing happens any more".to_string())
}
