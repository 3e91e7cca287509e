//! The report as one page that needs nothing else: style, script and charts are in it.

mod charts;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart;
use super::markdown::{legend, reproduce};
use super::summary::{Load, Series, Summary};
use super::tables::{self, Figure, Table};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("sort.js");

/// The whole page.
pub fn page(summary: &Summary, title: &str) -> String {
    let loads = summary.loads();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // browsers ask the network for an icon otherwise
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                (contents(summary, &loads))
                @for (i, load) in loads.iter().enumerate() { (load_section(summary, i, *load)) }
                @for i in 0..summary.sweeps.len() { (host(summary, i)) }
                (failures(summary))
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

fn contents(summary: &Summary, loads: &[Load]) -> Markup {
    html! {
        nav {
            ul {
                @for (i, load) in loads.iter().enumerate() {
                    li { a href=(format!("#load-{i}")) { (load.to_string()) } }
                }
                @for (i, sweep) in summary.sweeps.iter().enumerate() {
                    li { a href=(format!("#sweep-{i}")) { "How " (sweep.source) " was measured" } }
                }
                @if !summary.failures.is_empty() {
                    li { a href="#failures" { (summary.failures.len()) " runs that failed" } }
                }
            }
        }
        p {
            "Charts: a letter at the end of a line names its series; hollow marks are limited by "
            "the client, rings are outliers. Tables: a tap on a column's name sorts by it. "
            (legend())
        }
    }
}

fn load_section(summary: &Summary, i: usize, load: Load) -> Markup {
    let series = summary.beside(load);
    let commands = summary.commands_of(&series);
    html! {
        section id=(format!("load-{i}")) {
            h2 { (load.to_string()) }
            @for figure in Figure::ALL { (figure_section(figure, &series, &commands)) }
            (charts::runs(&series, &commands))
            (reads(&series, &commands))
            h3 { "Quality of the runs" }
            (table(&tables::of_quality(&series)))
            (charts::drift(summary, &series))
        }
    }
}

/// Which letter, shape and colour is which series; repeated near each group of charts, since on a
/// phone the last one is far away.
fn keys(series: &[&Series]) -> Markup {
    html! {
        ul class="keys" {
            @for (style, series) in series.iter().enumerate() {
                li { (chart::key(style)) " " (series.label) }
            }
        }
    }
}

fn figure_section(figure: Figure, series: &[&Series], commands: &[&str]) -> Markup {
    let found: Vec<Table> = series
        .iter()
        .filter_map(|s| tables::of_figure(figure, s, &s.commands_of(commands)))
        .collect();
    html! {
        @if !found.is_empty() {
            h3 { (figure.name()) }
            // the median would be a second set of charts that says the same
            @if figure != Figure::P50 {
                (keys(series))
                (charts::figure(figure, series, commands))
            }
            div class="tables" { @for found in &found { (table(found)) } }
        }
    }
}

fn reads(series: &[&Series], commands: &[&str]) -> Markup {
    let pairs = tables::reads_pairs(series);
    html! {
        @if !pairs.is_empty() {
            h3 { "io-threads-do-reads on against off" }
            p { "Throughput with reads on, in per cent of that with reads off." }
            (charts::reads(&pairs, commands))
            div class="tables" {
                @for (off, on) in &pairs {
                    (table(&tables::of_reads(off, on, &off.commands_of(commands))))
                }
            }
        }
    }
}

fn table(table: &Table) -> Markup {
    html! {
        div class="table" {
            table {
                caption { (table.title) }
                thead {
                    tr {
                        @for column in &table.columns {
                            th scope="col" { button type="button" { (column) } }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for cell in row {
                                td data-value=[cell.value] {
                                    (cell.text)
                                    @if !cell.marks.is_empty() { sup { (cell.marks) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn host(summary: &Summary, i: usize) -> Markup {
    html! {
        section id=(format!("sweep-{i}")) {
            h2 { "How " (summary.sweeps[i].source) " was measured" }
            dl {
                @for (name, value) in tables::of_host(summary, i) {
                    div { dt { (name) } dd { (value) } }
                }
            }
            @for warning in tables::warnings(summary, i) { p class="note" { (warning) } }
            @if let Some(grid) = reproduce(summary, i) {
                p {
                    "To run it again, save this as " code { "grid.toml" } " and run "
                    code { "weft-tune sweep --grid grid.toml --output results.jsonl" } ":"
                }
                pre { (grid) }
            }
        }
    }
}

fn failures(summary: &Summary) -> Markup {
    html! {
        @if !summary.failures.is_empty() {
            section id="failures" {
                h2 { "Runs that failed" }
                @for failure in &summary.failures {
                    p { strong { (failure.cell) } ": " (failure.reason) }
                    @if !failure.log.is_empty() { pre { (failure.log.join("\n")) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::published;

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = page(&Summary::of(published::sweeps()), "A <title>");
        assert!(page.contains("<title>A &lt;title&gt;</title>"));
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains(">64,521.81</td>") && page.contains("data-value=\"64521.81\""));
    }

    #[test]
    fn there_is_a_chart_for_each_command_and_kind() {
        let page = page(&Summary::of(published::sweeps()), "t");
        // two value sizes: mean, relative, runs, reads; nine commands each
        assert_eq!(page.matches("<figure>").count(), 2 * 4 * 9);
    }
}
