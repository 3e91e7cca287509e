//! Concurrent clients are served as if one after another: recorded histories are checked for
//! linearizability.
//!
//! | variable | meaning |
//! |---|---|
//! | `LINEAR_HISTORIES` | histories for each number of threads, default 1 |
//! | `LINEAR_OPERATIONS` | operations of each client, default 1,000 |
//! | `LINEAR_CLIENTS` | clients, default 8 |
//! | `LINEAR_THREADS` | numbers of I/O threads, default `1,2,4` |
//! | `LINEAR_WITH` | kinds of disturbances, of
//! `kill,pause,unblock,half-close,slow,expiry,world,streams,tracking,scripts,move`, or `all`; default `all`
//! |
//! | `LINEAR_SEED` | seed of the first history, default 1; a failure prints the one to use |
//! | `LINEAR_DUMP` | a file for the events of a history that is not linearizable |
//! | `WEFT_PLANTED` | a server built with the feature `planted`, which has the faults of `keyspace/planted.rs` |

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server};
use weft_testkit_concurrent::linear::load::{Load, record};
use weft_testkit_concurrent::linear::{Disturbances, Event, Verdict, check};
use weft_tests::env_or;
use weft_tests::scene::info;

/// All threads serve connections, as under load.
const THREADS: [&str; 6] =
    ["--io-threads", "4", "--io-threads-always-active", "yes", "--enable-debug-command", "yes"];

/// The disturbances in addition to plain operations, and whether connections move between threads.
fn disturbances() -> (Disturbances, bool) {
    let text = env_or("LINEAR_WITH", "all".to_string());
    let (wandering, others): (Vec<&str>, Vec<&str>) =
        text.split(',').partition(|name| *name == "move");
    let others = if others.is_empty() { "none".to_string() } else { others.join(",") };
    let with = others.parse().unwrap_or_else(|why| panic!("LINEAR_WITH: {why}"));
    (with, !wandering.is_empty() || text == "all")
}

/// Every second history has keys in three groups that are checked separately, and no commands on
/// all keys.
fn load(seed: u64) -> Load {
    Load {
        clients: env_or("LINEAR_CLIENTS", 8),
        operations: env_or("LINEAR_OPERATIONS", 1000),
        seed,
        groups: if seed.is_multiple_of(2) { 3 } else { 1 },
        with: disturbances().0,
        holders: seed as usize % 3,
    }
}

#[test]
fn histories_are_linearizable() {
    let threads = env_or("LINEAR_THREADS", "1,2,4".to_string());
    for (n, threads) in threads.split(',').enumerate() {
        let server = Server::weft(&[
            "--io-threads",
            threads,
            "--io-threads-always-active",
            "yes",
            "--enable-debug-command",
            "yes",
        ]);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            if disturbances().1 {
                scope.spawn(|| move_clients(&server, &done));
            }
            let _stop = SetOnDrop(&done);
            check_histories(&server, threads, n as u64);
        });
    }
}

/// Sets the flag on drop, also during a panic, so that the threads of a scope end.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Moves connections from thread to thread all the time.
fn move_clients(server: &Server, done: &AtomicBool) {
    let mut client = server.client();
    while !done.load(Ordering::Relaxed) {
        client.ok(&["DEBUG", "MOVE-CLIENTS"]);
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Recordings of one seed until the checker decides. Some histories have too many candidate orders
/// that fail late.
const ATTEMPTS: usize = 5;

fn check_histories(server: &Server, threads: &str, nth: u64) {
    let count: u64 = env_or("LINEAR_HISTORIES", 1);
    // Each number of threads gets its own seeds, odd and even.
    let first = env_or("LINEAR_SEED", 1 + nth * count);
    let (mut recording, mut checking) = (Duration::ZERO, Duration::ZERO);
    let (mut events, mut lost) = (0, 0);
    for seed in first..first + count {
        let (mut history, mut verdict) = (Vec::new(), Verdict::Unknown);
        for _ in 0..ATTEMPTS {
            server.client().ok(&["FLUSHALL"]);
            // In every second history, scripts soon hold all shards.
            hold_all_after(server, if seed % 4 < 2 { 4 } else { seed as usize % 2 });
            let start = Instant::now();
            history = record(server, load(seed));
            recording += start.elapsed();
            let start = Instant::now();
            verdict = check(&history);
            checking += start.elapsed();
            if verdict != Verdict::Unknown {
                break;
            }
            println!("LINEAR_SEED={seed} LINEAR_THREADS={threads}: not decided, retrying");
        }
        events += history.iter().map(Vec::len).sum::<usize>();
        lost += history.iter().flatten().filter(|event| event.answer.is_none()).count();
        let again = format!("LINEAR_SEED={seed} LINEAR_THREADS={threads}");
        if verdict != Verdict::Linearizable
            && let Ok(file) = std::env::var("LINEAR_DUMP")
        {
            std::fs::write(file, dump(&history)).expect("LINEAR_DUMP can be written");
        }
        match verdict {
            Verdict::Linearizable => {}
            Verdict::Unknown => panic!("{again}: not decided, {ATTEMPTS} times"),
            Verdict::Impossible(why) => panic!("{again}: not linearizable\n{why}"),
        }
    }
    let restarts = info(&mut server.client(), "script_restarts");
    if disturbances().0.scripts {
        assert!(restarts > 0, "no script has started over");
    }
    println!(
        "{count} histories with {threads} threads are linearizable: {events} events, {lost} of them \
         without a reply; {restarts} runs of scripts undone; recorded in {recording:.1?}, checked in {checking:.1?}"
    );
}

/// One line per event, in the order of their returns.
fn dump(history: &[Vec<Event>]) -> String {
    let mut lines: Vec<(u64, String)> = Vec::new();
    for (client, events) in history.iter().enumerate() {
        lines.extend(events.iter().map(|event| {
            (
                event.ret,
                format!(
                    "client {client} {}\n",
                    weft_testkit_concurrent::linear::check::line(event)
                ),
            )
        }));
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

/// The checker must be able to find a fault, also among all disturbances.
#[test]
fn planted_race_is_found() {
    is_found("planted_race_is_found", "race", 4, load);
}

/// The same for a fault in tracking, by which clients keep old values.
#[test]
fn planted_missing_invalidation_is_found() {
    let with = "slow,streams,tracking".parse().expect("known disturbances");
    let keeping = |seed| Load { with, ..load(seed) };
    is_found("planted_missing_invalidation_is_found", "stale", 4, keeping);
}

/// The same for faults of scripts: a record that is not restored, an undeclared shard that is not held between two
/// commands, and a shard that is left out where the script should hold all.
#[test]
fn planted_faults_of_scripts_are_found() {
    let with = "scripts".parse().expect("known disturbances");
    for fault in ["undo", "release", "left-out"] {
        println!("{fault}");
        let restarts = if fault == "left-out" { 1 } else { 4 };
        is_found("planted_faults_of_scripts_are_found", fault, restarts, |seed| Load {
            with,
            groups: 1,
            holders: 4,
            operations: 1000,
            ..load(seed)
        });
    }
}

fn is_found(test: &str, fault: &str, restarts: usize, load: impl Fn(u64) -> Load) {
    let Some(program) = std::env::var_os("WEFT_PLANTED").map(PathBuf::from) else {
        return weft_testkit::skipped::note(test, "no WEFT_PLANTED");
    };
    // The extension of the program's name chooses the fault.
    let named = program.with_extension(fault);
    let _ = std::fs::remove_file(&named);
    std::fs::hard_link(&program, &named).expect("a link");
    find_fault(&named, restarts, load);
}

/// Scripts that start over more often than this hold all shards.
fn hold_all_after(server: &Server, restarts: usize) {
    server.client().ok(&["DEBUG", "SCRIPT-RESTARTS", &restarts.to_string()]);
}

fn find_fault(program: &Path, restarts: usize, load: impl Fn(u64) -> Load) {
    let server = Server::start("planted", program, &THREADS);
    hold_all_after(&server, restarts);
    for seed in 1..=20 {
        server.client().ok(&["FLUSHALL"]);
        let verdict = check(&record(&server, load(seed)));
        if let Verdict::Impossible(_) = verdict {
            println!("found in history {seed}");
            return;
        }
    }
    panic!("20 histories of a server with a fault passed as linearizable");
}

/// Transactions transfer money between accounts in all shards. A client that reads all accounts at
/// once always sees the whole sum.
#[test]
fn transfers_keep_the_sum() {
    const ACCOUNTS: usize = 64;
    const MOVERS: usize = 16;
    let server = Server::weft(&THREADS);
    let transfers: u64 = env_or("TRANSFERS", 20_000);
    let accounts: Vec<String> = (0..ACCOUNTS).map(|n| format!("account:{n}")).collect();
    for account in &accounts {
        server.client().ok(&["SET", account, "1000"]);
    }
    let (made, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut read_all = vec!["MGET"];
    read_all.extend(accounts.iter().map(String::as_str));
    let sum = |client: &mut Client, read_all: &[&str]| -> i64 {
        client.cmd(read_all).items().iter().map(|v| v.text().parse::<i64>().unwrap()).sum()
    };
    std::thread::scope(|scope| {
        let movers: Vec<_> = (0..MOVERS)
            .map(|n| {
                let (server, made, accounts) = (&server, &made, &accounts);
                scope.spawn(move || {
                    let mut rng = Rng::new(n as u64);
                    let mut client = server.client();
                    while made.fetch_add(16, Ordering::Relaxed) < transfers {
                        move_money(&mut client, &mut rng, accounts);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = server.client();
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(sum(&mut client, &read_all), ACCOUNTS as i64 * 1000);
                }
            });
        }
        movers.into_iter().for_each(|m| m.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(sum(&mut server.client(), &read_all), ACCOUNTS as i64 * 1000);
}

/// Sends sixteen transfers in one pipeline.
fn move_money(client: &mut Client, rng: &mut Rng, accounts: &[String]) {
    let mut batch: Vec<Vec<String>> = Vec::new();
    for _ in 0..16 {
        let (from, to) = (rng.pick(accounts).clone(), rng.pick(accounts).clone());
        let amount = rng.between(1, 9).to_string();
        batch.push(vec!["MULTI".into()]);
        batch.push(vec!["DECRBY".into(), from, amount.clone()]);
        batch.push(vec!["INCRBY".into(), to, amount]);
        batch.push(vec!["EXEC".into()]);
    }
    for reply in client.pipeline(&batch).expect("the server answers") {
        assert_eq!(reply.value.error(), None);
    }
}
