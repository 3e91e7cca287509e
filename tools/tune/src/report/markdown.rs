//! The report as Markdown: the tables, the hosts, the marks and what they mean.

use std::fmt::Write;

use super::summary::{OUTLIER_RULE, Summary};
use super::tables::{self, FAILED, Figure, LIMITED, OUTLIER, Table};
use crate::results::model::CLIENT_LIMIT;

/// The whole report.
pub fn text(summary: &Summary, title: &str) -> String {
    let mut out = format!("# {title}\n\n{}\n", legend());
    for load in summary.loads() {
        let series = summary.beside(load);
        let commands = summary.commands_of(&series);
        section(&mut out, 2, &load.to_string());
        for figure in Figure::ALL {
            let found: Vec<Table> = series
                .iter()
                .filter_map(|s| tables::of_figure(figure, s, &s.commands_of(&commands)))
                .collect();
            if !found.is_empty() {
                section(&mut out, 3, figure.name());
                found.iter().for_each(|found| table(&mut out, found));
            }
        }
        let pairs = tables::reads_pairs(&series);
        if !pairs.is_empty() {
            section(&mut out, 3, "io-threads-do-reads on against off, %");
            for (off, on) in pairs {
                table(&mut out, &tables::of_reads(off, on, &off.commands_of(&commands)));
            }
        }
        section(&mut out, 3, "Runs");
        table(&mut out, &tables::of_quality(&series));
    }
    for i in 0..summary.sweeps.len() {
        host(&mut out, summary, i);
    }
    if !summary.failures.is_empty() {
        section(&mut out, 2, "Runs that failed");
        for failure in &summary.failures {
            let _ = writeln!(out, "* {}: {}", failure.cell, failure.reason);
            for line in &failure.log {
                let _ = writeln!(out, "  `{}`", line.replace('`', "'"));
            }
        }
    }
    out
}

/// What the marks mean.
pub fn legend() -> String {
    format!(
        "{OUTLIER} holds an outlier. {LIMITED} limited by the client: a thread of the generator \
         was busy {:.0} % or more, so the server may be faster. {FAILED} holds a run that failed. \
         {OUTLIER_RULE}",
        100.0 * CLIENT_LIMIT
    )
}

fn section(out: &mut String, depth: usize, name: &str) {
    let _ = writeln!(out, "\n{} {name}\n", "#".repeat(depth));
}

fn table(out: &mut String, table: &Table) {
    let escape = |text: &str| text.replace('|', "\\|");
    let _ = writeln!(out, "**{}**\n", escape(&table.title));
    let _ = writeln!(out, "| {} |", table.columns.join(" | "));
    let _ = writeln!(out, "|{}", "---:|".repeat(table.columns.len()));
    for row in &table.rows {
        let cells: Vec<String> = row
            .iter()
            .map(|cell| match cell.marks.as_str() {
                "" => escape(&cell.text),
                marks => format!("{} {marks}", escape(&cell.text)),
            })
            .collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out.push('\n');
}

fn host(out: &mut String, summary: &Summary, i: usize) {
    let sweep = &summary.sweeps[i];
    section(out, 2, &format!("How {} was measured", sweep.source));
    for (name, value) in tables::of_host(summary, i) {
        let _ = writeln!(out, "* {name}: {value}");
    }
    for warning in tables::warnings(summary, i) {
        let _ = writeln!(out, "* **Note:** {warning}");
    }
    if let Some(grid) = reproduce(summary, i) {
        let _ = writeln!(
            out,
            "\nTo run it again, save this as `grid.toml` and run \
             `weft-tune sweep --grid grid.toml --output results.jsonl`:\n\n```toml\n{grid}```"
        );
    }
}

/// The grid of a sweep as TOML; none for sweeps that this program did not run.
pub fn reproduce(summary: &Summary, i: usize) -> Option<String> {
    let header = &summary.sweeps[i].header;
    if header.created == 0 {
        return None;
    }
    toml::to_string(&header.grid).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::published;

    #[test]
    fn the_published_sweep_as_markdown() {
        let text = text(&Summary::of(published::sweeps()), "A title");
        assert!(text.starts_with("# A title\n"));
        assert!(text.contains("\n| 1 | 64,521.81 | 62,825.44 |"), "{text}");
        assert!(text.contains("\n| 8 | 273.6 | 254.6 |"), "{text}");
        assert!(!text.contains("CPU per request") && !text.contains("grid.toml"));
    }
}
