//! Giving way: how threads that nobody waits for work beside those that serve clients.
//!
//! A lower priority is not enough. Whoever runs on Linux goes on to the end of its slice, and often to the
//! next tick of the clock, which may be 4 ms away, though a client's request has woken another thread
//! for the same CPU since. So a thread that stands back offers its CPU after each small piece of
//! work: who waits for it then runs at once, and where nobody waits an offer takes less than a
//! microsecond.
//!
//! Linux (since 6.6) takes a whole slice from who gives way, however little of it was used. Where others
//! always want the CPU, that would leave next to nothing: a replica would wait for its copy for
//! ever. So a thread counts what it has worked and how long others have had the CPU that it offered,
//! and offers it only while that is in proportion ([`Balance`]).
//!
//! What was tried beside it is in `docs/design/snapshots.md`.

use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::io;
use std::time::{Duration, Instant};

/// How far who writes snapshots, or loads a primary's, stands back from where the server is: about a
/// quarter of a CPU that another thread always wants.
const BACK: i32 = 5;

/// The lowest priority.
const LOWEST: i32 = 19;

/// How long a thread works between two offers, about.
const PIECE: Duration = Duration::from_micros(100);

/// Work, as told to [`work`], between two looks at the clock: some ten microseconds.
const LOOK: usize = 8 << 10;

/// Bytes of one write between two offers.
const WRITE: usize = 64 << 10;

/// Has the calling thread get less of a CPU than those that serve clients, where both want it, and
/// offer it as it works. For threads that end with their work, and that were started by one that serves
/// clients or has its priority: there is no way back.
pub fn stand_back() {
    // Linux has a priority for every thread, and anybody may lower his own. Not to a fixed one: a
    // server that was started with a low one, by root, would have it raised.
    let own = Some(rustix::thread::gettid());
    if let Ok(now) = rustix::process::getpriority_process(own) {
        let _ = rustix::process::setpriority_process(own, (now + BACK).min(LOWEST));
    }
    give_way();
}

/// Has the calling thread offer its CPU as it works, which it has the priority for: threads have that of
/// who starts them, but do not give way by themselves.
pub fn give_way() {
    WAY.set(Some(Way::new()));
}

/// Whether the calling thread stands back, or gives way.
pub fn stands_back() -> bool {
    WAY.with_borrow(Option::is_some)
}

/// Notes that about `bytes` were made, and offers the CPU when a piece of work is done. Nothing for a
/// thread that does not stand back. To be called with nothing held that those who serve wait for.
pub fn work(bytes: usize) {
    WAY.with_borrow_mut(|way| way.iter_mut().for_each(|way| way.work(bytes)));
}

/// Offers the CPU if a piece of work is done, by the clock. As [`work`]. Before something is held, too: who
/// has offered the CPU just now is not likely to lose it soon.
pub fn pause() {
    WAY.with_borrow_mut(|way| way.iter_mut().for_each(Way::look));
}

thread_local! {
    static WAY: RefCell<Option<Way>> = const { RefCell::new(None) };
}

/// Of one thread.
#[derive(Debug)]
struct Way {
    balance: Balance,
    /// Since the last look at the clock.
    bytes: usize,
    /// When it last offered the CPU, or began; and how long it had been on a CPU then.
    since: Instant,
    used: Duration,
}

impl Way {
    fn new() -> Way {
        Way { balance: Balance::default(), bytes: 0, since: Instant::now(), used: used() }
    }

    fn work(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes >= LOOK {
            self.bytes = 0;
            self.look();
        }
    }

    fn look(&mut self) {
        if self.since.elapsed() >= PIECE {
            self.offer();
        }
    }

    fn offer(&mut self) {
        let (from, used) = (Instant::now(), used());
        self.balance.worked(used.saturating_sub(self.used));
        (self.since, self.used) = (from, used);
        if self.balance.may_offer() {
            std::thread::yield_now();
            self.since = Instant::now();
            self.balance.waited(self.since - from);
        }
    }
}

/// How long the calling thread has been on a CPU.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// For how long others may have the CPU that a thread offers: what it works adds to that, and what it has
/// waited takes from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Balance {
    /// In nanoseconds; below zero once it has waited longer than that.
    credit: i64,
}

impl Balance {
    /// How long a thread may wait for what it offered for each moment that it works. With 2 a save of
    /// 2.5 s took 12 s once, where those who serve were on its CPU and the other one was idle.
    const RATIO: i64 = 1;
    /// What it can save up.
    const MOST: i64 = 100_000_000;

    fn worked(&mut self, time: Duration) {
        let more = nanoseconds(time).saturating_mul(Self::RATIO);
        self.credit = self.credit.saturating_add(more).min(Self::MOST);
    }

    fn waited(&mut self, time: Duration) {
        self.credit = self.credit.saturating_sub(nanoseconds(time));
    }

    fn may_offer(&self) -> bool {
        self.credit >= 0
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// A writer whose thread gives way between pieces of what is written.
#[derive(Debug)]
pub struct GivesWay<W>(pub W);

impl<W: io::Write> io::Write for GivesWay<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(()) = WAY.with_borrow_mut(|way| way.as_mut().map(Way::look)) else {
            return self.0.write(bytes);
        };
        self.0.write(&bytes[..bytes.len().min(WRITE)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Lets a thread work for `pieces` milliseconds, where each offer costs it `wait`; how often it has
    /// offered.
    fn run(balance: &mut Balance, pieces: u32, wait: Duration) -> u32 {
        let mut offers = 0;
        for _ in 0..pieces {
            balance.worked(MS);
            if balance.may_offer() {
                balance.waited(wait);
                offers += 1;
            }
        }
        offers
    }

    #[test]
    fn it_offers_while_that_costs_little() {
        for wait in [Duration::ZERO, MS / 2, MS] {
            assert_eq!(run(&mut Balance::default(), 10_000, wait), 10_000, "{wait:?} each");
        }
    }

    #[test]
    fn where_others_always_want_the_cpu_it_keeps_its_share() {
        for wait in [5 * MS, 40 * MS, 400 * MS] {
            let mut balance = Balance::default();
            let waited = wait * run(&mut balance, 10_000, wait);
            assert!(waited <= 10_000 * MS + wait, "{wait:?} each: {waited:?} in all");
            assert!(waited >= 10_000 * MS - wait, "{wait:?} each: {waited:?} in all");
        }
    }

    #[test]
    fn what_was_saved_up_is_bounded() {
        let mut balance = Balance::default();
        assert_eq!(run(&mut balance, 1_000_000, Duration::ZERO), 1_000_000);
        let waited = 40 * MS * run(&mut balance, 1000, 40 * MS);
        assert!(waited <= (100 + 1000 + 40) * MS, "{waited:?} in a second of work");
    }

    #[test]
    fn only_who_stands_back_gives_way() {
        let stands_back = || {
            work(1 << 20);
            stands_back()
        };
        let alone = std::thread::spawn(move || {
            assert!(!stands_back());
            stand_back();
            let started = std::thread::spawn(stands_back).join().expect("it ends");
            (stands_back(), started)
        });
        assert_eq!(alone.join().expect("it ends"), (true, false));
    }

    #[test]
    fn who_stands_back_does_so_from_where_it_was() {
        use rustix::process::{getpriority_process, setpriority_process};
        let own = || Some(rustix::thread::gettid());
        let priority = move || getpriority_process(own()).expect("Linux tells");
        for (from, to) in [(3, 3 + BACK), (12, 12 + BACK), (17, LOWEST), (LOWEST, LOWEST)] {
            let first = std::thread::spawn(move || {
                setpriority_process(own(), from).expect("anybody may lower it");
                stand_back();
                let started = std::thread::spawn(move || {
                    give_way();
                    (stands_back(), priority())
                });
                assert_eq!(started.join().expect("it ends"), (true, to), "from {from}");
                priority()
            });
            assert_eq!(first.join().expect("it ends"), to, "from {from}");
        }
    }

    #[test]
    fn all_is_written() {
        let bytes: Vec<u8> = (0..3 * WRITE + 1).map(|n| n as u8).collect();
        let written = std::thread::spawn({
            let bytes = bytes.clone();
            move || {
                stand_back();
                let mut to = GivesWay(Vec::new());
                io::Write::write_all(&mut to, &bytes).map(|()| to.0)
            }
        });
        assert_eq!(written.join().expect("it ends").expect("a vector takes all"), bytes);
    }
}
