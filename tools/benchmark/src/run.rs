//! One run: starts the threads, adds up their counts, and measures CPU time.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::cpu::{CpuTime, ServerCpu};
use crate::plan::{Plan, Shared};
use crate::stream::NonBlocking;
use crate::tally::Tally;
use crate::worker::{Message, TICK_NS, Usage, Worker};

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Counts of all threads.
    pub total: Tally,
    /// From the beginning of counting to the last reply.
    pub elapsed_ns: u64,
    /// By thread.
    pub usage: Vec<Usage>,
    pub server_cpu: Option<CpuTime>,
    /// Requests per second in each quarter of a second.
    pub rates: Vec<f64>,
}

/// The progress of a run, for a watcher.
pub struct Moment<'a> {
    /// Counts since the moment before, and their time.
    pub recent: &'a Tally,
    pub lasted: Duration,
    /// Counts so far, without this moment's, and the time since counting began.
    pub total: &'a Tally,
    pub since: Duration,
    pub warming_up: bool,
}

/// The system's error text without its number.
pub fn plain(e: &std::io::Error) -> String {
    let text = e.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_string(),
        None => text,
    }
}

/// Runs a plan over streams that [`connect`](crate::clients::connect) made.
///
/// # Errors
/// With the reason for an early end.
pub fn run(
    plan: &Arc<Plan>,
    streams: Vec<Vec<(NonBlocking, usize)>>,
    server_cpu: Option<&mut ServerCpu>,
    watch: &mut dyn FnMut(&Moment) -> Result<(), String>,
) -> Result<Outcome, String> {
    let (reports, inbox) = mpsc::channel();
    let shared = Arc::new(Shared::default());
    let start_ns = plan.clock.mono_ns();
    let mut workers = Vec::new();
    for (index, streams) in streams.into_iter().enumerate() {
        let (plan, shared) = (Arc::clone(plan), Arc::clone(&shared));
        let worker = Worker::new(plan, shared, index, start_ns, streams, reports.clone())
            .map_err(|e| format!("Could not watch the connections: {}", plain(&e)))?;
        workers.push(worker);
    }
    drop(reports);
    let mut gatherer = Gatherer {
        plan,
        server_cpu,
        cpu_before: None,
        total: Tally::new(plan.test.kinds.len(), plan.precision),
        recent: Tally::new(plan.test.kinds.len(), plan.precision),
        usage: vec![Usage::default(); plan.threads],
        done: 0,
        begun: false,
        rates: Vec::new(),
    };
    std::thread::scope(|scope| {
        for worker in workers {
            let name = format!("generator-{}", gatherer.plan.threads);
            let started =
                std::thread::Builder::new().name(name).spawn_scoped(scope, || worker.run());
            if let Err(e) = started {
                shared.stop();
                return Err(format!("FATAL: Failed to start a thread: {}", plain(&e)));
            }
        }
        let gathered = gatherer.gather(&inbox, watch);
        // Threads that still work stop; the end of the scope waits for them.
        shared.stop();
        gathered
    })?;
    Ok(gatherer.outcome(start_ns))
}

struct Gatherer<'a> {
    plan: &'a Plan,
    server_cpu: Option<&'a mut ServerCpu>,
    cpu_before: Option<CpuTime>,
    total: Tally,
    recent: Tally,
    usage: Vec<Usage>,
    done: usize,
    begun: bool,
    rates: Vec<f64>,
}

impl Gatherer<'_> {
    fn gather(
        &mut self,
        inbox: &mpsc::Receiver<Message>,
        watch: &mut dyn FnMut(&Moment) -> Result<(), String>,
    ) -> Result<(), String> {
        let (mut begin_ns, mut last_ns) = (self.plan.clock.mono_ns(), self.plan.clock.mono_ns());
        let mut arrived = 0;
        while self.done < self.plan.threads {
            let now = self.plan.clock.mono_ns();
            // All threads have reported, or one of them hangs.
            if arrived >= self.plan.threads || now >= last_ns + 2 * TICK_NS {
                self.moment(now - last_ns, now - begin_ns, watch)?;
                (last_ns, arrived) = (now, 0);
            }
            let patience = Duration::from_nanos((last_ns + 2 * TICK_NS).saturating_sub(now) + 1);
            match inbox.recv_timeout(patience) {
                Ok(Message::Begun) => {
                    if !self.begun {
                        self.begun = true;
                        self.recent.clear();
                        self.cpu_before = self.sample_cpu();
                        begin_ns = self.plan.clock.mono_ns();
                        (last_ns, arrived) = (begin_ns, 0);
                    }
                }
                Ok(Message::Counts(counts, begun)) => {
                    arrived += 1;
                    if begun == self.begun {
                        self.recent.add(&counts);
                    }
                }
                Ok(Message::Done(index, usage)) => {
                    self.usage[index] = usage;
                    self.done += 1;
                }
                Ok(Message::Failed(failure)) => return Err(failure),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("Error: a generator thread has died".to_string());
                }
            }
        }
        let now = self.plan.clock.mono_ns();
        self.moment(now - last_ns, now - begin_ns, watch)
    }

    fn sample_cpu(&mut self) -> Option<CpuTime> {
        self.server_cpu.as_mut()?.sample()
    }

    fn moment(
        &mut self,
        lasted_ns: u64,
        since_ns: u64,
        watch: &mut dyn FnMut(&Moment) -> Result<(), String>,
    ) -> Result<(), String> {
        let seen = watch(&Moment {
            recent: &self.recent,
            lasted: Duration::from_nanos(lasted_ns),
            total: &self.total,
            since: Duration::from_nanos(since_ns),
            warming_up: !self.begun,
        });
        if self.begun {
            // The remainder at the end is too short for a rate.
            if lasted_ns > TICK_NS / 2 {
                self.rates.push(self.recent.replies() as f64 * 1e9 / lasted_ns as f64);
            }
            self.total.add(&self.recent);
        }
        self.recent.clear();
        seen
    }

    fn outcome(mut self, start_ns: u64) -> Outcome {
        let before = self.cpu_before;
        let after = self.sample_cpu();
        let begin_ns = start_ns + self.plan.warmup_ns;
        // A rate over a given time counts all of it, even if the last reply came earlier.
        let end_ns = self.plan.duration_ns.map_or(0, |duration| begin_ns + duration);
        let end_ns = end_ns.max(self.total.last_ns);
        Outcome {
            elapsed_ns: end_ns.saturating_sub(begin_ns),
            usage: self.usage,
            server_cpu: after.zip(before).map(|(after, before)| after.since(before)),
            rates: self.rates,
            total: self.total,
        }
    }
}

impl Outcome {
    /// Adds another run of the same test.
    pub fn add(&mut self, other: &Outcome) {
        self.total.add(&other.total);
        self.elapsed_ns += other.elapsed_ns;
        for (sum, more) in self.usage.iter_mut().zip(&other.usage) {
            sum.wall_ns += more.wall_ns;
            sum.cpu_ns += more.cpu_ns;
            sum.idle_ns += more.idle_ns;
        }
        self.server_cpu = self.server_cpu.zip(other.server_cpu).map(|(a, b)| CpuTime {
            user_us: a.user_us + b.user_us,
            system_us: a.system_us + b.system_us,
        });
        self.rates.extend(&other.rates);
    }

    /// Good replies per second.
    pub fn rps(&self) -> f64 {
        if self.elapsed_ns == 0 {
            return 0.0;
        }
        self.total.replies() as f64 * 1e9 / self.elapsed_ns as f64
    }

    /// Generator CPU time of all threads in microseconds per request.
    pub fn own_cpu_us(&self) -> f64 {
        let all: u64 = self.usage.iter().map(|usage| usage.cpu_ns).sum();
        all as f64 / 1e3 / self.total.replies().max(1) as f64
    }
}
