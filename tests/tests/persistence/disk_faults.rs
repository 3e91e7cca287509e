//! A failing disk under a real server: no lost write is acknowledged, no acknowledged write is
//! lost, and the server continues when the disk recovers.
//!
//! `DISK_FAULTS_STEP` sets the distance between the calls that fail (9): with 1, each call of a run
//! fails once. A run is some writes with two rewrites and a snapshot.

use std::time::{Duration, Instant};
use weft_testkit::faulty::FaultyDisk;
use weft_testkit::{Client, Server};
use weft_tests::env_or;

const PATIENCE: Duration = Duration::from_secs(60);

const NO_SPACE: &str = "28";
const BROKEN: &str = "5";
const HALF: &str = "half";

/// Waits until no rewrite or snapshot is running, or the server is gone. Returns whether it is
/// alive.
fn is_quiet(client: &mut Client) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while let Ok(reply) = client.try_cmd(&["INFO", "persistence"]) {
        let text = reply.value.text();
        let is_zero = |field: &str| text.contains(&format!("{field}:0\r"));
        if is_zero("aof_rewrite_in_progress") && is_zero("rdb_bgsave_in_progress") {
            return true;
        }
        assert!(Instant::now() < deadline, "a rewrite or a snapshot does not end\n{text}");
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn log_server(disk: &FaultyDisk, policy: &str) -> Server {
    disk.server(&["--appendonly", "yes", "--appendfsync", policy])
}

/// The result of a request.
enum Outcome {
    Acknowledged,
    Refused,
    /// The server is gone.
    Gone,
}

/// The writes of a client and their results.
#[derive(Default)]
struct History {
    acknowledged: Vec<u64>,
    /// Sent when the server exited, and possibly executed.
    open: Option<u64>,
    next: u64,
}

impl History {
    /// Appends the next number to a list, and sets two keys in other shards to it.
    fn write(&mut self, client: &mut Client) -> Outcome {
        self.next += 1;
        let n = self.next.to_string();
        let words: [&[&str]; 5] =
            [&["MULTI"], &["RPUSH", "list", &n], &["SET", "a", &n], &["SET", "b", &n], &["EXEC"]];
        let words: Vec<Vec<&str>> = words.iter().map(|words| words.to_vec()).collect();
        let Ok(replies) = client.pipeline(&words) else {
            self.open = Some(self.next);
            return Outcome::Gone;
        };
        let answer = &replies[4].value;
        match answer.error() {
            None => {
                assert_eq!(answer.items().len(), 3);
                self.acknowledged.push(self.next);
                Outcome::Acknowledged
            }
            Some(why) => {
                let first = replies[1].value.error().unwrap_or_default();
                let is_misconf = [&why, &first].iter().any(|e| e.starts_with("MISCONF"));
                assert!(is_misconf, "refused by {why} {first}");
                Outcome::Refused
            }
        }
    }

    /// The loaded data are exactly the acknowledged writes, without refused ones.
    fn assert_loaded(&self, server: &Server, how: &str) {
        let mut client = server.client();
        let list = client.cmd(&["LRANGE", "list", "0", "-1"]);
        let list: Vec<u64> =
            list.items().iter().map(|n| n.text().parse().expect("a number")).collect();
        let mut with_open = self.acknowledged.clone();
        with_open.extend(self.open);
        assert!(
            list == self.acknowledged || list == with_open,
            "{how}: loaded {list:?}, but {:?} was acknowledged",
            self.acknowledged
        );
        for key in ["a", "b"] {
            let value = client.cmd(&["GET", key]);
            let value = value.bytes().map(|_| value.text());
            assert_eq!(value, list.last().map(u64::to_string), "{how}: torn");
        }
    }
}

/// Writes, with two rewrites and a snapshot in between, until all is done or the server is gone.
/// Returns whether it is alive.
fn write_with_saves(client: &mut Client, history: &mut History) -> bool {
    for step in 0..12 {
        let background = match step {
            3 | 7 => &["BGREWRITEAOF"][..],
            9 => &["BGSAVE"],
            _ => &["PING"],
        };
        // The command may be refused, and the server may be gone.
        if client.try_cmd(background).is_err() {
            return false;
        }
        if let Outcome::Gone = history.write(client) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(4));
        if background[0] != "PING" && !is_quiet(client) {
            return false;
        }
    }
    true
}

/// Waits until a write is accepted again.
fn wait_until_accepted(client: &mut Client, history: &mut History, how: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match history.write(client) {
            Outcome::Acknowledged => return,
            Outcome::Refused if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Outcome::Refused => panic!("{how}: writes stay refused"),
            Outcome::Gone => panic!("{how}: the server has exited"),
        }
    }
}

/// Runs a server while these calls fail, and restarts it. Returns how many calls failed.
fn run_and_restart(disk: &FaultyDisk, policy: &str, faults: &str) -> usize {
    let how = format!("{policy}, {faults}");
    let mut server = log_server(disk, policy);
    let mut client = server.client();
    client.set_timeout(PATIENCE);
    let mut history = History::default();
    disk.fails(faults);
    let survived = write_with_saves(&mut client, &mut history);
    let hits = disk.hits();
    disk.works();
    if survived {
        wait_until_accepted(&mut client, &mut history, &how);
        history.write(&mut client);
        if policy != "always" {
            let safe = client.cmd(&["WAITAOF", "1", "0", "30000"]);
            assert_eq!(safe.items().first().map(|n| n.int()), Some(1), "{how}: {safe}");
        }
        server.kill();
    } else {
        assert_eq!(policy, "always", "{how}: the server has ended\n{}", server.log_tail());
        assert_eq!(server.wait().code(), Some(1), "{how}\n{}", server.log_tail());
    }
    server.restart();
    history.assert_loaded(&server, &how);
    hits
}

/// Each call of a run fails once, each in a run of its own.
fn each_call_fails(policy: &str, error: &str) {
    let Some(disk) = FaultyDisk::new() else { return };
    let step = env_or("DISK_FAULTS_STEP", 9);
    // A different remainder for each test, so that together they cover more calls.
    let first = 1 + (policy.len() + error.len()) % step;
    for nth in (first..).step_by(step) {
        if run_and_restart(&disk, policy, &format!("any any {error} {nth} {nth}")) == 0 {
            assert!(nth > 20, "a run has more than {nth} calls");
            return;
        }
    }
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn server_survives_no_space_in_one_call() {
    each_call_fails("everysec", NO_SPACE);
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn server_survives_an_error_in_one_call() {
    each_call_fails("everysec", BROKEN);
}

#[test]
fn server_under_always_loses_nothing_after_an_error_in_one_call() {
    each_call_fails("always", BROKEN);
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn server_survives_no_space_from_some_call_on() {
    let Some(disk) = FaultyDisk::new() else { return };
    for (policy, error) in [("everysec", NO_SPACE), ("everysec", BROKEN), ("always", NO_SPACE)] {
        for nth in [1, 4, 9, 17, 30] {
            run_and_restart(&disk, policy, &format!("any any {error} {nth} 1000000"));
        }
    }
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn short_writes_lose_nothing() {
    let Some(disk) = FaultyDisk::new() else { return };
    for policy in ["everysec", "always"] {
        for nth in [1, 2, 5] {
            let fails = format!("write .incr. {NO_SPACE} {} {}\n", nth + 1, nth + 4);
            run_and_restart(&disk, policy, &format!("{fails}write .incr. {HALF} {nth} {nth}"));
            run_and_restart(&disk, policy, &format!("write any {HALF} {nth} 1000000"));
        }
        // A partial write can't be truncated.
        let both = format!("truncate any {BROKEN} 1 3\nwrite .incr. {HALF} 2 2");
        run_and_restart(&disk, policy, &format!("{both}\nwrite .incr. {NO_SPACE} 3 5"));
    }
}

/// Wherever a rewrite fails, even if its folder is gone: after some failures in a row the server
/// retries it less and less often, like the reference.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn failing_rewrite_is_retried_less_and_less_often() {
    let Some(disk) = FaultyDisk::new() else { return };
    let often = ["--auto-aof-rewrite-min-size", "1", "--auto-aof-rewrite-percentage", "1"];
    let rest = ["--appendonly", "yes", "--enable-protected-configs", "yes"];
    for (faults, size) in [
        ("", 0),
        ("open .incr. 13 1 1000000", 0),
        ("write .rdb 28 1 1000000", 0),
        // In the middle of the RDB file, not at its end.
        ("write .rdb 28 1 1000000", 1 << 20),
        ("sync .rdb 5 1 1000000", 0),
        ("rename .base. 28 1 1000000", 0),
    ] {
        let server = disk.server(&[&often[..], &rest, &["--rdbcompression", "no"]].concat());
        let mut client = server.client();
        if size > 0 {
            client.ok(&["SET", "large", &"v".repeat(size)]);
        }
        let folder = server.dir().join("gone");
        std::fs::create_dir(&folder).expect("a folder");
        client.ok(&["CONFIG", "SET", "auto-aof-rewrite-percentage", "0"]);
        assert!(is_quiet(&mut client));
        match faults {
            "" => {
                client.ok(&["CONFIG", "SET", "dir", folder.to_str().expect("valid UTF-8")]);
                std::fs::remove_dir(&folder).expect("the folder is empty");
            }
            _ => disk.fails(faults),
        }
        client.ok(&["CONFIG", "SET", "auto-aof-rewrite-percentage", "1"]);
        let deadline = Instant::now() + PATIENCE;
        let failures = |client: &mut Client| {
            let text = client.cmd(&["INFO", "persistence"]).text();
            let field = "aof_rewrites_consecutive_failures:";
            let line = text.lines().find_map(|line| line.strip_prefix(field));
            line.expect("the field is listed").to_string()
        };
        let attempts = |server: &Server| server.log().matches("automatic rewriting of AOF").count();
        while !server.log().contains("triggered the limit, will retry in 1 minutes") {
            assert!(Instant::now() < deadline, "{faults}: no pause\n{}", server.log_tail());
            client.ok(&["SET", "key", &"v".repeat(1000)]);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(failures(&mut client), "3", "{faults}");
        let before = attempts(&server);
        std::thread::sleep(Duration::from_secs(2));
        client.ok(&["SET", "key", &"v".repeat(1000)]);
        assert_eq!(attempts(&server), before, "{faults}");
        if !faults.is_empty() {
            disk.works();
        }
    }
}

/// The AOF is on, but its first base can't be written. SHUTDOWN returns an error instead of waiting
/// forever, and succeeds once the disk recovers.
#[test]
fn shutdown_is_refused_without_the_first_base() {
    let Some(disk) = FaultyDisk::new() else { return };
    let mut server = disk.server(&["--rdbcompression", "no"]);
    let mut client = server.client();
    client.ok(&["SET", "large", &"v".repeat(1 << 20)]);
    disk.fails("write .rdb 28 1 1000000");
    client.ok(&["CONFIG", "SET", "appendonly", "yes"]);
    let refused = client.cmd(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(refused.error().as_deref(), Some("ERR Errors trying to SHUTDOWN. Check logs."));
    assert!(server.log().contains("Writing initial AOF. Can't exit."), "{}", server.log_tail());
    disk.works();
    let deadline = Instant::now() + PATIENCE;
    while client.try_cmd(&["SHUTDOWN", "NOSAVE"]).is_ok() {
        assert!(Instant::now() < deadline, "the server does not exit\n{}", server.log_tail());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(server.wait().success());
}

/// CONFIG GET and CONFIG SET do not wait for the disk while CONFIG REWRITE writes the file.
#[test]
fn configuration_is_available_while_its_file_is_written() {
    let Some(disk) = FaultyDisk::new() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("written.conf");
    std::fs::write(&file, "save \"\"\nio-threads 1\n").expect("a file");
    let server = disk.server_with_file(&file);
    let (mut writer, mut other) = (server.client(), server.client());
    other.ok(&["CONFIG", "SET", "timeout", "77"]);
    disk.fails("sync written.conf stall 1 1000");
    writer.send_raw(b"CONFIG REWRITE\r\n").expect("sent");
    let deadline = Instant::now() + PATIENCE;
    while disk.hits() == 0 {
        assert!(Instant::now() < deadline, "the file is not synced: {}", disk.told());
        std::thread::sleep(Duration::from_millis(5));
    }
    // The only I/O thread also continues.
    assert_eq!(other.cmd(&["CONFIG", "GET", "timeout"]).items()[1].text(), "77");
    other.ok(&["CONFIG", "SET", "timeout", "78"]);
    disk.works();
    assert!(writer.read_reply().expect("a reply").value.is_ok());
    let text = std::fs::read_to_string(&file).expect("the file");
    assert!(text.contains("timeout 77"), "the values at the time of the rewrite: {text}");
    other.ok(&["CONFIG", "REWRITE"]);
    let text = std::fs::read_to_string(&file).expect("the file");
    assert!(text.contains("timeout 78"), "{text}");
}
