//! Interaction with long commands: waiting for several shards, clients killed while they wait, and
//! commands refused in transactions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_testkit::{Client, Server, Value};
use weft_tests::scene::{
    HeldShard, LongCommand, client, on_both, reply, reply_within, send, until_in_slow_lane,
};

const TWO: [&str; 4] = ["--io-threads", "2", "--io-threads-always-active", "yes"];

/// Sends `commands` repeatedly until `done`, or until the server is gone.
fn repeat(mut client: Client, commands: &[Vec<String>], done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) && client.pipeline(commands).is_ok() {}
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(String::from).collect()
}

/// WATCH of two keys always finds one shard locked, since long commands lock it one after another
/// and the client's own thread is always late. The WATCH must then run in the slow lane.
#[test]
fn watch_that_never_finds_its_shards_free_still_runs() {
    const TIME: Duration = Duration::from_secs(4);
    let mut server = Server::weft(&["--io-threads", "1"]);
    let long = LongCommand::with_tag(&server, "a");
    let mut maker = client(&server);
    let elements = (0..20_000).map(|n| format!("element:{n}"));
    let push: Vec<String> = words("RPUSH search").into_iter().chain(elements).collect();
    maker.cmd(&push);
    let request = [long.request(0.03)];
    let search = vec![words("LPOS search none"); 40];
    let done = AtomicBool::new(false);
    let watched = std::thread::scope(|scope| {
        for _ in 0..12 {
            let client = client(&server);
            scope.spawn(|| repeat(client, &request, &done));
        }
        let occupied = client(&server);
        scope.spawn(|| repeat(occupied, &search, &done));
        let watchers = [(); 4].map(|()| {
            let mut watcher = client(&server);
            let done = &done;
            scope.spawn(move || {
                let mut broken = true;
                while !done.load(Ordering::Relaxed) {
                    watcher.try_cmd(&["WATCH", "{a}x", "{b}y"]).ok()?;
                }
                // The keys are watched, whichever thread ran the WATCH.
                for word in ["{a}x", "{b}y"] {
                    watcher.try_cmd(&["WATCH", "{a}x", "{b}y"]).ok()?;
                    watcher.try_cmd(&["SET", word, "v"]).ok()?;
                    watcher.try_cmd(&["MULTI"]).ok()?;
                    broken &= watcher.try_cmd(&["EXEC"]).ok()?.value.is_null();
                }
                Some(broken)
            })
        });
        let begin = Instant::now();
        while begin.elapsed() < TIME && server.is_alive() {
            std::thread::sleep(Duration::from_millis(20));
        }
        done.store(true, Ordering::Relaxed);
        watchers.map(|watcher| watcher.join().expect("a thread"))
    });
    assert!(server.is_alive(), "the server has crashed");
    assert_eq!(watched, [Some(true); 4]);
}

/// Requests of a killed client wait for all shards, and one is locked. When they get them,
/// CLIENT KILL has been answered and other clients have written: the requests must not run.
#[test]
fn killed_client_does_nothing_when_its_turn_comes() {
    for line in
        ["FLUSHALL", "SWAPDB 0 1", "MULTI;FLUSHALL;EXEC", "SORT {b}small BY w* STORE {b}key"]
    {
        let server = Server::weft(&TWO);
        let (mut victim, mut other) = (client(&server), client(&server));
        other.cmd(&["RPUSH", "{b}small", "1", "2", "3"]);
        let id = victim.cmd(&["CLIENT", "ID"]).int().to_string();
        let held = HeldShard::with_tag(&server, "a");
        let requests: Vec<Vec<String>> = line.split(';').map(words).collect();
        requests.iter().for_each(|request| send(&mut victim, request));
        until_in_slow_lane(&mut other, 2);
        assert_eq!(other.cmd(&["CLIENT", "KILL", "ID", &id]).int(), 1);
        other.ok(&["SET", "{b}key", "precious"]);
        held.release();
        // This command waits for all shards after the killed one.
        other.cmd(&["SORT", "{b}small", "BY", "w*", "STORE", "{b}other"]);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(other.cmd(&["GET", "{b}key"]).text(), "precious", "{line}");
    }
}

/// The wait for other commands does not count as execution time.
#[test]
fn execution_time_excludes_the_wait_for_shards() {
    let server = Server::weft(&TWO);
    let mut meter = client(&server);
    meter.ok(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    let held = HeldShard::with_tag(&server, "a");
    let begin = Instant::now();
    let mut late = client(&server);
    send(&mut late, &["SWAPDB", "1", "2"]);
    assert!(reply_within(&mut late, Duration::from_millis(200)).is_none(), "SWAPDB waits");
    held.release();
    reply(&mut late);
    let waited = begin.elapsed();
    let log = meter.cmd(&["SLOWLOG", "GET", "-1"]);
    let entries: Vec<_> = log.items().iter().map(|entry| entry.items()).collect();
    let is_late = |entry: &&&[Value]| entry[3].items()[0].text() == "SWAPDB";
    let took = entries.iter().find(is_late).expect("its entry");
    let took = Duration::from_micros(took[2].int() as u64);
    assert!(took < waited / 2, "{took:?} of {waited:?}");
}

#[test]
fn monitor_is_refused_in_a_transaction() {
    on_both(&[], &TWO, |server| {
        let mut client = client(server);
        for queued in ["MULTI", "MONITOR", "MONITOR", "PING"] {
            client.cmd(&[queued]);
        }
        let replies = client.cmd(&["EXEC"]);
        let refused = "ERR MONITOR isn't allowed for DENY BLOCKING client";
        let [first, second, pong] = replies.items() else { panic!("{replies:?}") };
        assert_eq!([first.error(), second.error()], [(); 2].map(|()| Some(refused.to_string())));
        assert_eq!(pong.text(), "PONG");
        assert_eq!(client.cmd(&["ECHO", "next"]).text(), "next");
    });
}
