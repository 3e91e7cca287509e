//! `docs/metrics.md`, made from the table.

use crate::table::{self, Kind, Metric, Source};
use std::fmt::Write;

const INTRODUCTION: &str = include_str!("docs.md");

/// The page.
pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (title, metrics) in table::sections() {
        let _ = write!(
            page,
            "\n### {title}\n\n| metric | type, unit | meaning | from |\n|---|---|---|---|\n"
        );
        metrics.iter().for_each(|metric| row(metric, &mut page));
    }
    page
}

fn row(metric: &Metric, page: &mut String) {
    let labels = match metric.labels {
        [] => String::new(),
        labels => format!(" {{{}}}", labels.join(", ")),
    };
    let kind = match metric.kind {
        Kind::Unknown => "counter",
        kind => kind.word(),
    };
    let unit = metric.unit().map_or(String::new(), |(_, word)| format!(", {word}"));
    let from = match metric.source {
        Source::Field(field, _) | Source::Word(field, _) => format!("`{field}`"),
        Source::Function(from, _) => from.to_owned(),
    };
    let (name, help) = (metric.name, metric.help);
    let _ = writeln!(page, "| `{name}`{labels} | {kind}{unit} | {help} | {from} |");
}
