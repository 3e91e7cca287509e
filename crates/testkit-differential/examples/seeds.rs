//! Writes the missing seeds of the fuzz target `commands`: for each command on keys, a file with
//! some of its requests, between others that fill its keys.
//!
//! `cargo run -p weft-testkit-differential --example seeds -- fuzz/corpus/commands`
//!
//! An existing seed stays as it is; delete it to write it anew. The random choices don't depend on
//! which seeds are missing, so the same grammar gives the same seed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use weft_testkit::rng::Rng;
use weft_testkit_differential::commands::{self, Group};
use weft_testkit_differential::deck::Deck;
use weft_testkit_differential::generate::{Action, Command};

/// Requests before each request of the command itself.
const BEFORE: usize = 5;
/// Requests of the command in its file.
const TIMES: usize = 5;
/// The most steps drawn for one group: a command that has not come up by then is rarer than any
/// rule.
const DRAWS: usize = 40_000;
/// Longest request in a seed (bytes): shorter ones are better mutated.
const LONGEST: usize = 300;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).expect("a folder"));
    std::fs::create_dir_all(&folder)?;
    for group in [
        Group::Strings,
        Group::Bits,
        Group::Generic,
        Group::Lists,
        Group::Hashes,
        Group::Sets,
        Group::SortedSets,
        Group::Geo,
        Group::HyperLogLogs,
        Group::Streams,
        Group::StreamGroups,
        Group::Server,
    ] {
        let mut missing = names_of(group);
        missing.retain(|name| !folder.join(format!("seed-{name}")).is_file());
        for (name, seed) in seeds(group, missing) {
            println!("seed-{name}");
            std::fs::write(folder.join(format!("seed-{name}")), seed)?;
        }
    }
    Ok(())
}

/// The seeds for which the group has a rule.
fn names_of(group: Group) -> BTreeSet<String> {
    let rules = commands::parse(&[group]);
    let words = rules.iter().flat_map(|rule| rule.names().collect::<Vec<_>>());
    words.flat_map(|words| names(words.to_lowercase().split('|'))).collect()
}

/// Draws until each of `missing` has come up often enough, or `DRAWS` steps are over.
fn seeds(group: Group, mut missing: BTreeSet<String>) -> BTreeMap<String, String> {
    let deck = Deck::new(&[(group, 80), (Group::Types, 20)]);
    let mut rng = Rng::new(1);
    let mut recent: Vec<String> = Vec::new();
    let mut found: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for _ in 0..DRAWS {
        if missing.is_empty() {
            break;
        }
        for action in deck.draw(&mut rng).0 {
            let Action::Send(command) = action else { continue };
            let line = line(&command);
            if line.len() > LONGEST {
                continue;
            }
            let words: Vec<String> = command.args.iter().take(2).map(|word| lower(word)).collect();
            for name in names(words.iter().map(String::as_str)) {
                if !missing.contains(&name) {
                    continue;
                }
                let (times, seed) = found.entry(name.clone()).or_default();
                *times += 1;
                recent.iter().rev().take(BEFORE).rev().for_each(|before| seed.push_str(before));
                seed.push_str(&line);
                if *times == TIMES {
                    missing.remove(&name);
                }
            }
            recent.push(line);
        }
    }
    found.into_iter().map(|(name, (_, seed))| (name, seed)).collect()
}

fn lower(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_lowercase()
}

/// A command as a line of quoted words.
fn line(command: &Command) -> String {
    let mut bytes = Vec::new();
    Command { inline: true, ..command.clone() }.encode_into(&mut bytes);
    String::from_utf8_lossy(&bytes).replace("\r\n", "\n")
}

/// The name of the command and of its subcommand, in lower case, if it is a command on keys.
fn names<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    let words: Vec<&str> = words.take(2).collect();
    match words.as_slice() {
        ["object", sub] if commands::covers(&format!("object|{sub}")) => {
            vec!["object".into(), sub.to_string()]
        }
        // A random word.
        [""] => Vec::new(),
        [name, ..] if KEYLESS.contains(name) || !commands::covers(name) => Vec::new(),
        [name, ..] => vec![name.to_string()],
        [] => Vec::new(),
    }
}

/// Commands on the server or the connection, which the target does not run.
const KEYLESS: [&str; 23] = [
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
    "monitor",
    "ping",
    "quit",
    "readonly",
    "readwrite",
    "reset",
    "select",
    "slowlog",
    "time",
];
