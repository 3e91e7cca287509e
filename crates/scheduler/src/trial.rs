//! Whether another number of threads pays: it is tried, and what was served tells.
//!
//! Pressure says that the threads have no time left, not that more of them would serve more. Clients
//! may be what is slow, or the CPUs may be taken. So a number of threads that the pressures ask for is
//! on trial: for some tenths of a second before and after the change it is counted how many requests
//! were served and how much CPU time they took.
//!
//! ```text
//!        steady ──── more may pay ────► settle ──► measure ──► it pays: stay
//!          ▲                                         │
//!          └──────── back to the number before ◄─────┘ it does not: remember that
//! ```
//!
//! What is learnt bounds what is tried next: *floor* threads are too few, *ceiling* threads are no
//! better than fewer. Between the two the search is by halves, and outside of them nothing is tried
//! until the load has become another one, or until it is time to look again: after 4 s, 8 s, 16 s and
//! so on, and after 4 s again if what was believed turns out to be wrong; four times as long after a
//! difference that no disturbance makes up. So a steady load gets what is best
//! for it within about a second for a machine of few CPUs, afterwards loses about a hundredth by trials,
//! and what was measured in a bad moment is believed for as long as it takes to be found out.
//!
//! A load that becomes another one in the middle of a trial ends it: nothing can be learnt from that.
//! A machine that does something else for half a second spoils what is measured then, and what would
//! be believed for long. So what looks like that is measured again: more served for more CPU time
//! each may be a base that was too low, less served for as little CPU time a trial that was.

use std::collections::VecDeque;

/// Time after a change that is not measured, and the time that is: at least, and where the
/// difference is not clear (milliseconds).
const SETTLE_MS: i64 = 200;
const MEASURE_MS: i64 = 200;
const MEASURE_LONG_MS: i64 = 500;
/// Whether more threads serve more is not clear within these bounds.
const UNCLEAR: std::ops::Range<f64> = 0.95..1.15;
/// So many times the threads there are, are tried at once.
const GROWTH: usize = 4;
/// More threads are to serve so many times as much, or as much for less CPU time.
const WORTH: f64 = 1.03;
/// So much is as much; so much CPU time is less.
const EQUAL: f64 = 0.98;
const CHEAPER: f64 = 0.97;
const NO_DEARER: f64 = 1.01;
/// More CPU time than this for each request is no sign of threads that were missing.
const DEARER: f64 = 1.05;
/// So many times as much can't be taken for anything else.
const PLAIN: f64 = 2.0;
/// Below this part of what so many threads more might serve, fewer of them may do.
const PROPORTIONAL: f64 = 0.85;
/// How long what was learnt is believed, and the most that this grows to (milliseconds).
const BELIEVE_MS: i64 = 4_000;
const BELIEVE_MOST_MS: i64 = 160_000;
/// What is outside of these bounds no disturbance makes up: it is believed so many times as long, since
/// the further the two numbers are apart, the more another trial costs.
const CLEAR: std::ops::Range<f64> = 0.65..1.75;
const CLEAR_TIMES: i64 = 4;
/// The load is another one when its rate, or the number of busy connections, is so many times what
/// it was.
const ANOTHER: f64 = 1.5;

/// What all threads have done since they were started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    pub requests: u64,
    /// Seconds of CPU time.
    pub cpu: f64,
}

/// What threads achieve.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Output {
    /// Requests in a second.
    rate: f64,
    /// CPU time of a request, in seconds.
    cost: f64,
}

impl Output {
    /// Its rate and its cost as parts of those of `base`.
    fn beside(self, base: Output) -> (f64, f64) {
        let part = |of: f64, whole: f64| if whole > 0.0 { of / whole } else { 1.0 };
        (part(self.rate, base.rate), part(self.cost, base.cost))
    }

    /// The better of two measurements of the same: what disturbs makes it worse.
    fn or_better(self, other: Output) -> Output {
        Output { rate: self.rate.max(other.rate), cost: self.cost.min(other.cost) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    /// How many threads there were, and what they achieved.
    before: usize,
    base: Output,
    doubt: Doubt,
}

/// Whether something is measured again, and what.
#[derive(Clone, Copy, Debug)]
enum Doubt {
    None,
    /// The number before, since this one achieved so much.
    OfBase(usize, Output),
    /// The number on trial.
    OfTrial,
}

/// How a trial ended, or that its measurement is taken again: for the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    pub before: usize,
    pub tried: usize,
    /// Requests served, and CPU time of each, as parts of what the number before achieved.
    pub gain: f64,
    pub cost: f64,
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    Stays,
    Back,
    /// What looks like a disturbed moment is measured again.
    Again,
    /// The load has become another one in the middle.
    GivenUp,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Verdict { before, tried, gain, cost, outcome } = self;
        let outcome = match outcome {
            Outcome::Stays => "they stay",
            Outcome::Back => "back",
            Outcome::Again => "measured again",
            Outcome::GivenUp => "given up, the load is another one",
        };
        let (gain, cost) = (100.0 * gain, 100.0 * cost);
        write!(
            f,
            "{tried} I/O threads in the place of {before} serve {gain:.0} % of the requests for \
             {cost:.0} % of the CPU time each: {outcome}"
        )
    }
}

/// See the module's description.
#[derive(Debug)]
pub struct Trials {
    /// What had been done at which time; of the present number of threads alone, once settled.
    points: VecDeque<(i64, Served)>,
    settled_at: i64,
    trial: Option<Trial>,
    /// So many threads are too few; so many are too many.
    floor: usize,
    ceiling: usize,
    /// Fewer threads may do as well.
    refine: bool,
    /// Nothing says that the load is another one: what is tried is near.
    careful: bool,
    /// The load, by its busy connections and its rate, and since when it is there.
    load: Option<(usize, f64)>,
    since: i64,
    /// Until when what was learnt is believed.
    forget_at: i64,
    believe_ms: i64,
    /// What nobody has asked for yet.
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
            forget_at: i64::MAX,
            believe_ms: BELIEVE_MS,
            verdict: None,
        }
    }
}

impl Trials {
    /// Takes note of what has been done so far, by `busy` connections.
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
                self.believe_ms = BELIEVE_MS;
                // What was done before belongs to the other load.
                self.points.drain(..self.points.len() - 1);
            }
            Some(_) if now_ms >= self.forget_at => {
                let load = self.load;
                self.forget();
                (self.load, self.careful) = (load, true);
                self.believe_ms = (2 * self.believe_ms).min(BELIEVE_MOST_MS);
            }
            Some(_) => {}
        }
    }

    /// What a trial has brought since this was last asked.
    pub fn take_verdict(&mut self) -> Option<Verdict> {
        self.verdict.take()
    }

    /// Whether a number of threads is being tried.
    pub fn is_on(&self) -> bool {
        self.trial.is_some()
    }

    /// How many threads to try instead of `active`, since these have next to no time left. `wanted`
    /// would have enough, as far as one can tell. `None`: no others, or not yet.
    pub fn more(&mut self, now_ms: i64, active: usize, wanted: usize) -> Option<usize> {
        let up = match self.ceiling {
            usize::MAX if self.careful => wanted.min(active + step(active)),
            usize::MAX => wanted.min(GROWTH * active),
            ceiling => wanted.min((active + ceiling) / 2),
        };
        (up > active).then(|| self.begin(now_ms, active, up)).flatten()
    }

    /// How many threads to try instead of `active`, since fewer may do. With a load that nothing is
    /// known of not before it has been there for `patience_ms`: it may only pause.
    pub fn fewer(&mut self, now_ms: i64, active: usize, patience_ms: i64) -> Option<usize> {
        let is_new = self.forget_at == i64::MAX && !self.careful;
        if is_new && now_ms.saturating_sub(self.since) < patience_ms {
            return None;
        }
        let down = match self.floor {
            0 => active - step(active),
            floor => (floor + active) / 2,
        };
        let worth_it = self.refine && down > self.floor && active - self.floor >= step(active);
        worth_it.then(|| self.begin(now_ms, active, down)).flatten()
    }

    fn begin(&mut self, now_ms: i64, active: usize, other: usize) -> Option<usize> {
        let base = self.output(MEASURE_MS)?;
        self.trial = Some(Trial { before: active, base, doubt: Doubt::None });
        self.changed(now_ms);
        Some(other)
    }

    /// The number of threads has become another one.
    pub fn changed(&mut self, now_ms: i64) {
        self.points.clear();
        self.settled_at = now_ms + SETTLE_MS;
    }

    /// Gives up a trial, and what was learnt: something else has decided.
    pub fn give_up(&mut self, now_ms: i64) {
        self.trial = None;
        self.forget();
        self.changed(now_ms);
    }

    /// How many threads there are to be, once the trial of `active` with `busy` connections is
    /// decided; `None` before.
    pub fn decide(&mut self, now_ms: i64, active: usize, busy: usize) -> Option<usize> {
        let Trial { before, base, doubt } = self.trial?;
        let now = self.output(MEASURE_MS)?;
        if self.load.is_some_and(|(connections, _)| differs(busy as f64, connections as f64)) {
            // What was measured before was another load.
            let (gain, cost) = now.beside(base);
            self.verdict =
                Some(Verdict { before, tried: active, gain, cost, outcome: Outcome::GivenUp });
            self.give_up(now_ms);
            return Some(before);
        }
        let (tried, got, base) = match doubt {
            Doubt::OfBase(tried, got) => (tried, got, base.or_better(now)),
            Doubt::None | Doubt::OfTrial => (active, now, base),
        };
        let (gain, cost) = got.beside(base);
        if UNCLEAR.contains(&gain) && self.output(MEASURE_LONG_MS).is_none() {
            return None;
        }
        // Where there is no difference, fewer threads are better.
        let stays = match tried > before {
            true => gain >= WORTH || (gain >= EQUAL && cost <= CHEAPER),
            false => gain >= EQUAL && cost <= NO_DEARER,
        };
        let verdict = |outcome| Some(Verdict { before, tried, gain, cost, outcome });
        self.verdict = verdict(if stays { Outcome::Stays } else { Outcome::Back });
        if let (Doubt::None, true) = (doubt, tried > before) {
            if stays && cost > DEARER && gain < PLAIN {
                self.verdict = verdict(Outcome::Again);
                self.trial = Some(Trial { before, base, doubt: Doubt::OfBase(tried, got) });
                self.changed(now_ms);
                return Some(before);
            }
            if gain < EQUAL && cost <= NO_DEARER {
                self.verdict = verdict(Outcome::Again);
                self.trial = Some(Trial { before, base, doubt: Doubt::OfTrial });
                self.points.clear();
                return None;
            }
        }
        self.trial = None;
        if stays && self.careful {
            // What was believed of this load was wrong, and this may be, too.
            self.believe_ms = BELIEVE_MS;
        }
        self.learn(before, tried, stays, gain);
        self.load = Some((busy, if stays { got.rate } else { base.rate }));
        let times = if CLEAR.contains(&gain) { 1 } else { CLEAR_TIMES };
        self.forget_at = now_ms + times * self.believe_ms;
        let chosen = if stays { tried } else { before };
        if chosen != active {
            self.changed(now_ms);
        }
        Some(chosen)
    }

    /// Which of the two numbers is better, and so what the other is.
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

    /// Nothing is known of the load any more.
    fn forget(&mut self) {
        (self.floor, self.ceiling) = (0, usize::MAX);
        (self.refine, self.careful) = (true, false);
        (self.load, self.forget_at) = (None, i64::MAX);
    }

    /// What was achieved since the present number of threads has settled, if that is `ms` ago.
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

/// How many threads more or fewer are near.
fn step(active: usize) -> usize {
    (active / 4).max(1)
}

fn differs(a: f64, b: f64) -> bool {
    a.max(b) > ANOTHER * a.min(b)
}
