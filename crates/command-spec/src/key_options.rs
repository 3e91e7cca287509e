//! Keys that key specifications can't describe: they are found by parsing options.
//!
//! The positions serve COMMAND GETKEYS and access control lists, which judge a request before it runs. Commands check
//! their options again when they run.

/// The position of the destination key of a SORT. With several destinations, the last one.
pub fn sort_destination(args: &[&[u8]]) -> Option<usize> {
    let mut found = None;
    let mut i = 2;
    while i < args.len() {
        let is = |word: &str| args[i].eq_ignore_ascii_case(word.as_bytes());
        if is("limit") {
            i += 2;
        } else if is("by") || is("get") {
            i += 1;
        } else if is("store") && i + 1 < args.len() {
            found = Some(i + 1);
        }
        i += 1;
    }
    found
}

/// The position of the destination key of GEORADIUS or GEORADIUSBYMEMBER. With several destinations, the last one.
pub fn geo_destination(args: &[&[u8]]) -> Option<usize> {
    let (mut found, mut at) = (None, 5);
    while at + 1 < args.len() {
        if names_destination(args[at]) {
            at += 1;
            found = Some(at);
        }
        at += 1;
    }
    found
}

/// Whether a destination key follows this option of GEORADIUS.
pub fn names_destination(option: &[u8]) -> bool {
    [&b"store"[..], b"storedist"].iter().any(|word| option.eq_ignore_ascii_case(word))
}

/// Whether a BITFIELD certainly does not change its key. Words that are not valid operations count as a possible
/// change.
pub fn bitfield_only_reads(args: &[&[u8]]) -> bool {
    let mut words = args.get(2..).unwrap_or_default();
    loop {
        words = match words {
            [] => return true,
            [word, _, _, rest @ ..] if word.eq_ignore_ascii_case(b"get") => rest,
            [word, _, rest @ ..] if word.eq_ignore_ascii_case(b"overflow") => rest,
            [..] => return false,
        };
    }
}

/// Whether a SET also reads the old value.
pub fn set_reads(args: &[&[u8]]) -> bool {
    args.get(3..).unwrap_or_default().iter().any(|arg| arg.eq_ignore_ascii_case(b"get"))
}

/// The position of the first option of MIGRATE.
const MIGRATE_OPTIONS: usize = 6;

/// The positions of the keys of a MIGRATE. `None` if both the key argument and KEYS have keys. The reference ignores
/// KEYS as the last word.
pub fn migrate_keys(args: &[&[u8]]) -> Option<std::ops::Range<usize>> {
    let last = args.len().saturating_sub(1);
    match migrate_keys_option(args).filter(|at| *at < last) {
        Some(at) => args[3].is_empty().then_some(at + 1..args.len()),
        None => Some(3..args.len().min(4)),
    }
}

/// The position of KEYS among the options of a MIGRATE.
pub fn migrate_keys_option(args: &[&[u8]]) -> Option<usize> {
    let mut at = MIGRATE_OPTIONS;
    while let Some(word) = args.get(at) {
        let is = |option: &str| word.eq_ignore_ascii_case(option.as_bytes());
        at += match () {
            () if is("keys") => return Some(at),
            () if is("auth") => 2,
            () if is("auth2") => 3,
            () => 1,
        };
    }
    None
}
