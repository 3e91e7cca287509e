//! Users change while their clients execute, block, subscribe and run transactions on several threads: after the reply to
//! the change, nothing runs under the old rights.
//!
//! Clients of the user `worker` send as much as they can. Meanwhile an administrator takes rights away from the user, or
//! deletes it, and gives them back. Each command of a worker counts in a key. The sum must not grow between the answer to
//! the change and the return of the rights.
//!
//! | variable | meaning |
//! |---|---|
//! | `ACCESS_ROUNDS` | how often the rights are taken away, default 20 |

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use weft_testkit::client::encode_into;
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, Value};
use weft_tests::env_or;

const THREADS: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

/// Clients that execute.
const WORKERS: usize = 8;

/// Commands in one write.
const DEPTH: usize = 16;

/// Queued commands beyond which EXEC runs in the slow lane.
const LONG: usize = 2500;

const GRANT: &[&str] = &["ACL", "SETUSER", "worker", "reset", "on", ">pw", "~*", "&*", "+@all"];

/// The ways to take the rights away.
const REVOCATIONS: [&[&str]; 5] = [
    &["ACL", "SETUSER", "worker", "-@all", "+ping", "resetchannels"],
    &["ACL", "SETUSER", "worker", "resetkeys", "resetchannels", "~none"],
    &["ACL", "SETUSER", "worker", "-@write", "-@scripting", "resetchannels"],
    &["ACL", "SETUSER", "worker", "resetdbs", "db=9", "resetchannels"],
    &["ACL", "DELUSER", "worker"],
];

/// A connection that has logged in, if the user exists.
fn log_in(port: u16) -> Option<Client> {
    let mut client = Client::try_tcp(port).ok()?;
    let answer = client.try_cmd(&["AUTH", "worker", "pw"]).ok()?;
    answer.value.is_ok().then_some(client)
}

/// One write: commands that count, each in a different way.
fn requests(rng: &mut Rng, worker: usize) -> (Vec<u8>, usize) {
    let key = format!("count:{worker}:{}", rng.below(4));
    let key = key.as_str();
    let mut bytes = Vec::new();
    let mut sent = 0;
    let mut send = |words: &[&str]| {
        encode_into(words, &mut bytes);
        sent += 1;
    };
    for _ in 0..DEPTH {
        match rng.below(40) {
            0..20 => send(&["INCR", key]),
            20..24 => send(&["MSET", key, "1", "count:other", "1"]),
            24..30 => {
                send(&["MULTI"]);
                send(&["INCR", key]);
                send(&["INCR", "count:all"]);
                send(&["EXEC"]);
            }
            30..36 => send(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", key]),
            36 => {
                let script = "for i = 1, 30000 do redis.call('INCR', KEYS[1]) end";
                send(&["EVAL", script, "1", key]);
            }
            37 => {
                send(&["MULTI"]);
                (0..LONG).for_each(|_| send(&["INCR", key]));
                send(&["EXEC"]);
            }
            _ => send(&["LPUSH", "count:list", "x"]),
        }
    }
    (bytes, sent)
}

/// Sends commands until the end. Returns their number.
fn work(port: u16, worker: usize, is_over: &AtomicBool, done: &AtomicU64) {
    let mut rng = Rng::new(worker as u64 + 1);
    let mut client = None;
    while !is_over.load(Ordering::Relaxed) {
        let Some(open) = &mut client else {
            client = log_in(port);
            continue;
        };
        let (bytes, sent) = requests(&mut rng, worker);
        let is_open = open.send_raw(&bytes).is_ok() && (0..sent).all(|_| open.read_reply().is_ok());
        done.fetch_add(sent as u64, Ordering::Relaxed);
        if !is_open {
            client = None;
        }
    }
}

/// The sum of everything that workers have counted.
fn counted(admin: &mut Client) -> i64 {
    let script = "local n = redis.call('LLEN', 'count:list')
        for w = 0, 7 do for i = 0, 3 do n = n + (redis.call('GET', 'count:' .. w .. ':' .. i) or 0) end end
        return n + (redis.call('GET', 'count:all') or 0)";
    admin.cmd(&["EVAL", script, "0"]).int()
}

/// A client of the user in a state that only a later event ends.
struct Held {
    client: Client,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Blocked,
    Subscriber,
    Queued,
}

impl Held {
    fn new(port: u16, kind: Kind) -> Held {
        let mut client = log_in(port).expect("the user has its rights");
        match kind {
            Kind::Blocked => {
                let mut bytes = Vec::new();
                encode_into(&["BLPOP", "held:list", "0"], &mut bytes);
                client.send_raw(&bytes).expect("an open connection");
            }
            Kind::Subscriber => drop(client.cmd(&["SUBSCRIBE", "held:channel"])),
            Kind::Queued => {
                client.ok(&["MULTI"]);
                assert_eq!(client.cmd(&["INCR", "held:count"]).text(), "QUEUED");
            }
        }
        Held { client, kind }
    }

    /// After the user has lost its rights.
    fn check(mut self, admin: &mut Client) {
        match self.kind {
            Kind::Blocked => {
                assert_eq!(admin.cmd(&["RPUSH", "held:list", "x"]).int(), 1);
                assert_eq!(
                    admin.cmd(&["LLEN", "held:list"]).int(),
                    1,
                    "a blocked client was served"
                );
                admin.cmd(&["DEL", "held:list"]);
                let answer = self.client.read_reply().map(|reply| reply.value.error());
                let is_refused =
                    |e: &Option<String>| e.as_ref().is_some_and(|e| e.starts_with("NOPERM"));
                assert!(
                    answer.as_ref().is_err() || answer.as_ref().is_ok_and(is_refused),
                    "{answer:?}"
                );
            }
            Kind::Subscriber => {
                let receivers = admin.cmd(&["PUBLISH", "held:channel", "x"]).int();
                assert_eq!(receivers, 0, "a subscriber was kept");
            }
            Kind::Queued => {
                let answer = self.client.try_cmd(&["EXEC"]);
                assert_eq!(admin.cmd(&["EXISTS", "held:count"]).int(), 0, "{answer:?}");
            }
        }
    }
}

/// Waits until each of the clients is in its state.
fn wait_for_blocked(admin: &mut Client) {
    while !admin.cmd(&["INFO", "clients"]).text().contains("blocked_clients:1") {
        thread::yield_now();
    }
}

fn round(admin: &mut Client, port: u16, round: usize) {
    admin.ok(GRANT);
    let kinds = [Kind::Blocked, Kind::Subscriber, Kind::Queued];
    let held: Vec<Held> = kinds.into_iter().map(|kind| Held::new(port, kind)).collect();
    wait_for_blocked(admin);
    thread::sleep(Duration::from_micros(300 * (round as u64 % 7)));
    let revocation = REVOCATIONS[round % REVOCATIONS.len()];
    let answer = admin.cmd(revocation);
    assert!(answer.is_ok() || answer == Value::Integer(1), "{answer:?}");
    let before = counted(admin);
    held.into_iter().for_each(|held| held.check(admin));
    thread::sleep(Duration::from_millis(1));
    assert_eq!(counted(admin), before, "a command ran after {revocation:?} was answered");
}

#[test]
fn nothing_runs_under_rights_that_were_taken_away() {
    let server = Server::weft(&THREADS);
    let (port, rounds) = (server.port(), env_or("ACCESS_ROUNDS", 20));
    let (is_over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut admin = server.client();
    admin.set_timeout(Duration::from_secs(60));
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (is_over, done) = (&is_over, &done);
            scope.spawn(move || work(port, worker, is_over, done));
        }
        let run = || (0..rounds).for_each(|n| round(&mut admin, port, n));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            drop(server);
            std::panic::resume_unwind(panic);
        }
    });
    println!("{rounds} rounds, {} commands of workers", done.load(Ordering::Relaxed));
}
