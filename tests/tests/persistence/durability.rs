//! Regression tests for saves, rewrites, switching the AOF, shutdown and failing disks.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_testkit::faulty::FaultyDisk;
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server};
use weft_tests::persistence::{PATIENCE, info, until, wait_for_rewrite_end};

const ON: [&str; 2] = ["--appendonly", "yes"];
/// Sets the microseconds for which a snapshot sleeps after each key.
const SLOW: [&str; 3] = ["CONFIG", "SET", "rdb-key-save-delay"];

fn fill(client: &mut Client, keys: usize) {
    let sets: Vec<Vec<String>> =
        (0..keys).map(|n| ["SET", &format!("key:{n}"), "v"].map(String::from).to_vec()).collect();
    client.pipeline(&sets).expect("answers");
}

/// Writes `keys` keys and makes the next snapshot take about `time`.
fn slow_down(client: &mut Client, keys: usize, time: Duration) {
    fill(client, keys);
    let delay = time.as_micros() / keys as u128;
    client.ok(&[&SLOW[..], &[&delay.to_string()]].concat());
}

fn ends_well(server: &mut Server) {
    let status = {
        let deadline = Instant::now() + PATIENCE;
        while server.is_alive() {
            assert!(Instant::now() < deadline, "the server does not exit\n{}", server.log_tail());
            std::thread::sleep(Duration::from_millis(10));
        }
        server.wait()
    };
    assert!(status.success(), "{status}\n{}", server.log_tail());
}

/// The files with data, without the lock file, which stays.
fn files_of(folder: &std::path::Path) -> Vec<String> {
    let names = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !name.ends_with(".lock")).collect();
    names.sort();
    names
}

/// Regression: the base of a rewrite was used although the AOF had restarted meanwhile. Writes
/// between the two AOFs were in neither file, although WAITAOF had confirmed them.
#[test]
fn base_of_an_earlier_aof_is_not_used_for_a_later_one() {
    let Some(disk) = FaultyDisk::new() else { return };
    let mut server = disk.server(&ON);
    let mut client = server.client();
    client.ok(&["SET", "before", "1"]);
    disk.fails("sync .rdb stall 1 1");
    client.cmd(&["BGREWRITEAOF"]);
    until("the sync of the base", || disk.hits() > 0);
    client.ok(&["CONFIG", "SET", "appendonly", "no"]);
    client.ok(&["SET", "between", "1"]);
    client.ok(&["CONFIG", "SET", "appendonly", "yes"]);
    client.ok(&["SET", "behind", "1"]);
    disk.works();
    client.set_timeout(PATIENCE);
    assert_eq!(client.cmd(&["WAITAOF", "1", "0", "0"]).items()[0].int(), 1);
    server.restart();
    let mut client = server.client();
    for key in ["before", "between", "behind"] {
        assert_eq!(client.cmd(&["EXISTS", key]).int(), 1, "{key}");
    }
}

/// Regression: rewrites began while the AOF was switched off and on, with cuts that belonged to no
/// AOF or to another one. Files began at the wrong place, and writes were loaded twice or not at
/// all.
#[test]
fn writes_are_loaded_once_however_often_the_aof_is_switched() {
    let mut server = Server::weft(&[&ON[..], &["--io-threads", "2"]].concat());
    let mut rng = Rng::new(14);
    let mut sum = 0;
    for round in 0..15 {
        let is_over = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..3)
            .map(|_| {
                let (mut client, is_over) = (server.client(), is_over.clone());
                std::thread::spawn(move || {
                    let mut done = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        client.cmd(&["INCR", "n"]).int();
                        done += 1;
                    }
                    done
                })
            })
            .collect();
        let mut client = server.client();
        client.set_timeout(PATIENCE);
        for _ in 0..3 {
            if rng.percent(30) {
                client.ok(&["CONFIG", "SET", "appendonly", "no"]);
                client.ok(&["CONFIG", "SET", "appendonly", "yes"]);
            } else {
                client.cmd(&["BGREWRITEAOF"]);
            }
            std::thread::sleep(Duration::from_millis(rng.below(50) as u64));
        }
        is_over.store(true, Ordering::Relaxed);
        sum += writers.into_iter().map(|writer| writer.join().expect("answers")).sum::<i64>();
        wait_for_rewrite_end(&mut client);
        // A rewrite without later writes.
        client.cmd(&["BGREWRITEAOF"]);
        wait_for_rewrite_end(&mut client);
        assert_eq!(client.cmd(&["WAITAOF", "1", "0", "0"]).items()[0].int(), 1);
        server.restart();
        let found = server.client().cmd(&["GET", "n"]).text();
        assert_eq!(found, sum.to_string(), "life {round}\n{}", server.log_tail());
    }
}

fn encode(words: &[&str]) -> Vec<u8> {
    weft_testkit::client::encode(words)
}

/// Regression: with `appendfsync no` the folder was never synced, and old files are removed only
/// after that.
#[test]
fn rewritten_files_are_removed_under_every_policy() {
    for policy in ["no", "everysec", "always"] {
        let server = Server::weft(&[&ON[..], &["--appendfsync", policy]].concat());
        let mut client = server.client();
        // Many rewrites: one may end while the files of the previous one are being removed. Its own
        // files must be removed, too.
        for n in 1..=30 {
            client.cmd(&["BGREWRITEAOF"]);
            until("a rewrite", || info(&mut client, "aof_rewrites") == n.to_string());
            wait_for_rewrite_end(&mut client);
            assert_eq!(info(&mut client, "aof_last_bgrewrite_status"), "ok");
        }
        let folder = server.dir().join("appendonlydir");
        let wanted = ["appendonly.aof.31.base.rdb", "appendonly.aof.31.incr.aof"];
        let wanted = [&wanted[..], &["appendonly.aof.manifest"]].concat();
        until("the old files are removed", || files_of(&folder) == wanted);
    }
}

/// Regression: a sync within a rewrite failed, and writes were still accepted although their file
/// would not be found.
#[test]
fn failed_sync_at_a_rewrite_is_handled_like_any_other() {
    let Some(disk) = FaultyDisk::new() else { return };
    let server = disk.server(&ON);
    let mut client = server.client();
    client.set_timeout(PATIENCE);
    slow_down(&mut client, 1000, Duration::from_secs(3));
    assert_eq!(client.cmd(&["WAITAOF", "1", "0", "0"]).items()[0].int(), 1);
    disk.fails("sync .incr. 5 1 1");
    client.cmd(&["BGREWRITEAOF"]);
    until("the failed call", || disk.hits() > 0);
    until("MISCONF", || client.cmd(&["SET", "a", "b"]).error().is_some());
    let refused = client.cmd(&["SET", "a", "b"]).error().expect("the write is refused");
    assert!(refused.starts_with("MISCONF Errors writing to the AOF file"), "{refused}");
    assert_eq!(info(&mut client, "aof_last_write_status"), "err");
    disk.works();
    client.ok(&[&SLOW[..], &["0"]].concat());
    until("a write", || client.cmd(&["SET", "a", "b"]).error().is_none());
    assert_eq!(info(&mut client, "aof_last_write_status"), "ok");

    let mut server = disk.server(&[&ON[..], &["--appendfsync", "always"]].concat());
    disk.fails("sync .incr. 5 1 1");
    let mut client = server.client();
    let _ = client.try_cmd(&["BGREWRITEAOF"]);
    until("the server exits", || !server.is_alive());
    assert_eq!(server.wait().code(), Some(1));
}

/// Regression: after some failures in a row the server retried rewrites every minute, every two, up
/// to every hour. It refused writes until one had succeeded.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn writes_are_accepted_soon_after_the_disk_recovers() {
    let Some(disk) = FaultyDisk::new() else { return };
    let server = disk.server(&ON);
    let mut client = server.client();
    disk.fails("sync any 5 1 1000000");
    client.ok(&["SET", "a", "1"]);
    until("MISCONF", || client.cmd(&["SET", "a", "2"]).error().is_some());
    until("some failures", || {
        info(&mut client, "aof_rewrites_consecutive_failures").parse::<u64>().is_ok_and(|n| n > 3)
    });
    disk.works();
    // Well before the end of the one-minute pause after the third failure.
    let began = Instant::now();
    until("a write", || client.cmd(&["SET", "a", "3"]).error().is_none());
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
}

/// Regression: a rewrite used the only snapshot, so the server could not save and did not exit.
#[test]
fn server_exits_during_a_rewrite() {
    let mut server = Server::weft(&[&ON[..], &["--save", "3600 1000000"]].concat());
    let mut client = server.client();
    slow_down(&mut client, 1000, Duration::from_secs(30));
    client.cmd(&["BGREWRITEAOF"]);
    client.ok(&["SET", "last", "1"]);
    client.ok(&[&SLOW[..], &["0"]].concat());
    server.signal(rustix::process::Signal::TERM);
    ends_well(&mut server);
    assert!(server.dir().join("dump.rdb").exists());
    let folder = files_of(&server.dir().join("appendonlydir"));
    assert!(folder.iter().all(|name| !name.starts_with("temp-")), "{folder:?}");
}

/// Regression: the server never exited if a client was running SAVE when the signal arrived.
#[test]
fn server_exits_during_a_save() {
    let mut server = Server::weft(&["--save", "3600 1000000"]);
    let mut client = server.client();
    slow_down(&mut client, 1000, Duration::from_secs(3));
    client.send_raw(&encode(&["SAVE"])).expect("sent");
    let mut other = server.client();
    until("the save", || {
        info(&mut other, "current_save_keys_total").parse::<u64>().is_ok_and(|n| n > 0)
    });
    other.ok(&[&SLOW[..], &["0"]].concat());
    server.signal(rustix::process::Signal::TERM);
    ends_well(&mut server);
}

/// Regression: SHUTDOWN NOSAVE waited on an I/O thread for a save that was about to stop the I/O
/// threads.
#[test]
fn shutdown_without_saving_does_not_wait_for_a_save() {
    for n in 0..20 {
        let mut server = Server::weft(&["--io-threads", "2", "--io-threads-always-active", "yes"]);
        server.client().ok(&["SET", "a", "b"]);
        let savers: Vec<_> = (0..3)
            .map(|_| {
                let mut client = server.client();
                std::thread::spawn(move || {
                    while client.try_cmd(&["BGSAVE"]).is_ok() {
                        let _ = client.try_cmd(&["BGSAVE", "CANCEL"]);
                    }
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(n));
        server.client().send_raw(&encode(&["SHUTDOWN", "NOSAVE"])).expect("sent");
        ends_well(&mut server);
        savers.into_iter().for_each(|saver| saver.join().expect("the server has gone"));
    }
}

/// Regression: a server that exited during a background save left its temporary file.
#[test]
fn cancelled_save_at_shutdown_leaves_no_file() {
    let mut server = Server::weft(&[]);
    let mut client = server.client();
    slow_down(&mut client, 1000, Duration::from_secs(30));
    client.cmd(&["BGSAVE"]);
    until("the file", || files_of(server.dir()).iter().any(|name| name.starts_with("temp-")));
    server.stop_term();
    assert_eq!(files_of(server.dir()), ["log"]);
}

/// Regression: a shutdown during loading waited for the end of the load.
#[test]
fn server_exits_during_loading() {
    for appends in ["no", "yes"] {
        let mut server = Server::weft(&["--appendonly", appends]);
        let mut client = server.client();
        fill(&mut client, 3000);
        match appends {
            "yes" => {
                client.cmd(&["BGREWRITEAOF"]);
                wait_for_rewrite_end(&mut client);
            }
            _ => client.ok(&["SAVE"]),
        }
        // Loading would take ten minutes.
        let slow = ["--appendonly", appends, "--key-load-delay", "400000"];
        server.restart_loading(&slow);
        let mut client = server.client();
        assert_eq!(info(&mut client, "loading"), "1");
        client.send_raw(&encode(&["SHUTDOWN", "NOSAVE"])).expect("sent");
        ends_well(&mut server);
    }
}

/// Leftovers of an earlier process were recognized by the start of their names, which may also be
/// the name of an AOF.
#[test]
fn aof_may_have_any_name() {
    let mut server = Server::weft(&[&ON[..], &["--appendfilename", "temp-x.aof"]].concat());
    let mut client = server.client();
    client.ok(&["SET", "a", "b"]);
    let folder = server.dir().join("appendonlydir");
    let leftovers = ["temp-temp-x.aof.incr", "temp-rewriteaof-bg-7.aof", "temp-7-1.rdb"];
    server.stop_term();
    leftovers
        .iter()
        .for_each(|name| fs::write(folder.join(name), "x").expect("the disk has space"));
    server.restart();
    assert_eq!(server.client().cmd(&["GET", "a"]).text(), "b");
    let names = files_of(&folder);
    assert!(names.iter().all(|name| !leftovers.contains(&&**name)), "{names:?}");
}

/// Regression: a save point reached during a rewrite was retried ten times a second, with a log
/// line and a thread each time.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn save_point_waits_for_a_rewrite() {
    let server = Server::weft(&[&ON[..], &["--save", "1 1"]].concat());
    let mut client = server.client();
    slow_down(&mut client, 1000, Duration::from_secs(8));
    client.cmd(&["BGREWRITEAOF"]);
    client.ok(&["SET", "a", "b"]);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(info(&mut client, "aof_rewrite_in_progress"), "1");
    assert_eq!(server.log().matches("Saving...").count(), 0);
    client.ok(&[&SLOW[..], &["0"]].concat());
    wait_for_rewrite_end(&mut client);
    until("the save", || info(&mut client, "rdb_saves") != "0");
}

/// The replies match the reference while the conflicting operation is running.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn saves_and_rewrites_wait_for_each_other() {
    let server = Server::weft(&ON);
    let mut client = server.client();
    slow_down(&mut client, 1000, Duration::from_secs(4));
    let started = "Background append only file rewriting started";
    assert_eq!(client.cmd(&["BGREWRITEAOF"]).text(), started);
    // INFO reports the rewrite from the reply on, for clients that wait for its end.
    assert_eq!(info(&mut client, "aof_rewrite_in_progress"), "1");
    let busy = client.cmd(&["BGSAVE"]).error().expect("BGSAVE is refused");
    assert!(busy.starts_with("ERR Another child process is active (AOF?)"), "{busy}");
    assert_eq!(client.cmd(&["BGSAVE", "SCHEDULE"]).text(), "Background saving scheduled");
    assert_eq!(client.cmd(&["BGSAVE", "CANCEL"]).text(), "Scheduled background saving cancelled");
    client.send_raw(&encode(&["SAVE"])).expect("sent");
    server.client().ok(&[&SLOW[..], &["0"]].concat());
    client.set_timeout(PATIENCE);
    assert_eq!(client.read_reply().expect("a reply").value.text(), "OK");
    wait_for_rewrite_end(&mut client);
    client.ok(&[&SLOW[..], &["30000"]].concat());
    client.cmd(&["BGSAVE"]);
    for _ in 0..2 {
        assert_eq!(
            client.cmd(&["BGREWRITEAOF"]).text(),
            "Background append only file rewriting scheduled"
        );
        assert_eq!(info(&mut client, "aof_rewrite_scheduled"), "1");
        assert_eq!(info(&mut client, "aof_rewrite_in_progress"), "0");
    }
    client.cmd(&["BGSAVE", "CANCEL"]);
    client.ok(&[&SLOW[..], &["0"]].concat());
    wait_for_rewrite_end(&mut client);
}

/// Regression: WAITAOF blocked forever when the AOF was switched off.
#[test]
fn waitaof_returns_an_error_when_the_aof_is_switched_off() {
    let server = Server::weft(&[]);
    let (mut client, mut waiter) = (server.client(), server.client());
    slow_down(&mut client, 1000, Duration::from_secs(30));
    client.ok(&["CONFIG", "SET", "appendonly", "yes"]);
    waiter.ok(&["SET", "a", "b"]);
    let mut with_replica = server.client();
    waiter.send_raw(&encode(&["WAITAOF", "1", "0", "0"])).expect("sent");
    with_replica.send_raw(&encode(&["WAITAOF", "1", "1", "0"])).expect("sent");
    until("two blocked clients", || {
        let clients = client.cmd(&["INFO", "clients"]).text();
        clients.contains("blocked_clients:2\r")
    });
    client.ok(&["CONFIG", "SET", "appendonly", "no"]);
    for mut waiter in [waiter, with_replica] {
        waiter.set_timeout(PATIENCE);
        let refused = waiter.read_reply().expect("a reply").value.error().expect("an error");
        let wanted = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
        assert_eq!(refused, wanted);
    }
}

/// Regression: the AOF folder was gone and was not created again.
#[test]
fn aof_folder_may_move() {
    let permitted = ["--enable-protected-configs", "yes"];
    let mut server = Server::weft(&[&ON[..], &permitted].concat());
    let mut client = server.client();
    client.ok(&["SET", "a", "b"]);
    let other = server.dir().join("other");
    fs::create_dir(&other).expect("a folder");
    client.ok(&["CONFIG", "SET", "dir", other.to_str().expect("valid UTF-8")]);
    client.cmd(&["BGREWRITEAOF"]);
    wait_for_rewrite_end(&mut client);
    assert_eq!(info(&mut client, "aof_last_bgrewrite_status"), "ok");
    client.ok(&["SET", "c", "d"]);
    client.set_timeout(PATIENCE);
    assert_eq!(client.cmd(&["WAITAOF", "1", "0", "0"]).items()[0].int(), 1);
    server.kill();
    fs::rename(other.join("appendonlydir"), server.dir().join("moved")).expect("the folder exists");
    fs::remove_dir_all(server.dir().join("appendonlydir")).expect("the old folder exists");
    fs::rename(server.dir().join("moved"), server.dir().join("appendonlydir")).expect("renamed");
    server.restart();
    assert_eq!(server.client().cmd(&["MGET", "a", "c"]).items().len(), 2);
    assert_eq!(server.client().cmd(&["DBSIZE"]).int(), 2);
}

/// Regression: if old files could not be removed, or removed from the manifest, the server retried
/// at once, with a thread and log lines each time.
#[test]
fn failed_removal_of_old_files_is_retried_after_a_pause() {
    let Some(disk) = FaultyDisk::new() else { return };
    // A rewrite writes the manifest twice, which works. The third write, after the removal, fails.
    for faults in ["write manifest 28 3 1000000", "unlink any 1 1 1000000"] {
        let server = disk.server(&[&ON[..], &["--appendfsync", "always"]].concat());
        let mut client = server.client();
        disk.fails(faults);
        client.cmd(&["BGREWRITEAOF"]);
        wait_for_rewrite_end(&mut client);
        until("the failed call", || disk.hits() > 0);
        std::thread::sleep(Duration::from_millis(500));
        assert!(disk.hits() < 10, "{}", disk.told());
        disk.works();
        client.ok(&["SET", "a", "b"]);
    }
}

/// CONFIG RESETSTAT resets these counters, too.
#[test]
fn config_resetstat_resets_the_persistence_counters() {
    let server = Server::weft(&ON);
    let mut client = server.client();
    client.cmd(&["BGREWRITEAOF"]);
    wait_for_rewrite_end(&mut client);
    client.ok(&["SAVE"]);
    for (counted, resets) in [("1", true), ("0", false)] {
        for field in ["aof_rewrites", "rdb_saves"] {
            assert_eq!(info(&mut client, field), counted, "{field}");
        }
        if resets {
            client.ok(&["CONFIG", "RESETSTAT"]);
        }
    }
}
