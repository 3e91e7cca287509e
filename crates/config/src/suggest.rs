//! "Did you mean": the directive that a misspelt name was meant to be.
//!
//! Two ways of going wrong are looked at: letters that are wrong, missing, too many or swapped, and
//! a name that was not finished. A guess that is far from the written word would only distract, so
//! nothing is said unless about two thirds of the letters are right.

use crate::directive::Flags;
use crate::table::{self, NAMES};

/// The suggestion for `written`, the first word of a line or of an option, dashes included;
/// `on_command_line` decides its spelling. Takes microseconds.
pub(crate) fn suggestion(written: &[u8], on_command_line: bool) -> Option<String> {
    let written = std::str::from_utf8(written).ok()?.to_ascii_lowercase();
    let bare = written.trim_start_matches('-');
    let dashes = if on_command_line { "--" } else { "" };
    // As most programs take it: --port=7000.
    if let Some((name, value)) = bare.split_once('=') {
        let name = if table::lookup(name.as_bytes()).is_some() { name } else { directive(name)? };
        return Some(format!("{dashes}{name} {value}"));
    }
    match bare {
        "h" | "?" | "help" if on_command_line => Some("--help".into()),
        // As the clients of such servers call it.
        "p" if on_command_line => Some("--port".into()),
        "v" | "version" if on_command_line => Some("--version".into()),
        _ if table::lookup(bare.as_bytes()).is_some() => Some(format!("{dashes}{bare}")),
        _ => directive(bare).map(|name| format!("{dashes}{name}")),
    }
}

/// The directive whose name is nearest to `written`.
fn directive(written: &str) -> Option<&'static str> {
    let shown = || NAMES.values().filter(|n| !n.id.directive().flags.contains(Flags::HIDDEN));
    let few = written.chars().count() / 3;
    let near = shown().map(|name| (distance(written, name.spelling), name.spelling));
    if let Some((_, spelling)) = near.filter(|(d, _)| *d <= few.min(3)).min() {
        return Some(spelling);
    }
    // A name that was not finished, if there is only one that it can be.
    let mut longer =
        shown().filter(|name| !written.is_empty() && name.spelling.starts_with(written));
    match (longer.next(), longer.next()) {
        (Some(only), None) => Some(only.spelling),
        _ => None,
    }
}

/// How many letters must be put in, left out, replaced or swapped with their neighbour to make
/// one word of the other. O(n * m).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("port", "port", 0),
            ("prot", "port", 1),
            ("por", "port", 1),
            ("", "ab", 2),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn guesses() {
        let told = |written: &str, on_command_line| suggestion(written.as_bytes(), on_command_line);
        for (written, expected) in [
            ("prot", Some("port")),
            ("maxmemmory", Some("maxmemory")),
            ("Max-Memory", Some("maxmemory")),
            ("apendonly", Some("appendonly")),
            ("maxmemory-pol", Some("maxmemory-policy")),
            ("requirepas", Some("requirepass")),
            ("slave-priorty", Some("slave-priority")),
            ("xyzzy", None),
            ("", None),
        ] {
            assert_eq!(told(written, false).as_deref(), expected, "{written}");
            let option = expected.map(|name| format!("--{name}"));
            assert_eq!(told(written, true), option, "{written}");
        }
        for (written, expected) in [
            ("-port", "--port"),
            ("port=7000", "--port 7000"),
            ("prot=7000", "--port 7000"),
            ("-?", "--help"),
            ("-p", "--port"),
        ] {
            assert_eq!(told(written, true).as_deref(), Some(expected), "{written}");
        }
    }
}
