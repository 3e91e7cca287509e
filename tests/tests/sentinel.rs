//! Real Sentinels watch three servers: primaries are killed, stopped, and asked to fail over.
//!
//! After each failover the Sentinels and the servers agree on one primary, the old primary is its
//! replica, and the configuration files match. No write is lost that two replicas had acknowledged.
//!
//! | variable | meaning |
//! |---|---|
//! | `SENTINEL_KILLS`, `SENTINEL_STOPS`, `SENTINEL_HANDOVERS` | number of each (default 2, 1, 1) |
//! | `SENTINEL` | the Sentinel program (default: valkey-server) |

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft_testkit::client::Client;
use weft_testkit::value::Value;
use weft_testkit::{locate, skipped};
use weft_tests::env_or;
use weft_tests::instance::Instance;

/// Turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(120);
const PASSWORD: [&str; 2] = ["AUTH", "secret"];

struct Cluster {
    servers: Vec<Instance>,
    sentinels: Vec<Instance>,
    /// The port of the primary, for the writer.
    primary: Arc<AtomicU16>,
}

impl Cluster {
    fn new(sentinel: &Path) -> Cluster {
        // The configuration from docs/replication.md.
        let common = [
            "save \"\"",
            "repl-diskless-sync-delay 0",
            "repl-timeout 10",
            "requirepass secret",
            "primaryauth secret",
            "min-replicas-to-write 1",
            "min-replicas-max-lag 10",
        ]
        .map(String::from);
        let mut servers = vec![Instance::new(locate::weft(), &common, &[])];
        let first = servers[0].port();
        let mut lines = common.to_vec();
        lines.push(format!("replicaof 127.0.0.1 {first}"));
        servers.extend((0..2).map(|_| Instance::new(locate::weft(), &lines, &[])));
        servers.iter_mut().for_each(Instance::start);
        let watch = [
            format!("sentinel monitor main 127.0.0.1 {first} 2"),
            "sentinel auth-pass main secret".into(),
            "sentinel down-after-milliseconds main 1500".into(),
            "sentinel failover-timeout main 5000".into(),
            "sentinel parallel-syncs main 2".into(),
        ];
        let mut sentinels: Vec<Instance> =
            (0..3).map(|_| Instance::new(sentinel, &watch, &["--sentinel"])).collect();
        let mut cluster =
            Cluster { servers, sentinels: Vec::new(), primary: Arc::new(AtomicU16::new(first)) };
        cluster.until("two replicas are online", |all| all.online_replicas(first) == 2);
        sentinels.iter_mut().for_each(Instance::start);
        cluster.sentinels = sentinels;
        cluster.until("Sentinels know each other", |all| {
            all.sentinels.iter().all(|sentinel| {
                let reported = ask(sentinel, &["SENTINEL", "SENTINELS", "main"]);
                reported.is_some_and(|reported| {
                    reported.items().len() == 2 && reported.items().iter().all(is_up)
                })
            })
        });
        cluster.until("Sentinels know the replicas", |all| all.is_seen_by_all(first));
        cluster
    }

    fn until(&self, what: &str, is_so: impl Fn(&Cluster) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            if began.elapsed() > PATIENCE {
                panic!("timed out: {what}\n{}", self.show());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// State and logs that explain a disagreement.
    fn show(&self) -> String {
        let mut text = format!("Sentinels say {:?}\n", self.reported_primaries());
        for server in &self.servers {
            let role = ask(server, &["ROLE"]).map_or("-".into(), |role| format!("{role}"));
            let conf = server.conf();
            let says: Vec<&str> = conf.lines().filter(|l| l.starts_with("replicaof")).collect();
            let (port, info, log) = (server.port(), info(server), server.log_tail(150));
            text += &format!("==== server {port}: {role}, file {says:?}\n{info}{log}\n");
        }
        for sentinel in &self.sentinels {
            let ask = |words: &[&str]| ask(sentinel, words).map_or("-".into(), |v| format!("{v}"));
            let (port, log) = (sentinel.port(), sentinel.log_tail(60));
            let (main, replicas) =
                (ask(&["SENTINEL", "MASTER", "main"]), ask(&["SENTINEL", "REPLICAS", "main"]));
            text += &format!("==== Sentinel {port}\n{main}\n{replicas}\n{log}\n");
        }
        text
    }

    fn server(&mut self, port: u16) -> &mut Instance {
        self.servers
            .iter_mut()
            .find(|server| server.port() == port)
            .expect("a server of the cluster")
    }

    fn online_replicas(&self, port: u16) -> usize {
        let server = self
            .servers
            .iter()
            .find(|server| server.port() == port)
            .expect("a server of the cluster");
        info(server).matches("state=online").count()
    }

    fn reported_primaries(&self) -> BTreeSet<String> {
        let reported = |sentinel: &Instance| {
            let answer = ask(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"]);
            answer.map_or("-".into(), |answer| format!("{answer}"))
        };
        self.sentinels.iter().map(reported).collect()
    }

    /// The primary that all Sentinels agree on, if it is not `old`.
    fn new_primary(&self, old: u16) -> Option<u16> {
        let reported = self.reported_primaries();
        let port = self.servers.iter().map(Instance::port).find(|port| {
            reported.len() == 1 && reported.iter().all(|t| t.contains(&port.to_string()))
        })?;
        (port != old).then_some(port)
    }

    /// Whether every Sentinel has seen that the other servers replicate from this one. A Sentinel
    /// that has not would reconfigure them later, whatever their role is by then. Two Sentinels do
    /// that within seconds of each other when an old primary comes back.
    fn is_seen_by_all(&self, primary: u16) -> bool {
        let (port, expected) = (primary.to_string(), self.servers.len() - 1);
        let follows = |replica: &Value| {
            let says = |name: &str, wanted: &str| {
                replica.field(name).is_some_and(|value| value.text() == wanted)
            };
            is_up(replica)
                && says("role-reported", "slave")
                && says("master-link-status", "ok")
                && says("master-port", &port)
        };
        self.sentinels.iter().all(|sentinel| {
            let replicas = ask(sentinel, &["SENTINEL", "REPLICAS", "main"]);
            replicas
                .is_some_and(|all| all.items().len() == expected && all.items().iter().all(follows))
        })
    }

    /// Asks the first Sentinel to fail over from `old`. It aborts an attempt that takes too long,
    /// and is asked again.
    fn start_failover(&self, old: u16) {
        let says_old = |all: &Cluster| {
            let answer = ask(&all.sentinels[0], &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"]);
            answer.is_some_and(|answer| format!("{answer}").contains(&old.to_string()))
        };
        self.until("the failover completes", |all| {
            if !says_old(all) {
                return true;
            }
            let coordinated = ["SENTINEL", "FAILOVER", "main", "COORDINATED"];
            let answer = ask(&all.sentinels[0], &coordinated).and_then(|answer| answer.error());
            if answer.is_some_and(|error| error.contains("wrong number of arguments")) {
                // Redis has no coordinated failover.
                ask(&all.sentinels[0], &coordinated[..3]);
            }
            false
        });
    }

    /// Waits for another primary than `old`, restores the old one by `bring_back`, and waits until all agree.
    fn wait_for_failover(&mut self, old: u16, bring_back: impl FnOnce(&mut Instance)) -> u16 {
        self.until("another primary", |all| all.new_primary(old).is_some());
        let new = self.new_primary(old).expect("checked above");
        self.primary.store(new, Ordering::SeqCst);
        bring_back(self.server(old));
        self.until("one primary with two replicas", |all| {
            let primaries = all.servers.iter().filter(|s| info(s).contains("role:master"));
            primaries.count() == 1 && all.online_replicas(new) == 2
        });
        let rewritten = |server: &Instance| {
            let says = server.conf().contains(&format!("replicaof 127.0.0.1 {new}"));
            let says_any = server.conf().contains("\nreplicaof ");
            if server.port() == new { !says_any } else { says }
        };
        self.until("the configuration files match", |all| all.servers.iter().all(rewritten));
        self.until("every Sentinel has seen the roles", |all| all.is_seen_by_all(new));
        new
    }
}

fn ask(instance: &Instance, args: &[&str]) -> Option<Value> {
    if !instance.is_running() {
        return None;
    }
    let mut client = instance.try_client()?;
    // Sentinels have no password, and return an error.
    client.try_cmd(&PASSWORD).ok()?;
    client.try_cmd(args).ok().map(|reply| reply.value)
}

fn info(instance: &Instance) -> String {
    match ask(instance, &["INFO", "replication"]) {
        Some(Value::Bulk(text)) => String::from_utf8_lossy(&text).into_owned(),
        _ => String::new(),
    }
}

/// Whether a Sentinel considers another Sentinel or a replica healthy.
fn is_up(instance: &Value) -> bool {
    let flags = instance.field("flags").map(Value::text).unwrap_or_default();
    flags == "slave" || flags == "sentinel"
}

/// Ends the writer on drop, also when the test fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Writes numbers in order, and records those that two replicas acknowledged.
fn write(primary: &AtomicU16, confirmed: &Mutex<Vec<u64>>, is_over: &AtomicBool) {
    let mut number = 0u64;
    while !is_over.load(Ordering::SeqCst) {
        let Ok(mut client) = Client::try_tcp(primary.load(Ordering::SeqCst)) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        client.set_timeout(Duration::from_secs(3));
        let _ = client.try_cmd(&PASSWORD);
        while !is_over.load(Ordering::SeqCst) {
            number += 1;
            let key = format!("n:{number}");
            let Ok(reply) = client.try_cmd(&["SET", &key, "1"]) else { break };
            if matches!(reply.value, Value::Error(_)) {
                std::thread::sleep(Duration::from_millis(20));
                break;
            }
            let Ok(reply) = client.try_cmd(&["WAIT", "2", "500"]) else { break };
            match reply.value {
                Value::Integer(2) => confirmed.lock().expect("a list").push(number),
                Value::Error(_) => break,
                _ => {}
            }
        }
    }
}

#[test]
fn sentinels_fail_over_without_losing_acknowledged_writes() {
    let sentinel = match std::env::var_os("SENTINEL") {
        Some(program) => PathBuf::from(program),
        None => match locate::valkey() {
            Some(program) => program,
            None => return skipped::note_here("no valkey-server, which is also the Sentinel"),
        },
    };
    let mut cluster = Cluster::new(&sentinel);
    let (confirmed, is_over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let primary = cluster.primary.clone();
    std::thread::scope(|scope| {
        scope.spawn(|| write(&primary, &confirmed, &is_over));
        let ends = SetOnDrop(&is_over);
        let mut now = primary.load(Ordering::SeqCst);
        for round in 0..env_or("SENTINEL_KILLS", 2) {
            eprintln!("kill {round}: {now}");
            cluster.server(now).kill();
            now = cluster.wait_for_failover(now, Instance::start);
        }
        for round in 0..env_or("SENTINEL_STOPS", 1) {
            eprintln!("stop {round}: {now}");
            cluster.server(now).stop();
            now = cluster.wait_for_failover(now, Instance::resume);
        }
        for round in 0..env_or("SENTINEL_HANDOVERS", 1) {
            eprintln!("fail over {round}: {now}");
            cluster.start_failover(now);
            now = cluster.wait_for_failover(now, |_| ());
        }
        drop(ends);
        let mut client = Client::tcp(now);
        client.ok(&PASSWORD);
        let confirmed = confirmed.lock().expect("a list");
        assert!(confirmed.len() > 10, "{} acknowledged", confirmed.len());
        for number in confirmed.iter() {
            assert_eq!(
                client.cmd(&["GET", &format!("n:{number}")]),
                Value::Bulk(b"1".to_vec()),
                "{number}"
            );
        }
        eprintln!("{} writes were acknowledged by two replicas, and none is lost", confirmed.len());
    });
}
