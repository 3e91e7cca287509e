//! Clients that run scripts on keys of several shards, declared and undeclared, with an invariant: whatever survives a
//! kill or reaches a replica are whole scripts, in the order in which each client ran them.
//!
//! Each script of a client has a number, one higher than that of the client's script before. It increments four
//! counters, appends its number to a list of the last [`LOG`], stores it, and moves an amount between two accounts that all clients use.

use crate::scene::PATIENCE;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Value};

const ACCOUNTS: usize = 24;
const EACH: i64 = 1000;
const CLIENTS: usize = 6;
/// Elements of a list. More would make each script hold all shards.
const LOG: i64 = 64;

/// The declared keys and the other words are one list: four counters, a list, a string, two accounts, the number, and
/// how far to count in the middle.
const STEP: &str = "local w = {}
for _, word in ipairs(KEYS) do w[#w + 1] = word end
for _, word in ipairs(ARGV) do w[#w + 1] = word end
local has = tonumber(redis.call('get', w[7]) or 0)
redis.call('incr', w[1])
redis.call('rpush', w[5], w[9])
redis.call('incr', w[2])
if has >= 5 then redis.call('decrby', w[7], 5) end
for n = 1, tonumber(w[10]) do end
redis.call('incr', w[3])
if has >= 5 then redis.call('incrby', w[8], 5) end
redis.call('set', w[6], w[9])
redis.call('ltrim', w[5], -64, -1)
return redis.call('incr', w[4])";

/// Creates the accounts, unless they exist.
const CREATE: &str = "if redis.call('exists', 'acc:0') == 0 then
  for n = 0, ARGV[1] - 1 do redis.call('set', 'acc:' .. n, ARGV[2]) end
end";

/// Returns the sum of the accounts, the counters, the string and the list of each client.
const READ: &str = "local sum, clients = 0, {}
for n = 0, ARGV[1] - 1 do sum = sum + (redis.call('get', 'acc:' .. n) or 0) end
for c = 0, ARGV[2] - 1 do
  local of = {}
  for n = 0, 3 do of[#of + 1] = tonumber(redis.call('get', 'c' .. n .. ':' .. c) or 0) end
  of[#of + 1] = tonumber(redis.call('get', 'last:' .. c) or 0)
  of[#of + 1] = redis.call('llen', 'log:' .. c)
  of[#of + 1] = tonumber(redis.call('lindex', 'log:' .. c, -1) or 0)
  of[#of + 1] = tonumber(redis.call('lindex', 'log:' .. c, 0) or 1)
  clients[#clients + 1] = of
end
return {sum, clients}";

/// Keeps shards of accounts busy, so that other scripts start over.
const HOLD: &str = "for n = 1, 200000 do end";

/// The numbers of each client's last script: the last one sent and the last one acknowledged.
#[derive(Debug, Default)]
pub struct Numbers {
    sent: [AtomicU64; CLIENTS],
    acknowledged: [AtomicU64; CLIENTS],
}

impl Numbers {
    /// The number of scripts that were acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.iter().map(|n| n.load(Ordering::Relaxed)).sum()
    }

    /// Continues after these.
    fn set(&self, last: &[u64]) {
        for (client, last) in last.iter().enumerate() {
            self.sent[client].store(*last, Ordering::Relaxed);
            self.acknowledged[client].store(*last, Ordering::Relaxed);
        }
    }
}

/// Runs the clients while `act` runs, and until their connections end or `act` has ended.
pub fn while_scripts_run<T>(port: u16, numbers: &Numbers, seed: u64, act: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let done = &done;
            scope.spawn(move || run_scripts(port, client, numbers, seed, done));
        }
        scope.spawn(|| hold_accounts(port, seed, &done));
        let _done = SetOnDrop(&done);
        act()
    })
}

/// Ends the threads of a scope, also after a panic.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn run_scripts(port: u16, client: usize, numbers: &Numbers, seed: u64, done: &AtomicBool) {
    let mut rng = Rng::new(seed << 8 | client as u64);
    let Ok(mut connection) = Client::try_tcp(port) else { return };
    connection.set_timeout(PATIENCE);
    let create = ["EVAL", CREATE, "0", &ACCOUNTS.to_string(), &EACH.to_string()];
    if connection.try_cmd(&create).is_err() {
        return;
    }
    while !done.load(Ordering::Relaxed) {
        let number = numbers.sent[client].load(Ordering::Relaxed) + 1;
        numbers.sent[client].store(number, Ordering::Relaxed);
        let mut words: Vec<String> = (0..4).map(|n| format!("c{n}:{client}")).collect();
        words.extend([format!("log:{client}"), format!("last:{client}")]);
        words.extend((0..2).map(|_| format!("acc:{}", rng.below(ACCOUNTS))));
        words.push(number.to_string());
        // Longer than an I/O thread runs a script.
        words.push(if rng.percent(5) { "400000" } else { "0" }.to_string());
        let declared = *rng.pick(&[0, 0, 1, 3, 6, 8]);
        let mut args = vec!["EVAL".to_string(), STEP.to_string(), declared.to_string()];
        args.extend(words);
        let reply = match connection.try_cmd(&args) {
            Ok(reply) => reply,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("client {client} gets no reply: {e}")
            }
            Err(_) => return,
        };
        // A server that has lost its role refuses it.
        let Value::Integer(count) = reply.value else { return };
        assert_eq!(count, number as i64, "client {client}");
        numbers.acknowledged[client].store(number, Ordering::Relaxed);
    }
}

fn hold_accounts(port: u16, seed: u64, done: &AtomicBool) {
    let mut rng = Rng::new(seed);
    let Ok(mut connection) = Client::try_tcp(port) else { return };
    connection.set_timeout(PATIENCE);
    while !done.load(Ordering::Relaxed) {
        let mut account = || format!("acc:{}", rng.below(ACCOUNTS));
        if connection.try_cmd(&["EVAL", HOLD, "2", &account(), &account()]).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_micros(rng.below(1000) as u64));
    }
}

/// Checks on any server, at any moment, that it shows whole scripts. Returns the number of each client's last one.
/// `None`: the server can't run scripts now.
#[track_caller]
pub fn check(client: &mut Client) -> Option<Vec<u64>> {
    let reply = client.cmd(&["EVAL_RO", READ, "0", &ACCOUNTS.to_string(), &CLIENTS.to_string()]);
    if reply.error().is_some() {
        return None;
    }
    let [sum, clients] = reply.items() else { panic!("{reply}") };
    let of_clients = clients.items().iter().enumerate().map(|(client, of)| {
        let of: Vec<i64> = of.items().iter().map(Value::int).collect();
        let last = of[0];
        let whole = [last, last, last, last, last, last.min(LOG), last, (last - LOG + 1).max(1)];
        assert_eq!(of, whole, "client {client}: a part of a script");
        last as u64
    });
    let last: Vec<u64> = of_clients.collect();
    let total = EACH * ACCOUNTS as i64;
    let has_accounts = last.iter().any(|n| *n > 0);
    assert!(sum.int() == total || sum.int() == 0 && !has_accounts, "the sum is {}", sum.int());
    Some(last)
}

/// Checks a server that has started again, or was promoted. `acknowledged`: all scripts that were acknowledged must be
/// there. The clients continue after those that are.
#[track_caller]
pub fn check_survivors(client: &mut Client, numbers: &Numbers, acknowledged: bool) {
    let last = check(client).expect("the server runs scripts");
    for (n, last) in last.iter().enumerate() {
        let log = client.cmd(&["LRANGE", &format!("log:{n}"), "0", "-1"]);
        let log: Vec<u64> =
            log.items().iter().map(|n| n.text().parse().expect("a number")).collect();
        let first = (last + 1).saturating_sub(LOG as u64).max(1);
        assert!(log.iter().copied().eq(first..=*last), "client {n}: a script is missing: {log:?}");
        let sent = numbers.sent[n].load(Ordering::Relaxed);
        assert!(*last <= sent, "client {n}: {last} of {sent}");
        let due = numbers.acknowledged[n].load(Ordering::Relaxed);
        assert!(
            !acknowledged || *last >= due,
            "client {n}: {due} was acknowledged, {last} is last"
        );
    }
    numbers.set(&last);
}
