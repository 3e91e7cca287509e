//! Blocked clients that end without being served: killed, unblocked or refused. A dead client takes
//! no element, no client stays blocked next to an element, and every live client gets an answer.

use std::time::{Duration, Instant};
use weft_testkit::{Client, Server, Value};
use weft_tests::scene::{
    HeldShard, PATIENCE, client, id, on_both, pause_slow_lane, reply, reply_within, send, send_all,
    until, until_blocked, until_in_slow_lane,
};

const FOUR: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

/// Starts a client that blocks, on an arbitrary I/O thread.
fn waiting(server: &Server, maker: &mut Client, n: u64, args: &[&str]) -> (Client, String) {
    let mut waiter = client(server);
    let id = id(&mut waiter);
    send(&mut waiter, args);
    until_blocked(maker, n);
    (waiter, id)
}

#[test]
fn killed_client_takes_nothing_from_the_next_command() {
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

/// The client after the killed one gets the element.
#[test]
fn next_client_in_queue_is_served_after_a_kill() {
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

/// CLIENT KILL within the transaction that creates the key. The transaction is one step: the client
/// is dead before any client is served.
#[test]
fn client_killed_in_a_transaction_takes_nothing_from_it() {
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

/// How a client ends after its key became ready and before it could be served.
#[derive(Clone, Copy, Debug)]
enum End {
    Killed,
    HangsUp,
    Unblocked,
}

/// A BLMOVE waits, and its destination shard is locked. A BLPOP queues after it.
/// An element arrives, and the BLMOVE ends before it can take it. The BLPOP must not stay blocked
/// next to the element.
#[test]
fn untaken_element_goes_to_the_next_client_in_queue() {
    let server = Server::weft(&FOUR);
    let mut maker = client(&server);
    for end in [End::Killed, End::HangsUp, End::Unblocked] {
        for delay_ms in [0, 20] {
            let wait = ["BLMOVE", "src", "{t}dst", "LEFT", "RIGHT", "0"];
            let (mut mover, id) = waiting(&server, &mut maker, 1, &wait);
            let (mut popper, _) = waiting(&server, &mut maker, 2, &["BLPOP", "src", "0"]);
            let held = HeldShard::with_tag(&server, "t");
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
            held.release();
            // Either client may be served, but the element must leave `src`.
            until(&format!("{end:?}: one of the clients takes x"), || {
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

/// The retry of a BLMOVE is refused because memory is full. The client gets the error, and the next
/// client in the key's wait queue is served.
#[test]
fn wait_queue_advances_after_a_refused_client() {
    let server = Server::weft(&FOUR);
    let mut maker = client(&server);
    for _ in 0..3 {
        let wait = ["BLMOVE", "src", "{t}dst", "LEFT", "RIGHT", "0"];
        let (mut mover, _) = waiting(&server, &mut maker, 1, &wait);
        let (mut popper, _) = waiting(&server, &mut maker, 2, &["BLPOP", "src", "0"]);
        let held = HeldShard::with_tag(&server, "t");
        send_all(&mut maker, &[&["RPUSH", "src", "x"], &["CONFIG", "SET", "maxmemory", "1"]]);
        assert_eq!((reply(&mut maker).int(), reply(&mut maker).is_ok()), (1, true));
        held.release();
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
        let got = got.unwrap_or_else(|| panic!("BLPOP stays blocked next to {len} elements"));
        assert_eq!(got.items()[1].text(), "x");
        // The wait queue also works for later clients.
        let (mut later, _) = waiting(&server, &mut maker, 1, &["BLPOP", "src", "0"]);
        maker.cmd(&["RPUSH", "src", "y"]);
        assert_eq!(reply(&mut later).items()[1].text(), "y");
        maker.cmd(&["DEL", "{t}dst", "src"]);
    }
}

/// The reference has no busy shards, but it also retries a blocked command, and may refuse the
/// retry. RENAME creates the key because it needs no memory.
#[test]
fn next_client_is_served_when_the_first_lacks_memory() {
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

/// A command moves to the slow lane and blocks there. It is unblocked before the client's own
/// thread knows that it blocked. If CLIENT UNBLOCK returns 1, the client must get its reply.
#[test]
fn unblocked_client_is_answered_even_if_its_thread_does_not_know_yet() {
    const ROUNDS: usize = 20;
    // Queueing for this many keys takes a while.
    const KEYS: usize = 20_000;
    let args = [&FOUR[..], &["--enable-debug-command", "yes"]].concat();
    let server = Server::weft(&args);
    let mut maker = client(&server);
    let keys: Vec<String> = (0..KEYS).map(|n| format!("{{k}}{n}")).collect();
    let count = KEYS.to_string();
    let mut wait = vec!["BLMPOP", "0", &count];
    wait.extend(keys.iter().map(|key| &key[..]));
    wait.extend(["LEFT", "COUNT", "3000"]);
    let push = [&["RPUSH", &keys[0]][..], &["x"; 3000]].concat();
    for round in 0..ROUNDS {
        maker.cmd(&push);
        let mut waiter = client(&server);
        let id = id(&mut waiter);
        // The list is gone when the command runs in the slow lane.
        pause_slow_lane(&mut maker, true);
        send(&mut waiter, &wait);
        until_in_slow_lane(&mut maker, 1);
        maker.cmd(&["DEL", &keys[0]]);
        pause_slow_lane(&mut maker, false);
        unblock(&mut maker, &id);
        let got = reply_within(&mut waiter, PATIENCE);
        let got = got.unwrap_or_else(|| panic!("round {round}: unblocked, never answered"));
        assert!(got.is_null(), "{got}");
    }
}

/// Repeats CLIENT UNBLOCK, without a break, until it succeeds.
fn unblock(maker: &mut Client, id: &str) {
    let begin = Instant::now();
    while maker.cmd(&["CLIENT", "UNBLOCK", id]).int() == 0 {
        assert!(begin.elapsed() < PATIENCE, "the client never blocks");
    }
}

/// BLPOP and CLIENT UNBLOCK race on different threads; in some rounds an element arrives, too.
/// Every client gets the matching reply.
#[test]
fn client_unblocked_while_it_blocks_is_always_answered() {
    const ROUNDS: usize = 1500;
    on_both(&[], &FOUR, |server| {
        let (mut waiter, mut maker, mut pusher) = (client(server), client(server), client(server));
        let id = id(&mut waiter);
        for round in 0..ROUNDS {
            send(&mut waiter, &["BLPOP", "l", "0"]);
            if round % 3 == 0 {
                send(&mut pusher, &["RPUSH", "l", "x"]);
            }
            until("CLIENT UNBLOCK succeeds", || {
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
