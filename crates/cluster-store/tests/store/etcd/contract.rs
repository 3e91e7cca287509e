//! The contract.

use super::{client, start};
use crate::contract::{COMPACTION, Checked, Fixture, cases};
use std::time::{Duration, Instant};
use weft_cluster_store::store::{Revision, Store};
use weft_testkit::etcd::Etcd as Server;

/// Each case has a prefix of its own.
struct Real<'a> {
    server: &'a Server,
    prefix: &'a str,
    started: Instant,
}

impl Fixture for Real<'_> {
    fn store(&self) -> Box<dyn Store> {
        Box::new(client(self.server, self.prefix))
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn pass(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn compact(&self, revision: Revision) {
        self.server.compact(revision.0);
    }
}

#[test]
fn etcd_keeps_the_contract() {
    let Some(server) = start(1) else { return };
    let run = |name, case: fn(&dyn Fixture) -> Checked| {
        let real = Real { server: &server, prefix: name, started: Instant::now() };
        case(&real).map_err(|why| format!("{name}: {why}"))
    };
    let (last, first): (Vec<_>, Vec<_>) =
        cases().into_iter().partition(|(name, _)| name.starts_with(COMPACTION));
    let failures: Vec<String> = std::thread::scope(|scope| {
        let spawn = |(name, case)| scope.spawn(move || run(name, case));
        let threads: Vec<_> = first.into_iter().map(spawn).collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("no panic").err()).collect()
    });
    assert!(failures.is_empty(), "{failures:#?}");
    for (name, case) in last {
        run(name, case).unwrap();
    }
}
