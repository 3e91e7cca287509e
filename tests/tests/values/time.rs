//! Time and the order of execution agree: once a client has seen a key or field expired, it is
//! expired for every later command, wherever that runs. An expiring key breaks watches as in the
//! reference.

use std::time::Duration;
use weft_testkit::{Client, Server, Value};
use weft_tests::scene::{
    HeldShard, client, on_both, pause_slow_lane, reply, reply_within, send_all, until,
    until_in_slow_lane,
};

const FOUR: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];
const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

/// Starts `queue` as a transaction in the slow lane that waits for its last shard, which stays locked until released.
fn queue_before_a_held_shard(server: &Server, queue: &[&[&str]]) -> (Client, HeldShard) {
    let (mut control, mut own) = (client(server), client(server));
    let numbers: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
    let add = ["SADD", "{x}set"].into_iter().chain(numbers.iter().map(|n| &n[..]));
    control.cmd(&add.collect::<Vec<_>>());
    pause_slow_lane(&mut control, true);
    let mut all: Vec<&[&str]> = vec![&["MULTI"]];
    all.push(&["SINTERCARD", "2", "{x}set", "{x}set"]);
    all.extend(queue);
    all.push(&["EXEC"]);
    send_all(&mut own, &all);
    for _ in 0..all.len() - 1 {
        assert!(reply(&mut own).error().is_none());
    }
    until_in_slow_lane(&mut control, 1);
    let held = HeldShard::with_tag(server, "x");
    pause_slow_lane(&mut control, false);
    // Time for the transaction to begin its wait.
    std::thread::sleep(Duration::from_millis(100));
    (own, held)
}

/// A field that a client has seen expired must not exist again.
#[test]
fn field_seen_expired_does_not_come_back() {
    const ROUNDS: usize = 3;
    let server = Server::weft(&[&FOUR[..], &DEBUG].concat());
    let mut other = client(&server);
    // Only these clients may remove the key and the field.
    other.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    let queue: [&[&str]; 4] = [
        &["HPERSIST", "{h}hash", "FIELDS", "1", "field"],
        &["HGET", "{h}hash", "field"],
        &["PERSIST", "{h}key"],
        &["GET", "{h}key"],
    ];
    for _ in 0..ROUNDS {
        other.cmd(&["HSET", "{h}hash", "field", "value", "more", "v"]);
        other.ok(&["SET", "{h}key", "value"]);
        let (mut own, held) = queue_before_a_held_shard(&server, &queue);
        other.cmd(&["HPEXPIRE", "{h}hash", "20", "FIELDS", "1", "field"]);
        other.cmd(&["PEXPIRE", "{h}key", "20"]);
        until("the field has expired", || other.cmd(&["HGET", "{h}hash", "field"]).is_null());
        assert!(reply_within(&mut own, Duration::from_millis(1)).is_none(), "EXEC did not wait");
        held.release();
        let exec = reply(&mut own);
        let [_, persisted, field, key_persisted, key] = exec.items() else {
            panic!("EXEC: {exec}");
        };
        assert_eq!(persisted.items(), [Value::Integer(-2)], "the field came back: {field}");
        assert!(field.is_null(), "the field came back: {field}");
        assert_eq!(*key_persisted, Value::Integer(0), "the key came back: {key}");
        assert!(other.cmd(&["HGET", "{h}hash", "field"]).is_null());
        other.cmd(&["DEL", "{h}hash", "{h}key"]);
    }
}

/// Commands on a watched key with an expiry, and whether EXEC runs then: if WATCH came before the
/// key expired, and if it came afterwards. `x` exists in both databases, the key only in the first.
const WATCHED: [(&[&str], bool, bool); 12] = [
    (&["FLUSHALL"], false, true),
    (&["FLUSHALL ASYNC"], false, true),
    (&["FLUSHALL SYNC"], false, true),
    (&["FLUSHDB"], false, true),
    (&["FLUSHDB", "SET k v"], false, false),
    (&["SWAPDB 0 1"], false, true),
    (&["SWAPDB 0 1", "FLUSHALL"], false, true),
    (&["SWAPDB 0 1", "SWAPDB 0 1"], false, true),
    (&["GET k"], false, true),
    (&["DEL k"], false, true),
    (&["SET k v"], false, false),
    (&["PING"], false, true),
];

#[test]
fn expired_key_breaks_its_watch_whatever_removes_it() {
    on_both(&DEBUG, &FOUR, |server| {
        let mut other = client(server);
        other.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        for (commands, runs_if_before, runs_if_after) in WATCHED {
            for (before, runs) in [(true, runs_if_before), (false, runs_if_after)] {
                let mut own = client(server);
                other.ok(&["FLUSHALL"]);
                other.ok(&["SET", "x", "v"]);
                other.ok(&["SET", "k", "v", "PX", "30"]);
                if before {
                    own.ok(&["WATCH", "k"]);
                }
                std::thread::sleep(Duration::from_millis(40));
                if !before {
                    own.ok(&["WATCH", "k"]);
                }
                for command in commands {
                    let words: Vec<&str> = command.split(' ').collect();
                    assert_eq!(other.cmd(&words).error(), None);
                }
                own.ok(&["MULTI"]);
                own.cmd(&["PING"]);
                let ran = !own.cmd(&["EXEC"]).is_null();
                let name = server.name();
                assert_eq!(ran, runs, "{name}: {commands:?}, watched before: {before}");
            }
        }
    });
}

/// EXEC estimates the work of its queue before it moves to the slow lane, and removes expired keys
/// meanwhile. Watches must break before the shards are unlocked.
#[test]
fn expired_keys_found_by_a_long_transaction_break_watches() {
    on_both(&DEBUG, &["--io-threads", "1"], |server| {
        let (mut own, mut other) = (client(server), client(server));
        other.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        let numbers: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
        let push = ["RPUSH", "list"].into_iter().chain(numbers.iter().map(|n| &n[..]));
        other.cmd(&push.collect::<Vec<_>>());
        other.cmd(&["RPUSH", "k", "v"]);
        other.cmd(&["PEXPIRE", "k", "30"]);
        own.ok(&["WATCH", "k"]);
        std::thread::sleep(Duration::from_millis(40));
        other.ok(&["MULTI"]);
        other.cmd(&["LRANGE", "k", "0", "-1"]);
        other.cmd(&["LRANGE", "list", "0", "-1"]);
        assert_eq!(other.cmd(&["EXEC"]).items()[1].items().len(), numbers.len());
        // The next change is in another shard.
        own.ok(&["SET", "x", "v"]);
        other.ok(&["WATCH", "y"]);
        own.ok(&["SET", "y", "v"]);
        own.ok(&["MULTI"]);
        own.cmd(&["PING"]);
        assert!(own.cmd(&["EXEC"]).is_null(), "{}: the watch is broken", server.name());
    });
}

/// The estimate must come after the check whether a watched key has expired.
#[test]
fn expired_key_breaks_the_watch_of_a_transaction_that_uses_it() {
    on_both(&DEBUG, &["--io-threads", "1"], |server| {
        let mut own = client(server);
        own.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        for command in ["DEL k", "GET k", "LRANGE k 0 -1", "COPY k l", "XTRIM k MAXLEN 1"] {
            own.ok(&["SET", "k", "v", "PX", "30"]);
            own.ok(&["WATCH", "k"]);
            std::thread::sleep(Duration::from_millis(40));
            own.ok(&["MULTI"]);
            own.cmd(&command.split(' ').collect::<Vec<_>>());
            assert!(own.cmd(&["EXEC"]).is_null(), "{}: {command}", server.name());
        }
    });
}
