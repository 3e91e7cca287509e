//! Replication attacked: faults that were found by running it against its promises, each of which is a test
//! here.

use weft_testkit::{Client, Server};
use weft_tests::persistence::until;
use weft_tests::replicas::{Raw, fields, number};
use weft_tests::replication::{caught_up, follow};
use weft_tests::scene::on_both;

const ARGS: [&str; 4] = ["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"];

/// Says that a replica has this much.
fn confirm(replica: &mut Raw, offset: u64) {
    replica.send(&["REPLCONF", "ACK", &offset.to_string()]);
}

fn replicas_of(client: &mut Client) -> usize {
    client.cmd(&["ROLE"]).items()[2].items().len()
}

/// A replica that was behind when its primary was told to be a replica, and a primary again, is still behind:
/// what was written before does not count as confirmed.
#[test]
fn wait_does_not_count_who_has_not_confirmed_since_the_roles_changed() {
    on_both(&ARGS, &[], |server| {
        let mut replica = Raw::new(server);
        let (id, offset) = replica.full();
        replica.copy();
        confirm(&mut replica, offset);
        let mut client = server.client();
        until("it is online", || replicas_of(&mut client) == 1);
        client.ok(&["SET", "key", "written"]);
        assert_eq!(client.cmd(&["WAIT", "1", "20"]).int(), 0);
        client.ok(&["REPLICAOF", "127.0.0.1", "1"]);
        client.ok(&["REPLICAOF", "NO", "ONE"]);
        let mut replica = Raw::new(server);
        assert_eq!(replica.ask(&["REPLCONF", "capa", "psync2"]), "+OK");
        let answer = replica.ask(&["PSYNC", &id, &(offset + 1).to_string()]);
        assert!(answer.starts_with("+CONTINUE "), "{answer}");
        until("it is online again", || replicas_of(&mut client) == 1);
        assert_eq!(client.cmd(&["WAIT", "1", "20"]).int(), 0, "{}", server.name());
        let end = number(&mut client, "replication", "master_repl_offset");
        confirm(&mut replica, end);
        assert_eq!(client.cmd(&["WAIT", "1", "0"]).int(), 1);
    });
}

/// Whose time is over while others look at who has confirmed what is answered, too.
#[test]
fn every_wait_is_answered_when_its_time_is_over() {
    let server = Server::weft(&[&ARGS[..], &["--io-threads", "4"]].concat());
    let mut replica = Raw::new(&server);
    let (_, offset) = replica.full();
    replica.copy();
    confirm(&mut replica, offset);
    until("it is online", || replicas_of(&mut server.client()) == 1);
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

/// Bytes in use, as the server counts them and as its allocator does.
fn memory(client: &mut Client) -> (i64, i64) {
    let all = fields(client, "memory");
    let number = |name: &str| all[name].parse::<i64>().expect("a number");
    (number("used_memory"), number("allocator_allocated"))
}

/// What is counted is what is in use, however often data were saved, copied and loaded.
#[test]
fn the_account_of_memory_stays_true_over_copies() {
    const MOST_APART: i64 = 4 << 20;
    let args = [&ARGS[..], &["--save", ""]].concat();
    let (primary, replica) = (Server::weft(&args), Server::weft(&args));
    let (mut above, mut below) = (primary.client(), replica.client());
    above.ok(&["DEBUG", "POPULATE", "5000", "key", "500"]);
    let check = |client: &mut Client, what: &str| {
        // What the allocator says is up to a tenth of a second old.
        until(&format!("{what}: the account is that of the allocator"), || {
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
            follow(&replica, &primary.port().to_string());
            caught_up(&mut above, &mut below);
            below.ok(&["REPLICAOF", "NO", "ONE"]);
            // From here on it can't go on, and takes a copy.
            below.ok(&["SET", "own", "value"]);
        }
        check(&mut above, "a primary");
        check(&mut below, load);
    }
    // One after the other, and they come to something.
    for _ in 0..40 {
        let mut copies = Raw::new(&primary);
        copies.full();
        copies.copy();
    }
    check(&mut above, "copies");
}

/// A replica keeps what has expired until its primary says that it has, over DEBUG RELOAD, too.
#[test]
fn a_replica_that_reloads_keeps_what_its_primary_has() {
    let (primary, replica) = (Server::weft(&ARGS), Server::weft(&ARGS));
    let (mut above, mut below) = (primary.client(), replica.client());
    follow(&replica, &primary.port().to_string());
    caught_up(&mut above, &mut below);
    above.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    above.ok(&["SET", "key", "value", "PX", "1"]);
    caught_up(&mut above, &mut below);
    until("it has expired", || below.cmd(&["EXISTS", "key"]).int() == 0);
    below.ok(&["DEBUG", "RELOAD"]);
    assert_eq!(below.cmd(&["DBSIZE"]).int(), 1);
    above.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "1"]);
    until("it is removed", || below.cmd(&["DBSIZE"]).int() == 0);
}

/// Errors in the reference's words, to the last byte.
#[test]
fn what_replicas_say_wrong_is_refused_as_by_the_reference() {
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
