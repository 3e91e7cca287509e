//! The faults of the simulated store: each leaves its clients with exactly the doubt that it should.

use std::time::Duration;
use weft_cluster_store::Error;
use weft_cluster_store::memory::{
    Answer, ClientId, Cut, Event, Memory, Network, Request, Settings,
};
use weft_cluster_store::store::{
    Compare, Operation, Outcome, Revision, Store, Transaction, WatchEnd,
};
use weft_testkit::rng::Rng;

const SECOND: Duration = Duration::from_secs(1);

fn put(key: &str) -> Transaction {
    let put = Operation::Put { key: key.into(), value: vec![], lease: None };
    Transaction { compares: vec![], operations: vec![put] }
}

fn pair() -> (Memory, Memory) {
    let first = Memory::new(Network::new(Settings::default()));
    let second = first.as_client(ClientId(1));
    (first, second)
}

fn keys(store: &Memory) -> usize {
    store.read(b"", SECOND).unwrap().entries.len()
}

#[test]
fn lost_answer_leaves_a_doubt_after_the_effect() {
    let (store, other) = pair();
    for i in 0..10 {
        store.with(|network| network.lose_next_answer(ClientId(0)));
        let result = store.transact(&put(&i.to_string()), SECOND);
        assert!(matches!(result, Err(Error::Unknown(_))), "{result:?}");
        assert_eq!(keys(&other), i + 1);
    }
    store.with(|network| network.lose_next_answer(ClientId(0)));
    let read = store.read(b"", SECOND);
    assert!(matches!(read, Err(Error::Unavailable(_))), "{read:?}");
}

#[test]
fn refused_connection_is_certain() {
    let (store, other) = pair();
    let mut watch = store.watch(b"", Revision(1), SECOND).unwrap();
    store.with(|network| network.cut(ClientId(0), Cut::Refused));
    let result = store.transact(&put("a"), SECOND);
    assert!(matches!(result, Err(Error::Unavailable(_))), "{result:?}");
    assert!(matches!(watch.next(SECOND), Err(WatchEnd::Closed(_))));
    assert_eq!(keys(&other), 0);
    store.with(|network| network.heal(ClientId(0)));
    store.transact(&put("a"), SECOND).unwrap();
}

#[test]
fn silent_cut_delays_a_watch_and_leaves_doubt() {
    let (store, other) = pair();
    let mut watch = store.watch(b"", Revision(1), SECOND).unwrap();
    store.with(|network| network.cut(ClientId(0), Cut::Silent));
    let result = store.transact(&put("a"), SECOND);
    assert!(matches!(result, Err(Error::Unknown(_))), "{result:?}");
    other.transact(&put("b"), SECOND).unwrap();
    other.transact(&put("c"), SECOND).unwrap();
    assert_eq!(watch.next(SECOND), Ok(None));
    store.with(|network| network.heal(ClientId(0)));
    let revisions: Vec<Revision> =
        (0..2).map(|_| watch.next(SECOND).unwrap().expect("a batch").revision).collect();
    assert_eq!(revisions, [Revision(2), Revision(3)]);
}

#[test]
fn restart_keeps_data_and_renews_leases() {
    let (store, _) = pair();
    let lease = store.grant(2 * SECOND, SECOND).unwrap();
    let mut operations = put("a").operations;
    if let Operation::Put { lease: of_put, .. } = &mut operations[0] {
        *of_put = Some(lease.id);
    }
    store.transact(&Transaction { compares: vec![], operations }, SECOND).unwrap();
    let mut watch = store.watch(b"", Revision(1), SECOND).unwrap();
    assert!(watch.next(SECOND).unwrap().is_some());
    store.pass(SECOND);
    store.with(Network::stop);
    assert!(matches!(store.read(b"", SECOND), Err(Error::Unavailable(_))));
    assert!(matches!(watch.next(SECOND), Err(WatchEnd::Closed(_))));
    store.pass(10 * SECOND);
    store.with(Network::start);
    assert_eq!(keys(&store), 1);
    store.pass(3 * SECOND);
    assert_eq!(keys(&store), 0);
}

#[test]
fn slow_watch_that_starts_before_a_compaction_ends() {
    let settings = Settings { delay: SECOND..2 * SECOND, ..Settings::default() };
    let store = Memory::new(Network::new(settings));
    store.transact(&put("a"), 10 * SECOND).unwrap();
    store.transact(&put("a"), 10 * SECOND).unwrap();
    store.with(|network| network.compact(Revision(3)));
    let mut watch = store.watch(b"", Revision(1), 10 * SECOND).unwrap();
    let end = Err(WatchEnd::Compacted { oldest: Some(Revision(3)) });
    assert_eq!(watch.next(10 * SECOND), end);
    assert_eq!(watch.resume_from(), Revision(1));
}

/// Clients that increment a counter through all faults; returns all events.
fn run(seed: u64) -> Vec<(Duration, Event)> {
    let delay = Duration::ZERO..Duration::from_millis(300);
    let settings = Settings { seed, delay, lost_answers: 50, ..Settings::default() };
    let mut network = Network::new(settings);
    let mut rng = Rng::new(seed);
    let mut events = Vec::new();
    let mut now = Duration::ZERO;
    for step in 0..200 {
        let client = ClientId(rng.below(3) as u32);
        match rng.below(20) {
            0 => network.cut(client, Cut::Refused),
            1 => network.cut(client, Cut::Silent),
            2..5 => network.heal(client),
            5 => network.stop(),
            6..9 => network.start(),
            9 => network.compact(Revision(network.state().revision().0.saturating_sub(3))),
            10 => {
                let request = Request::Watch { prefix: vec![], from: Revision(2) };
                network.send(now, client, request, SECOND);
            }
            _ => {
                let request = Request::Transact(increment(&network, step));
                network.send(now, client, request, SECOND);
            }
        }
        now += Duration::from_millis(rng.below(200) as u64);
        events.extend(network.advance(now).into_iter().map(|event| (now, event)));
    }
    events.extend(network.advance(now + 2 * SECOND).into_iter().map(|event| (now, event)));
    events
}

/// Puts the counter, if it still is what it is now.
fn increment(network: &Network, step: usize) -> Transaction {
    let key = b"count".to_vec();
    let snapshot = network.state().read(&key);
    let compare = match snapshot.entries.first() {
        Some(entry) => Compare::Modified { key: key.clone(), revision: entry.modified },
        None => Compare::Absent { key: key.clone() },
    };
    let value = step.to_string().into_bytes();
    Transaction {
        compares: vec![compare],
        operations: vec![Operation::Put { key, value, lease: None }],
    }
}

#[test]
fn runs_repeat_and_answer_each_request_once() {
    let mut committed = 0;
    for seed in 0..300 {
        let events = run(seed);
        assert_eq!(events, run(seed), "seed {seed}");
        let mut answered: Vec<_> = Vec::new();
        let mut revisions = Vec::new();
        for (_, event) in &events {
            let Event::Answered { request, result, .. } = event else { continue };
            answered.push(*request);
            if let Ok(Answer::Transacted(Outcome::Committed { revision })) = result {
                revisions.push(*revision);
            }
        }
        committed += revisions.len();
        let (all, times) = (revisions.len(), answered.len());
        answered.sort_unstable();
        answered.dedup();
        revisions.sort_unstable();
        revisions.dedup();
        assert_eq!((all, times), (revisions.len(), answered.len()), "seed {seed}");
    }
    assert!(committed > 1000, "only {committed} transactions succeeded");
}
