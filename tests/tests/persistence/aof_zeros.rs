//! Zeros written ahead of the end of the append-only file under `appendfsync always`: when they
//! exist, when they are cut off, how they are loaded, and which part of a torn last write is lost.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_testkit::faulty::FaultyDisk;
use weft_testkit::{Client, Server, locate};
use weft_tests::persistence::{PATIENCE, info};
use weft_tests::replication::wait_for_link;

const ALWAYS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
/// Bytes of the smallest block of zeros.
const PIECE: u64 = 64 << 10;

fn file(server: &Server, number: u32) -> PathBuf {
    server.dir().join(format!("appendonlydir/appendonly.aof.{number}.incr.aof"))
}

fn length(server: &Server, number: u32) -> u64 {
    fs::metadata(file(server, number)).expect("a file of increments").len()
}

/// The content of the file without the zeros at its end.
fn held(server: &Server, number: u32) -> Vec<u8> {
    let mut bytes = fs::read(file(server, number)).expect("a file of increments");
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    bytes.truncate(end);
    bytes
}

#[track_caller]
fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Checks whether zeros follow a write.
#[track_caller]
fn assert_ahead(server: &Server, client: &mut Client, number: u32, is_ahead: bool) {
    client.ok(&["SET", "key", "value"]);
    let holds = held(server, number).len() as u64;
    let length = length(server, number);
    if is_ahead {
        assert!(
            length > holds && length.is_multiple_of(PIECE),
            "{length} bytes, {holds} of them data"
        );
    } else {
        assert_eq!(length, holds);
    }
}

#[test]
fn zeros_exist_only_under_always_and_are_cut_off() {
    let mut server = Server::weft(&ALWAYS);
    let mut client = server.client();
    assert_eq!(length(&server, 1), 0, "the file is empty");
    assert_ahead(&server, &mut client, 1, true);
    let set = |client: &mut Client, name: &str, value: &str| {
        client.ok(&["CONFIG", "SET", name, value]);
    };
    for (name, off, on) in [
        ("aof-zeros-ahead", "no", "yes"),
        ("appendfsync", "everysec", "always"),
        ("appendfsync", "no", "always"),
        ("aof-checksum", "no", "yes"),
        ("no-appendfsync-on-rewrite", "yes", "no"),
    ] {
        set(&mut client, name, off);
        wait_until(name, || length(&server, 1) == held(&server, 1).len() as u64);
        client.ok(&["SET", "key", "other"]);
        wait_until(name, || info(&mut client, "aof_buffer_length") == "0");
        set(&mut client, name, on);
        assert_ahead(&server, &mut client, 1, true);
    }
    // The reported size matches the file, with a delay: a reply waits for the sync, but not for the
    // statistics.
    wait_until("aof_current_size", || {
        let size: u64 = info(&mut client, "aof_current_size").parse().expect("bytes");
        let base: u64 = info(&mut client, "aof_base_size").parse().expect("bytes");
        size - base == held(&server, 1).len() as u64
    });
    // More than a block in one write, and block after block.
    let large = "v".repeat(200_000);
    for _ in 0..10 {
        client.ok(&["SET", "large", &large]);
        assert_ahead(&server, &mut client, 1, true);
    }
    // A file that is no longer written has no zeros.
    set(&mut client, "aof-disable-auto-gc", "yes");
    client.cmd(&["BGREWRITEAOF"]);
    wait_until("a rewrite", || {
        info(&mut client, "aof_rewrites") == "1"
            && info(&mut client, "aof_rewrite_in_progress") == "0"
    });
    assert_eq!(length(&server, 1), held(&server, 1).len() as u64);
    assert_ahead(&server, &mut client, 2, true);
    set(&mut client, "appendonly", "no");
    wait_until("the zeros are cut off", || length(&server, 2) == held(&server, 2).len() as u64);
    set(&mut client, "appendonly", "yes");
    wait_until("a base", || {
        info(&mut client, "aof_rewrites") == "2"
            && info(&mut client, "aof_rewrite_in_progress") == "0"
    });
    assert_ahead(&server, &mut client, 3, true);
    server.stop_term();
    assert_eq!(length(&server, 3), held(&server, 3).len() as u64);
}

#[test]
fn killed_server_leaves_zeros_that_load_without_error() {
    let strict = ["--aof-load-truncated", "no"];
    let mut server = Server::weft(&[&ALWAYS[..], &strict].concat());
    for run in 1..4 {
        let mut client = server.client();
        for n in 0..20 {
            assert!(client.cmd(&["RPUSH", "list", &n.to_string()]).int() > 0);
        }
        client.cmd(&["MULTI"]);
        client.cmd(&["RPUSH", "list", "a"]);
        client.cmd(&["SET", "key", "value"]);
        assert_eq!(client.cmd(&["EXEC"]).items().len(), 2);
        server.kill();
        let (holds, length) = (held(&server, 1).len() as u64, length(&server, 1));
        assert!(holds < length);
        server.restart();
        assert_eq!(server.client().cmd(&["LLEN", "list"]).int(), 21 * run);
        let expected = format!("ends in {} bytes that were written ahead", length - holds);
        assert!(server.log().contains(&expected), "{}", server.log_tail());
        assert_eq!(self::length(&server, 1), holds, "the zeros are cut off");
    }
}

/// The log of a server that refuses to start with the existing files.
#[track_caller]
fn refusal(server: &Server, args: &[&str]) -> String {
    let port = weft_testkit::server::free_port().to_string();
    let output = tempfile::NamedTempFile::new().expect("a file");
    let mut child = Command::new(locate::weft());
    child.args(["--port", &port, "--bind", "127.0.0.1", "--save", ""]).args(ALWAYS).args(args);
    child.stdout(output.reopen().expect("the file exists")).current_dir(server.dir());
    let mut child = child.spawn().expect("the program runs");
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().expect("the child can be polled").is_none() {
        let said = || fs::read_to_string(output.path()).unwrap_or_default();
        if Instant::now() > deadline || said().contains("Ready to accept connections") {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the server started:\n{}", said());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    fs::read_to_string(output.path()).expect("the file exists")
}

#[test]
fn partly_missing_last_write_is_dropped_and_not_reported_as_damage() {
    let mut server = Server::weft(&ALWAYS);
    let mut client = server.client();
    for n in 0..4 {
        client.ok(&["SET", &format!("k{n}"), &"v".repeat(20_000)]);
        client.ok(&["SET", &format!("s{n}"), "value"]);
    }
    let from = held(&server, 1).len();
    client.cmd(&["MULTI"]);
    client.cmd(&["SET", "last", &"v".repeat(20_000)]);
    // A batch header inside a value is data if its numbers are impossible.
    let head = "#CRC:0123456789abcdef:000000000001:ffffffffffff\r\n";
    client.cmd(&["SET", "other", &format!("{head}{}{head}", "v".repeat(20_000))]);
    client.cmd(&["EXEC"]);
    server.kill();
    let whole = fs::read(file(&server, 1)).expect("the log");
    let page = |at: usize| at.next_multiple_of(4096);
    let end = held(&server, 1).len();
    for hole in [
        from..page(from),
        page(from)..page(from) + 4096,
        from..page(from) + 8192,
        end / 4096 * 4096..end,
        from..end - 1,
    ] {
        let mut torn = whole.clone();
        torn[hole.clone()].fill(0);
        fs::write(file(&server, 1), &torn).expect("the disk has space");
        let printed = refusal(&server, &["--aof-load-truncated", "no"]);
        assert!(printed.contains("Unexpected end of file"), "{hole:?}: {printed}");
        assert_eq!(
            fs::read(file(&server, 1)).expect("the file exists"),
            torn,
            "the file must not change"
        );
        server.restart();
        let mut client = server.client();
        assert_eq!(client.cmd(&["DBSIZE"]).int(), 8, "{hole:?}");
        assert_eq!(length(&server, 1), from as u64, "{hole:?}");
        server.kill();
    }
    // The last write was not acknowledged, but the writes before it were, so this is damage.
    let mut damaged = whole.clone();
    damaged[page(8192)..page(8192) + 4096].fill(0);
    fs::write(file(&server, 1), &damaged).expect("the disk has space");
    let printed = refusal(&server, &[]);
    assert!(printed.contains("Bad file format reading the append only file"), "{printed}");
    assert_eq!(
        fs::read(file(&server, 1)).expect("the file exists"),
        damaged,
        "the file must not change"
    );
}

#[test]
fn server_continues_without_space_for_zeros() {
    let Some(disk) = FaultyDisk::new() else { return };
    for fault in ["28", "5", "half"] {
        let mut server = disk.server(&ALWAYS);
        let mut client = server.client();
        disk.fails(&format!("ahead .incr. {fault} 1 1000000"));
        for n in 0..50 {
            assert!(client.cmd(&["RPUSH", "list", &n.to_string()]).int() > 0);
        }
        assert!(disk.hits() > 0, "{fault}");
        assert_eq!(length(&server, 1) > held(&server, 1).len() as u64, fault == "half");
        disk.works();
        // The server tries again, though not on every write.
        let value = "v".repeat(40_000);
        for _ in 0..3 {
            client.ok(&["SET", "key", &value]);
        }
        assert!(length(&server, 1) > held(&server, 1).len() as u64, "{fault}");
        server.kill();
        server.restart();
        assert_eq!(server.client().cmd(&["LLEN", "list"]).int(), 50);
    }
}

/// After a rewrite the new file may hold only the replication offset.
#[test]
fn replication_offset_alone_is_not_followed_by_zeros() {
    let strict = ["--aof-load-truncated", "no", "--repl-diskless-sync-delay", "0"];
    let args = [&ALWAYS[..], &strict].concat();
    let mut primary = Server::weft(&args);
    let replicates = format!("127.0.0.1 {}", primary.port());
    let mut replica = Server::weft(&[&args[..], &["--replicaof", &replicates]].concat());
    wait_for_link(&mut replica.client());
    let mut client = primary.client();
    client.ok(&["SET", "key", "value"]);
    wait_until("the key", || replica.client().cmd(&["EXISTS", "key"]).int() == 1);
    for server in [&mut primary, &mut replica] {
        let mut client = server.client();
        let folder = server.dir().join("appendonlydir");
        let last = || {
            let names = fs::read_dir(&folder).expect("the AOF folder");
            let names = names.map(|entry| entry.expect("a name").path());
            names
                .filter(|path| path.to_string_lossy().ends_with(".incr.aof"))
                .max()
                .expect("a file")
        };
        let before = last();
        client.cmd(&["BGREWRITEAOF"]);
        let has_offset = || fs::read(last()).is_ok_and(|bytes| bytes.starts_with(b"#REPL:"));
        wait_until("a position in a new file", || last() != before && has_offset());
        wait_until("the end of the rewrite", || {
            info(&mut client, "aof_rewrite_in_progress") == "0"
        });
        let bytes = fs::read(last()).expect("a file of increments");
        assert!(!bytes.contains(&0), "{} bytes", bytes.len());
        server.kill();
        server.restart();
        assert_eq!(server.client().cmd(&["EXISTS", "key"]).int(), 1);
    }
}

/// `aof-load-corrupt-tail-max-size` counts written bytes, not the zeros after them.
#[test]
fn zeros_do_not_count_as_damaged_bytes() {
    let mut server =
        Server::weft(&[&ALWAYS[..], &["--aof-load-corrupt-tail-max-size", "200"]].concat());
    let mut client = server.client();
    for n in 0..10 {
        client.ok(&["SET", &format!("k{n}"), "value"]);
    }
    server.kill();
    let whole = fs::read(file(&server, 1)).expect("the log");
    let end = held(&server, 1).len();
    let damaged = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(file(&server, 1), bytes).expect("the disk has space");
    };
    damaged(end - 500);
    let printed = refusal(&server, &["--aof-load-corrupt-tail-max-size", "200"]);
    let lost = printed.split_once("This drops the ").and_then(|(_, rest)| rest.split_once(' '));
    let lost: usize = lost.and_then(|(bytes, _)| bytes.parse().ok()).expect("how much is lost");
    assert!(lost >= 500 && lost < end, "{printed}");
    damaged(end - 4);
    server.restart();
    assert_eq!(server.client().cmd(&["DBSIZE"]).int(), 9);
    assert!(server.log().contains("are damaged"), "{}", server.log_tail());
}

/// A copy of the file may read zeros where data are written a moment later, and then read the data
/// after that.
#[test]
fn file_copied_over_zeros_may_have_a_hole_and_without_zeros_has_none() {
    let mut server = Server::weft(&ALWAYS);
    let mut client = server.client();
    let number = |n: u64| n.to_string();
    for n in 0..100 {
        client.cmd(&["RPUSH", "list", &number(n)]);
    }
    let early = fs::read(file(&server, 1)).expect("the log");
    for n in 100..500 {
        client.cmd(&["RPUSH", "list", &number(n)]);
    }
    let mut copy = fs::read(file(&server, 1)).expect("the log");
    server.kill();
    let (page, end) = (held(&server, 1).len() / 2, held(&server, 1).len());
    assert!(early[page - 4096..page].iter().all(|byte| *byte == 0), "of {end}");
    copy[..page].copy_from_slice(&early[..page]);
    fs::write(file(&server, 1), &copy).expect("the disk has space");
    // It looks like an acknowledged write that is missing.
    let printed = refusal(&server, &[]);
    assert!(printed.contains("--check-aof --fix"), "{printed}");
    let mut check = Command::new(locate::weft());
    check.args(["--check-aof", "--fix", "appendonlydir/appendonly.aof.manifest"]);
    let mut check = check
        .current_dir(server.dir())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program runs");
    check.stdin.take().expect("a pipe").write_all(b"y\n").expect("the program reads");
    assert!(check.wait().expect("the child can be polled").success());
    server.restart();
    // All elements from before the copy began.
    let mut client = server.client();
    let has = client.cmd(&["LLEN", "list"]).int() as u64;
    assert_eq!(has, 100);
    // Without zeros, a copy is always a prefix of the file, also during writes.
    client.ok(&["CONFIG", "SET", "aof-zeros-ahead", "no"]);
    wait_until("the end of zeros", || length(&server, 1) == held(&server, 1).len() as u64);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (mut writer, done) = (server.client(), &done);
        scope.spawn(move || {
            for n in has.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                writer.cmd(&["RPUSH", "list", &number(n)]);
            }
        });
        for _ in 0..50 {
            let bytes = fs::read(file(&server, 1)).expect("the log");
            assert_ne!(bytes.last(), Some(&0));
            assert!(!bytes.contains(&0));
        }
        done.store(true, Ordering::Relaxed);
    });
}
