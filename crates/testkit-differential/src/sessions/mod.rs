//! Sessions of several clients on two servers; pushes are compared as well as replies.
//!
//! Like the rest of this crate, for several clients at once. Clients subscribe and publish
//! ([`draw`]), or cache values and change them ([`caching`]), and change their own state, in a
//! random order. Both servers get the same steps one after the other, and each client must receive the
//! same bytes in the same order.
//!
//! ```text
//!  a step of client 3        its bytes, then PING with a new word      read until the word comes
//!                            (twice: the reference sends some messages only before it sleeps)
//!  from time to time         all clients: PING with a new word         read until the word comes
//! ```
//!
//! A message that was published before the PING precedes its reply. So after the reply the client
//! has received all messages. This holds for the reference, and must hold for the other server.
//!
//! Consecutive invalidations may have any order. Where the reference's order is that of its hash table (the patterns
//! that one message matches, the channels of an UNSUBSCRIBE without arguments), both transcripts are sorted:
//! [`transcript`].

pub mod caching;
pub mod draw;
pub mod transcript;

use draw::Step;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use transcript::Frame;
use weft_testkit::client::{Client, describe, encode};
use weft_testkit::rng::Rng;

/// Clients of an episode.
const CLIENTS: usize = 6;

/// Steps between two checks of all clients.
const ROUND: usize = 6;

/// The timeout of a reply.
const PATIENCE: Duration = Duration::from_secs(20);

/// The subject of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// They subscribe and publish.
    PubSub,
    /// They cache values.
    Caching,
}

impl Topic {
    fn step(self, rng: &mut Rng) -> Step {
        match self {
            Topic::PubSub => draw::step(rng),
            Topic::Caching => caching::step(rng, CLIENTS),
        }
    }
}

/// A difference between two servers.
#[derive(Debug)]
pub struct Difference {
    pub seed: u64,
    /// The steps of the episode up to the difference, one a line.
    pub steps: Vec<String>,
    pub client: usize,
    pub ours: Vec<Frame>,
    pub theirs: Vec<Frame>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Difference { seed, steps, client, ours, theirs } = self;
        let last = &steps[steps.len().saturating_sub(60)..];
        writeln!(f, "seed {seed}, client {client}, after\n  {}", last.join("\n  "))?;
        writeln!(f, "ours\n  {}", show(ours))?;
        writeln!(f, "theirs\n  {}", show(theirs))
    }
}

fn show(frames: &[Frame]) -> String {
    frames.iter().map(Frame::to_string).collect::<Vec<_>>().join("\n  ")
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    pub commands: usize,
    /// Compared frames.
    pub frames: usize,
    /// Messages and invalidations among them.
    pub messages: usize,
}

/// One client of one server.
struct Peer {
    port: u16,
    client: Client,
    /// The server's id of this connection, and the number of connections so far.
    id: i64,
    connection: usize,
    frames: Vec<Frame>,
}

impl Peer {
    fn new(port: u16) -> Peer {
        let (client, id) = connect(port);
        Peer { port, client, id, connection: 0, frames: Vec::new() }
    }

    /// Sends `bytes`, and a PING with `word`; reads up to its reply.
    fn exchange(&mut self, bytes: &[u8], word: &str) {
        let mut all = bytes.to_vec();
        all.extend(encode(&["PING", word]));
        // An error shows again when the connection is read.
        let _ = self.client.send_raw(&all);
        loop {
            match self.client.read_frame() {
                Ok(reply) => {
                    let frame = Frame::of(&reply);
                    if frame.is_answer(word) {
                        return;
                    }
                    self.frames.push(frame);
                }
                Err(e) if is_end(&e) => {
                    self.frames.push(Frame::End);
                    (self.client, self.id) = connect(self.port);
                    self.connection += 1;
                    return;
                }
                Err(e) => {
                    self.frames.push(Frame::Failed(e.to_string()));
                    return;
                }
            }
        }
    }
}

fn is_end(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}

fn connect(port: u16) -> (Client, i64) {
    let mut client = Client::tcp(port);
    client.set_timeout(PATIENCE);
    // By then other clients see it in CLIENT LIST.
    let id = client.cmd(&["CLIENT", "ID"]).int();
    (client, id)
}

/// Waits until the clients of other episodes have gone.
fn until_alone(client: &mut Client) {
    let count = |client: &mut Client| client.cmd(&["CLIENT", "LIST"]).text().lines().count();
    for _ in 0..2000 {
        if count(client) == CLIENTS {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("clients of another episode are still there");
}

/// Episodes of `steps` steps, until `commands` were sent; the first difference ends the run.
pub fn run(
    ours: u16,
    theirs: u16,
    first_seed: u64,
    commands: usize,
    steps: usize,
    topic: Topic,
) -> Result<Outcome, Box<Difference>> {
    let mut outcome = Outcome::default();
    let mut seed = first_seed;
    while outcome.commands < commands {
        episode([ours, theirs], seed, steps, topic, &mut outcome)?;
        seed += 1;
    }
    Ok(outcome)
}

fn episode(
    ports: [u16; 2],
    seed: u64,
    steps: usize,
    topic: Topic,
    outcome: &mut Outcome,
) -> Result<(), Box<Difference>> {
    let mut rng = Rng::new(seed);
    let mut pairs: Vec<[Peer; 2]> = (0..CLIENTS).map(|_| ports.map(Peer::new)).collect();
    for peer in &mut pairs[0] {
        until_alone(&mut peer.client);
        peer.client.ok(&["FLUSHALL"]);
    }
    let mut ids = Ids::default();
    let mut told = Vec::new();
    let mut words = 0;
    for n in 0..steps {
        let at = rng.below(CLIENTS);
        let Step { mut commands } = topic.step(&mut rng);
        if topic == Topic::Caching && n % ROUND == 0 {
            // The number of tracked keys.
            commands = vec![draw::words("INFO stats")];
        }
        outcome.commands += commands.len();
        ids.note(&pairs);
        let bytes = [0, 1].map(|server| ids.bytes(&pairs, server, &commands));
        told.extend(commands.iter().map(|args| format!("{at}: {}", describe(args))));
        // A client that this closes must notice at once, so that no step sends to it.
        let acting = if n % ROUND == ROUND - 1 || n == steps - 1 { 0..CLIENTS } else { at..at + 1 };
        // Unread data of a closed connection may be lost.
        let closes = commands.iter().any(|args| args.iter().any(|arg| arg == b"KILL"));
        for other in (0..CLIENTS).filter(|_| closes) {
            words += 1;
            exchange(&mut pairs[other], &NOTHING, &format!("word:{words}"));
        }
        words += 1;
        let word = format!("word:{words}");
        exchange(&mut pairs[at], &bytes, &word);
        for other in acting.filter(|other| *other != at) {
            words += 1;
            exchange(&mut pairs[other], &NOTHING, &format!("word:{words}"));
        }
        for (client, pair) in pairs.iter_mut().enumerate() {
            compare(pair, &ids, outcome).map_err(|(ours, theirs)| {
                Box::new(Difference { seed, steps: told.clone(), client, ours, theirs })
            })?;
        }
    }
    Ok(())
}

/// No commands, for both servers.
const NOTHING: [Vec<u8>; 2] = [Vec::new(), Vec::new()];

fn exchange(pair: &mut [Peer; 2], bytes: &[Vec<u8>; 2], word: &str) {
    for (peer, bytes) in pair.iter_mut().zip(bytes) {
        peer.exchange(bytes, word);
        if !bytes.is_empty() {
            peer.exchange(&[], &format!("{word}'"));
        }
    }
}

/// The present and past ids of connections, by server.
#[derive(Debug, Default)]
pub struct Ids([BTreeMap<i64, String>; 2]);

impl Ids {
    fn note(&mut self, pairs: &[[Peer; 2]]) {
        for (client, pair) in pairs.iter().enumerate() {
            for (server, peer) in pair.iter().enumerate() {
                self.0[server].insert(peer.id, format!("@{client}.{}", peer.connection));
            }
        }
    }

    /// The bytes for one of the servers.
    fn bytes(&self, pairs: &[[Peer; 2]], server: usize, commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let named = |arg: &Vec<u8>| {
            let client =
                std::str::from_utf8(arg.strip_prefix(b"@")?).ok()?.parse::<usize>().ok()?;
            Some(pairs.get(client)?[server].id.to_string().into_bytes())
        };
        let of = |args: &Vec<Vec<u8>>| {
            let args: Vec<Vec<u8>> =
                args.iter().map(|arg| named(arg).unwrap_or_else(|| arg.clone())).collect();
            encode(&args)
        };
        commands.iter().flat_map(of).collect()
    }

    /// The name of the connection with this id on one of the servers.
    fn name(&self, server: usize, id: i64) -> String {
        self.0[server].get(&id).cloned().unwrap_or_else(|| id.to_string())
    }
}

/// Compares the frames that the client has received since the last comparison.
fn compare(
    pair: &mut [Peer; 2],
    ids: &Ids,
    outcome: &mut Outcome,
) -> Result<(), (Vec<Frame>, Vec<Frame>)> {
    let [ours, theirs] = pair.each_mut().map(|peer| std::mem::take(&mut peer.frames));
    let named = |server: usize, frames: Vec<Frame>| {
        frames.into_iter().map(|frame| frame.with_names(|id| ids.name(server, id))).collect()
    };
    let (ours, theirs): (Vec<Frame>, Vec<Frame>) = (named(0, ours), named(1, theirs));
    outcome.frames += theirs.len();
    outcome.messages += theirs.iter().filter(|frame| frame.is_message()).count();
    let (ours, theirs) = (transcript::sorted(ours), transcript::sorted(theirs));
    if ours == theirs { Ok(()) } else { Err((ours, theirs)) }
}
