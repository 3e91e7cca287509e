//! All disturbances at once: the server stays up, answers every client and frees all memory
//! afterwards.
//!
//! `weft_testkit_concurrent::chaos` describes the disturbances.
//!
//! | variable | meaning |
//! |---|---|
//! | `CHAOS_SECONDS` | duration, default 5 |
//! | `CHAOS_CONNECTIONS` | number of connections, default 200 |
//! | `CHAOS_SEED` | seed, default 1; printed |
//! | `CHAOS_THREADS` | `io-threads` at the start and the end, default 4 |
//! | `CHAOS_WITHOUT` | words; requests with one of them are left out, to avoid a known fault |
//! | `CHAOS_KEPT` | bytes that may stay in use, compared with the start, default 32 MB |
//!
//! Statistics do not count: one latency histogram per command and thread takes up to 20 MB. The
//! allowed rest is buffers that threads have grown and keep.

use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_testkit::Server;
use weft_testkit_concurrent::chaos::{self, Options, Tally, after, roles};
use weft_tests::{assert_consistent, env_or};

#[test]
fn server_survives_chaos_and_frees_its_memory() {
    let options = Options {
        seed: env_or("CHAOS_SEED", 1),
        time: Duration::from_secs(env_or("CHAOS_SECONDS", 5)),
        connections: env_or("CHAOS_CONNECTIONS", 200),
        disturbers: 8,
        without: env_or("CHAOS_WITHOUT", String::new())
            .split_whitespace()
            .map(String::from)
            .collect(),
    };
    println!("CHAOS_SEED={}", options.seed);
    let threads = env_or("CHAOS_THREADS", 4).to_string();
    let mut server = Server::weft(&[
        "--io-threads",
        &threads,
        "--io-threads-always-active",
        "yes",
        "--enable-debug-command",
        "yes",
        // A save may fail when the descriptors run out.
        "--stop-writes-on-bgsave-error",
        "no",
        // The backlog for replicas is limited.
        "--repl-backlog-size",
        "1mb",
        "--repl-diskless-sync-delay",
        "0",
    ]);
    // A second server that is the replica at first, and the primary later.
    let mut other =
        Server::weft(&["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"]);
    let before = after::Before::of(&server);
    let tally = Tally::default();
    let mut pending = chaos::run(&server, &other, &options, &tally);
    println!("{}", tally.describe());
    assert!(server.is_alive() && other.is_alive(), "a server has exited");
    roles::make_primary(&mut other.client());
    let mut client = after::lift(&server, &before, &mut pending);
    let waited = after::check_all_answered(&mut client, pending);
    println!("{waited} connections with pending requests were answered or closed");
    after::no_client_is_left(&mut client);
    roles::check_no_replica_is_left(&server, &mut client);
    after::check_all_threads_serve(&server, &mut client);
    assert_eq!(client.cmd(&["DEBUG", "DIGEST"]).text().len(), 40);
    assert_consistent(&mut client);
    after::no_client_is_left(&mut client);
    let kept = after::check_memory_is_free(&mut client, &before, env_or("CHAOS_KEPT", 32 << 20));
    println!("{kept} bytes more than at the start are in use");
    roles::check_can_follow(&server, &other);
    after::check_log_is_clean(&server);
    after::check_log_is_clean(&other);
    assert!(server.is_alive(), "the server has exited");
    // A run in which little happened proves little.
    let done = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    assert!(done(&tally.replies) > done(&tally.errors), "mostly errors");
    assert!(done(&tally.disturbances) > 0 && done(&tally.closed) > 0);
}
