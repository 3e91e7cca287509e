//! Undoes the changes of a run, and checks the server's state afterwards.
//!
//! Each function panics with a description of the fault. Where the server needs a moment, it is
//! asked again until [`PATIENCE`](weft_testkit::client::PATIENCE) is over.

use super::client::{Pending, is_silence};
use super::disturb::{DIRECTIVES, Descriptors, ids};
use super::info::{STEP, info, wait_until};
use super::roles;
use weft_testkit::client::PATIENCE;
use weft_testkit::value::quote_short;
use weft_testkit::{Client, Server};

/// The state of the server before a run.
pub struct Before {
    directives: Vec<(String, String)>,
    descriptors: Descriptors,
    memory: i64,
}

impl Before {
    /// Reads the state of a server that has no other clients.
    pub fn of(server: &Server) -> Before {
        let mut client = server.client();
        client.ok(&["FLUSHALL", "SYNC"]);
        let directives = DIRECTIVES.iter().map(|(name, _)| {
            let value = client.cmd(&["CONFIG", "GET", name]).field(name).map(|v| v.text());
            (name.to_string(), value.unwrap_or_else(|| panic!("no directive {name}")))
        });
        let directives = directives.collect();
        Before { directives, descriptors: Descriptors::of(server), memory: memory(&mut client) }
    }
}

/// Bytes in use, without statistics, which keep an entry for each command on each thread that has
/// executed it.
#[track_caller]
fn memory(client: &mut Client) -> i64 {
    info(client, "used_memory") - info(client, "mem_not_counted_for_evict")
}

/// Connects to a server that may still refuse connections; pending ones are closed to make room. The server may
/// be a replica without its primary, or loading, and then serves only commands that need no data.
#[track_caller]
fn connect(server: &Server, pending: &mut Vec<Pending>) -> Client {
    for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
        let tried = Client::try_tcp(server.port()).and_then(|mut client| {
            let id = client.try_cmd(&["CLIENT", "ID"])?;
            Ok((id.value.error().is_none(), client))
        });
        match tried {
            Ok((true, client)) => return client,
            Ok((false, _)) | Err(_) => drop(pending.pop()),
        }
        std::thread::sleep(STEP);
    }
    panic!("no connection is served");
}

/// Restores the directives and roles: the server becomes a primary without replicas once the other server
/// doesn't follow it. Returns a connection.
#[track_caller]
pub fn lift(server: &Server, before: &Before, pending: &mut Vec<Pending>) -> Client {
    before.descriptors.restore();
    let mut client = connect(server, pending);
    client.ok(&["CLIENT", "UNPAUSE"]);
    roles::make_primary(&mut client);
    for (name, value) in &before.directives {
        client.ok(&["CONFIG", "SET", name, value]);
    }
    client.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "1"]);
    client.ok(&["DEBUG", "PAUSE-CRON", "0"]);
    client
}

/// Checks that every request is answered now, or its connection closed, since all waits have ended.
#[track_caller]
pub fn check_all_answered(client: &mut Client, pending: Vec<Pending>) -> usize {
    let count = pending.len();
    for mut one in pending {
        one.client.set_timeout(STEP);
        let mut silences = 0;
        while one.left > 0 {
            match one.client.read_reply() {
                Ok(_) => {
                    one.left -= 1;
                    silences = 0;
                }
                Err(e) if is_silence(&e) => {
                    silences += 1;
                    assert!(
                        silences < PATIENCE.as_millis() / STEP.as_millis(),
                        "{} replies never come, and no close: {}",
                        one.left,
                        quote_short(&one.sent),
                    );
                    unblock_all(client);
                }
                Err(_) => break,
            }
        }
    }
    count
}

fn unblock_all(client: &mut Client) {
    let list = client.cmd(&["CLIENT", "LIST", "FLAGS", "b"]).text();
    for id in ids(&list) {
        client.cmd(&["CLIENT", "UNBLOCK", id]);
    }
}

/// Checks that `client` is the only client, and that none is blocked, watches keys or has unread
/// output.
#[track_caller]
pub fn no_client_is_left(client: &mut Client) {
    wait_until("connected_clients", || info(client, "connected_clients"), |n| n == 1);
    for field in [
        "blocked_clients",
        "total_blocking_keys",
        "clients_in_timeout_table",
        "watching_clients",
        "total_watched_keys",
        "tracking_clients",
        "tracking_total_prefixes",
    ] {
        wait_until(field, || info(client, field), |n| n == 0);
    }
}

/// Checks that every I/O thread answers.
#[track_caller]
pub fn check_all_threads_serve(server: &Server, client: &mut Client) {
    let threads = info(client, "io_threads_active");
    let mut others: Vec<Client> = (0..threads * 8).map(|_| server.client()).collect();
    for other in &mut others {
        assert_eq!(other.cmd(&["PING"]).text(), "PONG");
        other.ok(&["SET", "k", "v"]);
        assert_eq!(other.cmd(&["GET", "k"]).text(), "v");
    }
    let text = client.cmd(&["INFO", "threads"]).text();
    for n in 0..threads {
        let name = format!("io_thread_{n}:active=1,connections=");
        let line = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_default();
        let connections = line.split(',').next().and_then(|n| n.parse::<u64>().ok());
        assert!(connections.is_some_and(|n| n > 0), "thread {n} serves no client:\n{text}");
    }
}

/// Checks that the server has released its memory: at most `more` bytes above the start.
#[track_caller]
pub fn check_memory_is_free(client: &mut Client, before: &Before, more: i64) -> i64 {
    client.ok(&["FLUSHALL", "SYNC"]);
    client.ok(&["CONFIG", "RESETSTAT"]);
    client.ok(&["SLOWLOG", "RESET"]);
    let digest = client.cmd(&["DEBUG", "DIGEST"]).text();
    assert_eq!(digest, "0".repeat(40), "the digest of nothing");
    wait_until("memory beyond that of the start", || memory(client) - before.memory, |n| n <= more);
    memory(client) - before.memory
}

/// Checks that the log has neither a crash nor a panic.
#[track_caller]
pub fn check_log_is_clean(server: &Server) {
    let log = server.log();
    for word in ["BUG REPORT", "panicked", "STACK TRACE", "ERROR: ", "WARNING: ThreadSanitizer"] {
        assert!(!log.contains(word), "{word:?} is in the log:\n{}", server.log_tail());
    }
}
