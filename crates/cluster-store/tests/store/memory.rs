//! The contract on the simulated store, and planted faults that it must find.

use crate::contract::{Checked, Fixture, cases};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weft_cluster_store::memory::{ClientId, Memory, Network, Planted, Settings};
use weft_cluster_store::store::{Revision, Store};

struct Simulated {
    memory: Memory,
    clients: AtomicU32,
}

impl Simulated {
    fn new(settings: Settings) -> Simulated {
        Simulated { memory: Memory::new(Network::new(settings)), clients: AtomicU32::new(1) }
    }
}

impl Fixture for Simulated {
    fn store(&self) -> Box<dyn Store> {
        let client = ClientId(self.clients.fetch_add(1, Ordering::Relaxed));
        Box::new(self.memory.as_client(client))
    }

    fn now(&self) -> Duration {
        self.memory.with(|network| network.now())
    }

    fn pass(&self, time: Duration) {
        self.memory.pass(time);
    }

    fn compact(&self, revision: Revision) {
        self.memory.with(|network| network.compact(revision));
    }
}

fn run(settings: &Settings) -> Vec<(&'static str, Checked)> {
    let run = |(name, case): (_, fn(&dyn Fixture) -> Checked)| {
        (name, case(&Simulated::new(settings.clone())))
    };
    cases().into_iter().map(run).collect()
}

#[test]
fn simulated_store_keeps_the_contract() {
    for (name, checked) in run(&Settings::default()) {
        checked.unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

#[test]
fn slow_store_keeps_the_contract() {
    for seed in 0..20 {
        let delay = Duration::from_millis(1)..Duration::from_millis(40);
        for (name, checked) in run(&Settings { seed, delay, ..Settings::default() }) {
            checked.unwrap_or_else(|why| panic!("{name}, seed {seed}: {why}"));
        }
    }
}

#[test]
fn every_planted_fault_is_found() {
    for planted in Planted::ALL {
        let results = run(&Settings { planted: Some(planted), ..Settings::default() });
        let failed = results.iter().filter(|(_, checked)| checked.is_err()).count();
        assert!(failed > 0, "no case finds {planted:?}");
    }
}
