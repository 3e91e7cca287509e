//! What a call does, from the first connection to the last line.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::compare;
use crate::connect::Transport;
use crate::fuzz;
use crate::hdrlog::{HdrLog, Parts};
use crate::idle;
use crate::options::{Amount, Options, Output};
use crate::report::{self, Progress};
use crate::result::{Comparison, Document, FORMAT, Settings, TestResult};
use crate::run::{self, Moment, Outcome};
use crate::session::Session;
use crate::suite::{Suite, Test};
use crate::tally::histogram;

/// How long an interval of the histogram log is.
const HDR_INTERVAL: Duration = Duration::from_secs(1);

/// Runs everything that was asked for.
///
/// # Errors
/// With what ended it early.
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
        introduce(session, options.output);
    }
    for warning in &options.warnings {
        eprintln!("{warning}");
    }
    if options.idle {
        return idle::wait(&mut session, &options, &suite);
    }
    if options.output == Output::Csv {
        say(report::CSV_HEADER);
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
        log: log.transpose()?,
        results: Vec::new(),
        comparisons: Vec::new(),
        began: since_epoch(),
    };
    loop {
        let ended = call.round(&tests, &mut session, second.as_mut());
        call.progress.clear();
        if options.output == Output::Json {
            call.print_document(&session, ended.as_ref().err());
        } else if ended.is_ok() && options.command.is_empty() && options.output != Output::Csv {
            say("");
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
    let (tests, unknown) = suite.selected();
    for name in unknown {
        eprintln!("WARNING: there is no test {name:?}");
    }
    Ok(tests)
}

/// Prints the nodes of a cluster, and warns of what is not known.
fn introduce(session: &Session, output: Output) {
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

/// Prints a line at once, so that who reads along sees it. Ends the program when nobody does.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

fn since_epoch() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// One call, with what it found so far.
struct Call<'a> {
    options: &'a Options,
    suite: &'a Suite<'a>,
    progress: Progress,
    log: Option<HdrLog<'a>>,
    results: Vec<TestResult>,
    comparisons: Vec<Comparison>,
    began: f64,
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
        match second {
            None => {
                for test in tests {
                    let outcome = self.test(test, session, 1)?;
                    self.publish(test, session, &outcome);
                }
            }
            Some(second) => {
                if self.options.preload {
                    self.preload(second)?;
                }
                for test in tests {
                    self.versus(test, session, second)?;
                }
            }
        }
        Ok(())
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

    /// One run of a test, with a share of what was asked for.
    fn test(&mut self, test: &Test, session: &mut Session, share: u32) -> Result<Outcome, String> {
        session.prepare(test)?;
        let plan = Arc::new(session.plan(self.options, self.suite, test.clone(), share));
        let streams = session.connect(&plan, self.options.clients)?;
        let (progress, log) = (&mut self.progress, &mut self.log);
        let mut second = histogram(self.options.precision);
        let mut lasted = Duration::ZERO;
        let outcome = run::run(&plan, streams, session.cpu.as_mut(), &mut |moment: &Moment| {
            progress.show(&test.title, moment);
            let Some(log) = log else { return Ok(()) };
            if moment.warming_up {
                return Ok(());
            }
            // can't fail: all histograms of a call have the same bounds
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
        first: &mut Session,
        second: &mut Session,
    ) -> Result<(), String> {
        let rounds = self.options.rounds;
        let mut pairs: Vec<[Outcome; 2]> = Vec::new();
        for round in 0..rounds {
            let pair = if compare::turned(round) {
                let b = self.test(test, second, rounds)?;
                [self.test(test, first, rounds)?, b]
            } else {
                let a = self.test(test, first, rounds)?;
                [a, self.test(test, second, rounds)?]
            };
            pairs.push(pair);
        }
        let ratio = |figure: &dyn Fn(&Outcome) -> Option<f64>| {
            let figures = pairs.iter().map(|[a, b]| figure(a).zip(figure(b)));
            compare::ratio(&figures.collect::<Option<Vec<_>>>()?, self.options.confidence)
        };
        let rps = ratio(&|outcome| Some(outcome.rps()));
        let server_cpu = ratio(&|outcome| {
            let used = outcome.server_cpu?;
            Some((used.user_us + used.system_us) / outcome.total.replies().max(1) as f64)
        });
        let rps = rps.ok_or("--vs: a round had no requests")?;
        for (which, session) in [&*first, &*second].into_iter().enumerate() {
            let mut sum = pairs[0][which].clone();
            pairs[1..].iter().for_each(|pair| sum.add(&pair[which]));
            self.publish(test, session, &sum);
        }
        let comparison = Comparison {
            test: test.title.clone(),
            first: first.target.to_string(),
            second: second.target.to_string(),
            rounds,
            confidence: self.options.confidence,
            rps,
            server_cpu,
        };
        match self.options.output {
            Output::Json => {}
            Output::Csv => eprint!("{}", report::versus(&comparison)),
            Output::Full | Output::Quiet => say(report::versus(&comparison).trim_end()),
        }
        self.comparisons.push(comparison);
        Ok(())
    }

    /// Prints the result of a test, and keeps it for the document.
    fn publish(&mut self, test: &Test, session: &Session, outcome: &Outcome) {
        self.progress.clear();
        let result = report::result(test, session, self.options, outcome);
        match self.options.output {
            Output::Full => {
                let text = report::full(test, session, self.options, outcome, &result);
                say(text.trim_end_matches('\n'));
            }
            Output::Quiet => say(&report::quiet(&result)),
            Output::Csv => say(&report::csv(&result)),
            Output::Json => {}
        }
        if self.options.output != Output::Full {
            for notice in report::notices(&result) {
                eprintln!("{}: {notice}", result.test);
            }
        }
        self.results.push(result);
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
            error: error.cloned(),
        };
        match serde_json::to_string(&document) {
            Ok(text) => say(&text),
            Err(e) => eprintln!("the result can't be written as JSON: {e}"),
        }
    }
}
