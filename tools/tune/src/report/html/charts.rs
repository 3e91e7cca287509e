//! The charts of a page: one for each command and kind of figure.

use maud::{Markup, html};

use crate::report::chart::{Chart, Dot, Line, draw, tick};
use crate::report::summary::{Point, Run, Series, Summary};
use crate::report::tables::{Figure, reads_ratio};
use crate::results::Threads;

/// A figure by threads, a chart for each command.
pub fn figure(figure: Figure, series: &[&Series], commands: &[&str]) -> Markup {
    let threads = all_threads(series);
    let lines = |command: &str| -> Vec<Line> {
        let line = |(style, series): (usize, &&Series)| -> [Line; 2] {
            // A server's own choice is not a step between numbers of threads.
            let dots = dots_of(figure, series, command, &threads);
            let (auto, counted) =
                dots.into_iter().partition(|(threads, _)| *threads == Threads::Auto);
            let of = |joined, dots: Vec<(Threads, Dot)>| Line {
                style,
                name: series.label.clone(),
                joined,
                dots: dots.into_iter().map(|(_, dot)| dot).collect(),
            };
            [of(true, counted), of(false, auto)]
        };
        series.iter().enumerate().flat_map(line).collect()
    };
    let reference = (figure == Figure::Relative).then_some(100.0);
    small_multiples(commands, |command| Chart {
        title: command.to_string(),
        y_name: figure.name().into(),
        from_zero: true,
        reference,
        ..by_threads(&threads, lines(command))
    })
}

fn dots_of(figure: Figure, series: &Series, command: &str, all: &[Threads]) -> Vec<(Threads, Dot)> {
    series
        .of(command)
        .filter_map(|(threads, point)| {
            let y = figure.of(series, threads, command)?;
            let dot = Dot {
                x: place(threads, all),
                y,
                band: figure.band(series, threads, command),
                text: format!("{}, io-threads {threads}: {}", series.label, figure.text(y)),
                outlier: point.has_outlier(),
                limited: point.is_client_limited(),
                small: false,
            };
            Some((threads, dot))
        })
        .collect()
}

/// Every run as a separate mark.
pub fn runs(series: &[&Series], commands: &[&str]) -> Markup {
    let threads = all_threads(series);
    // Each number of threads has a column for every series, so that marks don't hide each other.
    let lane = |rank: usize, style: usize| {
        let share = (style as f64 + 0.5) / series.len() as f64 - 0.5;
        place(threads[rank], &threads) + share * 0.7 * least_gap(&threads)
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
        (super::keys(series))
        (small_multiples(commands, |command| Chart {
            title: command.to_string(),
            y_name: "Requests per second".into(),
            x_name: "io-threads, with a column for each series".into(),
            ..by_threads(&threads, lines(command))
        }))
    }
}

fn run_dot(series: &Series, threads: Threads, run: &Run, x: f64) -> Dot {
    Dot {
        x,
        y: run.measured.rps,
        text: format!(
            "{}, io-threads {threads}, run {}: {}",
            series.label,
            run.repeat,
            Figure::Rps.text(run.measured.rps)
        ),
        outlier: run.outlier,
        limited: run.client_limited,
        small: true,
        band: None,
    }
}

/// Reads on, in percent of reads off.
pub fn reads(pairs: &[(&Series, &Series)], commands: &[&str]) -> Markup {
    let off: Vec<&Series> = pairs.iter().map(|(off, _)| *off).collect();
    let all = all_threads(&off);
    let lines = |command: &str| {
        let line = |(style, (off, on)): (usize, &(&Series, &Series))| Line {
            style,
            name: on.label.clone(),
            joined: true,
            dots: off
                .threads()
                .into_iter()
                .filter_map(|threads| {
                    let y = reads_ratio(off, on, threads, command)?;
                    let text = format!("{}, io-threads {threads}: {y:.0} %", on.server);
                    Some(Dot { x: place(threads, &all), y, text, ..Dot::default() })
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
            title: command.to_string(),
            y_name: "Reads on, % of reads off".into(),
            reference: Some(100.0),
            ..by_threads(&all, lines(command))
        }))
    }
}

/// Each run relative to the mean of its point, in the order of time: this shows a machine that
/// slows down, or a neighbour that becomes busy. Only for sweeps that recorded their times.
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
            p {
                "Each run compared with the mean of its repeats, in the order of time. A machine that "
                "slows down or a neighbour that wakes up shows here."
            }
            div class="charts" {
                @for sweep in sweeps {
                    (draw(&Chart {
                        title: summary.sweeps[sweep].source.clone(),
                        x_name: "minutes since the start".into(),
                        y_name: "% of the mean of the repeats".into(),
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

fn drift_dots(series: &Series, threads: Threads, command: &str, point: &Point) -> Vec<Dot> {
    let Some(mean) = point.mean().filter(|_| point.runs.len() > 1) else { return Vec::new() };
    let dot = |run: &Run| {
        let y = 100.0 * run.measured.rps / mean;
        Some(Dot {
            x: run.at? / 60.0,
            y,
            text: format!(
                "{}, io-threads {threads}, {command}, run {}: {y:.0} %",
                series.label, run.repeat
            ),
            outlier: run.outlier,
            limited: run.client_limited,
            small: true,
            band: None,
        })
    };
    point.runs.iter().filter_map(dot).collect()
}

/// About five round times.
fn minutes(lines: &[Line]) -> Vec<(f64, String)> {
    let last = lines.iter().flat_map(|line| &line.dots).map(|dot| dot.x).fold(0.0, f64::max);
    let rough = last / 5.0;
    let steps = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 240.0, 480.0, 1440.0];
    let step = steps.into_iter().find(|step| *step >= rough).unwrap_or(1440.0);
    let times = (0..=(last / step).ceil() as u32).map(|i| f64::from(i) * step);
    times.map(|time| (time, tick(time))).collect()
}

fn small_multiples(commands: &[&str], chart: impl Fn(&str) -> Chart) -> Markup {
    html! {
        div class="charts" {
            @for command in commands { (draw(&chart(command))) }
        }
    }
}

/// A chart with these numbers of threads below it.
fn by_threads(threads: &[Threads], lines: Vec<Line>) -> Chart {
    Chart { x_name: "io-threads".into(), x_ticks: ticks(threads), lines, ..Chart::default() }
}

fn all_threads(series: &[&Series]) -> Vec<Threads> {
    let mut threads: Vec<Threads> = series.iter().flat_map(|series| series.threads()).collect();
    threads.sort_unstable();
    threads.dedup();
    threads
}

fn largest(threads: &[Threads]) -> u32 {
    threads.iter().filter_map(|threads| threads.count()).max().unwrap_or(1)
}

/// The position of a number of threads; the server's own choice comes last.
fn place(threads: Threads, all: &[Threads]) -> f64 {
    match threads {
        Threads::Count(count) => f64::from(count),
        Threads::Auto => f64::from(largest(all)) * 1.1 + 1.0,
    }
}

fn least_gap(threads: &[Threads]) -> f64 {
    let places = threads.iter().map(|one| place(*one, threads)).collect::<Vec<f64>>();
    places.windows(2).map(|pair| pair[1] - pair[0]).reduce(f64::min).unwrap_or(1.0)
}

/// As many ticks as fit without touching texts.
fn ticks(threads: &[Threads]) -> Vec<(f64, String)> {
    let room = f64::from((largest(threads) / 14).max(1));
    let mut kept: Vec<(f64, String)> = Vec::new();
    for threads_here in threads {
        let at = place(*threads_here, threads);
        if kept.last().is_none_or(|(last, _)| at - last >= room) {
            kept.push((at, threads_here.to_string()));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_do_not_touch() {
        let of = |counts: &[u32], auto: bool| {
            let mut threads: Vec<Threads> = counts.iter().copied().map(Threads::Count).collect();
            threads.extend(auto.then_some(Threads::Auto));
            ticks(&threads).into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(&[1, 2, 4], true), "1 2 4 auto");
        assert_eq!(of(&[1, 2, 3, 4, 8, 16, 32, 64], true), "1 8 16 32 64 auto");
        assert_eq!(of(&[], false), "");
    }

    #[test]
    fn times_are_round() {
        let line = |x: f64| Line {
            style: 0,
            name: String::new(),
            joined: false,
            dots: vec![Dot { x, ..Dot::default() }],
        };
        let of = |lines: &[Line]| minutes(lines).into_iter().map(|tick| tick.0).collect::<Vec<_>>();
        assert_eq!(of(&[line(9.0)]), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(of(&[]), [0.0]);
    }
}
