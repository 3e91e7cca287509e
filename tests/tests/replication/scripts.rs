//! Replicas show whole scripts: while the stream arrives, after kill -9, and when they are promoted.
//!
//! `SCRIPT_KILLS` and `SCRIPT_KILLS_SEED` are those of `persistence/killed_scripts.rs`.

use std::time::Duration;
use weft_testkit::Server;
use weft_testkit::rng::Rng;
use weft_tests::env_or;
use weft_tests::persistence::until;
use weft_tests::replicas::{wait_for_same_data, wait_until_caught_up};
use weft_tests::replication::replicate_from;
use weft_tests::scene::client;
use weft_tests::script_load::{Numbers, check, check_survivors, while_scripts_run};

const ARGS: [&str; 8] = [
    "--io-threads",
    "4",
    "--io-threads-always-active",
    "yes",
    "--repl-diskless-sync-delay",
    "0",
    "--enable-debug-command",
    "yes",
];

fn server() -> Server {
    Server::weft(&ARGS)
}

fn seeds() -> std::ops::Range<u64> {
    let first = env_or("SCRIPT_KILLS_SEED", 1);
    first..first + env_or("SCRIPT_KILLS", 6)
}

/// Reads from a replica until it has shown some other scripts, and checks each state.
fn read_replica(replica: &Server) {
    let mut reader = client(replica);
    let mut seen = Vec::new();
    until("the replica has shown several states", || {
        seen.extend(check(&mut reader));
        seen.dedup();
        seen.len() > 5
    });
}

#[test]
fn replica_shows_whole_scripts_before_and_after_kills() {
    let (primary, mut replica) = (server(), server());
    let numbers = Numbers::default();
    replicate_from(&replica, &primary.port().to_string());
    for seed in seeds() {
        println!("SCRIPT_KILLS_SEED={seed}");
        while_scripts_run(primary.port(), &numbers, seed, || {
            read_replica(&replica);
            replica.restart();
            replicate_from(&replica, &primary.port().to_string());
            read_replica(&replica);
        });
        wait_until_caught_up(&primary, &replica);
        check_survivors(&mut client(&replica), &numbers, true);
        wait_for_same_data(&primary, &replica);
    }
}

/// A replica is promoted while the primary runs scripts. The old primary, killed or not, becomes its replica.
#[test]
fn promoted_replica_has_whole_scripts() {
    let (mut primary, mut replica) = (server(), server());
    let numbers = Numbers::default();
    replicate_from(&replica, &primary.port().to_string());
    for seed in seeds() {
        println!("SCRIPT_KILLS_SEED={seed}");
        let is_killed = Rng::new(seed).percent(50);
        while_scripts_run(primary.port(), &numbers, seed, || {
            read_replica(&replica);
            if is_killed {
                primary.restart();
            }
            client(&replica).ok(&["REPLICAOF", "NO", "ONE"]);
            check(&mut client(&replica)).expect("a primary runs scripts");
            replicate_from(&primary, &replica.port().to_string());
        });
        check_survivors(&mut client(&replica), &numbers, false);
        wait_until_caught_up(&replica, &primary);
        wait_for_same_data(&replica, &primary);
        std::mem::swap(&mut primary, &mut replica);
    }
}

/// A primary that becomes a replica keeps no part of a script that runs meanwhile.
#[test]
fn demotion_cuts_no_script() {
    let server = server();
    let numbers = Numbers::default();
    for seed in seeds() {
        println!("SCRIPT_KILLS_SEED={seed}");
        let mut rng = Rng::new(seed);
        while_scripts_run(server.port(), &numbers, seed, || {
            std::thread::sleep(Duration::from_millis(rng.between(1, 30) as u64));
            // No server listens there.
            client(&server).ok(&["REPLICAOF", "127.0.0.1", "1"]);
            check(&mut client(&server)).expect("stale data are served");
        });
        check_survivors(&mut client(&server), &numbers, true);
        client(&server).ok(&["REPLICAOF", "NO", "ONE"]);
    }
}
