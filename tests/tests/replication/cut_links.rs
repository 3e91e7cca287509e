//! Eight clients write all kinds of things for a while, and meanwhile links are cut at random, about every
//! second: in the end every server has the same, at the same offset, was copied to once, and went on where
//! it was after each cut.
//!
//! | variable | means |
//! |---|---|
//! | `REPL_SECONDS` | how long each pair or chain is written to (default 3) |
//! | `REPL_RATE` | writes a second of all clients together (default 2000; 0: as many as there can be) |
//! | `REPL_SEED` | what is written, and when is cut |
//! | `REPL_BACKLOG` | what is kept for who was away (default 64mb); with less, copies are made, and only what is there in the end counts |
//! | `REPL_CHAIN` | one more chain, as in `valkey-server,valkey-server`: whether it is the reference that differs |
//!
//! A pairing is a test, so several may be let run side by side.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, locate, skipped};
use weft_tests::env_or;
use weft_tests::persistence::until;
use weft_tests::replicas::{Link, caught_up, fields, fill, follower, number, same_data};
use weft_tests::replication::info;
use weft_tests::traffic::{self, Pace, same_groups, untold};

const WRITERS: u64 = 8;
/// Whatever is written while a replica finds its way back.
const BACKLOG: &str = "64mb";
/// Printed of each server when the test fails.
const LOG_LINES: usize = 150;

/// Servers, each below the one before it, and the links between them.
struct Chain {
    servers: Vec<Server>,
    links: Vec<Link>,
}

/// What happened.
#[derive(Default)]
struct Tally {
    writes: AtomicU64,
    /// Of each link.
    cuts: Vec<usize>,
}

/// A program by its name; `None` when it is not there, which is noted.
fn program(name: &'static str) -> Option<PathBuf> {
    let found = match name {
        "weft" => Some(locate::weft().to_path_buf()),
        _ => locate::peer(name),
    };
    if found.is_none() {
        skipped::note_here(name);
    }
    found
}

impl Chain {
    fn new(programs: &[(&'static str, PathBuf)]) -> Chain {
        let (mut servers, mut links) = (Vec::<Server>::new(), Vec::new());
        for (name, program) in programs {
            let server = match servers.last() {
                None => {
                    let server = Server::start(name, program, &options(name));
                    let knows = |name: &str| name == "weft" || name.starts_with("valkey");
                    fill(&server, 1, programs.iter().all(|(name, _)| knows(name)));
                    server
                }
                Some(above) => {
                    let link = Link::to(above.port());
                    let server = follower(name, program, link.port(), &options(name));
                    caught_up(above, &server);
                    links.push(link);
                    server
                }
            };
            servers.push(server);
        }
        Chain { servers, links }
    }

    /// Clients write, and links are cut, for so long.
    fn live(&self, seed: u64, how_long: Duration) -> Tally {
        let mut tally = Tally { cuts: vec![0; self.links.len()], ..Tally::default() };
        let is_over = AtomicBool::new(false);
        let mut cuts = vec![0; self.links.len()];
        std::thread::scope(|scope| {
            let ends = Ends(&is_over);
            for writer in 0..WRITERS {
                let mut client = self.servers[0].client();
                let (is_over, writes) = (&is_over, &tally.writes);
                let mut pace = Pace::new(env_or("REPL_RATE", 2000) / WRITERS as usize);
                scope.spawn(move || {
                    let mut rng = Rng::new(seed * 100 + writer);
                    while !is_over.load(Ordering::Relaxed) {
                        traffic::write(&mut client, &mut rng);
                        writes.fetch_add(1, Ordering::Relaxed);
                        pace.wait();
                    }
                });
            }
            let (mut rng, end) = (Rng::new(seed), Instant::now() + how_long);
            while Instant::now() < end {
                std::thread::sleep(Duration::from_millis(200 + rng.below(1600) as u64));
                let at = rng.below(self.links.len());
                self.cut(at, &mut rng);
                cuts[at] += 1;
            }
            drop(ends);
        });
        tally.cuts = cuts;
        tally
    }

    /// Cuts a link, and waits until who is below it has gone on. Now and then it is cut again while that
    /// is under way.
    fn cut(&self, at: usize, rng: &mut Rng) {
        let mut above = self.servers[at].client();
        let before = went_on(&mut above);
        self.links[at].cut();
        for _ in 0..2 {
            if rng.percent(20) {
                std::thread::sleep(Duration::from_millis(rng.below(30) as u64));
                self.links[at].cut();
            }
        }
        until("it goes on after a cut", || went_on(&mut above) > before);
    }

    /// What must hold when nobody writes any more.
    fn look(&self, name: &str, tally: &Tally) {
        let (last, but) = (self.servers.len() - 1, untold(self.servers[0].name()));
        self.servers.windows(2).for_each(|pair| caught_up(&pair[0], &pair[1]));
        for below in &self.servers[1..] {
            same_data(&self.servers[0], below);
            same_groups(&mut self.servers[0].client(), &mut below.client(), but);
        }
        until("the same offset everywhere", || {
            let offset = |server: &Server| info(&mut server.client(), "master_repl_offset");
            let first = offset(&self.servers[0]);
            self.servers.iter().all(|server| offset(server) == first)
        });
        let mut client = self.servers[0].client();
        let offset = info(&mut client, "master_repl_offset");
        let keys: i64 = (0..traffic::DATABASES)
            .map(|db| {
                client.ok(&["SELECT", &db.to_string()]);
                client.cmd(&["DBSIZE"]).int()
            })
            .sum();
        let groups = same_groups(&mut client, &mut self.servers[last].client(), but);
        let writes = tally.writes.load(Ordering::Relaxed);
        for (at, cuts) in tally.cuts.iter().enumerate() {
            let stats = fields(&mut self.servers[at].client(), "stats");
            let [full, went_on, refused] =
                ["sync_full", "sync_partial_ok", "sync_partial_err"].map(|name| &stats[name][..]);
            let (above, below) = (self.servers[at].name(), self.servers[at + 1].name());
            eprintln!(
                "{name}: {below} of {above}: {writes} writes, offset {offset}, {cuts} cuts, {full} copies, \
                 went on {went_on} times, refused {refused} times; {keys} keys and {groups} groups are \
                 the same"
            );
            if backlog() == BACKLOG {
                assert_eq!((full, refused), ("1", "0"), "{name}: {below} of {above}");
                assert!(went_on.parse::<usize>().expect("a number") >= *cuts, "{name}");
            }
        }
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for server in &self.servers {
                let log = server.log();
                let tail: Vec<&str> = log.lines().rev().take(LOG_LINES).collect();
                eprintln!("==== {} on port {}", server.name(), server.port());
                tail.iter().rev().for_each(|line| eprintln!("{line}"));
            }
        }
    }
}

/// Ends the writers, also where the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// How often replicas of this server have come back, to where they were or for a copy.
fn went_on(client: &mut Client) -> u64 {
    number(client, "stats", "sync_partial_ok") + number(client, "stats", "sync_full")
}

fn backlog() -> String {
    env_or("REPL_BACKLOG", BACKLOG.to_string())
}

fn options(name: &str) -> Vec<&'static str> {
    let mut options = vec![
        "--repl-diskless-sync-delay",
        "0",
        "--enable-debug-command",
        "yes",
        "--repl-backlog-size",
        String::leak(backlog()),
    ];
    if name == "weft" {
        options.extend(["--io-threads", "4"]);
    }
    options
}

fn goes_on(name: &str, names: &[&'static str]) {
    let found: Vec<_> = names.iter().map(|name| Some((*name, program(name)?))).collect();
    let Some(programs) = found.into_iter().collect::<Option<Vec<_>>>() else { return };
    let chain = Chain::new(&programs);
    let seconds = Duration::from_secs(env_or("REPL_SECONDS", 3));
    let tally = chain.live(env_or("REPL_SEED", 1), seconds);
    chain.look(name, &tally);
}

#[test]
fn valkey_of_weft() {
    goes_on("valkey_of_weft", &["weft", "valkey-server"]);
}

#[test]
fn redis8_of_weft() {
    goes_on("redis8_of_weft", &["weft", "redis8-server"]);
}

#[test]
fn weft_of_valkey() {
    goes_on("weft_of_valkey", &["valkey-server", "weft"]);
}

#[test]
fn weft_of_redis8() {
    goes_on("weft_of_redis8", &["redis8-server", "weft"]);
}

#[test]
fn weft_of_redis7() {
    goes_on("weft_of_redis7", &["redis7-server", "weft"]);
}

#[test]
fn weft_of_weft() {
    goes_on("weft_of_weft", &["weft", "weft"]);
}

#[test]
fn a_chain_of_three() {
    goes_on("a_chain_of_three", &["weft", "weft", "weft"]);
}

#[test]
fn a_chain_through_valkey() {
    goes_on("a_chain_through_valkey", &["weft", "valkey-server", "weft"]);
}

#[test]
fn the_chain_that_is_asked_for() {
    let Ok(names) = std::env::var("REPL_CHAIN") else { return };
    let names: Vec<&'static str> = String::leak(names).split(',').collect();
    goes_on("the_chain_that_is_asked_for", &names);
}
