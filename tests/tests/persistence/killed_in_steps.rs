//! CLIENT KILL and CLIENT UNBLOCK of clients that are in the middle of something: once it is answered nothing more
//! of them takes effect, nobody gives them anything, and nobody behind them is forgotten.

use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::scene::{
    HeldShard, Long, client, id, info, on_both, pause_slow_lane, reply, send, send_all, until,
    until_blocked, until_in_slow_lane,
};

const TWO: [&str; 6] =
    ["--io-threads", "2", "--io-threads-always-active", "yes", "--enable-debug-command", "yes"];

/// More elements than who makes a list gives away by itself.
const VERY_MANY: usize = 60_000;

fn make_list(maker: &mut Client, list: &str) {
    let elements: Vec<String> = (0..VERY_MANY).map(|n| n.to_string()).collect();
    for some in elements.chunks(10_000) {
        let push = ["RPUSH", list].into_iter().chain(some.iter().map(String::as_str));
        maker.cmd(&push.collect::<Vec<_>>());
    }
}

/// A client waits for so much that it tries again in the slow lane, and is killed while it waits there for the
/// shard. What it waited for stays, or goes to who stands behind it.
#[test]
fn who_is_killed_while_it_tries_again_takes_nothing() {
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
        // Before it can try, the shard is held by somebody else.
        pause_slow_lane(&mut maker, true);
        maker.ok(&["RENAME", "{l}all", "{l}k"]);
        until_in_slow_lane(&mut maker, 1);
        // It is its turn still, and there is less by now than it was sent there for.
        assert_eq!(maker.cmd(&["DEL", "{l}k"]).int(), 1);
        maker.cmd(&["RPUSH", "{l}k", "a", "b"]);
        let held = HeldShard::with_tag(&server, "l");
        pause_slow_lane(&mut maker, false);
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(maker.cmd(&["CLIENT", "KILL", "ID", &killed]).int(), 1);
        held.release();
        if has_next {
            assert_eq!(reply(&mut second).items()[1].text(), "a", "its turn was passed on");
        }
        until("nobody waits", || info(&mut maker, "total_blocking_keys") == 0);
        let left = maker.cmd(&["LLEN", "{l}k"]).int();
        assert_eq!(left, 2 - i64::from(has_next), "{has_next}");
    }
}

/// It is the turn of a client that waits in the slow lane until it can try, and it is killed, or hangs up: the next
/// one is served at once, not when the lane comes to it.
#[test]
fn who_ends_before_the_slow_lane_comes_to_it_passes_its_turn_on() {
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
        assert_eq!(maker.cmd(&["LLEN", "{l}many"]).int(), VERY_MANY as i64, "nobody took it");
        assert_eq!(info(&mut maker, "total_blocking_keys"), 0);
    }
}

/// A transaction that runs in the slow lane ends before the answer to the kill of its client: what it publishes and
/// sets at its end does not come behind that.
#[test]
fn who_is_killed_in_the_middle_of_a_transaction_does_nothing_behind_the_answer() {
    let server = Server::weft(&TWO);
    let mut maker = client(&server);
    let long = Long::with_tag(&server, "l");
    // Somebody else's command that may take for ever is nothing to wait for.
    let held = HeldShard::with_tag(&server, "other");
    // Others kill it before, or it has hung up: that ends no sooner.
    for again in ["", "kill", "drop"] {
        let (mut victim, mut listener) = (client(&server), client(&server));
        let killed = id(&mut victim);
        let long = long.request(0.3);
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
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
        std::thread::sleep(Duration::from_millis(20));
        let kill = ["CLIENT", "KILL", "ID", &killed];
        let mut other = client(&server);
        match again {
            "kill" => {
                send(&mut other, &kill);
                until("it is not shown", || {
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
        assert_eq!(reply(&mut listener).items()[2].text(), "new", "of one who was killed before");
    }
    held.release();
}

/// A client is killed while it subscribes to very many channels. It listens to none soon after the reply: if it had
/// subscribed to all, the freeing thread takes them away in steps.
#[test]
fn who_is_killed_while_it_subscribes_is_no_receiver() {
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
        until("it begins to listen", || receivers(&mut maker, &channels[0]) == 1);
        assert_eq!(maker.cmd(&["CLIENT", "KILL", "ID", &killed]).int(), 1);
        for channel in channels.iter().step_by(CHANNELS / 50) {
            until("it is no receiver", || receivers(&mut maker, channel) == 0);
        }
        until_in_slow_lane(&mut maker, 0);
        assert_eq!(info(&mut maker, "pubsub_channels"), 0);
    }
}

/// Keys of one shard, so many that it takes a while to stand in line for all of them.
const KEYS: usize = 100_000;

/// A command that comes to wait for very many keys in the slow lane.
struct Late {
    keys: Vec<String>,
}

impl Late {
    fn new() -> Self {
        Late { keys: (0..KEYS).map(|n| format!("{{k}}{n}")).collect() }
    }

    /// Has `waiter` come to wait: what it has found is gone when its command is run in the slow lane.
    #[track_caller]
    fn begin(&self, maker: &mut Client, waiter: &mut Client) {
        self.begin_for("0", maker, waiter);
    }

    /// As [`Late::begin`]; it waits for so many seconds.
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

/// Killed or unblocked while it comes to wait for one key after the other: it leaves all lines, and nobody serves it.
#[test]
fn who_ends_while_it_comes_to_wait_leaves_nothing_behind() {
    let server = Server::weft(&TWO);
    let mut maker = client(&server);
    let late = Late::new();
    for kill in [true, false, true, false, false] {
        let mut waiter = client(&server);
        let id = id(&mut waiter);
        late.begin(&mut maker, &mut waiter);
        if kill {
            until("it comes to wait", || info(&mut maker, "total_blocking_keys") > 0);
            let last = &late.keys[KEYS - 1];
            send_all(&mut maker, &[&["CLIENT", "KILL", "ID", &id], &["RPUSH", last, "x"]]);
            assert_eq!((reply(&mut maker).int(), reply(&mut maker).int()), (1, 1));
            assert_eq!(maker.cmd(&["DEL", last]).int(), 1, "who was killed has taken it");
        } else {
            until("it is found", || maker.cmd(&["CLIENT", "UNBLOCK", &id]).int() == 1);
            assert!(reply(&mut waiter).is_null());
        }
        drop(waiter);
        until("nobody waits", || info(&mut maker, "total_blocking_keys") == 0);
        until_in_slow_lane(&mut maker, 0);
    }
}

/// The time of a client is over before it stands in all lines, and it waits for something else by then: there it can
/// be unblocked and killed.
#[test]
fn who_waits_again_at_once_is_found() {
    let server = Server::weft(&TWO);
    let mut maker = client(&server);
    let late = Late::new();
    for _ in 0..4 {
        let mut waiter = client(&server);
        let id = id(&mut waiter);
        late.begin_for("0.001", &mut maker, &mut waiter);
        send(&mut waiter, &["BLPOP", "other", "0"]);
        assert!(reply(&mut waiter).is_null());
        let waits = "total_blocking_keys";
        until("it waits for one key", || info(&mut maker, waits) == 1);
        assert_eq!(maker.cmd(&["CLIENT", "UNBLOCK", &id]).int(), 1);
        assert!(reply(&mut waiter).is_null());
        until_in_slow_lane(&mut maker, 0);
    }
}

/// What is done beside the commands of all others waits in the slow lane, too, and its client is killed.
#[test]
fn who_is_killed_changes_no_configuration() {
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

/// A key has become one of another type by the time a client tries by itself: it waits on, as if there were nothing.
#[test]
fn who_tries_a_key_of_another_type_waits_on() {
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

/// In front of a client that comes to wait in the slow lane stands one whose turn it is and who is killed: it is
/// told to try before it knows itself that it waits.
#[test]
fn who_is_called_while_it_comes_to_wait_is_not_forgotten() {
    const ROUNDS: usize = 4;
    let server = Server::weft(&TWO);
    let mut maker = client(&server);
    let late = Late::new();
    for round in 0..ROUNDS {
        let (mut first, mut waiter) = (client(&server), client(&server));
        let killed = id(&mut first);
        send(&mut first, &["BLMOVE", &late.keys[0], "{a}to", "LEFT", "RIGHT", "0"]);
        until_blocked(&mut maker, 1);
        let held = HeldShard::with_tag(&server, "a");
        maker.cmd(&["RPUSH", &late.keys[0], "x"]);
        let gone = maker.cmd(&["LPOP", &late.keys[0]]);
        assert_eq!(gone.text(), "x", "the first one could be served");
        late.begin(&mut maker, &mut waiter);
        until("it comes to wait", || info(&mut maker, "total_blocking_keys") > 1);
        assert_eq!(maker.cmd(&["CLIENT", "KILL", "ID", &killed]).int(), 1);
        maker.cmd(&["RPUSH", &late.keys[5], "y"]);
        assert_eq!(reply(&mut waiter).items().len(), 2, "round {round}");
        held.release();
        until("nobody waits", || info(&mut maker, "total_blocking_keys") == 0);
        until_in_slow_lane(&mut maker, 0);
    }
}

/// Between two commands of one pipeline that stop the world others have a turn, and one of them ends the client: the
/// rest of its pipeline is not executed.
#[test]
fn who_is_killed_in_the_middle_of_a_pipeline_does_nothing_more() {
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
                until("it is gone", || info(&mut maker, "connected_clients") == 1);
                let left = maker.cmd(&["DEL", "list"]).int();
                assert_eq!(left, 1, "{}: {stop:?} and LPOP of a killed client", server.name());
            }
        }
    });
}
