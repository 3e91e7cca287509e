//! Single races, and values that are left over. Each was found in a run of [`super::orders`], or by reading.

use super::chaos;
use super::world::{Event, Pid, T, World};
use super::*;
use crate::id::ShardId;
use crate::node::layout::{CopyPhase, Copying, HandoverValue};
use crate::node::{Direction, FailoverMode, Mark, NodeRequest};
use crate::planted::{Fault, plant};

fn world(seed: u64, hosts: usize, shards: usize) -> World {
    let settings = Settings { timeout: T, ..Settings::default() };
    let plan = Plan { hosts, shards, settings, durable: false, weights: chaos::usual_weights() };
    let mut world = World::new(Rng::new(seed), plan, false);
    world.calm = true;
    populate(&mut world);
    world.later(20, Event::Expire);
    world
}

/// Until `end`, or a violation.
fn run_until(world: &mut World, end: Ms) {
    while world.now < end && world.wrong.is_none() {
        let event = world.next().expect("ticks never end");
        world.happen(event);
    }
}

fn put(world: &mut World, key: Key, value: Vec<u8>) {
    let writes = vec![Write::Put { key, value, lease: None }];
    world.store.transact(&Transaction { compares: Vec::new(), writes });
    world.store_changed();
}

fn some_slots(slots: std::ops::Range<Slot>) -> Box<SlotSet> {
    Box::new(slots.collect())
}

fn pid(world: &World, host: usize) -> Pid {
    world.current[host]
}

/// Whether a scene goes wrong with a planted fault for one of some seeds, and for none without.
#[track_caller]
fn expect_only_with(fault: Fault, scene: impl Fn(u64) -> Option<String>) {
    const SEEDS: u64 = 150;
    plant::set(Some(fault));
    let found = (0..SEEDS).find_map(&scene);
    plant::set(None);
    assert!(found.is_some(), "the scene doesn't show {fault:?}");
    let wrong = (0..SEEDS).find_map(|seed| scene(seed).map(|wrong| (seed, wrong)));
    assert_eq!(wrong, None);
}

/// REPLICATE to an empty primary that becomes a replica itself, or is forgotten, at the same moment.
#[test]
fn joined_shard_does_not_end() {
    expect_only_with(Fault::JoinedUnseen, |seed| {
        let mut world = world(seed, 3, 3);
        run_until(&mut world, 1500);
        let ids = world.ids.clone();
        for host in 0..2 {
            world.request(pid(&world, host), NodeRequest::DeleteSlots(Box::new(SlotSet::full())));
        }
        run_until(&mut world, 2500);
        world.request(pid(&world, 0), NodeRequest::Replicate(ids[1]));
        world.request(pid(&world, 1), NodeRequest::Replicate(ids[2]));
        run_until(&mut world, 5000);
        world.wrong
    });
}

/// A node takes a slot of another one, which adds a second slot that the first one wants.
#[test]
fn second_handover_with_an_id_suspends_its_slots() {
    expect_only_with(Fault::HandoverIdTrusted, |seed| {
        let mut world = world(seed, 2, 2);
        run_until(&mut world, 1500);
        world.request(pid(&world, 0), NodeRequest::DeleteSlots(some_slots(1..2)));
        run_until(&mut world, 2500);
        world.request(pid(&world, 1), NodeRequest::TakeSlots(some_slots(0..2)));
        world.request(pid(&world, 0), NodeRequest::AddSlots(some_slots(1..2)));
        run_until(&mut world, 5000);
        let mine = world.store.truth.slots_of(world.shard_ids[1]).cloned().unwrap_or_default();
        assert!(world.wrong.is_some() || mine.contains(0) && mine.contains(1), "{mine:?}");
        world.wrong
    });
}

fn some_shard(byte: u8) -> ShardId {
    NodeId::from_random([byte; 20])
}

/// Both primaries of a move were forgotten, or the owner of a plain handover was.
#[test]
fn handovers_of_shards_that_are_gone_are_removed() {
    let mut world = world(1, 2, 1);
    run_until(&mut world, 1500);
    let (gone, here) = ([some_shard(1), some_shard(2)], world.shard_ids[0]);
    let copy = |phase| Some(Copying { from_epoch: 1, to_epoch: 1, phase });
    let cases = [
        (gone[0], Some(gone[1]), copy(CopyPhase::Copying)),
        (gone[0], Some(gone[1]), copy(CopyPhase::Moved)),
        (gone[0], Some(here), None),
        (gone[0], None, None),
    ];
    for (n, (from, to, copy)) in cases.into_iter().enumerate() {
        let slots = (8000..8004).collect();
        let value = HandoverValue { from, to, slots, copy, leave_keys: false };
        put(&mut world, Key::Handover(some_shard(10 + n as u8)), value.encode());
    }
    run_until(&mut world, 1500 + 4 * T);
    assert!(world.store.truth.handovers.is_empty(), "{:?}", world.store.truth.handovers);
    assert_eq!(world.wrong, None);
}

/// Merged islands are removed although there are marks.
#[test]
fn marks_are_no_unknown_values() {
    let mut world = world(1, 2, 2);
    run_until(&mut world, 1500);
    let mark = Mark { slot: 0, direction: Direction::Migrating, other: Some(world.ids[1]) };
    world.request(pid(&world, 0), NodeRequest::Mark(vec![mark]));
    put(&mut world, Key::Island(some_shard(1)), IslandValue::Slots(Default::default()).encode());
    run_until(&mut world, 1500 + 3 * T);
    assert_eq!(world.store.truth.marks.len(), 1);
    assert_eq!(world.store.truth.islands.len(), 1, "{:?}", world.store.truth.islands);
}

/// A mark names a node of this cluster, not one that was forgotten while the request was on its way.
#[test]
fn no_mark_names_a_stranger() {
    let mut world = world(1, 3, 2);
    run_until(&mut world, 1500);
    let stranger = world.ids[2];
    world.request(pid(&world, 0), NodeRequest::Forget(stranger));
    run_until(&mut world, 3000);
    let is_stranger =
        world.store.truth.island_of(stranger) != world.store.truth.island_of(world.ids[0]);
    assert!(is_stranger, "it has begun again");
    let mark = Mark { slot: 0, direction: Direction::Migrating, other: Some(stranger) };
    world.request(pid(&world, 0), NodeRequest::Mark(vec![mark]));
    run_until(&mut world, 3500);
    assert_eq!(world.tally.of(super::tally::Count::Marked), 0, "it is refused");
}

/// More than one transaction can end.
#[test]
fn many_handovers_are_cancelled() {
    let mut world = world(1, 2, 2);
    run_until(&mut world, 1500);
    let owner = pid(&world, 0);
    world.processes[owner].alive = false;
    let [from, to] = [world.shard_ids[0], world.shard_ids[1]];
    for n in 0..200_u8 {
        let slots = (0..1).collect();
        let value = HandoverValue { from, to: Some(to), slots, copy: None, leave_keys: true };
        put(&mut world, Key::Handover(some_shard(n)), value.encode());
    }
    run_until(&mut world, 2000);
    world.request(pid(&world, 1), NodeRequest::CancelMoves);
    run_until(&mut world, 2000 + 3 * T);
    assert_eq!(world.store.truth.handovers.len(), 0);
}

/// A line of a later version: the node stays in its shard.
#[test]
fn node_with_an_unreadable_line_begins_nothing() {
    let mut world = world(1, 2, 1);
    run_until(&mut world, 1500);
    let node = world.processes[pid(&world, 0)].member.node;
    let before = world.processes[pid(&world, 0)].node.state.clone().expect("it has seen the store");
    let (line, shards) = (before.nodes[&node].encode(), before.shards.len());
    let later = [line.clone(), b"later yes\n".to_vec()].concat();
    world.store.put_unread(Key::Node(node), later);
    run_until(&mut world, 1500 + 2 * T);
    assert_eq!(world.store.truth.shards.len(), shards, "no other shard");
    put(&mut world, Key::Node(node), line);
    run_until(&mut world, 1500 + 5 * T);
    assert!(world.processes[pid(&world, 0)].node.map().is_some());
    assert_eq!(world.wrong, None);
}

/// etcd starts with an older folder, or an empty one: each node begins again with that, although it continues by promises.
#[test]
fn nodes_see_that_the_store_went_back() {
    for is_empty in [false, true] {
        let settings = Settings { timeout: T, continues: true, ..Settings::default() };
        let weights = chaos::usual_weights();
        let plan = Plan { hosts: 3, shards: 1, settings, durable: false, weights };
        let mut world = World::new(Rng::new(1), plan, false);
        world.calm = true;
        populate(&mut world);
        world.later(20, Event::Expire);
        run_until(&mut world, 3000);
        let older = if is_empty { Default::default() } else { world.store.clone() };
        world.request(pid(&world, 1), NodeRequest::Failover(FailoverMode::Plain));
        run_until(&mut world, 6000);
        assert_eq!(world.wrong, None);
        assert!(world.store.revision > older.revision);
        let now = world.store_now();
        world.store = older;
        world.store.restart(now);
        (world.epochs, world.shard_of) = Default::default();
        for pid in world.current.clone() {
            let watch = world.processes[pid].watch.take().expect("it watches");
            world.later(5, Event::WatchLost(pid, watch.0));
        }
        // The nodes can't know yet that the store has another primary.
        while world.now < 6000 + T {
            let event = world.next().expect("ticks never end");
            world.happen(event);
            world.wrong = None;
        }
        run_until(&mut world, 6000 + 8 * T);
        assert_eq!(world.wrong, None);
        for pid in &world.current {
            let seen = world.processes[*pid].node.state.as_ref().map(|state| state.revision);
            assert_eq!(seen, Some(world.store.revision), "{pid}, empty: {is_empty}");
        }
        let mut serving =
            world.current.iter().filter(|pid| world.processes[**pid].serves(world.now));
        assert_eq!(serving.next().is_none(), is_empty, "without its map, no slot has an owner");
    }
}

/// The primary obeys an order before the replica that has sent it sees it.
#[test]
fn order_that_was_obeyed_is_not_refused() {
    for seed in 0..300 {
        let mut world = world(seed, 2, 1);
        run_until(&mut world, 3000);
        world.request(pid(&world, 1), NodeRequest::Failover(FailoverMode::Plain));
        run_until(&mut world, 6000);
        let primary = world.store.truth.shards[&world.shard_ids[0]].value.primary.node;
        assert_eq!((primary, &*world.refused), (world.ids[1], &[][..]), "seed {seed}");
        assert_eq!(world.wrong, None);
    }
}
