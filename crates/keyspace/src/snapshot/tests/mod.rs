//! The snapshot against a model: it gives the keys that existed at the cut, each once, whatever
//! happens between the steps.

mod limit;
mod parts;
mod value;
mod world;

use super::begin::Wish;
use super::planted::{Fault, plant};
use super::{Image, Snapshot, Step};
use crate::commit::{end_group, seal, settle};
use crate::context::{ExecContext, Rng};
use crate::guard::Guard;
use crate::interest::SNAPSHOT;
use crate::keyspace::SHARDS;
use std::collections::BTreeMap;
use value::describe;
use world::{Content, Entry, World};

/// The images given to a visitor.
#[derive(Default)]
struct Given(Vec<Entry>);

impl Given {
    fn visit(&mut self, image: Image) {
        self.0.push(((image.db(), image.key().to_vec()), (describe(&image), image.expiry())));
    }
}

/// Commits the changes as one group, without blocked clients.
fn commit(guard: &Guard<'_>, context: &mut ExecContext) {
    settle(guard, context);
    seal(guard, context);
    end_group(guard, context);
}

/// The state of a snapshot.
enum Phase {
    None,
    Wished(Wish<'static>),
    Walked { snapshot: Snapshot<'static>, expected: Content, given: Given },
}

/// Counts of events, to detect a simulation that does nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    complete: usize,
    cancelled: usize,
    keys: usize,
    cuts_in_long: usize,
}

/// Compares the given images with the expected content.
fn compare(expected: &Content, given: &Given) -> Result<(), String> {
    let mut found = BTreeMap::new();
    for (name, value) in &given.0 {
        if found.insert(name, value).is_some() {
            return Err(format!("{name:?} was given twice"));
        }
    }
    for (name, value) in expected {
        match found.remove(name) {
            None => return Err(format!("{name:?} is missing")),
            Some(other) if other != value => return Err(format!("{name:?} is another")),
            Some(_) => {}
        }
    }
    match found.keys().next() {
        Some(name) => Err(format!("{name:?} was not there")),
        None => Ok(()),
    }
}

/// Runs random events, with snapshots in between.
fn simulate(seed: u64, things: usize, tally: &mut Tally) -> Result<(), String> {
    let mut world = World::new(seed);
    let mut rng = Rng::new(seed ^ 0x5eed);
    let mut walkers: Vec<_> = (0..2).map(|n| (world.walker(), ExecContext::new(0, n))).collect();
    let mut phase = Phase::None;
    let mut result = Ok(());
    for _ in 0..things {
        world.happen();
        let draw = rng.next() % 100;
        phase = match phase {
            Phase::None if draw < 5 => {
                Phase::Wished(Wish::new(world.ks, 0).expect("there is no other"))
            }
            Phase::Wished(wish) if draw < 2 => {
                drop(wish);
                Phase::None
            }
            Phase::Wished(wish) if draw < 30 && wish.is_ready(&world.ks.slow_lane.running()) => {
                let mut expected = world.content();
                let (hand, context) = &mut walkers[0];
                let (snapshot, ()) = wish.cut(hand, context, |_| ());
                expected.retain(|_, (_, expiry)| expiry.is_none_or(|at| at > snapshot.time_ms()));
                tally.cuts_in_long += usize::from(!world.ks.slow_lane.running().is_empty());
                Phase::Walked { snapshot, expected, given: Given::default() }
            }
            Phase::Walked { snapshot, .. } if draw < 1 && rng.next().is_multiple_of(4) => {
                drop(snapshot);
                tally.cancelled += 1;
                Phase::None
            }
            Phase::Walked { snapshot, expected, mut given } if draw < 60 => {
                let (hand, context) = &mut walkers[(draw % 2) as usize];
                match snapshot.step(hand, context, &mut |image| given.visit(image)) {
                    Step::More => Phase::Walked { snapshot, expected, given },
                    Step::Done => {
                        result = compare(&expected, &given);
                        let progress = snapshot.progress();
                        assert_eq!(progress.given, given.0.len());
                        if result.is_ok() && progress.kept_bytes > 0 {
                            result = Err(format!("left on the account: {progress:?}"));
                        }
                        tally.complete += 1;
                        tally.keys += given.0.len();
                        Phase::None
                    }
                }
            }
            other => other,
        };
        if result.is_err() {
            break;
        }
    }
    drop(phase);
    world.clear();
    let bits = (0..SHARDS as u16).filter(|shard| world.ks.interest(*shard) & SNAPSHOT != 0);
    assert_eq!(bits.count(), 0, "no interest bit is left");
    assert!(world.ks.snapshot_progress().is_none());
    result
}

#[test]
fn a_snapshot_gives_the_keys_of_the_cut() {
    let mut tally = Tally::default();
    let seeds = std::env::var("SNAPSHOT_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    for seed in 0..seeds {
        let result = simulate(seed, 2500, &mut tally);
        assert_eq!(result, Ok(()), "seed {seed}");
    }
    println!("{tally:?}");
    assert!(tally.complete as u64 > seeds && tally.keys as u64 > 500 * seeds, "{tally:?}");
    assert!(tally.cancelled > 0 && tally.cuts_in_long as u64 > seeds / 4, "{tally:?}");
}

/// The same simulation detects every injected fault.
#[test]
fn injected_faults_are_detected() {
    for fault in [
        Fault::NewcomersForgotten,
        Fault::CursorIgnored,
        Fault::SweepsForgotten,
        Fault::SwapsForgotten,
        Fault::FlushesForgotten,
        Fault::WishesIgnored,
        Fault::MergesIgnored,
    ] {
        plant::set(Some(fault));
        let found = (1000..1200).find(|seed| simulate(*seed, 2500, &mut Tally::default()).is_err());
        plant::set(None);
        assert!(found.is_some(), "{fault:?} was not found");
        println!("{fault:?}: seed {found:?}");
    }
}
