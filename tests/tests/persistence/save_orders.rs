//! Saves and rewrites that overlap, in all orders: only one runs at a time, a second request is
//! refused or scheduled, and the replies match the reference.
//!
//! No test depends on the speed of the machine: `rdb-key-save-delay` sets the length of a save, and
//! the tests wait for results.

use std::time::Duration;
use weft_testkit::{Client, Server, Value, skip_without};
use weft_tests::persistence::{info, until};

/// Twenty keys of a tenth of a second each: long enough to send commands meanwhile.
const ARGS: [&str; 8] = [
    "--save",
    "",
    "--appendonly",
    "yes",
    "--auto-aof-rewrite-percentage",
    "0",
    "--rdb-key-save-delay",
    "100000",
];
const KEYS: usize = 20;

fn filled(server: &Server) -> Client {
    let mut client = server.client();
    (0..KEYS).for_each(|n| client.ok(&["SET", &format!("k{n}"), "v"]));
    client
}

/// The reply to a line of a script, or the state that it asks for.
fn answer(client: &mut Client, line: &str) -> String {
    let doing = ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"];
    match line {
        // Whether a save is running, a rewrite is running, and a rewrite is scheduled.
        "?" => doing.map(|field| info(client, field)).join(""),
        // Waits until all requests are done: the numbers of saves and rewrites.
        "~" => {
            until("no save or rewrite", || {
                let is_idle = doing.iter().all(|field| info(client, field) == "0");
                // A scheduled one begins at a tick.
                std::thread::sleep(Duration::from_millis(300));
                is_idle && doing.iter().all(|field| info(client, field) == "0")
            });
            format!("{} {}", info(client, "rdb_saves"), info(client, "aof_rewrites"))
        }
        line => match client.cmd(&line.split(' ').collect::<Vec<_>>()) {
            Value::Error(e) => format!("-{}", String::from_utf8_lossy(&e)),
            reply => reply.to_string(),
        },
    }
}

const SCRIPTS: [(&str, &str); 8] = [
    ("nothing to cancel", "BGSAVE CANCEL;BGSAVE NONSENSE;BGSAVE SCHEDULE x;?"),
    ("a save, then a rewrite", "BGSAVE;?;BGSAVE;BGSAVE SCHEDULE;BGREWRITEAOF;?;BGREWRITEAOF;?;~"),
    (
        "a rewrite, then saves",
        "BGREWRITEAOF;?;BGSAVE;BGREWRITEAOF;BGSAVE SCHEDULE;BGSAVE SCHEDULE;BGSAVE;?;~",
    ),
    (
        "a scheduled save is cancelled",
        "BGREWRITEAOF;BGSAVE SCHEDULE;BGSAVE CANCEL;BGSAVE CANCEL;?;~",
    ),
    ("a save is cancelled, the rewrite comes", "BGSAVE;BGREWRITEAOF;BGSAVE CANCEL;~"),
    ("in a transaction", "MULTI;BGSAVE;BGREWRITEAOF;EXEC;~"),
    (
        "in a transaction, while a save is made",
        "BGSAVE;MULTI;BGSAVE;BGSAVE SCHEDULE;BGREWRITEAOF;BGREWRITEAOF;EXEC;?;~",
    ),
    (
        "in a transaction, while a rewrite is made",
        "BGREWRITEAOF;MULTI;BGREWRITEAOF;BGSAVE;BGSAVE SCHEDULE;EXEC;BGSAVE CANCEL;~",
    ),
];

#[test]
fn overlapping_saves_and_rewrites_reply_as_the_reference() {
    let test = "overlapping_saves_and_rewrites_reply_as_the_reference";
    let theirs = Server::valkey(&ARGS);
    if skip_without(test, &theirs, "valkey-server") {
        return;
    }
    let (ours, theirs) = (Server::weft(&ARGS), theirs.expect("not skipped"));
    let (mut ours, mut theirs) = (filled(&ours), filled(&theirs));
    for (name, script) in SCRIPTS {
        for line in script.split(';') {
            let (our, their) = (answer(&mut ours, line), answer(&mut theirs, line));
            assert_eq!(our, their, "{name}: {line} (ours, theirs)");
        }
    }
}

/// SAVE waits for a running rewrite to end, and then saves.
#[test]
fn save_runs_after_a_rewrite() {
    let server = Server::weft(&ARGS);
    let mut client = filled(&server);
    assert!(client.cmd(&["BGREWRITEAOF"]).error().is_none());
    until("the rewrite", || info(&mut client, "aof_rewrite_in_progress") == "1");
    client.ok(&["SAVE"]);
    assert_eq!(info(&mut client, "rdb_saves"), "1");
    assert_eq!(info(&mut client, "aof_last_bgrewrite_status"), "ok");
}

/// SHUTDOWN SAVE during a rewrite cancels the rewrite.
#[test]
fn final_save_does_not_wait_for_a_rewrite() {
    let mut server = Server::weft(&ARGS);
    let mut client = filled(&server);
    assert!(client.cmd(&["BGREWRITEAOF"]).error().is_none());
    until("the rewrite", || info(&mut client, "aof_rewrite_in_progress") == "1");
    client.ok(&["CONFIG", "SET", "rdb-key-save-delay", "0"]);
    client.send_raw(b"SHUTDOWN SAVE\r\n").expect("the server reads");
    assert!(server.wait().success(), "{}", server.log_tail());
    assert!(server.dir().join("dump.rdb").exists());
    server.restart();
    assert_eq!(server.client().cmd(&["DBSIZE"]).int(), KEYS as i64);
}
