//! `appendfsync always`: the reply to a write is sent only after its sync, whichever client gets it
//! and whichever thread sends it. Other clients are served meanwhile.
//!
//! The tests hold the syncs of a real server, one after another.

use std::time::{Duration, Instant};
use weft_testkit::client::encode;
use weft_testkit::faulty::FaultyDisk;
use weft_testkit::{Client, Server};

const PATIENCE: Duration = Duration::from_secs(60);
/// How long no reply may arrive. A shorter time could hide a fault, but never causes a false
/// failure.
const SILENCE: Duration = Duration::from_millis(100);
/// Enough connections for each thread to have some.
const CONNECTIONS: usize = 8;

fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A client that sent requests and must not get their replies yet.
struct PendingRequest {
    what: String,
    client: Client,
    answers: usize,
}

impl PendingRequest {
    /// Sends all requests in one write.
    fn begin(server: &Server, what: &str, requests: &[&[&str]]) -> PendingRequest {
        let mut client = server.client();
        let bytes: Vec<u8> = requests.iter().flat_map(|words| encode(words)).collect();
        client.send_raw(&bytes).expect("sent");
        PendingRequest { what: what.into(), client, answers: requests.len() }
    }

    /// Queues the commands and sends EXEC.
    fn execute(server: &Server, what: &str, commands: &[&[&str]]) -> PendingRequest {
        let mut client = server.client();
        client.ok(&["MULTI"]);
        for words in commands {
            assert_eq!(client.cmd(words).text(), "QUEUED");
        }
        client.send_raw(&encode(&["EXEC"])).expect("sent");
        PendingRequest { what: what.into(), client, answers: 1 }
    }

    fn assert_unanswered(&mut self) {
        self.client.set_timeout(SILENCE);
        if let Ok(early) = self.client.read_reply() {
            panic!("{}: {} came before the sync had ended", self.what, early.value);
        }
    }

    /// Waits for all replies and returns the last one.
    fn answer(&mut self) -> String {
        self.client.set_timeout(PATIENCE);
        let mut last = None;
        for _ in 0..self.answers {
            match self.client.read_reply() {
                Ok(reply) => last = Some(reply.value.to_string()),
                Err(e) => panic!("{}: {e}", self.what),
            }
        }
        last.expect("at least one reply")
    }
}

/// Checks that all these connections are served and see the write.
fn assert_visible(readers: &mut [Client], key: &str, value: &str) {
    for reader in readers {
        wait_for(key, || reader.cmd(&["GET", key]).to_string().contains(value));
        assert_eq!(reader.cmd(&["GET", "nothing"]).bytes(), None);
    }
}

fn server(disk: &FaultyDisk, threads: &str) -> (Server, Vec<Client>) {
    let server = disk.server(&[
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--io-threads",
        threads,
        "--io-threads-always-active",
        "yes",
    ]);
    let readers = (0..CONNECTIONS).map(|_| {
        let mut reader = server.client();
        reader.set_timeout(PATIENCE);
        reader
    });
    let readers = readers.collect();
    (server, readers)
}

fn blocked(client: &mut Client) -> String {
    let text = client.cmd(&["INFO", "clients"]).text();
    let line = text.lines().find_map(|line| line.strip_prefix("blocked_clients:"));
    line.unwrap_or_default().to_string()
}

#[test]
fn replies_to_writes_wait_for_the_sync_and_other_replies_do_not() {
    let Some(disk) = FaultyDisk::new() else { return };
    for threads in ["1", "4"] {
        let (server, mut readers) = server(&disk, threads);
        let members: Vec<String> = (0..50_000).map(|n| format!("member:{n}")).collect();
        let add: Vec<&str> =
            ["SADD", "big"].into_iter().chain(members.iter().map(|m| &**m)).collect();
        readers[0].cmd(&add).int();
        let mut popping: Vec<PendingRequest> = (0..3)
            .map(|n| {
                PendingRequest::begin(&server, &format!("BLPOP {n}"), &[&["BLPOP", "queue", "0"]])
            })
            .collect();
        wait_for("three blocked clients", || blocked(&mut readers[0]) == "3");
        disk.fails("sync .incr. hold 1 1");
        let mut all: Vec<PendingRequest> = (0..CONNECTIONS)
            .map(|n| {
                PendingRequest::begin(
                    &server,
                    &format!("SET {n}"),
                    &[&["SET", &format!("a{n}"), "1"]],
                )
            })
            .collect();
        let ask = |what, requests: &[&[&str]]| PendingRequest::begin(&server, what, requests);
        all.push(ask("a pipeline", &[&["INCR", "n"], &["GET", "n"], &["INCR", "n"]]));
        let set: [&[&str]; 2] = [&["SET", "t", "1"], &["GET", "t"]];
        all.push(PendingRequest::execute(&server, "a transaction", &set));
        all.push(ask("LPUSH", &[&["LPUSH", "queue", "x", "y", "z"]]));
        all.push(ask("the slow lane", &[&["SUNIONSTORE", "copy", "big"]]));
        all.push(PendingRequest::execute(&server, "another transaction", &[&["RPUSH", "q2", "x"]]));
        all.append(&mut popping);
        for n in 0..CONNECTIONS {
            assert_visible(&mut readers, &format!("a{n}"), "1");
        }
        assert_visible(&mut readers, "n", "2");
        assert_visible(&mut readers, "t", "1");
        for reader in &mut readers {
            wait_for("the elements are served", || {
                reader.cmd(&["EXISTS", "queue"]).int() == 0
                    && reader.cmd(&["EXISTS", "q2", "copy"]).int() == 2
            });
            assert_eq!(reader.cmd(&["WAITAOF", "1", "0", "1"]).items()[0].int(), 0);
        }
        // A client that only read does not wait, also not in a transaction.
        for reader in &mut readers {
            reader.ok(&["MULTI"]);
            reader.cmd(&["GET", "t"]);
            assert_eq!(reader.cmd(&["EXEC"]).items().len(), 1);
        }
        all.iter_mut().for_each(PendingRequest::assert_unanswered);
        assert_eq!(disk.hits(), 1, "the sync is held");
        disk.works();
        let answers: Vec<String> = all.iter_mut().map(PendingRequest::answer).collect();
        assert!(answers.iter().all(|answer| !answer.contains("ERR")), "{answers:?}");
    }
}

/// A write during a sync is not covered by that sync.
#[test]
fn write_during_a_sync_waits_for_the_next_one() {
    let Some(disk) = FaultyDisk::new() else { return };
    for threads in ["1", "4"] {
        let (server, mut readers) = server(&disk, threads);
        disk.fails("sync .incr. hold 1 1");
        let mut first = PendingRequest::begin(&server, "the first", &[&["SET", "a", "1"]]);
        wait_for("the first sync", || disk.hits() == 1);
        let mut popping = PendingRequest::begin(&server, "BLPOP", &[&["BLPOP", "queue", "0"]]);
        wait_for("one blocked client", || blocked(&mut readers[0]) == "1");
        let mut later: Vec<PendingRequest> = (0..CONNECTIONS)
            .map(|n| {
                PendingRequest::begin(
                    &server,
                    &format!("SET {n}"),
                    &[&["SET", &format!("b{n}"), "1"]],
                )
            })
            .collect();
        let commands: [&[&str]; 2] = [&["SET", "t", "1"], &["LPUSH", "queue", "x"]];
        later.push(PendingRequest::execute(&server, "EXEC", &commands));
        for n in 0..CONNECTIONS {
            assert_visible(&mut readers, &format!("b{n}"), "1");
        }
        assert_visible(&mut readers, "t", "1");
        first.assert_unanswered();
        // The first sync ends, and the next one is held.
        disk.fails("sync .incr. hold 1 2");
        assert!(first.answer().contains("OK"));
        wait_for("the next sync", || disk.hits() == 1);
        popping.assert_unanswered();
        later.iter_mut().for_each(PendingRequest::assert_unanswered);
        assert_visible(&mut readers, "a", "1");
        disk.works();
        later.push(popping);
        later.iter_mut().for_each(|pending| drop(pending.answer()));
    }
}
