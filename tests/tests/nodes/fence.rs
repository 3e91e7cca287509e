//! A primary that was stopped beyond its lease acknowledges nothing when it continues.

use std::io::ErrorKind;
use std::time::Duration;
use weft_testkit::client::{Client, encode};
use weft_testkit::cluster::slot::key_in;
use weft_testkit::cluster::{Cluster, Kind, Settings};
use weft_tests::env_or;
use weft_tests::scene::until_blocked;

/// A slot of the first primary.
const SLOT: u16 = 100;

/// Replies that acknowledge nothing.
fn is_refusal(text: &str) -> bool {
    ["MOVED", "CLUSTERDOWN", "READONLY", "UNBLOCKED", "EXECABORT", "LOADING"]
        .iter()
        .any(|e| text.starts_with(e))
}

/// A client, with what it sends while the primary is stopped.
struct Case {
    name: &'static str,
    client: Client,
    sent: Vec<Vec<u8>>,
    /// Replies that come before the first one that acknowledges: OK of MULTI, QUEUED.
    harmless: usize,
}

fn words(line: &str) -> Vec<u8> {
    encode(&line.split(' ').collect::<Vec<_>>())
}

fn cases(cluster: &Cluster, primary: usize) -> Vec<Case> {
    let key = |name: &str| key_in(SLOT, name);
    let script = encode(&["EVAL", "return server.call('set', KEYS[1], 'x')", "1", &key("script")]);
    let case = |name, sent: Vec<Vec<u8>>, harmless| {
        let client = cluster.client(primary);
        Case { name, client, sent, harmless }
    };
    vec![
        case("one write", vec![words(&format!("SET {} x", key("one")))], 0),
        case("pipeline", (0..100).map(|n| words(&format!("SET {} {n}", key("pipe")))).collect(), 0),
        case("read", vec![words(&format!("GET {}", key("seen")))], 0),
        case(
            "transaction",
            vec![words("MULTI"), words(&format!("INCR {}", key("exec"))), words("EXEC")],
            2,
        ),
        case("script", vec![script], 0),
        case("blocked", Vec::new(), 0),
        case("push to the blocked", vec![words(&format!("RPUSH {} x", key("list")))], 0),
        case("published", vec![words(&format!("SPUBLISH {} x", key("channel")))], 0),
        case("wait", vec![words(&format!("SET {} x", key("wait"))), words("WAIT 0 0")], 0),
        case("large", vec![encode(&["SET", &key("large"), &"x".repeat(3_000_000)])], 0),
    ]
}

/// Stops the first primary until a replica leads, lets it continue, and returns what it acknowledged since.
fn acknowledged_after_stop(cluster: &mut Cluster) -> Vec<String> {
    let primary = cluster.owner(SLOT).expect("all slots have an owner");
    let mut client = cluster.client(primary);
    client.ok(&["SET", &key_in(SLOT, "seen"), "v"]);
    let mut subscriber = cluster.client(primary);
    subscriber.hello(3);
    subscriber.cmd(&["PING"]);
    subscriber.send_raw(&words(&format!("SSUBSCRIBE {}", key_in(SLOT, "channel")))).expect("sent");
    subscriber.read_frame().expect("subscribed");
    let mut cases = cases(cluster, primary);
    for case in &mut cases {
        case.client.ok(&["SET", &key_in(SLOT, "before"), "v"]);
        if case.name == "blocked" {
            case.client
                .send_raw(&words(&format!("BLPOP {} 0", key_in(SLOT, "list"))))
                .expect("sent");
        }
        if case.name == "transaction" {
            // Half of a transaction before the stop is as common as all of it after.
            case.client.ok(&["MULTI"]);
            case.sent.remove(0);
            case.harmless -= 1;
        }
    }
    until_blocked(&mut client, 1);
    cluster.nodes[primary].stop();
    // In the sockets, the requests wait for the process.
    std::thread::scope(|scope| {
        let senders: Vec<_> = cases
            .iter_mut()
            .map(|case| {
                scope.spawn(move || {
                    // A large request ends when the process reads again, or never.
                    let _ = case.client.send_raw(&case.sent.concat());
                    case
                })
            })
            .collect();
        cluster.wait_until("a replica leads", || cluster.owner(SLOT).is_some());
        let mut session = cluster.session();
        session.until_done(&key_in(SLOT, "one"), &["SET", &key_in(SLOT, "one"), "new"]);
        cluster.nodes[primary].resume();
        let mut found = Vec::new();
        for sender in senders {
            let case = sender.join().expect("a sender doesn't panic");
            found.extend(acknowledged(case));
        }
        found.extend(messages(&mut subscriber));
        found
    })
}

/// The replies of a client other than refusals, until its connection ends or stays silent.
fn acknowledged(case: &mut Case) -> Vec<String> {
    let mut found = Vec::new();
    let mut harmless = case.harmless;
    // A blocked client may wait for its primary's return: then it gets no reply.
    case.client.set_timeout(Duration::from_secs(if case.sent.is_empty() { 3 } else { 20 }));
    let replies = case.sent.len().max(1);
    for _ in 0..replies {
        match case.client.read_reply() {
            Ok(reply) => match reply.value.error() {
                Some(error) if is_refusal(&error) => {}
                _ if harmless > 0 => harmless -= 1,
                // WAIT reads no key, and says how few replicas it has found.
                _ if case.name == "wait" && reply.value == weft_testkit::Value::Integer(0) => {}
                _ => found.push(format!("{}: {}", case.name, reply.value)),
            },
            Err(e) if matches!(e.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                break;
            }
            Err(e)
                if case.sent.is_empty()
                    && matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e) => found.push(format!("{}: neither a reply nor an end: {e}", case.name)),
        }
    }
    found
}

/// Messages of a shard channel; its end is none.
fn messages(subscriber: &mut Client) -> Vec<String> {
    subscriber.set_timeout(Duration::from_secs(1));
    let mut found = Vec::new();
    while let Ok(frame) = subscriber.read_frame() {
        let text = frame.value.to_string();
        if text.contains("smessage") {
            found.push(text);
        }
    }
    found
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn continued_primary_acknowledges_nothing() {
    for round in 0..env_or("CLUSTER_STOPS", 2) {
        for quorum in ["0", "1"] {
            let settings = Settings::of(9).with_weft(&["--cluster-write-quorum", quorum]);
            let Some(mut cluster) = Cluster::formed(Kind::Weft, 3, settings) else { return };
            let found = acknowledged_after_stop(&mut cluster);
            assert!(found.is_empty(), "round {round}, quorum {quorum}: {found:#?}");
            cluster.settle();
            let mut session = cluster.session();
            let key = key_in(SLOT, "one");
            assert_eq!(session.until_done(&key, &["GET", &key]).text(), "new");
        }
    }
}

/// The same requests are acknowledged by Valkey, so the test sees acknowledgements.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn continued_primary_of_valkey_acknowledges() {
    let Some(mut cluster) = Cluster::formed(Kind::Valkey, 3, Settings::of(6)) else { return };
    let found = acknowledged_after_stop(&mut cluster);
    println!("{found:#?}");
    assert!(!found.is_empty());
}
