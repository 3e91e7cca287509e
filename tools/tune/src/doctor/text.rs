//! The text for people: problems first, each with its action and its reason, then the counts.
//!
//! The default text has two entries for a problem, the action and the reason. `--verbose` adds the
//! details of problems, the values that cannot be read, and a line for each check that passed.

use std::fmt::Write;

use super::Server;
use super::finding::{Finding, Severity};

/// Columns of a line.
const WIDTH: usize = 96;

/// Columns of a label, with the blanks after it.
const INDENT: usize = 11;

/// The whole text.
pub fn print(found: &[Finding], server: Server, verbose: bool) -> String {
    let mut out = String::new();
    for finding in found {
        let severity = finding.severity(server);
        match severity {
            Severity::Warning | Severity::Advice => problem(finding, server, verbose, &mut out),
            Severity::Unknown | Severity::Ok if verbose => passed(finding, severity, &mut out),
            Severity::Unknown | Severity::Ok => {}
        }
    }
    counts(found, server, verbose, &mut out);
    out
}

/// The action, then the reason; with `verbose` also the details.
fn problem(finding: &Finding, server: Server, verbose: bool, out: &mut String) {
    let action = finding.action.as_deref().unwrap_or(&finding.subject);
    let action = match &finding.change {
        Some(change) => format!("{action}: {change}"),
        None => action.to_string(),
    };
    let name = finding.severity(server).name();
    // On one line at any length, so that the command can be copied.
    let _ = writeln!(out, "{name:<INDENT$}{action}");
    let value = finding.value.as_deref().unwrap_or("not known");
    label("", &format!("{}: {value}. {}", finding.subject, finding.why), out);
    if !verbose {
        return;
    }
    if server == Server::Any && finding.weft != finding.redis {
        let (weft, redis) = (finding.weft.name(), finding.redis.name());
        label("for", &format!("Weft: {weft}; Redis and Valkey: {redis}"), out);
    }
    label("check", finding.check, out);
    label("file", &finding.file, out);
    for (name, text) in [("lasting", &finding.lasting), ("to keep", &finding.keep)] {
        if let Some(text) = text {
            label(name, text, out);
        }
    }
    label("see", finding.see, out);
}

/// A check that passed or has no value: its value and the reason of the judgement.
fn passed(finding: &Finding, severity: Severity, out: &mut String) {
    let value = finding.value.as_ref().map(|value| format!(": {value}")).unwrap_or_default();
    let _ = writeln!(out, "{:<INDENT$}{}{value}", severity.name(), finding.subject);
    label("", &finding.why, out);
    if severity == Severity::Unknown {
        label("file", &finding.file, out);
    }
}

/// The last line: the number of findings by severity.
fn counts(found: &[Finding], server: Server, verbose: bool, out: &mut String) {
    let count = |severity| found.iter().filter(|f| f.severity(server) == severity).count();
    let (warnings, advice) = (count(Severity::Warning), count(Severity::Advice));
    if !out.is_empty() {
        out.push('\n');
    }
    let plural = |count: usize, noun: &str| match count {
        0 => format!("no {noun}s"),
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    };
    let problems = match warnings + advice {
        0 => "no problems".to_string(),
        all => {
            format!("{}: {}, {advice} advice", plural(all, "problem"), plural(warnings, "warning"))
        }
    };
    let more = if verbose { "" } else { " (--verbose shows all)" };
    let _ = writeln!(
        out,
        "{problems}; {} checks passed, {} not readable{more}",
        count(Severity::Ok),
        count(Severity::Unknown),
    );
}

/// A label and its text, broken into lines between words.
fn label(name: &str, text: &str, out: &mut String) {
    let mut line = format!("  {name:<width$}", width = INDENT - 2);
    let mut empty = true;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !empty && line.len() + 1 + word.len() > WIDTH {
            let _ = writeln!(out, "{line}");
            line = " ".repeat(INDENT);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    if !empty {
        let _ = writeln!(out, "{line}");
    }
}
