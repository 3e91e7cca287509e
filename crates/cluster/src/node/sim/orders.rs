//! Operators who form, change and leave clusters at random: MEET, REPLICATE, FORGET, RESET, and all changes of slots. The other runs
//! keep their nodes in their shards, so that they can converge.

use super::process::Process;
use super::world::{Event, Pid, SLOTS_EACH, T, World};
use super::*;
use crate::id::ShardId;
use crate::node::{Direction, Mark, NodeRequest};

/// How long operators give orders, and how long the cluster has after them.
const ORDERS: Ms = 15_000;
const REST: Ms = 20 * T;

impl World {
    fn some_running(&mut self) -> Option<Pid> {
        let host = self.below(self.current.len() as u64) as usize;
        Some(self.current[host]).filter(|pid| self.processes[*pid].runs())
    }

    fn some_node(&mut self) -> NodeId {
        let host = self.below(self.ids.len() as u64) as usize;
        self.ids[host]
    }

    fn some_slots(&mut self) -> Box<SlotSet> {
        let used = self.plan.shards as Slot * SLOTS_EACH;
        let first = self.below(u64::from(used)) as Slot;
        let end = used.min(first + 1 + self.below(3) as Slot);
        Box::new((first..end).collect())
    }

    /// A primary by the state of the store, if its process runs.
    fn some_primary(&mut self) -> Option<(ShardId, Pid)> {
        let at = self.below(self.store.truth.shards.len().max(1) as u64) as usize;
        let (id, shard) = self.store.truth.shards.iter().nth(at)?;
        let is_it = |pid: &&Pid| {
            let process: &Process = &self.processes[**pid];
            process.member == shard.value.primary && process.runs()
        };
        Some((*id, *self.current.iter().find(is_it)?))
    }

    /// Whether the operator may say that this node doesn't run.
    fn may_forget(&self, node: NodeId) -> bool {
        let runs = |process: &Process| process.member.node == node && process.alive;
        !self.plan.settings.continues || !self.processes.iter().any(runs)
    }

    fn order(&mut self) {
        let kind = self.below(100);
        let Some(pid) = self.some_running() else { return };
        let (node, slots) = (self.some_node(), self.some_slots());
        let request = match kind {
            0..16 => NodeRequest::Meet(node),
            16..34 => NodeRequest::Replicate(node),
            34..44 if self.may_forget(node) => NodeRequest::Forget(node),
            44..48 => NodeRequest::Leave,
            48..58 => NodeRequest::AddSlots(slots),
            58..62 => NodeRequest::DeleteSlots(slots),
            62..66 => NodeRequest::TakeSlots(slots),
            66..76 => NodeRequest::MoveSlots { slots, to: node, leave_keys: kind < 70 },
            76..84 => {
                let to = self.below(self.ids.len() as u64) as usize;
                return self.order_copy(*slots, to);
            }
            84..96 => return self.order_any_mark(),
            _ => NodeRequest::CancelMoves,
        };
        self.request(pid, request);
    }

    fn order_any_mark(&mut self) {
        let (slots, node, import) = (self.some_slots(), self.some_node(), self.chance(50));
        let Some((id, pid)) = self.some_primary() else { return };
        let direction = if import { Direction::Importing } else { Direction::Migrating };
        let is_line = |node: NodeId| self.store.truth.shard_of(node).is_some();
        // Both as a client's request finds them.
        let is_here = self.store.truth.nodes.get(&self.processes[pid].member.node);
        if is_here.is_some_and(|line| line.shard == id) && is_line(node) {
            let other = self.chance(80).then_some(node);
            let mark = |slot| Mark { slot, direction, other };
            self.request(pid, NodeRequest::Mark(slots.iter().map(mark).collect()));
        }
    }

    /// After the faults and the orders: each node is in the map of its cluster, and nothing is left of others.
    fn settled(&self) -> Result<(), String> {
        let truth = &self.store.truth;
        for pid in &self.current {
            let process = &self.processes[*pid];
            if process.node.map().is_none() {
                return Err(format!("{pid} ({:?}) has no shard", process.member));
            }
        }
        if truth.has_invalid() {
            return Err("the store has an invalid value".to_string());
        }
        let gone = |id: &ShardId| !truth.shards.contains_key(id);
        for (id, of) in &truth.handovers {
            if gone(&of.from) && of.to.as_ref().is_none_or(gone) {
                return Err(format!("nothing removes the handover {id:?}: {of:?}"));
            }
        }
        let named = |island| truth.shards.values().any(|shard| shard.value.island == island);
        let joined = |island| {
            truth.islands.values().any(|of| *of == crate::node::layout::IslandValue::Merged(island))
        };
        match truth.islands.keys().find(|island| !named(**island) && !joined(**island)) {
            Some(island) => Err(format!("nothing removes the island {island:?}")),
            None => Ok(()),
        }
    }
}

pub(super) fn run_orders(seed: u64, verbose: bool) -> Result<Tally, String> {
    let mut rng = Rng::new(seed);
    let mut plan = plan(&mut rng);
    plan.hosts = plan.hosts.clamp(3, 7);
    // These orders need the shards of the beginning.
    plan.weights = chaos::weights_without_marks(&mut rng);
    let faults = 300 + rng.below(3000);
    let mut world = World::new(rng, plan, verbose);
    world.say(|| format!("{:?}", world.plan));
    match seed % 2 {
        0 => populate(&mut world),
        _ => start_hosts(&mut world),
    }
    world.later(20, Event::Expire);
    world.later(100, Event::Client);
    let (mut next_order, mut next_fault) = (800, 1500);
    while world.now < ORDERS + REST {
        let event = world.next().ok_or("nothing happens any more")?;
        match event {
            Event::Client => {
                world.client();
                world.later(30, Event::Client);
            }
            event => world.happen(event),
        }
        if world.now >= next_order && world.now < ORDERS {
            world.order();
            next_order = world.now + world.below(250);
        }
        if world.now >= next_fault && world.now < ORDERS {
            world.chaos();
            next_fault = world.now + world.below(faults);
        }
        if world.now >= ORDERS && !world.calm {
            world.calm_down();
        }
        if let Some(wrong) = world.wrong.take() {
            return Err(wrong);
        }
    }
    world.settled().map(|()| world.tally)
}

#[test]
fn operators_break_nothing() {
    let variable = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    if let Some(seed) = variable("ORDERS_SEED") {
        println!("{:?}", run_orders(seed, true));
        return;
    }
    let first = variable("CLUSTER_FIRST").unwrap_or(0);
    let mut wrong = Vec::new();
    let runs = variable("CLUSTER_RUNS").unwrap_or(40);
    for seed in first..first + runs {
        let found = run_orders(seed, false).err();
        wrong.extend(found.map(|text| format!("ORDERS_SEED={seed}: {text}")));
    }
    assert!(
        wrong.is_empty(),
        "{} of {runs}:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}
