//! Clients that make histories: random operations on few keys in several shards, all types.
//!
//! Values are unique, so that a read tells which write it saw; keys are few, so that clients meet.
//! Lists are kept short by popping more than is pushed.

use super::{Answer, Event, History, Op};
use crate::rng::Rng;
use crate::{Client, Server};
use std::time::Instant;

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub clients: usize,
    /// Operations of each client.
    pub operations: usize,
    pub seed: u64,
}

/// Has the clients run at the same time on `server`, which must be empty.
pub fn record(server: &Server, load: Load) -> History {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..load.clients)
            .map(|n| scope.spawn(move || run(server.client(), load, n, start)))
            .collect();
        clients.into_iter().map(|c| c.join().expect("a client has failed")).collect()
    })
}

fn run(mut client: Client, load: Load, number: usize, start: Instant) -> Vec<Event> {
    let mut rng = Rng::new(load.seed.wrapping_mul(1000) + number as u64);
    let mut events = Vec::with_capacity(load.operations);
    let mut watching = false;
    for n in 0..load.operations {
        let op = draw(&mut rng, &format!("{number}.{n}"), &mut watching);
        let call = start.elapsed().as_nanos() as u64;
        let answer = perform(&mut client, &op);
        let ret = start.elapsed().as_nanos() as u64;
        events.push(Event { op, call, ret, answer });
    }
    events
}

fn perform(client: &mut Client, op: &Op) -> Answer {
    match op {
        Op::Command(args) => Answer::of(&client.cmd(args)),
        Op::Watch(keys) => {
            let args: Vec<&str> =
                std::iter::once("WATCH").chain(keys.iter().map(String::as_str)).collect();
            Answer::of(&client.cmd(&args))
        }
        Op::Exec(commands) => {
            let mut batch = vec![vec!["MULTI".to_string()]];
            batch.extend(commands.iter().cloned());
            batch.push(vec!["EXEC".to_string()]);
            let replies = client.pipeline(&batch).expect("the server answers");
            Answer::of(&replies.last().expect("EXEC is answered").value)
        }
    }
}

fn words(line: String) -> Vec<String> {
    line.split(' ').map(String::from).collect()
}

/// A command that ends at once. `unique` is a value that no other operation has.
fn command(rng: &mut Rng, unique: &str) -> Vec<String> {
    let text = |rng: &mut Rng| format!("s{}", rng.below(4));
    let list = |rng: &mut Rng| format!("l{}", rng.below(3));
    let set = |rng: &mut Rng| format!("m{}", rng.below(3));
    let end = |rng: &mut Rng| *rng.pick(&["LEFT", "RIGHT"]);
    let line = match rng.below(24) {
        0..=3 => format!("GET {}", text(rng)),
        4 | 5 => format!("SET {} {unique}", text(rng)),
        6 => format!("GETSET {} {unique}", text(rng)),
        7 => format!("DEL {} {}", text(rng), list(rng)),
        8 | 9 => format!("INCRBY n{} {}", rng.below(2), rng.between(-2, 2)),
        10 => "MGET s0 s1 s2 s3 n0 n1".into(),
        11 => format!("MSET {} {unique} {} {unique}", text(rng), text(rng)),
        12 => format!("RPUSH {} {unique}", list(rng)),
        13 => format!("LPUSH {} {unique}", list(rng)),
        14 => format!("LPOP {}", list(rng)),
        15 => format!("RPOP {}", list(rng)),
        16 => format!("LRANGE {} 0 -1", list(rng)),
        17 => format!("LMOVE {} {} {} {}", list(rng), list(rng), end(rng), end(rng)),
        18 => format!("SADD {} {}", set(rng), rng.below(5)),
        19 => format!("SMOVE {} {} {}", set(rng), set(rng), rng.below(5)),
        20 => format!("SINTERCARD 2 {} {}", set(rng), set(rng)),
        21 => format!("HINCRBY h{} f{} 1", rng.below(2), rng.below(2)),
        22 => format!("ZADD z{} {} {}", rng.below(2), rng.below(9), rng.below(5)),
        _ => format!("ZPOPMIN z{}", rng.below(2)),
    };
    words(line)
}

fn draw(rng: &mut Rng, unique: &str, watching: &mut bool) -> Op {
    match rng.below(20) {
        0..=4 => {
            *watching = false;
            let n = 2 + rng.below(4);
            Op::Exec((0..n).map(|i| command(rng, &format!("{unique}.{i}"))).collect())
        }
        5 if !*watching => {
            *watching = true;
            Op::Watch(vec![format!("s{}", rng.below(4)), format!("l{}", rng.below(3))])
        }
        6 => Op::Command(words(format!("BLPOP l{} l{} 0.002", rng.below(3), rng.below(3)))),
        7 => Op::Command(words(format!(
            "BLMOVE l{} l{} LEFT RIGHT 0.002",
            rng.below(3),
            rng.below(3)
        ))),
        _ => Op::Command(command(rng, unique)),
    }
}
