//! Client libraries through failovers, reshards and kills, under load: `tests/clients/`.
//!
//! `.ci/clients` installs a program for each library; set `CLIENTS_BIN` to their folder. Their arguments are the ports
//! of the nodes. Three workers with a client each repeat these steps: ZADD GT with the next score, and ZSCORE; ten SET
//! in a pipeline; MSET and MGET, EVAL, SPUBLISH. The options of a client are its defaults, or those that its
//! documentation advises. They read orders from standard input, and print one line for each:
//!
//! | order | reply |
//! |---|---|
//! | `strict` | `ok`. From now on, no request may fail |
//! | `lenient` | `ok`. Requests may fail |
//! | `settled` | the totals, when each worker has made three more rounds |
//! | `end` | the totals, when all acknowledged scores were looked for |
//!
//! Totals are the order and three numbers: rounds, failed requests, acknowledged writes that are missing. After a
//! request failed that may not, or after a wrong reply, the reply is `failed` with the errors.
//!
//! `CLUSTER_ROUNDS` sets how often a slot's shard fails over, hands slots over by `valkey-cli` and by MIGRATESLOTS, and
//! loses its primary. `CLUSTER_CLIENTS` has the names of libraries, with commas between them; all run at once.

use crate::on_each;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;
use weft_testkit::cluster::cli::Cli;
use weft_testkit::cluster::{Cluster, Kind, Settings};
use weft_testkit::skipped;
use weft_tests::env_or;

on_each!(libraries_survive_changes);

const LIBRARIES: &str = "redis-py,ioredis,go-redis,jedis,lettuce,redis-rs,glide";

/// A client in another language.
struct Library {
    name: String,
    child: Child,
    orders: ChildStdin,
    replies: BufReader<ChildStdout>,
}

/// See the module's documentation.
#[derive(Clone, Copy)]
struct Totals {
    rounds: u64,
    failed: u64,
    lost: u64,
}

impl Library {
    /// `None`, with a note, if it isn't installed.
    fn start(name: &str, folder: &Path, cluster: &Cluster) -> Option<Library> {
        let program = folder.join(format!("{name}-cluster"));
        if !program.is_file() {
            skipped::note_here(&format!("no {name}-cluster in CLIENTS_BIN"));
            return None;
        }
        let mut child = Command::new(program)
            .args(cluster.nodes.iter().map(|node| node.port().to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the client can be run");
        let orders = child.stdin.take().expect("piped");
        let replies = BufReader::new(child.stdout.take().expect("piped"));
        Some(Library { name: name.into(), child, orders, replies })
    }

    fn send(&mut self, order: &str) {
        writeln!(self.orders, "{order}").expect("the client reads");
    }

    fn reply(&mut self) -> String {
        let mut reply = String::new();
        self.replies.read_line(&mut reply).expect("the client answers");
        reply
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn totals_of(reply: &str, order: &str) -> Option<Totals> {
    let numbers = reply.strip_prefix(order)?.split_whitespace().map(str::parse);
    match numbers.collect::<Result<Vec<u64>, _>>().ok()?[..] {
        [rounds, failed, lost] => Some(Totals { rounds, failed, lost }),
        _ => None,
    }
}

/// The libraries with the cluster that they use.
struct Scene {
    cluster: Cluster,
    cli: Cli,
    libraries: Vec<Library>,
    has_quorum: bool,
    /// Whether a kill may have lost acknowledged writes.
    may_lose: bool,
    begin: Instant,
}

impl Scene {
    fn start(kind: Kind, quorum: usize) -> Option<Scene> {
        let Some(folder) = env::var_os("CLIENTS_BIN") else {
            skipped::note_here("no CLIENTS_BIN: .ci/clients installs client libraries");
            return None;
        };
        let cli = Cli::find()?;
        let quorum_of = quorum.to_string();
        let settings = Settings::of(6).with_weft(&["--cluster-write-quorum", &quorum_of]);
        let cluster = Cluster::formed(kind, 3, settings)?;
        cluster.settle_replicas();
        let names = env_or("CLUSTER_CLIENTS", LIBRARIES.to_string());
        let start = |name| Library::start(name, Path::new(&folder), &cluster);
        let libraries: Vec<Library> = names.split(',').filter_map(start).collect();
        Some(Scene {
            cluster,
            cli,
            libraries,
            has_quorum: quorum > 0,
            may_lose: false,
            begin: Instant::now(),
        })
    }

    fn order(&mut self, order: &str) {
        self.libraries.iter_mut().for_each(|library| library.send(order));
        for library in &mut self.libraries {
            assert_eq!(library.reply(), "ok\n", "{}", library.name);
        }
    }

    /// The totals of all, after some step.
    fn totals(&mut self, order: &str, step: &str) {
        self.libraries.iter_mut().for_each(|library| library.send(order));
        let mut failures = Vec::new();
        for library in &mut self.libraries {
            let reply = library.reply();
            let totals = totals_of(&reply, order);
            if let Some(Totals { rounds, failed, lost }) = totals {
                let (kind, name) = (self.cluster.kind, &library.name);
                let time = self.begin.elapsed().as_secs();
                println!(
                    "{kind:?}, {time:3} s, {step}: {name}: {rounds} rounds, {failed} failed, {lost} lost"
                );
            }
            if totals.is_none_or(|totals| totals.lost > 0 && !self.may_lose) {
                failures.push(format!("{}: {step}: {}", library.name, reply.trim()));
            }
        }
        assert!(failures.is_empty(), "{failures:#?}\n{}", self.cluster.describe());
    }

    fn owner(&self, slot: u16) -> usize {
        self.cluster.owner(slot).expect("all slots have an owner")
    }

    fn fail_over(&mut self, slot: u16) {
        let new = self.cluster.replicas_of(self.owner(slot))[0];
        self.cluster.client(new).ok(&["CLUSTER", "FAILOVER"]);
        self.cluster.wait_until("the replica leads", || self.cluster.owner(slot) == Some(new));
        self.totals("settled", "after a failover");
        self.cluster.settle_replicas();
    }

    /// Moves the slot and 59 others to the next shard, key by key.
    fn reshard(&mut self, slot: u16) {
        let from = self.owner(slot);
        let to = self.cluster.id(self.owner((slot + 5461) % 16384));
        let (entry, from) = (self.cluster.nodes[from].address(), self.cluster.id(from));
        let nodes = ["--cluster-from", &from, "--cluster-to", &to];
        let slots = ["--cluster-slots", "60", "--cluster-yes"];
        self.cli.run(&[&["reshard", &entry][..], &nodes, &slots].concat()).expect_ok();
        self.totals("settled", "after a reshard");
        self.cluster.settle_replicas();
    }

    /// Moves slots to the next shard as a whole.
    fn migrate(&mut self, slot: u16) {
        let from = self.owner(slot);
        let to = self.owner((slot + 5461) % 16384);
        let view = self.cluster.view(from);
        let &(first, last) = view.myself().slots.last().expect("it owns the slot");
        let first = last.saturating_sub(299).max(first).to_string();
        let (range, id) = (last.to_string(), self.cluster.id(to));
        let words = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &first, &range, "NODE", &id];
        self.cluster.client(from).ok(&words);
        self.cluster.wait_until("the slots are moved", || self.cluster.owner(last) == Some(to));
        self.totals("settled", "after MIGRATESLOTS");
        self.cluster.settle_replicas();
    }

    fn kill(&mut self, slot: u16) {
        self.order("lenient");
        self.may_lose |= !self.has_quorum;
        let victim = self.owner(slot);
        self.cluster.nodes[victim].kill();
        self.cluster.wait_until("the replica leads", || self.cluster.owner(slot).is_some());
        // With a quorum, writes wait for a replica.
        if !self.has_quorum {
            self.totals("settled", "after a kill");
        }
        self.cluster.nodes[victim].start();
        self.cluster.settle_replicas();
        self.totals("settled", "after the return of the killed node");
        self.order("strict");
    }
}

fn survive(kind: Kind, quorum: usize) {
    let Some(mut scene) = Scene::start(kind, quorum) else { return };
    scene.totals("settled", "at the start");
    for round in 0..env_or("CLUSTER_ROUNDS", 1u16) {
        let slot = 100 + 5461 * (round % 3);
        scene.fail_over(slot);
        scene.reshard(slot);
        scene.migrate(slot);
        scene.kill(slot);
    }
    scene.totals("end", "at the end");
}

fn libraries_survive_changes(kind: Kind) {
    survive(kind, 0);
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn libraries_survive_changes_with_a_quorum() {
    survive(Kind::Weft, 1);
}
