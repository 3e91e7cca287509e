//! The client that disturbs the others. Its operations are part of the history.

use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::answer::Answer;
use super::clock::Clock;
use super::history::{Event, Op};
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server};

/// The parts of a load in addition to plain commands, transactions and waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disturbances {
    /// CLIENT KILL of connections with pending requests.
    pub kill: bool,
    /// CLIENT PAUSE and UNPAUSE.
    pub pause: bool,
    /// CLIENT UNBLOCK.
    pub unblock: bool,
    /// Connections whose clients close their writing side first.
    pub half_close: bool,
    /// Commands that are too large for an I/O thread.
    pub slow: bool,
    /// Keys and fields with deadlines.
    pub expiry: bool,
    /// Commands on all keys.
    pub world: bool,
    /// Streams and consumer groups.
    pub streams: bool,
    /// Clients that cache the values that they read: see [`super::cache`].
    pub tracking: bool,
    /// Scripts: see [`super::scripts`].
    pub scripts: bool,
}

impl Disturbances {
    pub const ALL: Disturbances = Disturbances {
        kill: true,
        pause: true,
        unblock: true,
        half_close: true,
        slow: true,
        expiry: true,
        world: true,
        streams: true,
        tracking: true,
        scripts: true,
    };

    fn any_of_clients(self) -> bool {
        self.kill || self.pause || self.unblock
    }
}

/// Names separated by commas; also `all` and `none`.
impl FromStr for Disturbances {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut with = Disturbances::default();
        for name in text.split(',') {
            match name {
                "all" => with = Disturbances::ALL,
                "none" => with = Disturbances::default(),
                "kill" => with.kill = true,
                "pause" => with.pause = true,
                "unblock" => with.unblock = true,
                "half-close" => with.half_close = true,
                "slow" => with.slow = true,
                "expiry" => with.expiry = true,
                "world" => with.world = true,
                "streams" => with.streams = true,
                "tracking" => with.tracking = true,
                "scripts" => with.scripts = true,
                other => return Err(format!("no disturbance {other}")),
            }
        }
        Ok(with)
    }
}

/// A client as the disturber knows it.
#[derive(Debug, Default)]
pub struct Target {
    /// The number of its connection, and the server's id of it.
    pub connection: Mutex<(u32, i64)>,
    /// Whether it runs a blocking command.
    pub waits: AtomicBool,
    /// Held while a KILL of it runs.
    pub kill: Mutex<()>,
}

/// Milliseconds of a pause. Longer than most operations take, and short since 8 clients wait
/// meanwhile.
const PAUSE_MS: [u64; 4] = [1, 3, 8, 15];

/// Disturbs `targets` until none is `running`.
pub fn disturb(
    server: &Server,
    with: Disturbances,
    clock: Clock,
    targets: &[Target],
    running: &AtomicUsize,
    mut rng: Rng,
) -> Vec<Event> {
    let mut events = Vec::new();
    if !with.any_of_clients() {
        return events;
    }
    let mut client = server.client();
    while running.load(Ordering::Relaxed) > 0 {
        if let Some(op) = draw(with, targets, &mut rng) {
            events.push(perform(&mut client, clock, op, targets));
        }
        std::thread::sleep(Duration::from_micros(500 + rng.below(4000) as u64));
    }
    client.ok(&["CLIENT", "UNPAUSE"]);
    events
}

/// Keeps up to three shards busy most of the time, until no client is `running`: scripts that need them start over. It
/// reads and writes nothing, so the history needs no events of it.
pub fn hold_shards(server: &Server, groups: usize, running: &AtomicUsize, mut rng: Rng) {
    // About half a millisecond; in the slow lane, unless the machine is fast.
    const COUNT: &str = "for n = 1, 100000 do end";
    let mut client = server.client();
    while running.load(Ordering::Relaxed) > 0 {
        let mut key = || {
            let group = rng.below(groups);
            format!("{}{group}{}", rng.pick(&["s", "s", "n", "l", "m", "h", "z"]), rng.below(3))
        };
        client.cmd(&["EVAL", COUNT, "3", &key(), &key(), &key()]);
        std::thread::sleep(Duration::from_micros(rng.below(1500) as u64));
    }
}

fn draw(with: Disturbances, targets: &[Target], rng: &mut Rng) -> Option<Op> {
    let client = rng.below(targets.len());
    let (connection, id) = *targets[client].connection.lock().expect("no holder panics");
    if id == 0 {
        // It isn't connected yet.
        return None;
    }
    match rng.below(10) {
        0 | 1 if with.kill => Some(Op::Kill { client, connection }),
        2..=6 if with.unblock => {
            let waits = |at: &usize| targets[*at].waits.load(Ordering::Relaxed);
            let client = (0..targets.len()).find(waits).unwrap_or(client);
            let (connection, _) = *targets[client].connection.lock().expect("no holder panics");
            Some(Op::Unblock { client, connection, error: rng.percent(50) })
        }
        7 if with.pause => Some(Op::Pause { ms: *rng.pick(&PAUSE_MS), all: rng.percent(40) }),
        8 if with.pause => Some(Op::Unpause),
        _ => None,
    }
}

fn perform(client: &mut Client, clock: Clock, op: Op, targets: &[Target]) -> Event {
    // The client may have another connection by now. Then the id doesn't exist, and the command has
    // no effect.
    let id = |client: usize, connection: u32| {
        let now = *targets[client].connection.lock().expect("no holder panics");
        if now.0 == connection { now.1.to_string() } else { "999999999".to_string() }
    };
    let words: Vec<String> = match &op {
        Op::Kill { client, connection } => {
            ["CLIENT", "KILL", "ID", &id(*client, *connection)].map(String::from).into()
        }
        Op::Unblock { client, connection, error } => {
            let how = if *error { "ERROR" } else { "TIMEOUT" };
            ["CLIENT", "UNBLOCK", &id(*client, *connection), how].map(String::from).into()
        }
        Op::Pause { ms, all } => {
            let mode = if *all { "ALL" } else { "WRITE" };
            ["CLIENT", "PAUSE", &ms.to_string(), mode].map(String::from).into()
        }
        Op::Unpause => ["CLIENT", "UNPAUSE"].map(String::from).into(),
        Op::Command(_) | Op::Watch(_) | Op::Exec(_) => unreachable!("other clients run these"),
    };
    let _kill = match &op {
        Op::Kill { client, .. } => Some(targets[*client].kill.lock().expect("no holder panics")),
        _ => None,
    };
    let call = clock.now();
    let answer = Answer::of(&client.cmd(&words));
    Event { op, call, ret: clock.now(), answer: Some(answer), connection: 0, half_closed: false }
}
