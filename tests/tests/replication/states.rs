//! Replication in unusual states: regression tests for faults found by attacking its guarantees.

use weft_testkit::{Client, Server};
use weft_tests::persistence::until;
use weft_tests::replicas::{RawReplica, fields, number};
use weft_tests::replication::{replicate_from, wait_until_caught_up};
use weft_tests::scene::on_both;

const ARGS: [&str; 4] = ["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"];

/// Acknowledges this offset as a replica.
fn confirm(replica: &mut RawReplica, offset: u64) {
    replica.send(&["REPLCONF", "ACK", &offset.to_string()]);
}

fn replicas_of(client: &mut Client) -> usize {
    client.cmd(&["ROLE"]).items()[2].items().len()
}

/// A replica lags when its primary becomes a replica and a primary again. It still lags then: the
/// earlier writes do not count as acknowledged.
#[test]
fn wait_needs_an_acknowledgement_after_a_change_of_roles() {
    on_both(&ARGS, &[], |server| {
        let mut replica = RawReplica::new(server);
        let (id, offset) = replica.full_sync();
        replica.read_copy();
        confirm(&mut replica, offset);
        let mut client = server.client();
        until("the replica is online", || replicas_of(&mut client) == 1);
        client.ok(&["SET", "key", "written"]);
        assert_eq!(client.cmd(&["WAIT", "1", "20"]).int(), 0);
        client.ok(&["REPLICAOF", "127.0.0.1", "1"]);
        client.ok(&["REPLICAOF", "NO", "ONE"]);
        let mut replica = RawReplica::new(server);
        assert_eq!(replica.ask(&["REPLCONF", "capa", "psync2"]), "+OK");
        let answer = replica.ask(&["PSYNC", &id, &(offset + 1).to_string()]);
        assert!(answer.starts_with("+CONTINUE "), "{answer}");
        until("the replica is online again", || replicas_of(&mut client) == 1);
        assert_eq!(client.cmd(&["WAIT", "1", "20"]).int(), 0, "{}", server.name());
        let end = number(&mut client, "replication", "master_repl_offset");
        confirm(&mut replica, end);
        assert_eq!(client.cmd(&["WAIT", "1", "0"]).int(), 1);
    });
}

/// A WAIT that times out while other threads check acknowledgements is also answered.
#[test]
fn every_wait_is_answered_at_its_timeout() {
    let server = Server::weft(&[&ARGS[..], &["--io-threads", "4"]].concat());
    let mut replica = RawReplica::new(&server);
    let (_, offset) = replica.full_sync();
    replica.read_copy();
    confirm(&mut replica, offset);
    until("the replica is online", || replicas_of(&mut server.client()) == 1);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (mut client, key) = (server.client(), format!("key:{n}"));
            scope.spawn(move || {
                for _ in 0..400 {
                    client.cmd(&["INCR", &key]);
                    assert_eq!(client.cmd(&["WAIT", "2", "1"]).int(), 0);
                }
            });
        }
    });
}

/// Bytes in use, by the server's count and by its allocator's.
fn memory(client: &mut Client) -> (i64, i64) {
    let all = fields(client, "memory");
    let number = |name: &str| all[name].parse::<i64>().expect("a number");
    (number("used_memory"), number("allocator_allocated"))
}

/// The counted memory matches the allocator's, after many saves, copies and loads.
#[test]
fn memory_account_stays_correct_over_copies() {
    const MOST_APART: i64 = 4 << 20;
    let args = [&ARGS[..], &["--save", ""]].concat();
    let (primary, replica) = (Server::weft(&args), Server::weft(&args));
    let (mut above, mut below) = (primary.client(), replica.client());
    above.ok(&["DEBUG", "POPULATE", "5000", "key", "500"]);
    let check = |client: &mut Client, what: &str| {
        // The allocator's figure is up to a tenth of a second old.
        until(&format!("{what}: the counts match"), || {
            let (counted, there) = memory(client);
            (counted - there).abs() < MOST_APART
        });
    };
    for _ in 0..60 {
        above.ok(&["SAVE"]);
    }
    check(&mut above, "SAVE");
    for load in ["disabled", "swapdb", "flush-before-load"] {
        below.ok(&["CONFIG", "SET", "repl-diskless-load", load]);
        for _ in 0..3 {
            replicate_from(&replica, &primary.port().to_string());
            wait_until_caught_up(&mut above, &mut below);
            below.ok(&["REPLICAOF", "NO", "ONE"]);
            // This write makes a partial sync impossible, so the next sync is full.
            below.ok(&["SET", "own", "value"]);
        }
        check(&mut above, "a primary");
        check(&mut below, load);
    }
    // One copy after another, which would add up.
    for _ in 0..40 {
        let mut copies = RawReplica::new(&primary);
        copies.full_sync();
        copies.read_copy();
    }
    check(&mut above, "copies");
}

/// A replica keeps expired keys until its primary deletes them, also over DEBUG RELOAD.
#[test]
fn replica_that_reloads_keeps_expired_keys_of_its_primary() {
    let (primary, replica) = (Server::weft(&ARGS), Server::weft(&ARGS));
    let (mut above, mut below) = (primary.client(), replica.client());
    replicate_from(&replica, &primary.port().to_string());
    wait_until_caught_up(&mut above, &mut below);
    above.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    above.ok(&["SET", "key", "value", "PX", "1"]);
    wait_until_caught_up(&mut above, &mut below);
    until("the key has expired", || below.cmd(&["EXISTS", "key"]).int() == 0);
    below.ok(&["DEBUG", "RELOAD"]);
    assert_eq!(below.cmd(&["DBSIZE"]).int(), 1);
    above.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "1"]);
    until("the key is removed", || below.cmd(&["DBSIZE"]).int() == 0);
}

/// The error texts match the reference exactly.
#[test]
fn invalid_arguments_are_refused_as_by_the_reference() {
    const AGES: &str = "9223372036854775807";
    on_both(&ARGS, &[], |server| {
        let mut client = server.client();
        for (words, answer) in [
            (&["WAIT", "1", AGES][..], "-ERR timeout is out of range"),
            (&["WAITAOF", "0", "1", AGES], "-ERR timeout is out of range"),
            (&["REPLCONF", "version", ""], "-ERR Unrecognized version format: "),
            (&["REPLCONF", "version", "+9.1.0"], "-ERR Unrecognized version format: +9.1.0"),
        ] {
            assert_eq!(client.cmd(words).to_string(), answer, "{} {words:?}", server.name());
        }
    });
}
