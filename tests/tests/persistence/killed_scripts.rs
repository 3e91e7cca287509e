//! kill -9 while scripts run: after the restart, the effects of each script are there as a whole or not at all.
//!
//! | variable | meaning |
//! |---|---|
//! | `SCRIPT_KILLS` | number of kills of each test, default 6 |
//! | `SCRIPT_KILLS_SEED` | seed of the first kill, default 1 |
//!
//! [`weft_tests::script_load`] describes the scripts.

use std::time::Duration;
use weft_testkit::Server;
use weft_testkit::rng::Rng;
use weft_tests::scene::{client, info};
use weft_tests::script_load::{Numbers, check_survivors, while_scripts_run};
use weft_tests::{env_or, persistence};

const FOUR: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

/// Kills the server again and again while scripts run. `act` runs before each kill.
fn kill_repeatedly(
    args: &[&str],
    acknowledged: bool,
    act: impl Fn(&Server, &mut Rng) + Send + Sync,
) -> Server {
    let mut server = Server::weft(&[&FOUR[..], args].concat());
    let (kills, first) = (env_or("SCRIPT_KILLS", 6), env_or("SCRIPT_KILLS_SEED", 1));
    let numbers = Numbers::default();
    let (mut done, mut restarts) = (0, 0);
    for seed in first..first + kills {
        println!("SCRIPT_KILLS_SEED={seed}");
        let mut rng = Rng::new(seed);
        let before = numbers.acknowledged();
        while_scripts_run(server.port(), &numbers, seed, || {
            act(&server, &mut rng);
            restarts += info(&mut client(&server), "script_restarts");
            server.kill();
        });
        done += numbers.acknowledged() - before;
        server.restart();
        server.wait_until_loaded();
        check_survivors(&mut client(&server), &numbers, acknowledged);
    }
    println!("{kills} kills, {done} scripts, {restarts} of their runs were undone");
    assert!(done > kills && restarts > 0, "the scripts have run");
    server
}

fn wait(rng: &mut Rng, most: i64) {
    std::thread::sleep(Duration::from_millis(rng.between(5, most) as u64));
}

fn aof(policy: &str) -> Vec<&str> {
    let rewrites = ["--auto-aof-rewrite-min-size", "200kb", "--auto-aof-rewrite-percentage", "50"];
    [&["--appendonly", "yes", "--appendfsync", policy][..], &rewrites].concat()
}

#[test]
fn scripts_acknowledged_under_always_survive() {
    kill_repeatedly(&aof("always"), true, |_, rng| wait(rng, 120));
}

#[test]
fn no_script_is_torn_under_everysec() {
    kill_repeatedly(&aof("everysec"), false, |_, rng| wait(rng, 120));
}

#[test]
fn rdb_files_hold_whole_scripts() {
    kill_repeatedly(&["--rdb-key-save-delay", "10"], false, |server, rng| {
        let mut saver = client(server);
        for _ in 0..rng.between(1, 3) {
            wait(rng, 30);
            let word = if rng.percent(30) { "SAVE" } else { "BGSAVE" };
            // The one before may still run.
            let error = saver.cmd(&[word]).error().unwrap_or_default();
            assert!(error.is_empty() || error.ends_with("already in progress"), "{error}");
            if rng.percent(80) {
                persistence::until("the save has ended", || {
                    persistence::info(&mut saver, "rdb_bgsave_in_progress") == "0"
                });
            }
        }
    });
}
