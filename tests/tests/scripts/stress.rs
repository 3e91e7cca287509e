//! Scripts that start over, with SCRIPT KILL, CLIENT KILL, clients that close, watches and blocked clients.
//!
//! | variable | meaning |
//! |---|---|
//! | `SCRIPT_STRESS_ROUNDS` | scripts of each client, default 400 |
//!
//! Scripts move elements between three lists, so that the number of elements never changes, and count themselves in two
//! shards. Blocked clients take an element and return it by a script.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server};
use weft_tests::scene::{client, info, send, until};
use weft_tests::{assert_consistent, env_or};

const LISTS: [&str; 3] = ["{a}list", "{b}list", "{c}list"];
/// Few, so that clients block.
const ELEMENTS: usize = 4;
const TAKERS: usize = 3;

/// Moves an element from the first list that has one. The lists aren't declared.
const MOVE: &str = "redis.call('incr', '{d}count')
    for n = 1, 3 do
      local element = redis.call('lpop', ARGV[n])
      if element then redis.call('rpush', ARGV[n % 3 + 1], element) break end
    end
    for n = 1, tonumber(ARGV[4]) do end
    redis.call('incr', '{e}count')
    return 1";

/// Reads for a long time; SCRIPT KILL ends it.
const READ: &str = "for n = 1, 3000 do redis.call('llen', ARGV[n % 3 + 1]) end return 1";

const SUM: &str = "local sum = 0
    for n = 1, 3 do sum = sum + redis.call('llen', ARGV[n]) end
    return {sum, redis.call('get', '{d}count') or '0', redis.call('get', '{e}count') or '0'}";

/// Whether the client still has its connection. A reply must come, or the end.
#[track_caller]
fn ask(client: &mut Client, args: &[&str]) -> bool {
    match client.try_cmd(args) {
        Ok(_) => true,
        Err(e) => {
            let timed_out = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
            assert!(!timed_out.contains(&e.kind()), "no reply and no end: {args:?}");
            false
        }
    }
}

/// Runs scripts; sometimes closes the connection in the middle.
fn run_scripts(server: &Server, seed: u64, rounds: usize) {
    let mut rng = Rng::new(seed);
    let mut connection = client(server);
    for _ in 0..rounds {
        let mut lists = LISTS;
        rng.shuffle(&mut lists);
        let count = if rng.percent(5) { "300000" } else { "0" };
        let script = if rng.percent(10) { READ } else { MOVE };
        let args = ["EVAL", script, "0", lists[0], lists[1], lists[2], count];
        let stays = match rng.below(20) {
            0 => {
                send(&mut connection, &args);
                false
            }
            1 => {
                ask(&mut connection, &["WATCH", "{d}count", lists[0]])
                    && ask(&mut connection, &["MULTI"])
                    && ask(&mut connection, &["LMOVE", lists[0], lists[1], "LEFT", "RIGHT"])
                    && ask(&mut connection, &args)
                    && ask(&mut connection, &["EXEC"])
            }
            _ => ask(&mut connection, &args),
        };
        if !stays {
            connection = client(server);
        }
    }
}

/// Waits for elements, and returns each by a script. Its connection is not killed, so no element is lost.
fn take_and_return(server: &Server, seed: u64, done: &AtomicBool) {
    let mut rng = Rng::new(seed);
    let mut connection = client(server);
    connection.ok(&["CLIENT", "SETNAME", "kept"]);
    while !done.load(Ordering::Relaxed) {
        let (a, b) = (*rng.pick(&LISTS), *rng.pick(&LISTS));
        let got = connection.cmd(&["BLPOP", a, b, "0.01"]);
        if got.is_null() {
            continue;
        }
        let (from, element) = (got.items()[0].text(), got.items()[1].text());
        let script = "redis.call('incr', '{d}count') redis.call('rpush', ARGV[1], ARGV[2])
            redis.call('incr', '{e}count') return 1";
        // SCRIPT KILL may end it before it writes.
        let args = ["EVAL", script, "0", &from, &element];
        until("the element is returned", || connection.cmd(&args).error().is_none());
    }
}

/// Kills scripts, and connections of others that run EVAL.
fn kill(server: &Server, seed: u64, done: &AtomicBool) {
    let mut rng = Rng::new(seed);
    let mut connection = client(server);
    while !done.load(Ordering::Relaxed) {
        match rng.below(4) {
            0 => {
                let list = connection.cmd(&["CLIENT", "LIST"]).text();
                let runs = |line: &&str| line.contains("cmd=eval") && !line.contains("name=kept");
                let ids: Vec<&str> = list.lines().filter(runs).collect();
                if let Some(line) = ids.first() {
                    let id = line.split_whitespace().next().unwrap_or_default();
                    connection.cmd(&["CLIENT", "KILL", "ID", id.trim_start_matches("id=")]);
                }
            }
            _ => drop(connection.cmd(&["SCRIPT", "KILL"])),
        }
        std::thread::sleep(Duration::from_micros(rng.below(2000) as u64));
    }
}

/// Checks that the scripts that have run are whole. Up to `taken` elements are not in a list.
#[track_caller]
fn check(reader: &mut Client, taken: usize) {
    let got = reader.cmd(&["EVAL_RO", SUM, "0", LISTS[0], LISTS[1], LISTS[2]]);
    if got.error().is_some_and(|error| error.contains("SCRIPT KILL")) {
        return;
    }
    let [sum, first, last] = got.items() else { panic!("{got}") };
    assert_eq!(first.text(), last.text());
    let sum = sum.int() as usize;
    assert!((ELEMENTS - taken..=ELEMENTS).contains(&sum), "{sum} elements");
}

#[test]
fn no_element_is_lost_under_kills() {
    let args = ["--io-threads", "4", "--io-threads-always-active", "yes"];
    let server = Server::weft(&[&args[..], &["--enable-debug-command", "yes"]].concat());
    let mut other = client(&server);
    for n in 0..ELEMENTS {
        other.cmd(&["RPUSH", LISTS[n % 3], &n.to_string()]);
    }
    let rounds: usize = env_or("SCRIPT_STRESS_ROUNDS", 400);
    let (done, left) = (AtomicBool::new(false), AtomicUsize::new(4));
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (server, done, left) = (&server, &done, &left);
            scope.spawn(move || {
                let _end = EndOnDrop { left, done };
                run_scripts(server, seed, rounds);
            });
        }
        scope.spawn(|| kill(&server, 10, &done));
        scope.spawn(|| kill(&server, 11, &done));
        for seed in 20..20 + TAKERS as u64 {
            let (server, done) = (&server, &done);
            scope.spawn(move || take_and_return(server, seed, done));
        }
        let mut reader = client(&server);
        reader.ok(&["CLIENT", "SETNAME", "kept"]);
        while !done.load(Ordering::Relaxed) {
            check(&mut reader, TAKERS);
        }
    });
    until("no script runs", || info(&mut other, "slow_lane_jobs") == 0);
    check(&mut other, 0);
    assert!(info(&mut other, "script_restarts") > 0);
    assert_consistent(&mut other);
}

/// Ends the other threads when the last client has ended, also by a panic.
struct EndOnDrop<'a> {
    left: &'a AtomicUsize,
    done: &'a AtomicBool,
}

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 || std::thread::panicking() {
            self.done.store(true, Ordering::Relaxed);
        }
    }
}
