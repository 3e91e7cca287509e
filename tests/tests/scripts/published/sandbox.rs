//! Scripts that leave the sandbox, damage the interpreter or forge replies.

use super::{check_order, withstand};
use std::time::Duration;
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Value};

/// Advisory, body of a script, and a part of its reply. Each runs as a script and as a function.
const SCRIPTS: [(&str, &str, &str); 32] = [
    ("CVE-2021-32626", "return cmsgpack.pack(unpack({}, 1, 7900))", "Too many arguments"),
    ("CVE-2021-32626", "return redis.call(unpack({}, 1, 7990))", "too many arguments"),
    ("CVE-2021-32672", "return type(debug)", "nonexistent global variable"),
    ("CVE-2022-0543", "return package.loadlib('liblua5.1.so.0', 'luaopen_io')", "nonexistent"),
    ("CVE-2022-0543", "return type(rawget(_G, 'package'))", "nil"),
    ("CVE-2022-0543", "return require('io')", "nonexistent global variable"),
    ("CVE-2022-0543", "return module('x')", "nonexistent global variable"),
    ("CVE-2022-24735", "redis.call = function() end", "readonly table"),
    ("CVE-2022-24735", "setmetatable(_G, {__index = function() end})", "readonly table"),
    ("CVE-2024-31228", "return ('a'):rep(2e5):find(('a?'):rep(2e5))", ""),
    ("CVE-2024-31449", "return bit.tohex(65535, -2147483648)", "0000FFFF"),
    ("CVE-2024-31449", "return bit.tohex(-1, 2147483647)", "ffffffff"),
    ("CVE-2024-46981", "return newproxy(true)", "nonexistent global variable"),
    (
        "CVE-2024-46981",
        "setmetatable({}, {__gc = function() while true do end end}) collectgarbage() return 7",
        "7",
    ),
    ("CVE-2025-46817", "return {unpack({1, 2, 3}, -2, 2147483647)}", "too many results to unpack"),
    (
        "CVE-2025-46817",
        "return {unpack({}, -2147483648, 2147483647)}",
        "too many results to unpack",
    ),
    ("CVE-2025-46817", "return {unpack({}, 0, 2147483647)}", "too many results to unpack"),
    ("CVE-2025-46818", "getmetatable('').__index = function() end", "readonly table"),
    ("CVE-2025-46818", "rawset(getmetatable(''), '__sub', 1)", "readonly table"),
    (
        "CVE-2025-46818",
        "return tostring(getmetatable(1)) .. tostring(getmetatable(print ~= nil))",
        "nonexistent",
    ),
    ("CVE-2025-46819", "return tostring(loadstring('return [' .. ('='):rep(2^20)))", "nil"),
    (
        "CVE-2025-46819",
        "return tostring(loadstring('x = [' .. ('='):rep(2^20) .. '[' .. (']='):rep(2^20)))",
        "nil",
    ),
    (
        "CVE-2025-49844",
        "for n = 1, 300 do collectgarbage() local s = ('x' .. n):rep(999) loadstring(s .. ' = 1', s) loadstring('x(', '@' .. s) end return 7",
        "7",
    ),
    (
        "CVE-2025-49844",
        "local f = load(function() collectgarbage() end, ('n'):rep(1e5)) return tostring(f and f())",
        "nil",
    ),
    ("CVE-2025-67733", "return redis.error_reply('A b\\0\\r\\n+OK\\r\\n')", "-A b"),
    ("CVE-2025-67733", "return {err = 'A b\\0\\r\\n+OK\\r\\n:1\\r\\n'}", "-A b"),
    ("CVE-2025-67733", "error({err = 'A b\\0\\r\\n+OK\\r\\n'})", "-A b"),
    ("CVE-2025-67733", "error('A b\\0\\r\\n+OK\\r\\n')", "-ERR"),
    ("Redis 8.4.2", "return redis.error_reply('A b\\r\\n+OK')", "-A b"),
    ("Redis 8.4.2", "return redis.status_reply('a\\r\\n+OK')", "+a"),
    ("Redis 8.4.2", "return redis.call('a\\r\\n+OK\\r\\n')", "Unknown"),
    ("Redis 8.4.2", "return redis.pcall('a\\r\\n+OK\\r\\n')", "Unknown"),
];

fn as_function(client: &mut Client, body: &str) -> Value {
    let library = format!(
        "#!lua name=hostile\nredis.register_function('hostile', function(KEYS, ARGV) {body} end)"
    );
    assert_eq!(client.cmd(&["FUNCTION", "LOAD", "REPLACE", &library]).text(), "hostile");
    client.cmd(&["FCALL", "hostile", "0"])
}

#[test]
fn hostile_bodies_are_refused_or_answered() {
    withstand(&[], |_, client| {
        client.set_timeout(Duration::from_secs(120));
        for version in ["2", "3"] {
            client.cmd(&["HELLO", version]);
            for (advisory, body, want) in SCRIPTS {
                let script = client.cmd(&["EVAL", body, "0"]);
                check_order(client, body);
                let function = as_function(client, body);
                check_order(client, body);
                for reply in [script, function] {
                    let text = reply.to_string();
                    assert!(text.contains(want), "{advisory}: {body}: {text}");
                    assert!(!text.contains(['\r', '\n']), "{advisory}: {body}: {text}");
                }
            }
        }
    });
}

/// CVE-2022-24834: outputs whose length overflows 32 bits. They end at 512 MiB.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn large_outputs_end() {
    withstand(&[], |_, client| {
        client.set_timeout(Duration::from_secs(300));
        for script in [
            "return cjson.encode(('\\0'):rep(3e8))",
            "local s, t = ('x'):rep(2^20), {} for n = 1, 4200 do t[n] = s end return cmsgpack.pack(t)",
            "local s, t = ('x'):rep(2^20), {} for n = 1, 4200 do t[n] = s end return cjson.encode(t)",
            "local s, t = ('x'):rep(2^20), {} for n = 1, 600 do t[n] = s end return struct.pack(('c0'):rep(600), unpack(t))",
        ] {
            let error = client.cmd(&["EVAL", script, "0"]).error().unwrap_or_default();
            assert!(error.contains("not enough memory"), "{script}: {error}");
            check_order(client, script);
        }
    });
}

/// Errors that repeat what the client sent.
#[test]
fn names_in_errors_end_no_reply() {
    withstand(&[], |_, client| {
        let name = "x\r\n+OK\r\n$5\r\nhello\0\r\n";
        for words in [
            &[name][..],
            &["EVALSHA", name, "0"],
            &["FCALL", name, "0"],
            &["SCRIPT", name],
            &["FUNCTION", name],
            &["FUNCTION", "LOAD", name],
            &["FUNCTION", "LOAD", &format!("#!{name} name=a\n")],
            &["FUNCTION", "LOAD", name, "x"],
            &["FUNCTION", "LOAD", &format!("#!lua {name}\n")],
            &["FUNCTION", "LOAD", "#!lua name=a\nerror('x\\r\\n+OK\\r\\n')"],
            &["FUNCTION", "DELETE", name],
            &["EVAL", &format!("#!lua flags={name}\nreturn 1"), "0"],
            &["EVAL", &format!("#!{name}\nreturn 1"), "0"],
            &["EVAL", &format!("return [[{name}]] .. nil"), "0"],
            &["EVAL", "return redis.call(ARGV[1])", "0", name],
            &["EVAL", "return redis.call('config', ARGV[1])", "0", name],
            &["EVAL", "error(ARGV[1])", "0", name],
            &["EVAL", "return loadstring('x(', ARGV[1])()", "0", name],
        ] {
            assert!(client.cmd(words).error().is_some(), "{words:?}");
            check_order(client, &words.join(" "));
        }
    });
}

/// CVE-2022-24736: chunks that crash a parser. Pieces of a script that has most of the language's forms.
#[test]
fn malformed_chunks_are_refused() {
    const SOURCE: &str = "#!lua flags=no-writes\nlocal a, b = 1e9, [==[\ntext]] ]=]]==] -- [[ comment\n--[=[ long ]=]\n\
        local function f(...) local t = {..., [1] = 'x\\065\\n', y = function() return nil end; 0x1F} return t, ... end\n\
        for i = 1, 3, 1 do if i == 2 then break elseif not i then repeat until true else while false do end end end\n\
        for k, v in pairs(f(1)) do a = (k):rep(2) .. v ^ -2 % 3 end goto_x = f'x'{1}.y:z(\"q\\\"\") return a >= b and a ~= b or #b";
    withstand(&[], |_, client| {
        let mut rng = Rng::new(1);
        let bytes = SOURCE.as_bytes();
        for round in 0..3 * bytes.len() {
            let mut chunk = bytes[..if round < bytes.len() { round } else { bytes.len() }].to_vec();
            if round >= bytes.len() {
                let (at, other) = (rng.below(bytes.len()), rng.below(bytes.len()));
                match rng.below(4) {
                    0 => chunk[at] = *rng.pick(b"\0\x1b\xff[]=\"'\\(){}\n"),
                    1 => drop(chunk.remove(at)),
                    2 => chunk.swap(at, other),
                    _ => drop(chunk.splice(at..at, bytes[at.min(other)..at.max(other)].to_vec())),
                }
            }
            let library = [&b"#!lua name=x\n"[..], &chunk].concat();
            for words in [
                &[&b"EVAL"[..], &chunk, b"0"][..],
                &[b"SCRIPT", b"LOAD", &chunk],
                &[b"FUNCTION", b"LOAD", b"REPLACE", &library],
            ] {
                client.cmd(words);
                check_order(client, "a chunk");
            }
        }
        for chunk in
            [&b"\x1bLua\x51\0\x01\x04\x08\x04\x08\0"[..], b"\xef\xbb\xbfreturn 1", b"\0", b""]
        {
            client.cmd(&[&b"EVAL"[..], chunk, b"0"]);
            check_order(client, "a chunk");
        }
    });
}

/// CVE-2021-32672, GHSA-fq2f-crmw-q97r and the debugger's crashes of Redis 8.6.3: there is no debugger.
#[test]
fn there_is_no_debugger() {
    withstand(&[], |server, client| {
        for mode in ["YES", "SYNC"] {
            assert!(client.cmd(&["SCRIPT", "DEBUG", mode]).error().is_some(), "{mode}");
            let script = "if redis.breakpoint then redis.breakpoint() end if redis.debug then redis.debug('x') end return 7";
            assert_eq!(client.cmd(&["EVAL", script, "0"]).int(), 7);
        }
        client.cmd(&["SCRIPT", "DEBUG", "NO"]);
        for command in ["help", "restart", "e", "redis ping", "trace", "maxlen 1"] {
            for words in [vec![command], command.split(' ').collect()] {
                client.cmd(&words);
                check_order(client, command);
            }
        }
        client.ok(&["CONFIG", "SET", "requirepass", "secret"]);
        let mut stranger = weft_tests::scene::client(server);
        for mode in ["YES", "SYNC", "NO"] {
            let error = stranger.cmd(&["SCRIPT", "DEBUG", mode]).error().unwrap_or_default();
            assert!(error.starts_with("NOAUTH"), "{error}");
        }
        client.ok(&["CONFIG", "SET", "requirepass", ""]);
    });
}

/// CVE-2022-36021 and CVE-2024-31228: patterns that recurse without a limit or take exponential time.
#[test]
fn patterns_of_names_end() {
    withstand(&[], |_, client| {
        let load = "#!lua name=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n\
            redis.register_function('f', function() return 7 end)";
        client.cmd(&["FUNCTION", "LOAD", load]);
        client.ok(&["SET", &"a".repeat(200), "v"]);
        for pattern in [
            "a*".repeat(100) + "b",
            "*".repeat(100_000) + "b",
            "[a-".repeat(50_000),
            "\\".repeat(9),
        ] {
            for words in [
                &["FUNCTION", "LIST", "LIBRARYNAME", &pattern][..],
                &["KEYS", &pattern],
                &["SCAN", "0", "MATCH", &pattern, "COUNT", "100000"],
                &["COMMAND", "LIST", "FILTERBY", "PATTERN", &pattern],
                &["PUBSUB", "CHANNELS", &pattern],
                &["CONFIG", "GET", &pattern],
                &[
                    "EVAL",
                    "return redis.call('scan', 0, 'match', ARGV[1], 'count', 100000)",
                    "0",
                    &pattern,
                ],
                &["ACL", "SETUSER", "p", &format!("~{pattern}")],
                &["ACL", "DRYRUN", "p", "GET", &"a".repeat(200)],
            ] {
                client.cmd(words);
                check_order(client, words[0]);
            }
        }
    });
}
