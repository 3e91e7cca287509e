//! CLIENT PAUSE, once it is answered, delays every client, including those that wait for the slow
//! lane, a shard or a key.

use std::time::Duration;
use weft_testkit::Server;
use weft_tests::scene::{
    HeldShard, client, on_both, pause_slow_lane, reply, reply_within, send, send_all, until,
    until_blocked, until_in_slow_lane,
};

const FOUR: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

/// Fills a list, a sorted set and a set that are too large for an I/O thread.
fn fill(server: &Server) {
    let mut filler = client(server);
    let numbers: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
    let push = ["RPUSH", "{w}list"].into_iter().chain(numbers.iter().map(|n| &n[..]));
    filler.cmd(&push.collect::<Vec<_>>());
    let pairs = numbers.iter().flat_map(|n| [&n[..], &n[..]]);
    let add = ["ZADD", "{w}zset"].into_iter().chain(pairs);
    filler.cmd(&add.collect::<Vec<_>>());
    let add = ["SADD", "{w}set"].into_iter().chain(numbers.iter().map(|n| &n[..]));
    filler.cmd(&add.collect::<Vec<_>>());
}

/// Transactions and commands that create a key, each run by the slow lane.
const WRITES: [&[&[&str]]; 4] = [
    &[&["SORT", "{w}list", "STORE", "{w}new"]],
    &[&["ZUNIONSTORE", "{w}new", "2", "{w}zset", "{w}zset"]],
    &[&["SUNIONSTORE", "{w}new", "{w}set", "{w}set"]],
    &[&["MULTI"], &["SMEMBERS", "{w}set"], &["SET", "{w}new", "v"], &["EXEC"]],
];

#[test]
fn pause_delays_commands_queued_for_the_slow_lane() {
    let args = [&FOUR[..], &["--enable-debug-command", "yes"]].concat();
    let server = Server::weft(&args);
    fill(&server);
    let mut admin = client(&server);
    for write in WRITES {
        pause_slow_lane(&mut admin, true);
        let mut writer = client(&server);
        send_all(&mut writer, write);
        for _ in 1..write.len() {
            reply(&mut writer);
        }
        until_in_slow_lane(&mut admin, 1);
        admin.ok(&["CLIENT", "PAUSE", "100000", "WRITE"]);
        let before = admin.cmd(&["EXISTS", "{w}new"]).int();
        pause_slow_lane(&mut admin, false);
        until_in_slow_lane(&mut admin, 0);
        let after = admin.cmd(&["EXISTS", "{w}new"]).int();
        assert_eq!((before, after), (0, 0), "{write:?} was run after CLIENT PAUSE WRITE");
        admin.ok(&["CLIENT", "UNPAUSE"]);
        assert_eq!(reply(&mut writer).error(), None);
        assert_eq!(admin.cmd(&["DEL", "{w}new"]).int(), 1);
    }
}

/// A write that has begun completes before the pause is answered; any other write begins after the
/// pause ends.
#[test]
fn pause_waits_for_a_running_write_or_delays_it() {
    const ROUNDS: usize = 80;
    let server = Server::weft(&FOUR);
    fill(&server);
    let (mut admin, mut writer) = (client(&server), client(&server));
    for round in 0..ROUNDS {
        let write = WRITES[round % WRITES.len()];
        send_all(&mut writer, write);
        std::thread::sleep(Duration::from_micros(50 * (round / WRITES.len()) as u64));
        admin.ok(&["CLIENT", "PAUSE", "100000", "WRITE"]);
        let before = admin.cmd(&["EXISTS", "{w}new"]).int();
        std::thread::sleep(Duration::from_millis(20));
        let after = admin.cmd(&["EXISTS", "{w}new"]).int();
        assert_eq!(before, after, "round {round}: {write:?} continued after CLIENT PAUSE WRITE");
        admin.ok(&["CLIENT", "UNPAUSE"]);
        write.iter().for_each(|_| drop(reply(&mut writer)));
        assert_eq!(admin.cmd(&["DEL", "{w}new"]).int(), 1);
    }
}

/// Commands that wait for a shard when the pause begins.
#[test]
fn pause_delays_commands_that_wait_for_a_shard() {
    let server = Server::weft(&FOUR);
    let (mut admin, mut asker) = (client(&server), client(&server));
    for _ in 0..3 {
        let held = HeldShard::with_tag(&server, "t");
        let mut writer = client(&server);
        send(&mut writer, &["SET", "{t}new", "v"]);
        std::thread::sleep(Duration::from_millis(10));
        send(&mut admin, &["CLIENT", "PAUSE", "100000", "WRITE"]);
        until("writes are paused", || {
            asker.cmd(&["INFO", "clients"]).text().contains("paused_actions:write")
        });
        held.release();
        assert!(reply(&mut admin).is_ok());
        assert!(reply_within(&mut writer, Duration::from_millis(50)).is_none());
        assert_eq!(admin.cmd(&["EXISTS", "{t}new"]).int(), 0);
        admin.ok(&["CLIENT", "UNPAUSE"]);
        assert!(reply(&mut writer).is_ok());
        admin.cmd(&["DEL", "{t}new"]);
    }
}

/// A client blocked on a key is not served during a pause, since no client can create the key.
#[test]
fn pause_delays_the_write_that_serves_a_blocked_client() {
    on_both(&[], &FOUR, |server| {
        let (mut admin, mut waiter, mut maker) = (client(server), client(server), client(server));
        send(&mut waiter, &["BLPOP", "l", "0"]);
        until_blocked(&mut admin, 1);
        admin.ok(&["CLIENT", "PAUSE", "100000", "WRITE"]);
        send(&mut maker, &["RPUSH", "l", "x"]);
        assert!(reply_within(&mut waiter, Duration::from_millis(50)).is_none());
        assert_eq!(admin.cmd(&["LLEN", "l"]).int(), 0);
        admin.ok(&["CLIENT", "UNPAUSE"]);
        assert_eq!(reply(&mut maker).int(), 1);
        assert_eq!(reply(&mut waiter).items()[1].text(), "x");
    });
}

/// WATCH a key that has expired but is not removed because writes are paused. Removing it after the
/// pause must not fail the transaction.
#[test]
fn removing_an_expired_key_after_the_pause_does_not_break_its_watch() {
    on_both(&[], &FOUR, |server| {
        let (mut a, mut b) = (client(server), client(server));
        a.ok(&["SET", "x", "v", "PX", "5"]);
        a.ok(&["CLIENT", "PAUSE", "100000", "WRITE"]);
        while !b.cmd(&["GET", "x"]).is_null() {
            std::thread::sleep(Duration::from_millis(2));
        }
        b.ok(&["WATCH", "x"]);
        assert_eq!(b.cmd(&["DBSIZE"]).int(), 1, "the expired key still exists");
        a.ok(&["CLIENT", "UNPAUSE"]);
        while a.cmd(&["DBSIZE"]).int() != 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        b.ok(&["MULTI"]);
        b.cmd(&["PING"]);
        let done = b.cmd(&["EXEC"]);
        assert!(!done.is_null() && done.items().len() == 1, "the watch is intact");
    });
}
