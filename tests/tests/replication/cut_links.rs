//! Eight clients write data of all kinds, while links are cut at random, about once a second. In
//! the end all servers have the same data at the same offset. Each made one full sync, and a
//! partial sync after each cut.
//!
//! | variable | meaning |
//! |---|---|
//! | `REPL_SECONDS` | seconds of writes to each pair or chain (default 3) |
//! | `REPL_RATE` | writes a second of all clients together (default 2000; 0: unlimited) |
//! | `REPL_SEED` | seed of the writes and cuts |
//! | `REPL_BACKLOG` | size of the backlog (default 64mb); with less, full syncs happen, and only
//! the final data are checked |
//! | `REPL_CHAIN` | one more chain, such as `valkey-server,valkey-server`, to find out whether the
//! reference fails |
//!
//! Each pairing is a test, so several can run in parallel.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, locate, skipped};
use weft_tests::env_or;
use weft_tests::persistence::until;
use weft_tests::replicas::{
    Link, fields, fill, number, start_replica, wait_for_same_data, wait_until_caught_up,
};
use weft_tests::replication::info;
use weft_tests::traffic::{self, Pace, unreplicated_fields, wait_for_same_groups};

const WRITERS: u64 = 8;
/// Enough for all writes while a replica reconnects.
const BACKLOG: &str = "64mb";
/// Log lines printed of each server when the test fails.
const LOG_LINES: usize = 150;

/// Servers, each a replica of the one before it, and the links between them.
struct Chain {
    servers: Vec<Server>,
    links: Vec<Link>,
}

/// Counts of what happened.
#[derive(Default)]
struct Tally {
    writes: AtomicU64,
    /// By link.
    cuts: Vec<usize>,
}

/// A program by its name; notes a skip and returns `None` if it is not installed.
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
                    let server = start_replica(name, program, link.port(), &options(name));
                    wait_until_caught_up(above, &server);
                    links.push(link);
                    server
                }
            };
            servers.push(server);
        }
        Chain { servers, links }
    }

    /// Clients write and links are cut for `how_long`.
    fn write_and_cut(&self, seed: u64, how_long: Duration) -> Tally {
        let mut tally = Tally { cuts: vec![0; self.links.len()], ..Tally::default() };
        let is_over = AtomicBool::new(false);
        let mut cuts = vec![0; self.links.len()];
        std::thread::scope(|scope| {
            let ends = SetOnDrop(&is_over);
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

    /// Cuts a link and waits until the replica has synced again. Sometimes cuts the link again
    /// meanwhile.
    fn cut(&self, at: usize, rng: &mut Rng) {
        let mut above = self.servers[at].client();
        let before = count_syncs(&mut above);
        self.links[at].cut();
        for _ in 0..2 {
            if rng.percent(20) {
                std::thread::sleep(Duration::from_millis(rng.below(30) as u64));
                self.links[at].cut();
            }
        }
        until("the replica syncs after a cut", || count_syncs(&mut above) > before);
    }

    /// Checks the final state, after the last write.
    fn check(&self, name: &str, tally: &Tally) {
        let (last, but) = (self.servers.len() - 1, unreplicated_fields(self.servers[0].name()));
        self.servers.windows(2).for_each(|pair| wait_until_caught_up(&pair[0], &pair[1]));
        for below in &self.servers[1..] {
            wait_for_same_data(&self.servers[0], below);
            wait_for_same_groups(&mut self.servers[0].client(), &mut below.client(), but);
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
        let groups = wait_for_same_groups(&mut client, &mut self.servers[last].client(), but);
        let writes = tally.writes.load(Ordering::Relaxed);
        for (at, cuts) in tally.cuts.iter().enumerate() {
            let stats = fields(&mut self.servers[at].client(), "stats");
            let [full, partial, refused] =
                ["sync_full", "sync_partial_ok", "sync_partial_err"].map(|name| &stats[name][..]);
            let (above, below) = (self.servers[at].name(), self.servers[at + 1].name());
            eprintln!(
                "{name}: {below} of {above}: {writes} writes, offset {offset}, {cuts} cuts, {full} copies, \
                 {partial} partial syncs, {refused} refused; {keys} keys and {groups} groups are \
                 the same"
            );
            if backlog() == BACKLOG {
                assert_eq!((full, refused), ("1", "0"), "{name}: {below} of {above}");
                assert!(partial.parse::<usize>().expect("a number") >= *cuts, "{name}");
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

/// Ends the writers on drop, also when the test fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The number of partial and full syncs of this server's replicas.
fn count_syncs(client: &mut Client) -> u64 {
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

fn run_chain(name: &str, names: &[&'static str]) {
    let found: Vec<_> = names.iter().map(|name| Some((*name, program(name)?))).collect();
    let Some(programs) = found.into_iter().collect::<Option<Vec<_>>>() else { return };
    let chain = Chain::new(&programs);
    let seconds = Duration::from_secs(env_or("REPL_SECONDS", 3));
    let tally = chain.write_and_cut(env_or("REPL_SEED", 1), seconds);
    chain.check(name, &tally);
}

#[test]
fn valkey_replicates_from_weft_over_cut_links() {
    run_chain("valkey_replicates_from_weft_over_cut_links", &["weft", "valkey-server"]);
}

#[test]
fn redis8_replicates_from_weft_over_cut_links() {
    run_chain("redis8_replicates_from_weft_over_cut_links", &["weft", "redis8-server"]);
}

#[test]
fn weft_replicates_from_valkey_over_cut_links() {
    run_chain("weft_replicates_from_valkey_over_cut_links", &["valkey-server", "weft"]);
}

#[test]
fn weft_replicates_from_redis8_over_cut_links() {
    run_chain("weft_replicates_from_redis8_over_cut_links", &["redis8-server", "weft"]);
}

#[test]
fn weft_replicates_from_redis7_over_cut_links() {
    run_chain("weft_replicates_from_redis7_over_cut_links", &["redis7-server", "weft"]);
}

#[test]
fn weft_replicates_from_weft_over_cut_links() {
    run_chain("weft_replicates_from_weft_over_cut_links", &["weft", "weft"]);
}

#[test]
fn chain_of_three_replicates_over_cut_links() {
    run_chain("chain_of_three_replicates_over_cut_links", &["weft", "weft", "weft"]);
}

#[test]
fn chain_through_valkey_replicates_over_cut_links() {
    run_chain("chain_through_valkey_replicates_over_cut_links", &["weft", "valkey-server", "weft"]);
}

#[test]
fn chain_of_repl_chain_replicates_over_cut_links() {
    let Ok(names) = std::env::var("REPL_CHAIN") else { return };
    let names: Vec<&'static str> = String::leak(names).split(',').collect();
    run_chain("chain_of_repl_chain_replicates_over_cut_links", &names);
}
