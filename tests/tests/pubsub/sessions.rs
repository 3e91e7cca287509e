//! Several clients that subscribe and publish, or track what they read, get the same replies and
//! pushes as from the reference.
//!
//! `weft_testkit_differential::sessions` describes the method.
//!
//! | variable | meaning |
//! |---|---|
//! | `DIFF_COMMANDS` | commands of each test, default 4,000 |
//! | `DIFF_SEED` | seed of the first episode, default 1; a failure prints the one to use |

use weft_testkit::{Server, skip_without};
use weft_testkit_differential::sessions::{self, Topic};
use weft_tests::env_or;

const SEVERAL: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

/// Steps of an episode.
const STEPS: usize = 400;

fn compare(test: &str, topic: Topic, weft: &[&str]) {
    let reference = Server::valkey(&[]);
    if skip_without(test, &reference, "valkey-server") {
        return;
    }
    let (weft, reference) = (Server::weft(weft), reference.expect("not skipped"));
    let (seed, commands) = (env_or("DIFF_SEED", 1), env_or("DIFF_COMMANDS", 4_000));
    let (ours, theirs) = (weft.port(), reference.port());
    match sessions::run(ours, theirs, seed, commands, STEPS, topic) {
        Ok(outcome) => {
            println!("{test}: {outcome:?}");
            assert!(outcome.messages * 20 > outcome.commands, "too few messages: {outcome:?}");
        }
        Err(difference) => {
            drop((weft, reference));
            panic!("{difference}\nrepeat with: DIFF_SEED={} DIFF_COMMANDS=1", difference.seed);
        }
    }
}

#[test]
fn sessions_on_one_thread_match_the_reference() {
    compare("sessions_on_one_thread_match_the_reference", Topic::PubSub, &["--io-threads", "1"]);
}

#[test]
fn sessions_on_several_threads_match_the_reference() {
    compare("sessions_on_several_threads_match_the_reference", Topic::PubSub, &SEVERAL);
}

#[test]
fn tracking_on_one_thread_matches_the_reference() {
    compare("tracking_on_one_thread_matches_the_reference", Topic::Caching, &["--io-threads", "1"]);
}

#[test]
fn tracking_on_several_threads_matches_the_reference() {
    compare("tracking_on_several_threads_matches_the_reference", Topic::Caching, &SEVERAL);
}
