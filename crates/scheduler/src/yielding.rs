//! Giving way: how background threads yield to those that serve clients.
//!
//! A lower priority is not enough. A thread on Linux runs to the end of its slice, and often to
//! the next clock tick, which may be 4 ms away, even if a client's request has meanwhile woken
//! another thread for the same CPU. So a background thread yields its CPU after each small piece
//! of work: a waiting thread then runs at once, and without one a yield takes less than a
//! microsecond.
//!
//! Linux (since 6.6) charges a whole slice to a thread that yields, however little of it was
//! used. Where others always want the CPU, next to nothing would be left: a replica's full sync
//! would never end. So a thread counts its work and the time that others had the yielded CPU, and
//! yields only while the two are in proportion ([`YieldCredit`]).
//!
//! `docs/design/snapshots.md` has the alternatives that were tried.

use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::io;
use std::time::{Duration, Instant};

/// The nice increment of threads that write snapshots, or load a primary's, relative to the
/// server: about a quarter of a CPU that another thread always wants.
const NICE_INCREMENT: i32 = 5;

/// The lowest priority.
const LOWEST_PRIORITY: i32 = 19;

/// The approximate time that a thread works between two yields.
const WORK_PERIOD: Duration = Duration::from_micros(100);

/// Bytes reported to [`report_work`] between two reads of the clock: about ten microseconds.
const CLOCK_CHECK_BYTES: usize = 8 << 10;

/// Maximum bytes of one write between two yields.
const WRITE_BYTES: usize = 64 << 10;

/// Lowers the priority of the calling thread below that of threads that serve clients, and makes
/// it yield as it works. For threads that end with their work and were started by a thread that
/// serves clients or has its priority: the priority can't be raised again.
pub fn lower_priority() {
    // Linux has a priority per thread, and any thread may lower its own. A fixed value could
    // raise the priority of a server that root started with a low one.
    let own = Some(rustix::thread::gettid());
    if let Ok(now) = rustix::process::getpriority_process(own) {
        let _ =
            rustix::process::setpriority_process(own, (now + NICE_INCREMENT).min(LOWEST_PRIORITY));
    }
    start_yielding();
}

/// Makes the calling thread yield as it works, without lowering its priority: threads inherit the
/// priority of their creator, but not the yielding.
pub fn start_yielding() {
    YIELDER.set(Some(Yielder::new()));
}

/// Whether the calling thread yields as it works.
pub fn is_yielding() -> bool {
    YIELDER.with_borrow(Option::is_some)
}

/// Reports about `bytes` of work, and yields the CPU when a piece of work is complete. No effect
/// on a thread that doesn't give way. Call it without holding anything that serving threads wait
/// for.
pub fn report_work(bytes: usize) {
    YIELDER.with_borrow_mut(|yielder| yielder.iter_mut().for_each(|yielder| yielder.work(bytes)));
}

/// As [`report_work`], but measures the piece by the clock. Also call it before taking a lock: a thread
/// that has just yielded is unlikely to lose the CPU soon.
pub fn yield_if_due() {
    YIELDER.with_borrow_mut(|yielder| yielder.iter_mut().for_each(Yielder::yield_if_due));
}

thread_local! {
    static YIELDER: RefCell<Option<Yielder>> = const { RefCell::new(None) };
}

/// The state of one thread.
#[derive(Debug)]
struct Yielder {
    yield_credit: YieldCredit,
    /// Since the last read of the clock.
    bytes: usize,
    /// The time of the last yield, or of the start; and the CPU time used by then.
    since: Instant,
    used: Duration,
}

impl Yielder {
    fn new() -> Yielder {
        Yielder {
            yield_credit: YieldCredit::default(),
            bytes: 0,
            since: Instant::now(),
            used: used(),
        }
    }

    fn work(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes >= CLOCK_CHECK_BYTES {
            self.bytes = 0;
            self.yield_if_due();
        }
    }

    fn yield_if_due(&mut self) {
        if self.since.elapsed() >= WORK_PERIOD {
            self.yield_cpu();
        }
    }

    fn yield_cpu(&mut self) {
        let (from, used) = (Instant::now(), used());
        self.yield_credit.worked(used.saturating_sub(self.used));
        (self.since, self.used) = (from, used);
        if self.yield_credit.may_yield() {
            std::thread::yield_now();
            self.since = Instant::now();
            self.yield_credit.waited(self.since - from);
        }
    }
}

/// The CPU time of the calling thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How long others may have the CPU that a thread yields: its work adds to that, its waiting
/// subtracts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct YieldCredit {
    /// In nanoseconds; negative once it has waited longer than allowed.
    credit: i64,
}

impl YieldCredit {
    /// Waiting time allowed per working time. With 2, a save of 2.5 s once took 12 s, where
    /// serving threads were on its CPU and the other CPU was idle.
    const RATIO: i64 = 1;
    /// The maximum credit, in nanoseconds.
    const MAX_CREDIT_NS: i64 = 100_000_000;

    fn worked(&mut self, time: Duration) {
        let more = nanoseconds(time).saturating_mul(Self::RATIO);
        self.credit = self.credit.saturating_add(more).min(Self::MAX_CREDIT_NS);
    }

    fn waited(&mut self, time: Duration) {
        self.credit = self.credit.saturating_sub(nanoseconds(time));
    }

    fn may_yield(&self) -> bool {
        self.credit >= 0
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// A writer whose thread gives way between pieces of its output.
#[derive(Debug)]
pub struct YieldingWriter<W>(pub W);

impl<W: io::Write> io::Write for YieldingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(()) =
            YIELDER.with_borrow_mut(|yielder| yielder.as_mut().map(Yielder::yield_if_due))
        else {
            return self.0.write(bytes);
        };
        self.0.write(&bytes[..bytes.len().min(WRITE_BYTES)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Lets a thread work for `pieces` milliseconds, where each yield costs it `wait`. Returns
    /// the number of yields.
    fn run(yield_credit: &mut YieldCredit, pieces: u32, wait: Duration) -> u32 {
        let mut yields = 0;
        for _ in 0..pieces {
            yield_credit.worked(MS);
            if yield_credit.may_yield() {
                yield_credit.waited(wait);
                yields += 1;
            }
        }
        yields
    }

    #[test]
    fn a_thread_yields_while_that_costs_little() {
        for wait in [Duration::ZERO, MS / 2, MS] {
            assert_eq!(run(&mut YieldCredit::default(), 10_000, wait), 10_000, "{wait:?} each");
        }
    }

    #[test]
    fn a_thread_keeps_its_share_of_a_contended_cpu() {
        for wait in [5 * MS, 40 * MS, 400 * MS] {
            let mut yield_credit = YieldCredit::default();
            let waited = wait * run(&mut yield_credit, 10_000, wait);
            assert!(waited <= 10_000 * MS + wait, "{wait:?} each: {waited:?} in all");
            assert!(waited >= 10_000 * MS - wait, "{wait:?} each: {waited:?} in all");
        }
    }

    #[test]
    fn the_credit_is_bounded() {
        let mut yield_credit = YieldCredit::default();
        assert_eq!(run(&mut yield_credit, 1_000_000, Duration::ZERO), 1_000_000);
        let waited = 40 * MS * run(&mut yield_credit, 1000, 40 * MS);
        assert!(waited <= (100 + 1000 + 40) * MS, "{waited:?} in a second of work");
    }

    #[test]
    fn only_a_thread_that_stands_back_gives_way() {
        let is_yielding = || {
            report_work(1 << 20);
            is_yielding()
        };
        let alone = std::thread::spawn(move || {
            assert!(!is_yielding());
            lower_priority();
            let started = std::thread::spawn(is_yielding).join().expect("it ends");
            (is_yielding(), started)
        });
        assert_eq!(alone.join().expect("it ends"), (true, false));
    }

    #[test]
    fn stand_back_lowers_the_priority_from_its_current_value() {
        use rustix::process::{getpriority_process, setpriority_process};
        let own = || Some(rustix::thread::gettid());
        let priority = move || getpriority_process(own()).expect("a thread can read its priority");
        for (from, to) in [
            (3, 3 + NICE_INCREMENT),
            (12, 12 + NICE_INCREMENT),
            (17, LOWEST_PRIORITY),
            (LOWEST_PRIORITY, LOWEST_PRIORITY),
        ] {
            let first = std::thread::spawn(move || {
                setpriority_process(own(), from).expect("any thread may lower its priority");
                lower_priority();
                let started = std::thread::spawn(move || {
                    start_yielding();
                    (is_yielding(), priority())
                });
                assert_eq!(started.join().expect("it ends"), (true, to), "from {from}");
                priority()
            });
            assert_eq!(first.join().expect("it ends"), to, "from {from}");
        }
    }

    #[test]
    fn a_writer_that_gives_way_writes_everything() {
        let bytes: Vec<u8> = (0..3 * WRITE_BYTES + 1).map(|n| n as u8).collect();
        let written = std::thread::spawn({
            let bytes = bytes.clone();
            move || {
                lower_priority();
                let mut to = YieldingWriter(Vec::new());
                io::Write::write_all(&mut to, &bytes).map(|()| to.0)
            }
        });
        assert_eq!(written.join().expect("it ends").expect("a vector takes all"), bytes);
    }
}
