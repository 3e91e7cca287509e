//! The limit of a snapshot against writers that change any keys, faster than the walker runs.

use super::world::World;
use super::{Given, compare};
use crate::context::{ExecContext, Rng};
use crate::snapshot::Snapshot;
use crate::snapshot::Step;
use crate::snapshot::planted::{Fault, plant};
use std::cell::RefCell;

/// Bytes that the snapshot may hold; all keys together have a few times that.
const LIMIT: usize = 24 << 10;
/// The most that one permitted command may keep: the longest strings, and two of them in a
/// RENAME.
const ONE: usize = 24 << 10;

/// The result of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Commands that had to wait.
    waited: usize,
    peak: usize,
}

/// A snapshot with a limit. Commands run between its steps, and while its visitor writes a key,
/// and wait when they must.
fn simulate(seed: u64, tally: &mut Tally) -> Result<(), String> {
    let mut world = World::new(seed);
    let mut rng = Rng::new(seed ^ 0x11b7);
    (0..2500).for_each(|_| world.happen());
    world.calm();
    let (mut hand, mut context) = (world.walker(), ExecContext::new(0, 1));
    let mut expected = world.content();
    let (snapshot, ()) =
        Snapshot::begin(&mut hand, &mut context, LIMIT, |_| ()).expect("there is no other");
    expected.retain(|_, (_, expiry)| expiry.is_none_or(|at| at > snapshot.time_ms()));
    let (ks, world) = (world.ks, RefCell::new(world));
    let (mut given, mut steps, mut result) = (Given::default(), 0, Ok(()));
    let write = |times: u64, tally: &mut Tally| {
        for _ in 0..times {
            tally.waited += usize::from(!world.borrow_mut().write_unless_full());
            tally.peak = tally.peak.max(ks.snapshots.gauge.bytes());
        }
    };
    loop {
        write(rng.next() % 400, tally);
        ks.is_snapshot_relieved();
        steps += 1;
        let step = snapshot.step(&mut hand, &mut context, &mut |image| {
            write(rng.next() % 4, tally);
            given.visit(image);
        });
        if step == Step::Done || steps > 100_000 {
            break;
        }
    }
    if tally.peak > LIMIT + ONE {
        result = Err(format!("{} bytes were held", tally.peak));
    } else if ks.snapshots.gauge.bytes() > 0 {
        result = Err("the account is not empty".into());
    }
    result = result.and_then(|()| compare(&expected, &given));
    drop(snapshot);
    world.borrow_mut().clear();
    result
}

#[test]
fn no_pattern_of_writes_outruns_a_snapshot() {
    let mut all = Tally::default();
    for seed in 0..20 {
        let mut tally = Tally::default();
        assert_eq!(simulate(seed, &mut tally), Ok(()), "seed {seed}");
        all.waited += tally.waited;
        all.peak = all.peak.max(tally.peak);
    }
    println!("{all:?}");
    assert!(all.waited > 1000 && all.peak > LIMIT / 2, "{all:?}");
}

#[test]
fn injected_faults_of_the_limit_are_detected() {
    for fault in [Fault::WritersNotHeld, Fault::ChargesForgotten] {
        plant::set(Some(fault));
        let found = (0..50).find(|seed| simulate(*seed, &mut Tally::default()).is_err());
        plant::set(None);
        assert!(found.is_some(), "{fault:?} was not found");
        println!("{fault:?}: seed {found:?}");
    }
}
