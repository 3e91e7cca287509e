//! Connections that change their thread, hundreds of times a second, with everything pending that can be: requests in
//! flight, half requests, replies that are not taken, blocked commands, transactions, pushes, long commands, pauses.
//! Every single answer has a deadline, so a wake-up that gets lost fails the test and shows where.
//!
//! DEBUG ACTIVE-THREADS sends threads to sleep and wakes them, by which connections are handed over as the load has it
//! done; DEBUG MOVE-CLIENTS scatters them.
//!
//! | variable | meaning |
//! |---|---|
//! | `MOVING_SECONDS` | how long each test goes on, default 3 |
//! | `MOVING_SEED` | seed, default 1 |
//! | `MOVING_DEADLINE` | seconds that an answer may take, default 60; 10 where nothing else runs |
//! | `MOVING_CONNECTIONS` | about how many connections, default 200 |
//! | `MOVING_WITHOUT` | kinds of clients that are left out, with commas between |

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

use mover::Moves;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, Value, client};
use weft_tests::env_or;

/// Clients that move all others. More than one, since they wait for their own answers as well.
const MOVERS: u64 = 3;

/// What all clients of a test share.
pub struct Run<'a> {
    pub server: &'a Server,
    pub seed: u64,
    /// How long an answer may take.
    pub deadline: Duration,
    until: Instant,
    failed: AtomicBool,
    answers: AtomicU64,
}

impl Run<'_> {
    /// Whether clients go on.
    pub fn goes_on(&self) -> bool {
        Instant::now() < self.until && !self.failed.load(Ordering::Relaxed)
    }

    pub fn rng(&self, nth: u64) -> Rng {
        Rng::new(self.seed.wrapping_mul(1_000_003).wrapping_add(nth))
    }

    /// A client whose every read has the deadline.
    pub fn client(&self) -> Client {
        let mut client = self.server.client();
        client.set_timeout(self.deadline);
        client
    }

    /// The client's next reply, to `what`.
    ///
    /// # Panics
    /// When it does not come.
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

    /// Notes answers that were read without [`Run::reply`].
    pub fn count(&self, answers: u64) {
        self.answers.fetch_add(answers, Ordering::Relaxed);
    }

    /// Ends the test: an answer did not come. Shows where everybody is.
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

/// A name, how many threads, and what each does; it has a number of its own.
type Kind = (&'static str, u64, fn(&Run<'_>, u64));

/// Runs all kinds of clients beside threads that are sent to sleep and woken.
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
    };
    values::fill(&run);
    let moves = Moves::default();
    // Most kinds take two connections or more for each of their threads.
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
                // A mistake of one ends the others, too.
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
            let (run, moves) = (&run, &moves);
            scope.spawn(move || mover::moves(run, nth, threads, moves));
        }
        scope.spawn(|| mover::pauses(&run));
    });
    let mut client = server.client();
    let moved = mover::number(&mut client, "moves");
    println!(
        "{name}: {} answers, {moved} moves, activity changed {} times",
        run.answers.into_inner(),
        moves.changes.into_inner()
    );
    assert!(moved > 100, "nothing was tested");
    let errors = client.cmd(&["INFO", "stats"]).text();
    assert!(errors.contains("total_error_replies:0\r\n"), "{errors}");
}

#[test]
fn clients_of_two_threads_are_all_answered() {
    run("two threads", 2, &[]);
}

#[test]
fn clients_of_four_threads_are_all_answered() {
    run("four threads", 4, &[]);
}

/// Replies wait until the disk has what they tell of.
#[test]
fn clients_whose_replies_wait_for_the_disk_are_all_answered() {
    let args = ["--appendonly", "yes", "--appendfsync", "always"];
    run("appendfsync always", 3, &args);
}
