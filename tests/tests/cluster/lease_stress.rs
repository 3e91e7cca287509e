//! The lease of a node is set to random times while clients write, read, block and publish: each acknowledgement must be covered
//! by a lease.
//!
//! A thread sets the lease, and records when it may have lasted. All times are of this process, which runs on the same machine
//! as the server:
//!
//! ```text
//!  sent        answered                       answered + milliseconds
//!   ├─ DEBUG CLUSTER-LEASE <milliseconds> ─┤
//!   ╞═════════════════ may last ══════════════════════╡
//! ```
//!
//! A request that was sent and answered while no lease can have lasted must not be acknowledged.
//!
//! | variable | meaning |
//! |---|---|
//! | `LEASE_SECONDS` | the duration, default 3 |

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weft_testkit::client::encode_into;
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server};
use weft_tests::env_or;

const OPTIONS: [&str; 8] = [
    "--cluster-enabled",
    "yes",
    "--enable-debug-command",
    "yes",
    "--io-threads",
    "4",
    "--io-threads-always-active",
    "yes",
];
/// Some milliseconds.
const LONG: &str = "for i = 1, 300000 do end return redis.call('SET', KEYS[1], '1')";
const WORKERS: usize = 8;

/// The times in which a lease may have lasted, in microseconds from the beginning.
#[derive(Default)]
struct Leases(Mutex<Vec<(u64, u64)>>);

impl Leases {
    /// Whether some lease may have lasted between these times.
    fn covers(&self, from: u64, to: u64) -> bool {
        let leases = self.0.lock().expect("no thread panics with the lock");
        let first = leases.partition_point(|(_, end)| *end < from);
        leases[first..].iter().any(|(begin, end)| *begin <= to && from <= *end)
    }
}

struct Run {
    begin: Instant,
    leases: Leases,
    is_over: AtomicBool,
    acknowledged: AtomicU64,
    refused: AtomicU64,
    closed: AtomicU64,
}

impl Run {
    fn now(&self) -> u64 {
        self.begin.elapsed().as_micros() as u64
    }
}

/// Sets the lease to random times.
fn set_leases(run: &Run, port: u16) {
    let (mut admin, mut rng) = (Client::tcp(port), Rng::new(7));
    while !run.is_over.load(Ordering::Relaxed) {
        let ms = match rng.below(3) {
            0 => 0,
            _ => 1 + rng.below(20) as u64,
        };
        let sent = run.now();
        // Recorded before it may begin; its end is corrected as soon as it is known.
        let at = {
            let mut leases = run.leases.0.lock().expect("no thread panics with the lock");
            // The earlier lease may have lasted up to now, and no longer than it was set for.
            leases.push((sent, u64::MAX));
            leases.len() - 1
        };
        admin.ok(&["DEBUG", "CLUSTER-LEASE", &ms.to_string()]);
        let answered = run.now();
        let mut leases = run.leases.0.lock().expect("no thread panics with the lock");
        if at > 0 {
            leases[at - 1].1 = leases[at - 1].1.min(answered);
        }
        // The server's clock has whole milliseconds.
        leases[at].1 = answered + 1000 * ms + if ms > 0 { 1000 } else { 0 };
        drop(leases);
        thread::sleep(Duration::from_micros(rng.below(30_000) as u64));
    }
    // Requests that were sent before may be acknowledged from now on.
    run.leases.0.lock().expect("no thread panics with the lock").push((run.now(), u64::MAX));
    admin.ok(&["DEBUG", "CLUSTER-LEASE", "none"]);
}

/// One write: commands of several kinds. The last word of each is the number of replies.
fn requests(rng: &mut Rng, worker: usize, bytes: &mut Vec<u8>) -> usize {
    let key = format!("{{{}}}{worker}", rng.below(50));
    let mut sent = 0;
    for _ in 0..1 + rng.below(8) {
        let mut send = |words: &[&str]| {
            encode_into(words, bytes);
            sent += 1;
        };
        match rng.below(13) {
            0..5 => send(&["SET", &key, "1"]),
            5 => send(&["GET", &key]),
            6 => {
                send(&["MULTI"]);
                send(&["INCR", "{n}n"]);
                send(&["EXEC"]);
            }
            7 => send(&["EVAL", "return redis.call('SET', KEYS[1], '1')", "1", &key]),
            8 => send(&["SPUBLISH", "channel", "message"]),
            9 => send(&["RPUSH", "list", "x"]),
            10 => send(&["BLPOP", "list", "0.01"]),
            // The lease often ends during it.
            11 => send(&["EVAL", LONG, "1", &key]),
            _ => send(&["PING"]),
        }
    }
    sent
}

/// Whether a reply acknowledges a command on keys or channels.
fn acknowledges(raw: &[u8]) -> bool {
    let harmless: [&[u8]; 3] = [b"-CLUSTERDOWN", b"-EXECABORT", b"+PONG"];
    // MULTI: +OK is also the reply of SET, which is judged by the others of its kind.
    !harmless.iter().any(|text| raw.starts_with(text)) && raw != b"+QUEUED\r\n"
}

fn work(run: &Run, port: u16, worker: usize) {
    let mut rng = Rng::new(worker as u64 + 1);
    let mut client = Client::tcp(port);
    let mut bytes = Vec::new();
    while !run.is_over.load(Ordering::Relaxed) {
        bytes.clear();
        let count = requests(&mut rng, worker, &mut bytes);
        let has_multi = bytes.windows(5).any(|at| at == b"MULTI");
        let sent = run.now();
        if client.send_raw(&bytes).is_err() {
            client = Client::tcp(port);
            continue;
        }
        for _ in 0..count {
            let Ok(reply) = client.read_reply() else {
                run.closed.fetch_add(1, Ordering::Relaxed);
                client = Client::tcp(port);
                break;
            };
            let got = run.now();
            if !acknowledges(&reply.raw) || has_multi && reply.raw == b"+OK\r\n" {
                run.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            run.acknowledged.fetch_add(1, Ordering::Relaxed);
            assert!(
                run.leases.covers(sent, got),
                "acknowledged without a lease, sent at {sent} and answered at {got} us: {}",
                reply.value
            );
        }
    }
}

#[test]
fn each_acknowledgement_is_covered_by_a_lease() {
    let server = Server::weft(&OPTIONS);
    let port = server.port();
    let mut admin = server.client();
    admin.ok(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    admin.ok(&["DEBUG", "CLUSTER-LEASE", "0"]);
    let run = Run {
        begin: Instant::now(),
        leases: Leases::default(),
        is_over: AtomicBool::new(false),
        acknowledged: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        closed: AtomicU64::new(0),
    };
    thread::scope(|scope| {
        scope.spawn(|| set_leases(&run, port));
        let workers: Vec<_> = (0..WORKERS)
            .map(|n| {
                scope.spawn({
                    let run = &run;
                    move || work(run, port, n)
                })
            })
            .collect();
        let end = Instant::now() + Duration::from_secs(env_or("LEASE_SECONDS", 3));
        while Instant::now() < end && workers.iter().all(|worker| !worker.is_finished()) {
            thread::sleep(Duration::from_millis(10));
        }
        run.is_over.store(true, Ordering::Relaxed);
    });
    let counts = [&run.acknowledged, &run.refused, &run.closed];
    let [acknowledged, refused, closed] = counts.map(|count| count.load(Ordering::Relaxed));
    println!("{acknowledged} acknowledged, {refused} refused, {closed} connections closed");
    assert!(acknowledged > 0 && refused > 0 && closed > 0);
}
