//! The line that shows how far a run is: on a terminal only, in place, gone at the end.

use std::io::{IsTerminal, Write};

use crate::options::{Options, Output};
use crate::run::Moment;

/// The line, or nothing where nobody looks.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    printed: usize,
}

impl Progress {
    /// Shown when standard output is a terminal, and for people.
    pub fn new(options: &Options) -> Progress {
        let for_people = matches!(options.output, Output::Full | Output::Quiet);
        Progress { shown: for_people && std::io::stdout().is_terminal(), printed: 0 }
    }

    /// Shows a moment of a test.
    pub fn show(&mut self, title: &str, moment: &Moment) {
        if self.shown {
            let line = line(title, moment);
            let blank = " ".repeat(self.printed.saturating_sub(line.chars().count()));
            self.printed = line.chars().count();
            print!("{line}{blank}\r");
            // a terminal that went away ends nothing
            let _ = std::io::stdout().flush();
        }
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if self.printed > 0 {
            print!("{}\r", " ".repeat(self.printed));
            let _ = std::io::stdout().flush();
            self.printed = 0;
        }
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
    use std::time::Duration;

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
