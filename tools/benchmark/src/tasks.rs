//! A whole call, from the first connection to the last line.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::compare;
use crate::connect::Transport;
use crate::fuzz;
use crate::hdrlog::{HdrLog, Parts};
use crate::idle;
use crate::options::{Amount, Options, Output};
use crate::report::{self, ComparisonProgress, Progress, Remarks, Table};
use crate::result::{Comparison, Document, FORMAT, Settings, Skipped, TestResult};
use crate::run::{self, Moment, Outcome};
use crate::session::Session;
use crate::suite::{Suite, Test};
use crate::tally::histogram;

/// The length of an interval of the histogram log.
const HDR_INTERVAL: Duration = Duration::from_secs(1);

/// Runs all requested tests.
///
/// # Errors
/// With the reason for an early end.
pub fn all(mut options: Options) -> Result<(), String> {
    if options.stdin && !options.command.is_empty() {
        let mut last = Vec::new();
        std::io::stdin()
            .read_to_end(&mut last)
            .map_err(|e| format!("Could not read standard input: {e}"))?;
        options.command.push(last);
    }
    let suite = Suite::new(&options);
    let tests = tests(&suite, &options)?;
    let transport = Transport::new(&options)?;
    let open = |target| Session::open(target, &options, &transport);
    let mut session = open(&options.target)?;
    let mut second = options.versus.as_ref().map(open).transpose()?;
    for session in [Some(&session), second.as_ref()].into_iter().flatten() {
        print_nodes(session, options.output);
    }
    for warning in &options.warnings {
        eprintln!("{warning}");
    }
    if options.idle {
        return idle::wait(&mut session, &options, &suite);
    }
    if options.output == Output::Csv {
        say(&report::csv_header(options.versus.is_some()));
    }
    if let Some(fuzz) = &options.fuzz {
        return fuzz::run(&session, &options, fuzz);
    }
    let mut parts = Parts::default();
    let log = options.hdr.as_ref().map(|path| {
        HdrLog::create(path, &mut parts).map_err(|e| format!("{}: {e}", path.display()))
    });
    let mut call = Call {
        options: &options,
        suite: &suite,
        progress: Progress::new(&options),
        table: Table::new(&tests, options.versus.is_some()),
        remarks: Remarks::default(),
        log: log.transpose()?,
        results: Vec::new(),
        comparisons: Vec::new(),
        skipped: Vec::new(),
        began: since_epoch(),
    };
    if options.output == Output::Table {
        say(&call.table.head(&session, &options));
    }
    loop {
        let ended = call.round(&tests, &mut session, second.as_mut());
        let ended = ended.and_then(|()| call.has_measured());
        call.progress.clear();
        match options.output {
            Output::Json => call.print_document(&session, ended.as_ref().err()),
            Output::Table => call.end_table(),
            Output::Full | Output::Quiet if ended.is_ok() && options.command.is_empty() => say(""),
            Output::Full | Output::Quiet | Output::Csv => {}
        }
        ended?;
        if !options.repeat {
            return Ok(());
        }
    }
}

fn tests(suite: &Suite, options: &Options) -> Result<Vec<Test>, String> {
    if !options.command.is_empty() {
        return Ok(vec![suite.custom(&options.command)?]);
    }
    if let Some(mix) = &options.mix {
        return Ok(vec![suite.mix(mix)?]);
    }
    Ok(suite.selected())
}

/// Prints the nodes of a cluster, and warns of unknown configurations.
fn print_nodes(session: &Session, output: Output) {
    if let Some(cluster) = &session.cluster
        && output != Output::Json
    {
        let nodes = cluster.nodes();
        say(&format!("Cluster has {} {} nodes:\n", nodes.len(), cluster.roles()));
        for (i, node) in nodes.iter().enumerate() {
            let role = if node.is_primary { "Primary" } else { "Replica" };
            say(&format!("Node {i}({role}): {} {}", node.name, node.target));
        }
        say("");
    }
    for (config, name) in session.config.iter().zip(&session.names) {
        match (config, &session.cluster) {
            (Some(_), _) => {}
            (None, None) => eprintln!("WARNING: Could not fetch server CONFIG"),
            (None, Some(_)) => eprintln!("WARNING: Could not fetch node CONFIG {name}"),
        }
    }
}

/// Prints and flushes a line, so that a reader sees it now. Ends the program when the pipe is
/// closed.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

fn since_epoch() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// One call and its results so far.
struct Call<'a> {
    options: &'a Options,
    suite: &'a Suite<'a>,
    progress: Progress,
    table: Table,
    /// The remarks of the table, printed after it.
    remarks: Remarks,
    log: Option<HdrLog<'a>>,
    results: Vec<TestResult>,
    comparisons: Vec<Comparison>,
    skipped: Vec<Skipped>,
    began: f64,
}

/// A comparison of two servers so far.
struct Versus {
    names: [String; 2],
    began: Instant,
    /// Finished runs, and all runs.
    runs: (u32, u32),
    /// Requests per second of both, for each test and round; the same for the CPU per request,
    /// which may be unknown.
    rps: Vec<Vec<(f64, f64)>>,
    cpu: Vec<Option<Vec<(f64, f64)>>>,
}

impl Call<'_> {
    /// Runs all tests once.
    fn round(
        &mut self,
        tests: &[Test],
        session: &mut Session,
        second: Option<&mut Session>,
    ) -> Result<(), String> {
        if self.options.preload {
            self.preload(session)?;
        }
        let Some(second) = second else {
            for test in tests {
                if self.lacks(test, &[session]) {
                    continue;
                }
                match self.test(test, &test.title, session, 1) {
                    Ok(outcome) => self.publish(test, session, &outcome),
                    Err(error) => self.skip_or_end(test, &session.name(), error)?,
                }
            }
            return Ok(());
        };
        if self.options.preload {
            self.preload(second)?;
        }
        let mut versus = Versus {
            names: [session.name(), second.name()],
            began: Instant::now(),
            runs: (0, 2 * self.options.rounds * tests.len() as u32),
            rps: Vec::new(),
            cpu: Vec::new(),
        };
        for test in tests {
            let skipped = self.lacks(test, &[session, second]);
            let ended = match skipped {
                true => Ok(()),
                false => self.versus(test, &mut versus, session, second),
            };
            if let Err(error) = ended {
                self.skip_or_end(test, &versus.names.join(" or "), error)?;
            }
            let left = tests.iter().skip_while(|other| other.title != test.title).skip(1).count();
            versus.runs.1 = versus.runs.0 + 2 * self.options.rounds * left as u32;
        }
        self.compare_all(&versus)
    }

    /// Whether the tests are the whole suite instead of the user's choice.
    fn is_whole_suite(&self) -> bool {
        let options = self.options;
        options.tests.is_none() && options.mix.is_none() && options.command.is_empty()
    }

    /// Whether a server lacks a command of a test of the whole suite; such a test is noted.
    fn lacks(&mut self, test: &Test, sessions: &[&mut Session]) -> bool {
        if !self.is_whole_suite() {
            return false;
        }
        let lacking =
            sessions.iter().find_map(|session| Some((session.name(), session.lacks(test)?)));
        let Some((server, command)) = lacking else { return false };
        self.skip(test, &server, format!("does not know the command {command}"));
        true
    }

    /// Errors that are counted (`--keep-going`) don't end a run. A run with errors only has
    /// measured nothing.
    fn has_measured(&self) -> Result<(), String> {
        let idle = self.results.iter().find(|r| r.latency_ms.is_none() && !r.errors.is_empty());
        idle.map_or(Ok(()), |result| {
            let errors: Vec<&str> = result.errors.keys().map(String::as_str).collect();
            Err(format!("{}: only errors: {}", result.test, errors.join(", ")))
        })
    }

    /// Skips a test that the server refuses while it runs, or ends the call.
    fn skip_or_end(&mut self, test: &Test, server: &str, error: String) -> Result<(), String> {
        let lacking = ["unknown command", "not supported by this version"];
        if !self.is_whole_suite() || !lacking.iter().any(|words| error.contains(words)) {
            return Err(error);
        }
        self.skip(test, server, format!("can't do it: {error}"));
        Ok(())
    }

    fn skip(&mut self, test: &Test, server: &str, reason: String) {
        self.progress.clear();
        eprintln!("{}: skipped: {server} {reason}", test.title);
        let (test, server) = (test.title.clone(), server.to_string());
        self.skipped.push(Skipped { test, server, reason });
    }

    fn preload(&mut self, session: &mut Session) -> Result<(), String> {
        let plan = Arc::new(session.preload_plan(self.options, self.suite));
        let streams = session.connect(&plan, self.options.clients)?;
        let progress = &mut self.progress;
        run::run(&plan, streams, None, &mut |moment: &Moment| {
            progress.show("preload", moment);
            Ok(())
        })
        .map(|_| ())
    }

    /// One run of a test, with a share of its requests or its time.
    fn test(
        &mut self,
        test: &Test,
        shown_as: &str,
        session: &mut Session,
        share: u32,
    ) -> Result<Outcome, String> {
        session.prepare(test)?;
        let plan = Arc::new(session.plan(self.options, self.suite, test.clone(), share));
        let streams = session.connect(&plan, self.options.clients)?;
        let (progress, log) = (&mut self.progress, &mut self.log);
        let mut second = histogram(self.options.precision);
        let mut lasted = Duration::ZERO;
        let outcome = run::run(&plan, streams, session.cpu.as_mut(), &mut |moment: &Moment| {
            progress.show(shown_as, moment);
            let Some(log) = log else { return Ok(()) };
            if moment.warming_up {
                return Ok(());
            }
            // Can't fail: all histograms of a call have the same bounds.
            let _ = second.add(moment.recent.all());
            lasted += moment.lasted;
            if lasted >= HDR_INTERVAL {
                log.write(&test.title, &second, lasted).map_err(|e| format!("{e:#}"))?;
                second.reset();
                lasted = Duration::ZERO;
            }
            Ok(())
        });
        if let Some(log) = log
            && !second.is_empty()
        {
            log.write(&test.title, &second, lasted).map_err(|e| format!("{e:#}"))?;
        }
        outcome
    }

    fn versus(
        &mut self,
        test: &Test,
        versus: &mut Versus,
        first: &mut Session,
        second: &mut Session,
    ) -> Result<(), String> {
        let rounds = self.options.rounds;
        let mut pairs: Vec<[Outcome; 2]> = Vec::new();
        for round in 0..rounds {
            let mut run = |which: usize, session: &mut Session| {
                let shown_as = self.standing(test, versus, which, round);
                let outcome = self.test(test, &shown_as, session, rounds)?;
                versus.runs.0 += 1;
                Ok::<Outcome, String>(outcome)
            };
            let pair = if compare::is_reversed(round) {
                let b = run(1, second)?;
                [run(0, first)?, b]
            } else {
                let a = run(0, first)?;
                [a, run(1, second)?]
            };
            pairs.push(pair);
        }
        let figures = |figure: &dyn Fn(&Outcome) -> Option<f64>| {
            pairs.iter().map(|[a, b]| figure(a).zip(figure(b))).collect::<Option<Vec<_>>>()
        };
        let rps = figures(&|outcome| Some(outcome.rps())).unwrap_or_default();
        let cpu = figures(&|outcome| {
            let used = outcome.server_cpu?;
            Some((used.user_us + used.system_us) / outcome.total.replies().max(1) as f64)
        });
        for (which, session) in [&*first, &*second].into_iter().enumerate() {
            let mut sum = pairs[0][which].clone();
            pairs[1..].iter().for_each(|pair| sum.add(&pair[which]));
            self.publish(test, session, &sum);
        }
        self.compare(&test.title, &versus.names, &rps, cpu.as_deref())?;
        versus.rps.push(rps);
        versus.cpu.push(cpu);
        Ok(())
    }

    /// The text of the progress line during a round.
    fn standing(&self, test: &Test, versus: &Versus, which: usize, round: u32) -> String {
        let (done, all) = versus.runs;
        let each = match self.options.amount {
            Amount::Requests(_) => None,
            Amount::Time(time) => {
                Some((time / self.options.rounds + self.options.warmup).as_secs_f64())
            }
        };
        let standing = ComparisonProgress {
            test: &test.title,
            server: &versus.names[which],
            round: (round + 1, self.options.rounds),
            runs: (done, all.saturating_sub(done), versus.began.elapsed()),
            each,
        };
        standing.text()
    }

    /// Compares all tests together, if there are several.
    fn compare_all(&mut self, versus: &Versus) -> Result<(), String> {
        if versus.rps.len() < 2 {
            return Ok(());
        }
        let Some(rps) = compare::over_all(&versus.rps) else { return Ok(()) };
        let cpu: Option<Vec<_>> = versus.cpu.iter().cloned().collect();
        let cpu = cpu.and_then(|tests| compare::over_all(&tests));
        let title = format!("all {} tests", versus.rps.len());
        self.compare(&title, &versus.names, &rps, cpu.as_deref())
    }

    /// Compares, prints the sentence, and stores it for the document.
    fn compare(
        &mut self,
        title: &str,
        names: &[String; 2],
        rps: &[(f64, f64)],
        cpu: Option<&[(f64, f64)]>,
    ) -> Result<(), String> {
        let confidence = self.options.confidence;
        let comparison = Comparison {
            test: title.to_string(),
            first: names[0].clone(),
            second: names[1].clone(),
            rounds: rps.len() as u32,
            confidence,
            rps: compare::ratio(rps, confidence).ok_or("--vs: a round had no requests")?,
            server_cpu: cpu.and_then(|pairs| compare::ratio(pairs, confidence)),
        };
        match self.options.output {
            // The table is printed first.
            Output::Json | Output::Table => {}
            Output::Csv => eprint!("{}", report::versus(&comparison)),
            Output::Full | Output::Quiet => say(report::versus(&comparison).trim_end()),
        }
        self.comparisons.push(comparison);
        Ok(())
    }

    /// Prints the result of a test, and stores it for the document.
    fn publish(&mut self, test: &Test, session: &Session, outcome: &Outcome) {
        self.progress.clear();
        let result = report::result(test, session, self.options, outcome);
        let name = self.options.versus.as_ref().map(|_| session.name());
        match self.options.output {
            Output::Table => {
                say(&self.table.rows(&result, name.as_deref()));
                self.remarks.add(&result, name.as_deref());
            }
            Output::Full => {
                let text = report::full(test, session, self.options, outcome, &result);
                say(text.trim_end_matches('\n'));
            }
            Output::Quiet => say(&report::quiet(&result, name.as_deref())),
            Output::Csv => say(&report::csv(&result, name.as_deref())),
            Output::Json => {}
        }
        if !matches!(self.options.output, Output::Table | Output::Full) {
            let at = name.map(|name| format!(" at {name}")).unwrap_or_default();
            for notice in report::notices(&result) {
                eprintln!("{}{at}: {notice}", result.test);
            }
        }
        self.results.push(result);
    }

    /// Prints the sentences of `--vs` and the remarks after the table.
    fn end_table(&mut self) {
        for (at, comparison) in std::mem::take(&mut self.comparisons).iter().enumerate() {
            let first = if at == 0 { "\n" } else { "" };
            say(&format!("{first}{}", report::versus(comparison).trim_end()));
        }
        for remark in std::mem::take(&mut self.remarks).lines() {
            eprintln!("{remark}");
        }
    }

    fn print_document(&mut self, session: &Session, error: Option<&String>) {
        let options = self.options;
        let (requests, duration_s) = match options.amount {
            Amount::Requests(n) => (Some(n), None),
            Amount::Time(time) => (None, Some(time.as_secs_f64())),
        };
        let sizes = options.sizes.steps();
        let document = Document {
            format: FORMAT,
            tool: format!("weft-benchmark {}", env!("CARGO_PKG_VERSION")),
            started: self.began,
            settings: Settings {
                server: options.target.to_string(),
                versus: options.versus.as_ref().map(ToString::to_string),
                clients: options.clients,
                pipeline: options.pipeline,
                threads: session.threads,
                requests,
                duration_s,
                warmup_s: options.warmup.as_secs_f64(),
                keep_alive: options.keepalive,
                resp: if options.resp3 { 3 } else { 2 },
                cluster: options.cluster.is_some(),
                tls: options.tls.is_some(),
                db: options.db,
                keyspace: options.keyspace,
                keys: options.keys.to_string(),
                data_bytes: sizes.iter().sum::<usize>() / sizes.len().max(1),
                verify: options.verify,
                seed: options.seed,
            },
            tests: std::mem::take(&mut self.results),
            comparisons: std::mem::take(&mut self.comparisons),
            skipped: std::mem::take(&mut self.skipped),
            error: error.cloned(),
        };
        match serde_json::to_string(&document) {
            Ok(text) => say(&text),
            Err(e) => eprintln!("the result can't be written as JSON: {e}"),
        }
    }
}
