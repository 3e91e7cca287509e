//! Payloads of FUNCTION RESTORE and RESTORE, values that aren't what they seem, and a full sync while a function runs.

use super::{check_order, withstand, withstand_beside};
use std::time::Duration;
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server};
use weft_testkit_differential::payloads::{corrupted, payload, with_sum};
use weft_tests::contents::content;
use weft_tests::replication::{replicate_from, wait_for_link};
use weft_tests::scene::{client, reply, send};

/// The version of the format, and a checksum.
const FOOTER: usize = 10;
const VERSION: [u8; 2] = [80, 0];
/// Code of a library, in files and payloads.
const LIBRARY: u8 = 245;

fn sealed(body: &[u8]) -> Vec<u8> {
    with_sum([body, &VERSION].concat())
}

/// A library in a payload, with a length of 32 bits.
fn library(text: &str) -> Vec<u8> {
    let len = u32::try_from(text.len()).expect("a short text").to_be_bytes();
    [&[LIBRARY, 0x80][..], &len, text.as_bytes()].concat()
}

fn names(client: &mut Client) -> String {
    client.cmd(&["FUNCTION", "LIST"]).to_string()
}

/// Bodies that aren't libraries. A length of 2^63 and more is that of Valkey 9.1.3 (#4733).
fn invalid_bodies() -> Vec<Vec<u8>> {
    let most = [0xff; 8];
    let mut bodies = vec![
        vec![LIBRARY],
        vec![LIBRARY, 0x81],
        [&[LIBRARY, 0x81][..], &most, b"x"].concat(),
        [&[LIBRARY, 0x80][..], &most[..4], b"x"].concat(),
        [&[LIBRARY, 0x81][..], &(1u64 << 63).to_be_bytes()].concat(),
        [&[LIBRARY, 0xc3, 0x81][..], &most, &[0x81], &most].concat(),
        // Compressed: three bytes become 2^60, or point before the start.
        [&[LIBRARY, 0xc3, 3, 0x81][..], &(1u64 << 60).to_be_bytes(), &[0xe0, 0xff, 0]].concat(),
        vec![LIBRARY, 0xc3, 3, 100, 0xe0, 0xff, 0],
        vec![LIBRARY, 0xc0, 5],
        vec![246, 1, b'x'],
        vec![0, 1, b'x'],
        vec![0xff; 40],
    ];
    bodies.extend(
        [
            "",
            "x",
            "#!lua name=z\n",
            "#!lua name=z\nwhile true do end",
            "#!lua name=z\nlocal t = {} while true do t[#t + 1] = ('x'):rep(1e6) .. #t end",
            "#!lua name=z\nredis.call('set', 'k', 1)",
            "#!lua name=z\nlocal function f() return f() + 1 end f()",
            "#!lua name=z\nredis.register_function('f', function() end) error({})",
            "#!lua name=z\nredis.register_function('\0\r\n', function() end)",
            "#!lua name=\0\r\n+OK\r\n\nx",
        ]
        .map(library),
    );
    bodies
}

#[test]
fn payloads_of_functions_change_nothing_unless_they_are_valid() {
    withstand(&[], |_, client| {
        client.set_timeout(Duration::from_secs(120));
        let text = |name: &str, result: u32| {
            format!(
                "#!lua name={name}\n-- {}\nredis.register_function('{name}', function() return {result} end)",
                "comment ".repeat(20)
            )
        };
        for (name, result) in [("kept", 7), ("other", 8)] {
            client.cmd(&["FUNCTION", "LOAD", &text(name, result)]);
        }
        let before = names(client);
        let dump = client.cmd(&["FUNCTION", "DUMP"]);
        let dump = dump.bytes().expect("a payload");
        for body in invalid_bodies() {
            for policy in ["FLUSH", "APPEND", "REPLACE"] {
                let payload = sealed(&body);
                let reply =
                    client.cmd(&[&b"FUNCTION"[..], b"RESTORE", &payload, policy.as_bytes()]);
                assert!(reply.error().is_some(), "{}", body.escape_ascii());
                check_order(client, "a payload of functions");
                assert_eq!(names(client), before, "{}", body.escape_ascii());
            }
        }
        let script = "return redis.pcall('function', 'restore', ARGV[1], 'flush')";
        let error = client.cmd(&[&b"EVAL"[..], script.as_bytes(), b"0", dump]).error();
        assert!(error.is_some_and(|error| error.contains("not allowed from script")));
        let mut rng = Rng::new(3);
        for _ in 0..600 {
            let mut body = dump[..dump.len() - FOOTER].to_vec();
            for _ in 0..1 + rng.below(3) {
                let at = if rng.percent(50) { rng.below(8) } else { rng.below(body.len()) };
                body[at] = rng.next_u64() as u8;
            }
            body.truncate(if rng.percent(30) { rng.below(body.len()) } else { body.len() });
            let policy = *rng.pick(&[&b"FLUSH"[..], b"APPEND", b"REPLACE"]);
            client.cmd(&[&b"FUNCTION"[..], b"RESTORE", &sealed(&body), policy]);
            check_order(client, "a changed payload of functions");
            client.ok(&[&b"FUNCTION"[..], b"RESTORE", dump, b"FLUSH"]);
            assert_eq!(client.cmd(&["FCALL", "kept", "0"]).int(), 7);
        }
    });
}

/// Restores a payload by a script.
fn restore(client: &mut Client, key: &str, payload: &[u8]) -> weft_testkit::Value {
    let script = b"return redis.pcall('restore', KEYS[1], 0, ARGV[1], 'replace')";
    client.cmd(&[&b"EVAL"[..], script, b"1", key.as_bytes(), payload])
}

/// CVE-2026-25243: values of all types with changed bytes. Accepted values can be read, changed and dumped.
#[test]
fn restored_values_are_refused_or_usable() {
    const CHANGES: [&str; 9] = [
        "APPEND k x",
        "RPUSH k a b",
        "SADD k a 1",
        "ZADD k 1 a",
        "HSET k f v",
        "XADD k * f v",
        "XAUTOCLAIM k g c 0 0 COUNT 9",
        "XGROUP DELCONSUMER k g c",
        "PFADD k a b c",
    ];
    withstand(&[], |_, client| {
        let mut rng = Rng::new(4);
        let mut accepted = 0;
        for n in 0..1500 {
            // No lifetime ends meanwhile.
            let now = 4_102_444_800_000;
            let bytes = if n % 3 == 0 { payload(&mut rng, now) } else { corrupted(&mut rng, now) };
            let is_ok = restore(client, "k", &bytes).error().is_none();
            check_order(client, "a payload");
            if is_ok {
                accepted += 1;
                content(client, b"k");
                for change in CHANGES {
                    client.cmd(&change.split(' ').collect::<Vec<_>>());
                }
                content(client, b"k");
                client.cmd(&["DUMP", "k"]);
                client.cmd(&["DEL", "k"]);
                check_order(client, "a restored value");
            }
        }
        assert!((100..1400).contains(&accepted), "{accepted} accepted");
    });
}

/// Lengths that no memory has, of all types: the abort of Valkey before 9.1.3 (#4733).
#[test]
fn lengths_beyond_the_payload_are_refused() {
    withstand(&[], |_, client| {
        for code in 0..=60 {
            for len in [u64::MAX, 1 << 63, i64::MAX as u64, 1 << 40, u64::from(u32::MAX)] {
                // After a short first part, the length may be beyond the end of a value that is complete.
                for lead in [&[][..], &[1], &[2, 1, b'a']] {
                    let len = [&[0x81][..], &len.to_be_bytes()].concat();
                    let body = [&[code], lead, &len, b"xxxxxxxxxxxxxxxxxxxxxxxx"].concat();
                    let reply = restore(client, "k", &sealed(&body));
                    let is_refused = reply.error().is_some();
                    assert!(is_refused || !lead.is_empty(), "{}", body.escape_ascii());
                    check_order(client, "a length");
                }
            }
        }
    });
}

/// CVE-2026-66373 and CVE-2026-63639: two consumers share a pending entry, which is freed twice.
#[test]
fn pending_entry_of_two_consumers_is_refused() {
    // One consumer: its name, two times, and its one pending id.
    const CONSUMER: usize = 1 + 2 + 8 + 8 + 1 + 16;
    withstand(&[], |_, client| {
        client.cmd(&["XADD", "s", "1-1", "f", "v"]);
        client.ok(&["XGROUP", "CREATE", "s", "g", "0"]);
        client.cmd(&["XREADGROUP", "GROUP", "g", "aa", "STREAMS", "s", ">"]);
        let dump = client.cmd(&["DUMP", "s"]);
        let body = dump.bytes().expect("a payload");
        let body = &body[..body.len() - FOOTER];
        let (head, consumer) = body.split_at(body.len() - CONSUMER);
        assert_eq!(&consumer[..3], b"\x02aa");
        assert_eq!(head.last(), Some(&1), "the number of consumers");
        assert!(restore(client, "k", &sealed(body)).is_ok());
        let head = &head[..head.len() - 1];
        let mut other = consumer.to_vec();
        other[1..3].copy_from_slice(b"bb");
        let mut stranger = other.clone();
        *stranger.last_mut().expect("an id") += 1;
        let mut twice = consumer.to_vec();
        twice[CONSUMER - 17] = 2;
        twice.extend(&consumer[CONSUMER - 16..]);
        for (count, consumers) in [
            (2, [consumer, &other].concat()),
            (2, [consumer, consumer].concat()),
            (2, [consumer, &stranger].concat()),
            (1, twice),
            (0, vec![]),
        ] {
            let body = [head, &[count], &consumers].concat();
            let error = restore(client, "k", &sealed(&body)).error().unwrap_or_default();
            assert!(error.contains("Bad data format"), "{count}: {error}");
        }
        for consumer in ["aa", "bb"] {
            client.cmd(&["XGROUP", "DELCONSUMER", "k", "g", consumer]);
        }
        check_order(client, "a stream");
    });
}

/// CVE-2025-32023: runs of a sparse HyperLogLog that are longer than its registers, up to overflows of 32 bits.
#[test]
fn false_hyperloglogs_are_refused() {
    withstand(&[], |_, client| {
        let head = [&b"HYLL\x01\0\0\0"[..], &[0, 0, 0, 0, 0, 0, 0, 0x80]].concat();
        let value = [0x84];
        for runs in [1, 2, 3, 1000, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, 1 << 18] {
            for ops in [[0x7f, 0xff].repeat(runs), [0x3f].repeat(runs), [0xff].repeat(runs)] {
                for bytes in [[&head[..], &ops].concat(), [&head[..], &ops, &value].concat()] {
                    let script = "redis.call('set', KEYS[1], ARGV[1]) local t = {}
                        for _, c in ipairs({{'pfcount', KEYS[1]}, {'pfadd', KEYS[1], 'a', 'b'}, {'pfmerge', KEYS[2], KEYS[1]}}) do
                          t[#t + 1] = redis.pcall(unpack(c)) end
                        t[#t + 1] = redis.pcall('pfcount', KEYS[1], KEYS[2]) return #t";
                    let words = [&b"EVAL"[..], script.as_bytes(), b"2", b"{h}a", b"{h}b", &bytes];
                    assert_eq!(client.cmd(&words).to_string(), "4");
                    check_order(client, "a HyperLogLog");
                }
            }
        }
    });
}

/// Runs for about 0.3 s of the process's CPU time, on data of its own; the second one writes.
const FUNCTIONS: &str = "#!lua name=replaced\n\
    local function run(keys, args) local t, from = {}, os.clock() while os.clock() - from < 0.3 do \
    t[#t % 100 + 1] = ('x'):rep(100) .. #t redis.call('get', keys[1]) end return 'done' end\n\
    redis.register_function('reads', run)\n\
    redis.register_function('writes', function(keys, args) redis.call('set', keys[1], 'v') return run(keys, args) end)";

/// CVE-2026-23631: a full sync replaces the functions of a writable replica while one of them runs.
#[test]
fn full_sync_while_a_function_runs() {
    let primary = Server::weft(&["--repl-diskless-sync-delay", "0"]);
    let load = "#!lua name=ours\nredis.register_function('ours', function() return 7 end)";
    client(&primary).cmd(&["FUNCTION", "LOAD", load]);
    for mode in ["disabled", "swapdb", "on-empty-db"] {
        let args = ["--replica-read-only", "no", "--repl-diskless-load", mode];
        // A command that is answered while data are loaded.
        let echo = |client: &mut Client| check_order(client, "a full sync");
        withstand_beside(&args, echo, |server, asks| {
            for function in ["reads", "writes", "reads", "writes"] {
                asks.cmd(&["FUNCTION", "LOAD", "REPLACE", FUNCTIONS]);
                let mut callers: Vec<Client> = (0..3).map(|_| client(server)).collect();
                for (n, caller) in callers.iter_mut().enumerate() {
                    send(caller, &["FCALL", function, "1", &format!("{{bystander}}{n}")]);
                }
                replicate_from(server, &primary.port().to_string());
                for caller in &mut callers {
                    let got = reply(caller);
                    assert!(got.error().is_some() || got.text() == "done", "{mode}: {got}");
                }
                wait_for_link(asks);
                assert_eq!(asks.cmd(&["FCALL", "ours", "0"]).int(), 7, "{mode}");
                let error = asks.cmd(&["FCALL", function, "1", "k"]).error();
                assert_eq!(error.as_deref(), Some("ERR Function not found"), "{mode}");
                asks.ok(&["REPLICAOF", "NO", "ONE"]);
            }
        });
    }
}
