//! CLIENT PAUSE, once it is answered, delays every client, including those that wait for the slow
//! lane, a shard or a key.

use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::scene::{
    LongCommand, SLOW_THREADS, client, on_both, reply, reply_within, send, send_all, until_blocked,
};

const FOUR: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

/// Keeps all threads of the slow lane busy with commands that only read.
struct BusySlowLane([LongCommand; SLOW_THREADS]);

impl BusySlowLane {
    fn with(server: &Server) -> BusySlowLane {
        BusySlowLane(["p", "q", "r", "s"].map(|tag| LongCommand::with_tag(server, tag)))
    }

    fn begin(&self, server: &Server) -> [Client; SLOW_THREADS] {
        self.0.each_ref().map(|long| long.begin(server, 0.5))
    }

    /// Waits until the slow lane has run everything queued before.
    fn drain(&self, server: &Server, begun: [Client; SLOW_THREADS]) {
        for mut client in begun {
            assert_eq!(reply(&mut client).int(), 20_000);
        }
        for _ in 0..2 {
            for long in &self.0 {
                assert_eq!(client(server).cmd(&long.request(0.01)).int(), 20_000);
            }
        }
    }
}

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
#[ignore = "long: cargo xtask test --all"]
fn pause_delays_commands_queued_for_the_slow_lane() {
    let server = Server::weft(&FOUR);
    let busy = BusySlowLane::with(&server);
    fill(&server);
    let mut admin = client(&server);
    let mut met = 0;
    for write in WRITES {
        let begun = busy.begin(&server);
        let mut writer = client(&server);
        send_all(&mut writer, write);
        for _ in 1..write.len() {
            reply(&mut writer);
        }
        // The command is in the slow lane's queue by now.
        std::thread::sleep(Duration::from_millis(20));
        admin.ok(&["CLIENT", "PAUSE", "100000", "WRITE"]);
        let before = admin.cmd(&["EXISTS", "{w}new"]).int();
        busy.drain(&server, begun);
        let after = admin.cmd(&["EXISTS", "{w}new"]).int();
        assert_eq!(before, after, "{write:?} was run after CLIENT PAUSE WRITE");
        met += usize::from(before == 0);
        admin.ok(&["CLIENT", "UNPAUSE"]);
        assert_eq!(reply(&mut writer).error(), None);
        assert_eq!(admin.cmd(&["DEL", "{w}new"]).int(), 1);
    }
    assert!(met > 0, "no command had to queue: has the slow lane more threads?");
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
    let long = LongCommand::with_tag(&server, "t");
    let mut admin = client(&server);
    for _ in 0..3 {
        let mut runner = long.begin(&server, 0.3);
        let mut writer = client(&server);
        send(&mut writer, &["SET", "{t}new", "v"]);
        std::thread::sleep(Duration::from_millis(10));
        admin.ok(&["CLIENT", "PAUSE", "100000", "WRITE"]);
        assert_eq!(reply(&mut runner).int(), 20_000);
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
