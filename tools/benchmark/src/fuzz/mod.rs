//! `--fuzz`: random commands, made from the server's own description of its commands.
//!
//! ```text
//! COMMAND DOCS ─► table ─► generate (values) ─► malform ─► forbidden ─► script ─► client
//! CONFIG GET * ─► config ──────┘                                          one thread per group
//! ```
//!
//! The server may refuse any command. If it closes a connection, hangs, or sends a malformed reply,
//! the run ends and prints the last command of each client.
//!
//! The reference counts a few kinds of errors and treats the others as success. Here each error
//! counts. A broken connection is not reopened, since that would hide a crash.

mod client;
mod config;
mod forbidden;
mod generate;
mod log;
mod malform;
mod script;
mod table;
mod totals;
mod values;

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::control::PATIENCE;
use crate::options::{Amount, Fuzz, Options};
use crate::run::plain;
use crate::session::Session;

use client::Client;
use config::Parameters;
use log::{Log, readable, say};
use script::{Material, Script};
use table::Table;
use totals::Totals;

/// The most threads; further clients share them.
const THREADS: usize = 32;

/// Tags of keys per node of a cluster. Few, so that commands use each other's values.
const TAGS: usize = 8;

/// Printed bytes of an argument after a failed run.
const LONG: usize = 1000;

/// The state that all threads share.
struct Shared {
    stop: AtomicBool,
    answered: AtomicU64,
    deadline: Option<Instant>,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.deadline.is_some_and(|end| Instant::now() >= end)
    }
}

/// Runs the fuzzer.
///
/// # Errors
/// If the server can't be reached or doesn't list its commands; after a failure, with the last command of each
/// client.
pub fn run(session: &Session, options: &Options, fuzz: &Fuzz) -> Result<(), String> {
    let log = Log(fuzz.level);
    if let Some(level) = &fuzz.unknown_level {
        log.info(&format!("Invalid log level '{level}', using default 'info'"));
    }
    let material = learn(session, fuzz).map_err(|e| format!("Error: {}", plain(&e)))?;
    let count = options.clients as u64;
    let (each, all, duration) = match options.amount {
        Amount::Requests(n) => ((n / count).max(1), n, None),
        Amount::Time(time) => (u64::MAX, u64::MAX, Some(time)),
    };
    let clients = connect(session, options, &material, log, each)?;
    match duration {
        None => say(&format!(
            "Running fuzzer with {count} clients, {each} commands per client ({all} total commands)\n"
        )),
        Some(time) => say(&format!("Running fuzzer with {count} clients for {time:?}\n")),
    }
    let shared = Shared {
        stop: AtomicBool::new(false),
        answered: AtomicU64::new(0),
        deadline: duration.map(|time| Instant::now() + time),
    };
    let ended = run_all(clients, &shared, duration.is_none().then_some(all));
    say("\n");
    let failure = failure(&ended, options.seed);
    summarize(&ended, log);
    match failure {
        Some(failure) => Err(failure),
        None => alive(session),
    }
}

/// Reads the server's commands and parameters.
fn learn(session: &Session, fuzz: &Fuzz) -> io::Result<Material> {
    let mut control = session.control(0)?;
    let table = Table::fetch(&mut control)?;
    let parameters = match fuzz.config {
        true => Parameters::new(&control.ask(&["CONFIG", "GET", "*"])?),
        false => Parameters::default(),
    };
    Ok(Material::new(table, parameters, fuzz))
}

fn connect<'a>(
    session: &'a Session,
    options: &Options,
    material: &'a Material,
    log: Log,
    each: u64,
) -> Result<Vec<Client<'a>>, String> {
    let nodes = session.names.len();
    let one = |number: usize| {
        let node = (number - 1) % nodes;
        let seed = options.seed.wrapping_add((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let script = Script::new(material, seed, tags(session, node));
        Client::connect(number, session, script, log, each).map_err(|e| {
            format!("Could not connect to server at {}: {}", session.names[node], plain(&e))
        })
    };
    (1..=options.clients).map(one).collect()
}

/// Tags that hash to a node of a cluster; none without a cluster.
fn tags(session: &Session, node: usize) -> Vec<[u8; 3]> {
    let Some(cluster) = &session.cluster else { return Vec::new() };
    let nodes = cluster.nodes();
    let slots = nodes.get(node).map_or(&[][..], |node| &node.slots);
    slots.iter().take(TAGS).map(|slot| cluster.tag(*slot)).collect()
}

/// A client at its end, and the error that ended it early.
type Ended<'a> = (Client<'a>, Option<io::Error>);

/// Runs all clients to their end, in their order.
fn run_all<'a>(clients: Vec<Client<'a>>, shared: &Shared, all: Option<u64>) -> Vec<Ended<'a>> {
    let threads = clients.len().min(THREADS);
    let mut groups: Vec<Vec<Ended>> = (0..threads).map(|_| Vec::new()).collect();
    for (nth, client) in clients.into_iter().enumerate() {
        groups[nth % threads].push((client, None));
    }
    let (done, inbox) = mpsc::channel::<()>();
    let mut ended: Vec<Ended> = std::thread::scope(|scope| {
        let handles: Vec<_> = groups
            .into_iter()
            .map(|mut group| {
                let done = done.clone();
                scope.spawn(move || {
                    run_group(&mut group, shared);
                    drop(done);
                    group
                })
            })
            .collect();
        drop(done);
        watch(&inbox, shared, all);
        handles.into_iter().flat_map(|handle| joined(handle.join())).collect()
    });
    ended.sort_by_key(|(client, _)| client.number);
    ended
}

/// The result of a thread; a panic is propagated.
fn joined<T>(result: std::thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// One command of each client: all are sent before the first reply is read.
fn run_group(group: &mut [Ended], shared: &Shared) {
    while !shared.is_over() && group.iter().any(|(client, _)| client.left > 0) {
        for (client, failed) in group.iter_mut().filter(|(client, _)| client.left > 0) {
            if let Err(e) = client.send() {
                *failed = Some(e);
            }
        }
        for (client, failed) in group.iter_mut().filter(|(client, _)| client.is_waiting()) {
            match client.receive() {
                _ if failed.is_some() => {}
                Ok(()) => drop(shared.answered.fetch_add(1, Ordering::Relaxed)),
                Err(e) => {
                    if e.kind() == ErrorKind::InvalidData {
                        client.totals.malformed += 1;
                    }
                    *failed = Some(e);
                }
            }
        }
        if group.iter().any(|(_, failed)| failed.is_some()) {
            shared.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Prints the progress every second, until all threads are done.
fn watch(inbox: &mpsc::Receiver<()>, shared: &Shared, all: Option<u64>) {
    let began = Instant::now();
    while let Err(RecvTimeoutError::Timeout) = inbox.recv_timeout(Duration::from_secs(1)) {
        let answered = shared.answered.load(Ordering::Relaxed);
        let rate = answered as f64 / began.elapsed().as_secs_f64();
        match all {
            Some(all) => {
                let percent = answered as f64 * 100.0 / all.max(1) as f64;
                say(&format!(
                    "\rProgress: {answered}/{all} commands ({percent:.1}%), {rate:.1} rps"
                ));
            }
            None => say(&format!("\rProgress: {answered} commands, {rate:.1} rps")),
        }
    }
}

/// The failure, if there was one.
fn failure(ended: &[Ended], seed: u64) -> Option<String> {
    let (first, error) =
        ended.iter().find_map(|(client, failed)| failed.as_ref().map(|e| (client, e)))?;
    let mut text = format!("Error: {} (client {})\n", words(error), first.number);
    text += "The last command of each client, those without a reply with a star:\n";
    for (client, failed) in ended {
        let star = if client.is_waiting() || failed.is_some() { '*' } else { ' ' };
        text += &format!("{star}{:>4}  {}\n", client.number, readable(&client.last, LONG));
    }
    text += &format!("The seed was {seed}; --fuzz-loglevel debug shows all commands.");
    Some(text)
}

/// A connection error as text.
fn words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "Server closed the connection".to_string()
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("Server did not answer for {} s", PATIENCE.as_secs())
        }
        _ => plain(error),
    }
}

fn summarize(ended: &[Ended], log: Log) {
    let failed = ended.iter().filter(|(_, failed)| failed.is_some()).count();
    let succeeded = ended.len() - failed;
    let mut totals = Totals::default();
    ended.iter().for_each(|(client, _)| totals.add(&client.totals));
    log.info(&format!("All client threads completed. {succeeded} succeeded, {failed} failed."));
    totals.lines().iter().for_each(|line| log.info(line));
    if log.0 == crate::options::Level::Debug {
        ended.iter().for_each(|(client, _)| client.print_errors());
    } else if totals.has_errors() {
        log.info("To see full error details, run with --fuzz-loglevel debug");
    }
}

/// Whether the server still answers, on a new connection.
fn alive(session: &Session) -> Result<(), String> {
    for (node, name) in session.names.iter().enumerate() {
        session
            .control(node)
            .and_then(|mut control| control.ask(&["PING"]))
            .map_err(|e| format!("Error: after the last command, {name}: {}", words(&e)))?;
    }
    Ok(())
}
