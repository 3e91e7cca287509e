//! A slot is taken from the node while clients execute, block, subscribe and run transactions on its keys: after the reply to
//! the change, no command runs on the slot.
//!
//! Each command of a worker adds keys to the slot. Their number must not grow between the answer to CLUSTER DELSLOTS and
//! CLUSTER ADDSLOTS.
//!
//! | variable | meaning |
//! |---|---|
//! | `CLUSTER_ROUNDS` | how often the slot is taken away, default 8 |

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use weft_testkit::client::encode_into;
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server};
use weft_tests::env_or;

const OPTIONS: [&str; 8] = [
    "--cluster-enabled",
    "yes",
    "--cluster-require-full-coverage",
    "no",
    "--io-threads",
    "4",
    "--io-threads-always-active",
    "yes",
];

/// The slot of `{foo}`.
const SLOT: &str = "12182";
/// Clients that execute.
const WORKERS: usize = 8;
/// Commands in one write.
const DEPTH: usize = 16;
/// Queued commands beyond which EXEC runs in the slow lane.
const LONG: usize = 2500;

/// One write: commands that add keys to the slot, each in a different way.
fn requests(rng: &mut Rng, worker: usize, next: &mut u64) -> (Vec<u8>, usize) {
    let (mut bytes, mut sent) = (Vec::new(), 0);
    let mut send = |words: &[&str]| {
        encode_into(words, &mut bytes);
        sent += 1;
    };
    let mut key = || {
        *next += 1;
        format!("{{foo}}{worker}:{next}")
    };
    for _ in 0..DEPTH {
        match rng.below(40) {
            0..16 => send(&["SET", &key(), "1"]),
            16..20 => send(&["MSET", &key(), "1", &key(), "1"]),
            20..24 => send(&["SET", "elsewhere", "1"]),
            24..30 => {
                send(&["MULTI"]);
                send(&["SET", &key(), "1"]);
                send(&["SET", &key(), "1"]);
                send(&["EXEC"]);
            }
            30..36 => send(&["EVAL", "return redis.call('SET', KEYS[1], '1')", "1", &key()]),
            36 => {
                let script = "for i = 1, 3000 do redis.call('SET', KEYS[1] .. i, '1') end";
                send(&["EVAL", script, "1", &key()]);
            }
            37 => {
                send(&["MULTI"]);
                (0..LONG).for_each(|_| send(&["SET", &key(), "1"]));
                send(&["EXEC"]);
            }
            _ => send(&["LPUSH", &key(), "x"]),
        }
    }
    (bytes, sent)
}

/// Sends commands until the end.
fn work(port: u16, worker: usize, is_over: &AtomicBool, done: &AtomicU64) {
    let (mut rng, mut next) = (Rng::new(worker as u64 + 1), 0);
    let mut client = Client::tcp(port);
    client.set_timeout(Duration::from_secs(300));
    while !is_over.load(Ordering::Relaxed) {
        let (bytes, sent) = requests(&mut rng, worker, &mut next);
        client.send_raw(&bytes).expect("an open connection");
        for _ in 0..sent {
            client.read_reply().expect("a reply");
        }
        done.fetch_add(sent as u64, Ordering::Relaxed);
    }
}

fn count(admin: &mut Client) -> i64 {
    admin.cmd(&["CLUSTER", "COUNTKEYSINSLOT", SLOT]).int()
}

fn round(admin: &mut Client, port: u16, round: usize) {
    let mut blocked = Client::tcp(port);
    let mut bytes = Vec::new();
    encode_into(&["BLPOP", "{foo}list", "0"], &mut bytes);
    blocked.send_raw(&bytes).expect("an open connection");
    let mut subscriber = Client::tcp(port);
    subscriber.cmd(&["SSUBSCRIBE", "{foo}channel"]);
    while !admin.cmd(&["INFO", "clients"]).text().contains("blocked_clients:1") {
        thread::yield_now();
    }
    thread::sleep(Duration::from_micros(300 * (round as u64 % 7)));
    admin.ok(&["CLUSTER", "DELSLOTS", SLOT]);
    let before = count(admin);
    let error = blocked.read_reply().expect("a reply").value.error();
    assert_eq!(error.as_deref(), Some("CLUSTERDOWN Hash slot not served"));
    let push = subscriber.read_reply().expect("a push").value;
    assert!(push.to_string().contains("sunsubscribe"), "{push}");
    thread::sleep(Duration::from_millis(1));
    assert_eq!(count(admin), before, "a command ran after the slot was taken away");
    admin.ok(&["CLUSTER", "FLUSHSLOT", SLOT]);
    assert_eq!(count(admin), 0);
    admin.ok(&["CLUSTER", "ADDSLOTS", SLOT]);
}

#[test]
fn nothing_runs_on_a_slot_that_was_taken_away() {
    let server = Server::weft(&OPTIONS);
    let (port, rounds) = (server.port(), env_or("CLUSTER_ROUNDS", 8));
    let (is_over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut admin = server.client();
    admin.set_timeout(Duration::from_secs(300));
    admin.ok(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    let mut running = Some(server);
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (is_over, done) = (&is_over, &done);
            scope.spawn(move || work(port, worker, is_over, done));
        }
        let run = || (0..rounds).for_each(|n| round(&mut admin, port, n));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            // Workers stop at the end of their connection.
            drop(running.take());
            std::panic::resume_unwind(panic);
        }
    });
    println!("{rounds} rounds, {} commands of workers", done.load(Ordering::Relaxed));
}
