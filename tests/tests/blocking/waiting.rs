//! Clients that block while their thread is busy. Whatever happens in between, each client is
//! served, and each element goes to a client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};
use weft_testkit::client::encode;
use weft_testkit::{Client, Server};
use weft_tests::scene::{
    HeldShard, client, id, info, on_both, pause_slow_lane, reply, reply_within, send, send_all,
    until, until_blocked, until_in_slow_lane,
};

const TWO: [&str; 4] = ["--io-threads", "2", "--io-threads-always-active", "yes"];
const THREE: [&str; 4] = ["--io-threads", "3", "--io-threads-always-active", "yes"];

/// The number of requests that each I/O thread has executed.
fn requests(meter: &mut Client) -> Vec<i64> {
    let info = meter.cmd(&["INFO", "everything"]).text();
    let lines = info.lines().filter_map(|line| line.split("requests=").nth(1));
    lines
        .map(|rest| rest.split(',').next().and_then(|n| n.parse().ok()).expect("a count"))
        .collect()
}

/// A new client that is served by I/O thread `thread`.
fn on_thread(server: &Server, meter: &mut Client, thread: usize) -> Client {
    const PINGS: usize = 500;
    let mut others = Vec::new();
    for _ in 0..50 {
        let mut found = client(server);
        let before = requests(meter);
        found.pipeline(&vec![vec!["PING"]; PINGS]).expect("the server answers");
        let after = requests(meter);
        if after[thread] - before[thread] >= PINGS as i64 {
            return found;
        }
        // Keep this client, so that the next one goes to another thread.
        others.push(found);
    }
    panic!("no client was assigned to thread {thread}");
}

/// Fills a list that takes a while to search, but not so long that the search moves to the slow
/// lane.
fn fill(maker: &mut Client, name: &str) {
    const ELEMENTS: usize = 20_000;
    let elements: Vec<String> = (0..ELEMENTS).map(|n| format!("element:{n}")).collect();
    for part in elements.chunks(1000) {
        let push = ["RPUSH", name].into_iter().chain(part.iter().map(String::as_str));
        maker.cmd(&push.collect::<Vec<_>>());
    }
}

/// Sets the flag on drop, so that the other threads end even when a test fails early.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends `commands` over and over until `done`.
fn repeat<'s>(
    scope: &'s Scope<'s, '_>,
    mut client: Client,
    commands: Vec<Vec<&'s str>>,
    done: &'s AtomicBool,
) {
    scope.spawn(move || {
        while !done.load(Ordering::Relaxed) {
            client.pipeline(&commands).expect("the server answers");
        }
    });
}

/// Keeps the thread of `client` busy with long batches until `done`.
fn occupy<'s>(scope: &'s Scope<'s, '_>, client: Client, done: &'s AtomicBool) {
    repeat(scope, client, vec![vec!["LPOS", "search", "none"]; 300], done);
}

/// A client retries, with all its keys locked, and finds no element because another client was
/// faster. It stays blocked. Before its thread finishes the batch, the key becomes ready again, and
/// again the pushing thread can't serve the client.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn failed_retry_stays_queued_when_woken_again() {
    const WAITERS: usize = 8;
    const TIME: Duration = Duration::from_secs(8);
    let server = Server::weft(&THREE);
    let mut maker = client(&server);
    fill(&mut maker, "{a}list");
    fill(&mut maker, "search");
    let sources: Vec<String> = (0..WAITERS).map(|n| format!("source:{n}")).collect();
    let wait = |n: usize| ["BLMOVE", &sources[n], "{a}to", "LEFT", "RIGHT", "0"];
    let mut waiters: Vec<Client> =
        (0..WAITERS).map(|_| on_thread(&server, &mut maker, 0)).collect();
    waiters.iter_mut().enumerate().for_each(|(n, waiter)| send(waiter, &wait(n)));
    let done = AtomicBool::new(false);
    let busy = on_thread(&server, &mut maker, 2);
    let before: Vec<Client> = (0..3).map(|_| on_thread(&server, &mut maker, 0)).collect();
    let makers: Vec<Client> = (0..2).map(|_| on_thread(&server, &mut maker, 1)).collect();
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&done);
        // Keep the shard of the destination locked almost all the time.
        repeat(scope, busy, vec![vec!["LPOS", "{a}list", "none"]; 50], &done);
        // These clients also wait for that shard, and then run for a while.
        for other in before {
            let search = std::iter::repeat_n(vec!["LPOS", "search", "none"], 20);
            let all = std::iter::once(vec!["EXISTS", "{a}none"]).chain(search).collect();
            repeat(scope, other, all, &done);
        }
        for maker in makers {
            let pairs = sources.iter().flat_map(|s| [vec!["RPUSH", s, "x"], vec!["LPOP", s]]);
            repeat(scope, maker, pairs.collect(), &done);
        }
        let begin = Instant::now();
        while begin.elapsed() < TIME {
            for (n, waiter) in waiters.iter_mut().enumerate() {
                if reply_within(waiter, Duration::from_millis(1)).is_some() {
                    send(waiter, &wait(n));
                }
            }
        }
    });
    let mut forgotten = Vec::new();
    for (n, waiter) in waiters.iter_mut().enumerate() {
        // Skip a client that was served by now.
        if reply_within(waiter, Duration::from_millis(50)).is_some() {
            continue;
        }
        maker.cmd(&["RPUSH", &sources[n], "y"]);
        if reply_within(waiter, Duration::from_secs(3)).is_none() {
            let left = maker.cmd(&["LLEN", &sources[n]]).int();
            forgotten.push(format!("{} with {left} elements", sources[n]));
        }
    }
    assert!(forgotten.is_empty(), "clients are not served for {forgotten:?}");
}

/// A long command blocks in the slow lane because its list is gone by then. It is served before its
/// own thread knows that it blocked.
#[test]
fn client_that_blocks_in_the_slow_lane_gets_its_reply() {
    const ROUNDS: usize = 12;
    let args = [&TWO[..], &["--enable-debug-command", "yes"]].concat();
    let server = Server::weft(&args);
    let mut meter = client(&server);
    fill(&mut meter, "search");
    let mut maker = on_thread(&server, &mut meter, 1);
    for round in 0..ROUNDS {
        let mut waiter = on_thread(&server, &mut meter, 0);
        let busy = on_thread(&server, &mut meter, 0);
        (0..3).for_each(|_| fill(&mut maker, "list"));
        pause_slow_lane(&mut maker, true);
        send(&mut waiter, &["BLMPOP", "0", "1", "list", "LEFT", "COUNT", "60000"]);
        until_in_slow_lane(&mut maker, 1);
        maker.cmd(&["DEL", "list"]);
        let done = AtomicBool::new(false);
        let served = std::thread::scope(|scope| {
            let _end = SetOnDrop(&done);
            occupy(scope, busy, &done);
            pause_slow_lane(&mut maker, false);
            until("the client is blocked", || info(&mut maker, "total_blocking_keys") == 1);
            maker.cmd(&["RPUSH", "list", "x"]);
            reply_within(&mut waiter, Duration::from_secs(3))
        });
        let left = maker.cmd(&["LLEN", "list"]).int();
        assert!(served.is_some(), "round {round}: no reply, and {left} elements are left of one");
        maker.cmd(&["DEL", "list"]);
    }
}

/// A client moves to another thread before its retry, and has to stay blocked there.
#[test]
fn client_that_moves_before_its_retry_gets_its_reply() {
    const ROUNDS: usize = 10;
    let args = [&TWO[..], &["--enable-debug-command", "yes"]].concat();
    let server = Server::weft(&args);
    let mut meter = client(&server);
    fill(&mut meter, "search");
    for round in 0..ROUNDS {
        let mut maker = on_thread(&server, &mut meter, 1);
        let mut waiter = on_thread(&server, &mut meter, 0);
        let busy = on_thread(&server, &mut meter, 0);
        send(&mut waiter, &["BLMOVE", "from", "{a}to", "LEFT", "RIGHT", "0"]);
        until("the client is blocked", || info(&mut maker, "blocked_clients") == 1);
        let held = HeldShard::with_tag(&server, "a");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _end = SetOnDrop(&done);
            occupy(scope, busy, &done);
            std::thread::sleep(Duration::from_millis(100));
            // The shard of the other list is busy, so the client must retry by itself.
            let all: [&[&str]; 3] =
                [&["RPUSH", "from", "x"], &["LPOP", "from"], &["DEBUG", "MOVE-CLIENTS"]];
            send_all(&mut maker, &all);
            assert_eq!(reply(&mut maker).int(), 1);
            assert_eq!(reply(&mut maker).text(), "x");
            assert!(reply(&mut maker).is_ok());
        });
        held.release();
        std::thread::sleep(Duration::from_millis(100));
        maker.cmd(&["RPUSH", "from", "y"]);
        let served = reply_within(&mut waiter, Duration::from_secs(3));
        let moved = maker.cmd(&["LPOP", "{a}to"]);
        assert!(served.is_some(), "round {round}: no reply, and {moved} was moved");
    }
}

/// The record of a wait must be freed when the wait ends, not at its timeout.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn waits_that_end_early_leave_no_memory_used() {
    const ROUNDS: usize = 20;
    const MORE: usize = 5;
    const EACH: usize = 1000;
    let server = Server::weft(&["--io-threads", "1"]);
    let (mut maker, mut waiter) = (client(&server), client(&server));
    let blpop = encode(&["BLPOP", "l", "1000000"]);
    let mut waits = |rounds: usize| {
        for _ in 0..rounds * EACH {
            waiter.send_raw(&blpop).expect("the server reads");
            maker.cmd(&["RPUSH", "l", "x"]);
            reply(&mut waiter);
        }
    };
    waits(ROUNDS);
    let mut meter = client(&server);
    let mut used =
        || info(&mut meter, "used_memory") - info(&mut meter, "mem_not_counted_for_evict");
    let before = used();
    waits(MORE * ROUNDS);
    let more = used().saturating_sub(before);
    // Tables that double their size have done so at least twice. One number per wait would take
    // eight bytes.
    let most = (MORE * ROUNDS * EACH) as u64;
    assert!(more < most, "{more} bytes more after {} ended waits", MORE * ROUNDS * EACH);
}

/// More elements than the pushing thread may serve by itself.
const VERY_MANY: usize = 60_000;

fn make_list(maker: &mut Client, list: &str) {
    let elements: Vec<String> = (0..VERY_MANY).map(|n| n.to_string()).collect();
    for some in elements.chunks(10_000) {
        let push = ["RPUSH", list].into_iter().chain(some.iter().map(String::as_str));
        maker.cmd(&push.collect::<Vec<_>>());
    }
}

/// A client that requests so many elements that the slow lane serves it. It still comes before
/// later clients in the queue.
#[test]
fn client_served_by_the_slow_lane_keeps_its_position() {
    on_both(&[], &["--io-threads", "2"], |server| {
        let (mut maker, mut first, mut second) = (client(server), client(server), client(server));
        make_list(&mut maker, "{l}all");
        send(&mut first, &["BLMPOP", "0", "1", "{l}k", "LEFT", "COUNT", "1000000"]);
        until_blocked(&mut maker, 1);
        send(&mut second, &["BLPOP", "{l}k", "0"]);
        until_blocked(&mut maker, 2);
        maker.ok(&["RENAME", "{l}all", "{l}k"]);
        assert_eq!(reply(&mut first).items()[1].items().len(), VERY_MANY);
        maker.cmd(&["RPUSH", "{l}k", "last"]);
        assert_eq!(reply(&mut second).items()[1].text(), "last");
    });
}

/// The client also keeps its position when no elements are left by then. CLIENT KILL still works.
#[test]
fn client_that_finds_no_elements_keeps_its_position() {
    let server = Server::weft(&["--io-threads", "2", "--enable-debug-command", "yes"]);
    let (mut maker, mut first, mut second) = (client(&server), client(&server), client(&server));
    let mut third = client(&server);
    make_list(&mut maker, "{l}all");
    let request = ["BLMPOP", "0", "1", "{l}k", "LEFT", "COUNT", "1000000"];
    send(&mut first, &request);
    until_blocked(&mut maker, 1);
    pause_slow_lane(&mut maker, true);
    maker.ok(&["RENAME", "{l}all", "{l}k"]);
    until_in_slow_lane(&mut maker, 1);
    assert_eq!(maker.cmd(&["DEL", "{l}k"]).int(), 1);
    send(&mut second, &["BLPOP", "{l}k", "0"]);
    until("the second client is blocked", || info(&mut maker, "blocked_clients") >= 1);
    pause_slow_lane(&mut maker, false);
    until_in_slow_lane(&mut maker, 0);
    until_blocked(&mut maker, 2);
    maker.cmd(&["RPUSH", "{l}k", "x"]);
    assert_eq!(reply(&mut first).items()[1].items()[0].text(), "x");
    maker.cmd(&["RPUSH", "{l}k", "y"]);
    assert_eq!(reply(&mut second).items()[1].text(), "y");
    // A client that is killed meanwhile passes its turn to the next one in the queue.
    make_list(&mut maker, "{l}all");
    let killed = id(&mut third);
    send(&mut third, &request);
    until_blocked(&mut maker, 1);
    send(&mut second, &["BLPOP", "{l}k", "0"]);
    until_blocked(&mut maker, 2);
    pause_slow_lane(&mut maker, true);
    maker.ok(&["RENAME", "{l}all", "{l}k"]);
    until_in_slow_lane(&mut maker, 1);
    assert_eq!(maker.cmd(&["CLIENT", "KILL", "ID", &killed]).int(), 1);
    assert_eq!(maker.cmd(&["EXISTS", "{l}k"]).int(), 1, "the killed client was served before");
    pause_slow_lane(&mut maker, false);
    assert_eq!(reply(&mut second).items()[1].text(), "0");
}

/// A reader's timeout expires while another thread retries its command, which finds nothing. Its
/// thread has meanwhile handled many waits that ended early.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn client_that_times_out_during_a_retry_is_answered() {
    const STREAMS: usize = 400;
    const READERS: usize = 8;
    const POPPERS: usize = 30;
    const TIME: Duration = Duration::from_secs(8);
    let server = Server::weft(&TWO);
    let mut maker = client(&server);
    let names: Vec<String> = (0..STREAMS).map(|n| format!("{{t}}s{n}")).collect();
    for name in &names {
        maker.cmd(&["XADD", name, "1-1", "f", "v"]);
    }
    // Both threads serve clients of each kind.
    let mut readers: Vec<Client> = (0..READERS).map(|_| client(&server)).collect();
    let mut poppers: Vec<Client> = (0..POPPERS).map(|_| client(&server)).collect();
    let makers: Vec<Client> = (0..2).map(|_| client(&server)).collect();
    let lists: Vec<String> = (0..POPPERS).map(|n| format!("{{t}}l{n}")).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&done);
        for maker in makers {
            let add = vec!["XADD", &names[0], "MAXLEN", "1", "*", "f", "v"];
            repeat(scope, maker, vec![add; 20], &done);
        }
        let (done, lists) = (&done, &lists);
        scope.spawn(move || {
            let pushes: Vec<_> = lists.iter().map(|list| vec!["RPUSH", list, "x"]).collect();
            for seconds in 1000.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                let seconds = seconds.to_string();
                for (popper, list) in poppers.iter_mut().zip(lists) {
                    send(popper, &["BLPOP", list, &seconds]);
                }
                maker.pipeline(&pushes).expect("the server answers");
                poppers.iter_mut().for_each(|popper| drop(reply(popper)));
            }
        });
        let begin = Instant::now();
        while begin.elapsed() < TIME {
            for (n, reader) in readers.iter_mut().enumerate() {
                let ms = (5 * (n + 1)).to_string();
                let mut words = vec!["XREAD", "BLOCK", &ms, "STREAMS"];
                words.extend(names.iter().map(String::as_str));
                words.extend([&"99999999999999-0"; STREAMS]);
                send(reader, &words);
            }
            for reader in &mut readers {
                assert!(
                    reply_within(reader, Duration::from_secs(30)).is_some(),
                    "the reader got no reply"
                );
            }
        }
    });
}
