//! Disturbances of all clients and of the server during a run.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::roles;
use super::tally::Tally;
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server};

/// Directives that a run changes, with their values. The end of the run restores all of them.
pub const DIRECTIVES: &[(&str, &[&str])] = &[
    ("io-threads", &["1", "2", "3", "4", "8"]),
    ("hz", &["1", "10", "100", "500"]),
    ("maxmemory", &["0", "1mb", "4mb", "8mb", "100mb"]),
    (
        "maxmemory-policy",
        &[
            "noeviction",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "volatile-lru",
            "volatile-ttl",
            "volatile-random",
        ],
    ),
    ("maxmemory-samples", &["1", "5", "64"]),
    ("list-max-listpack-size", &["-2", "1", "-1", "128", "3"]),
    ("list-compress-depth", &["0", "1", "3"]),
    ("hash-max-listpack-entries", &["0", "1", "512"]),
    ("hash-max-listpack-value", &["1", "64"]),
    ("set-max-listpack-entries", &["0", "1", "128"]),
    ("set-max-intset-entries", &["0", "2", "512"]),
    ("zset-max-listpack-entries", &["0", "1", "128"]),
    ("lazyfree-lazy-user-del", &["yes", "no"]),
    ("lazyfree-lazy-user-flush", &["yes", "no"]),
    ("lazyfree-lazy-expire", &["yes", "no"]),
    ("lazyfree-lazy-eviction", &["yes", "no"]),
    ("lazyfree-lazy-server-del", &["yes", "no"]),
    ("timeout", &["0", "1", "100"]),
    ("tcp-keepalive", &["0", "300"]),
    ("client-query-buffer-limit", &["1mb", "1gb"]),
    (
        "client-output-buffer-limit",
        &["normal 0 0 0", "normal 256kb 64kb 1", "normal 1mb 0 0", "normal 0 32kb 1"],
    ),
    ("maxmemory-clients", &["0", "2mb", "50%"]),
    // Fewer only for a moment: see `act`.
    ("maxclients", &["10000"]),
    ("active-expire-effort", &["1", "10"]),
    ("slowlog-log-slower-than", &["-1", "0", "10000"]),
    ("slowlog-max-len", &["1", "128"]),
    ("latency-tracking", &["yes", "no"]),
    ("latency-monitor-threshold", &["0", "1"]),
    ("notify-keyspace-events", &["", "KEA"]),
    ("appendonly", &["yes", "no", "yes"]),
    ("appendfsync", &["always", "everysec", "no"]),
    ("no-appendfsync-on-rewrite", &["yes", "no"]),
    ("aof-use-rdb-preamble", &["yes", "no"]),
    ("aof-checksum", &["yes", "no"]),
    ("aof-zeros-ahead", &["yes", "no"]),
    ("aof-timestamp-enabled", &["yes", "no"]),
    ("snapshot-memory-limit", &["0", "64kb", "1mb"]),
    ("save", &["", "1 1"]),
    ("repl-backlog-size", &["16kb", "1mb", "1"]),
    ("repl-diskless-sync", &["yes", "no"]),
    ("repl-diskless-sync-delay", &["0", "1"]),
    ("repl-diskless-load", &["disabled", "on-empty-db", "swapdb", "flush-before-load"]),
    ("repl-timeout", &["1", "60"]),
    ("repl-ping-replica-period", &["1", "10"]),
    ("repl-backlog-ttl", &["1", "3600"]),
    ("replica-serve-stale-data", &["yes", "no"]),
    ("replica-lazy-flush", &["yes", "no"]),
    ("min-replicas-to-write", &["0"]),
];

/// Commands that write or read files. With the log on, BGREWRITEAOF and BGSAVE wait for each other.
const FILES: &[&str] = &[
    "BGSAVE",
    "BGSAVE SCHEDULE",
    "BGSAVE CANCEL",
    "SAVE",
    "BGREWRITEAOF",
    "BGREWRITEAOF",
    "CONFIG SET appendonly yes",
    "CONFIG SET appendonly no",
    "WAITAOF 1 0 10",
    "INFO persistence",
];

/// The value of `maxclients` during a short limit.
const FEW_CLIENTS: &str = "150";
/// The limit of descriptors during a short limit: fewer than the server has clients, and enough for
/// [`FEW_CLIENTS`]. With fewer, the server would lower `maxclients` itself.
const FEW_DESCRIPTORS: u64 = 200;

/// Runs one disturbance after the other until the time is over.
pub fn disturb(
    server: &Server,
    other: &Server,
    descriptors: Descriptors,
    mut rng: Rng,
    tally: &Tally,
    until: Instant,
) {
    let mut connection = None;
    while Instant::now() < until {
        let client = match connection.take() {
            Some(client) => Ok(client),
            None => Client::try_tcp(server.port()),
        };
        let done = client.and_then(|mut client| {
            client.set_timeout(Duration::from_secs(2));
            match rng.below(12) {
                0 => roles::change_role(server, other, &mut rng)?,
                1 => roles::pretend_replica(server, other, &mut rng)?,
                _ => act(descriptors, &mut client, &mut rng)?,
            }
            Ok(client)
        });
        // Killed by another client, paused, or out of descriptors: the next command reconnects.
        connection = done.ok();
        Tally::count(&tally.disturbances, 1);
        std::thread::sleep(Duration::from_millis(rng.below(8) as u64));
    }
}

fn act(descriptors: Descriptors, client: &mut Client, rng: &mut Rng) -> io::Result<()> {
    match rng.below(35) {
        0..=5 => send_with_client_id(client, rng, |id| format!("CLIENT KILL ID {id}")),
        6..=9 => {
            let how = *rng.pick(&["TIMEOUT", "ERROR"]);
            send_with_client_id(client, rng, |id| format!("CLIENT UNBLOCK {id} {how}"))
        }
        10 | 11 => {
            let mode = rng.pick(&["WRITE", "ALL"]);
            send(client, &format!("CLIENT PAUSE {} {mode}", 1 + rng.below(40)))
        }
        12 => send(client, "CLIENT UNPAUSE"),
        13 if rng.percent(10) => send(client, "CLIENT KILL TYPE normal SKIPME yes"),
        13..=18 => {
            let (name, values) = rng.pick(DIRECTIVES);
            client.try_cmd(&["CONFIG", "SET", name, *rng.pick(values)]).map(drop)
        }
        19..=23 => send(client, "DEBUG MOVE-CLIENTS"),
        24 => send_one_of(client, rng, &["FLUSHALL", "FLUSHALL ASYNC", "FLUSHDB"]),
        25 => send(client, &format!("SWAPDB {} {}", rng.below(3), rng.below(3))),
        26 => send_one_of(client, rng, &["DEBUG DIGEST", "MEMORY PURGE", "CONFIG RESETSTAT"]),
        27 => send_one_of(client, rng, &["INFO everything", "CLIENT LIST", "MEMORY STATS"]),
        28 => send(client, "CONFIG SET maxmemory 0"),
        29 => {
            send(client, &format!("CONFIG SET maxclients {FEW_CLIENTS}"))?;
            std::thread::sleep(Duration::from_millis(rng.below(30) as u64));
            send(client, "CONFIG SET maxclients 10000")
        }
        30..=33 => send_one_of(client, rng, FILES),
        _ => {
            descriptors.lower();
            std::thread::sleep(Duration::from_millis(rng.below(30) as u64));
            descriptors.restore();
            Ok(())
        }
    }
}

fn send(client: &mut Client, words: &str) -> io::Result<()> {
    client.try_cmd(&words.split(' ').collect::<Vec<_>>()).map(drop)
}

fn send_one_of(client: &mut Client, rng: &mut Rng, choice: &[&str]) -> io::Result<()> {
    send(client, choice[rng.below(choice.len())])
}

/// Sends a command that names one of the clients.
fn send_with_client_id(
    client: &mut Client,
    rng: &mut Rng,
    words: impl Fn(&str) -> String,
) -> io::Result<()> {
    let list = client.try_cmd(&["CLIENT", "LIST"])?.value;
    if let Some(why) = list.error() {
        // Refused: too many clients.
        return Err(io::Error::other(why));
    }
    let list = list.text();
    let ids: Vec<&str> = ids(&list).collect();
    if ids.is_empty() {
        return Ok(());
    }
    send(client, &words(ids[rng.below(ids.len())]))
}

/// The ids in a reply of CLIENT LIST.
pub fn ids(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| line.strip_prefix("id=")?.split(' ').next())
}

/// The limit of open descriptors of a server.
#[derive(Clone, Copy, Debug)]
pub struct Descriptors {
    pid: u32,
    /// The limit at the start.
    most: u64,
}

impl Descriptors {
    /// Reads the limit of a server at the start of a run.
    ///
    /// # Panics
    /// If the server doesn't run.
    pub fn of(server: &Server) -> Descriptors {
        let (most, _) = limits(server.pid()).expect("the server runs");
        Descriptors { pid: server.pid(), most }
    }

    fn set(self, wanted: u64) {
        // The server lowers the hard limit when its `maxclients` changes, and only a privileged
        // process may raise it again. If this fails the server has ended, which other checks
        // notice.
        let Some((_, hard)) = limits(self.pid) else { return };
        let pid = Pid::from_raw(self.pid as i32).expect("a process id is not 0");
        let limit = Rlimit { current: Some(wanted.min(hard)), maximum: Some(hard) };
        let _ = prlimit(Some(pid), Resource::Nofile, limit);
    }

    /// Sets the limit below the number of clients.
    pub fn lower(self) {
        self.set(FEW_DESCRIPTORS);
    }

    /// Restores the limit of the start.
    pub fn restore(self) {
        self.set(self.most);
    }
}

/// The soft and the hard limit of a process's open files.
fn limits(pid: u32) -> Option<(u64, u64)> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut numbers = line.split_ascii_whitespace().map_while(|word| word.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}
