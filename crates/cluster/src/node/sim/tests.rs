//! The runs.

use super::tally::Count;
use super::*;
use crate::node::NodeRequest;
use crate::planted::{Fault, plant};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

#[test]
fn no_two_nodes_acknowledge_and_clusters_converge() {
    if let Some(seed) = variable("CLUSTER_SEED") {
        println!("{:?}", run(seed, true));
        return;
    }
    let runs = variable("CLUSTER_RUNS").unwrap_or(200);
    let first = variable("CLUSTER_FIRST").unwrap_or(0);
    let mut tally = Tally::default();
    for seed in first..first + runs {
        match run(seed, false) {
            Ok(more) => tally.add(&more),
            Err(wrong) => panic!("CLUSTER_SEED={seed}: {wrong}"),
        }
    }
    println!("{runs} runs: {} faults, {tally:?}", tally.faults());
    for (what, count) in [
        ("promotions", tally.of(Count::Promotions)),
        ("failovers by operators", tally.of(Count::Handovers)),
        ("moves of slots", tally.of(Count::Moved)),
        ("moves of keys", 3 * tally.of(Count::Copied)),
        ("marks", tally.of(Count::Marked)),
        ("kills", tally.of(Count::Kill)),
        ("leases given up", 2 * tally.of(Count::GivenUp)),
        ("stops", tally.of(Count::Stop) + tally.of(Count::StopBeyondLease)),
        ("nodes that run twice", tally.of(Count::RunsTwice)),
        ("unknown outcomes", tally.of(Count::Unknown)),
        ("copies", tally.of(Count::FullSyncs)),
        ("promises", tally.of(Count::Promised)),
        ("discarded writes", tally.of(Count::Discarded)),
        ("replicas that move", 10 * tally.of(Count::Migrated)),
    ] {
        assert!(runs < 100 || count > runs / 4, "few {what}: {count}");
    }
}

/// Every fault of `planted`, except `MigrationBarrierIgnored`, which has a test of its own.
const PLANTED: [Fault; 35] = [
    Fault::DeadlineFromAnswer,
    Fault::LeaseNotCompared,
    Fault::ListShortenedEarly,
    Fault::AdditionCountedLate,
    Fault::OldEpochAccepted,
    Fault::SlotsServedEarly,
    Fault::SlotsNotSuspended,
    Fault::UnknownIsFailure,
    Fault::LoadingPromoted,
    Fault::RestartForgotten,
    Fault::RestartedLeads,
    Fault::ViewNotAwaited,
    Fault::CandidateFollows,
    Fault::LeaseKeyReplaced,
    Fault::PromiseBroken,
    Fault::OnePromiseEnough,
    Fault::ListedBehind,
    Fault::UnlistedPromoted,
    Fault::DrainNotAwaited,
    Fault::CopyWhileYielding,
    Fault::DurableForgotten,
    Fault::OneAckEnough,
    Fault::InheritedNotConfirmed,
    Fault::ServesWhileYielding,
    Fault::SettledByAnswer,
    Fault::CandidatePromises,
    Fault::PromiseFromAnswer,
    Fault::ForceTakesUnlisted,
    Fault::TakenFromContinuing,
    Fault::MovedAfterFailover,
    Fault::OwnKeyNotCompared,
    Fault::MarksLostByFailover,
    Fault::MarksKeptByMove,
    Fault::HandedToLeaver,
    Fault::RepliedEarly,
];

/// Faults that a few runs find.
const FREQUENT: [Fault; 10] = [
    Fault::DeadlineFromAnswer,
    Fault::OldEpochAccepted,
    Fault::SlotsServedEarly,
    Fault::SlotsNotSuspended,
    Fault::RestartedLeads,
    Fault::LeaseKeyReplaced,
    Fault::UnlistedPromoted,
    Fault::DrainNotAwaited,
    Fault::RestartForgotten,
    Fault::ServesWhileYielding,
];

#[test]
fn frequent_planted_faults_are_found() {
    for fault in FREQUENT {
        let found = find_from(fault, 0, 300);
        let Some((seed, _)) = found else { panic!("{fault:?} is not found") };
        assert_eq!(run_for(fault, seed).err(), None, "seed {seed} fails without {fault:?} too");
    }
}

/// Faults of a cluster whose writes wait for one replica.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn ten_thousand_faults_lose_no_confirmed_write() {
    let mut tally = Tally::default();
    let mut seed = variable("CLUSTER_FIRST").unwrap_or(0);
    while tally.faults() < 10_000 {
        let mut rng = Rng::new(seed);
        let mut plan = plan(&mut rng);
        plan.settings.quorum = 1;
        plan.hosts = plan.hosts.max(2 * plan.shards);
        match run_plan(rng, plan, false) {
            Ok(more) => tally.add(&more),
            Err(wrong) => panic!("CLUSTER_FIRST={seed}: {wrong}"),
        }
        seed += 1;
    }
    println!("{seed} runs, {} faults: {tally:?}", tally.faults());
}

/// A run in which this fault can show.
fn run_for(fault: Fault, seed: u64) -> Result<Tally, String> {
    let mut rng = Rng::new(seed);
    let mut plan = plan(&mut rng);
    match fault {
        Fault::InheritedNotConfirmed => {
            // It needs a second replica, one that lags and is not listed.
            plan.settings.quorum = 1;
            (plan.shards, plan.hosts) = (1, 4);
        }
        Fault::TakenFromContinuing => return orders::run_orders(seed, false),
        _ => return run(seed, false),
    }
    run_plan(rng, plan, false)
}

/// The first seed from `first` on that finds a fault, and the violation.
fn find_from(fault: Fault, first: u64, runs: u64) -> Option<(u64, String)> {
    plant::set(Some(fault));
    let found = (first..first + runs).find_map(|seed| {
        match catch_unwind(AssertUnwindSafe(|| run_for(fault, seed))) {
            Ok(Ok(_)) => None,
            Ok(Err(wrong)) => Some((seed, wrong)),
            Err(_) => Some((seed, "panic".to_string())),
        }
    });
    plant::set(None);
    found
}

/// A seed from which on a rare fault is soon found. `CLUSTER_FIRST=0` finds it again after a change of the simulation.
fn first_of(fault: Fault) -> u64 {
    match fault {
        Fault::LeaseNotCompared => 970,
        Fault::LoadingPromoted => 530,
        Fault::CandidateFollows => 450,
        Fault::ListedBehind => 2510,
        Fault::CopyWhileYielding => 910,
        Fault::DurableForgotten => 1760,
        Fault::InheritedNotConfirmed => 1130,
        Fault::SettledByAnswer => 620,
        Fault::HandedToLeaver => 480,
        Fault::CandidatePromises => 205,
        Fault::PromiseFromAnswer => 140,
        _ => 0,
    }
}

/// Seeds that each planted fault needs. `CLUSTER_FAULT`: one of them alone, by its name.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn all_planted_faults_are_found() {
    let only = std::env::var("CLUSTER_FAULT").ok();
    let runs = variable("CLUSTER_RUNS").unwrap_or(6000);
    let times = variable("CLUSTER_TIMES").unwrap_or(1);
    let mut missing = Vec::new();
    for fault in PLANTED {
        if only.as_ref().is_some_and(|name| *name != format!("{fault:?}")) {
            continue;
        }
        let mut next = variable("CLUSTER_FIRST").unwrap_or_else(|| first_of(fault));
        let (begin, mut found) = (next, 0);
        while found < times
            && let Some((seed, wrong)) = find_from(fault, next, runs)
        {
            (next, found) = (seed + 1, found + 1);
            println!("{fault:?}: seed {seed}: {wrong}");
            assert_eq!(run_for(fault, seed).err(), None, "seed {seed} fails without {fault:?} too");
        }
        match found {
            0 => missing.push(fault),
            _ => println!("{fault:?}: {} seeds for each", (next - begin) / found),
        }
    }
    assert_eq!(missing, [], "not found in {runs} runs");
}

/// A world without faults, run for some time.
fn quiet(plan: Plan, populated: bool) -> World {
    let mut world = World::new(Rng::new(1), plan, false);
    world.calm = true;
    if populated {
        populate(&mut world);
    } else {
        start_hosts(&mut world);
    }
    world.later(20, Event::Expire);
    world
}

fn run_until(world: &mut World, end: Ms) {
    while world.now < end {
        let event = world.next().expect("ticks never end");
        world.happen(event);
        assert_eq!(world.wrong, None);
    }
}

fn plan_of(hosts: usize, shards: usize) -> Plan {
    let settings = Settings { timeout: T, ..Settings::default() };
    Plan { hosts, shards, settings, durable: false, weights: chaos::usual_weights() }
}

#[test]
fn operators_form_a_cluster() {
    let mut world = quiet(plan_of(6, 3), false);
    run_until(&mut world, 500);
    let ids = world.ids.clone();
    for (host, id) in ids.iter().enumerate() {
        let pid = world.current[host];
        let map = world.processes[pid].node.map().expect("it has an island");
        assert_eq!(map.nodes().len(), 1, "strangers are not shown");
        assert_eq!(map.nodes()[0].id, *id);
    }
    for host in 0..3 {
        let first = host as Slot * SLOTS_EACH;
        let slots = Box::new((first..first + SLOTS_EACH).collect());
        world.request(world.current[host], NodeRequest::AddSlots(slots));
    }
    run_until(&mut world, 1000);
    for host in 1..6 {
        world.request(world.current[host], NodeRequest::Meet(ids[0]));
    }
    run_until(&mut world, 2500);
    for host in 3..6 {
        world.request(world.current[host], NodeRequest::Replicate(ids[host - 3]));
    }
    run_until(&mut world, 4500);
    world.shard_ids = (0..3).map(|host| world.store.truth.nodes[&ids[host]].shard).collect();
    assert_eq!(world.converged(), Ok(()));
    let map = world.processes[world.current[5]].node.map().expect("a map");
    assert_eq!((map.nodes().len(), map.size(), map.slots_assigned()), (6, 3, 12));
    // A replica is forgotten, and begins again alone.
    world.request(world.current[0], NodeRequest::Forget(ids[5]));
    run_until(&mut world, 5500);
    // Its own one, and that of the others. Merged ones are removed.
    assert_eq!(world.store.truth.islands.len(), 2);
    let map = |host: usize| world.processes[world.current[host]].node.map().expect("a map");
    assert_eq!((map(0).nodes().len(), map(5).nodes().len()), (5, 1));
}

/// Shard 0 has three replicas, shard 1 has one, which dies.
#[test]
fn spare_replica_moves_to_a_shard_without_replicas() {
    let mut plan = plan_of(6, 2);
    plan.settings.migrates = true;
    let mut world = quiet(plan, true);
    let [first, second] = [world.shard_ids[0], world.shard_ids[1]];
    run_until(&mut world, 3000);
    let replicas = |world: &World, id| world.store.truth.nodes_of(id).collect::<Vec<_>>();
    assert_eq!((replicas(&world, first).len(), replicas(&world, second).len()), (4, 2));
    let dead = world.current[3];
    world.processes[dead].alive = false;
    let moved = *[2, 4, 5].map(|host| world.ids[host]).iter().min().expect("three replicas");
    run_until(&mut world, 7000);
    assert_eq!(replicas(&world, second).len(), 2, "the shard's own replica may come back");
    run_until(&mut world, 14_000);
    assert!(replicas(&world, second).contains(&moved), "the least id moves");
    assert_eq!((replicas(&world, first).len(), replicas(&world, second).len()), (3, 3));
    let list = &world.store.truth.shards[&second].value.list;
    assert!(list.iter().any(|member| member.node == moved), "it has a copy of its new primary");
    // It has a replica, so no other one follows.
    run_until(&mut world, 25_000);
    assert_eq!((replicas(&world, first).len(), replicas(&world, second).len()), (3, 3));
    assert_eq!(world.tally.of(Count::Migrated), 1);
}

/// Both shards have one replica. That of shard 1 dies.
#[test]
fn last_replica_stays_in_its_shard() {
    let violation = |fault: Option<Fault>| {
        plant::set(fault);
        let mut plan = plan_of(4, 2);
        plan.settings.migrates = true;
        let mut world = quiet(plan, true);
        while world.now < 20_000 && world.wrong.is_none() {
            let event = world.next().expect("ticks never end");
            world.happen(event);
            let dead = world.current[3];
            world.processes[dead].alive &= world.now < 3000;
        }
        plant::set(None);
        world.wrong
    };
    assert_eq!(violation(None), None);
    let found = violation(Some(Fault::MigrationBarrierIgnored));
    assert!(found.is_some_and(|wrong| wrong.contains("without a replica")));
}

/// The store executes the keepalives of such a node, which can't serve without their answers.
#[test]
fn node_that_gets_no_answers_loses_its_lease() {
    let mut world = quiet(plan_of(3, 1), true);
    run_until(&mut world, 3000);
    let leads = |world: &World, host: usize| {
        let now = world.now;
        world.processes[world.current[host]].serves(now)
    };
    assert!(leads(&world, 0));
    world.cut_from_store.insert(0);
    let end = world.now + 4 * T;
    run_until(&mut world, end);
    assert!(!leads(&world, 0) && (leads(&world, 1) || leads(&world, 2)));
}

#[test]
fn three_hundred_nodes_see_a_change_with_the_first_delivery() {
    let mut world = quiet(plan_of(300, 100), true);
    run_until(&mut world, 1500);
    let slots = Box::new(std::iter::once(0).collect());
    let to = world.ids[1];
    world.request(world.current[5], NodeRequest::MoveSlots { slots, to, leave_keys: true });
    let target = world.shard_ids[1];
    let moved =
        |world: &World| world.store.truth.slots_of(target).is_some_and(|slots| slots.contains(0));
    while !moved(&world) {
        assert!(world.now < 3000, "the slot moves");
        let next = world.now + 1;
        run_until(&mut world, next);
    }
    // The longest delay of a delivery is 100 ms.
    let end = world.now + 101;
    run_until(&mut world, end);
    let owner = |pid: &Pid| {
        let map = world.processes[*pid].node.map().expect("a map");
        map.owner(0).map(|node| node.id)
    };
    assert!(world.current.iter().all(|pid| owner(pid) == Some(to)));
}

/// `valkey-cli --cluster fix`: DELSLOTS reaches the owner before, while or after it hands the slot over.
#[test]
fn taken_slot_has_an_owner_although_it_is_deleted_meanwhile() {
    for pause in 0..40 {
        let mut world = quiet(plan_of(4, 2), true);
        run_until(&mut world, 1500);
        let slots = || Box::new(std::iter::once(0).collect());
        world.request(world.current[1], NodeRequest::TakeSlots(slots()));
        let end = world.now + pause;
        run_until(&mut world, end);
        world.request(world.current[0], NodeRequest::DeleteSlots(slots()));
        run_until(&mut world, end + 2 * T);
        let owned = world.store.truth.slots_of(world.shard_ids[1]);
        assert!(owned.is_some_and(|owned| owned.contains(0)), "DELSLOTS after {pause} ms");
    }
}
