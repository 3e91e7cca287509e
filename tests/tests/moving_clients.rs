//! Connections move to other threads hundreds of times a second, with all kinds of pending state:
//! requests in flight, partial requests, unread replies, blocked commands, transactions, pushes,
//! long commands, pauses. Every reply has a deadline, so a lost wake-up fails the test and shows
//! where.
//!
//! DEBUG ACTIVE-THREADS deactivates and activates threads, which moves connections as under
//! changing load. DEBUG MOVE-CLIENTS scatters the connections.
//!
//! | variable | meaning |
//! |---|---|
//! | `MOVING_SECONDS` | seconds of each test, default 3 |
//! | `MOVING_SEED` | seed, default 1 |
//! | `MOVING_DEADLINE` | seconds that a reply may take, default 60; use 10 on an idle machine |
//! | `MOVING_CONNECTIONS` | approximate number of connections, default 200 |
//! | `MOVING_WITHOUT` | kinds of clients to leave out, separated by commas |

#[path = "moving_clients/blocked.rs"]
mod blocked;
#[path = "moving_clients/mover.rs"]
mod mover;
#[path = "moving_clients/multiplexed.rs"]
mod multiplexed;
#[path = "moving_clients/pushes.rs"]
mod pushes;
#[path = "moving_clients/values.rs"]
mod values;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, Value, client};
use weft_tests::env_or;

/// Clients that move all others. More than one, because they also wait for their own replies.
const MOVERS: u64 = 3;

/// The number of changes of active threads until which a slow machine continues the test.
const CHANGES: u64 = 50;

/// State shared by all clients of a test.
pub struct Run<'a> {
    pub server: &'a Server,
    pub seed: u64,
    /// How long a reply may take.
    pub deadline: Duration,
    until: Instant,
    failed: AtomicBool,
    answers: AtomicU64,
    /// Changes of active threads so far.
    changes: AtomicU64,
}

impl Run<'_> {
    /// Whether clients continue.
    pub fn should_continue(&self) -> bool {
        let now = Instant::now();
        let wants_more = now < self.until
            || self.changes.load(Ordering::Relaxed) < CHANGES && now < self.until + self.deadline;
        wants_more && !self.failed.load(Ordering::Relaxed)
    }

    pub fn rng(&self, nth: u64) -> Rng {
        Rng::new(self.seed.wrapping_mul(1_000_003).wrapping_add(nth))
    }

    /// A client with the deadline for every read.
    pub fn client(&self) -> Client {
        let mut client = self.server.client();
        client.set_timeout(self.deadline);
        client
    }

    /// The client's next reply, to `what`.
    ///
    /// # Panics
    /// If it does not arrive in time.
    pub fn reply(&self, client: &mut Client, what: &str) -> Value {
        match client.read_reply() {
            Ok(reply) => {
                self.answers.fetch_add(1, Ordering::Relaxed);
                reply.value
            }
            Err(e) => self.fail(what, &e),
        }
    }

    /// Sends a command and reads its reply.
    pub fn cmd(&self, client: &mut Client, args: &[&str]) -> Value {
        client.send_raw(&client::encode(args)).unwrap_or_else(|e| self.fail(args[0], &e));
        self.reply(client, args[0])
    }

    /// Counts replies that were read without [`Run::reply`].
    pub fn count(&self, answers: u64) {
        self.answers.fetch_add(answers, Ordering::Relaxed);
    }

    /// Fails the test because of a missing reply, and prints the state of the server.
    pub fn fail(&self, what: &str, e: &io::Error) -> ! {
        if self.failed.swap(true, Ordering::Relaxed) {
            panic!("{what}: {e}, after another failure");
        }
        let mut client = self.server.client();
        for section in ["threads", "stats", "clients"] {
            eprintln!("{}", client.cmd(&["INFO", section]).text());
        }
        eprintln!("{}", client.cmd(&["CLIENT", "LIST"]).text());
        eprintln!("{}", self.server.log_tail());
        panic!("{what}: {e}");
    }
}

/// A name, a number of threads, and the function that each runs with its own number.
type Kind = (&'static str, u64, fn(&Run<'_>, u64));

/// Runs all kinds of clients while threads are deactivated and activated.
fn run(name: &str, threads: usize, args: &[&str]) {
    let count = threads.to_string();
    let own = ["--io-threads", &count, "--enable-debug-command", "yes"];
    let server = Server::weft(&[&own[..], args].concat());
    let run = Run {
        server: &server,
        seed: env_or("MOVING_SEED", 1),
        deadline: Duration::from_secs(env_or("MOVING_DEADLINE", 60)),
        until: Instant::now() + Duration::from_secs(env_or("MOVING_SECONDS", 3)),
        failed: AtomicBool::new(false),
        answers: AtomicU64::new(0),
        changes: AtomicU64::new(0),
    };
    values::fill(&run);
    // Most kinds use two or more connections per thread.
    let tenths = env_or::<u64>("MOVING_CONNECTIONS", 200).div_ceil(20);
    let without: String = env_or("MOVING_WITHOUT", String::new());
    let kinds: [Kind; 11] = [
        ("counts", 2 * tenths, multiplexed::counts),
        ("transacts", 2 * tenths, values::transacts),
        ("reads_slowly", tenths, values::reads_slowly),
        ("writes_in_pieces", tenths, values::writes_in_pieces),
        ("skips_replies", tenths, values::skips_replies),
        ("pops", 2 * tenths, blocked::pops),
        ("follows_a_stream", tenths, blocked::follows_a_stream),
        ("listens", tenths, pushes::listens),
        ("keeps", tenths / 2, pushes::keeps),
        ("monitors", 1, pushes::monitors),
        ("comes_and_goes", tenths / 2, multiplexed::comes_and_goes),
    ];
    std::thread::scope(|scope| {
        let guarded = |client: fn(&Run<'_>, u64), nth: u64| {
            let run = &run;
            scope.spawn(move || {
                // A panic of one client ends the others, too.
                let ended = catch_unwind(AssertUnwindSafe(|| client(run, nth)));
                if let Err(panic) = ended {
                    run.failed.store(true, Ordering::Relaxed);
                    resume_unwind(panic);
                }
            });
        };
        for (kind, (name, count, client)) in kinds.into_iter().enumerate() {
            let count = if without.split(',').any(|other| other == name) { 0 } else { count };
            (0..count).for_each(|nth| guarded(client, 1000 * kind as u64 + nth));
        }
        for nth in 0..MOVERS {
            let run = &run;
            scope.spawn(move || mover::moves(run, nth, threads));
        }
        scope.spawn(|| mover::pauses(&run));
    });
    let mut client = server.client();
    let moved = mover::number(&mut client, "moves");
    println!(
        "{name}: {} answers, {moved} moves, {} changes of active threads",
        run.answers.into_inner(),
        run.changes.into_inner()
    );
    assert!(moved > 100, "nothing was tested");
    let errors = client.cmd(&["INFO", "stats"]).text();
    assert!(errors.contains("total_error_replies:0\r\n"), "{errors}");
}

#[test]
fn clients_on_two_threads_get_all_replies() {
    run("two threads", 2, &[]);
}

#[test]
fn clients_on_four_threads_get_all_replies() {
    run("four threads", 4, &[]);
}

/// Replies wait until their writes are on disk.
#[test]
fn clients_under_appendfsync_always_get_all_replies() {
    let args = ["--appendonly", "yes", "--appendfsync", "always"];
    run("appendfsync always", 3, &args);
}
