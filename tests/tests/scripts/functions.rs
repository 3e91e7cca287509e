//! Functions: the same replies as on the reference, and libraries that all threads see at once.

use std::cell::RefCell;
use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_testkit_differential::payloads::with_sum;
use weft_tests::scene::{
    LongCommand, client, info, on_both, reply, reply_within, send, send_all, until,
    until_in_slow_lane,
};

/// Commands, one a line; `\n` is a line end. Each has the same reply on the reference, in RESP2 and RESP3.
const COMMANDS: &str = r###"
FUNCTION|nope
FUNCTION|LOAD
FUNCTION|LOAD|x
FUNCTION|LOAD|FOO|x
FUNCTION|LOAD|REPLACE|REPLACE|x
FUNCTION|LOAD|#!lua name=a
FUNCTION|LOAD|#!lua\n
FUNCTION|LOAD|#! lua name=a\n
FUNCTION|LOAD|#!js name=a\nx
FUNCTION|LOAD|#!lua name=a-b\nx
FUNCTION|LOAD|#!lua name=a name=b\nx
FUNCTION|LOAD|#!lua name=a\nreturn 1
FUNCTION|LOAD|#!lua name=a\nx(
FUNCTION|LOAD|#!lua name=a\nredis.call('get','x')
FUNCTION|LOAD|#!lua name=a\nserver.pcall('get','x')
FUNCTION|LOAD|#!lua name=a\nlocal x = redis.sha1hex
FUNCTION|LOAD|#!lua name=a\nlocal x = redis.REPL_ALL
FUNCTION|LOAD|#!lua name=a\nx = 1
FUNCTION|LOAD|#!lua name=a\nlocal x = KEYS
FUNCTION|LOAD|#!lua name=a\nmath.random = 1
FUNCTION|LOAD|#!lua name=a\nredis.x = 1
FUNCTION|LOAD|#!lua name=a\nredis.register_function()
FUNCTION|LOAD|#!lua name=a\nredis.register_function(1)
FUNCTION|LOAD|#!lua name=a\nredis.register_function('f', 1)
FUNCTION|LOAD|#!lua name=a\nredis.register_function({}, function() end)
FUNCTION|LOAD|#!lua name=a\nredis.register_function('f-f', function() end)
FUNCTION|LOAD|#!lua name=a\nredis.register_function('f', function() end) redis.register_function('f', function() end)
FUNCTION|LOAD|#!lua name=a\nredis.register_function{}
FUNCTION|LOAD|#!lua name=a\nredis.register_function{function_name='f'}
FUNCTION|LOAD|#!lua name=a\nredis.register_function{function_name='f', callback=1}
FUNCTION|LOAD|#!lua name=a\nredis.register_function{function_name={}, callback=function() end}
FUNCTION|LOAD|#!lua name=a\nredis.register_function{function_name='f', callback=function() end, description={}}
FUNCTION|LOAD|#!lua name=a\nredis.register_function{function_name='f', callback=function() end, flags=1}
FUNCTION|LOAD|#!lua name=a\nredis.register_function{function_name='f', callback=function() end, flags={'x'}}
FUNCTION|LOAD|#!lua name=a\nredis.register_function{function_name='f', callback=function() end, x=1}
FUNCTION|LOAD|#!lua name=a\nredis.register_function{[{}]=1}
FUNCTION|LOAD|#!lua name=a\nwhile true do end
FUNCTION|LIST
FUNCTION|LOAD|#!LUA NAME="a"\nredis.register_function{function_name='f', callback=function() return 1 end, flags={'no-writes','ALLOW-oom'}, description='text'}
FUNCTION|LIST
FUNCTION|LIST|LIBRARYNAME|A*|WITHCODE
FUNCTION|LIST|LIBRARYNAME|x
FUNCTION|LIST|LIBRARYNAME
FUNCTION|LIST|WITHCODE|WITHCODE
FUNCTION|STATS
FUNCTION|LOAD|#!lua name=a\nredis.register_function('f', function() return 2 end)
FUNCTION|LOAD|#!lua name=b\nredis.register_function('F', function() return 2 end)
FUNCTION|LOAD|REPLACE|#!lua name=a\nx(
FCALL|f|0
FUNCTION|LOAD|REPLACE|#!lua name=a\nredis.register_function('g', function() return 2 end)
FCALL|f|0
FCALL|G|0
FUNCTION|DELETE|A
FUNCTION|DELETE|a
FUNCTION|KILL
FUNCTION|FLUSH|x
FUNCTION|FLUSH|ASYNC|x
FUNCTION|FLUSH|async
FUNCTION|RESTORE|x
FUNCTION|RESTORE|x|y
FUNCTION|RESTORE|x|APPEND|y
FUNCTION|DUMP
FUNCTION|LOAD|#!lua name=calls\nredis.register_function('call', function(keys, args) return redis.call(unpack(args)) end) redis.register_function{function_name='ro', flags={'no-writes'}, callback=function(keys, args) return redis.call(unpack(args)) end}
FCALL|call|0|set|k|v
FCALL|call|0|get|k
FCALL|call|0|incr|k
FCALL|call|0|nosuch
FCALL_RO|call|0|get|k
FCALL_RO|ro|0|get|k
FCALL|ro|0|set|k|v
FCALL|ro|x
FCALL|ro|2|k
FCALL|ro|-1
FCALL|nosuch|x
FCALL|ro
MULTI
FCALL|ro|0|get|k
FUNCTION|DELETE|calls
FCALL|ro|0|get|k
EXEC
FUNCTION|LOAD|#!lua name=states\nlocal call = function(keys, args) return redis.call(unpack(args)) end redis.register_function('write', call) redis.register_function{function_name='read', flags={'no-writes'}, callback=call} redis.register_function{function_name='full', flags={'allow-oom'}, callback=call} redis.register_function{function_name='stale', flags={'allow-stale'}, callback=call} redis.register_function{function_name='both', flags={'allow-stale', 'no-writes'}, callback=call}
CONFIG|SET|maxmemory|1
FCALL|nosuch|0
FCALL|write|0|get|k
FCALL|write|x
FCALL_RO|write|0|get|k
FCALL|read|0|get|k
FCALL|read|0|set|k|v
FCALL|full|0|set|k|v
MULTI
FCALL|read|0|get|k
FCALL|write|0|get|k
EXEC
EVAL|#!lua\nreturn 2|0
EVAL|#!lua\nreturn 2|0
EVAL_RO|return redis.call('set', 'k', 'v')|0
FUNCTION|LOAD|#!lua name=a\nredis.register_function('f', function() return 2 end)
CONFIG|SET|maxmemory|0
CONFIG|SET|min-replicas-to-write|1
FCALL|write|0|get|k
FCALL|read|0|get|k
CONFIG|SET|min-replicas-to-write|0
REPLICAOF|127.0.0.1|1
FCALL|write|0|get|k
FCALL|read|0|get|k
FUNCTION|FLUSH
CONFIG|SET|replica-serve-stale-data|no
FCALL|read|0|get|k
FCALL|stale|0|ping
FCALL|both|0|ping
FUNCTION|STATS
"###;

/// Bodies of a function, one a line. It is called with one key, `kk`, and one argument, `aa`.
const BODIES: &str = r###"
return {keys, args, #keys, #args}
return 3.99
return nil
return {ok='fine'}
return {err='X y'}
redis.setresp(3) return {double=1.5}
redis.setresp(3) return redis.call('hgetall', 'nosuch')
error('boom')
error({err='My err'})
error({})
error()
x = 1
return x
return KEYS
KEYS = 1
_G.x = 1
_G = 1
rawset(_G, 'x', 1)
setmetatable(_G, {})
return type(getmetatable(_G))
getmetatable(_G).__index = 1
return type(rawget(_G, 'string'))
redis.call = 1
string.x = 1
return redis.nosuch
return type(redis.register_function)
return redis.register_function('z', function() end)
return redis.breakpoint()
return redis.replicate_commands
return redis.debug
return server == redis
local y = nil y()
return loadstring('return 5')()
loadstring('y = 5')()
loadstring('return y')()
local t = {} for k in pairs(redis) do t[#t + 1] = k end table.sort(t) return t
local t = {} for k in pairs(_G) do t[#t + 1] = k end table.sort(t) return t
return redis.pcall('incr', 'k', 'x')
return select(2, pcall(redis.call, 'nosuch'))
return redis.sha1hex('a')
return redis.error_reply('My error')
local early = redis_at_load return early.call('get', 'k')
local early = register_at_load return early('z', function() end)
"###;

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split('|').map(|word| word.replace("\\n", "\n").into_bytes()).collect()
}

/// Replies to `requests`, without the names of the servers.
fn transcript(client: &mut Client, requests: &[Vec<Vec<u8>>]) -> Vec<String> {
    requests
        .iter()
        .map(|request| {
            let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            format!("{words:?} {:?}", client.cmd(&words)).replace("Valkey", "Weft")
        })
        .collect()
}

fn replies_on_all(requests: &[Vec<Vec<u8>>]) {
    for version in ["2", "3"] {
        let all = RefCell::new(Vec::new());
        on_both(&[], &[], |server| {
            let mut client = client(server);
            client.cmd(&["HELLO", version]);
            all.borrow_mut().push(transcript(&mut client, requests));
        });
        if let [theirs, ours] = &all.borrow()[..] {
            for (their, our) in theirs.iter().zip(ours) {
                assert_eq!(our, their, "RESP{version}");
            }
        }
    }
}

#[test]
fn commands_on_functions_reply_as_the_reference() {
    let requests: Vec<_> = COMMANDS.lines().filter(|line| !line.is_empty()).map(words).collect();
    replies_on_all(&requests);
}

#[test]
fn functions_reply_as_the_reference() {
    let mut requests = Vec::new();
    for body in BODIES.lines().filter(|line| !line.is_empty()) {
        let library = format!(
            "#!lua name=bodies\nlocal redis_at_load, register_at_load = redis, redis.register_function\n\
             redis.register_function('f', function(keys, args)\n{body}\nend)"
        );
        let load = ["FUNCTION", "LOAD", "REPLACE", &library];
        requests.push(load.iter().map(|word| word.as_bytes().to_vec()).collect());
        requests.push(words("FCALL|f|1|kk|aa"));
        requests.push(words("FCALL|f|0"));
    }
    replies_on_all(&requests);
}

fn load(client: &mut Client, name: &str, body: &str) {
    let library = format!(
        "#!lua name={name}\nredis.register_function('{name}', function(keys, args) {body} end)"
    );
    assert_eq!(client.cmd(&["FUNCTION", "LOAD", "REPLACE", &library]).text(), name);
}

/// A library that has been loaded is the only one that any thread runs.
#[test]
fn replaced_library_runs_on_no_thread() {
    let server = Server::weft(&["--io-threads", "4"]);
    let mut loader = client(&server);
    let mut callers: Vec<Client> = (0..12).map(|_| client(&server)).collect();
    for version in 0..30 {
        load(&mut loader, "version", &format!("return {version}"));
        for caller in &mut callers {
            assert_eq!(caller.cmd(&["FCALL", "version", "0"]).int(), version);
        }
    }
    loader.ok(&["FUNCTION", "DELETE", "version"]);
    for caller in &mut callers {
        let error = caller.cmd(&["FCALL", "version", "0"]).error();
        assert_eq!(error.as_deref(), Some("ERR Function not found"));
    }
    loader.ok(&["FUNCTION", "FLUSH"]);
}

#[test]
fn each_kill_command_ends_its_kind() {
    let server = Server::weft(&["--io-threads", "1"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    load(&mut other, "endless", "while true do end");
    send(&mut caller, &["FCALL", "endless", "1", "k", "arg"]);
    until("the function runs in the slow lane", || {
        !other.cmd(&["FUNCTION", "STATS"]).items()[1].is_null()
    });
    let stats = other.cmd(&["FUNCTION", "STATS"]);
    let running = stats.items()[1].items();
    assert_eq!(running[1].text(), "endless");
    assert_eq!(
        running[3].items().iter().map(|word| word.text()).collect::<Vec<_>>(),
        ["FCALL", "endless", "1", "k", "arg"]
    );
    let error = other.cmd(&["SCRIPT", "KILL"]).error().unwrap_or_default();
    assert!(error.starts_with("BUSY ") && error.contains("FUNCTION KILL"), "{error}");
    other.ok(&["FUNCTION", "KILL"]);
    let error = reply(&mut caller).error().unwrap_or_default();
    assert!(error.contains("Script killed by user with FUNCTION KILL"), "{error}");

    send(&mut caller, &["EVAL", "while true do end", "0"]);
    until("the script is killed by its own command", || {
        let error = other.cmd(&["FUNCTION", "KILL"]).error().unwrap_or_default();
        assert!(error.starts_with("NOTBUSY ") || error.starts_with("BUSY "), "{error}");
        error.starts_with("BUSY ") && other.cmd(&["SCRIPT", "KILL"]).is_ok()
    });
    assert!(reply(&mut caller).error().is_some());
}

/// Only the end of the server ends it.
#[test]
fn function_that_has_written_is_not_killed() {
    let server = Server::weft(&["--io-threads", "1"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    load(&mut other, "writer", "redis.call('set', keys[1], 1) while true do end");
    send(&mut caller, &["FCALL", "writer", "1", "k"]);
    // Before the function has begun again in the slow lane, nothing runs that FUNCTION KILL could end.
    until("the function has written", || match other.cmd(&["FUNCTION", "KILL"]).error() {
        Some(error) => {
            assert!(error.starts_with("NOTBUSY ") || error.starts_with("UNKILLABLE "), "{error}");
            error.starts_with("UNKILLABLE ")
        }
        // It had not written yet.
        None => {
            assert!(reply(&mut caller).error().is_some());
            send(&mut caller, &["FCALL", "writer", "1", "k"]);
            false
        }
    });
    assert_eq!(other.cmd(&["PING"]).text(), "PONG");
}

/// A function that takes a while runs outside the I/O threads, and so does a library that takes a while to load.
#[test]
fn long_functions_do_not_delay_other_clients() {
    let server = Server::weft(&["--io-threads", "1"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    let library = "#!lua name=slow\nfor n = 1, 3000000 do local x = n end\nredis.register_function('slow', function() return 1 end)";
    assert_eq!(other.cmd(&["FUNCTION", "LOAD", library]).text(), "slow");
    assert_eq!(caller.cmd(&["FCALL", "slow", "0"]).int(), 1);
    load(&mut other, "long", "for n = 1, 60 do for m = 1, 200000 do local x = m end end return 1");
    send(&mut caller, &["FCALL", "long", "1", "{a}k"]);
    until_in_slow_lane(&mut other, 1);
    other.ok(&["SET", "{b}k", "v"]);
    assert_eq!(reply(&mut caller).int(), 1);
}

#[test]
fn function_counts_once_in_info() {
    let server = Server::weft(&[]);
    let mut client = client(&server);
    load(&mut client, "counted", "return redis.call('incr', keys[1])");
    assert_eq!(client.cmd(&["FCALL", "counted", "1", "k"]).int(), 1);
    assert_eq!(info(&mut client, "number_of_functions"), 1);
    assert_eq!(info(&mut client, "number_of_libraries"), 1);
    assert!(info(&mut client, "used_memory_functions") > 100);
    let counts = client.cmd(&["INFO", "commandstats"]).text();
    for name in ["fcall", "incr", "function|load"] {
        assert!(counts.contains(&format!("cmdstat_{name}:calls=1,")), "{name}: {counts}");
    }
}

/// A payload with a library that doesn't end.
#[test]
fn restored_library_has_a_limit_of_time() {
    let server = Server::weft(&["--io-threads", "1", "--rdbcompression", "no"]);
    let mut client = client(&server);
    let library = "#!lua name=l\nwhile 0==1 do end redis.register_function('f', function() end)";
    assert_eq!(client.cmd(&["FUNCTION", "LOAD", library]).text(), "l");
    let mut payload = client.cmd(&["FUNCTION", "DUMP"]).bytes().expect("a payload").to_vec();
    let at = payload.windows(4).position(|text| text == b"0==1").expect("the library's text");
    payload[at] = b'1';
    payload.truncate(payload.len() - 8);
    let payload = with_sum(payload);
    for policy in [&b"FLUSH"[..], b"REPLACE"] {
        let words: [&[u8]; 4] = [b"FUNCTION", b"RESTORE", &payload, policy];
        let error = client.cmd(&words).error();
        assert!(error.as_ref().is_some_and(|error| error.contains("timeout")), "{error:?}");
    }
    assert!(client.cmd(&["FCALL", "f", "0"]).is_null());
}

/// Regression: in a transaction with a script, other clients saw the state between two changes.
#[test]
fn libraries_change_at_once_in_a_transaction_with_scripts() {
    let server = Server::weft(&["--io-threads", "2"]);
    let (mut writer, mut reader) = (client(&server), client(&server));
    let long = LongCommand::with_tag(&server, "a").request(0.5);
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    let code = "#!lua name=l\nserver.register_function('f', function() return 1 end)";
    writer.cmd(&["FUNCTION", "LOAD", code]);
    let commands: [&[&str]; 7] = [
        &["MULTI"],
        &["EVAL", "return 1", "0"],
        &["FUNCTION", "DELETE", "l"],
        &["DBSIZE"],
        &long,
        &["FUNCTION", "LOAD", code],
        &["EXEC"],
    ];
    send_all(&mut writer, &commands);
    let mut replies = Vec::new();
    while replies.len() < commands.len() {
        assert_eq!(reader.cmd(&["FCALL", "f", "0"]).int(), 1);
        replies.extend(reply_within(&mut writer, Duration::from_millis(1)));
    }
    assert_eq!(replies[6].items().len(), 5);
}
