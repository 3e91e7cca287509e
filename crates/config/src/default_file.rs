//! The documented default file, `weft.conf`.
//!
//! It has every directive with its paragraph, its values and its default, after a `#`. So a line
//! without `#` is the operator's choice, and a later version can have better defaults for all
//! others.

use std::fmt::Write;

use crate::config::DEFAULTS;
use crate::directive::{Directive, Flags, Status};
use crate::kind::Kind;
use crate::table::SECTIONS;

/// Lines are no longer than this.
const WIDTH: usize = 80;

const HEAD: &str = "\
# Configuration of Weft.
#
# Start the server with this file as its first argument:
#
#     weft-server /path/to/weft.conf
#
# A line is a directive and its arguments. Put arguments with spaces in quotes.
# Case does not matter in names and in words such as yes. Configuration files of
# Redis and Valkey work unchanged.
#
# Below, text begins with a hash sign and a space. Directives begin with the
# hash sign alone and show their defaults; remove the sign to set one. On the
# command line, directives begin with two dashes and override this file:
# weft-server weft.conf --port 6380
#
# Amounts of memory have units: 1k is 1000 bytes, 1kb is 1024; likewise m, mb,
# g and gb.
#
# A wrong value, an unknown directive or a duplicate one prevents the start. The
# error names the line and the reason. CONFIG SET changes directives at run
# time, and CONFIG REWRITE writes the changes into this file.
";

/// The text of `weft.conf`.
pub fn default_file() -> String {
    let mut out = String::from(HEAD);
    for section in SECTIONS {
        let shown = |directive: &&Directive| !directive.flags.contains(Flags::HIDDEN);
        if !section.directives.iter().any(|directive| shown(&directive)) {
            continue;
        }
        let title = format!("\n{:#<WIDTH$}\n# {}\n", "", section.title);
        out.push_str(&title);
        if !section.about.is_empty() {
            out.push_str("#\n");
            comment(&mut out, section.about);
        }
        for directive in section.directives.iter().filter(shown) {
            entry(&mut out, directive);
        }
    }
    out
}

/// One directive: its paragraph, what it takes, and its default.
fn entry(out: &mut String, directive: &Directive) {
    out.push('\n');
    comment(out, directive.doc);
    for text in [facts(directive), effect(directive)] {
        if !text.is_empty() {
            comment(out, &text);
        }
    }
    if let Kind::Statement { .. } = directive.kind {
        comment(out, "For example:");
    }
    for line in default_lines(directive) {
        let _ = writeln!(out, "#{line}");
    }
}

/// Which values it takes, who may change it, what else it is called; may be empty.
pub(crate) fn facts(directive: &Directive) -> String {
    let mut facts = values(&directive.kind);
    if directive.flags.contains(Flags::IMMUTABLE) {
        facts.push_str(" Fixed at start.");
    }
    if directive.flags.contains(Flags::PROTECTED) {
        facts.push_str(" Changed at run time only as enable-protected-configs allows.");
    }
    if !directive.aliases.is_empty() {
        let _ = write!(facts, " Also: {}.", directive.aliases.join(", "));
    }
    facts
}

/// That it does nothing, and why; empty where it acts.
pub(crate) fn effect(directive: &Directive) -> String {
    match directive.status {
        Status::Effective => String::new(),
        Status::NotYet(feature) => format!("NO EFFECT YET: this version does not have {feature}."),
        Status::Obsolete(reason) => format!("NO EFFECT: {reason}."),
    }
}

/// The lines that set a directive to its default; for a statement, an example.
pub(crate) fn default_lines(directive: &Directive) -> Vec<String> {
    let line = |arguments: &str| format!("{} {arguments}", directive.name);
    match directive.kind {
        Kind::OutputBufferLimits => {
            let lines = directive.kind.lines(&DEFAULTS[directive.id.index()]);
            lines.iter().map(|arguments| line(&String::from_utf8_lossy(arguments))).collect()
        }
        _ => vec![line(directive.default)],
    }
}

/// Which values a kind takes, where the paragraph leaves it open.
fn values(kind: &Kind) -> String {
    match kind {
        Kind::Bool => "Values: yes or no.".to_string(),
        Kind::Int { min, max } | Kind::Clamped { min, max, .. } => {
            format!("Values: {}.", range(*min, *max))
        }
        Kind::IntOrAuto { min, max } => format!("Values: auto, or {}.", range(*min, *max)),
        Kind::Memory { min: 0, .. } => "Values: an amount of memory.".to_string(),
        Kind::Memory { min, .. } => {
            let min = crate::numbers::format_memory(*min);
            format!("Values: an amount of memory, at least {min}.")
        }
        Kind::MemoryOrMinusOne => "Values: an amount of memory, or -1.".to_string(),
        Kind::MemoryOrPercent => "Values: an amount of memory, or 0% to 100%.".to_string(),
        Kind::Octal { max } => format!("Values: 0 to {max:o}."),
        Kind::Word { words, .. } | Kind::Words { words, .. } => {
            format!("Values: {}.", words.join(", "))
        }
        Kind::Text { .. }
        | Kind::Directory
        | Kind::Addresses { .. }
        | Kind::SavePoints
        | Kind::OutputBufferLimits
        | Kind::OomScores
        | Kind::KeyspaceEvents
        | Kind::Percentiles
        | Kind::Primary
        | Kind::Statement { .. } => String::new(),
    }
}

/// A range in words; bounds that only the size of a machine word sets are left
/// out.
fn range(min: i64, max: i64) -> String {
    let open_below = min <= i64::from(i32::MIN);
    let open_above = max >= i64::from(i32::MAX);
    match (open_below, open_above) {
        (true, _) => "an integer".to_string(),
        (false, true) => format!("{min} or more"),
        (false, false) => format!("{min} to {max}"),
    }
}

/// Writes text as comment lines.
fn comment(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            out.push_str(&line);
            out.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::directive::Id;
    use crate::files::NoFiles;
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn lines_are_short_and_ascii() {
        for line in default_file().lines() {
            assert!(line.len() <= WIDTH, "{line}");
            assert!(line.is_ascii() && line.trim_end() == line, "{line}");
        }
    }

    #[test]
    fn every_visible_directive_is_in_it() {
        let file = default_file();
        for id in Id::all() {
            let hidden = id.directive().flags.contains(Flags::HIDDEN);
            for line in default_lines(id.directive()) {
                assert_eq!(file.contains(&format!("\n#{line}\n")), !hidden, "{line}");
            }
        }
    }

    #[test]
    fn it_means_the_defaults_with_and_without_the_signs() {
        let defaults = Config::with_files(Arc::new(NoFiles));
        let file = default_file();
        let is_statement = |line: &str| {
            let name = line.split(' ').next().unwrap_or_default();
            let id = Id::from_name(name.as_bytes()).expect(name);
            matches!(id.directive().kind, Kind::Statement { .. })
        };
        let is_directive = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
        let set: Vec<_> = file
            .lines()
            .filter(is_directive)
            .map(|line| line.trim_start_matches('#'))
            .filter(|line| !line.is_empty())
            // The directory cannot be looked up without files, and examples
            // are not defaults.
            .filter(|line| !line.starts_with("dir ") && !is_statement(line))
            .collect();
        assert!(set.len() > 200);
        for text in [file.clone(), set.join("\n")] {
            let parsed = Config::parse(Path::new("x"), text.as_bytes(), Arc::new(NoFiles));
            assert_eq!(parsed.unwrap().values, defaults.values);
        }
    }
}
