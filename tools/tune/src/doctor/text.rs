//! The text for people: what is wrong at length, what is right in one line each.

use std::fmt::Write;

use super::Server;
use super::finding::{Finding, Severity};

/// Columns of a line.
const WIDTH: usize = 96;

/// What labels take, the blanks behind them included.
const INDENT: usize = 11;

/// The whole text.
pub fn print(found: &[Finding], server: Server) -> String {
    let mut out = String::new();
    for finding in found {
        write_finding(finding, server, &mut out);
    }
    let count = |severity| found.iter().filter(|f| f.severity(server) == severity).count();
    let _ = writeln!(
        out,
        "\nwarnings: {}, advice: {}, not readable or not known: {}, ok: {}",
        count(Severity::Warning),
        count(Severity::Advice),
        count(Severity::Unknown),
        count(Severity::Ok),
    );
    out
}

fn write_finding(finding: &Finding, server: Server, out: &mut String) {
    let severity = finding.severity(server);
    let value = match &finding.value {
        Some(value) => format!(": {value}"),
        None => String::new(),
    };
    let _ = writeln!(out, "{:<INDENT$}{}{value}", severity.name(), finding.subject);
    // What is in order is said in one line, with its reason where there is one to give.
    label("", &finding.why, out);
    if severity == Severity::Ok {
        return;
    }
    if server == Server::Any && finding.weft != finding.redis {
        let (weft, redis) = (finding.weft.name(), finding.redis.name());
        label("for", &format!("Weft: {weft}; Redis and Valkey: {redis}"), out);
    }
    label("file", &finding.file, out);
    for (name, text) in
        [("change", &finding.change), ("lasting", &finding.lasting), ("to keep", &finding.keep)]
    {
        if let Some(text) = text {
            label(name, text, out);
        }
    }
    label("see", finding.see, out);
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
