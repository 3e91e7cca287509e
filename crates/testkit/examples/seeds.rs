//! Writes the seeds of the fuzz target `commands`: for each command on keys a file with some
//! requests of it, between others that make its keys hold something.
//!
//! `cargo run -p weft-testkit --example seeds -- fuzz/corpus/commands`

use std::collections::BTreeMap;
use std::path::PathBuf;
use weft_testkit::differential::commands::{self, Group};
use weft_testkit::differential::deck::Deck;
use weft_testkit::differential::generate::{Action, Command};
use weft_testkit::rng::Rng;

/// Requests in front of each request of the command itself.
const BEFORE: usize = 5;
/// Requests of the command in its file.
const TIMES: usize = 5;
/// Longest request in a seed (bytes): shorter ones are better mutated.
const LONGEST: usize = 300;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).expect("a folder"));
    std::fs::create_dir_all(&folder)?;
    let mut seeds: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    for group in [
        Group::Strings,
        Group::Generic,
        Group::Lists,
        Group::Hashes,
        Group::Sets,
        Group::SortedSets,
        Group::HyperLogLogs,
        Group::Server,
    ] {
        let deck = Deck::new(&[(group, 80), (Group::Types, 20)]);
        let mut rng = Rng::new(1);
        let mut recent: Vec<String> = Vec::new();
        for _ in 0..40_000 {
            for action in deck.draw(&mut rng).0 {
                let Action::Send(command) = action else { continue };
                let line = line(&command);
                if line.len() > LONGEST {
                    continue;
                }
                for name in names(&command) {
                    let seed = seeds.entry(name).or_default();
                    if seed.0 < TIMES {
                        seed.0 += 1;
                        seed.1.extend(recent.iter().rev().take(BEFORE).rev().cloned());
                        seed.1.push(line.clone());
                    }
                }
                recent.push(line);
            }
        }
    }
    for (name, (_, lines)) in seeds {
        std::fs::write(folder.join(format!("seed-{name}")), lines.concat())?;
    }
    Ok(())
}

/// As a line of quoted words.
fn line(command: &Command) -> String {
    let mut bytes = Vec::new();
    Command { inline: true, ..command.clone() }.encode_into(&mut bytes);
    String::from_utf8_lossy(&bytes).replace("\r\n", "\n")
}

/// The command's name and that of the subcommand, if it is one on keys.
fn names(command: &Command) -> Vec<String> {
    let word = |n: usize| {
        let word = command.args.get(n).map(|w| String::from_utf8_lossy(w).to_lowercase());
        word.unwrap_or_default()
    };
    match word(0).as_str() {
        "object" if commands::covers(&format!("object|{}", word(1))) => vec![word(0), word(1)],
        "dbsize" | "swapdb" => vec![word(0)],
        name if KEYLESS.contains(&name) || !commands::covers(name) => Vec::new(),
        name => vec![name.to_string()],
    }
}

/// Commands on the server or the connection, which the target does not run.
const KEYLESS: [&str; 20] = [
    "acl",
    "auth",
    "client",
    "command",
    "commandlog",
    "config",
    "debug",
    "echo",
    "hello",
    "info",
    "lastsave",
    "latency",
    "lolwut",
    "memory",
    "ping",
    "quit",
    "reset",
    "select",
    "slowlog",
    "time",
];
