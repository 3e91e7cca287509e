//! Clients that wait for keys and end otherwise than by being served: killed, unblocked, refused.
//! Nobody takes an element who is gone, nobody sleeps beside one, everybody is answered.

use std::time::{Duration, Instant};
use weft_testkit::{Client, Server, Value};
use weft_tests::scene::{
    Long, PATIENCE, SLOW_THREADS, client, id, on_both, reply, reply_within, send, send_all, until,
    until_blocked,
};

const FOUR: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

/// A client that waits, on some thread.
fn waiting(server: &Server, maker: &mut Client, n: u64, args: &[&str]) -> (Client, String) {
    let mut waiter = client(server);
    let id = id(&mut waiter);
    send(&mut waiter, args);
    until_blocked(maker, n);
    (waiter, id)
}

#[test]
fn a_client_that_is_killed_takes_nothing_from_the_next_command() {
    const ROUNDS: usize = 60;
    let waits: [(&[&str], &[&str], &[&str]); 3] = [
        (&["BLPOP", "l", "0"], &["RPUSH", "l", "x"], &["LLEN", "l"]),
        (&["BLMOVE", "l", "other", "LEFT", "LEFT", "0"], &["RPUSH", "l", "x"], &["LLEN", "l"]),
        (&["BZPOPMIN", "z", "0"], &["ZADD", "z", "1", "x"], &["ZCARD", "z"]),
    ];
    on_both(&[], &FOUR, |server| {
        let mut maker = client(server);
        for (wait, make, count) in waits {
            for _ in 0..ROUNDS {
                let (_waiter, id) = waiting(server, &mut maker, 1, wait);
                send_all(&mut maker, &[&["CLIENT", "KILL", "ID", &id], make, count]);
                assert_eq!(reply(&mut maker).int(), 1, "one client is killed");
                assert_eq!(reply(&mut maker).int(), 1);
                let left = reply(&mut maker).int();
                assert_eq!(left, 1, "{}: {wait:?} was killed and took it", server.name());
                maker.ok(&["FLUSHALL"]);
                until_blocked(&mut maker, 0);
            }
        }
    });
}

/// Who stands behind the one that is killed gets the element.
#[test]
fn the_next_in_line_is_served_in_place_of_one_that_is_killed() {
    const ROUNDS: usize = 60;
    on_both(&[], &FOUR, |server| {
        let mut maker = client(server);
        for _ in 0..ROUNDS {
            let (_first, id) = waiting(server, &mut maker, 1, &["BLPOP", "l", "0"]);
            let (mut second, _) = waiting(server, &mut maker, 2, &["BLPOP", "l", "0"]);
            send_all(&mut maker, &[&["CLIENT", "KILL", "ID", &id], &["RPUSH", "l", "x"]]);
            assert_eq!((reply(&mut maker).int(), reply(&mut maker).int()), (1, 1));
            assert_eq!(reply(&mut second).items()[1].text(), "x", "{}", server.name());
        }
    });
}

/// CLIENT KILL within a transaction that makes the key: the transaction is one step, in which the
/// client is gone before anybody is served.
#[test]
fn a_client_that_a_transaction_kills_takes_nothing_from_it() {
    const ROUNDS: usize = 60;
    on_both(&[], &FOUR, |server| {
        let mut maker = client(server);
        for round in 0..ROUNDS {
            let (_waiter, id) = waiting(server, &mut maker, 1, &["BLPOP", "l", "0"]);
            let (push, kill): (&[&str], &[&str]) =
                (&["RPUSH", "l", "x"], &["CLIENT", "KILL", "ID", &id]);
            let two = if round % 2 == 0 { [push, kill] } else { [kill, push] };
            send_all(&mut maker, &[&["MULTI"], two[0], two[1], &["EXEC"], &["LLEN", "l"]]);
            (0..3).for_each(|_| drop(reply(&mut maker)));
            assert_eq!(reply(&mut maker).items(), [Value::Integer(1), Value::Integer(1)]);
            assert_eq!(reply(&mut maker).int(), 1, "{} {two:?}", server.name());
            maker.ok(&["FLUSHALL"]);
            until_blocked(&mut maker, 0);
        }
    });
}

/// How a client ends that was to be served but could not yet.
#[derive(Clone, Copy, Debug)]
enum End {
    Killed,
    HangsUp,
    Unblocked,
}

/// A mover waits whose destination is busy with a long command; a popper stands behind it. An
/// element comes, the mover ends before it could take it. The popper must not sleep beside the
/// element.
#[test]
fn an_element_that_nobody_could_take_goes_to_the_next_in_line() {
    let server = Server::weft(&FOUR);
    let long = Long::with_tag(&server, "t");
    let mut maker = client(&server);
    for end in [End::Killed, End::HangsUp, End::Unblocked] {
        for delay_ms in [0, 20] {
            let wait = ["BLMOVE", "src", "{t}dst", "LEFT", "RIGHT", "0"];
            let (mut mover, id) = waiting(&server, &mut maker, 1, &wait);
            let (mut popper, _) = waiting(&server, &mut maker, 2, &["BLPOP", "src", "0"]);
            let mut runner = long.begin(&server, 0.5);
            send(&mut maker, &["RPUSH", "src", "x"]);
            std::thread::sleep(Duration::from_millis(delay_ms));
            match end {
                End::Killed => send(&mut maker, &["CLIENT", "KILL", "ID", &id]),
                End::Unblocked => send(&mut maker, &["CLIENT", "UNBLOCK", &id]),
                End::HangsUp => mover = client(&server),
            }
            assert_eq!(reply(&mut maker).int(), 1, "RPUSH");
            if !matches!(end, End::HangsUp) {
                reply(&mut maker);
            }
            assert_eq!(reply(&mut runner).int(), 20_000);
            // Whoever was served: the element is not where it came.
            until(&format!("{end:?}: x is served to somebody"), || {
                maker.cmd(&["LLEN", "src"]).int() == 0
            });
            if maker.cmd(&["LLEN", "{t}dst"]).int() == 0 {
                assert_eq!(reply(&mut popper).items()[1].text(), "x");
            }
            drop((mover, popper));
            until_blocked(&mut maker, 0);
            maker.cmd(&["DEL", "{t}dst", "src"]);
        }
    }
}

/// A mover that is to try again is refused for lack of memory: it is answered, and the line of its
/// key goes on.
#[test]
fn a_line_goes_on_behind_a_client_that_is_refused() {
    let server = Server::weft(&FOUR);
    let long = Long::with_tag(&server, "t");
    let mut maker = client(&server);
    for _ in 0..3 {
        let wait = ["BLMOVE", "src", "{t}dst", "LEFT", "RIGHT", "0"];
        let (mut mover, _) = waiting(&server, &mut maker, 1, &wait);
        let (mut popper, _) = waiting(&server, &mut maker, 2, &["BLPOP", "src", "0"]);
        let mut runner = long.begin(&server, 0.5);
        send_all(&mut maker, &[&["RPUSH", "src", "x"], &["CONFIG", "SET", "maxmemory", "1"]]);
        assert_eq!((reply(&mut maker).int(), reply(&mut maker).is_ok()), (1, true));
        assert_eq!(reply(&mut runner).int(), 20_000);
        let moved = reply(&mut mover);
        maker.ok(&["CONFIG", "SET", "maxmemory", "0"]);
        match moved.error() {
            Some(error) => assert!(error.starts_with("OOM "), "{error}"),
            None => {
                assert_eq!(moved.text(), "x");
                maker.cmd(&["RPUSH", "src", "x"]);
            }
        }
        let got = reply_within(&mut popper, PATIENCE);
        let len = maker.cmd(&["LLEN", "src"]).int();
        let got = got.unwrap_or_else(|| panic!("BLPOP sleeps beside {len} elements"));
        assert_eq!(got.items()[1].text(), "x");
        // And so does the line for those who come later.
        let (mut later, _) = waiting(&server, &mut maker, 1, &["BLPOP", "src", "0"]);
        maker.cmd(&["RPUSH", "src", "y"]);
        assert_eq!(reply(&mut later).items()[1].text(), "y");
        maker.cmd(&["DEL", "{t}dst", "src"]);
    }
}

/// The reference has no busy shards, but it runs a command that waited again, too, and may refuse
/// it then: the key comes by a command that needs no memory.
#[test]
fn the_next_is_served_when_there_is_no_memory_for_the_first() {
    on_both(&[], &FOUR, |server| {
        let mut maker = client(server);
        let wait = ["BLMOVE", "src", "dst", "LEFT", "RIGHT", "0"];
        let (mut mover, _) = waiting(server, &mut maker, 1, &wait);
        let (mut popper, _) = waiting(server, &mut maker, 2, &["BLPOP", "src", "0"]);
        maker.cmd(&["RPUSH", "new", "x", "y"]);
        maker.ok(&["CONFIG", "SET", "maxmemory", "1"]);
        maker.ok(&["RENAME", "new", "src"]);
        let moved = reply(&mut mover);
        let popped = reply(&mut popper).items()[1].text();
        match moved.error() {
            Some(error) => assert!(error.starts_with("OOM ") && popped == "x", "{error}"),
            None => assert_eq!((&moved.text()[..], &popped[..]), ("x", "y")),
        }
        maker.ok(&["CONFIG", "SET", "maxmemory", "0"]);
    });
}

/// A command goes to the slow lane, finds there that it must wait, and is unblocked before the
/// client's own thread has heard of it. Whoever is told that it was unblocked, was.
#[test]
fn a_client_that_is_unblocked_is_answered_however_early() {
    const ROUNDS: usize = 20;
    // It takes its time to stand in so many lines.
    const KEYS: usize = 20_000;
    let server = Server::weft(&["--io-threads", "4", "--io-threads-always-active", "yes"]);
    let longs: [Long; SLOW_THREADS] = ["t", "u", "v", "w"].map(|tag| Long::with_tag(&server, tag));
    let mut maker = client(&server);
    let keys: Vec<String> = (0..KEYS).map(|n| format!("{{k}}{n}")).collect();
    let count = KEYS.to_string();
    let mut wait = vec!["BLMPOP", "0", &count];
    wait.extend(keys.iter().map(|key| &key[..]));
    wait.extend(["LEFT", "COUNT", "3000"]);
    let push = [&["RPUSH", &keys[0]][..], &["x"; 3000]].concat();
    let mut met = 0;
    for round in 0..ROUNDS {
        maker.cmd(&push);
        let mut waiter = client(&server);
        let id = id(&mut waiter);
        // All threads of the slow lane are busy, so that the list is gone when the command is
        // run there.
        let mut runners = longs.each_ref().map(|long| long.begin(&server, 0.3));
        send(&mut waiter, &wait);
        std::thread::sleep(Duration::from_millis(5));
        maker.cmd(&["DEL", &keys[0]]);
        let unblocked = told_to_go_on(&mut maker, &mut waiter, &id);
        met += usize::from(unblocked);
        if unblocked {
            let got = reply_within(&mut waiter, PATIENCE);
            let got = got.unwrap_or_else(|| panic!("round {round}: unblocked, never answered"));
            assert!(got.is_null(), "{got}");
        }
        runners.iter_mut().for_each(|runner| drop(reply(runner)));
    }
    assert!(met > 0, "it never came to wait: has the slow lane more threads?");
}

/// Asks for `waiter` to be unblocked until it is; `false` when it was served before.
fn told_to_go_on(maker: &mut Client, waiter: &mut Client, id: &str) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        for _ in 0..100 {
            if maker.cmd(&["CLIENT", "UNBLOCK", id]).int() == 1 {
                return true;
            }
        }
        if let Some(served) = reply_within(waiter, Duration::from_millis(1)) {
            assert_eq!(served.items().len(), 2, "it was in time to take the elements");
            return false;
        }
    }
    panic!("a client neither waits nor is served");
}

/// BLPOP and CLIENT UNBLOCK race on different threads; sometimes an element comes, too. Every
/// client is answered, by what fits.
#[test]
fn every_client_is_answered_that_is_unblocked_while_it_goes_to_wait() {
    const ROUNDS: usize = 1500;
    on_both(&[], &FOUR, |server| {
        let (mut waiter, mut maker, mut pusher) = (client(server), client(server), client(server));
        let id = id(&mut waiter);
        for round in 0..ROUNDS {
            send(&mut waiter, &["BLPOP", "l", "0"]);
            if round % 3 == 0 {
                send(&mut pusher, &["RPUSH", "l", "x"]);
            }
            until("it is unblocked", || {
                maker.cmd(&["CLIENT", "UNBLOCK", &id]).int() == 1 || round % 3 == 0
            });
            let got = match round % 3 {
                0 => reply_within(&mut waiter, PATIENCE),
                _ => Some(reply(&mut waiter)),
            };
            let got = got.unwrap_or_else(|| panic!("round {round}: never answered"));
            if round % 3 == 0 {
                reply(&mut pusher);
                let served = !got.is_null();
                assert_eq!(maker.cmd(&["DEL", "l"]).int(), i64::from(!served), "{round}");
            } else {
                assert!(got.is_null(), "{round}: {got}");
            }
        }
    });
}
