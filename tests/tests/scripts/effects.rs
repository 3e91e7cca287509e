//! Changes by scripts reach the append-only file, replicas, blocked clients, watches and monitors.

use weft_testkit::{Client, Server};
use weft_tests::scene::{client, on_both, reply, send, until, until_blocked};

const WRITES: &str = "redis.call('set', KEYS[1], ARGV[1]) redis.call('rpush', 'undeclared', 'a', 'b')
    redis.call('incr', 'n') redis.pcall('incr', 'undeclared') return redis.call('lpop', 'undeclared')";

fn check(client: &mut Client) {
    assert_eq!(client.cmd(&["GET", "k"]).text(), "v");
    assert_eq!(client.cmd(&["LRANGE", "undeclared", "0", "-1"]).items().len(), 1);
    assert_eq!(client.cmd(&["GET", "n"]).text(), "1");
    assert!(client.cmd(&["GET", "no log"]).is_null());
}

#[test]
fn effects_are_in_the_append_only_file() {
    let mut server =
        Server::weft(&["--appendonly", "yes", "--appendfsync", "always", "--save", ""]);
    let mut asks = client(&server);
    assert_eq!(asks.cmd(&["EVAL", WRITES, "1", "k", "v"]).text(), "a");
    asks.ok(&[
        "EVAL",
        "redis.set_repl(redis.REPL_NONE) return redis.call('set', 'no log', 1)",
        "0",
    ]);
    drop(asks);
    server.restart();
    server.wait_until_loaded();
    check(&mut client(&server));
}

#[test]
fn effects_are_replicated() {
    let primary = Server::weft(&[]);
    let replica = Server::weft(&["--replicaof", &format!("127.0.0.1 {}", primary.port())]);
    let (mut asks, mut copy) = (client(&primary), client(&replica));
    until("the replica is in sync", || {
        copy.cmd(&["INFO", "replication"]).text().contains("master_link_status:up")
    });
    asks.ok(&["EVAL", "redis.set_repl(redis.REPL_AOF) return redis.call('set', 'no log', 1)", "0"]);
    assert_eq!(asks.cmd(&["EVAL", WRITES, "1", "k", "v"]).text(), "a");
    until("the replica has the effects", || copy.cmd(&["EXISTS", "n"]).int() == 1);
    check(&mut copy);
    let error = copy.cmd(&["EVAL", WRITES, "1", "k", "v"]).error().unwrap_or_default();
    assert!(error.starts_with("READONLY"), "{error}");
    assert_eq!(copy.cmd(&["EVAL", "return redis.call('get', 'k')", "0"]).text(), "v");
}

#[test]
fn blocked_clients_are_served_after_the_script() {
    on_both(&[], &[], |server| {
        let (mut maker, mut waiter) = (client(server), client(server));
        send(&mut waiter, &["BLPOP", "list", "0"]);
        until_blocked(&mut maker, 1);
        let script = "redis.call('rpush', 'list', 'a', 'b') redis.call('lpop', 'list') return redis.call('llen', 'list')";
        assert_eq!(maker.cmd(&["EVAL", script, "0"]).int(), 1, "{}", server.name());
        assert_eq!(reply(&mut waiter).items()[1].text(), "b");
    });
}

#[test]
fn script_breaks_watches() {
    on_both(&[], &[], |server| {
        let (mut watcher, mut other) = (client(server), client(server));
        watcher.ok(&["WATCH", "k"]);
        other.cmd(&["EVAL", "return redis.call('get', 'k')", "0"]);
        watcher.ok(&["MULTI"]);
        assert!(watcher.cmd(&["EXEC"]).items().is_empty());
        watcher.ok(&["WATCH", "k"]);
        other.cmd(&["EVAL", "return redis.call('set', 'k', 1)", "0"]);
        watcher.ok(&["MULTI"]);
        assert!(watcher.cmd(&["EXEC"]).is_null(), "{}", server.name());
    });
}

#[test]
fn notifications_of_scripts() {
    on_both(&["--notify-keyspace-events", "KEA"], &[], |server| {
        let (mut maker, mut listener) = (client(server), client(server));
        listener.cmd(&["PSUBSCRIBE", "__keyspace*", "own"]);
        let _ = reply(&mut listener);
        let script = "redis.call('set', 'k', 1) redis.call('publish', 'own', 'm') redis.call('del', 'k') return 1";
        assert_eq!(maker.cmd(&["EVAL", script, "0"]).int(), 1);
        let got: Vec<String> = (0..3).map(|_| reply(&mut listener).items()[3].text()).collect();
        assert_eq!(got, ["set", "m", "del"], "{}", server.name());
    });
}

/// Without time and address of the client.
fn monitored(line: &str) -> String {
    let after = line.split_once(" [").map_or(line, |(_, rest)| rest);
    let (who, what) = after.split_once("] ").unwrap_or(("", after));
    format!("{} {what}", if who.ends_with("lua") { who } else { "client" })
}

#[test]
fn monitors_see_the_script_and_its_commands() {
    on_both(&[], &[], |server| {
        let (mut maker, mut monitor) = (client(server), client(server));
        monitor.ok(&["MONITOR"]);
        maker.cmd(&["EVAL", "redis.call('set', 'k', 'v') return redis.call('get', 'k')", "0"]);
        let got: Vec<String> = (0..3).map(|_| monitored(&reply(&mut monitor).text())).collect();
        let expected = [
            "client \"EVAL\" \"redis.call('set', 'k', 'v') return redis.call('get', 'k')\" \"0\"",
            "0 lua \"set\" \"k\" \"v\"",
            "0 lua \"get\" \"k\"",
        ];
        assert_eq!(got, expected, "{}", server.name());
    });
}

/// Commands of scripts are counted, as well as the script itself.
#[test]
fn commands_of_scripts_are_counted() {
    on_both(&[], &[], |server| {
        let mut asks = client(server);
        asks.cmd(&[
            "EVAL",
            "redis.call('set', 'k', 'v') redis.pcall('incr', 'k') return redis.call('get', 'k')",
            "0",
        ]);
        let stats = asks.cmd(&["INFO", "commandstats"]).text();
        let calls = |name: &str| {
            let line =
                stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:")));
            let line = line.unwrap_or_else(|| panic!("{}: no {name} in {stats}", server.name()));
            let parts: Vec<&str> = line.split(',').collect();
            (parts[0].to_string(), parts[4].to_string())
        };
        for name in ["eval", "set", "get"] {
            assert_eq!(
                calls(name),
                ("calls=1".into(), "failed_calls=0".into()),
                "{}",
                server.name()
            );
        }
        assert_eq!(calls("incr"), ("calls=1".into(), "failed_calls=1".into()));
    });
}
