//! Replication under chaos: another server that becomes the replica or the primary of the one under test, and
//! connections that pretend to be replicas.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use super::client::is_silence;
use super::info::{info, wait_until};
use weft_testkit::client::{PATIENCE, encode};
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server};

/// Commands for the server under test; `OTHER` is the port of the other server.
const FOR_SERVER: &[&str] = &[
    "REPLICAOF 127.0.0.1 OTHER",
    "REPLICAOF 127.0.0.1 OTHER",
    "REPLICAOF 127.0.0.1 1",
    "FAILOVER",
    "FAILOVER TIMEOUT 20",
    "FAILOVER TO 127.0.0.1 OTHER TIMEOUT 10 FORCE",
    "CLIENT KILL TYPE replica",
    "CLIENT KILL TYPE primary",
    "CONFIG SET min-replicas-to-write 1",
];

/// Commands that undo those, sent soon afterwards: a replica refuses most of the clients' commands.
const UNDO: &[&str] = &["FAILOVER ABORT", "REPLICAOF NO ONE", "CONFIG SET min-replicas-to-write 0"];

/// Commands for the other server; `SERVER` is the port of the one under test.
const FOR_OTHER: &[&str] = &[
    "REPLICAOF 127.0.0.1 SERVER",
    "REPLICAOF 127.0.0.1 SERVER",
    "REPLICAOF 127.0.0.1 SERVER",
    "REPLICAOF NO ONE",
    "FAILOVER TIMEOUT 20",
    "FAILOVER ABORT",
    "CLIENT KILL TYPE primary",
    "CONFIG SET repl-diskless-load disabled",
    "CONFIG SET repl-diskless-load swapdb",
    "CONFIG SET repl-diskless-load flush-before-load",
    "FLUSHALL",
    "SET k1 elsewhere",
];

/// Lines of a connection that is, or is about to be, a replica's.
const REPLICA_LINES: &[&str] = &[
    "REPLCONF listening-port 7",
    "REPLCONF listening-port OTHER",
    "REPLCONF capa eof capa psync2",
    "REPLCONF version 9.1.0",
    "REPLCONF rdb-only 1",
    "REPLCONF rdb-filter-only functions",
    "REPLCONF ACK 0",
    "REPLCONF ACK 10",
    "REPLCONF ACK 9223372036854775807 FACK 9223372036854775807",
    "REPLCONF GETACK *",
    "REPLCONF nonsense",
    "PSYNC ? -1",
    "PSYNC ? -1",
    "PSYNC ? -1",
    "PSYNC 00112233445566778899aabbccddeeff00112233 1",
    "PSYNC 00112233445566778899aabbccddeeff00112233 1 FAILOVER",
    "SYNC",
    "PING",
    "HELLO 3",
    "RESET",
    "SUBSCRIBE channel",
    "CLIENT TRACKING ON",
    "CLIENT REPLY OFF",
    "MONITOR",
    "MULTI",
    "EXEC",
    "BLPOP q1 0.01",
    "DEBUG DIGEST",
];

/// Changes roles and links.
pub(super) fn change_role(server: &Server, other: &Server, rng: &mut Rng) -> io::Result<()> {
    let for_server = rng.percent(40);
    let (target, words) =
        if for_server { (server, *rng.pick(FOR_SERVER)) } else { (other, *rng.pick(FOR_OTHER)) };
    let mut client = Client::try_tcp(target.port())?;
    client.set_timeout(Duration::from_secs(2));
    client.try_cmd(&filled(words, server, other))?;
    if for_server {
        std::thread::sleep(Duration::from_millis(rng.below(60) as u64));
        for words in UNDO {
            client.try_cmd(&filled(words, server, other))?;
        }
    }
    Ok(())
}

fn filled(words: &str, server: &Server, other: &Server) -> Vec<String> {
    let fill = |word: &str| match word {
        "OTHER" => other.port().to_string(),
        "SERVER" => server.port().to_string(),
        word => word.to_string(),
    };
    words.split(' ').map(fill).collect()
}

/// A connection that sends any lines of a replica in any order, reads some of the replies, and leaves.
pub(super) fn pretend_replica(server: &Server, other: &Server, rng: &mut Rng) -> io::Result<()> {
    let mut socket = TcpStream::connect(("127.0.0.1", server.port()))?;
    socket.set_read_timeout(Some(Duration::from_millis(1 + rng.below(40) as u64)))?;
    for _ in 0..1 + rng.below(8) {
        let words = *rng.pick(REPLICA_LINES);
        socket.write_all(&encode(&filled(words, server, other)))?;
        if rng.percent(50) {
            // The bytes are a reply, a full sync or a stream.
            match socket.read(&mut [0; 4096]) {
                Ok(_) => {}
                Err(e) if is_silence(&e) => {}
                Err(e) => return Err(e),
            }
        }
    }
    if rng.percent(30) {
        socket.shutdown(Shutdown::Write)?;
        std::thread::sleep(Duration::from_millis(rng.below(20) as u64));
    }
    Ok(())
}

/// Makes a server a primary, whatever its present state is.
#[track_caller]
pub fn make_primary(client: &mut Client) {
    wait_until(
        "a primary, which",
        || {
            client.cmd(&["FAILOVER", "ABORT"]);
            // Refused while a full sync is loaded.
            let reply = client.cmd(&["REPLICAOF", "NO", "ONE"]);
            i64::from(reply.error().is_none() && info(client, "loading") == 0)
        },
        |is_free| is_free == 1,
    );
}

/// Checks that no replica is left, nor a thread that sends or receives a full sync.
#[track_caller]
pub fn check_no_replica_is_left(server: &Server, client: &mut Client) {
    wait_until("connected_slaves", || info(client, "connected_slaves"), |n| n == 0);
    let copying = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid()));
        let names = tasks.into_iter().flatten().flatten();
        let names = names.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| ["weft-sync", "weft-load-0"].contains(&name.trim_end())).count() as i64
    };
    wait_until("the number of threads that copy", copying, |n| n == 0);
}

/// Makes the other server follow the one under test, and checks that it gets the same data and
/// offset.
#[track_caller]
pub fn check_can_follow(server: &Server, other: &Server) {
    let (mut above, mut below) = (server.client(), other.client());
    make_primary(&mut below);
    for n in 0..100 {
        above.ok(&["SET", &format!("after:{n}"), "everything"]);
    }
    below.ok(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]);
    // Twice as long as a full sync may take.
    let tries = 2 * PATIENCE.as_millis() / 50;
    let mut seen = [(0, String::new()), (-1, String::new())];
    for _ in 0..tries {
        let digest = |client: &mut Client| client.cmd(&["DEBUG", "DIGEST"]).text();
        seen = [
            (info(&mut above, "master_repl_offset"), digest(&mut above)),
            (info(&mut below, "master_repl_offset"), digest(&mut below)),
        ];
        if seen[0] == seen[1] {
            below.ok(&["REPLICAOF", "NO", "ONE"]);
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the other server does not get the same data: {seen:?}\n{}", other.log_tail());
}
