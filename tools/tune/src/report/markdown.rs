//! The report as Markdown: the tables, the hosts, the marks and their meaning.

use std::fmt::Write;

use super::machine;
use super::ratio;
use super::summary::{OUTLIER_RULE, Summary};
use super::tables::{self, FAILED, Figure, LIMITED, OUTLIER, Table};
use crate::results::model::CLIENT_LIMIT;

/// The heading of the table of the servers' ratios.
pub const RATIOS: &str = "Servers compared";
/// The meaning of that table.
pub const RATIOS_MEAN: &str = "Requests per second of the one server divided by those of the other, \
    with the 95 % interval that the spread of repeated runs leaves; more than 1 is in favour of the \
    first. In the last column less than 1 is.";

/// The whole report.
pub fn text(summary: &Summary, title: &str) -> String {
    let mut out = format!("# {title}\n\n");
    for sweep in &summary.sweeps {
        let source = if summary.sweeps.len() > 1 { &format!("{}: ", sweep.source) } else { "" };
        let _ =
            writeln!(out, "{source}{}\n\n{}\n", tables::what(sweep), machine::account(sweep).text);
    }
    let _ = writeln!(out, "{}", legend());
    for load in summary.loads() {
        let series = summary.series_of(load);
        let commands = summary.commands_of(&series);
        section(&mut out, 2, &load.to_string());
        let versus = ratio::of(&series, &commands);
        for sentence in versus.iter().filter_map(ratio::Versus::sentence) {
            let _ = writeln!(out, "{sentence}\n");
        }
        if !versus.is_empty() {
            section(&mut out, 3, RATIOS);
            let _ = writeln!(out, "{RATIOS_MEAN}\n");
            versus.iter().for_each(|versus| table(&mut out, &tables::of_versus(versus, &commands)));
        }
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
        section(&mut out, 3, "Quality of the runs");
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

/// The meaning of the marks.
pub fn legend() -> String {
    format!(
        "Figures are medians of runs, followed by the band from the lowest run to the highest. \
         {OUTLIER} holds an outlier. {LIMITED} limited by the client: a thread of the generator \
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
    if !table.title.is_empty() {
        let _ = writeln!(out, "**{}**\n", escape(&table.title));
    }
    for note in &table.notes {
        let _ = writeln!(out, "{}\n", escape(note));
    }
    let _ = writeln!(out, "| {} |", table.columns.join(" | "));
    let _ = writeln!(out, "|{}", "---:|".repeat(table.columns.len()));
    for row in &table.rows {
        let cells: Vec<String> = row
            .iter()
            .map(|cell| {
                let band = if cell.band.is_empty() { "" } else { &format!(" ({})", cell.band) };
                let marks = if cell.marks.is_empty() { "" } else { &format!(" {}", cell.marks) };
                format!("{}{band}{marks}", escape(&cell.text))
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
        assert!(text.contains("\n| 1 | 64.5k | 62.8k |"), "{text}");
        assert!(text.contains("\n| 8 | 274 | 255 |"), "{text}");
        assert!(text.contains("It was not recorded whether the machine was quiet"), "{text}");
        assert!(!text.contains("CPU per request") && !text.contains("grid.toml"));
    }
}
