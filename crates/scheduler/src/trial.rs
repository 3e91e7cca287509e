//! Whether another number of threads serves more: it is tried and measured.
//!
//! A high pressure shows that the threads have no idle time, not that more of them would serve
//! more. Clients may be the bottleneck, or the CPUs may be taken. So each new number of threads
//! is on trial: for some tenths of a second before and after the change, requests and CPU time
//! are counted.
//!
//! ```text
//!        steady ──── more may pay ────► settle ──► measure ──► it pays: stay
//!          ▲                                         │
//!          └──────── back to the number before ◄─────┘ it does not: remember that
//! ```
//!
//! The results bound further trials: *floor* threads are too few, *ceiling* threads are no better
//! than fewer. Between the two the search is binary, and no number outside of them is tried until
//! the load changes, or until the results expire: after 4 s, 8 s, 16 s and so on, and after 4 s
//! again if a result turns out to be wrong; four times as long after a difference too large for a
//! disturbance. So a steady load reaches the best number within about a second on a machine with
//! few CPUs. Afterwards trials cost about a hundredth of the throughput, and a wrong measurement
//! lasts only until the next trial.
//!
//! A load that changes during a trial ends it without a result. If the machine is busy with
//! something else for half a second, the measurement is wrong and could stay in use for long. So
//! suspicious results are measured again: more requests for more CPU time each may mean that the
//! base was too low, fewer requests for the same CPU time that the trial was.

use std::collections::VecDeque;

/// The time after a change that is not measured, and the time that is: at least, and where the
/// difference is unclear (milliseconds).
const SETTLE_MS: i64 = 200;
const MEASURE_MS: i64 = 200;
const MEASURE_LONG_MS: i64 = 500;
/// Within these bounds the gain of more threads is unclear.
const UNCLEAR: std::ops::Range<f64> = 0.95..1.15;
/// The maximum factor of threads tried at once.
const GROWTH: usize = 4;
/// More threads must serve this many times as much, or as much for less CPU time.
const MIN_GAIN: f64 = 1.03;
/// Bounds for "as much", for "less CPU time", and for "no more CPU time".
const EQUAL: f64 = 0.98;
const CHEAPER: f64 = 0.97;
const NOT_COSTLIER: f64 = 1.01;
/// More CPU time than this per request suggests that threads were not missing.
const COSTLIER: f64 = 1.05;
/// A gain this large has no other explanation.
const OBVIOUS: f64 = 2.0;
/// Below this part of the proportional gain, fewer threads may be enough.
const PROPORTIONAL: f64 = 0.85;
/// How long results are used, and the upper bound of this time (milliseconds).
const RESULT_LIFETIME_MS: i64 = 4_000;
const RESULT_LIFETIME_MAX_MS: i64 = 160_000;
/// No disturbance causes a gain outside of these bounds, so the result is used this many times as
/// long: the larger the difference between the numbers, the more another trial costs.
const CLEAR: std::ops::Range<f64> = 0.65..1.75;
const CLEAR_FACTOR: i64 = 4;
/// The load has changed when its rate, or its number of busy connections, changed by this factor.
const LOAD_CHANGED: f64 = 1.5;

/// Totals of all threads since their start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    pub requests: u64,
    /// Seconds of CPU time.
    pub cpu: f64,
}

/// The measured output of the threads.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Output {
    /// Requests per second.
    rate: f64,
    /// CPU time of a request, in seconds.
    cost: f64,
}

impl Output {
    /// Rate and cost relative to `base`.
    fn relative_to(self, base: Output) -> (f64, f64) {
        let part = |of: f64, whole: f64| if whole > 0.0 { of / whole } else { 1.0 };
        (part(self.rate, base.rate), part(self.cost, base.cost))
    }

    /// The better of two measurements of the same number: disturbances only make it worse.
    fn or_better(self, other: Output) -> Output {
        Output { rate: self.rate.max(other.rate), cost: self.cost.min(other.cost) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The number of threads before, and their output.
    before: usize,
    base: Output,
    recheck: Recheck,
}

/// Which measurement is repeated, if any.
#[derive(Clone, Copy, Debug)]
enum Recheck {
    None,
    /// The number before, because the number tried had this output.
    OfBase(usize, Output),
    /// The number on trial.
    OfTrial,
}

/// The result of a trial, or the reason for a second measurement: for the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    pub before: usize,
    pub tried: usize,
    /// Requests served, and CPU time per request, relative to the number before.
    pub gain: f64,
    pub cost: f64,
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    Stays,
    Back,
    /// The measurement looks disturbed and is repeated.
    Again,
    /// The load changed during the trial.
    GivenUp,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Verdict { before, tried, gain, cost, outcome } = self;
        let outcome = match outcome {
            Outcome::Stays => "they stay",
            Outcome::Back => "back",
            Outcome::Again => "measured again",
            Outcome::GivenUp => "cancelled, the load has changed",
        };
        let (gain, cost) = (100.0 * gain, 100.0 * cost);
        write!(
            f,
            "{tried} I/O threads instead of {before} serve {gain:.0} % of the requests for \
             {cost:.0} % of the CPU time each: {outcome}"
        )
    }
}

/// See the module's description.
#[derive(Debug)]
pub struct Trials {
    /// Totals by time, only since the current number of threads has settled.
    points: VecDeque<(i64, Served)>,
    settled_at: i64,
    trial: Option<Trial>,
    /// Too few threads; too many threads.
    floor: usize,
    ceiling: usize,
    /// Whether fewer threads may do as well.
    refine: bool,
    /// Whether the load is unchanged after results expired: then only near numbers are tried.
    careful: bool,
    /// The load, as busy connections and rate, and its beginning.
    load: Option<(usize, f64)>,
    since: i64,
    /// When the results expire.
    results_expire_at: i64,
    result_lifetime_ms: i64,
    /// The result that was not taken yet.
    verdict: Option<Verdict>,
}

impl Default for Trials {
    fn default() -> Self {
        Trials {
            points: VecDeque::new(),
            settled_at: i64::MIN,
            trial: None,
            floor: 0,
            ceiling: usize::MAX,
            refine: true,
            careful: false,
            since: i64::MIN,
            load: None,
            results_expire_at: i64::MAX,
            result_lifetime_ms: RESULT_LIFETIME_MS,
            verdict: None,
        }
    }
}

impl Trials {
    /// Records the totals so far, with `busy` connections.
    pub fn note(&mut self, now_ms: i64, served: Served, busy: usize) {
        if now_ms < self.settled_at {
            return;
        }
        self.points.push_back((now_ms, served));
        while self.points.get(1).is_some_and(|(at, _)| now_ms - at >= MEASURE_LONG_MS) {
            self.points.pop_front();
        }
        let Some(now) = self.output(MEASURE_MS).filter(|_| self.trial.is_none()) else { return };
        match self.load {
            None => (self.load, self.since) = (Some((busy, now.rate)), now_ms),
            Some((connections, rate))
                if differs(busy as f64, connections as f64) || differs(now.rate, rate) =>
            {
                self.forget();
                self.result_lifetime_ms = RESULT_LIFETIME_MS;
                // Earlier points belong to the old load.
                self.points.drain(..self.points.len() - 1);
            }
            Some(_) if now_ms >= self.results_expire_at => {
                let load = self.load;
                self.forget();
                (self.load, self.careful) = (load, true);
                self.result_lifetime_ms = (2 * self.result_lifetime_ms).min(RESULT_LIFETIME_MAX_MS);
            }
            Some(_) => {}
        }
    }

    /// The result of a trial since the last call.
    pub fn take_verdict(&mut self) -> Option<Verdict> {
        self.verdict.take()
    }

    /// Whether a number of threads is being tried.
    pub fn is_on(&self) -> bool {
        self.trial.is_some()
    }

    /// The number of threads to try instead of `active`, which have almost no idle time. `wanted`
    /// is the estimate of enough threads. `None`: none, or not yet.
    pub fn more(&mut self, now_ms: i64, active: usize, wanted: usize) -> Option<usize> {
        let up = match self.ceiling {
            usize::MAX if self.careful => wanted.min(active + near_step(active)),
            usize::MAX => wanted.min(GROWTH * active),
            ceiling => wanted.min((active + ceiling) / 2),
        };
        (up > active).then(|| self.begin(now_ms, active, up)).flatten()
    }

    /// The number of threads to try instead of `active`, since fewer may be enough. An unmeasured
    /// load must have lasted for `patience_ms`: it may only be pausing.
    pub fn fewer(&mut self, now_ms: i64, active: usize, patience_ms: i64) -> Option<usize> {
        let is_new = self.results_expire_at == i64::MAX && !self.careful;
        if is_new && now_ms.saturating_sub(self.since) < patience_ms {
            return None;
        }
        let down = match self.floor {
            0 => active - near_step(active),
            floor => (floor + active) / 2,
        };
        let worth_it = self.refine && down > self.floor && active - self.floor >= near_step(active);
        worth_it.then(|| self.begin(now_ms, active, down)).flatten()
    }

    fn begin(&mut self, now_ms: i64, active: usize, other: usize) -> Option<usize> {
        let base = self.output(MEASURE_MS)?;
        self.trial = Some(Trial { before: active, base, recheck: Recheck::None });
        self.changed(now_ms);
        Some(other)
    }

    /// The number of threads has changed.
    pub fn changed(&mut self, now_ms: i64) {
        self.points.clear();
        self.settled_at = now_ms + SETTLE_MS;
    }

    /// Cancels a trial and discards the results: another mechanism has decided.
    pub fn cancel(&mut self, now_ms: i64) {
        self.trial = None;
        self.forget();
        self.changed(now_ms);
    }

    /// The number of threads after the trial of `active` with `busy` connections; `None` while it
    /// is undecided.
    pub fn decide(&mut self, now_ms: i64, active: usize, busy: usize) -> Option<usize> {
        let Trial { before, base, recheck } = self.trial?;
        let now = self.output(MEASURE_MS)?;
        if self.load.is_some_and(|(connections, _)| differs(busy as f64, connections as f64)) {
            // The base was measured under another load.
            let (gain, cost) = now.relative_to(base);
            self.verdict =
                Some(Verdict { before, tried: active, gain, cost, outcome: Outcome::GivenUp });
            self.cancel(now_ms);
            return Some(before);
        }
        let (tried, got, base) = match recheck {
            Recheck::OfBase(tried, got) => (tried, got, base.or_better(now)),
            Recheck::None | Recheck::OfTrial => (active, now, base),
        };
        let (gain, cost) = got.relative_to(base);
        if UNCLEAR.contains(&gain) && self.output(MEASURE_LONG_MS).is_none() {
            return None;
        }
        // Where there is no difference, fewer threads are better.
        let stays = match tried > before {
            true => gain >= MIN_GAIN || (gain >= EQUAL && cost <= CHEAPER),
            false => gain >= EQUAL && cost <= NOT_COSTLIER,
        };
        let verdict = |outcome| Some(Verdict { before, tried, gain, cost, outcome });
        self.verdict = verdict(if stays { Outcome::Stays } else { Outcome::Back });
        if let (Recheck::None, true) = (recheck, tried > before) {
            if stays && cost > COSTLIER && gain < OBVIOUS {
                self.verdict = verdict(Outcome::Again);
                self.trial = Some(Trial { before, base, recheck: Recheck::OfBase(tried, got) });
                self.changed(now_ms);
                return Some(before);
            }
            if gain < EQUAL && cost <= NOT_COSTLIER {
                self.verdict = verdict(Outcome::Again);
                self.trial = Some(Trial { before, base, recheck: Recheck::OfTrial });
                self.points.clear();
                return None;
            }
        }
        self.trial = None;
        if stays && self.careful {
            // The earlier result for this load was wrong, and this one may be, too.
            self.result_lifetime_ms = RESULT_LIFETIME_MS;
        }
        self.learn(before, tried, stays, gain);
        self.load = Some((busy, if stays { got.rate } else { base.rate }));
        let times = if CLEAR.contains(&gain) { 1 } else { CLEAR_FACTOR };
        self.results_expire_at = now_ms + times * self.result_lifetime_ms;
        let chosen = if stays { tried } else { before };
        if chosen != active {
            self.changed(now_ms);
        }
        Some(chosen)
    }

    /// Records which of the two numbers is better.
    fn learn(&mut self, before: usize, tried: usize, stays: bool, gain: f64) {
        let (fewer, more) = (tried.min(before), tried.max(before));
        if stays == (tried > before) {
            self.floor = self.floor.max(fewer);
            let ratio = more as f64 / fewer as f64;
            self.refine = match tried > before {
                true => gain < PROPORTIONAL * ratio,
                false => !self.careful,
            };
        } else {
            self.ceiling = self.ceiling.min(more);
            self.refine |= tried < before;
        }
    }

    /// Discards all results on the load.
    fn forget(&mut self) {
        (self.floor, self.ceiling) = (0, usize::MAX);
        (self.refine, self.careful) = (true, false);
        (self.load, self.results_expire_at) = (None, i64::MAX);
    }

    /// The output since the current number of threads has settled, if that was `ms` ago.
    fn output(&self, ms: i64) -> Option<Output> {
        let (&(from, first), &(to, last)) = (self.points.front()?, self.points.back()?);
        if to - from < ms {
            return None;
        }
        let requests = last.requests.saturating_sub(first.requests) as f64;
        let cpu = (last.cpu - first.cpu).max(0.0);
        let cost = if requests > 0.0 { cpu / requests } else { 0.0 };
        Some(Output { rate: requests / ((to - from) as f64 / 1000.0), cost })
    }
}

/// The largest near change of the number of threads.
fn near_step(active: usize) -> usize {
    (active / 4).max(1)
}

fn differs(a: f64, b: f64) -> bool {
    a.max(b) > LOAD_CHANGED * a.min(b)
}
