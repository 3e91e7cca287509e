//! Background saves, save points, the save at shutdown, loading, and failures of each.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_tests::persistence::info;

use weft_testkit::{Client, Server, Value, locate};

/// Polls until `is_so` returns true; fails after 30 seconds.
#[track_caller]
fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("timed out");
}

fn is_saving(client: &mut Client) -> bool {
    info(client, "rdb_bgsave_in_progress") == "1"
}

fn files(server: &Server) -> Vec<String> {
    let names = fs::read_dir(server.dir()).expect("the folder exists").flatten();
    let mut names: Vec<String> = names
        .map(|entry| entry.file_name().into_string().expect("a name in ASCII"))
        .filter(|name| name.ends_with(".rdb"))
        .collect();
    names.sort();
    names
}

/// The file has the state at the time of BGSAVE, whatever is written during the save.
#[test]
fn file_has_the_state_at_bgsave() {
    let mut weft = Server::weft(&["--rdb-key-save-delay", "1000"]);
    let mut client = weft.client();
    for n in 0..2000 {
        client.ok(&["SET", &format!("k{n}"), "before"]);
    }
    client.cmd(&["RPUSH", "list", "a", "b"]);
    assert_eq!(client.cmd(&["BGSAVE"]).text(), "Background saving started");
    let busy = Some("ERR Background save already in progress".to_owned());
    assert_eq!(client.cmd(&["BGSAVE"]).error(), busy);
    assert_eq!(client.cmd(&["SAVE"]).error(), busy);
    for n in 0..2000 {
        client.ok(&["SET", &format!("k{n}"), "after"]);
        client.ok(&["SET", &format!("new{n}"), "after"]);
    }
    client.cmd(&["RPUSH", "list", "c"]);
    client.ok(&["RENAME", "k7", "renamed"]);
    assert!(is_saving(&mut client), "the save is still running");
    client.ok(&["SWAPDB", "0", "3"]);
    client.ok(&["FLUSHALL"]);
    until(|| !is_saving(&mut client));
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
    assert_eq!(files(&weft), ["dump.rdb"]);
    weft.restart_loading(&[]);
    let mut client = weft.client();
    until(|| info(&mut client, "loading") == "0");
    assert_eq!(client.cmd(&["DBSIZE"]).int(), 2001);
    let list = client.cmd(&["LRANGE", "list", "0", "-1"]);
    assert_eq!(list.items().iter().map(Value::text).collect::<Vec<_>>(), ["a", "b"]);
    for n in 0..2000 {
        assert_eq!(client.cmd(&["GET", &format!("k{n}")]).text(), "before");
    }
}

/// Values edited in place, not replaced, are also saved in their old state.
#[test]
fn values_edited_in_place_are_saved_in_their_old_state() {
    const KEYS: usize = 1000;
    let mut weft = Server::weft(&["--rdb-key-save-delay", "300"]);
    let mut client = weft.client();
    let keys: Vec<String> = (0..KEYS).map(|n| format!("k{n}")).collect();
    for (n, key) in keys.iter().enumerate() {
        let long = "x".repeat([20, 300, 16_384, 16_385, 40_000][n / 5 % 5]);
        match n % 5 {
            0 => client.cmd(&["SET", key, &long]),
            1 => client.cmd(&["SETRANGE", key, "7", &long]),
            2 => client.cmd(&["SET", key, &n.to_string(), "EX", "100000"]),
            3 => client.cmd(&["PFADD", key, "a", "b", "c"]),
            _ => client.cmd(&["SETBIT", key, &(n * 40).to_string(), "1"]),
        };
    }
    let values = |client: &mut Client| -> Vec<Value> {
        keys.iter().map(|key| client.cmd(&["GET", key])).collect()
    };
    let before = values(&mut client);
    assert_eq!(client.cmd(&["BGSAVE"]).text(), "Background saving started");
    for round in 0..3 {
        for (n, key) in keys.iter().enumerate() {
            let at = (n + round).to_string();
            match (n + round) % 5 {
                0 => client.cmd(&["SETBIT", key, "5", &(round % 2).to_string()]),
                1 => client.cmd(&["SETRANGE", key, &at, "edited"]),
                2 => client.cmd(&["APPEND", key, "more"]),
                3 => client.cmd(&["BITFIELD", key, "INCRBY", "u8", "0", "1"]),
                _ => client.cmd(&["PFADD", key, &at]),
            };
        }
        if round == 0 {
            assert!(is_saving(&mut client), "the save is still running");
        }
    }
    assert_ne!(values(&mut client), before);
    until(|| !is_saving(&mut client));
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
    weft.restart_loading(&[]);
    let mut client = weft.client();
    until(|| info(&mut client, "loading") == "0");
    for ((key, was), is) in keys.iter().zip(&before).zip(values(&mut client)) {
        assert!(*was == is, "{key}");
    }
}

/// An edit of a large string during a save copies only a part of it.
#[test]
fn edits_of_large_strings_copy_only_the_edited_parts() {
    const LEN: usize = 8 << 20;
    const LIMIT: u64 = 4 << 20;
    // So slow that nearly all edits happen before a large string is saved.
    let mut weft = Server::weft(&["--rdb-key-save-delay", "3000"]);
    let mut client = weft.client();
    let keys = ["range", "append", "bit", "field"];
    for key in keys {
        client.ok(&["SET", key, &"x".repeat(LEN)]);
    }
    for n in 0..1000 {
        client.ok(&["SET", &format!("k{n}"), "v"]);
    }
    assert_eq!(client.cmd(&["BGSAVE"]).text(), "Background saving started");
    for n in 0..4 {
        let at = (n * (LEN / 4)).to_string();
        client.cmd(&["SETRANGE", "range", &at, "edited"]);
        client.cmd(&["APPEND", "append", "more"]);
        client.cmd(&["SETBIT", "bit", &(8 * n * (LEN / 4)).to_string(), "1"]);
        client.cmd(&["BITFIELD", "field", "INCRBY", "u8", &format!("#{at}"), "1"]);
    }
    assert!(is_saving(&mut client), "the save is still running");
    until(|| !is_saving(&mut client));
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
    let kept: u64 = info(&mut client, "rdb_last_cow_size").parse().expect("a number");
    assert!(kept < LIMIT, "{kept} bytes were copied");
    weft.restart_loading(&[]);
    let mut client = weft.client();
    until(|| info(&mut client, "loading") == "0");
    for key in keys {
        assert!(client.cmd(&["GET", key]).text() == "x".repeat(LEN), "{key} is unchanged");
    }
}

#[test]
fn save_can_be_cancelled_and_scheduled() {
    let weft = Server::weft(&["--rdb-key-save-delay", "100000"]);
    let mut client = weft.client();
    let nothing = "ERR Background saving is currently not in progress or scheduled";
    assert_eq!(client.cmd(&["BGSAVE", "CANCEL"]).error().as_deref(), Some(nothing));
    for n in 0..1000 {
        client.ok(&["SET", &format!("k{n}"), "v"]);
    }
    client.cmd(&["BGSAVE", "SCHEDULE"]);
    assert_eq!(client.cmd(&["BGSAVE", "CANCEL"]).text(), "Background saving cancelled");
    until(|| !is_saving(&mut client));
    assert_eq!(
        info(&mut client, "rdb_last_bgsave_status"),
        "ok",
        "a cancelled save is not a failure"
    );
    assert!(files(&weft).is_empty());
    client.ok(&["CONFIG", "SET", "rdb-key-save-delay", "0"]);
    client.ok(&["MULTI"]);
    client.cmd(&["BGSAVE"]);
    let answer = client.cmd(&["EXEC"]);
    assert_eq!(answer.items()[0].text(), "Background saving scheduled");
    until(|| files(&weft) == ["dump.rdb"]);
    for wrong in [&["BGSAVE", "FOO"][..], &["BGSAVE", "SCHEDULE", "CANCEL"]] {
        assert_eq!(client.cmd(wrong).error().as_deref(), Some("ERR syntax error"));
    }
}

/// The commands run even if the client hangs up at once.
#[test]
fn save_and_shutdown_run_without_a_waiting_client() {
    let mut weft = Server::weft(&["--save", "3600 1"]);
    weft.client().ok(&["SET", "a", "1"]);
    for words in ["BGSAVE", "SHUTDOWN"] {
        let mut client = weft.client();
        client.send_raw(format!("{words}\r\n").as_bytes()).expect("the bytes are sent");
        drop(client);
        until(|| files(&weft) == ["dump.rdb"]);
        let _ = fs::remove_file(weft.dir().join("dump.rdb"));
    }
    assert!(weft.wait().success());
}

#[test]
fn save_points_trigger_saves() {
    let weft = Server::weft(&["--save", "1 3"]);
    let mut client = weft.client();
    client.ok(&["SET", "a", "1"]);
    client.ok(&["SET", "b", "1"]);
    std::thread::sleep(Duration::from_millis(2500));
    assert!(files(&weft).is_empty(), "two changes are below the save point");
    client.ok(&["SET", "c", "1"]);
    until(|| files(&weft) == ["dump.rdb"]);
    until(|| info(&mut client, "rdb_changes_since_last_save") == "0");
    assert_eq!(info(&mut client, "rdb_saves"), "1");
}

/// With save points, FLUSHALL also replaces the file.
#[test]
fn flushed_data_does_not_come_back() {
    let mut weft = Server::weft(&["--save", "3600 1"]);
    let mut client = weft.client();
    client.ok(&["SET", "a", "1"]);
    client.ok(&["SAVE"]);
    client.ok(&["FLUSHALL"]);
    until(|| info(&mut client, "rdb_saves") == "2" && !is_saving(&mut client));
    weft.restart();
    assert_eq!(weft.client().cmd(&["DBSIZE"]).int(), 0);
}

#[test]
fn shutdown_saves_all_acknowledged_writes() {
    let mut weft = Server::weft(&["--save", "3600 1000000"]);
    for round in 0..6 {
        let stop = AtomicBool::new(false);
        let port = weft.port();
        let acknowledged = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    let stop = &stop;
                    scope.spawn(move || {
                        let mut last = 0;
                        let Ok(mut client) = Client::try_tcp(port) else { return last };
                        for n in 1.. {
                            let words = ["SET", &format!("w{writer}"), &n.to_string()];
                            match client.try_cmd(&words) {
                                Ok(reply) if reply.value.is_ok() => last = n,
                                _ => break,
                            }
                            if stop.load(Ordering::Relaxed) {
                                break;
                            }
                        }
                        last
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(100));
            if round % 2 == 0 {
                assert!(weft.stop_term().success());
            } else {
                let _ = weft.client().try_cmd(&["SHUTDOWN"]);
                assert!(weft.wait().success());
            }
            stop.store(true, Ordering::Relaxed);
            writers.into_iter().map(|w| w.join().expect("no panic")).collect::<Vec<u64>>()
        });
        weft.restart();
        let mut client = weft.client();
        for (writer, last) in acknowledged.iter().enumerate() {
            let found = client.cmd(&["GET", &format!("w{writer}")]).text();
            let found: u64 = found.parse().unwrap_or(0);
            // One more write may have run whose reply was lost.
            assert!(found == *last || found == last + 1, "found {found}, acknowledged {last}");
        }
    }
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A transaction over many shards is in the file completely or not at all.
#[test]
fn transactions_are_never_torn_in_a_snapshot() {
    let weft = Server::weft(&["--io-threads", "4", "--rdb-key-save-delay", "20"]);
    let mut client = weft.client();
    let names: Vec<String> = (0..40).map(|n| format!("account:{n}")).collect();
    for name in &names {
        client.ok(&["SET", name, "100"]);
    }
    for n in 0..1000 {
        client.ok(&["SET", &format!("other:{n}"), "v"]);
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..3usize {
            let (stop, names, weft) = (&stop, &names, &weft);
            scope.spawn(move || {
                let mut client = weft.client();
                let mut n = seed;
                while !stop.load(Ordering::Relaxed) {
                    n = n.wrapping_mul(25_214_903_917).wrapping_add(11);
                    let (from, to) = (&names[(n >> 16) % 40], &names[(n >> 24) % 40]);
                    client.ok(&["MULTI"]);
                    client.cmd(&["DECR", from]);
                    client.cmd(&["INCR", to]);
                    client.cmd(&["EXEC"]);
                }
            });
        }
        // Also when an assertion fails.
        let _stop = SetOnDrop(&stop);
        let mut client = weft.client();
        for _ in 0..10 {
            client.cmd(&["BGSAVE"]);
            until(|| !is_saving(&mut client));
            let folder = weft.dir().to_str().expect("a path in ASCII");
            let other = Server::weft(&["--dir", folder]);
            let words: Vec<&str> =
                ["MGET"].into_iter().chain(names.iter().map(String::as_str)).collect();
            let values = other.client().cmd(&words);
            let sum: i64 =
                values.items().iter().map(|v| v.text().parse::<i64>().expect("a number")).sum();
            assert_eq!(sum, 4000);
        }
    });
}

#[test]
fn clients_get_loading_errors_during_a_load() {
    let mut weft = Server::weft(&[]);
    let mut client = weft.client();
    for n in 0..5000 {
        client.ok(&["SET", &format!("k{n}"), &"v".repeat(200)]);
    }
    client.ok(&["SAVE"]);
    weft.restart_loading(&["--key-load-delay", "500"]);
    let mut client = weft.client();
    let loading = Some("LOADING Weft is loading the dataset in memory".to_owned());
    for words in [&["GET", "k1"][..], &["PING"], &["SET", "a", "b"], &["BGSAVE"], &["DBSIZE"]] {
        assert_eq!(client.cmd(words).error(), loading, "{words:?}");
    }
    assert_eq!(info(&mut client, "loading"), "1");
    // The server answers before the first part of the file is loaded.
    until(|| info(&mut client, "loading_loaded_bytes") != "0");
    for field in ["loading_start_time", "loading_total_bytes", "loading_loaded_bytes"] {
        assert!(info(&mut client, field).parse::<u64>().expect("a number") > 0, "{field}");
    }
    for field in ["loading_eta_seconds", "loading_rdb_used_mem", "loading_loaded_perc"] {
        assert!(info(&mut client, field).parse::<f64>().is_ok(), "{field}");
    }
    client.ok(&["CONFIG", "SET", "maxclients", "500"]);
    client.ok(&["CONFIG", "SET", "key-load-delay", "0"]);
    until(|| info(&mut client, "loading") == "0");
    assert_eq!(client.cmd(&["DBSIZE"]).int(), 5000);
    assert_eq!(info(&mut client, "rdb_last_load_keys_loaded"), "5000");
    assert_eq!(info(&mut client, "rdb_changes_since_last_save"), "0");
}

#[test]
fn writes_are_refused_after_a_failed_save() {
    let weft = Server::weft(&["--save", "3600 1"]);
    let mut client = weft.client();
    client.ok(&["SET", "a", "1"]);
    let in_the_way = weft.dir().join("dump.rdb");
    fs::create_dir(&in_the_way).expect("a folder with the name of the file");
    assert_eq!(client.cmd(&["SAVE"]).error().as_deref(), Some("ERR"));
    client.ok(&["SET", "a", "2"]);
    client.cmd(&["BGSAVE"]);
    until(|| info(&mut client, "rdb_last_bgsave_status") == "err");
    let refused = |reply: Value| reply.error().is_some_and(|e| e.starts_with("MISCONF Weft is"));
    assert!(refused(client.cmd(&["SET", "a", "3"])));
    assert!(refused(client.cmd(&["PING"])));
    assert_eq!(client.cmd(&["GET", "a"]).text(), "2");
    let stop = client.cmd(&["SHUTDOWN"]).error();
    assert_eq!(stop.as_deref(), Some("ERR Errors trying to SHUTDOWN. Check logs."));
    client.ok(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    client.ok(&["SET", "a", "3"]);
    client.ok(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "yes"]);
    assert!(refused(client.cmd(&["SET", "a", "4"])));
    client.ok(&["CONFIG", "SET", "save", ""]);
    client.ok(&["SET", "a", "4"]);
    client.ok(&["CONFIG", "SET", "save", "3600 1"]);
    assert!(refused(client.cmd(&["SET", "a", "5"])));
    fs::remove_dir(&in_the_way).expect("the folder is empty");
    client.cmd(&["BGSAVE"]);
    until(|| info(&mut client, "rdb_last_bgsave_status") == "ok");
    client.ok(&["SET", "a", "5"]);
    assert_eq!(files(&weft), ["dump.rdb"], "no temporary file is left");
}

#[test]
fn shutdown_is_refused_when_the_save_fails() {
    let mut weft = Server::weft(&["--save", "3600 1"]);
    let mut client = weft.client();
    client.ok(&["SET", "a", "1"]);
    fs::create_dir(weft.dir().join("dump.rdb")).expect("a folder with the name of the file");
    weft.signal(rustix::process::Signal::TERM);
    until(|| weft.log().contains("can't exit"));
    client.ok(&["SET", "a", "2"]);
    let _ = client.try_cmd(&["SHUTDOWN", "FORCE"]);
    assert!(weft.wait().success());
}

/// Starts the program in a folder with this file. Returns its output and the file afterwards.
fn start_with(file: &[u8]) -> (std::process::Output, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("dump.rdb");
    fs::write(&path, file).expect("a file");
    let output = Command::new(locate::weft())
        .args(["--port", "0", "--unixsocket", "socket", "--dir"])
        .arg(folder.path())
        .output()
        .expect("the program runs");
    (output, fs::read(&path).expect("the file still exists"))
}

#[test]
fn file_that_fails_to_load_is_not_changed() {
    for (file, words) in [
        (&b"NOTARDB80"[..], "Wrong signature trying to load DB from file: NOTARDB80"),
        (b"VALKEY081\xff\0\0\0\0\0\0\0\0", "Can't handle RDB format version 81"),
        (b"REDIS0013\xff\0\0\0\0\0\0\0\0", "Can't handle RDB format version 13"),
        (b"REDIS0009\x00\x01k", "Unexpected EOF"),
        (b"REDIS0009\x63\x01k\x01v\xff\0\0\0\0\0\0\0\0", "Invalid object type: 99"),
        (b"REDIS0009\xff\x01\0\0\0\0\0\0\0", "Wrong RDB checksum expected: (1)"),
        (b"REDIS0009\xfe\x10\xff\0\0\0\0\0\0\0\0", "database 16"),
        (b"", "Unexpected EOF"),
    ] {
        let (output, left) = start_with(file);
        let log = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{log}");
        assert!(log.contains(words), "{words} in {log}");
        assert!(log.contains("Fatal error loading the DB"), "{log}");
        assert_eq!(left, file);
    }
}

#[test]
fn check_rdb_reports_errors() {
    let weft = Server::weft(&[]);
    let mut client = weft.client();
    client.ok(&["SET", "a", "1"]);
    client.ok(&["SAVE"]);
    let check = |arguments: &[&std::ffi::OsStr]| {
        let output = Command::new(locate::weft()).arg("--check-rdb").args(arguments).output();
        let output = output.expect("the program runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let path = weft.dir().join("dump.rdb");
    let (code, printed) = check(&[path.as_os_str()]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("\\o/ RDB looks OK! \\o/") && printed.contains("[info] 1 keys read"));
    let mut broken = fs::read(&path).expect("the file");
    broken.truncate(broken.len() - 5);
    let cut = weft.dir().join("cut.rdb");
    fs::write(&cut, broken).expect("a file");
    let (code, printed) = check(&[cut.as_os_str()]);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("Unexpected EOF reading RDB file"), "{printed}");
    assert_eq!(check(&[]).0, Some(1));
    assert_eq!(check(&[weft.dir().join("nowhere").as_os_str()]).0, Some(1));
}

/// As below `weft-server --check-rdb FILE | head -1`.
#[test]
fn checks_end_quietly_when_their_output_is_closed() {
    for option in ["--check-rdb", "--check-aof"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(locate::weft());
        command.args([option, "nowhere"]).stdout(writer);
        let output = command.stderr(Stdio::piped()).output().expect("the program runs");
        assert_eq!(output.status.signal(), Some(13), "{option}: {output:?}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{option}");
    }
}

/// The output of `valkey-check-rdb --stats` 9.1 for the same keys, except for the small sorted set,
/// whose scores it counts as elements.
#[test]
fn check_rdb_prints_statistics() {
    let weft = Server::weft(&[]);
    let mut client = weft.client();
    for line in [
        "SET s1 hello",
        "SET s2 12345",
        "SET s3 1 PXAT 4102444800000",
        "RPUSH l1 a bb ccc 1000",
        "SADD set1 1 2 3",
        "SADD set2 a bb ccc",
        "ZADD z1 1 a 2.5 bb 1e18 ccc",
        "HSET h1 f1 v1 f2 22",
        "XADD st 1-1 a b cc dd",
        "XADD st 2-1 a b",
        "SELECT 1",
        "SET other v",
        "SAVE",
    ] {
        let reply = client.cmd(&line.split(' ').collect::<Vec<_>>());
        assert!(reply.error().is_none(), "{line}: {reply}");
    }
    let path = weft.dir().join("dump.rdb");
    // Called through a link, whose name selects the check.
    let link = weft.dir().join("weft-check");
    std::os::unix::fs::symlink(locate::weft(), &link).expect("a link");
    let check = |options: &[&str]| {
        let output = Command::new(&link).arg(&path).args(options).output();
        let output = output.expect("the program runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, printed) = check(&["--stats", "--format", "csv"]);
    assert_eq!(code, Some(0), "{printed}");
    let at = printed.find("db.0.type.name").expect("the statistics");
    assert!(printed[..at].ends_with("[info] 0 functions\n"), "{printed}");
    let expected = "\
db.0.type.name,string,list,set,zset,hash,module,stream
db.0.keys.total,3,1,2,1,1,0,1
db.0.expire_keys.total,1,0,0,0,0,0,0
db.0.already_expired.total,0,0,0,0,0,0,0
db.0.keys.size,6,2,8,2,2,0,2
db.0.keys.value_size,11,10,9,15,8,0,8
db.0.elements.total,3,4,6,3,2,0,2
db.0.elements.size,11,10,9,15,8,0,8
db.0.elements.num.max,1,4,3,3,2,0,2
db.0.elements.num.avg,1.00,4.00,3.00,3.00,2.00,0.00,2.00
db.0.elements.num.p99,1.00,4.00,3.00,3.00,2.00,0.00,2.00
db.0.elements.num.p90,1.00,4.00,3.00,3.00,2.00,0.00,2.00
db.0.elements.num.p50,1.00,4.00,3.00,3.00,2.00,0.00,2.00
db.0.elements.size.max,5,4,3,8,4,0,4
db.0.elements.size.avg,3.67,2.50,1.50,5.00,4.00,0.00,4.00
db.0.elements.size.p99,5.00,4.00,3.00,8.00,4.00,0.00,4.00
db.0.elements.size.p90,5.00,4.00,2.00,8.00,4.00,0.00,4.00
db.0.elements.size.p50,5.00,2.00,1.00,5.00,4.00,0.00,2.00
db.1.type.name,string,list,set,zset,hash,module,stream
";
    assert!(printed[at..].starts_with(expected), "{}\nis not\n{expected}", &printed[at..]);
    let output = weft.dir().join("numbers");
    let (code, printed) = check(&["--stats", "--output", output.to_str().expect("a path")]);
    assert_eq!((code, printed.contains("db.0.")), (Some(0), false), "{printed}");
    let table = fs::read_to_string(output).expect("the file exists");
    assert!(table.starts_with("db.0.type.name                \tstring\tlist "), "{table}");
    let (_, printed) = check(&["--stats", "--format", "info"]);
    assert!(printed.contains("\n[info] db.1.type.string.keys.total:1\n"), "{printed}");
    assert_eq!(check(&["--format", "form"]).0, Some(1));
}
