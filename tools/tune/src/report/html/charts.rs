//! Which charts a page shows: one for each command and kind of figure.

use maud::{Markup, html};

use crate::report::chart::{Chart, Dot, Line, draw};
use crate::report::summary::{Point, Run, Series, Summary};
use crate::report::tables::{Figure, reads_ratio, reads_title};

/// A figure by threads, a chart for each command.
pub fn figure(figure: Figure, series: &[&Series], commands: &[&str]) -> Markup {
    let lines = |command: &str| {
        let line = |(style, series): (usize, &&Series)| Line {
            style,
            name: series.label.clone(),
            joined: true,
            dots: dots_of(figure, series, command),
        };
        series.iter().enumerate().map(line).collect()
    };
    let reference = (figure == Figure::Relative).then_some(100.0);
    small_multiples(commands, |command| Chart {
        title: format!("{command}: {}", lowered(figure.name())),
        y_name: figure.name().into(),
        from_zero: true,
        reference,
        ..by_threads(series, lines(command))
    })
}

/// With a small first letter; abbreviations behind it stay.
fn lowered(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map(|c| c.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

fn dots_of(figure: Figure, series: &Series, command: &str) -> Vec<Dot> {
    series
        .of(command)
        .filter_map(|(threads, point)| {
            let y = figure.of(series, threads, command)?;
            Some(Dot {
                x: f64::from(threads),
                y,
                text: format!("{}, io-threads {threads}: {}", series.label, figure.text(y)),
                outlier: point.has_outlier(),
                limited: point.is_client_limited(),
                small: false,
            })
        })
        .collect()
}

/// Every run as a mark of its own.
pub fn runs(series: &[&Series], commands: &[&str]) -> Markup {
    let threads = all_threads(series);
    // Each number of threads has a lane for every series, so that marks do not hide each other.
    let lane = |rank: usize, style: usize| {
        let share = (style as f64 + 0.5) / series.len() as f64 - 0.5;
        threads_at(&threads, rank) + share * 0.7 * least_gap(&threads)
    };
    let lines = |command: &str| -> Vec<Line> {
        let line = |(style, series): (usize, &&Series)| Line {
            style,
            name: series.label.clone(),
            joined: false,
            dots: threads
                .iter()
                .enumerate()
                .filter_map(|(rank, &threads)| {
                    Some((rank, threads, series.point(threads, command)?))
                })
                .flat_map(|(rank, threads, point)| {
                    point.runs.iter().map(move |run| (rank, threads, run))
                })
                .map(|(rank, threads, run)| run_dot(series, threads, run, lane(rank, style)))
                .collect(),
        };
        series.iter().enumerate().map(line).collect()
    };
    html! {
        h3 { "Every run" }
        p { "Requests per second. The axis does not begin at 0; each series has a lane of its own." }
        (super::keys(series))
        (small_multiples(commands, |command| Chart {
            title: format!("{command}: every run"),
            y_name: "Requests per second".into(),
            ..by_threads(series, lines(command))
        }))
    }
}

fn run_dot(series: &Series, threads: u32, run: &Run, x: f64) -> Dot {
    Dot {
        x,
        y: run.measured.rps,
        text: format!(
            "{}, io-threads {threads}, run {}: {}",
            series.label,
            run.repeat,
            Figure::Mean.text(run.measured.rps)
        ),
        outlier: run.outlier,
        limited: run.client_limited,
        small: true,
    }
}

/// Reads on in per cent of reads off.
pub fn reads(pairs: &[(&Series, &Series)], commands: &[&str]) -> Markup {
    let all: Vec<&Series> = pairs.iter().map(|(off, _)| *off).collect();
    let lines = |command: &str| {
        let line = |(style, (off, on)): (usize, &(&Series, &Series))| Line {
            style,
            name: reads_title(on),
            joined: true,
            dots: off
                .threads()
                .into_iter()
                .filter_map(|threads| {
                    let y = reads_ratio(off, on, threads, command)?;
                    let text = format!("{}, io-threads {threads}: {y:.1} %", on.server);
                    Some(Dot { x: f64::from(threads), y, text, ..Dot::default() })
                })
                .collect(),
        };
        pairs.iter().enumerate().map(line).collect()
    };
    html! {
        ul class="keys" {
            @for (style, (off, _)) in pairs.iter().enumerate() {
                li { (crate::report::chart::key(style)) " " (off.server) " @ " (off.placement) }
            }
        }
        (small_multiples(commands, |command| Chart {
            title: format!("{command}: reads on, % of reads off"),
            y_name: "Per cent".into(),
            reference: Some(100.0),
            ..by_threads(&all, lines(command))
        }))
    }
}

/// Each run against the mean of its point, in the order of time: a machine that grows slower or
/// a neighbour that wakes up shows here. Only for sweeps that know their times.
pub fn drift(summary: &Summary, series: &[&Series]) -> Markup {
    let timed = |sweep: usize| {
        let dots = |style: usize, series: &Series| Line {
            style,
            name: series.label.clone(),
            joined: false,
            dots: series
                .points
                .iter()
                .flat_map(|((threads, command), point)| {
                    drift_dots(series, *threads, command, point)
                })
                .collect(),
        };
        let own = series.iter().enumerate().filter(|(_, series)| series.sweep == sweep);
        own.map(|(style, series)| dots(style, series)).collect::<Vec<Line>>()
    };
    let sweeps: Vec<usize> = (0..summary.sweeps.len())
        .filter(|&sweep| timed(sweep).iter().any(|line| !line.dots.is_empty()))
        .collect();
    html! {
        @if !sweeps.is_empty() {
            h3 { "Runs in the order of time" }
            p {
                "Each run in per cent of the mean of its repeats, by minutes since the start. A "
                "machine that slows down or a neighbour that wakes up shows here."
            }
            (super::keys(series))
            div class="charts" {
                @for sweep in sweeps {
                    (draw(&Chart {
                        title: format!("{}: runs by time", summary.sweeps[sweep].source),
                        x_name: "minutes".into(),
                        y_name: "Per cent of the mean".into(),
                        reference: Some(100.0),
                        x_ticks: minutes(&timed(sweep)),
                        from_zero: false,
                        lines: timed(sweep),
                    }))
                }
            }
        }
    }
}

fn drift_dots(series: &Series, threads: u32, command: &str, point: &Point) -> Vec<Dot> {
    let Some(mean) = point.mean().filter(|_| point.runs.len() > 1) else { return Vec::new() };
    let dot = |run: &Run| {
        let y = 100.0 * run.measured.rps / mean;
        Some(Dot {
            x: run.at? / 60.0,
            y,
            text: format!(
                "{}, io-threads {threads}, {command}, run {}: {y:.1} %",
                series.label, run.repeat
            ),
            outlier: run.outlier,
            limited: run.client_limited,
            small: true,
        })
    };
    point.runs.iter().filter_map(dot).collect()
}

/// About five round times.
fn minutes(lines: &[Line]) -> Vec<f64> {
    let last = lines.iter().flat_map(|line| &line.dots).map(|dot| dot.x).fold(0.0, f64::max);
    let rough = last / 5.0;
    let steps = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 240.0, 480.0, 1440.0];
    let step = steps.into_iter().find(|step| *step >= rough).unwrap_or(1440.0);
    (0..=(last / step).ceil() as u32).map(|i| f64::from(i) * step).collect()
}

fn small_multiples(commands: &[&str], chart: impl Fn(&str) -> Chart) -> Markup {
    html! {
        div class="charts" {
            @for command in commands { (draw(&chart(command))) }
        }
    }
}

/// A chart with the threads of these series below it.
fn by_threads(series: &[&Series], lines: Vec<Line>) -> Chart {
    let threads = all_threads(series);
    Chart { x_name: "io-threads".into(), x_ticks: thinned(&threads), lines, ..Chart::default() }
}

fn all_threads(series: &[&Series]) -> Vec<u32> {
    let mut threads: Vec<u32> = series.iter().flat_map(|series| series.threads()).collect();
    threads.sort_unstable();
    threads.dedup();
    threads
}

fn threads_at(threads: &[u32], rank: usize) -> f64 {
    f64::from(threads[rank])
}

fn least_gap(threads: &[u32]) -> f64 {
    let gaps = threads.windows(2).map(|pair| pair[1] - pair[0]);
    f64::from(gaps.min().unwrap_or(1))
}

/// So many ticks that their numbers do not touch.
fn thinned(threads: &[u32]) -> Vec<f64> {
    let last = threads.last().copied().unwrap_or(1);
    let room = (last / 14).max(1);
    let mut kept: Vec<u32> = Vec::new();
    for &threads in threads {
        if kept.last().is_none_or(|last| threads - last >= room) {
            kept.push(threads);
        }
    }
    kept.into_iter().map(f64::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_do_not_touch() {
        assert_eq!(thinned(&[1, 2, 4]), [1.0, 2.0, 4.0]);
        assert_eq!(thinned(&[1, 2, 3, 4, 8, 16, 32, 64]), [1.0, 8.0, 16.0, 32.0, 64.0]);
        assert!(thinned(&[]).is_empty());
    }

    #[test]
    fn times_are_round() {
        let line = |x: f64| Line {
            style: 0,
            name: String::new(),
            joined: false,
            dots: vec![Dot { x, ..Dot::default() }],
        };
        assert_eq!(minutes(&[line(9.0)]), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(minutes(&[]), [0.0]);
    }
}
