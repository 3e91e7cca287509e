//! Sessions about access control lists on two servers: random rules, and what users may do under them.
//!
//! An administrator defines users by random rules, valid or not, and asks about them. Clients log in as these users and
//! send commands. Both servers use the same ACL file, one after the other: they must write the same text, and understand
//! the same random text.
//!
//! A run consists of episodes with a seed each, as in the rest of this crate.

pub mod draw;

use draw::{Names, Step};
use std::path::Path;
use weft_testkit::client::{Client, describe};
use weft_testkit::rng::Rng;
use weft_testkit::value::Value;

/// Steps of an episode.
const STEPS: usize = 400;

/// Clients that log in as users.
const CLIENTS: usize = 3;

/// A difference between two servers.
#[derive(Debug)]
pub struct Difference {
    pub seed: u64,
    /// The steps of the episode up to the difference, one a line.
    pub steps: Vec<String>,
    pub ours: String,
    pub theirs: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Difference { seed, steps, ours, theirs } = self;
        let last = &steps[steps.len().saturating_sub(40)..];
        write!(f, "seed {seed}, after\n  {}\nours\n  {ours}\ntheirs\n  {theirs}", last.join("\n  "))
    }
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    pub commands: usize,
    /// Replies without error.
    pub successes: usize,
}

/// The two servers.
#[derive(Clone, Copy, Debug)]
pub struct Servers<'a> {
    /// Their ports; the reference is the second one.
    pub ports: [u16; 2],
    /// The ACL file of both.
    pub file: &'a Path,
}

/// Runs episodes until `commands` were sent. The first difference ends the run.
///
/// # Errors
/// The difference.
pub fn run(servers: Servers<'_>, seed: u64, commands: usize) -> Result<Outcome, Box<Difference>> {
    let mut outcome = Outcome::default();
    let names = Names::of(&mut Client::tcp(servers.ports[1]));
    let mut seed = seed;
    while outcome.commands < commands {
        let mut episode = Episode::new(servers, seed);
        for _ in 0..STEPS {
            let step = draw::step(&mut episode.rng, &names);
            episode.play(step, &mut outcome)?;
        }
        seed += 1;
    }
    Ok(outcome)
}

struct Episode<'a> {
    servers: Servers<'a>,
    seed: u64,
    rng: Rng,
    administrators: [Client; 2],
    clients: Vec<[Client; 2]>,
    steps: Vec<String>,
}

impl<'a> Episode<'a> {
    fn new(servers: Servers<'a>, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let version = if rng.percent(50) { 2 } else { 3 };
        let connect = || {
            servers.ports.map(|port| {
                let mut client = Client::tcp(port);
                client.hello(version);
                client
            })
        };
        let mut administrators = connect();
        for administrator in &mut administrators {
            for name in draw::USERS {
                administrator.cmd(&["ACL", "DELUSER", name]);
            }
            administrator.cmd(&["ACL", "LOG", "RESET"]);
            administrator.cmd(&["CONFIG", "SET", "acl-pubsub-default", "resetchannels"]);
            administrator.cmd(&["FLUSHALL"]);
        }
        let clients = (0..CLIENTS).map(|_| connect()).collect();
        Episode { servers, seed, rng, administrators, clients, steps: Vec::new() }
    }

    fn play(&mut self, step: Step, outcome: &mut Outcome) -> Result<(), Box<Difference>> {
        match step {
            Step::Administrator(args) => {
                self.steps.push(describe(&args));
                let replies = self.administrators.each_mut().map(|client| answer(client, &args));
                self.compare(replies, outcome)
            }
            Step::Client(n, args) => {
                self.steps.push(format!("client {n}: {}", describe(&args)));
                let pair = &mut self.clients[n % CLIENTS];
                let replies = pair.each_mut().map(|client| answer(client, &args));
                if replies.iter().any(Option::is_none) {
                    *pair = self.servers.ports.map(Client::tcp);
                }
                self.compare(replies, outcome)
            }
            Step::Load(text) => {
                self.steps.push(format!("file {}", describe(&[&text])));
                std::fs::write(self.servers.file, &text).expect("the ACL file can be written");
                self.play(Step::Administrator(draw::words("ACL LOAD")), outcome)
            }
            Step::Save => {
                self.steps.push("ACL SAVE".into());
                let file = self.servers.file;
                let texts = self.administrators.each_mut().map(|client| {
                    let reply = client.cmd(&["ACL", "SAVE"]);
                    let text = std::fs::read(file).unwrap_or_default();
                    Some(Value::Array(vec![reply, Value::Bulk(text)]))
                });
                self.compare(texts, outcome)
            }
        }
    }

    fn compare(
        &self,
        replies: [Option<Value>; 2],
        outcome: &mut Outcome,
    ) -> Result<(), Box<Difference>> {
        outcome.commands += 1;
        let [ours, theirs] = replies;
        let is_error = matches!(theirs, Some(Value::Error(_)) | None);
        outcome.successes += usize::from(!is_error);
        if ours == theirs {
            return Ok(());
        }
        let show = |reply: Option<Value>| reply.map_or("closed".into(), |r| r.to_string());
        Err(Box::new(Difference {
            seed: self.seed,
            steps: self.steps.clone(),
            ours: show(ours),
            theirs: show(theirs),
        }))
    }
}

/// The reply in a form that can be compared. `None`: the server has closed the connection.
fn answer(client: &mut Client, args: &[Vec<u8>]) -> Option<Value> {
    let value = client.try_cmd(args).ok()?.value;
    let is = |at: usize, word: &str| {
        args.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    };
    Some(match value {
        // The order of the reference is that of its hash table.
        Value::Array(mut names) if is(0, "acl") && is(1, "cat") => {
            names.sort_by_key(Value::text);
            Value::Array(names)
        }
        Value::Array(entries) if is(0, "acl") && is(1, "log") => {
            Value::Array(entries.into_iter().map(without_times).collect())
        }
        Value::Array(replies) if is(0, "exec") => {
            Value::Array(replies.into_iter().map(without_name).collect())
        }
        value => without_name(value),
    })
}

/// OK instead of the reply to HELLO, which names the server.
fn without_name(reply: Value) -> Value {
    let first = match &reply {
        Value::Map(fields) => fields.first().map(|(name, _)| name),
        Value::Array(fields) => fields.first(),
        _ => None,
    };
    match first {
        Some(Value::Bulk(name)) if name == b"server" => Value::Simple(b"OK".to_vec()),
        _ => reply,
    }
}

/// An entry of ACL LOG without times and the client's address.
fn without_times(entry: Value) -> Value {
    const VARIES: [&str; 4] =
        ["age-seconds", "client-info", "timestamp-created", "timestamp-last-updated"];
    let varies = |name: &Value| VARIES.contains(&name.text().as_str());
    match entry {
        Value::Map(mut fields) => {
            fields.retain(|(name, _)| !varies(name));
            Value::Map(fields)
        }
        Value::Array(fields) => {
            let pairs = fields.chunks(2).filter(|pair| !varies(&pair[0]));
            Value::Array(pairs.flatten().cloned().collect())
        }
        other => other,
    }
}
