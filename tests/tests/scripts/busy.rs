//! BUSY: commands that would wait for a script that has run for longer than `busy-reply-threshold`.

use weft_testkit::{Client, Server, Value};
use weft_tests::scene::{client, info, reply, send, until};

/// Logs each run: the first is on an I/O thread, the second holds its keys until it is killed.
const ENDLESS: &str =
    "redis.call('get', KEYS[1]) redis.log(redis.LOG_WARNING, 'it holds') while true do end";

fn until_held(server: &Server) {
    until("the script holds its key in the slow lane", || {
        server.log().matches("it holds").count() == 2
    });
}

/// A server with an endless script on `{a}k` that has become busy.
fn busy_server() -> (Server, Client, Client) {
    let server = Server::weft(&["--io-threads", "2", "--busy-reply-threshold", "1"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    send(&mut caller, &["EVAL", ENDLESS, "1", "{a}k"]);
    until_held(&server);
    until("the key is busy", || other.cmd(&["GET", "{a}k"]).error().is_some());
    (server, caller, other)
}

fn error(client: &mut Client, words: &[&str]) -> String {
    client.cmd(words).error().unwrap_or_default()
}

#[test]
fn commands_on_keys_of_a_busy_script_get_busy() {
    let (_server, mut caller, mut other) = busy_server();
    let busy =
        "BUSY Weft is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
    let same_key: [&[&str]; 6] = [
        &["GET", "{a}k"],
        &["MGET", "{b}k", "{a}k"],
        &["EVAL", "return redis.call('get', KEYS[1])", "1", "{a}k"],
        &["EVAL", "return redis.call('get', '{a}k')", "0"],
        &["FLUSHALL"],
        &["KEYS", "*"],
    ];
    for words in same_key {
        assert_eq!(error(&mut other, words), busy, "{words:?}");
    }
    other.ok(&["MULTI"]);
    assert_eq!(other.cmd(&["GET", "{a}k"]).text(), "QUEUED");
    let aborted = format!("EXECABORT Transaction discarded because of: {busy}");
    assert_eq!(error(&mut other, &["EXEC"]), aborted);
    other.ok(&["SET", "{b}k", "v"]);
    assert_eq!(other.cmd(&["EVAL", "return redis.call('get', KEYS[1])", "1", "{b}k"]).text(), "v");
    assert_eq!(other.cmd(&["DBSIZE"]).int(), 1);
    other.ok(&["SCRIPT", "KILL"]);
    assert!(reply(&mut caller).error().is_some());
    assert_eq!(other.cmd(&["EXISTS", "{a}k"]).int(), 0);
    other.ok(&["FLUSHALL"]);
}

/// A client that has waited since before the script became busy.
#[test]
fn waiting_client_gets_busy() {
    let server = Server::weft(&["--io-threads", "2", "--busy-reply-threshold", "1000"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    let mut waiting: Vec<Client> = (0..4).map(|_| client(&server)).collect();
    send(&mut caller, &["EVAL", ENDLESS, "1", "{a}k"]);
    until_held(&server);
    let commands: [&[&str]; 4] = [
        &["SET", "{a}k", "v"],
        &["MSET", "{a}k", "v", "{b}k", "v"],
        &["EVAL", "return redis.call('set', KEYS[1], 'v')", "1", "{a}k"],
        &["MULTI"],
    ];
    for (client, words) in waiting.iter_mut().zip(commands) {
        send(client, words);
    }
    for words in [&["SET", "{a}k", "v"][..], &["EXEC"]] {
        send(&mut waiting[3], words);
    }
    for client in &mut waiting[..3] {
        let first = reply(client);
        assert!(first.error().is_some_and(|e| e.starts_with("BUSY ")), "{first}");
    }
    reply(&mut waiting[3]);
    reply(&mut waiting[3]);
    let last = reply(&mut waiting[3]);
    assert!(last.error().is_some_and(|e| e.starts_with("EXECABORT ")), "{last}");
    other.ok(&["SCRIPT", "KILL"]);
    assert!(reply(&mut caller).error().is_some());
    assert_eq!(other.cmd(&["EXISTS", "{a}k", "{b}k"]).int(), 0);
}

#[test]
fn threshold_of_zero_reports_nothing() {
    let server = Server::weft(&["--io-threads", "1", "--busy-reply-threshold", "0"]);
    let (mut caller, mut other, mut same) = (client(&server), client(&server), client(&server));
    send(&mut caller, &["EVAL", ENDLESS, "1", "{a}k"]);
    until_held(&server);
    send(&mut same, &["SET", "{a}k", "v"]);
    until("it is killed", || other.cmd(&["SCRIPT", "KILL"]).is_ok());
    assert!(reply(&mut same).is_ok());
    assert!(reply(&mut caller).error().is_some());
}

/// A script in a transaction holds all keys, but the I/O threads answer.
#[test]
fn endless_script_of_a_transaction_is_killed() {
    let server = Server::weft(&["--io-threads", "2", "--busy-reply-threshold", "1"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    caller.ok(&["MULTI"]);
    caller.cmd(&["SET", "{a}k", "before"]);
    caller.cmd(&["EVAL", ENDLESS, "1", "{a}k"]);
    caller.cmd(&["SET", "{b}k", "after"]);
    send(&mut caller, &["EXEC"]);
    until("all keys are busy", || error(&mut other, &["GET", "{c}k"]).starts_with("BUSY "));
    assert_eq!(other.cmd(&["PING"]).text(), "PONG");
    other.ok(&["SCRIPT", "KILL"]);
    let replies = format!("{}", reply(&mut caller));
    assert!(replies.contains("Script killed by user"), "{replies}");
    assert_eq!(other.cmd(&["GET", "{a}k"]).text(), "before");
    assert_eq!(other.cmd(&["GET", "{b}k"]).text(), "after");
}

/// A command on all keys stops the I/O threads, but only while it runs.
#[test]
fn endless_script_with_a_command_on_all_keys_is_killed() {
    let server = Server::weft(&["--io-threads", "2", "--busy-reply-threshold", "1"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    for command in ["dbsize", "randomkey", "keys', '*", "scan', '0"] {
        let script = format!("redis.call('{command}') while true do end");
        send(&mut caller, &["EVAL", &script, "0"]);
        until("it is killed", || other.cmd(&["SCRIPT", "KILL"]).is_ok());
        assert!(reply(&mut caller).error().is_some(), "{command}");
    }
    for command in [&["DBSIZE"][..], &["CLIENT", "KILL", "ID", "999999"], &["KEYS", "*"]] {
        caller.ok(&["MULTI"]);
        caller.cmd(command);
        caller.cmd(&["EVAL", "while true do end", "0"]);
        caller.cmd(command);
        send(&mut caller, &["EXEC"]);
        until("it is killed", || other.cmd(&["SCRIPT", "KILL"]).is_ok());
        assert_eq!(reply(&mut caller).items().len(), 3, "{command:?}");
    }
    let script = "redis.call('set', 'x', 1) redis.call('flushall') while true do end";
    send(&mut caller, &["EVAL", script, "0"]);
    until("it has written", || error(&mut other, &["SCRIPT", "KILL"]).starts_with("UNKILLABLE "));
    assert_eq!(other.cmd(&["PING"]).text(), "PONG");
    until("it is busy", || error(&mut other, &["GET", "x"]).starts_with("BUSY "));
    assert!(error(&mut other, &["SHUTDOWN", "SAVE"]).starts_with("BUSY "));
    assert!(error(&mut other, &["SHUTDOWN"]).starts_with("BUSY "));
}

/// As [`ENDLESS`], but it writes, so that nothing ends it.
const WRITER: &str = "redis.call('set', KEYS[1], 'v') redis.log(redis.LOG_WARNING, 'it holds') \
                      while true do end";

/// Starts a script that nothing ends, on `{a}k`.
fn start_writer(server: &Server) -> Client {
    let mut caller = client(server);
    send(&mut caller, &["EVAL", WRITER, "1", "{a}k"]);
    until_held(server);
    caller
}

/// Commands that wait for the end of long commands: each gets BUSY, whether it was sent before or after the threshold.
const WAITING: [&[&str]; 10] = [
    &["SAVE"],
    &["CLIENT", "PAUSE", "100000", "WRITE"],
    &["CLIENT", "PAUSE", "100000"],
    &["CONFIG", "SET", "appendonly", "yes"],
    &["FLUSHALL"],
    &["FLUSHDB", "ASYNC"],
    &["SWAPDB", "0", "1"],
    &["KEYS", "*"],
    &["EVAL", "return redis.call('dbsize')", "0"],
    &["FUNCTION", "FLUSH"],
];

fn assert_busy(found: &Value, words: &[&str]) {
    assert!(found.error().is_some_and(|e| e.starts_with("BUSY ")), "{words:?}: {found}");
}

/// The server serves others, and none of the commands has had an effect.
fn assert_unchanged(server: &Server) {
    let mut other = client(server);
    assert_eq!(other.cmd(&["CONFIG", "GET", "appendonly"]).items()[1].text(), "no");
    other.ok(&["SET", "{b}k", "v"]);
    assert_eq!(other.cmd(&["GET", "{b}k"]).text(), "v");
    assert_busy(&other.cmd(&["GET", "{a}k"]), &["GET"]);
    assert!(!server.log().contains("DB saved on disk"));
}

#[test]
fn commands_that_wait_for_long_commands_get_busy() {
    let server = Server::weft(&["--io-threads", "2", "--busy-reply-threshold", "1"]);
    let _caller = start_writer(&server);
    let mut other = client(&server);
    until("the key is busy", || other.cmd(&["GET", "{a}k"]).error().is_some());
    let others: [&[&str]; 3] = [&["BGSAVE"], &["SYNC"], &["PSYNC", "?", "-1"]];
    for words in WAITING.into_iter().chain(others) {
        assert_busy(&other.cmd(words), words);
    }
    assert_unchanged(&server);
}

/// Some of them wait for others of them, and more than there are threads in the slow lane.
#[test]
fn commands_that_wait_already_get_busy() {
    let server = Server::weft(&["--io-threads", "2", "--busy-reply-threshold", "1500"]);
    let _caller = start_writer(&server);
    let mut waiting = WAITING.map(|words| (client(&server), words));
    for (client, words) in &mut waiting {
        send(client, words);
    }
    for (client, words) in &mut waiting {
        assert_busy(&reply(client), words);
    }
    assert_unchanged(&server);
}

/// KEYS has read the other shards, and its journals end without the script.
#[test]
fn script_commits_after_keys_has_given_up() {
    let server = Server::weft(&["--io-threads", "2", "--busy-reply-threshold", "300"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    other.ok(&["SET", "{b}k", "v"]);
    let script = "redis.call('set', KEYS[1], 'v') redis.log(redis.LOG_WARNING, 'it holds') \
                  local t = os.clock() while os.clock() - t < 1 do end return 'done'";
    send(&mut caller, &["EVAL", script, "1", "{a}k"]);
    until_held(&server);
    assert_busy(&other.cmd(&["KEYS", "*"]), &["KEYS"]);
    assert_eq!(reply(&mut caller).text(), "done");
    let mut keys: Vec<_> = other.cmd(&["KEYS", "*"]).items().iter().map(|k| k.text()).collect();
    keys.sort();
    assert_eq!(keys, ["{a}k", "{b}k"]);
}

/// A script in a transaction holds all shards. Commands that need none of the values in them run at the same time.
#[test]
fn transaction_with_a_script_lets_the_keyspace_be_counted() {
    let server = Server::weft(&["--io-threads", "2", "--busy-reply-threshold", "1"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    other.ok(&["SET", "{b}k", "v"]);
    caller.ok(&["MULTI"]);
    caller.cmd(&["EVAL", "while true do end", "0"]);
    send(&mut caller, &["EXEC"]);
    until("all keys are busy", || error(&mut other, &["GET", "{c}k"]).starts_with("BUSY "));
    for words in [&["SCAN", "0"][..], &["RANDOMKEY"], &["KEYS", "*"], &["FLUSHDB"]] {
        assert_busy(&other.cmd(words), words);
    }
    assert_eq!(other.cmd(&["DBSIZE"]).int(), 1);
    other.ok(&["SCRIPT", "KILL"]);
    assert_eq!(reply(&mut caller).items().len(), 1);
    assert_eq!(other.cmd(&["RANDOMKEY"]).text(), "{b}k");
}

/// A script that starts over keeps the shards that it has found that it needs: for its own next run only.
#[test]
fn refused_script_leaves_no_needs() {
    let server = Server::weft(&["--io-threads", "2", "--busy-reply-threshold", "500"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    let _writer = start_writer(&server);
    let before = info(&mut other, "script_restarts");
    let script = "redis.call('incr', KEYS[1]) return redis.call('get', '{a}k')";
    send(&mut caller, &["EVAL", script, "1", "{b}n"]);
    until("it starts over", || info(&mut other, "script_restarts") > before);
    assert_busy(&reply(&mut caller), &["EVAL"]);
    let mut monitor = client(&server);
    monitor.ok(&["MONITOR"]);
    assert_eq!(caller.cmd(&["EVAL", "return 1", "0"]).int(), 1);
    let shown = reply(&mut monitor);
    assert!(shown.text().contains("\"EVAL\" \"return 1\" \"0\""), "{shown}");
    assert_eq!(other.cmd(&["EXISTS", "{b}n"]).int(), 0);
}

/// Scripts occupy all threads of the slow lane.
#[test]
fn commands_for_a_full_slow_lane_get_busy() {
    let server = Server::weft(&["--io-threads", "2", "--busy-reply-threshold", "1"]);
    let (mut other, mut callers) = (client(&server), Vec::new());
    for key in ["{a}k", "{b}k", "{c}k", "{d}k"] {
        let mut caller = client(&server);
        send(&mut caller, &["EVAL", ENDLESS, "1", key]);
        callers.push(caller);
        until("the key is busy", || error(&mut other, &["GET", key]).starts_with("BUSY "));
    }
    for words in [&["EVAL", "while true do end", "0"][..], &["SAVE"], &["CONFIG", "REWRITE"]] {
        assert_busy(&other.cmd(words), words);
    }
    other.ok(&["SET", "{e}k", "v"]);
    other.ok(&["SCRIPT", "KILL"]);
    for caller in &mut callers {
        assert!(reply(caller).error().is_some_and(|e| e.contains("Script killed by user")));
    }
    other.ok(&["SAVE"]);
}

/// Regression: SHUTDOWN NOSAVE joined the signal's shutdown, which waited for the script.
#[test]
fn shutdown_nosave_ends_a_shutdown_that_waits_for_a_script() {
    let args = ["--io-threads", "2", "--busy-reply-threshold", "1", "--save", "100 1"];
    let mut server = Server::weft(&args);
    let (mut caller, mut other, mut last) = (client(&server), client(&server), client(&server));
    send(&mut caller, &["EVAL", "redis.call('set', 'x', 1) while true do end", "0"]);
    until("it is busy", || error(&mut other, &["GET", "x"]).starts_with("BUSY "));
    server.signal(rustix::process::Signal::TERM);
    until("the shutdown has begun", || server.log().contains("User requested shutdown"));
    send(&mut last, &["SHUTDOWN", "NOSAVE"]);
    let status = server.wait();
    assert!(status.success(), "{status}\n{}", server.log_tail());
}

/// Regression: SHUTDOWN that was sent before the threshold waited for the script.
#[test]
fn shutdown_that_waits_gets_busy() {
    let args = ["--io-threads", "2", "--busy-reply-threshold", "1500", "--save", "100 1"];
    let server = Server::weft(&args);
    let _caller = start_writer(&server);
    let mut waiting = [client(&server), client(&server)];
    send(&mut waiting[0], &["SHUTDOWN"]);
    send(&mut waiting[1], &["SHUTDOWN", "SAVE"]);
    for client in &mut waiting {
        assert_busy(&reply(client), &["SHUTDOWN"]);
    }
    assert_unchanged(&server);
    let mut other = client(&server);
    assert!(error(&mut other, &["SHUTDOWN", "ABORT"]).contains("No shutdown in progress"));
}

/// The clients get BUSY, and the signal's shutdown waits.
#[test]
fn shutdown_by_a_signal_outlasts_a_busy_script() {
    let args = ["--io-threads", "2", "--busy-reply-threshold", "1500", "--save", "100 1"];
    let mut server = Server::weft(&args);
    let (mut caller, mut other, mut last) = (client(&server), client(&server), client(&server));
    send(&mut caller, &["EVAL", ENDLESS, "1", "{a}k"]);
    until_held(&server);
    server.signal(rustix::process::Signal::TERM);
    until("the shutdown has begun", || server.log().contains("User requested shutdown"));
    assert_busy(&last.cmd(&["SHUTDOWN"]), &["SHUTDOWN"]);
    other.ok(&["SCRIPT", "KILL"]);
    let status = server.wait();
    assert!(status.success(), "{status}\n{}", server.log_tail());
}

/// Regression: before the wait for replicas, SHUTDOWN NOSAVE that was sent before the threshold waited for the script.
#[test]
fn shutdown_nosave_of_a_primary_drops_the_writes_of_a_busy_script() {
    let mut server = Server::weft(&["--io-threads", "2", "--busy-reply-threshold", "1500"]);
    let _replica = Server::weft(&["--replicaof", &format!("127.0.0.1 {}", server.port())]);
    let mut other = client(&server);
    until("the replica is online", || {
        other.cmd(&["INFO", "replication"]).text().contains("state=online")
    });
    let _caller = start_writer(&server);
    send(&mut other, &["SHUTDOWN", "NOSAVE"]);
    let status = server.wait();
    assert!(status.success(), "{status}\n{}", server.log_tail());
}

#[test]
fn debug_restart_gets_busy() {
    let args =
        ["--busy-reply-threshold", "1500", "--save", "100 1", "--enable-debug-command", "yes"];
    let server = Server::weft(&args);
    let _caller = start_writer(&server);
    let mut other = client(&server);
    assert_busy(&other.cmd(&["DEBUG", "RESTART"]), &["DEBUG", "RESTART"]);
    assert_unchanged(&server);
}
