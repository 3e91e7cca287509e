//! The runs.

use super::*;
use crate::planted::{Fault, plant};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn runs(default: u64) -> u64 {
    std::env::var("CLUSTER_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(default)
}

#[test]
fn no_two_nodes_acknowledge_and_clusters_converge() {
    if let Some(seed) = std::env::var("CLUSTER_SEED").ok().and_then(|seed| seed.parse().ok()) {
        println!("{:?}", run(seed, true));
        return;
    }
    let first = std::env::var("CLUSTER_FIRST").ok().and_then(|seed| seed.parse().ok());
    let (first, runs): (u64, u64) = (first.unwrap_or(0), runs(200));
    let mut tally = Tally::default();
    for seed in first..first + runs {
        match run(seed, false) {
            Ok(more) => tally.add(&more),
            Err(wrong) => panic!("CLUSTER_SEED={seed}: {wrong}"),
        }
    }
    println!("{runs} runs: {tally:?}");
}

#[test]
fn planted_faults_are_found() {
    for fault in [
        Fault::OldEpochAccepted,
        Fault::CandidateFollows,
        Fault::LeaseKeyReplaced,
        Fault::PromiseBroken,
        Fault::OnePromiseEnough,
        Fault::ListedBehind,
        Fault::UnlistedPromoted,
        Fault::DrainNotAwaited,
        Fault::OldAcksCount,
        Fault::CopyWhileYielding,
    ] {
        plant::set(Some(fault));
        let found = (0..runs(3000)).find_map(|seed| {
            let result = catch_unwind(AssertUnwindSafe(|| run(seed, false)));
            match result {
                Ok(Ok(_)) => None,
                Ok(Err(wrong)) => Some((seed, wrong)),
                Err(_) => Some((seed, "panic".to_string())),
            }
        });
        plant::set(None);
        match found {
            Some((seed, wrong)) => println!("{fault:?}: seed {seed}: {wrong}"),
            None => println!("{fault:?} IS NOT FOUND"),
        }
    }
}
