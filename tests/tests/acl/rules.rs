//! Random rules, questions and commands get the same replies from both servers.
//!
//! | variable | meaning |
//! |---|---|
//! | `ACL_COMMANDS` | commands, default 8,000 |
//! | `ACL_SEED` | seed of the first episode, default 1; a failure prints the one to use |

use weft_testkit::{Server, skip_without};
use weft_testkit_differential::access::{Servers, run};
use weft_tests::env_or;

fn compare(test: &str, commands: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("users.acl");
    std::fs::write(&file, "").expect("the folder is writable");
    let args = ["--aclfile", file.to_str().expect("a plain path")];
    let reference = Server::valkey(&args);
    if skip_without(test, &reference, "valkey-server") {
        return;
    }
    let (weft, reference) = (Server::weft(&args), reference.expect("not skipped"));
    let servers = Servers { ports: [weft.port(), reference.port()], file: &file };
    let seed = env_or("ACL_SEED", 1);
    match run(servers, seed, env_or("ACL_COMMANDS", commands)) {
        Ok(outcome) => {
            println!("{test}: {} commands, {} without error", outcome.commands, outcome.successes);
            assert!(outcome.successes * 2 > outcome.commands, "mostly errors");
        }
        Err(difference) => {
            // Stop the servers first: the last output should be the difference, not their logs.
            drop((weft, reference));
            panic!("{difference}\nrepeat with ACL_SEED={}", difference.seed);
        }
    }
}

#[test]
fn random_rules_mean_the_same() {
    compare("random_rules_mean_the_same", 8_000);
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn many_random_rules_mean_the_same() {
    compare("many_random_rules_mean_the_same", 200_000);
}
