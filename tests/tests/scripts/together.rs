//! Scripts while other clients run the same ones, and scripts in transactions with commands on the server.

use weft_testkit::{Client, Server};
use weft_tests::scene::{client, info, reply, send, until, until_in_slow_lane};

/// Logs each run: the first is on an I/O thread, the second holds its keys until it is killed.
const ENDLESS: &str =
    "redis.call('get', KEYS[1]) redis.log(redis.LOG_WARNING, 'it holds') while true do end";

fn exec(client: &mut Client, commands: &[&[&str]]) -> Vec<weft_testkit::Value> {
    client.ok(&["MULTI"]);
    for command in commands {
        assert_eq!(client.cmd(command).text(), "QUEUED", "{command:?}");
    }
    client.cmd(&["EXEC"]).items().to_vec()
}

/// One client waits with the shards that its script was known to need. Another runs the same script, and finds that it
/// needs all shards.
#[test]
fn script_keeps_the_shards_it_has_waited_for() {
    let script = "if ARGV[1] == 'all' then return redis.call('dbsize') end \
                  if ARGV[1] == 'long' then for i = 1, 3000000 do end return 1 end \
                  return redis.call('incr', ARGV[2])";
    let server = Server::weft(&["--io-threads", "2", "--busy-reply-threshold", "0"]);
    let [mut endless, mut waiting, mut all, mut other] = [(); 4].map(|()| client(&server));
    assert_eq!(other.cmd(&["EVAL", script, "0", "long"]).int(), 1);
    send(&mut endless, &["EVAL", ENDLESS, "1", "k"]);
    until("a script holds the key", || server.log().matches("it holds").count() == 2);
    send(&mut waiting, &["EVAL", script, "1", "k", "one", "other"]);
    until_in_slow_lane(&mut other, 2);
    let restarts = info(&mut other, "script_restarts");
    send(&mut all, &["EVAL", script, "0", "all"]);
    until("the script needs all shards", || info(&mut other, "script_restarts") > restarts);
    other.ok(&["SCRIPT", "KILL"]);
    assert!(reply(&mut endless).error().is_some());
    assert_eq!(reply(&mut waiting).int(), 1);
    let keys = reply(&mut all).int();
    assert!((0..=1).contains(&keys), "{keys}");
    assert_eq!(other.cmd(&["GET", "other"]).text(), "1");
}

/// The stream to replicas begins and ends in the middle of a transaction that holds all shards.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn transaction_with_a_script_changes_the_role() {
    let write: &[&str] = &["EVAL", "return redis.call('incr', 'k')", "0"];
    let read: &[&str] = &["EVAL_RO", "return 1", "0"];
    for append_only in ["no", "yes"] {
        let server = Server::weft(&["--io-threads", "2", "--appendonly", append_only]);
        let mut caller = client(&server);
        exec(&mut caller, &[write, &["REPLICAOF", "127.0.0.1", "1"], read]);
        exec(&mut caller, &[&["REPLICAOF", "NO", "ONE"], read]);

        let replica = Server::weft(&[]);
        let port = server.port().to_string();
        client(&replica).ok(&["REPLICAOF", "127.0.0.1", &port]);
        let arrived = |key: &str| {
            let mut client = client(&replica);
            until("the replica has it", || {
                client.cmd(&["EXISTS", key]) == weft_testkit::Value::Integer(1)
            });
        };
        arrived("k");
        exec(&mut caller, &[write, &["REPLICAOF", "127.0.0.1", "1"], read]);
        exec(&mut caller, &[&["REPLICAOF", "NO", "ONE"], read, write]);
        assert_eq!(caller.cmd(&["GET", "k"]).text(), "3");
        // The changes of the two transactions themselves may be missing, as in the reference.
        caller.ok(&["SET", "later", "1"]);
        arrived("later");
    }
}

/// A kill that arrives during a library call takes effect at the next command, which holds the world.
#[test]
fn killed_script_leaves_the_io_threads_running() {
    let server = Server::weft(&["--io-threads", "2", "--busy-reply-threshold", "0"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    let script = "local x, t = string.rep('a', 1000000), {} for i = 1, 10 do t[i] = x end \
                  redis.log(redis.LOG_WARNING, 'it encodes') cjson.encode(t) \
                  return redis.call('flushall')";
    let mut kills = 0;
    for run in 1..=5 {
        caller.ok(&["MULTI"]);
        caller.cmd(&["EVAL", script, "0"]);
        send(&mut caller, &["EXEC"]);
        until("it encodes", || server.log().matches("it encodes").count() == run);
        kills += usize::from(other.cmd(&["SCRIPT", "KILL"]).is_ok());
        assert_eq!(reply(&mut caller).items().len(), 1);
        assert_eq!(other.cmd(&["PING"]).text(), "PONG");
    }
    assert!(kills > 0, "no kill arrived in time");
}
