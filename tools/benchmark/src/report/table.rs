//! The default format: one table with a row for each test, printed as tests end.
//!
//! Tests are known before the first one runs, so the column of names has its final width from the
//! header on. A mix has a row for each of its commands below its own.

use super::lines::{NONE, other_notices};
use crate::options::{Amount, Options};
use crate::result::{GeneratorUse, Latency, TestResult};
use crate::session::Session;
use crate::suite::Test;

/// Longest name that is printed whole; a custom command may be much longer.
const LONGEST: usize = 36;

/// The columns of figures, with their widths. CPU is that of the server.
const COLUMNS: [(&str, usize); 7] = [
    ("requests/s", 12),
    ("avg ms", 9),
    ("p50 ms", 9),
    ("p99 ms", 9),
    ("p99.9 ms", 9),
    ("max ms", 9),
    ("CPU us/req", 11),
];

/// The table of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Width of the column of names.
    name: usize,
    /// Whether a last column names the server.
    versus: bool,
}

impl Table {
    /// A table for these tests.
    pub fn new(tests: &[Test], versus: bool) -> Table {
        let kinds = |test: &Test| match test.kinds.len() {
            0 | 1 => Vec::new(),
            _ => test.kinds.iter().map(|kind| kind.name.chars().count() + 2).collect(),
        };
        let names = tests.iter().flat_map(|test| {
            std::iter::once(test.title.chars().count()).chain(kinds(test)).collect::<Vec<_>>()
        });
        Table { name: names.max().unwrap_or(0).clamp("test".len(), LONGEST), versus }
    }

    /// The lines before the first row: the load, then the names of the columns.
    pub fn head(&self, session: &Session, options: &Options) -> String {
        let mut columns = format!("{:<name$}", "test", name = self.name);
        for (column, width) in COLUMNS {
            columns.push_str(&format!(" {column:>width$}"));
        }
        if self.versus {
            columns.push_str("  server");
        }
        format!("{}\n\n{columns}", load(session, options))
    }

    /// The rows of a test.
    pub fn rows(&self, result: &TestResult, server: Option<&str>) -> String {
        let cpu = result.server_cpu.as_ref().map(|used| used.user_us + used.system_us);
        let mut out = self.row(&result.test, Some(result.rps), result.latency_ms, cpu, server);
        if result.commands.len() > 1 {
            for command in &result.commands {
                let rps = (result.seconds > 0.0).then(|| command.requests as f64 / result.seconds);
                let name = format!("  {}", command.command);
                out.push('\n');
                out.push_str(&self.row(&name, rps, command.latency_ms, None, server));
            }
        }
        out
    }

    fn row(
        &self,
        name: &str,
        rps: Option<f64>,
        latency: Option<Latency>,
        cpu: Option<f64>,
        server: Option<&str>,
    ) -> String {
        let name = match name.char_indices().nth(self.name) {
            Some(_) => {
                let cut: String = name.chars().take(self.name - 3).collect();
                format!("{cut}...")
            }
            None => name.to_string(),
        };
        let mut row = format!("{name:<width$}", width = self.name);
        let l = latency.unwrap_or(NONE);
        let figures = [rps, Some(l.avg), Some(l.p50), Some(l.p99), Some(l.p999), Some(l.max), cpu];
        for (at, ((_, width), figure)) in COLUMNS.iter().zip(figures).enumerate() {
            let is_latency = (1..=5).contains(&at);
            let shown = match figure.filter(|_| !is_latency || latency.is_some()) {
                Some(rps) if at == 0 => format!("{rps:.0}"),
                Some(figure) => format!("{figure:.3}"),
                None => "-".to_string(),
            };
            row.push_str(&format!(" {shown:>width$}"));
        }
        if let Some(server) = server {
            row.push_str(&format!("  {server}"));
        }
        row
    }
}

/// Remarks on the tests of a table, for standard error after it. One line names all tests that the
/// generator limited, because a fast server has many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    client_limited: Vec<String>,
    others: Vec<String>,
}

impl Remarks {
    /// Adds those of a test.
    pub fn add(&mut self, result: &TestResult, server: Option<&str>) {
        let name = match server {
            Some(server) => format!("{} at {server}", result.test),
            None => result.test.clone(),
        };
        let other = other_notices(result).into_iter().map(|notice| format!("{name}: {notice}"));
        self.others.extend(other);
        if result.generator.client_limited {
            self.client_limited.push(name);
        }
    }

    /// The lines.
    pub fn lines(&self) -> Vec<String> {
        let limited = (!self.client_limited.is_empty()).then(|| {
            format!(
                "client-limited: a generator thread was busy for more than {:.0} % of the time; \
                 the rate is the generator's, not the server's, in: {}",
                GeneratorUse::LIMIT * 100.0,
                self.client_limited.join(", ")
            )
        });
        limited.into_iter().chain(self.others.clone()).collect()
    }
}

/// The server and the load, in a line.
fn load(session: &Session, options: &Options) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut facts =
        vec![count(options.clients, "client"), format!("pipeline {}", options.pipeline)];
    facts.push(match options.amount {
        Amount::Requests(1) => "1 request".to_string(),
        Amount::Requests(n) => format!("{n} requests"),
        Amount::Time(time) => format!("{} s", time.as_secs_f64()),
    });
    facts.push(match options.rate {
        Some(rate) => format!("open loop of {rate:.0} requests/s"),
        None => "closed loop".to_string(),
    });
    if !options.keepalive {
        facts.push("a connection for each request".to_string());
    }
    facts.push(count(session.threads.min(options.clients), "generator thread"));
    let name = match options.versus {
        Some(_) => String::new(),
        None => format!("{}: ", session.name()),
    };
    format!("{name}{}; --full prints more", facts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parse;
    use crate::result::{CommandResult, Loop, ServerUse};
    use crate::suite::Suite;

    fn result(test: &str) -> TestResult {
        let latency =
            Latency { min: 0.1, avg: 0.25, p50: 0.2, p95: 0.5, p99: 0.75, p999: 1.5, max: 12.25 };
        TestResult {
            test: test.to_string(),
            server: "h:1".to_string(),
            server_version: None,
            requests: 1000,
            seconds: 0.5,
            rps: 2000.4,
            load: Loop::Closed,
            target_rps: None,
            unsent: 0,
            latency_ms: Some(latency),
            commands: Vec::new(),
            server_cpu: Some(ServerUse { user_us: 1.0, system_us: 2.5, source: "info" }),
            generator: GeneratorUse { busy: vec![0.5], client_limited: false, cpu_us: 1.0 },
            errors: std::collections::BTreeMap::new(),
            redirected: 0,
        }
    }

    fn table(line: &str) -> Table {
        let options = parse(line.split_whitespace().map(Into::into)).unwrap();
        let suite = Suite::new(&options);
        let tests = match &options.mix {
            Some(mix) => vec![suite.mix(mix).unwrap()],
            None if options.command.is_empty() => suite.selected(),
            None => vec![suite.custom(&options.command).unwrap()],
        };
        Table::new(&tests, options.versus.is_some())
    }

    #[test]
    fn row_holds_each_figure_below_its_column() {
        let rows = table("-t get,set").rows(&result("GET"), None);
        assert_eq!(
            rows,
            "GET          2000     0.250     0.200     0.750     1.500    12.250       3.500"
        );
        let unknown = TestResult { server_cpu: None, latency_ms: None, ..result("GET") };
        assert_eq!(
            table("-t get").rows(&unknown, None),
            "GET          2000         -         -         -         -         -           -"
        );
    }

    #[test]
    fn versus_names_the_server_in_the_last_column() {
        let rows = table("-t get --vs h:2").rows(&result("GET"), Some("weft 1 (h:1)"));
        assert!(rows.ends_with("  weft 1 (h:1)"), "{rows}");
    }

    #[test]
    fn mix_has_a_row_for_each_command() {
        let command = |name: &str, requests| CommandResult {
            command: name.to_string(),
            requests,
            latency_ms: result("").latency_ms,
        };
        let commands = vec![command("GET", 800), command("SET", 200)];
        let mix = TestResult { commands, ..result("mix") };
        let rows = table("--mix GET:8,SET:2").rows(&mix, None);
        let lines: Vec<&str> = rows.lines().collect();
        assert_eq!(lines.len(), 3, "{rows}");
        assert!(lines[1].starts_with("  GET") && lines[1].contains(" 1600 "), "{rows}");
        assert!(lines[2].starts_with("  SET") && lines[2].ends_with(" -"), "{rows}");
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{rows}");
    }

    #[test]
    fn remarks_name_limited_tests_in_one_line() {
        let mut remarks = Remarks::default();
        assert!(remarks.lines().is_empty());
        for test in ["GET", "SET"] {
            let mut limited = result(test);
            limited.generator.client_limited = true;
            limited.redirected = 3;
            remarks.add(&limited, None);
        }
        remarks.add(&result("INCR"), None);
        let lines = remarks.lines();
        assert!(lines[0].starts_with("client-limited: ") && lines[0].ends_with("in: GET, SET"));
        assert_eq!(
            lines[1..],
            ["GET: 3 requests were redirected", "SET: 3 requests were redirected"]
        );
    }

    #[test]
    fn long_name_is_cut_to_the_column() {
        let long = "lpush ".repeat(20);
        let rows = table(&long).rows(&result(&long), None);
        assert_eq!(rows.find("... "), Some(LONGEST - 3), "{rows}");
        assert_eq!(rows.lines().count(), 1);
    }
}
