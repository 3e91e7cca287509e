//! Clients that record histories on a server.
//!
//! A client whose connection ends opens another and continues. The server must answer each command,
//! or close the connection: silence is a fault, and the message names the command.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::answer::Answer;
use super::cache::Cache;
use super::clock::Clock;
use super::commands::{expand, timeout_ms};
use super::disturb::{self, Disturbances, Target};
use super::draw::Draw;
use super::history::{Event, History, Op};
use super::scripts::Hashes;
use weft_testkit::client::{PATIENCE, encode, encode_into};
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server};

/// The size of a load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub clients: usize,
    /// Operations of each client.
    pub operations: usize,
    pub seed: u64,
    /// Groups of independent keys.
    pub groups: usize,
    pub with: Disturbances,
    /// Clients that keep shards busy, if there are scripts.
    pub holders: usize,
}

/// Percentage of operations that are sent in a pipeline, before the client closes its writing side.
const HALF_CLOSES: usize = 1;
/// The most operations of such a pipeline.
const PIPELINE: usize = 6;

/// Runs the clients concurrently on `server`, which must be empty.
pub fn record(server: &Server, load: Load) -> History {
    let clock = Clock::start();
    let draw = Draw { groups: load.groups, with: load.with };
    let hashes = Hashes::load(&mut server.client());
    let first = fill(server, clock, draw, &hashes);
    let targets: Vec<Target> = (0..load.clients).map(|_| Target::default()).collect();
    let running = AtomicUsize::new(load.clients);
    let rng = |n: usize| Rng::new(load.seed.wrapping_mul(1000) + n as u64);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..load.clients)
            .map(|number| {
                let (targets, running, hashes) = (&targets, &running, &hashes);
                scope.spawn(move || {
                    let _stop = Stop(running);
                    let life = Life::new(server, clock, draw, hashes, number, &targets[number]);
                    life.run(rng(number), load.operations)
                })
            })
            .collect();
        for n in 0..if load.with.scripts { load.holders } else { 0 } {
            let (running, rng) = (&running, rng(load.clients + 1 + n));
            scope.spawn(move || disturb::hold_shards(server, load.groups, running, rng));
        }
        let disturber =
            disturb::disturb(server, load.with, clock, &targets, &running, rng(load.clients));
        let mut history: History =
            clients.into_iter().map(|c| c.join().expect("a client has failed")).collect();
        history.push(disturber);
        history.push(first);
        history
    })
}

/// Counts down when dropped, also by a panic, so that the disturber ends.
struct Stop<'a>(&'a AtomicUsize);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Fills the database before the clients start, as events of an earlier client.
fn fill(server: &Server, clock: Clock, draw: Draw, hashes: &Hashes) -> Vec<Event> {
    let mut client = server.client();
    let done = draw.first().into_iter().map(|args| {
        let call = clock.now();
        let answer = Some(Answer::of(&client.cmd(&request(&args, hashes))));
        let op = Op::Command(args);
        Event { op, call, ret: clock.now(), answer, connection: 0, half_closed: false }
    });
    done.collect()
}

/// The request for a command of the model.
fn request(args: &[String], hashes: &Hashes) -> Vec<String> {
    let mut args = expand(args);
    hashes.put_in(&mut args);
    match args[0].as_str() {
        "FILL" => {
            let count: usize = args[1].parse().expect("a number");
            let pairs = (0..count).flat_map(|n| [format!("filler:{n}"), "v".to_string()]);
            ["MSET".to_string()].into_iter().chain(pairs).collect()
        }
        // A time of the server's clock, relative to now.
        "PEXPIREAT" => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            let ms: u128 = args[2].parse().expect("a number");
            args[2] = (now.as_millis() + ms).to_string();
            args
        }
        _ => args,
    }
}

/// The commands of an operation; the last reply is its result.
fn requests(op: &Op, hashes: &Hashes) -> Vec<Vec<String>> {
    match op {
        Op::Command(args) => vec![request(args, hashes)],
        Op::Watch(keys) => {
            vec![std::iter::once("WATCH".to_string()).chain(keys.iter().cloned()).collect()]
        }
        Op::Exec(commands) => {
            let mut batch = vec![vec!["MULTI".to_string()]];
            batch.extend(commands.iter().map(|args| request(args, hashes)));
            batch.push(vec!["EXEC".to_string()]);
            batch
        }
        Op::Kill { .. } | Op::Unblock { .. } | Op::Pause { .. } | Op::Unpause => {
            unreachable!("only the disturber does that")
        }
    }
}

/// One client, with one connection after the other.
struct Life<'a> {
    server: &'a Server,
    clock: Clock,
    draw: Draw,
    hashes: &'a Hashes,
    number: usize,
    target: &'a Target,
    client: Client,
    connection: u32,
    /// The group of its watched keys.
    watching: Option<usize>,
    cache: Option<Cache>,
    events: Vec<Event>,
}

impl<'a> Life<'a> {
    fn new(
        server: &'a Server,
        clock: Clock,
        draw: Draw,
        hashes: &'a Hashes,
        number: usize,
        target: &'a Target,
    ) -> Life<'a> {
        let mut cache = match draw.with.tracking {
            true => Cache::of_client(number, draw.with.expiry),
            false => None,
        };
        let client = connect(server, target, 0, &mut cache);
        Life {
            server,
            clock,
            draw,
            hashes,
            number,
            target,
            client,
            connection: 0,
            watching: None,
            cache,
            events: Vec::new(),
        }
    }

    fn run(mut self, mut rng: Rng, operations: usize) -> Vec<Event> {
        while self.events.len() < operations {
            let together = match self.draw.with.half_close && rng.percent(HALF_CLOSES) {
                true => 1 + rng.below(PIPELINE),
                false => 1,
            };
            let ops: Vec<Op> = (0..together)
                .map(|i| {
                    let unique = format!("{}.{}.{i}", self.number, self.events.len());
                    self.draw.op(&mut rng, &unique, &mut self.watching)
                })
                .collect();
            match &ops[..] {
                [Op::Command(args)] if self.is_kept(args) => self.recall(ops),
                _ => self.perform(ops, together > 1),
            }
        }
        self.events
    }

    fn is_kept(&self, args: &[String]) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.get(args).is_some())
    }

    /// Uses the cached reply, unless an invalidation has arrived by now; else sends the command.
    fn recall(&mut self, ops: Vec<Op>) {
        let [Op::Command(args)] = &ops[..] else { unreachable!("one command") };
        let call = self.clock.now();
        let mut ended = self.client.send_raw(&encode(&["PING"])).is_err();
        ended = ended || self.answer(&Op::Command(vec!["PING".into()]), 1).is_none();
        if ended {
            return self.reconnect();
        }
        match self.cache.as_ref().and_then(|cache| cache.get(args)) {
            None => self.perform(ops, false),
            Some(answer) => {
                let (ret, connection) = (self.clock.now(), self.connection);
                let op = Op::Command(args.clone());
                let answer = Some(answer);
                self.events.push(Event { op, call, ret, answer, connection, half_closed: false });
            }
        }
    }

    /// Caches replies, and notes the client's own changes.
    fn note(&mut self, op: &Op, answer: Option<&Answer>) {
        let Some(cache) = &mut self.cache else { return };
        match (op, answer) {
            (Op::Command(args), None) => cache.invalidate_own_changes(args),
            (Op::Exec(commands), None) => {
                commands.iter().for_each(|args| cache.invalidate_own_changes(args))
            }
            (Op::Command(args), Some(answer)) => cache.insert(args, answer),
            (Op::Exec(commands), Some(Answer::List(answers))) => {
                // A value that the client has changed after the read is not cached.
                for (n, (args, answer)) in commands.iter().zip(answers).enumerate() {
                    cache.insert(args, answer);
                    commands[n + 1..].iter().for_each(|later| cache.invalidate_own_changes(later));
                }
            }
            _ => {}
        }
    }

    /// Sends some operations at once; `half_close`: and closes the writing side.
    fn perform(&mut self, ops: Vec<Op>, half_close: bool) {
        let waits = |op: &Op| matches!(op, Op::Command(args) if timeout_ms(args).is_some());
        self.target.waits.store(ops.iter().any(waits), Ordering::Relaxed);
        let mut bytes = Vec::new();
        let counts: Vec<usize> = ops
            .iter()
            .map(|op| {
                let requests = requests(op, self.hashes);
                requests.iter().for_each(|args| encode_into(args, &mut bytes));
                requests.len()
            })
            .collect();
        ops.iter().for_each(|op| self.note(op, None));
        let call = self.clock.now();
        let mut ended = self.client.send_raw(&bytes).is_err();
        if half_close && !ended {
            ended = self.client.finish_writing().is_err();
        }
        for (op, replies) in ops.into_iter().zip(counts) {
            let answer = if ended { None } else { self.answer(&op, replies) };
            ended = answer.is_none();
            if ended && self.draw.with.scripts {
                // A killed connection ends before its script, which may take more shards. The KILL waits for the script.
                drop(self.target.kill.lock().expect("no holder panics"));
            }
            let (ret, connection) = (self.clock.now(), self.connection);
            self.events.push(Event { op, call, ret, answer, connection, half_closed: half_close });
        }
        self.target.waits.store(false, Ordering::Relaxed);
        if half_close && !ended {
            // Only the end of the connection may follow.
            match self.client.read_reply() {
                Err(e) if !is_silence(&e) => ended = true,
                other => panic!("a half-closed connection is not closed: {other:?}"),
            }
        }
        if ended {
            self.reconnect();
        }
    }

    fn reconnect(&mut self) {
        self.connection += 1;
        self.watching = None;
        self.client = connect(self.server, self.target, self.connection, &mut self.cache);
    }

    /// The reply to `op`, the last of `replies` replies; `None` if the connection has ended.
    fn answer(&mut self, op: &Op, replies: usize) -> Option<Answer> {
        let mut last = None;
        for _ in 0..replies {
            match self.client.read_reply() {
                Ok(reply) => {
                    last = Some(Answer::of(&reply.value));
                    // The pushes before the reply.
                    let pushes = self.client.take_pushes();
                    if let Some(cache) = &mut self.cache {
                        cache.apply_invalidations(&pushes);
                    }
                }
                Err(e) if is_silence(&e) => panic!(
                    "client {} got no answer and no close for {PATIENCE:?}, connection {}: {op:?}",
                    self.number, self.connection
                ),
                Err(e) if e.kind() == io::ErrorKind::InvalidData => panic!("{op:?}: {e}"),
                Err(_) => return None,
            }
        }
        self.note(op, last.as_ref());
        last
    }
}

fn is_silence(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Connects, and publishes the connection's id to the disturber. Before that the connection can't
/// be killed.
fn connect(server: &Server, target: &Target, number: u32, cache: &mut Option<Cache>) -> Client {
    let mut client = server.client();
    if let Some(cache) = cache {
        cache.enable_tracking(&mut client);
    }
    let id = client.cmd(&["CLIENT", "ID"]).int();
    *target.connection.lock().expect("no holder panics") = (number, id);
    client
}
