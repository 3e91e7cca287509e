//! The progress of a sweep, and its remaining time.
//!
//! On a terminal a bar, else a line for each cell. The remaining time is computed from the sweep's
//! cells so far, including those recorded by earlier calls; before the first it is a guess.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};

use crate::report::numbers::grouped;
use crate::results::grid::{Grid, Span};
use crate::results::{Cell, Key, Outcome};

/// Seconds of a cell in addition to its load: starting the server, storing elements, reading INFO.
const OVERHEAD: f64 = 0.7;
/// Requests per second for the guess.
const RATE: f64 = 100_000.0;

/// The progress of a running sweep.
pub struct Progress {
    bar: ProgressBar,
    /// Whether to print lines.
    lines: bool,
    done: usize,
    left: usize,
    failed: usize,
    /// Cells with a known duration, and their seconds.
    known: (f64, f64),
    guess: f64,
    now: String,
}

impl Progress {
    /// For a sweep with these recorded cells.
    pub fn new(grid: &Grid, recorded: &[Cell], left: &[Key], quiet: bool) -> Self {
        let failed = recorded.iter().filter(|cell| cell.measured().is_none());
        let failed = failed.filter(|cell| !left.contains(&cell.key)).count();
        let left = left.len();
        let terminal = io::stderr().is_terminal();
        let done = grid.cells().len() - left;
        let bar = if quiet || !terminal {
            ProgressBar::hidden()
        } else {
            ProgressBar::new((done + left) as u64).with_position(done as u64)
        };
        if let Ok(style) = ProgressStyle::with_template("{bar:20} {pos}/{len} {msg}") {
            bar.set_style(style);
        }
        let times = recorded.iter().filter_map(|cell| cell.took);
        let known = times.fold((0.0, 0.0), |(count, sum), took| (count + 1.0, sum + took));
        let progress = Self {
            bar,
            lines: !quiet && !terminal,
            done,
            left,
            failed,
            known,
            guess: guess(grid),
            now: String::new(),
        };
        if done > 0 && !quiet {
            eprintln!("continuing: {done} cells are recorded, {left} are left");
        }
        progress
    }

    /// A cell begins.
    pub fn begin(&mut self, key: &Key) {
        self.now = format!(
            "{} io-threads {} reads {} {} B {} c{} P{} #{}",
            key.server,
            key.io_threads,
            key.reads,
            key.data_bytes,
            key.command,
            key.clients,
            key.pipeline,
            key.repeat
        );
        self.bar.set_message(format!("{} left; {}", self.time_left(), self.now));
        self.bar.tick();
    }

    /// A cell is recorded.
    pub fn end(&mut self, cell: &Cell) {
        self.done += 1;
        self.left -= 1;
        if let Some(took) = cell.took {
            self.known = (self.known.0 + 1.0, self.known.1 + took);
        }
        let result = match &cell.outcome {
            Outcome::Measured(measured) => {
                let limited = if measured.client_limited() { ", client-limited" } else { "" };
                format!("{} requests per second{limited}", grouped(measured.rps))
            }
            Outcome::Failed { reason, .. } => {
                self.failed += 1;
                format!("FAILED: {reason}")
            }
        };
        let line = format!("{}: {result}", self.now);
        if matches!(cell.outcome, Outcome::Failed { .. }) {
            self.bar.println(&line);
        }
        self.bar.inc(1);
        if self.lines {
            eprintln!("{}/{} {line}; {} left", self.done, self.done + self.left, self.time_left());
        }
    }

    /// Cells in the file.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Cells in the file that have failed.
    pub fn failed(&self) -> usize {
        self.failed
    }

    fn time_left(&self) -> String {
        let each = if self.known.0 > 0.0 { self.known.1 / self.known.0 } else { self.guess };
        time(each * self.left as f64)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Seconds that a cell will take, before any has run.
pub fn guess(grid: &Grid) -> f64 {
    let span = |span: Span| match span {
        Span::Requests(n) => n as f64 / RATE,
        Span::Seconds(s) => s,
    };
    OVERHEAD + span(grid.warmup) + span(grid.measure)
}

/// A time for people.
pub fn time(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        0 | 1 => format!("{seconds:.0} s"),
        2..=119 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_fitting_units() {
        assert_eq!(
            (time(7.4), time(80.0), time(600.0), time(8000.0)),
            ("7 s".into(), "80 s".into(), "10 min".into(), "2 h 13 min".into())
        );
    }

    #[test]
    fn a_guess_counts_all_parts_of_a_cell() {
        let grid = Grid {
            warmup: Span::Requests(100_000),
            measure: Span::Seconds(2.0),
            ..Grid::default()
        };
        assert!((guess(&grid) - 3.7).abs() < 1e-9);
    }
}
