//! The report as one self-contained page: style, script and charts are in it.

mod charts;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart;
use super::machine::{self, State};
use super::markdown::{RATIOS, RATIOS_MEAN, legend, reproduce};
use super::ratio;
use super::summary::{Load, Series, Summary};
use super::tables::{self, Figure, Table};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("sort.js");

/// The whole page: the answer, its reliability, the curves; the rest is folded.
pub fn page(summary: &Summary, title: &str) -> String {
    let loads = summary.loads();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // Otherwise browsers request an icon from the network.
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                (machines(summary))
                @for load in &loads { (load_section(summary, *load)) }
                @for i in 0..summary.sweeps.len() { (host(summary, i)) }
                (failures(summary))
                footer { p { (legend()) } }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

/// Whether the machines were quiet.
fn machines(summary: &Summary) -> Markup {
    html! {
        @for sweep in &summary.sweeps {
            @let account = machine::account(sweep);
            @let class = match account.state {
                State::Quiet => "state quiet",
                State::Disturbed => "state disturbed",
                State::Unknown => "state",
            };
            p { (tables::what(sweep)) }
            p class=(class) {
                @if summary.sweeps.len() > 1 { strong { (sweep.source) ": " } }
                (account.text)
            }
        }
    }
}

fn load_section(summary: &Summary, load: Load) -> Markup {
    let series = summary.series_of(load);
    let commands = summary.commands_of(&series);
    html! {
        section {
            h2 { (load.to_string()) }
            (versus(&series, &commands))
            (figure_section(Figure::Rps, &series, &commands))
            @for figure in Figure::ALL.into_iter().filter(|figure| *figure != Figure::Rps) {
                (figure_section(figure, &series, &commands))
            }
            (folded("Every run", &charts::runs(&series, &commands)))
            (reads(&series, &commands))
            (folded("Quality of the runs", &html! {
                (table(&tables::of_quality(&series)))
                (charts::drift(summary, &series))
            }))
        }
    }
}

/// A section for reference.
fn folded(name: &str, content: &Markup) -> Markup {
    html! { details { summary { (name) } (content) } }
}

/// The answer: servers compared, first in words, then in figures.
fn versus(series: &[&Series], commands: &[&str]) -> Markup {
    let found = ratio::of(series, commands);
    html! {
        @if !found.is_empty() {
            ul class="answer" {
                @for versus in &found { @if let Some(text) = versus.sentence() { li { (text) } } }
            }
            h3 { (RATIOS) }
            p { (RATIOS_MEAN) }
            div class="tables" {
                @for versus in &found { (table(&tables::of_versus(versus, commands))) }
            }
        }
    }
}

/// The letter, shape and colour of each series; repeated near each group of charts, since on a
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

/// Curves, and their tables, folded. The first figure is visible at once.
fn figure_section(figure: Figure, series: &[&Series], commands: &[&str]) -> Markup {
    let found: Vec<Table> = series
        .iter()
        .filter_map(|s| tables::of_figure(figure, s, &s.commands_of(commands)))
        .collect();
    let tables = html! { div class="tables" { @for found in &found { (table(found)) } } };
    let curves = html! {
        // The median would be a second set of similar charts.
        @if figure != Figure::P50 {
            (keys(series))
            (charts::figure(figure, series, commands))
        }
    };
    html! {
        @if !found.is_empty() {
            @if figure == Figure::Rps {
                h3 { (figure.name()) }
                p {
                    "Medians of the runs; the shade reaches from the lowest run to the highest. "
                    "Hollow marks: limited by the load generator. Rings: outliers."
                }
                (curves)
                (folded("The same in numbers", &tables))
            } @else {
                (folded(figure.name(), &html! { (curves) (tables) }))
            }
        }
    }
}

fn reads(series: &[&Series], commands: &[&str]) -> Markup {
    let pairs = tables::reads_pairs(series);
    html! {
        @if !pairs.is_empty() {
            (folded("io-threads-do-reads on against off", &html! {
                (charts::reads(&pairs, commands))
                div class="tables" {
                    @for (off, on) in &pairs {
                        (table(&tables::of_reads(off, on, &off.commands_of(commands))))
                    }
                }
            }))
        }
    }
}

fn table(table: &Table) -> Markup {
    html! {
        div class="table" {
            table {
                @if !table.title.is_empty() || !table.notes.is_empty() {
                    caption {
                        (table.title)
                        @for note in &table.notes { span class="remark" { (note) } }
                    }
                }
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
                                    @if !cell.band.is_empty() { small { (cell.band) } }
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
    let content = html! {
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
    };
    html! {
        section { (folded(&format!("How {} was measured", summary.sweeps[i].source), &content)) }
    }
}

fn failures(summary: &Summary) -> Markup {
    html! {
        @if !summary.failures.is_empty() {
            section {
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
    fn page_is_self_contained() {
        let page = page(&Summary::of(published::sweeps()), "A <title>");
        assert!(page.contains("<title>A &lt;title&gt;</title>"));
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains(">64.5k</td>") && page.contains("data-value=\"64521.81\""));
    }

    /// The texts between these tags, in order.
    fn texts<'a>(page: &'a str, tag: &str) -> Vec<&'a str> {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        let parts = page.split(open.as_str()).skip(1);
        parts.filter_map(|part| part.split(close.as_str()).next()).collect()
    }

    #[test]
    fn no_heading_is_repeated() {
        let page = page(&Summary::of(published::sweeps()), "A title");
        for section in page.split("<section>") {
            let mut names: Vec<&str> =
                ["h1", "h2", "h3", "summary"].iter().flat_map(|tag| texts(section, tag)).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{names:?}");
            for caption in texts(section, "caption") {
                assert!(names.iter().all(|name| !caption.starts_with(name)), "{caption}");
            }
        }
    }

    #[test]
    fn the_machine_is_judged_before_any_figure() {
        let page = page(&Summary::of(published::sweeps()), "A title");
        let state = page.find("class=\"state\"").unwrap();
        assert!(state < page.find("<table").unwrap() && state < page.find("<figure").unwrap());
    }

    #[test]
    fn there_is_a_chart_for_each_command_and_kind() {
        let page = page(&Summary::of(published::sweeps()), "t");
        // Two value sizes: mean, relative, runs, reads; nine commands each.
        assert_eq!(page.matches("<figure>").count(), 2 * 4 * 9);
    }
}
