//! CLIENT KILL and CLIENT UNBLOCK of clients in the middle of an operation: after the reply the
//! client has no further effect, receives no element, and the clients after it in a wait queue are
//! still served.

use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::scene::{
    HeldShard, LongCommand, client, id, info, on_both, pause_slow_lane, reply, send, send_all,
    until, until_blocked, until_in_slow_lane,
};

const TWO: [&str; 6] =
    ["--io-threads", "2", "--io-threads-always-active", "yes", "--enable-debug-command", "yes"];

/// More elements than the pushing thread may serve by itself.
const VERY_MANY: usize = 60_000;

fn make_list(maker: &mut Client, list: &str) {
    let elements: Vec<String> = (0..VERY_MANY).map(|n| n.to_string()).collect();
    for some in elements.chunks(10_000) {
        let push = ["RPUSH", list].into_iter().chain(some.iter().map(String::as_str));
        maker.cmd(&push.collect::<Vec<_>>());
    }
}

/// A client waits for so many elements that it retries in the slow lane. It is killed while it
/// waits there for the shard. The elements stay, or go to the next client in the queue.
#[test]
fn client_killed_during_its_retry_takes_nothing() {
    for has_next in [false, true] {
        let server = Server::weft(&TWO);
        let (mut maker, mut first, mut second) =
            (client(&server), client(&server), client(&server));
        make_list(&mut maker, "{l}all");
        let killed = id(&mut first);
        send(&mut first, &["BLMPOP", "0", "1", "{l}k", "LEFT", "COUNT", "1000000"]);
        until_blocked(&mut maker, 1);
        if has_next {
            send(&mut second, &["BLPOP", "{l}k", "0"]);
            until_blocked(&mut maker, 2);
        }
        // Before the retry runs, another client locks the shard.
        pause_slow_lane(&mut maker, true);
        maker.ok(&["RENAME", "{l}all", "{l}k"]);
        until_in_slow_lane(&mut maker, 1);
        // The client still has its turn, but the list is shorter now than when the retry was
        // queued.
        assert_eq!(maker.cmd(&["DEL", "{l}k"]).int(), 1);
        maker.cmd(&["RPUSH", "{l}k", "a", "b"]);
        let held = HeldShard::with_tag(&server, "l");
        pause_slow_lane(&mut maker, false);
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(maker.cmd(&["CLIENT", "KILL", "ID", &killed]).int(), 1);
        held.release();
        if has_next {
            assert_eq!(
                reply(&mut second).items()[1].text(),
                "a",
                "the turn passes to the next client"
            );
        }
        until("no client is blocked", || info(&mut maker, "total_blocking_keys") == 0);
        let left = maker.cmd(&["LLEN", "{l}k"]).int();
        assert_eq!(left, 2 - i64::from(has_next), "{has_next}");
    }
}

/// A client has the turn and waits in the slow lane for its retry. It is killed or hangs up. The
/// next client is served at once, not when the slow lane reaches the retry.
#[test]
fn client_that_ends_before_its_retry_passes_its_turn_on() {
    for kill in [true, false] {
        let server = Server::weft(&TWO);
        let (mut maker, mut first, mut second) =
            (client(&server), client(&server), client(&server));
        make_list(&mut maker, "{l}all");
        let killed = id(&mut first);
        let wait = ["BLMPOP", "0", "2", "{l}many", "{l}k", "LEFT", "COUNT", "1000000"];
        send(&mut first, &wait);
        until_blocked(&mut maker, 1);
        send(&mut second, &["BLPOP", "{l}k", "0"]);
        until_blocked(&mut maker, 2);
        pause_slow_lane(&mut maker, true);
        maker.ok(&["RENAME", "{l}all", "{l}many"]);
        until_in_slow_lane(&mut maker, 1);
        assert_eq!(maker.cmd(&["RPUSH", "{l}k", "x"]).int(), 1);
        if kill {
            assert_eq!(maker.cmd(&["CLIENT", "KILL", "ID", &killed]).int(), 1);
        }
        drop(first);
        assert_eq!(reply(&mut second).items()[1].text(), "x");
        pause_slow_lane(&mut maker, false);
        until_in_slow_lane(&mut maker, 0);
        assert_eq!(
            maker.cmd(&["LLEN", "{l}many"]).int(),
            VERY_MANY as i64,
            "no client took elements"
        );
        assert_eq!(info(&mut maker, "total_blocking_keys"), 0);
    }
}

/// A transaction in the slow lane completes before CLIENT KILL of its client is answered, so its
/// PUBLISH and CONFIG SET do not happen afterwards.
#[test]
fn client_killed_during_a_transaction_does_nothing_after_the_reply() {
    let server = Server::weft(&TWO);
    let mut maker = client(&server);
    let long = LongCommand::with_tag(&server, "l");
    // CLIENT KILL must not wait for another client's endless command.
    let held = HeldShard::with_tag(&server, "other");
    // The client was killed by another client before, or has hung up: the transaction still
    // completes first.
    for again in ["", "kill", "drop"] {
        let (mut victim, mut listener) = (client(&server), client(&server));
        let killed = id(&mut victim);
        let long = long.request(0.3);
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
        pause_slow_lane(&mut maker, true);
        send_all(
            &mut victim,
            &[
                &["MULTI"],
                &long,
                &["PUBLISH", "news", "late"],
                &["CONFIG", "SET", "maxmemory-samples", "7"],
                &["EXEC"],
            ],
        );
        until_in_slow_lane(&mut maker, 2);
        pause_slow_lane(&mut maker, false);
        std::thread::sleep(Duration::from_millis(20));
        let kill = ["CLIENT", "KILL", "ID", &killed];
        let mut other = client(&server);
        match again {
            "kill" => {
                send(&mut other, &kill);
                until("CLIENT LIST omits the client", || {
                    !maker.cmd(&["CLIENT", "LIST"]).text().contains(&format!("id={killed} "))
                });
                assert_eq!(maker.cmd(&kill).int(), 0);
                assert_eq!(reply(&mut other).int(), 1);
            }
            "drop" => {
                drop(victim);
                maker.cmd(&kill);
            }
            _ => assert_eq!(maker.cmd(&kill).int(), 1),
        }
        maker.ok(&["CONFIG", "SET", "maxmemory-samples", "6"]);
        listener.cmd(&["SUBSCRIBE", "news"]);
        until_in_slow_lane(&mut maker, 1);
        assert_eq!(maker.cmd(&["CONFIG", "GET", "maxmemory-samples"]).items()[1].text(), "6");
        assert_eq!(maker.cmd(&["PUBLISH", "news", "new"]).int(), 1);
        assert_eq!(reply(&mut listener).items()[2].text(), "new", "only the new message");
    }
    held.release();
}

/// A client is killed while it subscribes to very many channels. Soon after the reply it has no
/// subscription: if it had them all, the freeing thread removes them in steps.
#[test]
fn client_killed_during_subscribe_receives_nothing() {
    const CHANNELS: usize = 200_000;
    let server = Server::weft(&TWO);
    let mut maker = client(&server);
    let channels: Vec<String> = (0..CHANNELS).map(|n| format!("channel:{n}")).collect();
    let all = || std::iter::once("SUBSCRIBE").chain(channels.iter().map(String::as_str));
    for _ in 0..2 {
        let mut victim = client(&server);
        let killed = id(&mut victim);
        send(&mut victim, &all().collect::<Vec<_>>());
        let receivers =
            |maker: &mut Client, channel: &str| maker.cmd(&["PUBLISH", channel, "m"]).int();
        until("the subscription begins", || receivers(&mut maker, &channels[0]) == 1);
        assert_eq!(maker.cmd(&["CLIENT", "KILL", "ID", &killed]).int(), 1);
        for channel in channels.iter().step_by(CHANNELS / 50) {
            until("the channel has no receiver", || receivers(&mut maker, channel) == 0);
        }
        until_in_slow_lane(&mut maker, 0);
        assert_eq!(info(&mut maker, "pubsub_channels"), 0);
    }
}

/// Keys of one shard, so many that queueing for all of them takes a while.
const KEYS: usize = 100_000;

/// A command that blocks on very many keys in the slow lane.
struct SlowLaneBlocker {
    keys: Vec<String>,
}

impl SlowLaneBlocker {
    fn new() -> Self {
        SlowLaneBlocker { keys: (0..KEYS).map(|n| format!("{{k}}{n}")).collect() }
    }

    /// Makes `waiter` block: its list is gone when its command runs in the slow lane.
    #[track_caller]
    fn begin(&self, maker: &mut Client, waiter: &mut Client) {
        self.begin_for("0", maker, waiter);
    }

    /// Like [`SlowLaneBlocker::begin`], with a timeout in seconds.
    #[track_caller]
    fn begin_for(&self, seconds: &str, maker: &mut Client, waiter: &mut Client) {
        maker.cmd(&[&["RPUSH", &self.keys[0]][..], &["x"; 3000]].concat());
        let before = info(maker, "slow_lane_jobs");
        pause_slow_lane(maker, true);
        let count = KEYS.to_string();
        let keys = self.keys.iter().map(String::as_str);
        let wait = ["BLMPOP", seconds, &count].into_iter().chain(keys);
        send(waiter, &wait.chain(["LEFT", "COUNT", "3000"]).collect::<Vec<_>>());
        until_in_slow_lane(maker, before + 1);
        assert_eq!(maker.cmd(&["DEL", &self.keys[0]]).int(), 1);
        pause_slow_lane(maker, false);
    }
}

/// A client is killed or unblocked while it queues for one key after another. It leaves all wait
/// queues and is never served.
#[test]
fn client_that_ends_while_queueing_leaves_no_wait_queue_entry() {
    let server = Server::weft(&TWO);
    let mut maker = client(&server);
    let blocker = SlowLaneBlocker::new();
    for kill in [true, false, true, false, false] {
        let mut waiter = client(&server);
        let id = id(&mut waiter);
        blocker.begin(&mut maker, &mut waiter);
        if kill {
            until("the client begins to queue", || info(&mut maker, "total_blocking_keys") > 0);
            let last = &blocker.keys[KEYS - 1];
            send_all(&mut maker, &[&["CLIENT", "KILL", "ID", &id], &["RPUSH", last, "x"]]);
            assert_eq!((reply(&mut maker).int(), reply(&mut maker).int()), (1, 1));
            assert_eq!(maker.cmd(&["DEL", last]).int(), 1, "the killed client took the element");
        } else {
            until("the client is unblocked", || maker.cmd(&["CLIENT", "UNBLOCK", &id]).int() == 1);
            assert!(reply(&mut waiter).is_null());
        }
        drop(waiter);
        until("no client is blocked", || info(&mut maker, "total_blocking_keys") == 0);
        until_in_slow_lane(&mut maker, 0);
    }
}

/// A client times out before it is in all wait queues, and then blocks again. CLIENT UNBLOCK must
/// find it there.
#[test]
fn client_that_blocks_again_at_once_can_be_unblocked() {
    let server = Server::weft(&TWO);
    let mut maker = client(&server);
    let blocker = SlowLaneBlocker::new();
    for _ in 0..4 {
        let mut waiter = client(&server);
        let id = id(&mut waiter);
        blocker.begin_for("0.001", &mut maker, &mut waiter);
        send(&mut waiter, &["BLPOP", "other", "0"]);
        assert!(reply(&mut waiter).is_null());
        let waits = "total_blocking_keys";
        until("the client waits for one key", || info(&mut maker, waits) == 1);
        assert_eq!(maker.cmd(&["CLIENT", "UNBLOCK", &id]).int(), 1);
        assert!(reply(&mut waiter).is_null());
        until_in_slow_lane(&mut maker, 0);
    }
}

/// Commands that run while all others are stopped also wait in the slow lane. The client of one is
/// killed.
#[test]
fn killed_client_changes_no_configuration() {
    let server = Server::weft(&TWO);
    let (mut maker, mut victim) = (client(&server), client(&server));
    let id = id(&mut victim);
    pause_slow_lane(&mut maker, true);
    send(&mut victim, &["CONFIG", "SET", "appendonly", "yes", "maxmemory-samples", "7"]);
    until_in_slow_lane(&mut maker, 1);
    assert_eq!(maker.cmd(&["CLIENT", "KILL", "ID", &id]).int(), 1);
    pause_slow_lane(&mut maker, false);
    until_in_slow_lane(&mut maker, 0);
    assert_eq!(maker.cmd(&["CONFIG", "GET", "maxmemory-samples"]).items()[1].text(), "5");
}

/// By the time of a client's retry its key is of another type. The client stays blocked.
#[test]
fn retry_on_a_key_of_another_type_stays_blocked() {
    let server = Server::weft(&TWO);
    let waits: [&[&str]; 5] = [
        &["BLPOP", "k", "0"],
        &["BLMPOP", "0", "1", "k", "LEFT"],
        &["BLMOVE", "k", "{a}to", "LEFT", "RIGHT", "0"],
        &["BRPOPLPUSH", "k", "{a}to", "0"],
        &["XREAD", "BLOCK", "0", "STREAMS", "k", "0"],
    ];
    for wait in waits {
        for kill in [true, false] {
            let (mut maker, mut first, mut next) =
                (client(&server), client(&server), client(&server));
            let killed = id(&mut first);
            send(&mut first, &["BLMOVE", "k", "{a}to", "LEFT", "RIGHT", "0"]);
            until_blocked(&mut maker, 1);
            send(&mut next, wait);
            until_blocked(&mut maker, 2);
            let held = HeldShard::with_tag(&server, "a");
            send_all(&mut maker, &[&["RPUSH", "k", "x"], &["DEL", "k"], &["SADD", "k", "a"]]);
            (0..3).for_each(|_| assert_eq!(reply(&mut maker).int(), 1, "{wait:?}"));
            if kill {
                assert_eq!(maker.cmd(&["CLIENT", "KILL", "ID", &killed]).int(), 1);
            }
            held.release();
            until_blocked(&mut maker, 2 - u64::from(kill));
            maker.cmd(&["DEL", "k"]);
            if !kill {
                maker.cmd(&["RPUSH", "k", "y"]);
                assert_eq!(reply(&mut first).text(), "y");
            }
            match wait[0] {
                "XREAD" => maker.cmd(&["XADD", "k", "1-1", "f", "z"]),
                _ => maker.cmd(&["RPUSH", "k", "z"]),
            };
            let got = reply(&mut next);
            assert!(got.error().is_none(), "{wait:?}: {got}");
            maker.cmd(&["DEL", "k", "{a}to"]);
        }
    }
}

/// A client blocks in the slow lane. The client before it in the queue has the turn and is killed,
/// so the turn passes to the former before its thread knows that it is blocked.
#[test]
fn client_woken_while_it_blocks_is_served() {
    const ROUNDS: usize = 4;
    let server = Server::weft(&TWO);
    let mut maker = client(&server);
    let blocker = SlowLaneBlocker::new();
    for round in 0..ROUNDS {
        let (mut first, mut waiter) = (client(&server), client(&server));
        let killed = id(&mut first);
        send(&mut first, &["BLMOVE", &blocker.keys[0], "{a}to", "LEFT", "RIGHT", "0"]);
        until_blocked(&mut maker, 1);
        let held = HeldShard::with_tag(&server, "a");
        maker.cmd(&["RPUSH", &blocker.keys[0], "x"]);
        let gone = maker.cmd(&["LPOP", &blocker.keys[0]]);
        assert_eq!(gone.text(), "x", "the first client has the turn");
        blocker.begin(&mut maker, &mut waiter);
        until("the client begins to queue", || info(&mut maker, "total_blocking_keys") > 1);
        assert_eq!(maker.cmd(&["CLIENT", "KILL", "ID", &killed]).int(), 1);
        maker.cmd(&["RPUSH", &blocker.keys[5], "y"]);
        assert_eq!(reply(&mut waiter).items().len(), 2, "round {round}");
        held.release();
        until("no client is blocked", || info(&mut maker, "total_blocking_keys") == 0);
        until_in_slow_lane(&mut maker, 0);
    }
}

/// Between two commands of a pipeline that stop the world, another client kills this one. The rest
/// of the pipeline must not run.
#[test]
fn client_killed_within_a_pipeline_executes_nothing_more() {
    const ROUNDS: usize = 100;
    let stops: [&[&[&str]]; 3] = [
        &[&["SWAPDB", "5", "6"]],
        &[&["MULTI"], &["DBSIZE"], &["EXEC"]],
        &[&["CLIENT", "KILL", "ID", "0"]],
    ];
    on_both(&[], &TWO, |server| {
        let mut maker = client(server);
        for stop in stops {
            for round in 0..ROUNDS {
                let mut victim = client(server);
                let id = id(&mut victim);
                let some = [stop, &[&["LPOP", "list"]]].concat();
                let all: Vec<&[&str]> =
                    some.iter().copied().cycle().take(some.len() * 100).collect();
                send_all(&mut victim, &all);
                std::thread::sleep(Duration::from_micros(50 * (round % 10) as u64));
                let kill = ["CLIENT", "KILL", "ID", &id];
                send_all(&mut maker, &[&kill, &["RPUSH", "list", "x"]]);
                assert_eq!((reply(&mut maker).int(), reply(&mut maker).int()), (1, 1), "{stop:?}");
                until("the client is gone", || info(&mut maker, "connected_clients") == 1);
                let left = maker.cmd(&["DEL", "list"]).int();
                assert_eq!(left, 1, "{}: {stop:?} and LPOP of a killed client", server.name());
            }
        }
    });
}
