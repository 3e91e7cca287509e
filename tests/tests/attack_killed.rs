//! CLIENT KILL and CLIENT UNBLOCK of clients that are in the middle of something: once it is answered nothing more
//! of them takes effect, nobody gives them anything, and nobody behind them is forgotten.

use std::net::TcpListener;
use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::scene::{
    Long, SLOW_THREADS, client, id, info, on_both, reply, reply_within, send, send_all, until,
    until_blocked,
};

const TWO: [&str; 4] = ["--io-threads", "2", "--io-threads-always-active", "yes"];

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
        let longs: Vec<Long> =
            (0..SLOW_THREADS).map(|n| Long::with_tag(&server, &format!("long{n}"))).collect();
        make_list(&mut maker, "{l}all");
        maker.ok(&["SET", "{l}moved", "v"]);
        let killed = id(&mut first);
        send(&mut first, &["BLMPOP", "0", "1", "{l}k", "LEFT", "COUNT", "1000000"]);
        until_blocked(&mut maker, 1);
        if has_next {
            send(&mut second, &["BLPOP", "{l}k", "0"]);
            until_blocked(&mut maker, 2);
        }
        // All threads of the slow lane are busy. Before one of them can try, the shard is held by
        // somebody who waits for a server that says nothing.
        let mut runners: Vec<Client> = longs.iter().map(|long| long.begin(&server, 1.0)).collect();
        maker.ok(&["RENAME", "{l}all", "{l}k"]);
        // It is its turn still, and there is less by now than it was sent there for.
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(maker.cmd(&["DEL", "{l}k"]).int(), 1, "it was not in time");
        maker.cmd(&["RPUSH", "{l}k", "a", "b"]);
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("a port").port().to_string();
        let mut mover = client(&server);
        send(&mut mover, &["MIGRATE", "127.0.0.1", &port, "{l}moved", "0", "60000"]);
        let held = silent.accept().expect("the key is moved");
        runners.iter_mut().for_each(|runner| drop(reply(runner)));
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(maker.cmd(&["CLIENT", "KILL", "ID", &killed]).int(), 1);
        drop(held);
        reply(&mut mover);
        if has_next {
            assert_eq!(reply(&mut second).items()[1].text(), "a", "its turn was passed on");
        }
        until("nobody waits", || info(&mut maker, "total_blocking_keys") == 0);
        let left = maker.cmd(&["LLEN", "{l}k"]).int();
        assert_eq!(left, 2 - i64::from(has_next), "{has_next}");
    }
}

/// Keys of one shard, so many that it takes a while to stand in line for all of them.
const KEYS: usize = 200_000;

/// A command that comes to wait for very many keys in the slow lane.
struct Late {
    longs: [Long; SLOW_THREADS],
    keys: Vec<String>,
}

impl Late {
    fn new(server: &Server) -> Self {
        let longs = ["a", "b", "c", "d"].map(|tag| Long::with_tag(server, tag));
        Late { longs, keys: (0..KEYS).map(|n| format!("{{k}}{n}")).collect() }
    }

    /// Has `waiter` come to wait: all threads of the slow lane are busy, so that what it has found is gone when its
    /// command is run there. The answer is who keeps the shard of `{a}` busy for a while longer.
    fn begin(&self, server: &Server, maker: &mut Client, waiter: &mut Client) -> Client {
        self.begin_for("0", server, maker, waiter)
    }

    /// As [`Late::begin`]; it waits for so many seconds.
    fn begin_for(
        &self,
        seconds: &str,
        server: &Server,
        maker: &mut Client,
        waiter: &mut Client,
    ) -> Client {
        maker.cmd(&[&["RPUSH", &self.keys[0]][..], &["x"; 3000]].concat());
        let [a, others @ ..] = &self.longs;
        let a = a.begin(server, 2.0);
        let others: Vec<Client> = others.iter().map(|long| long.begin(server, 0.5)).collect();
        let count = KEYS.to_string();
        let keys = self.keys.iter().map(String::as_str);
        let wait = ["BLMPOP", seconds, &count].into_iter().chain(keys);
        send(waiter, &wait.chain(["LEFT", "COUNT", "3000"]).collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(maker.cmd(&["DEL", &self.keys[0]]).int(), 1, "it was not in time");
        for mut other in others {
            reply(&mut other);
        }
        a
    }
}

/// It begins to stand in line.
fn until_it_comes(maker: &mut Client) {
    until("it comes to wait", || info(maker, "total_blocking_keys") > 0);
}

/// Killed or unblocked while it comes to wait for one key after the other: it leaves all lines, and nobody serves it.
#[test]
fn who_ends_while_it_comes_to_wait_leaves_nothing_behind() {
    let server = Server::weft(&TWO);
    let mut maker = client(&server);
    let late = Late::new(&server);
    for kill in [true, false, false] {
        let mut waiter = client(&server);
        let id = id(&mut waiter);
        let mut runner = late.begin(&server, &mut maker, &mut waiter);
        if kill {
            until_it_comes(&mut maker);
            let last = &late.keys[KEYS - 1];
            send_all(&mut maker, &[&["CLIENT", "KILL", "ID", &id], &["RPUSH", last, "x"]]);
            assert_eq!((reply(&mut maker).int(), reply(&mut maker).int()), (1, 1));
            assert_eq!(maker.cmd(&["DEL", last]).int(), 1, "who was killed has taken it");
        } else {
            while maker.cmd(&["CLIENT", "UNBLOCK", &id]).int() == 0 {}
            assert!(reply(&mut waiter).is_null());
        }
        drop(waiter);
        until("nobody waits", || info(&mut maker, "total_blocking_keys") == 0);
        reply(&mut runner);
    }
}

/// The time of a client is over before it stands in all lines, and it waits for something else by then: there it can
/// be unblocked and killed.
#[test]
fn who_waits_again_at_once_is_found() {
    let server = Server::weft(&TWO);
    let mut maker = client(&server);
    let late = Late::new(&server);
    for _ in 0..4 {
        let mut waiter = client(&server);
        let id = id(&mut waiter);
        let mut runner = late.begin_for("0.001", &server, &mut maker, &mut waiter);
        send(&mut waiter, &["BLPOP", "other", "0"]);
        assert!(reply(&mut waiter).is_null());
        let waits = "total_blocking_keys";
        until("it waits for one key", || info(&mut maker, waits) == 1);
        assert_eq!(maker.cmd(&["CLIENT", "UNBLOCK", &id]).int(), 1);
        assert!(reply(&mut waiter).is_null());
        reply(&mut runner);
    }
}

/// What is done beside the commands of all others waits in the slow lane, too, and its client is killed.
#[test]
fn who_is_killed_changes_no_configuration() {
    let server = Server::weft(&TWO);
    let longs = ["a", "b", "c", "d"].map(|tag| Long::with_tag(&server, tag));
    let (mut maker, mut victim) = (client(&server), client(&server));
    let id = id(&mut victim);
    let mut runners = longs.each_ref().map(|long| long.begin(&server, 0.5));
    send(&mut victim, &["CONFIG", "SET", "appendonly", "yes", "maxmemory-samples", "7"]);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(maker.cmd(&["CLIENT", "KILL", "ID", &id]).int(), 1);
    let ask = ["CONFIG", "GET", "maxmemory-samples"];
    let mut samples = || maker.cmd(&ask).items()[1].text();
    let before = samples();
    runners.iter_mut().for_each(|runner| drop(reply(runner)));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(before, "5", "it was done before it was killed");
    assert_eq!(samples(), before);
}

/// A key has become one of another type by the time a client tries by itself: it waits on, as if there were nothing.
#[test]
fn who_tries_a_key_of_another_type_waits_on() {
    let server = Server::weft(&TWO);
    let long = Long::with_tag(&server, "a");
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
            let mut runner = long.begin(&server, 0.5);
            send_all(&mut maker, &[&["RPUSH", "k", "x"], &["DEL", "k"], &["SADD", "k", "a"]]);
            (0..3).for_each(|_| assert_eq!(reply(&mut maker).int(), 1, "{wait:?}"));
            if kill {
                assert_eq!(maker.cmd(&["CLIENT", "KILL", "ID", &killed]).int(), 1);
            }
            reply(&mut runner);
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
    const ROUNDS: usize = 2;
    let server = Server::weft(&TWO);
    let mut maker = client(&server);
    let late = Late::new(&server);
    for round in 0..ROUNDS {
        let (mut first, mut waiter) = (client(&server), client(&server));
        let killed = id(&mut first);
        send(&mut first, &["BLMOVE", &late.keys[0], "{a}to", "LEFT", "RIGHT", "0"]);
        until_blocked(&mut maker, 1);
        let mut before = late.longs[0].begin(&server, 1.0);
        maker.cmd(&["RPUSH", &late.keys[0], "x"]);
        let gone = maker.cmd(&["LPOP", &late.keys[0]]);
        assert_eq!(gone.text(), "x", "the first one could be served");
        let mut runner = late.begin(&server, &mut maker, &mut waiter);
        until("it comes to wait", || info(&mut maker, "total_blocking_keys") > 1);
        assert_eq!(maker.cmd(&["CLIENT", "KILL", "ID", &killed]).int(), 1);
        maker.cmd(&["RPUSH", &late.keys[5], "y"]);
        let served = reply_within(&mut waiter, Duration::from_secs(8));
        assert!(served.is_some(), "round {round}: no reply");
        reply(&mut before);
        reply(&mut runner);
        until("nobody waits", || info(&mut maker, "total_blocking_keys") == 0);
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
