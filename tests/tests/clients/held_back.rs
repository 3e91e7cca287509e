//! CLIENT PAUSE, once it is answered, holds everybody back: also who waits for the slow lane, for
//! a shard, or for a key.

use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::scene::{
    Long, SLOW_THREADS, client, on_both, reply, reply_within, send, send_all, until_blocked,
};

const FOUR: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

/// All threads of the slow lane are busy with commands that only read.
struct Busy([Long; SLOW_THREADS]);

impl Busy {
    fn with(server: &Server) -> Busy {
        Busy(["p", "q", "r", "s"].map(|tag| Long::with_tag(server, tag)))
    }

    fn begin(&self, server: &Server) -> [Client; SLOW_THREADS] {
        self.0.each_ref().map(|long| long.begin(server, 0.5))
    }

    /// Waits until the slow lane has run everything that was queued before.
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

/// Fills a list and a sorted set that are too large for an I/O thread.
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

/// Transactions and commands that write what was not there, each by the slow lane.
const WRITES: [&[&[&str]]; 4] = [
    &[&["SORT", "{w}list", "STORE", "{w}new"]],
    &[&["ZUNIONSTORE", "{w}new", "2", "{w}zset", "{w}zset"]],
    &[&["SUNIONSTORE", "{w}new", "{w}set", "{w}set"]],
    &[&["MULTI"], &["SMEMBERS", "{w}set"], &["SET", "{w}new", "v"], &["EXEC"]],
];

#[test]
fn a_pause_holds_back_what_waits_for_the_slow_lane() {
    let server = Server::weft(&FOUR);
    let busy = Busy::with(&server);
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
        // It has its place in the slow lane by then.
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
    assert!(met > 0, "none had to wait: has the slow lane more threads?");
}

/// One that has begun is over when the pause is answered, or begins after it: in between there is
/// nothing.
#[test]
fn a_pause_waits_for_a_write_that_has_begun_or_holds_it_back() {
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
        assert_eq!(before, after, "round {round}: {write:?} went on after CLIENT PAUSE WRITE");
        admin.ok(&["CLIENT", "UNPAUSE"]);
        write.iter().for_each(|_| drop(reply(&mut writer)));
        assert_eq!(admin.cmd(&["DEL", "{w}new"]).int(), 1);
    }
}

/// What waits for a shard when the pause begins.
#[test]
fn a_pause_holds_back_what_waits_for_a_shard() {
    let server = Server::weft(&FOUR);
    let long = Long::with_tag(&server, "t");
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

/// What waits for a key is not served while a pause is in force, since nobody can make the key;
/// one whose time is over meanwhile is answered as the reference does.
#[test]
fn a_pause_and_clients_that_wait_for_keys() {
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

/// A watch that began when its key had expired, and could not be removed since writes were paused,
/// outlives the removal: nobody sees a difference.
#[test]
fn a_key_that_had_expired_before_its_watch_may_be_removed_after_the_pause() {
    on_both(&[], &FOUR, |server| {
        let (mut a, mut b) = (client(server), client(server));
        a.ok(&["SET", "x", "v", "PX", "5"]);
        a.ok(&["CLIENT", "PAUSE", "100000", "WRITE"]);
        while !b.cmd(&["GET", "x"]).is_null() {
            std::thread::sleep(Duration::from_millis(2));
        }
        b.ok(&["WATCH", "x"]);
        assert_eq!(b.cmd(&["DBSIZE"]).int(), 1, "it is only hidden");
        a.ok(&["CLIENT", "UNPAUSE"]);
        while a.cmd(&["DBSIZE"]).int() != 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        b.ok(&["MULTI"]);
        b.cmd(&["PING"]);
        let done = b.cmd(&["EXEC"]);
        assert!(!done.is_null() && done.items().len() == 1, "the watch is whole");
    });
}
