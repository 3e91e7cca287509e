//! No client sees a part of a script's effects, whichever keys it uses.

use std::sync::atomic::{AtomicBool, Ordering};
use weft_testkit::{Client, Server};
use weft_tests::scene::{
    HeldShard, client, info, on_both, reply, reply_within, send, until, until_in_slow_lane,
};

const FOUR: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

/// A script writes one key and then needs another, whose shard is busy. It is undone, so that other clients find the
/// first key as it was; and it runs as a whole when the shard is free.
#[test]
fn script_that_needs_a_busy_shard_starts_over() {
    let server = Server::weft(&["--io-threads", "1"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    caller.ok(&["SET", "{a}n", "5"]);
    caller.cmd(&["RPUSH", "{a}list", "x"]);
    let held = HeldShard::with_tag(&server, "b");
    let script =
        "redis.call('incr', KEYS[1]) redis.call('del', '{a}list') redis.call('set', '{a}new', 1)
                  return redis.call('incr', '{b}n')";
    send(&mut caller, &["EVAL", script, "1", "{a}n"]);
    until("the script has started over", || info(&mut other, "script_restarts") > 0);
    assert_eq!(other.cmd(&["GET", "{a}n"]).text(), "5");
    assert_eq!(other.cmd(&["LRANGE", "{a}list", "0", "-1"]).items().len(), 1);
    assert_eq!(other.cmd(&["EXISTS", "{a}new"]).int(), 0);
    held.release();
    assert_eq!(reply(&mut caller).int(), 1);
    assert_eq!(other.cmd(&["GET", "{a}n"]).text(), "6");
    assert_eq!(other.cmd(&["EXISTS", "{a}list", "{a}new"]).int(), 1);
}

/// The copies of large values share their pieces with the values that the script changes.
#[test]
fn large_values_are_as_before_when_a_script_starts_over() {
    const KEYS: [&str; 5] = ["{a}list", "{a}set", "{a}hash", "{a}zset", "{a}stream"];
    let server = Server::weft(&["--io-threads", "1", "--enable-debug-command", "local"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    let fill = "for n = 1, 9000 do
                  redis.call('rpush', '{a}list', n) redis.call('sadd', '{a}set', 'member' .. n)
                  redis.call('hset', '{a}hash', n, n) redis.call('zadd', '{a}zset', n, n)
                  redis.call('xadd', '{a}stream', n .. '-1', 'n', n)
                end";
    caller.cmd(&["EVAL", fill, "1", "{a}"]);
    let digest = ["DEBUG", "DIGEST-VALUE"].into_iter().chain(KEYS).collect::<Vec<_>>();
    let before = other.cmd(&digest);
    assert_eq!(before.items().len(), KEYS.len());
    let held = HeldShard::with_tag(&server, "b");
    let change = "for n = 1, 9000, 1500 do
                    redis.call('lset', '{a}list', n, 'x') redis.call('srem', '{a}set', 'member' .. n)
                    redis.call('hdel', '{a}hash', n) redis.call('zrem', '{a}zset', n)
                    redis.call('zadd', '{a}zset', -n, n + 1) redis.call('xdel', '{a}stream', n .. '-1')
                  end
                  redis.call('lpop', '{a}list') redis.call('xadd', '{a}stream', '*', 'n', 'last')
                  return redis.call('incr', '{b}n')";
    let restarts = info(&mut other, "script_restarts");
    send(&mut caller, &["EVAL", change, "1", "{a}"]);
    until("the script has started over", || info(&mut other, "script_restarts") > restarts);
    assert_eq!(other.cmd(&digest), before);
    assert_eq!(other.cmd(&["ZRANK", "{a}zset", "1501"]).int(), 1500);
    held.release();
    assert_eq!(reply(&mut caller).int(), 1);
    assert_ne!(other.cmd(&digest), before);
    assert_eq!(other.cmd(&["ZRANK", "{a}zset", "7502"]).int(), 0);
}

/// A message of a script is sent once, although the script starts over after it.
#[test]
fn script_that_starts_over_publishes_once() {
    let server = Server::weft(&["--io-threads", "1"]);
    let (mut caller, mut other, mut listener) = (client(&server), client(&server), client(&server));
    listener.cmd(&["SUBSCRIBE", "news"]);
    listener.cmd(&["PSUBSCRIBE", "n*"]);
    let held = HeldShard::with_tag(&server, "b");
    let script = "local n = redis.call('publish', 'news', 'm') redis.call('incr', '{b}n') return n";
    send(&mut caller, &["EVAL", script, "0"]);
    until("the script has started over", || info(&mut other, "script_restarts") > 0);
    let early = std::time::Duration::from_millis(20);
    assert!(reply_within(&mut listener, early).is_none(), "the script has not ended");
    held.release();
    assert_eq!(reply(&mut caller).int(), 2);
    let got = [reply(&mut listener), reply(&mut listener)];
    assert_eq!(got[0].items()[0].text(), "message");
    assert_eq!(got[1].items()[0].text(), "pmessage");
    assert!(reply_within(&mut listener, early).is_none());
}

/// The same in a transaction, which waits for all shards before it begins.
#[test]
fn script_in_a_transaction_waits_for_its_keys() {
    let server = Server::weft(&["--io-threads", "1"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    let held = HeldShard::with_tag(&server, "b");
    caller.ok(&["MULTI"]);
    caller.cmd(&["SET", "{a}x", "1"]);
    caller.cmd(&["EVAL", "return redis.call('incr', '{b}n')", "0"]);
    send(&mut caller, &["EXEC"]);
    until_in_slow_lane(&mut other, 2);
    assert!(reply_within(&mut caller, std::time::Duration::from_millis(20)).is_none());
    assert!(other.cmd(&["GET", "{a}x"]).is_null());
    held.release();
    let done = reply(&mut caller);
    assert!(done.items()[0].is_ok());
    assert_eq!(done.items()[1].int(), 1);
}

#[test]
fn scripts_in_transactions() {
    on_both(&[], &[], |server| {
        let mut client = client(server);
        client.ok(&["MULTI"]);
        client.cmd(&[
            "EVAL",
            "redis.call('select', 3) return redis.call('set', KEYS[1], 'v')",
            "1",
            "k",
        ]);
        client.cmd(&["EVAL", "return redis.call('nosuch')", "0"]);
        client.cmd(&["EVAL", "return {redis.call('get', 'k')}", "0"]);
        client.cmd(&["PING"]);
        let done = client.cmd(&["EXEC"]);
        let items = done.items();
        assert!(items[0].is_ok(), "{}", server.name());
        assert!(items[1].error().is_some());
        // The database that a script has selected is forgotten.
        assert!(items[2].items()[0].is_null());
        assert_eq!(items[3].text(), "PONG");
        client.ok(&["SELECT", "3"]);
        assert_eq!(client.cmd(&["GET", "k"]).text(), "v");
    });
}

/// A script waits for a shard before it flushes the database; so does KEYS, which has read the other shards. KEYS
/// shows all keys or none of them.
#[test]
fn keys_shows_no_half_of_a_flush() {
    let server = Server::weft(&["--io-threads", "1", "--enable-debug-command", "yes"]);
    let (mut caller, mut lister, mut other) = (client(&server), client(&server), client(&server));
    for round in 0..20 {
        // More than KEYS reads on an I/O thread.
        other.ok(&["DEBUG", "POPULATE", "5000"]);
        let held = HeldShard::with_tag(&server, "b");
        until_in_slow_lane(&mut other, 1);
        send(&mut caller, &["EVAL", "return redis.call('flushall')", "0"]);
        until_in_slow_lane(&mut other, 2);
        send(&mut lister, &["KEYS", "*"]);
        until_in_slow_lane(&mut other, 3);
        held.release();
        let names = reply(&mut lister).items().len();
        assert!(reply(&mut caller).is_ok());
        assert!(names == 0 || names == 5001, "round {round}: {names} keys");
        until_in_slow_lane(&mut other, 0);
    }
}

/// A key doesn't expire while a script runs, although the script takes a shard of later commands.
#[test]
fn no_key_expires_in_a_script() {
    let server = Server::weft(&["--io-threads", "1"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    let script = "local at_first = redis.call('get', KEYS[1])
        for n = 1, 100 do for m = 1, 200000 do local x = m end end
        redis.call('get', '{b}later')
        redis.call('set', '{d}x', 'v', 'px', 1)
        redis.call('get', '{c}later')
        return {at_first or '', redis.call('get', KEYS[1]) or '', redis.call('get', '{d}x') or ''}";
    for _ in 0..3 {
        other.ok(&["SET", "{a}x", "v", "PX", "50"]);
        other.ok(&["SET", "{e}x", "v", "PX", "60"]);
        send(&mut caller, &["EVAL", script, "1", "{a}x"]);
        until("the key has expired", || other.cmd(&["EXISTS", "{e}x"]).int() == 0);
        other.ok(&["SET", "{b}later", "v"]);
        other.ok(&["SET", "{c}later", "v"]);
        let done = reply(&mut caller);
        let [at_first, at_last, new] = [0, 1, 2].map(|n| done.items()[n].text());
        assert_eq!(at_first, at_last);
        assert_eq!(new, "v");
    }
}

const ACCOUNTS: usize = 40;
const EACH: i64 = 1000;

/// Moves an amount between two accounts that are not declared.
const MOVE: &str = "local from, to = 'acc:' .. ARGV[1], 'acc:' .. ARGV[2]
    if tonumber(redis.call('get', from)) < 5 then return 0 end
    redis.call('decrby', from, 5)
    redis.call('incrby', to, 5)
    return 1";

/// The sum of all accounts, none of which is declared.
const SUM: &str = "local sum = 0
    for n = 0, tonumber(ARGV[1]) - 1 do sum = sum + redis.call('get', 'acc:' .. n) end
    return sum";

fn make_accounts(client: &mut Client) {
    for n in 0..ACCOUNTS {
        client.ok(&["SET", &format!("acc:{n}"), &EACH.to_string()]);
    }
}

/// Scripts move amounts between undeclared keys, on several threads, together with transactions and plain commands on the
/// same keys. The sum is the same at every moment.
#[test]
fn the_sum_of_accounts_never_changes() {
    let rounds: usize =
        std::env::var("TRANSFERS").ok().and_then(|n| n.parse().ok()).unwrap_or(3000);
    let server = Server::weft(&FOUR);
    make_accounts(&mut client(&server));
    let total = EACH * ACCOUNTS as i64;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for mover in 0..4_usize {
            let (mut client, done) = (client(&server), &done);
            scope.spawn(move || {
                let mut at = mover * 7 + 1;
                for round in 0..rounds {
                    at = (at * 1_103_515_245 + 12_345) & 0x7fff_ffff;
                    let (from, to) = ((at >> 8) % ACCOUNTS, (at >> 16) % ACCOUNTS);
                    let (from, to) = (from.to_string(), to.to_string());
                    client.cmd(&["EVAL", MOVE, "0", &from, &to]).int();
                    if round % 16 == 0 {
                        // Its shards are often busy for a while.
                        client.ok(&["MULTI"]);
                        client.cmd(&["INCRBY", &format!("acc:{from}"), "3"]);
                        client.cmd(&["DECRBY", &format!("acc:{to}"), "3"]);
                        assert_eq!(client.cmd(&["EXEC"]).items().len(), 2);
                    }
                }
                done.store(true, Ordering::Relaxed);
            });
        }
        for reader in 0..2 {
            let (mut client, done) = (client(&server), &done);
            scope.spawn(move || {
                let names: Vec<String> = (0..ACCOUNTS).map(|n| format!("acc:{n}")).collect();
                let mget: Vec<&str> =
                    ["MGET"].into_iter().chain(names.iter().map(String::as_str)).collect();
                while !done.load(Ordering::Relaxed) {
                    let sum = match reader {
                        0 => client.cmd(&["EVAL", SUM, "0", &ACCOUNTS.to_string()]).int(),
                        _ => client
                            .cmd(&mget)
                            .items()
                            .iter()
                            .map(|n| n.text().parse::<i64>().expect("a number"))
                            .sum(),
                    };
                    assert_eq!(sum, total);
                }
            });
        }
    });
    let sum = client(&server).cmd(&["EVAL", SUM, "0", &ACCOUNTS.to_string()]).int();
    assert_eq!(sum, total);
}

/// Regression: DBSIZE left out shards that a running script had emptied.
#[test]
fn number_of_keys_is_that_before_the_script() {
    let server = Server::weft(&["--io-threads", "2"]);
    let (mut caller, mut other) = (client(&server), client(&server));
    for key in ["a", "b", "c"] {
        other.ok(&["SET", key, "v"]);
    }
    let script = "redis.call('swapdb', 0, 1) redis.call('set', 'd', 'v')
        redis.log(redis.LOG_WARNING, 'it has written') while true do end";
    send(&mut caller, &["EVAL", script, "0"]);
    until("the databases are exchanged", || server.log().contains("it has written"));
    assert_eq!(other.cmd(&["DBSIZE"]).int(), 3);
    other.ok(&["SELECT", "1"]);
    assert_eq!(other.cmd(&["DBSIZE"]).int(), 0);
}
