//! A configuration of an older server starts and is answered.
//!
//! `data/redis-6.2.1.tsv` is `CONFIG GET *` of a Redis 6.2.1 in production: 145
//! directives, some under two names, some that later servers have dropped.

mod common;

use common::{Files, get};
use weft_config::tokens::{quote, quote_if_needed};

const DUMP: &str = include_str!("data/redis-6.2.1.tsv");

/// The directives and values, with paths that exist in `directory`.
fn directives(directory: &str) -> Vec<(&'static str, String)> {
    let line = |line: &'static str| {
        let (name, value) = line.split_once('\t').unwrap();
        let value = match name {
            "dir" => directory.to_string(),
            "logfile" => format!("{directory}/redis.log"),
            _ => value.to_string(),
        };
        (name, value)
    };
    let directives: Vec<_> = DUMP.lines().skip(1).map(line).collect();
    assert_eq!(directives.len(), 145);
    directives
}

#[test]
fn every_directive_of_a_dump_is_accepted_and_answered() {
    let files = Files::new();
    let directory = files.path().canonicalize().unwrap();
    let directives = directives(directory.to_str().unwrap());
    let multiple = ["save", "client-output-buffer-limit", "oom-score-adj-values", "bind"];
    for quoted in [false, true] {
        let mut text = String::new();
        for (name, value) in &directives {
            let value = match value.as_bytes() {
                value if quoted => quote(value),
                value if value.is_empty() || !multiple.contains(name) => quote_if_needed(value),
                value => value.to_vec(),
            };
            text += &format!("{name} {}\n", String::from_utf8(value).unwrap());
        }
        let config = files.load(&text).unwrap();
        for (name, value) in &directives {
            assert_eq!(get(&config, name), *value, "{name}");
        }
        // REWRITE leaves every line alone.
        let rewritten = config.rewritten(text.as_bytes());
        assert_eq!(String::from_utf8(rewritten).unwrap(), text);
    }
}

#[test]
fn each_directive_can_stand_alone_and_on_the_command_line() {
    let files = Files::new();
    let directory = files.path().canonicalize().unwrap();
    for (name, value) in directives(directory.to_str().unwrap()) {
        let arguments = ["".into(), format!("--{name}"), value.clone()];
        let weft_config::Cli::Run(args) =
            weft_config::cli::parse(arguments[1..].iter().map(std::ffi::OsString::from))
        else {
            panic!("{name}");
        };
        let config = weft_config::Config::load(&args).unwrap();
        assert_eq!(get(&config, name), value, "{name}");
    }
}
