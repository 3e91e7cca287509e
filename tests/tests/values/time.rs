//! Time and the order of execution agree: once a client has seen a key or field expired, it is
//! expired for every later command, wherever that runs. An expiring key breaks watches as in the
//! reference.

use std::time::Duration;
use weft_testkit::{Client, Server, Value};
use weft_tests::scene::{LongCommand, client, on_both, reply, reply_within, send, send_all, until};

const FOUR: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];
const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

/// Long commands on keys in three different shards.
struct LongCommands {
    server: Server,
    p: LongCommand,
    q: LongCommand,
    x: LongCommand,
}

impl LongCommands {
    fn set() -> LongCommands {
        let server = Server::weft(&[&FOUR[..], &DEBUG].concat());
        let [p, q, x] = ["p", "q", "x"].map(|tag| LongCommand::with_tag(&server, tag));
        LongCommands { server, p, q, x }
    }

    /// Starts `queue` as a transaction on the slow lane that waits for a shard locked for a long
    /// time. One thread of the slow lane runs a long command on `x`, another thread this
    /// transaction, which also needs `x`. Returns the client of the transaction, and the other
    /// clients.
    fn queue_after_a_long_command(&self, queue: &[&[&str]]) -> (Client, Vec<Client>) {
        // While two threads are busy, the long command and the transaction are queued in this
        // order.
        let first = self.p.begin(&self.server, 0.5);
        let second = self.q.begin(&self.server, 0.4);
        let mut long = client(&self.server);
        send(&mut long, &self.x.request(4.0));
        std::thread::sleep(Duration::from_millis(20));
        let mut own = client(&self.server);
        let key = self.x.key();
        let mut all: Vec<&[&str]> = vec![&["MULTI"]];
        let walk = ["SINTERCARD", "2", key, key];
        all.push(&walk);
        all.extend(queue);
        all.push(&["EXEC"]);
        send_all(&mut own, &all);
        for _ in 0..all.len() - 1 {
            assert!(reply(&mut own).error().is_none());
        }
        (own, vec![first, second, long])
    }
}

/// A field that a client has seen expired must not exist again.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn field_seen_expired_does_not_come_back() {
    let longs = LongCommands::set();
    // The field must expire after the transaction has begun to wait and before it ends. The time of that depends on the
    // machine.
    let mut met = ["1200", "1600", "2000"]
        .map(|ms| expires_while_a_transaction_waits(&longs, ms))
        .contains(&true);
    for ms in ["900", "600", "2800"] {
        met = met || expires_while_a_transaction_waits(&longs, ms);
    }
    assert!(met, "no transaction was waiting when the field expired");
}

/// Returns whether the transaction was waiting for the shard when the field expired after `ms`
/// milliseconds.
fn expires_while_a_transaction_waits(longs: &LongCommands, ms: &str) -> bool {
    let mut other = client(&longs.server);
    other.cmd(&["HSET", "{h}hash", "field", "value", "more", "v"]);
    other.ok(&["SET", "{h}key", "value"]);
    let queue: [&[&str]; 4] = [
        &["HPERSIST", "{h}hash", "FIELDS", "1", "field"],
        &["HGET", "{h}hash", "field"],
        &["PERSIST", "{h}key"],
        &["GET", "{h}key"],
    ];
    // Only these clients may remove the key and the field.
    other.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    other.cmd(&["HPEXPIRE", "{h}hash", ms, "FIELDS", "1", "field"]);
    other.cmd(&["PEXPIRE", "{h}key", ms]);
    let (mut own, others) = longs.queue_after_a_long_command(&queue);
    let mut early = None;
    until("the field has expired, or EXEC has run", || {
        let expired = other.cmd(&["HGET", "{h}hash", "field"]).is_null();
        early = reply_within(&mut own, Duration::from_millis(1));
        expired || early.is_some()
    });
    let waited = early.is_none();
    let exec = early.unwrap_or_else(|| reply(&mut own));
    if waited {
        let [_, persisted, field, key_persisted, key] = exec.items() else {
            panic!("EXEC: {exec}");
        };
        assert_eq!(persisted.items(), [Value::Integer(-2)], "the field came back: {field}");
        assert!(field.is_null(), "the field came back: {field}");
        assert_eq!(*key_persisted, Value::Integer(0), "the key came back: {key}");
        assert!(other.cmd(&["HGET", "{h}hash", "field"]).is_null());
    }
    others.into_iter().for_each(|mut other| drop(reply(&mut other)));
    other.cmd(&["DEL", "{h}hash", "{h}key"]);
    waited
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
