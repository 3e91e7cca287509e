//! MIGRATESLOTS between shards with replicas, while a primary or etcd is killed or stopped at a random moment.
//!
//! Clients append elements that occur once, and count. After each fault, every key is on one shard, its slot's owner; each
//! element is there once at most; and with a quorum, all acknowledged writes are there.

use rustix::process::Signal;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weft_testkit::cluster::session::{Answer, Session};
use weft_testkit::cluster::slot::{key_in, slot_of};
use weft_testkit::cluster::{Cluster, Kind, Settings};
use weft_testkit::rng::Rng;
use weft_tests::env_or;

/// The moved slots, and a slot of each shard that stays.
const FIRST: u16 = 0;
const LAST: u16 = 999;
const STAYS: [u16; 2] = [8000, 16_000];
/// Slots with keys, and keys that no client changes in each of them.
const USED: usize = 50;
const STILL: usize = 200;
const CLIENTS: usize = 3;
/// A fault comes this long after the begin of a move at most. The first moments are more likely, since moves are short.
const FAULT_MS: usize = 600;
/// Longer than the lease.
const LONG: Duration = Duration::from_millis(3000);
const SHORT: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug)]
enum Victim {
    Source,
    Target,
    Store,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// `kill -9`, and a start after this time.
    Killed(Duration),
    /// SIGSTOP, and SIGCONT after this time.
    Stopped(Duration),
}

/// One key of a client, as the client knows it.
#[derive(Default)]
struct Known {
    acked: Vec<String>,
    unknown: Vec<String>,
    /// The last reply to INCR, and increments without a reply.
    count: i64,
    open: i64,
}

#[derive(Debug, Default)]
struct Outcome {
    acknowledged: usize,
    unanswered: usize,
    lost: usize,
}

fn settings(quorum: &str) -> Settings {
    let settings = Settings::of(4).with(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    settings.with_weft(&["--cluster-write-quorum", quorum])
}

/// A tag in each used slot.
fn tags() -> Vec<String> {
    (0..USED).map(|i| key_in((i * 1000 / USED) as u16, "")).collect()
}

fn fill(cluster: &Cluster, tags: &[String]) {
    let (mut session, value) = (cluster.session(), "v".repeat(200));
    for tag in tags {
        let mut words = vec!["MSET".to_string()];
        (0..STILL).for_each(|i| words.extend([format!("{tag}still:{i}"), value.clone()]));
        session.until_done(tag, &words);
    }
}

/// Appends and counts until `is_over`.
fn write(
    mut session: Session,
    name: &str,
    seed: u64,
    tags: &[String],
    is_over: &AtomicBool,
) -> BTreeMap<String, Known> {
    let mut rng = Rng::new(seed);
    let mut keys: BTreeMap<String, Known> = BTreeMap::new();
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("{}{name}", rng.pick(tags));
        let known = keys.entry(key.clone()).or_default();
        let element = number.to_string();
        let list = format!("{key}:list");
        match session.cmd(&list, &["RPUSH", &list, &element]) {
            Answer::Done(reply) => {
                assert_eq!(reply.error(), None, "{list}");
                known.acked.push(element);
            }
            Answer::Refused(_) => thread::sleep(Duration::from_millis(5)),
            Answer::Unknown(_) => known.unknown.push(element),
        }
        let counter = format!("{key}:count");
        match session.cmd(&counter, &["INCR", &counter]) {
            Answer::Done(reply) => {
                assert_eq!(reply.error(), None, "{counter}");
                known.note(&counter, reply.int());
            }
            Answer::Refused(_) => {}
            Answer::Unknown(_) => known.open += 1,
        }
    }
    keys
}

impl Known {
    fn note(&mut self, key: &str, now: i64) {
        let most = self.count + 1 + self.open;
        assert!(now <= most, "{key}: {now} after {} and {} unanswered", self.count, self.open);
        self.open = (most - now).min(self.open);
        self.count = now;
    }

    /// Compares with the values at the end, adds to the outcome.
    fn check(&self, key: &str, session: &mut Session, keeps_all: bool, outcome: &mut Outcome) {
        let (list, counter) = (format!("{key}:list"), format!("{key}:count"));
        let reply = session.until_done(&list, &["LRANGE", &list, "0", "-1"]);
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        reply.items().iter().for_each(|item| *found.entry(item.text()).or_default() += 1);
        let twice = found.iter().find(|(_, times)| **times > 1);
        assert!(twice.is_none(), "{list}: {twice:?} times");
        let lost = self.acked.iter().filter(|element| found.remove(*element).is_none()).count();
        assert!(!keeps_all || lost == 0, "{list}: {lost} of {} are lost", self.acked.len());
        found.retain(|element, _| !self.unknown.contains(element));
        assert!(found.is_empty(), "{list}: no client has appended {found:?}");
        let count = session.until_done(&counter, &["GET", &counter]);
        let count = if count.is_null() { 0 } else { count.text().parse().expect("a number") };
        assert!(count <= self.count + self.open, "{counter}: {count} is too much");
        assert!(!keeps_all || count >= self.count, "{counter}: {count} after {}", self.count);
        outcome.acknowledged += self.acked.len();
        outcome.unanswered += self.unknown.len();
        outcome.lost += lost;
    }
}

/// The keys of a node, sorted.
fn keys(cluster: &Cluster, node: usize) -> Option<Vec<String>> {
    let mut client = cluster.nodes[node].try_client()?;
    let reply = client.try_cmd(&["KEYS", "*"]).ok()?.value;
    if reply.error().is_some() {
        return None;
    }
    let mut keys: Vec<String> = reply.items().iter().map(|key| key.text()).collect();
    keys.sort_unstable();
    Some(keys)
}

/// The keys in wrong places: each is on the shard that owns its slot, and on all nodes of that shard.
fn misplaced(cluster: &Cluster) -> Option<String> {
    for primary in STAYS.map(|slot| cluster.owner(slot)) {
        let Some(primary) = primary else { return Some("a slot has no owner".to_string()) };
        let Some(own) = keys(cluster, primary) else { return Some(format!("{primary} is silent")) };
        let view = cluster.view(primary);
        let foreign = own.iter().find(|key| !view.myself().owns(slot_of(key.as_bytes())));
        if let Some(key) = foreign {
            return Some(format!("node {primary} has {key}, and doesn't own its slot"));
        }
        for replica in cluster.replicas_of(primary) {
            if keys(cluster, replica).as_ref() != Some(&own) {
                return Some(format!("replica {replica} has other keys than {primary}"));
            }
        }
    }
    None
}

/// The state of the last move, by the words of a node, with its message.
fn state_of_move(cluster: &Cluster, node: usize) -> String {
    let list = cluster.client(node).cmd(&["CLUSTER", "GETSLOTMIGRATIONS"]);
    let Some(newest) = list.items().first() else { return "none".to_string() };
    let words = ["state", "message"].map(|name| newest.field(name).map(|field| field.text()));
    words.into_iter().flatten().collect::<Vec<_>>().join(" ").trim_end().to_string()
}

/// Waits for some time, or for the begin of a phase and a moment more.
fn wait_for_moment(cluster: &Cluster, source: usize, rng: &mut Rng) {
    let phases = ["snapshotting", "streaming", "failover-paused", "success"];
    if rng.percent(70) {
        let at = rng.below(phases.len());
        let begin = Instant::now();
        // States follow each other; a phase may be too short to be seen.
        let is_there =
            || phases[at..].iter().any(|phase| state_of_move(cluster, source).starts_with(phase));
        while !is_there() && begin.elapsed() < LONG {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(rng.below(30) as u64));
        return;
    }
    let latest = 1 + rng.below(FAULT_MS);
    thread::sleep(Duration::from_millis(rng.below(latest) as u64));
}

fn strike(cluster: &mut Cluster, node: Option<usize>, fault: Fault) {
    match (node, fault) {
        (Some(node), Fault::Killed(time)) => {
            cluster.nodes[node].kill();
            thread::sleep(time);
            cluster.nodes[node].start();
        }
        (Some(node), Fault::Stopped(time)) => {
            cluster.nodes[node].stop();
            thread::sleep(time);
            cluster.nodes[node].resume();
        }
        (None, Fault::Killed(time)) => {
            let etcd = cluster.etcd.as_mut().expect("etcd");
            etcd.kill(0);
            thread::sleep(time);
            etcd.restart(0);
        }
        (None, Fault::Stopped(time)) => {
            let etcd = cluster.etcd.as_ref().expect("etcd");
            etcd.signal(0, Signal::STOP);
            thread::sleep(time);
            etcd.signal(0, Signal::CONT);
        }
    }
}

fn random_fault(rng: &mut Rng) -> (Victim, Fault) {
    let victims = [Victim::Source, Victim::Source, Victim::Target, Victim::Target, Victim::Store];
    let fault = match rng.below(4) {
        0 | 1 => Fault::Killed(Duration::from_millis(rng.below(3000) as u64)),
        2 => Fault::Stopped(LONG),
        _ => Fault::Stopped(SHORT),
    };
    (*rng.pick(&victims), fault)
}

/// The shard that owns the slots: that of which of `STAYS`.
fn shard_of_slots(cluster: &Cluster) -> Option<usize> {
    let owner = cluster.owner(FIRST);
    STAYS.iter().position(|slot| cluster.owner(*slot) == owner)
}

/// Begins a move of the slots to the other shard. Returns source and target.
fn begin_move(cluster: &Cluster) -> (usize, usize) {
    let [first, last] = [FIRST, LAST].map(|slot| slot.to_string());
    let mut pair = None;
    cluster.wait_until("a move begins", || {
        let Some(source) = cluster.owner(FIRST) else { return false };
        let mut shards = STAYS.iter().filter_map(|slot| cluster.owner(*slot));
        let Some(target) = shards.find(|owner| *owner != source) else { return false };
        let Some(mut client) = cluster.nodes[source].try_client() else { return false };
        let to = cluster.id(target);
        let words = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &first, &last, "NODE", &to];
        pair = Some((source, target));
        client.try_cmd(&words).is_ok_and(|reply| reply.value.is_ok())
    });
    pair.expect("waited for")
}

fn run_round(cluster: &mut Cluster, tags: &[String], rng: &mut Rng, name: &str, keeps_all: bool) {
    let begin = Instant::now();
    let is_over = AtomicBool::new(false);
    let sessions: Vec<Session> = (0..CLIENTS).map(|_| cluster.session()).collect();
    let seed = rng.next_u64();
    let (known, before, source, text) = thread::scope(|scope| {
        let end = OnEnd(&is_over);
        let writers: Vec<_> = sessions
            .into_iter()
            .enumerate()
            .map(|(i, session)| {
                let (name, is_over) = (format!("{name}:{i}"), &is_over);
                scope.spawn(move || write(session, &name, seed + i as u64, tags, is_over))
            })
            .collect();
        let before = shard_of_slots(cluster);
        let (source, target) = begin_move(cluster);
        wait_for_moment(cluster, source, rng);
        let state = state_of_move(cluster, source);
        let (victim, fault) = random_fault(rng);
        let node = match victim {
            Victim::Source => Some(source),
            Victim::Target => Some(target),
            Victim::Store => None,
        };
        strike(cluster, node, fault);
        cluster.settle_replicas();
        drop(end);
        let known = writers.into_iter().flat_map(|writer| writer.join().expect("a writer"));
        let known: Vec<_> = known.collect();
        (known, before, source, format!("{victim:?} {fault:?} in {state:?}"))
    });
    let (mut session, mut outcome) = (cluster.session(), Outcome::default());
    for (key, known) in &known {
        known.check(key, &mut session, keeps_all, &mut outcome);
    }
    for tag in tags {
        let mut words = vec!["EXISTS".to_string()];
        words.extend((0..STILL).map(|i| format!("{tag}still:{i}")));
        assert_eq!(session.until_done(tag, &words).int(), STILL as i64, "{tag}");
    }
    let mut wrong = None;
    cluster.wait_until("each key is on its slot's owner", || {
        wrong = misplaced(cluster);
        if begin.elapsed() > Duration::from_secs(90) {
            println!("{wrong:?}");
        }
        wrong.is_none()
    });
    for (key, _) in &known {
        let names = [format!("{key}:list"), format!("{key}:count")];
        session.until_done(key, &["DEL", &names[0], &names[1]]);
    }
    let has_moved = shard_of_slots(cluster) != before;
    let (state, time) = (state_of_move(cluster, source), begin.elapsed().as_secs_f64());
    println!("round {name}: {text}; {outcome:?}; moved: {has_moved}, {state:?}; {time:.1} s");
}

/// Ends the clients, also if the test fails.
struct OnEnd<'a>(&'a AtomicBool);

impl Drop for OnEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// MOVES_ROUNDS moves with a fault each, from CLUSTER_SEED on.
fn run(quorum: &str) {
    let Some(mut cluster) = Cluster::formed(Kind::Weft, 2, settings(quorum)) else { return };
    let mut rng = Rng::new(env_or("CLUSTER_SEED", 1));
    let tags = tags();
    cluster.settle_replicas();
    fill(&cluster, &tags);
    for round in 0..env_or("MOVES_ROUNDS", 5) {
        run_round(&mut cluster, &tags, &mut rng, &round.to_string(), quorum != "0");
    }
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn moves_with_a_quorum_survive_faults() {
    run("1");
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn asynchronous_moves_survive_faults() {
    run("0");
}
