//! redis-rs as a client of a cluster that changes. tests/tests/nodes/clients.rs has the orders that it takes.
//!
//! usage: redis-rs-cluster PORT...

use std::collections::HashMap;
use std::io::stdin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use redis::cluster::{ClusterClient, ClusterConnection, cluster_pipe};
use redis::{RedisResult, Value, cmd};

const WORKERS: usize = 3;
const KEYS: u64 = 60;
const PAUSE: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(90);
/// Lost writes of a worker that it prints.
const REPORTED: u64 = 3;

#[derive(Default)]
struct State {
    is_lenient: AtomicBool,
    is_over: AtomicBool,
    failures: Mutex<Vec<String>>,
}

#[derive(Default)]
struct Counts {
    rounds: AtomicU64,
    failed: AtomicU64,
    lost: AtomicU64,
}

struct Worker {
    number: usize,
    redis: ClusterConnection,
    state: Arc<State>,
    counts: Arc<Counts>,
    acknowledged: HashMap<String, u64>,
    sent: HashMap<String, u64>,
}

fn connect() -> RedisResult<ClusterConnection> {
    let nodes = std::env::args().skip(1).map(|port| format!("redis://127.0.0.1:{port}"));
    let builder = ClusterClient::builder(nodes.collect::<Vec<_>>());
    let builder = builder.response_timeout(Duration::from_secs(5));
    builder.build()?.get_connection()
}

/// Splitmix64.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl Worker {
    fn run(mut self) -> Worker {
        let mut seed = self.number as u64;
        while !self.state.is_over.load(Relaxed) {
            let key = format!("redis-rs:{}:{}", self.number, random(&mut seed) % KEYS);
            match self.step(&key) {
                Ok(()) => _ = self.counts.rounds.fetch_add(1, Relaxed),
                Err(error) => {
                    self.counts.failed.fetch_add(1, Relaxed);
                    if !self.state.is_lenient.load(Relaxed) {
                        self.fail(&error.to_string());
                    }
                    // The library leaves replies unread when a node dies or a request times out, and takes them for
                    // those of later requests.
                    if error.into_server_errors().is_none()
                        && let Ok(redis) = connect()
                    {
                        self.redis = redis;
                    }
                }
            }
            sleep(PAUSE);
        }
        self
    }

    fn fail(&self, error: &str) {
        let text = format!("worker {}: {error}", self.number);
        self.state.failures.lock().expect("no panic").push(text);
    }

    fn step(&mut self, key: &str) -> RedisResult<()> {
        let value = self.sent.get(key).copied().unwrap_or_default() + 1;
        self.sent.insert(key.into(), value);
        cmd("ZADD").arg(key).arg("GT").arg(value).arg("m").exec(&mut self.redis)?;
        self.acknowledged.insert(key.into(), value);
        self.check(key)?;
        self.pipeline(key)?;
        self.other_commands(&format!("{{{key}}}"))
    }

    /// Pipelines don't follow redirects: this repeats the refused requests, which learns of the new owner.
    fn pipeline(&mut self, key: &str) -> RedisResult<()> {
        let keys: Vec<String> = (0..10).map(|n| format!("{key}:{n}")).collect();
        let mut pipe = cluster_pipe();
        for key in &keys {
            pipe.set(key, key);
        }
        let error = match pipe.query::<Vec<Value>>(&mut self.redis) {
            Ok(replies) => return Ok(self.expect(&replies, &vec![Value::Okay; 10])),
            Err(error) => error,
        };
        for (n, _) in error.clone().into_server_errors().ok_or(error)?.iter() {
            cmd("SET").arg(&keys[*n]).arg(&keys[*n]).exec(&mut self.redis)?;
        }
        Ok(())
    }

    fn other_commands(&mut self, tag: &str) -> RedisResult<()> {
        let (a, b) = (format!("{tag}a"), format!("{tag}b"));
        cmd("MSET").arg(&a).arg(1).arg(&b).arg(2).exec(&mut self.redis)?;
        let values: Vec<i64> = cmd("MGET").arg(&a).arg(&b).query(&mut self.redis)?;
        self.expect(&values, &vec![1, 2]);
        let script = "return server.call('get', KEYS[1])";
        let value: i64 = cmd("EVAL").arg(script).arg(1).arg(&a).query(&mut self.redis)?;
        self.expect(&value, &1);
        cmd("SPUBLISH").arg(tag).arg("message").exec(&mut self.redis)
    }

    fn expect<T: PartialEq + std::fmt::Debug>(&self, found: &T, expected: &T) {
        if found != expected {
            self.fail(&format!("{found:?}, not {expected:?}"));
        }
    }

    fn check(&mut self, key: &str) -> RedisResult<()> {
        let score: Option<f64> = cmd("ZSCORE").arg(key).arg("m").query(&mut self.redis)?;
        let score = score.unwrap_or_default() as u64;
        let acknowledged = self.acknowledged[key];
        if score < acknowledged {
            if self.counts.lost.fetch_add(1, Relaxed) < REPORTED {
                eprintln!("lost: {key}: {score}, not {acknowledged}");
            }
            self.acknowledged.insert(key.into(), score);
        }
        Ok(())
    }
}

fn settle(state: &State, counts: &[Arc<Counts>]) {
    let begin = Instant::now();
    for count in counts {
        let goal = count.rounds.load(Relaxed) + 3;
        while count.rounds.load(Relaxed) < goal {
            if begin.elapsed() > PATIENCE {
                return state.failures.lock().expect("no panic").push("no progress".into());
            }
            sleep(PAUSE);
        }
    }
}

fn finish(state: &State, running: Vec<JoinHandle<Worker>>) {
    state.is_over.store(true, Relaxed);
    for worker in running {
        let mut worker = worker.join().expect("no panic");
        for key in worker.acknowledged.keys().cloned().collect::<Vec<_>>() {
            if let Err(error) = worker.check(&key) {
                worker.fail(&error.to_string());
            }
        }
    }
}

fn main() {
    let state = Arc::new(State::default());
    let counts: Vec<Arc<Counts>> = (0..WORKERS).map(|_| Arc::default()).collect();
    let start = |number: usize| {
        let (state, counts) = (Arc::clone(&state), Arc::clone(&counts[number]));
        let (acknowledged, sent) = Default::default();
        let redis = connect().expect("the cluster answers");
        let worker = Worker { number, redis, state, counts, acknowledged, sent };
        spawn(move || worker.run())
    };
    let mut running: Vec<_> = (0..WORKERS).map(start).collect();
    for order in stdin().lines().map_while(Result::ok) {
        match order.as_str() {
            "strict" | "lenient" => {
                state.is_lenient.store(order == "lenient", Relaxed);
                println!("ok");
                continue;
            }
            "settled" => settle(&state, &counts),
            _ => finish(&state, std::mem::take(&mut running)),
        }
        let sum = |get: fn(&Counts) -> &AtomicU64| -> u64 {
            counts.iter().map(|count| get(count).load(Relaxed)).sum()
        };
        let failures = state.failures.lock().expect("no panic");
        if failures.is_empty() {
            println!("{order} {} {} {}", sum(|c| &c.rounds), sum(|c| &c.failed), sum(|c| &c.lost));
        } else {
            println!("failed {}", failures[..failures.len().min(5)].join("; ").replace('\n', " "));
        }
    }
}
