//! The advice for people, as Markdown that is readable in a terminal.

use std::fmt::Write;

use super::ServerAdvice;
use super::laws::{CommandLaw, FitResult, SeriesLaws};
use super::recommend::{Advice, change, describe, percent};
use super::trust::FAR;
use super::usl::Interval;
use crate::report::numbers::{compact, range, rough, significant};

/// The whole text.
pub fn of(found: &[ServerAdvice]) -> String {
    let mut out = String::new();
    for server in found {
        let _ = writeln!(out, "# {} ({})\n", server.server, server.source);
        recommendation(&mut out, &server.advice, server.spread);
        for series in &server.laws {
            laws(&mut out, series);
        }
    }
    out
}

fn recommendation(out: &mut String, advice: &Advice, spread: Option<f64>) {
    let _ = writeln!(out, "{}: {}.", advice.known, describe(&advice.now));
    match &advice.change {
        Some(gain) => {
            let _ = writeln!(out, "**Change to: {}.**", describe(&gain.setting));
            let _ = writeln!(
                out,
                "Requests per second {} over {} commands and loads; {}.",
                percent(gain),
                gain.compared,
                advice.reason
            );
            if gain.client_limited > 0 {
                let _ = writeln!(
                    out,
                    "{} of the runs compared were limited by the generator: with a faster one the \
                     gain may be larger.",
                    gain.client_limited
                );
            }
        }
        None => {
            let _ = writeln!(out, "**No change**: {}.", advice.reason);
        }
    }
    if let Some(spread) = spread {
        let _ = writeln!(
            out,
            "Single runs spread by {} %. Intervals are 95 % for all settings at once.",
            significant(100.0 * spread)
        );
    }
    let rows = advice.gains.iter().map(|gain| {
        let cpu = gain.cpu_factor.map(change);
        vec![
            gain.setting.io_threads.to_string(),
            gain.setting.reads.to_string(),
            gain.setting.placement.clone(),
            percent(gain),
            cpu.unwrap_or("–".into()),
        ]
    });
    let names = ["io-threads", "reads", "placement", "throughput", "CPU per request"];
    table(out, &names.map(String::from), rows.collect());
}

/// The meaning of the columns of a law, a line each.
const SYMBOLS: [&str; 6] = [
    "λ: requests per second of one thread.",
    "σ, contention: the share of the work that threads can do only one after the other; with 0.1 no \
     number of threads is more than 10 times as fast as one.",
    "κ, coherency: what each further thread costs each of the others; more than 0 means that \
     throughput falls in the end.",
    "peak: the number of threads beyond which it falls.",
    "back test: the law of the fewest threads was asked for the most; its largest error.",
    "outside the law: threads with which the measurement is more than 10 % away from it, beyond \
     chance. Something else limits there: CPUs, a second socket, SMT.",
];

fn laws(out: &mut String, series: &SeriesLaws) {
    let _ = writeln!(out, "## {}\n", series.name);
    let fits = || series.laws.iter().filter_map(|law| Some((law, law.fit.as_ref()?)));
    let without = series.laws.iter().filter(|law| law.fit.is_none());
    let without: Vec<&str> = without.map(|law| law.command.as_str()).collect();
    if !without.is_empty() {
        let _ = writeln!(
            out,
            "No law for {}: fewer than three numbers of threads to fit to.",
            without.join(", ")
        );
    }
    if fits().next().is_none() {
        out.push('\n');
        return;
    }
    let names =
        ["command", "λ", "σ", "κ", "peak", "back test", "outside the law"].map(String::from);
    table(out, &names, fits().map(|(law, fit)| law_row(law, fit)).collect());
    for symbol in SYMBOLS {
        let _ = writeln!(out, "* {symbol}");
    }
    out.push('\n');
    points(out, &fits().collect::<Vec<_>>());
    predictions(out, &fits().collect::<Vec<_>>());
    for (law, _) in fits().filter(|(law, _)| !law.client_limited.is_empty()) {
        let _ = writeln!(
            out,
            "{}: runs with {} threads were limited by the generator and left out of the fit.",
            law.command,
            list(&law.client_limited)
        );
    }
}

fn law_row(law: &CommandLaw, fit: &FitResult) -> Vec<String> {
    let outside: Vec<u32> = fit.points.iter().filter(|p| p.outside).map(|p| p.threads).collect();
    // A law that the measurements contradict, or with a large error in the back test, has no
    // meaningful digits.
    let holds = outside.is_empty() && fit.back_test.is_none_or(|test| test.worst <= FAR);
    let between = |value: f64, interval: Option<Interval>| match interval {
        _ if !holds => format!("about {value:.2}"),
        Some((low, high)) => format!("{value:.3} ({low:.3}–{high:.3})"),
        None => format!("{value:.3}"),
    };
    vec![
        law.command.clone(),
        if holds { compact(fit.lambda) } else { rough(fit.lambda) },
        between(fit.sigma, fit.sigma_interval),
        between(fit.kappa, fit.kappa_interval),
        fit.peak.map_or("none".into(), |peak| format!("{peak:.0}")),
        fit.back_test.map_or("–".into(), |test| {
            format!("1–{} → {}: {:.0} %", test.fitted_to, test.asked_to, 100.0 * test.worst)
        }),
        if outside.is_empty() { "–".into() } else { list(&outside) },
    ]
}

/// Predicted over measured for each number of threads; the points of the fit are in brackets.
fn points(out: &mut String, fits: &[(&CommandLaw, &FitResult)]) {
    let mut threads: Vec<u32> =
        fits.iter().flat_map(|(_, fit)| fit.points.iter().map(|p| p.threads)).collect();
    threads.sort_unstable();
    threads.dedup();
    let _ = writeln!(out, "Law against measurement; the points of the fit are in brackets.\n");
    let names = ["command".to_string()].into_iter().chain(threads.iter().map(u32::to_string));
    let rows = fits.iter().map(|(law, fit)| {
        let cell = |threads: &u32| {
            let Some(point) = fit.points.iter().find(|p| p.threads == *threads) else {
                return "–".into();
            };
            let text = change(1.0 + point.error);
            match (point.fitted, point.outside) {
                (true, _) => format!("({text})"),
                (false, true) => format!("{text} outside"),
                (false, false) => text,
            }
        };
        [law.command.clone()].into_iter().chain(threads.iter().map(cell)).collect()
    });
    table(out, &names.collect::<Vec<_>>(), rows.collect());
}

fn predictions(out: &mut String, fits: &[(&CommandLaw, &FitResult)]) {
    let rows = fits.iter().flat_map(|(law, fit)| {
        fit.predictions.iter().map(|prediction| {
            let good = prediction.trust.is_good();
            let interval = prediction.interval.filter(|_| good);
            vec![
                law.command.clone(),
                prediction.threads.to_string(),
                if good {
                    compact(prediction.rps)
                } else {
                    format!("about {}", rough(prediction.rps))
                },
                interval.map_or("–".into(), |(low, high)| range(low, high)),
                prediction.trust.text().into(),
            ]
        })
    });
    let names = ["command", "threads", "predicted", "95 % interval", "trust"].map(String::from);
    table(out, &names, rows.collect());
}

fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// A Markdown table with aligned columns.
fn table(out: &mut String, names: &[String], rows: Vec<Vec<String>>) {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| &row[column]).chain([&names[column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        format!("| {} |", padded.collect::<Vec<_>>().join(" | "))
    };
    let rule: Vec<String> =
        widths.iter().map(|width| format!("{}:", "-".repeat(width + 1))).collect();
    let _ = writeln!(out, "\n{}\n|{}|", line(names), rule.join("|"));
    for row in &rows {
        let _ = writeln!(out, "{}", line(row));
    }
    out.push('\n');
}
