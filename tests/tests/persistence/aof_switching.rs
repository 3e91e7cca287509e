//! CONFIG SET appendonly: after OK there is an AOF, a failure returns an error, and other clients
//! do not wait for the disk.

use std::fs;
use weft_testkit::client::encode;
use weft_testkit::faulty::FaultyDisk;
use weft_testkit::{Client, Server};
use weft_tests::persistence::{PATIENCE, info, until, wait_for_rewrite_end};

const ON: [&str; 4] = ["CONFIG", "SET", "appendonly", "yes"];
const OFF: [&str; 4] = ["CONFIG", "SET", "appendonly", "no"];
const REFUSED: &str = "ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to \
                       turn on AOF. Check server logs.";

fn directive(client: &mut Client, name: &str) -> String {
    client.cmd(&["CONFIG", "GET", name]).items()[1].text()
}

/// The AOF is on, and its file is the one that the next start reads.
fn wait_for_the_disk(client: &mut Client) {
    client.set_timeout(PATIENCE);
    let safe = client.cmd(&["WAITAOF", "1", "0", "0"]);
    assert_eq!(safe.items().first().map(|n| n.int()), Some(1), "{safe}");
}

fn kill_and_load(server: &mut Server) -> Client {
    server.kill();
    server.restart_loading(&["--appendonly", "yes"]);
    server.wait_until_loaded();
    server.client()
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn appendonly_that_fails_returns_an_error() {
    let Some(disk) = FaultyDisk::new() else { return };
    for call in ["open", "sync"] {
        for nth in 1..=4 {
            let how = format!("{call}, from call {nth}");
            let server = disk.server(&["--maxmemory", "100mb"]);
            let mut client = server.client();
            client.ok(&["SET", "a", "b"]);
            disk.fails(&format!("{call} temp-appendonly.aof.incr 13 {nth} 1000000"));
            let both = [&ON[..], &["maxmemory", "200mb"]].concat();
            let refused = client.cmd(&both).error();
            let values = match &refused {
                None => ["1", "yes", "209715200"],
                Some(words) => {
                    assert_eq!(words, REFUSED, "{how}");
                    ["0", "no", "104857600"]
                }
            };
            let is = [
                info(&mut client, "aof_enabled"),
                directive(&mut client, "appendonly"),
                directive(&mut client, "maxmemory"),
            ];
            assert_eq!(is, values, "{how}: {refused:?}");
            assert!(nth > 1 || refused.is_some(), "{how}");
            disk.works();
            client.ok(&ON);
            assert_eq!(info(&mut client, "aof_enabled"), "1", "{how}");
            // Writes logged meanwhile may be uncertain until a rewrite succeeds.
            until("a write", || client.cmd(&["SET", "a", "c"]).error().is_none());
            wait_for_the_disk(&mut client);
        }
    }
}

/// The error text is that of the reference.
#[test]
fn file_with_the_name_of_the_folder_is_an_error() {
    let servers = [Some(Server::weft(&[])), Server::valkey(&[])];
    for server in servers.into_iter().flatten() {
        let mut client = server.client();
        let path = server.dir().join("appendonlydir");
        fs::write(&path, "x").expect("the disk has space");
        for _ in 0..2 {
            assert_eq!(client.cmd(&ON).error().as_deref(), Some(REFUSED), "{}", server.name());
            assert_eq!(directive(&mut client, "appendonly"), "no", "{}", server.name());
            assert_eq!(info(&mut client, "aof_enabled"), "0", "{}", server.name());
        }
        fs::remove_file(&path).expect("the file exists");
        client.ok(&ON);
        assert_eq!(info(&mut client, "aof_enabled"), "1", "{}", server.name());
    }
}

/// A pipe has the name of the first file. Opening it must not block.
#[test]
fn pipe_with_the_name_of_the_first_file_does_not_block() {
    let server = Server::weft(&[]);
    let folder = server.dir().join("appendonlydir");
    fs::create_dir(&folder).expect("a folder");
    let made =
        std::process::Command::new("mkfifo").arg(folder.join("temp-appendonly.aof.incr")).status();
    assert!(made.is_ok_and(|made| made.success()), "mkfifo");
    assert_eq!(server.client().cmd(&ON).error().as_deref(), Some(REFUSED));
}

/// EXEC does not wait for the disk and returns OK, like the reference. If the AOF can't start,
/// CONFIG GET soon reports that it is off.
#[test]
fn aof_that_a_transaction_failed_to_start_is_off() {
    let server = Server::weft(&[]);
    let mut client = server.client();
    let path = server.dir().join("appendonlydir");
    fs::write(&path, "x").expect("the disk has space");
    client.ok(&["MULTI"]);
    client.cmd(&ON);
    client.cmd(&["SET", "a", "b"]);
    assert_eq!(client.cmd(&["EXEC"]).items().len(), 2);
    until("CONFIG GET reports no", || directive(&mut client, "appendonly") == "no");
    assert_eq!(info(&mut client, "aof_enabled"), "0");
    fs::remove_file(&path).expect("the file exists");
    client.ok(&ON);
    assert_eq!(info(&mut client, "aof_enabled"), "1");
}

/// Regression: the configuration was locked during the first sync, and INFO, CONFIG and the ticks
/// waited for it.
#[test]
fn other_clients_do_not_wait_for_the_sync_of_a_switch() {
    let Some(disk) = FaultyDisk::new() else { return };
    for threads in ["1", "4"] {
        let server = disk.server(&["--io-threads", threads]);
        let mut switching = server.client();
        switching.set_timeout(PATIENCE);
        for (wish, part) in [(ON, "temp-appendonly.aof.incr"), (OFF, ".incr.")] {
            disk.fails(&format!("sync {part} stall 1 1"));
            switching.send_raw(&encode(&wish)).expect("sent");
            until("the sync", || disk.hits() > 0);
            // On each thread.
            for n in 0..8 {
                let mut client = server.client();
                client.set_timeout(PATIENCE);
                client.ok(&["SET", "a", "b"]);
                assert!(info(&mut client, "aof_enabled").len() == 1);
                assert_eq!(directive(&mut client, "appendonly"), wish[3]);
                client.ok(&["CONFIG", "SET", "maxmemory", &format!("{}mb", 100 + n)]);
            }
            disk.works();
            assert!(switching.read_reply().expect("a reply").value.is_ok());
            assert_eq!(info(&mut switching, "aof_enabled"), if wish == ON { "1" } else { "0" });
            if wish == ON {
                switching.ok(&["SET", "a", "c"]);
                wait_for_the_disk(&mut switching);
            }
        }
    }
}

/// Every snapshot that begins from now on takes ten minutes.
fn slow_down(client: &mut Client) {
    for n in 0..1000 {
        client.ok(&["SET", &n.to_string(), "v"]);
    }
    client.ok(&["CONFIG", "SET", "rdb-key-save-delay", "600000"]);
}

fn end_slow_down(client: &mut Client) {
    client.ok(&["CONFIG", "SET", "rdb-key-save-delay", "0"]);
}

/// Regression: the AOF waited for the end of a rewrite that it could not use, and reported that
/// rewrite as failed.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn appendonly_can_be_switched_on_during_a_rewrite() {
    for wishes in [&[ON][..], &[ON, OFF, ON], &[ON, ON]] {
        let mut server = Server::weft(&[]);
        let mut client = server.client();
        slow_down(&mut client);
        client.cmd(&["BGREWRITEAOF"]);
        until("the rewrite", || info(&mut client, "aof_rewrites") == "1");
        end_slow_down(&mut client);
        for wish in wishes {
            client.ok(wish);
        }
        client.ok(&["SET", "last", "v"]);
        wait_for_the_disk(&mut client);
        wait_for_rewrite_end(&mut client);
        assert_eq!(info(&mut client, "aof_last_bgrewrite_status"), "ok");
        assert_eq!(info(&mut client, "aof_rewrites_consecutive_failures"), "0");
        assert_eq!(kill_and_load(&mut server).cmd(&["DBSIZE"]).int(), 1001);
    }
}

/// The same, with the AOF off at the end. The next rewrite is complete.
#[test]
fn appendonly_can_be_switched_on_and_off_during_a_rewrite() {
    let mut server = Server::weft(&[]);
    let mut client = server.client();
    slow_down(&mut client);
    client.cmd(&["BGREWRITEAOF"]);
    until("the rewrite", || info(&mut client, "aof_rewrites") == "1");
    client.ok(&ON);
    client.ok(&OFF);
    end_slow_down(&mut client);
    wait_for_rewrite_end(&mut client);
    client.ok(&["SET", "last", "v"]);
    client.cmd(&["BGREWRITEAOF"]);
    wait_for_rewrite_end(&mut client);
    assert_eq!(info(&mut client, "aof_last_bgrewrite_status"), "ok");
    assert_eq!(kill_and_load(&mut server).cmd(&["DBSIZE"]).int(), 1001);
}

/// BGREWRITEAOF, and later SHUTDOWN, while the first base is written.
#[test]
fn rewrite_or_shutdown_during_the_first_base_works() {
    let mut server = Server::weft(&[]);
    let mut client = server.client();
    slow_down(&mut client);
    client.ok(&ON);
    until("the rewrite", || info(&mut client, "aof_rewrites") == "1");
    end_slow_down(&mut client);
    let busy = client.cmd(&["BGREWRITEAOF"]).error();
    let wanted = "ERR Background append only file rewriting already in progress";
    assert_eq!(busy.as_deref(), Some(wanted));
    client.ok(&OFF);
    wait_for_rewrite_end(&mut client);
    client.cmd(&["BGREWRITEAOF"]);
    client.ok(&ON);
    client.ok(&["SET", "last", "v"]);
    let _ = client.send_raw(&encode(&["SHUTDOWN", "NOSAVE"]));
    let status = server.wait();
    assert!(status.success(), "{status}\n{}", server.log_tail());
    assert_eq!(kill_and_load(&mut server).cmd(&["DBSIZE"]).int(), 1001);
}
