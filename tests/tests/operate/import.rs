//! `import-mode` and CLIENT IMPORT-SOURCE: another server decides which keys have expired. Each
//! scene runs on the reference first.

use std::time::{SystemTime, UNIX_EPOCH};
use weft_testkit::{Client, Server, Value};
use weft_tests::scene::{client, info, on_both, reply_text, until};

/// The null of RESP2.
const NIL: Value = Value::NullBulk;

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// An ordinary client and the import source.
fn client_and_source(server: &Server) -> (Client, Client) {
    let (mut other, mut source) = (client(server), client(server));
    assert_eq!(
        reply_text(&mut source, &["CLIENT", "IMPORT-SOURCE", "ON"]),
        "ERR Server is not in import mode"
    );
    other.ok(&["CONFIG", "SET", "import-mode", "yes"]);
    source.ok(&["CLIENT", "IMPORT-SOURCE", "ON"]);
    (other, source)
}

#[test]
fn expired_keys_are_hidden_from_all_but_the_import_source() {
    on_both(&[], &[], |server| {
        let (mut other, mut source) = client_and_source(server);
        other.ok(&["SET", "k", "1", "PX", "1"]);
        other.cmd(&["HSET", "h", "f", "1", "g", "2"]);
        other.cmd(&["HPEXPIRE", "h", "1", "FIELDS", "1", "f"]);
        until("the key has expired", || other.cmd(&["EXISTS", "k"]).int() == 0);
        until("the field has expired", || other.cmd(&["HGET", "h", "f"]) == NIL);
        // Long enough for several cycles of active expiry, if it ran.
        std::thread::sleep(std::time::Duration::from_millis(300));
        for (line, hidden, seen) in [
            ("GET k", NIL, Value::Bulk(b"1".to_vec())),
            ("EXISTS k", Value::Integer(0), Value::Integer(1)),
            ("TTL k", Value::Integer(-2), Value::Integer(0)),
            ("STRLEN k", Value::Integer(0), Value::Integer(1)),
            ("TYPE k", Value::Simple(b"none".to_vec()), Value::Simple(b"string".to_vec())),
            ("HGET h f", NIL, Value::Bulk(b"1".to_vec())),
            ("HSTRLEN h f", Value::Integer(0), Value::Integer(1)),
            ("DBSIZE", Value::Integer(2), Value::Integer(2)),
        ] {
            assert_eq!(other.cmd(&words(line)), hidden, "{}: {line}", server.name());
            assert_eq!(source.cmd(&words(line)), seen, "{}: {line}", server.name());
        }
        let keys = |client: &mut Client| client.cmd(&["KEYS", "*"]).items().len();
        assert_eq!((keys(&mut other), keys(&mut source)), (1, 2));
        assert_eq!(info(&mut other, "expired_keys"), 0);
        // In transactions, too.
        for (client, value) in [(&mut other, NIL), (&mut source, Value::Bulk(b"1".to_vec()))] {
            client.ok(&["MULTI"]);
            client.cmd(&["GET", "k"]);
            assert_eq!(client.cmd(&["EXEC"]).items()[0], value, "{}", server.name());
        }
        other.ok(&["CONFIG", "SET", "import-mode", "no"]);
        until("the key is removed", || other.cmd(&["DBSIZE"]).int() == 1);
        assert_eq!(source.cmd(&["GET", "k"]), NIL);
    });
}

#[test]
fn ordinary_write_replaces_an_expired_key_that_the_source_still_sees() {
    on_both(&[], &[], |server| {
        let (mut other, mut source) = client_and_source(server);
        for key in ["a", "b", "c", "d"] {
            other.ok(&["SET", key, "5", "PX", "1"]);
        }
        until("the keys have expired", || other.cmd(&["EXISTS", "a", "b", "c", "d"]).int() == 0);
        // For the source no key has expired, and writes keep the TTL.
        assert_eq!(source.cmd(&["INCR", "a"]).int(), 6);
        assert_eq!(source.cmd(&["TTL", "a"]).int(), 0);
        assert_eq!(other.cmd(&["GET", "a"]), NIL);
        // For other clients the key does not exist.
        assert_eq!(other.cmd(&["INCR", "b"]).int(), 1);
        assert_eq!(other.cmd(&["TTL", "b"]).int(), -1);
        assert_eq!(source.cmd(&["SET", "c", "6", "NX"]), NIL);
        assert_eq!(other.cmd(&["SET", "c", "6", "NX"]).text(), "OK");
        assert_eq!(other.cmd(&["COPY", "d", "e"]).int(), 0);
        assert_eq!(source.cmd(&["COPY", "d", "e"]).int(), 1, "{}", server.name());
    });
}

#[test]
fn import_source_may_set_times_in_the_past() {
    on_both(&[], &[], |server| {
        let (mut other, mut source) = client_and_source(server);
        for (n, line) in
            ["SET k v PXAT 1", "SETEX k 1 v", "SET k v", "GETEX k PXAT 1"].into_iter().enumerate()
        {
            source.cmd(&words(line));
            assert_eq!(source.cmd(&["EXISTS", "k"]).int(), 1, "{}: {n}", server.name());
        }
        assert_eq!(source.cmd(&["EXPIRE", "k", "-1"]).int(), 1);
        assert_eq!(
            (source.cmd(&["GET", "k"]).text(), other.cmd(&["EXISTS", "k"]).int()),
            ("v".into(), 0)
        );
        source.cmd(&["HSET", "h", "f", "1", "g", "2"]);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
        let past = (now - 1000).to_string();
        let set = source.cmd(&["HPEXPIREAT", "h", &past, "FIELDS", "1", "f"]);
        assert_eq!(set.items(), [Value::Integer(1)], "{}", server.name());
        assert_eq!(source.cmd(&["HGET", "h", "f"]).text(), "1");
        assert_eq!(other.cmd(&["HGET", "h", "f"]), NIL);
    });
}

#[test]
fn import_mode_evicts_nothing() {
    on_both(&[], &[], |server| {
        let (mut other, _source) = client_and_source(server);
        other.ok(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
        let limit = info(&mut other, "used_memory") + 1_000_000;
        other.ok(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
        let value = "x".repeat(100_000);
        let refused = (0..30).filter(|n| {
            let answer = reply_text(&mut other, &["SET", &format!("k{n}"), &value]);
            answer.starts_with("OOM ")
        });
        assert!(refused.count() > 15, "{}", server.name());
        assert_eq!(info(&mut other, "evicted_keys"), 0);
    });
}
