//! Commands that stop the world, within and outside of transactions: a thread that holds shards, or
//! has already stopped the world, may stop it again, and no client sees an intermediate state.
//!
//! A deadlock would last forever, so every client has a timeout: see [`weft_tests::scene`].

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::scene::{HeldShard, client, id, on_both, reply, reply_within, send, send_all};

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];
const FOUR: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

/// Transactions in which several commands stop the world, or wait for a safepoint of all threads.
/// `$other` and `$self` are client ids.
const TWICE: &[&[&str]] = &[
    &["FLUSHALL", "CLIENT PAUSE 0 WRITE"],
    &["CLIENT PAUSE 0 ALL", "FLUSHALL"],
    &["CLIENT PAUSE 0 WRITE", "CLIENT PAUSE 0 WRITE"],
    &["DBSIZE", "CLIENT KILL ID $other"],
    &["SET k v", "CLIENT KILL ID $other", "DBSIZE"],
    &["DBSIZE", "CLIENT KILL ID $self SKIPME no"],
    &["FLUSHALL", "CLIENT KILL TYPE normal"],
    &["DEBUG POPULATE 1000"],
    &["SET k v", "DEBUG POPULATE 1000", "DBSIZE"],
    &["DEBUG SLEEP 0", "CLIENT PAUSE 0 WRITE"],
    &["DEBUG DIGEST", "CLIENT KILL ID $other"],
    &["DEBUG HTSTATS 0", "CLIENT PAUSE 0 ALL"],
    &["DEBUG OBJECT x", "CLIENT PAUSE 0 WRITE"],
    &["DEBUG DIGEST-VALUE x y", "CLIENT KILL ID $other"],
    &["MEMORY USAGE x", "CLIENT PAUSE 0 WRITE", "MEMORY USAGE y"],
    &["DBSIZE", "CLIENT UNBLOCK $other", "CLIENT UNPAUSE", "FLUSHALL"],
    &["DBSIZE", "CONFIG SET maxmemory 0", "DEBUG SLEEP 0"],
    &["DBSIZE", "CONFIG SET io-threads 3", "FLUSHALL"],
    &["SET k v", "CONFIG SET io-threads 1", "CLIENT PAUSE 0 ALL", "CONFIG SET io-threads 4"],
    &["FLUSHALL", "CLIENT PAUSE 0 WRITE", "KEYS *", "RANDOMKEY", "SWAPDB 0 1"],
    &["SWAPDB 0 1", "KEYS *", "SCAN 0", "CLIENT PAUSE 0 WRITE", "FLUSHDB", "CLIENT UNPAUSE"],
];

/// Runs one of [`TWICE`]; the error describes the failure.
fn run_twice(server: &mut Server, queue: &[&str]) -> Result<(), String> {
    let (mut own, mut other) = (client(server), client(server));
    let (mine, others) = (id(&mut own), id(&mut other));
    for key in ["x", "y"] {
        own.ok(&["SET", key, "v"]);
    }
    own.ok(&["MULTI"]);
    for command in queue {
        let words: Vec<&str> = command.split(' ').collect();
        let words = words.iter().map(|word| match *word {
            "$self" => &mine[..],
            "$other" => &others[..],
            word => word,
        });
        let queued = own.cmd(&words.collect::<Vec<_>>());
        assert_eq!(queued.text(), "QUEUED", "{command}");
    }
    let exec = own.try_cmd(&["EXEC"]).map_err(|e| format!("EXEC: {e}"))?.value;
    let failed = exec.items().iter().find_map(|item| item.error());
    if exec.items().len() != queue.len() || failed.is_some() {
        return Err(format!("EXEC: {exec}"));
    }
    let mut third = client(server);
    for command in [&["PING"][..], &["SET", "k", "v"], &["DBSIZE"], &["FLUSHALL"]] {
        third.try_cmd(command).map_err(|e| format!("{command:?} afterwards: {e}"))?;
    }
    Ok(())
}

#[test]
fn transaction_may_stop_the_world_twice() {
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for queue in TWICE {
            let wrong = &wrong;
            scope.spawn(move || {
                on_both(&DEBUG, &FOUR, |server| {
                    if let Err(why) = run_twice(server, queue) {
                        let line = format!("{} {queue:?}: {why}", server.name());
                        wrong.lock().expect("no thread panics with the lock").push(line);
                    }
                });
            });
        }
    });
    let wrong = wrong.into_inner().expect("no thread panics with the lock");
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), TWICE.len(), wrong.join("\n"));
}

/// The same in parallel: several threads stop the world at once.
#[test]
fn threads_that_stop_the_world_do_not_deadlock() {
    const ROUNDS: usize = 150;
    on_both(&DEBUG, &FOUR, |server| {
        let queues: [&[&[&str]]; 6] = [
            &[&["SET", "a", "1"], &["CLIENT", "PAUSE", "0", "WRITE"], &["SET", "b", "1"]],
            &[&["DBSIZE"], &["GET", "a"], &["SWAPDB", "1", "2"]],
            &[&["MEMORY", "USAGE", "a"], &["CLIENT", "PAUSE", "0", "WRITE"]],
            &[&["DEBUG", "SLEEP", "0"], &["DEBUG", "OBJECT", "s"]],
            &[&["SET", "a", "2"], &["CLIENT", "UNPAUSE"], &["KEYS", "a"]],
            &[&["SET", "b", "2"], &["CLIENT", "KILL", "ID", "0"], &["FLUSHDB"], &["SET", "s", "v"]],
        ];
        client(server).ok(&["SET", "s", "v"]);
        std::thread::scope(|scope| {
            for queue in queues {
                let mut own = client(server);
                scope.spawn(move || {
                    let mut all: Vec<&[&str]> = vec![&["MULTI"]];
                    all.extend(queue);
                    all.push(&["EXEC"]);
                    for _ in 0..ROUNDS {
                        send_all(&mut own, &all);
                        for _ in 0..=queue.len() {
                            reply(&mut own);
                        }
                        assert_eq!(reply(&mut own).items().len(), queue.len());
                    }
                });
            }
        });
        assert_eq!(client(server).cmd(&["PING"]).text(), "PONG");
    });
}

/// A transaction that waits for all threads in its middle is still one step to other clients.
#[test]
fn transaction_with_a_pause_is_atomic() {
    const ROUNDS: usize = 2000;
    // So many pairs that other clients have time to read in between.
    const PAIRS: usize = 20;
    on_both(&DEBUG, &FOUR, |server| {
        let mut writer = client(server);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    let mut reader = client(server);
                    let done = &done;
                    scope.spawn(move || count_torn_reads(&mut reader, done))
                })
                .collect();
            let end = SetOnDrop(&done);
            let mut all: Vec<&[&str]> = vec![&["MULTI"]];
            for _ in 0..PAIRS {
                all.push(&["INCR", "a"]);
                all.push(&["CLIENT", "PAUSE", "0", "WRITE"]);
                all.push(&["INCR", "b"]);
            }
            all.push(&["EXEC"]);
            for _ in 0..ROUNDS {
                send_all(&mut writer, &all);
                (0..=3 * PAIRS).for_each(|_| drop(reply(&mut writer)));
                assert_eq!(reply(&mut writer).items().len(), 3 * PAIRS);
            }
            drop(end);
            let torn: usize = readers.into_iter().map(|r| r.join().expect("a reader")).sum();
            assert_eq!(torn, 0, "transactions of {} that saw a and b differ", server.name());
        });
    });
}

/// Sets the flag on drop, so that the other threads end even when a test fails early.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How often a and b differ for a client that reads both while the world is stopped.
fn count_torn_reads(reader: &mut Client, done: &AtomicBool) -> usize {
    let mut torn = 0;
    while !done.load(Ordering::Relaxed) {
        send_all(reader, &[&["MULTI"], &["DBSIZE"], &["GET", "a"], &["GET", "b"], &["EXEC"]]);
        (0..4).for_each(|_| drop(reply(reader)));
        let exec = reply(reader);
        torn += usize::from(exec.items()[1] != exec.items()[2]);
    }
    torn
}

/// Commands that read one key but are not key commands.
const LOOKS: [&[&str]; 4] = [
    &["MEMORY", "USAGE", "a"],
    &["DEBUG", "OBJECT", "a"],
    &["DEBUG", "DIGEST-VALUE", "a"],
    &["DEBUG", "SDSLEN", "a"],
];

/// A thread that holds the key's shard may be about to stop the world. Reading the key must not
/// block that.
#[test]
fn reading_a_key_does_not_block_stopping_the_world() {
    const ROUNDS: usize = 500;
    for look in LOOKS {
        on_both(&DEBUG, &FOUR, |server| {
            let mut writer = client(server);
            writer.ok(&["SET", "a", "v"]);
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    let (mut looker, done) = (client(server), &done);
                    scope.spawn(move || {
                        while !done.load(Ordering::Relaxed) {
                            send_all(&mut looker, &[look; 20]);
                            (0..20).for_each(|_| drop(reply(&mut looker)));
                        }
                    });
                }
                let _end = SetOnDrop(&done);
                let pause: &[&str] = &["CLIENT", "PAUSE", "0", "WRITE"];
                let all = [&["MULTI"][..], &["SET", "a", "v"], pause, &["GET", "a"], &["EXEC"]];
                for _ in 0..ROUNDS {
                    send_all(&mut writer, &all);
                    (0..4).for_each(|_| drop(reply(&mut writer)));
                    assert_eq!(reply(&mut writer).items().len(), 3, "{look:?}");
                }
            });
        });
    }
}

/// A single I/O thread. While a command in the slow lane holds a key's shard, only the client that
/// reads this key waits.
#[test]
fn reading_a_key_of_a_long_command_blocks_no_other_client() {
    let args = [&DEBUG[..], &["--io-threads", "1"]].concat();
    let server = Server::weft(&args);
    for look in [&["MEMORY", "USAGE"][..], &["DEBUG", "OBJECT"], &["DEBUG", "DIGEST-VALUE"]] {
        let (mut looker, mut other) = (client(&server), client(&server));
        other.cmd(&["PING"]);
        let held = HeldShard::with_tag(&server, "t");
        send(&mut looker, &[look, &[held.key()]].concat());
        // Several requests, so that the thread has processed the reading client.
        for _ in 0..5 {
            assert_eq!(other.cmd(&["PING"]).text(), "PONG");
        }
        let over = reply_within(&mut looker, Duration::from_millis(1));
        assert!(over.is_none(), "{look:?} does not wait for the shard");
        held.release();
        assert_eq!(reply(&mut looker).error(), None);
    }
}

/// The same for commands that stop the world: they may wait for the shard, and other clients continue.
#[test]
fn stopping_the_world_during_a_long_command_blocks_no_other_client() {
    let args = [&DEBUG[..], &["--io-threads", "1"]].concat();
    let server = Server::weft(&args);
    let queues: [&[&[&str]]; 3] = [
        &[&["MULTI"], &["MEMORY", "USAGE", "x"], &["EXEC"]],
        &[&["MULTI"], &["DBSIZE"], &["CLIENT", "PAUSE", "0", "WRITE"], &["EXEC"]],
        &[&["DEBUG", "DIGEST"]],
    ];
    for queue in queues {
        let (mut stopper, mut other) = (client(&server), client(&server));
        other.cmd(&["PING"]);
        let held = HeldShard::with_tag(&server, "t");
        send_all(&mut stopper, queue);
        for _ in 1..queue.len() {
            assert_eq!(reply(&mut stopper).error(), None);
        }
        for _ in 0..5 {
            assert_eq!(other.cmd(&["PING"]).text(), "PONG");
        }
        held.release();
        assert_eq!(reply(&mut stopper).error(), None);
    }
}
