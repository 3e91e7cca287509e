//! The options of `--fuzz`: their values, and the options that have no effect with it.

use super::raw::Raw;

/// How much the fuzzer prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    None,
    Error,
    #[default]
    Info,
    Debug,
}

/// The mode and output of the fuzzer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fuzz {
    /// Malformed commands are sent too.
    pub malformed: bool,
    /// CONFIG SET is sent too.
    pub config: bool,
    pub level: Level,
    /// An unknown level, replaced by the default.
    pub unknown_level: Option<String>,
}

/// Reads the options; none without `--fuzz`.
///
/// # Errors
/// If a mode is unknown, with or without `--fuzz`, as in the reference; if `--fuzz` is combined with an option that it
/// can't support.
pub fn parse(raw: &Raw) -> Result<Option<Fuzz>, String> {
    let mut fuzz = Fuzz::default();
    for mode in raw.fuzz_mode.iter().flat_map(|modes| modes.split(',')) {
        match mode {
            "malformed-commands" => fuzz.malformed = true,
            "config-commands" => fuzz.config = true,
            "" => {}
            _ => return Err(format!("Invalid fuzz mode: {mode}")),
        }
    }
    match raw.fuzz_loglevel.as_deref() {
        None | Some("info") => {}
        Some("none") => fuzz.level = Level::None,
        Some("error") => fuzz.level = Level::Error,
        Some("debug") => fuzz.level = Level::Debug,
        Some(other) => fuzz.unknown_level = Some(other.to_string()),
    }
    if !raw.fuzz {
        return Ok(None);
    }
    match given(&ours(raw)) {
        wrong if wrong.is_empty() => Ok(Some(fuzz)),
        wrong => Err(format!("--fuzz can't be combined with {}.", wrong.join(", "))),
    }
}

/// Given options of the reference that have no effect on a fuzzer, here or there.
pub fn without_effect(raw: &Raw) -> Vec<&'static str> {
    given(&[
        ("-t", raw.tests.is_some()),
        ("-x", raw.stdin),
        ("-d", raw.data != 3),
        ("-k", raw.keepalive == 0),
        ("-r", raw.keyspace.is_some()),
        ("--sequential", raw.sequential),
        ("-P", raw.pipeline != 1),
        ("-q", raw.quiet),
        ("--csv", raw.csv),
        ("-l", raw.repeat),
        ("--rps", raw.rps != 0),
        ("--warmup", raw.warmup != 0.0),
        ("--threads", raw.threads.is_some()),
        ("--num-functions", raw.num_functions != 10),
        ("--num-keys-in-fcall", raw.num_keys_in_fcall != 1),
        ("a command", !raw.command.is_empty()),
    ])
}

/// Additional options of this tool that have no effect on a fuzzer.
fn ours(raw: &Raw) -> [(&'static str, bool); 9] {
    [
        ("--mix", raw.mix.is_some()),
        ("--sizes", raw.sizes.is_some()),
        ("--keys", raw.keys.is_some()),
        ("--preload", raw.preload),
        ("--verify", raw.verify),
        ("--keep-going", raw.keep_going),
        ("--json", raw.json),
        ("--hdr", raw.hdr.is_some()),
        ("--vs", raw.vs.is_some()),
    ]
}

fn given(options: &[(&'static str, bool)]) -> Vec<&'static str> {
    options.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect()
}
