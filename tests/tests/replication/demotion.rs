//! A primary becomes a replica while commands wait to stop the other threads. Commands admitted
//! before must not do afterwards what only a primary may do.

use std::sync::atomic::{AtomicBool, Ordering};
use weft_testkit::{Client, Server};

const ARGS: [&str; 8] = [
    "--save",
    "",
    "--enable-debug-command",
    "yes",
    "--io-threads",
    "6",
    "--io-threads-always-active",
    "yes",
];

/// No server listens on this port.
const DEMOTE: [&str; 3] = ["REPLICAOF", "127.0.0.1", "1"];

/// Controls the other clients.
#[derive(Default)]
struct Others {
    act: AtomicBool,
    end: AtomicBool,
}

/// Ends the other clients on drop.
struct EndOnDrop<'a>(&'a Others);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end.store(true, Ordering::SeqCst);
    }
}

/// Runs `test` while several clients call `act`, whenever the flag is set.
fn while_others(
    server: &Server,
    act: fn(&mut Client),
    test: impl FnOnce(&mut Client, &AtomicBool),
) {
    let others = Others::default();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            let (mut client, others) = (server.client(), &others);
            scope.spawn(move || {
                while !others.end.load(Ordering::SeqCst) {
                    match others.act.load(Ordering::SeqCst) {
                        true => act(&mut client),
                        false => std::thread::yield_now(),
                    }
                }
            });
        }
        let _ending = EndOnDrop(&others);
        test(&mut server.client(), &others.act);
    });
}

/// Makes the server a replica, and returns the reply to `look` from the same transaction.
fn demote(client: &mut Client, look: &[&str]) -> String {
    client.ok(&["MULTI"]);
    client.cmd(&DEMOTE);
    client.cmd(look);
    client.cmd(&["EXEC"]).items()[1].to_string()
}

#[test]
fn no_write_happens_after_a_demotion() {
    let server = Server::weft(&ARGS);
    let write = |client: &mut Client| {
        client.cmd(&["MULTI"]);
        client.cmd(&["INCR", "mark"]);
        client.cmd(&["SWAPDB", "1", "2"]);
        client.cmd(&["EXEC"]);
    };
    while_others(&server, write, |client, act| {
        act.store(true, Ordering::SeqCst);
        for round in 0..100 {
            let mark = demote(client, &["GET", "mark"]);
            for _ in 0..20 {
                assert_eq!(client.cmd(&["GET", "mark"]).to_string(), mark, "round {round}");
            }
            client.ok(&["REPLICAOF", "NO", "ONE"]);
        }
    });
    assert!(server.client().cmd(&["GET", "mark"]).text().parse::<u64>().expect("a number") > 0);
}

/// On a primary, RANDOMKEY removes the expired keys that it meets.
#[test]
fn no_key_expires_after_a_demotion() {
    const KEYS: usize = 8000;
    let server = Server::weft(&ARGS);
    server.client().ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    let look = |client: &mut Client| {
        client.cmd(&["RANDOMKEY"]);
    };
    while_others(&server, look, |client, act| {
        let keys: Vec<Vec<String>> = (0..KEYS)
            .map(|n| ["SET", &format!("key:{n}"), "v", "PX", "1"].map(String::from).to_vec())
            .collect();
        for round in 0..60 {
            client.pipeline(&keys).expect("answers");
            act.store(true, Ordering::SeqCst);
            let size = demote(client, &["DBSIZE"]);
            for _ in 0..20 {
                assert_eq!(client.cmd(&["DBSIZE"]).to_string(), size, "round {round}");
            }
            act.store(false, Ordering::SeqCst);
            client.ok(&["REPLICAOF", "NO", "ONE"]);
        }
    });
}
