//! Clients that wait for keys while their thread has other things to do: whatever comes between,
//! nobody is forgotten, and no element goes to nobody.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};
use weft_testkit::client::encode;
use weft_testkit::{Client, Server};
use weft_tests::scene::{
    Long, SLOW_THREADS, client, id, info, on_both, reply, reply_within, send, send_all, until,
    until_blocked,
};

const TWO: [&str; 4] = ["--io-threads", "2", "--io-threads-always-active", "yes"];
const THREE: [&str; 4] = ["--io-threads", "3", "--io-threads-always-active", "yes"];

/// Requests of each I/O thread so far.
fn requests(meter: &mut Client) -> Vec<i64> {
    let info = meter.cmd(&["INFO", "everything"]).text();
    let lines = info.lines().filter_map(|line| line.split("requests=").nth(1));
    lines
        .map(|rest| rest.split(',').next().and_then(|n| n.parse().ok()).expect("a count"))
        .collect()
}

/// A new client of I/O thread `thread`.
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
        // Those that come next go elsewhere.
        others.push(found);
    }
    panic!("no client came to thread {thread}");
}

/// Fills a list that takes a while to be searched, but not too long for an I/O thread.
fn fill(maker: &mut Client, name: &str) {
    const ELEMENTS: usize = 20_000;
    let elements: Vec<String> = (0..ELEMENTS).map(|n| format!("element:{n}")).collect();
    for part in elements.chunks(1000) {
        let push = ["RPUSH", name].into_iter().chain(part.iter().map(String::as_str));
        maker.cmd(&push.collect::<Vec<_>>());
    }
}

/// Tells the others that it is over, also when a test fails before its end.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
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

/// Keeps the thread of `client` in long batches until `done`.
fn occupy<'s>(scope: &'s Scope<'s, '_>, client: Client, done: &'s AtomicBool) {
    repeat(scope, client, vec![vec!["LPOS", "search", "none"]; 300], done);
}

/// A client that tries again with all its keys in hand finds nothing, since somebody else was
/// faster, and waits on. Before its thread has come to the end of the batch, the key comes to be
/// once more, and again the client can't be served from there.
#[test]
fn who_tries_again_in_vain_and_is_called_again_at_once_is_not_forgotten() {
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
        let _end = End(&done);
        // The shard to which they move is hardly ever free.
        repeat(scope, busy, vec![vec!["LPOS", "{a}list", "none"]; 50], &done);
        // These wait for it, too, and then take their time.
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
        // One that was served at last does not wait any more.
        if reply_within(waiter, Duration::from_millis(50)).is_some() {
            continue;
        }
        maker.cmd(&["RPUSH", &sources[n], "y"]);
        if reply_within(waiter, Duration::from_secs(3)).is_none() {
            let left = maker.cmd(&["LLEN", &sources[n]]).int();
            forgotten.push(format!("{} with {left} elements", sources[n]));
        }
    }
    assert!(forgotten.is_empty(), "nobody serves those who wait for {forgotten:?}");
}

/// A command with much to do comes to wait in the slow lane, since what it found is gone by then,
/// and is served before its own thread has heard that it waits.
#[test]
fn who_comes_to_wait_in_the_slow_lane_is_told_that_it_was_served() {
    const ROUNDS: usize = 12;
    let server = Server::weft(&TWO);
    let mut meter = client(&server);
    fill(&mut meter, "search");
    let longs: [Long; SLOW_THREADS] = ["a", "b", "c", "d"].map(|tag| Long::with_tag(&server, tag));
    let mut maker = on_thread(&server, &mut meter, 1);
    let mut waited = 0;
    for round in 0..ROUNDS {
        let mut waiter = on_thread(&server, &mut meter, 0);
        let busy = on_thread(&server, &mut meter, 0);
        (0..3).for_each(|_| fill(&mut maker, "list"));
        let mut runners = longs.each_ref().map(|long| long.begin(&server, 0.4));
        send(&mut waiter, &["BLMPOP", "0", "1", "list", "LEFT", "COUNT", "60000"]);
        std::thread::sleep(Duration::from_millis(30));
        maker.cmd(&["DEL", "list"]);
        let done = AtomicBool::new(false);
        let served = std::thread::scope(|scope| {
            let _end = End(&done);
            occupy(scope, busy, &done);
            let mut early = None;
            until("it waits, or has its elements", || {
                early =
                    early.take().or_else(|| reply_within(&mut waiter, Duration::from_millis(1)));
                early.is_some() || info(&mut maker, "total_blocking_keys") == 1
            });
            if early.is_some() {
                return early;
            }
            waited += 1;
            maker.cmd(&["RPUSH", "list", "x"]);
            reply_within(&mut waiter, Duration::from_secs(3))
        });
        let left = maker.cmd(&["LLEN", "list"]).int();
        assert!(served.is_some(), "round {round}: no reply, and {left} elements are left of one");
        runners.iter_mut().for_each(|runner| drop(reply(runner)));
        maker.cmd(&["DEL", "list"]);
    }
    // On a machine with much else to do, the slow lane may come to it before the list has gone.
    eprintln!("{waited} of {ROUNDS} rounds have come to wait");
}

/// A client that is to try again moves to another thread before it does, and has to wait on there.
#[test]
fn who_moves_before_it_tries_again_is_told_that_it_was_served() {
    const ROUNDS: usize = 10;
    let args = [&TWO[..], &["--enable-debug-command", "yes"]].concat();
    let server = Server::weft(&args);
    let mut meter = client(&server);
    fill(&mut meter, "search");
    let long = Long::with_tag(&server, "a");
    for round in 0..ROUNDS {
        let mut maker = on_thread(&server, &mut meter, 1);
        let mut waiter = on_thread(&server, &mut meter, 0);
        let busy = on_thread(&server, &mut meter, 0);
        send(&mut waiter, &["BLMOVE", "from", "{a}to", "LEFT", "RIGHT", "0"]);
        until("it waits", || info(&mut maker, "blocked_clients") == 1);
        let mut runner = long.begin(&server, 0.6);
        let done = AtomicBool::new(false);
        let popped = std::thread::scope(|scope| {
            let _end = End(&done);
            occupy(scope, busy, &done);
            std::thread::sleep(Duration::from_millis(100));
            // The shard of the other list is busy: the client is to try by itself.
            let all: [&[&str]; 3] =
                [&["RPUSH", "from", "x"], &["LPOP", "from"], &["DEBUG", "MOVE-CLIENTS"]];
            send_all(&mut maker, &all);
            assert_eq!(reply(&mut maker).int(), 1);
            let popped = reply(&mut maker);
            assert!(reply(&mut maker).is_ok());
            !popped.is_null()
        });
        reply(&mut runner);
        if !popped {
            // The other shard was not busy any more, and the client has got its element.
            assert_eq!(reply(&mut waiter).text(), "x");
            maker.cmd(&["DEL", "{a}to"]);
            continue;
        }
        std::thread::sleep(Duration::from_millis(100));
        maker.cmd(&["RPUSH", "from", "y"]);
        let served = reply_within(&mut waiter, Duration::from_secs(3));
        let moved = maker.cmd(&["LPOP", "{a}to"]);
        assert!(served.is_some(), "round {round}: no reply, and {moved} was moved");
    }
}

/// What is remembered of a client that has waited does not stay until its time would be over.
#[test]
fn waits_that_ended_early_leave_nothing_behind() {
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
    // What doubles its room has done so at least twice. A number for each wait would take eight bytes.
    let most = (MORE * ROUNDS * EACH) as u64;
    assert!(more < most, "{more} bytes more after {} waits that are over", MORE * ROUNDS * EACH);
}

/// More elements than who makes a list gives away by itself.
const VERY_MANY: usize = 60_000;

fn make_list(maker: &mut Client, list: &str) {
    let elements: Vec<String> = (0..VERY_MANY).map(|n| n.to_string()).collect();
    for some in elements.chunks(10_000) {
        let push = ["RPUSH", list].into_iter().chain(some.iter().map(String::as_str));
        maker.cmd(&push.collect::<Vec<_>>());
    }
}

/// A client that waits for so much that it is served elsewhere comes before those behind it.
#[test]
fn who_waits_for_very_much_keeps_its_place() {
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

/// It also keeps it when nothing is left for it by then, and can still be told that its time is over.
#[test]
fn who_finds_nothing_left_waits_on_in_its_place() {
    let server = Server::weft(&["--io-threads", "2"]);
    let (mut maker, mut first, mut second) = (client(&server), client(&server), client(&server));
    let mut third = client(&server);
    let longs: Vec<Long> =
        (0..SLOW_THREADS).map(|n| Long::with_tag(&server, &format!("long{n}"))).collect();
    make_list(&mut maker, "{l}all");
    let request = ["BLMPOP", "0", "1", "{l}k", "LEFT", "COUNT", "1000000"];
    send(&mut first, &request);
    until_blocked(&mut maker, 1);
    let runners: Vec<Client> = longs.iter().map(|long| long.begin(&server, 1.0)).collect();
    maker.ok(&["RENAME", "{l}all", "{l}k"]);
    assert_eq!(maker.cmd(&["DEL", "{l}k"]).int(), 1);
    send(&mut second, &["BLPOP", "{l}k", "0"]);
    until_blocked(&mut maker, 1);
    drop(runners);
    until_blocked(&mut maker, 2);
    maker.cmd(&["RPUSH", "{l}k", "x"]);
    assert_eq!(reply(&mut first).items()[1].items()[0].text(), "x");
    maker.cmd(&["RPUSH", "{l}k", "y"]);
    assert_eq!(reply(&mut second).items()[1].text(), "y");
    // One that is killed meanwhile gives its turn to those behind it.
    make_list(&mut maker, "{l}all");
    let killed = id(&mut third);
    send(&mut third, &request);
    until_blocked(&mut maker, 1);
    send(&mut second, &["BLPOP", "{l}k", "0"]);
    until_blocked(&mut maker, 2);
    let runners: Vec<Client> = longs.iter().map(|long| long.begin(&server, 1.0)).collect();
    maker.ok(&["RENAME", "{l}all", "{l}k"]);
    assert_eq!(maker.cmd(&["CLIENT", "KILL", "ID", &killed]).int(), 1);
    assert_eq!(maker.cmd(&["EXISTS", "{l}k"]).int(), 1, "it has been served before");
    drop(runners);
    assert_eq!(reply(&mut second).items()[1].text(), "0");
}

/// A reader's time is over while others run its command in its place, which finds nothing for it; and its thread
/// has had to do with many waits meanwhile that ended early.
#[test]
fn whose_time_ends_while_it_is_tried_is_answered_all_the_same() {
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
    // On both threads there are some of each.
    let mut readers: Vec<Client> = (0..READERS).map(|_| client(&server)).collect();
    let mut poppers: Vec<Client> = (0..POPPERS).map(|_| client(&server)).collect();
    let makers: Vec<Client> = (0..2).map(|_| client(&server)).collect();
    let lists: Vec<String> = (0..POPPERS).map(|n| format!("{{t}}l{n}")).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = End(&done);
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
                assert!(reply_within(reader, Duration::from_secs(30)).is_some(), "it is forgotten");
            }
        }
    });
}
