//! Scripts that run long: other clients continue, and SCRIPT KILL ends those that have not written.

use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::scene::{client, info, reply, reply_within, send, until, until_in_slow_lane};

/// Counts until it is killed.
const ENDLESS: &str = "local n = 0 while true do n = n + 1 end";

#[test]
fn endless_script_holds_its_own_keys_only() {
    let server = Server::weft(&["--io-threads", "1", "--busy-reply-threshold", "0"]);
    let (mut caller, mut other, mut same) = (client(&server), client(&server), client(&server));
    send(&mut caller, &["EVAL", &format!("redis.call('get', KEYS[1]) {ENDLESS}"), "1", "{a}k"]);
    // Between two runs of the script, which starts over in the slow lane, its key is free.
    until("the script holds its key", || {
        send(&mut same, &["SET", "{a}k", "v"]);
        reply_within(&mut same, Duration::from_millis(50)).is_none()
    });
    other.ok(&["SET", "{b}k", "v"]);
    assert_eq!(other.cmd(&["EVAL", "return redis.call('get', KEYS[1])", "1", "{b}k"]).text(), "v");
    other.ok(&["SCRIPT", "KILL"]);
    let error = reply(&mut caller).error().unwrap_or_default();
    assert!(error.contains("Script killed by user with SCRIPT KILL"), "{error}");
    assert!(reply(&mut same).is_ok());
    assert_eq!(
        other.cmd(&["SCRIPT", "KILL"]).error().as_deref(),
        Some("NOTBUSY No scripts in execution right now.")
    );
}

/// An error handler of the script doesn't keep it alive.
#[test]
fn killed_script_runs_no_error_handler() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut other = client(&server);
    for script in [
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(redis.call, 'get', 'x') end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "local f = coroutine.wrap(function() while true do end end) while true do pcall(f) end",
        "while true do redis.pcall('get', 'x') end",
        "return ('a'):rep(40):find(('a?'):rep(40) .. ('a'):rep(41))",
        "return ('a'):rep(1e5):gsub('a', function() while true do end end)",
    ] {
        let mut caller: Client = client(&server);
        send(&mut caller, &["EVAL", script, "0"]);
        until("it is killed", || other.cmd(&["SCRIPT", "KILL"]).is_ok());
        assert!(reply(&mut caller).error().is_some(), "{script}");
    }
}

#[test]
fn script_that_has_written_is_not_killed() {
    let server = Server::weft(&["--io-threads", "1"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    let script = "redis.call('set', '{a}begun', 1) for n = 1, 50 do for m = 1, 200000 do local x = m end end return 1";
    let mut seen = Vec::new();
    until("a script has ended that was not killed before its write", || {
        seen.clear();
        send(&mut caller, &["EVAL", script, "1", "{a}begun"]);
        until_in_slow_lane(&mut other, 1);
        until("the script has ended", || {
            let error = other.cmd(&["SCRIPT", "KILL"]).error().unwrap_or_default();
            seen.push(error.split(' ').next().unwrap_or_default().to_string());
            info(&mut other, "slow_lane_jobs") == 0
        });
        let is_killed_early = seen[0].is_empty();
        if is_killed_early {
            assert!(reply(&mut caller).error().is_some());
            assert!(other.cmd(&["GET", "{a}begun"]).is_null(), "it has written");
        }
        !is_killed_early
    });
    assert!(seen.iter().all(|code| code == "UNKILLABLE" || code == "NOTBUSY"), "{seen:?}");
    assert_eq!(reply(&mut caller).int(), 1);
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn hostile_scripts_end_with_an_error() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut client = client(&server);
    // A script may fill half a gigabyte before it fails.
    client.set_timeout(Duration::from_secs(300));
    for script in [
        "local t, s = {}, string.rep('x', 1e5) for n = 1, 1e9 do t[n] = s .. n end",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 2^31)",
        "local function f() return 1 + f() end return f()",
        "return {unpack({}, 1, 1e9)}",
        "return table.concat({}, 'x', 1, 1e8)",
        "return ('x'):rep(1e6):rep(1e6)",
        "string.upper = nil",
        "getmetatable('').__index.upper = nil",
        "return loadstring(('('):rep(1e6))",
        "return tostring(setmetatable({}, {__tostring = function(x) return tostring(x) end}))",
        "return ('a'):rep(3e5):find(('a?'):rep(3e5))",
        "return ('a'):rep(1e6):gsub('a', ('x'):rep(1e3))",
        "return cjson.decode('[' .. ('[],'):rep(2^23) .. '1]')",
        "local s, t = ('x'):rep(2^20), {} for n = 1, 600 do t[n] = s end return redis.call('rpush', 'k', unpack(t))",
    ] {
        let value = client.cmd(&["EVAL", script, "0"]);
        let text = format!("{value}");
        assert!(text.len() < 100_000, "{script}");
        assert_eq!(client.cmd(&["EVAL", "return ('x'):upper()", "0"]).text(), "X", "{script}");
    }
}
