//! The progress line of a run: on a terminal only, updated in place, removed at the end.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use crate::options::{Options, Output};
use crate::run::Moment;

/// The line; empty if the output is not a terminal.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    printed: usize,
}

impl Progress {
    /// Enabled if standard output is a terminal, and the format is for people.
    pub fn new(options: &Options) -> Progress {
        let for_people = matches!(options.output, Output::Table | Output::Full | Output::Quiet);
        Progress { shown: for_people && std::io::stdout().is_terminal(), printed: 0 }
    }

    /// Shows a moment of a test.
    pub fn show(&mut self, title: &str, moment: &Moment) {
        if self.shown {
            let line = line(title, moment);
            let blank = " ".repeat(self.printed.saturating_sub(line.chars().count()));
            self.printed = line.chars().count();
            print!("{line}{blank}\r");
            // A closed terminal doesn't end the run.
            let _ = std::io::stdout().flush();
        }
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        if self.printed > 0 {
            print!("{}\r", " ".repeat(self.printed));
            let _ = std::io::stdout().flush();
            self.printed = 0;
        }
    }
}

/// The progress of a comparison: the line shows it instead of the test's name.
#[derive(Clone, Debug)]
pub struct ComparisonProgress<'a> {
    /// Title of the test.
    pub test: &'a str,
    /// Name of the server that runs now.
    pub server: &'a str,
    /// From 1, and the number of rounds.
    pub round: (u32, u32),
    /// Finished runs, remaining runs including this one, and the time of the finished ones.
    pub runs: (u32, u32, Duration),
    /// Seconds that a run should take, if known before the first one ends.
    pub each: Option<f64>,
}

impl ComparisonProgress<'_> {
    /// The progress as text.
    pub fn text(&self) -> String {
        let (done, left, took) = self.runs;
        let each = match done {
            0 => self.each,
            done => Some(took.as_secs_f64() / f64::from(done)),
        };
        let left = each.map_or(String::new(), |each| {
            let seconds = (each * f64::from(left)).round() as u64;
            format!(", {}:{:02} left", seconds / 60, seconds % 60)
        });
        let (round, of) = self.round;
        format!("{}, {}, round {round} of {of}{left}", self.test, self.server)
    }
}

fn line(title: &str, moment: &Moment) -> String {
    let rate = |replies: u64, seconds: f64| replies as f64 / seconds.max(1e-9);
    let recent = moment.recent.all();
    let replies = moment.total.replies() + recent.len();
    let ms = |q| recent.value_at_quantile(q) as f64 / 1e6;
    let warming = if moment.warming_up { "Warming up " } else { "" };
    format!(
        "{warming}{title}: rps={:.1} (overall: {:.1}) p50={:.3} p99={:.3} max={:.3} msec {:.1} \
         seconds, {replies} requests",
        rate(recent.len(), moment.lasted.as_secs_f64()),
        rate(replies, moment.since.as_secs_f64()),
        ms(0.5),
        ms(0.99),
        ms(1.0),
        moment.since.as_secs_f64(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Tally;

    #[test]
    fn comparison_shows_its_progress() {
        let mut standing = ComparisonProgress {
            test: "GET",
            server: "weft 1 at h:1",
            round: (3, 10),
            runs: (4, 16, Duration::from_secs(20)),
            each: None,
        };
        assert_eq!(standing.text(), "GET, weft 1 at h:1, round 3 of 10, 1:20 left");
        standing.runs = (0, 20, Duration::ZERO);
        assert_eq!(standing.text(), "GET, weft 1 at h:1, round 3 of 10");
        standing.each = Some(0.5);
        assert_eq!(standing.text(), "GET, weft 1 at h:1, round 3 of 10, 0:10 left");
    }

    #[test]
    fn a_moment_has_rates_and_percentiles() {
        let (mut recent, mut total) = (Tally::new(1, 3), Tally::new(1, 3));
        recent.latencies[0].record_n(1_000_000, 500).unwrap();
        total.latencies[0].record_n(1_000_000, 100).unwrap();
        let moment = Moment {
            recent: &recent,
            lasted: Duration::from_millis(250),
            total: &total,
            since: Duration::from_secs(2),
            warming_up: true,
        };
        let line = line("GET", &moment);
        assert!(
            line.starts_with("Warming up GET: rps=2000.0 (overall: 300.0) p50=1.000"),
            "{line}"
        );
        assert!(line.ends_with("2.0 seconds, 600 requests"), "{line}");
    }
}
