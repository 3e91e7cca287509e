//! Members that are killed, stopped and started again.

use super::{TIMEOUT, client, keys, put, start, when_available};
use rustix::process::Signal;
use std::sync::mpsc;
use std::time::Duration;
use weft_cluster_store::store::{Outcome, Revision, WatchEnd};
use weft_cluster_store::{Error, Store};

/// For calls that must not succeed.
const SHORT: Duration = Duration::from_millis(500);

#[test]
fn killed_member_is_certain_and_keeps_its_data() {
    let Some(mut server) = start(1) else { return };
    let store = client(&server, "weft");
    store.transact(&put("a"), TIMEOUT).unwrap();
    let lease = store.grant(Duration::from_secs(600), TIMEOUT).unwrap();
    let mut watch = store.watch(b"", Revision(1), TIMEOUT).unwrap();
    let first = watch.next(TIMEOUT).unwrap().expect("a batch");
    server.kill(0);
    let end = watch.next(TIMEOUT);
    assert!(matches!(end, Err(WatchEnd::Closed(_))), "{end:?}");
    assert_eq!(watch.resume_from(), first.revision.next());
    // Idle connections are closed already.
    let result = store.transact(&put("b"), TIMEOUT);
    assert!(matches!(result, Err(Error::Unavailable(_))), "{result:?}");
    assert!(matches!(store.grant(TIMEOUT, TIMEOUT), Err(Error::Unavailable(_))));
    server.restart(0);
    assert_eq!(when_available(&server, || keys(&store)), 1);
    store.transact(&put("c"), TIMEOUT).unwrap();
    let mut watch = store.watch(b"", watch.resume_from(), TIMEOUT).unwrap();
    let batch = watch.next(TIMEOUT).unwrap().expect("a batch");
    assert_eq!(batch.changes.len(), 1);
    assert_eq!(store.keep_alive(lease.id, TIMEOUT), Ok(lease.ttl));
}

#[test]
fn stopped_member_leaves_doubt() {
    let Some(server) = start(1) else { return };
    let store = client(&server, "weft");
    store.transact(&put("a"), TIMEOUT).unwrap();
    let lease = store.grant(Duration::from_secs(600), TIMEOUT).unwrap();
    server.signal(0, Signal::STOP);
    let result = store.transact(&put("b"), SHORT);
    assert!(matches!(result, Err(Error::Unknown(_))), "{result:?}");
    let result = store.read(b"", SHORT);
    assert!(matches!(result, Err(Error::Unavailable(_))), "{result:?}");
    let result = store.keep_alive(lease.id, SHORT);
    assert!(matches!(result, Err(Error::Unknown(_))), "{result:?}");
    let result = store.watch(b"", Revision(1), SHORT).map(|_| ());
    assert!(matches!(result, Err(Error::Unavailable(_))), "{result:?}");
    server.signal(0, Signal::CONT);
    // The transaction that was in doubt may be there or not.
    assert!(when_available(&server, || keys(&store)) >= 1);
}

#[test]
fn waiting_watch_is_cancelled_at_once() {
    let Some(server) = start(1) else { return };
    let store = client(&server, "weft");
    let mut watch = store.watch(b"", Revision(1), TIMEOUT).unwrap();
    let canceller = watch.canceller();
    let (waits, begins) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        waits.send(()).expect("the test listens");
        watch.next(Duration::from_secs(3600))
    });
    begins.recv().expect("the thread begins");
    canceller.cancel();
    assert_eq!(waiting.join().expect("no panic"), Err(WatchEnd::Cancelled));
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn killed_leader_is_replaced() {
    let Some(mut server) = start(3) else { return };
    let store = client(&server, "weft");
    when_available(&server, || store.transact(&put("a"), TIMEOUT));
    let lease = when_available(&server, || store.grant(Duration::from_secs(600), TIMEOUT));
    let leader = (0..3).find_map(|member| server.leader(member)).expect("a leader");
    server.kill(leader);
    let Outcome::Committed { revision } =
        when_available(&server, || store.transact(&put("b"), TIMEOUT))
    else {
        panic!("no comparison")
    };
    assert_eq!(when_available(&server, || keys(&store)), 2);
    when_available(&server, || store.keep_alive(lease.id, TIMEOUT));
    let mut watch = when_available(&server, || store.watch(b"", revision, TIMEOUT));
    assert!(watch.next(TIMEOUT).unwrap().is_some());
    server.restart(leader);
    server.wait_until("all are healthy", || (0..3).all(|member| server.is_healthy(member)));
    assert_eq!(when_available(&server, || keys(&store)), 2);
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn hanging_leader_is_passed_by() {
    let Some(server) = start(3) else { return };
    let store = client(&server, "weft");
    when_available(&server, || store.transact(&put("a"), TIMEOUT));
    let leader = (0..3).find_map(|member| server.leader(member)).expect("a leader");
    server.signal(leader, Signal::STOP);
    assert_eq!(when_available(&server, || store.read(b"", 3 * SHORT)).entries.len(), 1);
    when_available(&server, || store.transact(&put("b"), 3 * SHORT));
    server.signal(leader, Signal::CONT);
    assert_eq!(when_available(&server, || keys(&store)), 2);
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn watch_ends_when_its_member_loses_its_leader() {
    let Some(server) = start(3) else { return };
    let store = client(&server, "weft");
    let mut watch = when_available(&server, || store.watch(b"", Revision(1), TIMEOUT));
    // The watch is at the first endpoint, which answered.
    server.signal(1, Signal::STOP);
    server.signal(2, Signal::STOP);
    let end = watch.next(Duration::from_secs(60));
    assert!(matches!(end, Err(WatchEnd::Closed(_))), "{end:?}");
    let result = store.read(b"", SHORT);
    assert!(matches!(result, Err(Error::Unavailable(_))), "{result:?}");
    let result = store.transact(&put("a"), SHORT);
    assert!(result.is_err(), "{result:?}");
    server.signal(1, Signal::CONT);
    server.signal(2, Signal::CONT);
    when_available(&server, || store.transact(&put("b"), TIMEOUT));
}
