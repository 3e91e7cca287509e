//! Draws events of threads, disks and clients from a seed, in any order that the drivers allow, and
//! compares the machine with a model of the threads and files.

use super::*;

type Machine = Lifecycle<u32, u32>;

/// A small random number generator: xorshift (Marsaglia, 2003).
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// The thread of a rewrite.
struct Rewriter {
    cancel: Arc<AtomicBool>,
    at: Option<At>,
    is_concluded: bool,
}

/// The files that a start would load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Force {
    /// The log that they belong to, and the rewrites that have succeeded.
    log: u64,
    bases: u64,
}

/// The threads and files around the machine.
struct Driver {
    machine: Machine,
    rng: Rng,
    wanted: bool,
    /// Readers of the effect log that exist; the log and its writing thread.
    reader: Option<u32>,
    readers: u32,
    thread: bool,
    rewriter: Option<Rewriter>,
    /// The next file of the cut after that unit, made by the writing thread.
    made: Option<u64>,
    unit: u64,
    files: Files,
    force: Force,
    is_failing: bool,
    is_doubtful: bool,
    is_syncing: bool,
    failed_last: bool,
    is_stale: bool,
    is_dropped: bool,
}

impl Driver {
    fn new(seed: u64) -> Driver {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        rng.below(1);
        let mut driver = Driver {
            machine: Machine::default(),
            rng,
            wanted: false,
            reader: None,
            readers: 0,
            thread: false,
            rewriter: None,
            made: None,
            unit: 0,
            files: Files::Complete,
            force: Force { log: 0, bases: 0 },
            is_failing: false,
            is_doubtful: false,
            is_syncing: false,
            failed_last: false,
            is_stale: false,
            is_dropped: false,
        };
        if driver.rng.coin() {
            driver.machine.load();
            driver.wanted = true;
            driver.check();
            driver.begin();
            driver.open(Files::Complete);
            driver.force.log = 1;
        }
        driver
    }

    fn begin(&mut self) {
        assert!(self.reader.is_none() && !self.thread, "one log at a time");
        self.readers += 1;
        self.reader = Some(self.readers);
        (self.is_stale, self.is_dropped) = (false, false);
        self.machine.begin(self.readers);
        let at = self.rewriter.as_ref().and_then(|rewriter| rewriter.at);
        assert!(at.is_none() || self.is_cancelled(), "a log began after the cut: {at:?}");
    }

    fn open(&mut self, files: Files) {
        (self.files, self.thread) = (files, true);
        self.machine.opened(7, files);
    }

    /// The thread that holds the switch takes a step.
    fn switch(&mut self) {
        if self.reader.is_some() && !self.thread {
            match self.rng.below(4) {
                // The writing thread can't be created.
                0 => self.end_log(),
                _ => self.open(Files::AwaitBase),
            }
            return;
        }
        if self.thread && self.reader.is_none() {
            self.machine.ended();
            (self.thread, self.is_failing, self.is_doubtful) = (false, false, false);
            (self.is_syncing, self.files) = (false, Files::Complete);
            return;
        }
        match self.machine.next_switch() {
            Switching::TurnOff => {
                assert!(self.thread && (!self.wanted || self.is_stale));
                self.machine.cancel_rewrite();
                self.end_log();
            }
            Switching::TurnOn => {
                assert!(!self.thread && self.wanted);
                self.machine.turn_on();
                self.failed_last = false;
                if self.machine.has_cut() {
                    self.machine.cancel_rewrite();
                }
                self.begin();
            }
            Switching::Done => assert_eq!(self.thread, self.wanted),
        }
    }

    fn end_log(&mut self) {
        assert_eq!(self.machine.end_log(), self.reader.take(), "each reader ends once");
        let at = self.rewriter.as_ref().and_then(|rewriter| rewriter.at);
        assert!(!matches!(at, Some(At::Log(_))) || self.is_cancelled(), "{at:?}");
        assert_eq!(self.machine.end_log(), None);
    }

    fn is_cancelled(&self) -> bool {
        let rewriter = self.rewriter.as_ref();
        rewriter
            .is_none_or(|rewriter| rewriter.is_concluded || rewriter.cancel.load(Ordering::Relaxed))
    }

    fn request(&mut self) {
        let (waits, is_ending) = (self.rng.coin(), self.rng.below(8) == 0);
        let was_scheduled = self.machine.info().scheduled;
        match self.machine.request(waits, is_ending) {
            Ok(Requested::New { cancel, is_scheduled }) => {
                assert!(self.rewriter.is_none() && !is_ending, "one rewrite at a time");
                assert_eq!(is_scheduled, waits);
                if self.rng.below(8) == 0 {
                    self.machine.not_started();
                    self.failed_last = true;
                    return;
                }
                self.rewriter = Some(Rewriter { cancel, at: None, is_concluded: false });
            }
            Ok(Requested::Served) => assert!(was_scheduled),
            Err(refusal) => {
                assert_eq!(refusal, Refusal::Busy);
                assert!(is_ending || (self.rewriter.is_some() && !was_scheduled));
            }
        }
    }

    /// The thread of the rewrite takes a step.
    fn rewrite(&mut self) {
        let Some(rewriter) = &mut self.rewriter else { return };
        if rewriter.is_concluded {
            self.machine.over();
            self.rewriter = None;
            return;
        }
        let is_cancelled = rewriter.cancel.load(Ordering::Relaxed);
        let Some(at) = rewriter.at else {
            match self.rng.below(4) {
                // Another snapshot is running.
                0 if !is_cancelled => self.machine.set_scheduled(true),
                0 | 1 => {
                    self.machine.set_scheduled(false);
                    self.conclude(Err(()));
                }
                _ => rewriter.at = Some(self.machine.cut(self.unit, 0)),
            }
            return;
        };
        match at {
            At::Log(cut) if self.thread && cut.log == self.machine.number() => {
                if self.made != Some(cut.unit) {
                    self.rotate(cut.unit);
                }
                let base = match self.machine.take_rotated(cut.unit) {
                    Some(Ok(())) if self.rng.below(4) > 0 => Ok(()),
                    Some(_) => Err(()),
                    None => panic!("the file was made"),
                };
                if base.is_ok() {
                    self.rebase();
                }
                self.conclude(base);
            }
            // The log has ended, or the next one has begun.
            At::Log(cut) => {
                if !self.machine.is_opening(cut.log) {
                    assert!(self.is_cancelled());
                    self.conclude(Err(()));
                }
            }
            At::After(log) => {
                let is_alone = self.machine.is_still_after(at);
                assert_eq!(is_alone, log == self.machine.number());
                assert!(is_alone || is_cancelled);
                if is_alone {
                    assert!(self.reader.is_none());
                    self.force.bases += 1;
                }
                self.conclude(if is_alone { Ok(()) } else { Err(()) });
            }
        }
    }

    fn conclude(&mut self, came: Result<(), ()>) {
        let before = (self.force, self.machine.waits_for_base(), self.machine.is_on());
        let is_cancelled = self.is_cancelled();
        let outcome = match came {
            Ok(()) => Outcome::Succeeded,
            Err(()) if is_cancelled => Outcome::Cancelled,
            Err(()) => Outcome::Failed,
        };
        match outcome {
            Outcome::Succeeded => self.failed_last = false,
            Outcome::Cancelled => {}
            Outcome::Failed => self.failed_last = true,
        }
        self.machine.conclude(outcome, 3);
        self.rewriter.as_mut().expect("it runs").is_concluded = true;
        let after = (self.force, self.machine.waits_for_base(), self.machine.is_on());
        assert_eq!(before, after, "the result of a rewrite changes no file");
    }

    /// The writing thread creates the file for units after a cut.
    fn rotate(&mut self, unit: u64) {
        let came = if self.rng.below(4) == 0 { Err("full".into()) } else { Ok(()) };
        if came.is_ok() && self.is_doubtful {
            self.files = Files::AwaitBase;
        }
        self.made = Some(unit);
        self.machine.rotated(unit, came, self.files);
        let at = Some(At::Log(Cut { log: self.machine.number(), unit }));
        let is_of_it = self.rewriter.as_ref().is_some_and(|r| r.at == at && !r.is_concluded);
        assert_eq!(self.machine.is_rotated(unit), is_of_it);
    }

    fn rebase(&mut self) {
        (self.files, self.is_doubtful) = (Files::Complete, false);
        self.force = Force { log: self.machine.number(), bases: self.force.bases + 1 };
        self.machine.rebased(Files::Complete);
        if self.is_failing && self.rng.coin() {
            assert!(self.machine.recovered());
            self.is_failing = false;
        }
    }

    /// The writing thread writes and syncs.
    fn write(&mut self) {
        if !self.thread {
            assert!(!self.machine.recovered() && !self.machine.write_failed("late".into()));
            return;
        }
        match self.rng.below(4) {
            0 => {
                assert_eq!(self.machine.write_failed("full".into()), !self.is_failing);
                self.is_failing = true;
            }
            1 if self.is_syncing => {
                assert_eq!(self.machine.sync_failed("torn".into()), !self.is_failing);
                (self.is_failing, self.is_doubtful) = (true, true);
            }
            2 => {
                self.is_syncing = !self.is_syncing;
                self.machine.set_syncing(self.is_syncing);
            }
            _ if !self.is_doubtful => {
                assert_eq!(self.machine.recovered(), self.is_failing);
                self.is_failing = false;
            }
            _ => {}
        }
    }

    fn step(&mut self) {
        self.unit += 1;
        match self.rng.below(12) {
            0 => {
                self.wanted = self.rng.coin();
                self.machine.want(self.wanted);
            }
            1..=3 => self.switch(),
            4 => self.request(),
            5..=7 => self.rewrite(),
            8 | 9 => self.write(),
            10 => {
                self.machine.replace_data();
                self.is_stale = self.reader.is_some();
            }
            _ => {
                self.machine.drop_data();
                self.is_dropped = self.reader.is_some();
            }
        }
        self.check();
    }

    /// The facts that other threads and INFO see follow from the state.
    fn check(&self) {
        let info = self.machine.info();
        let scheduled = info.scheduled;
        assert_eq!(self.rewriter.is_some(), info.rewriting || scheduled);
        assert!(!(info.rewriting && scheduled));
        assert_eq!(self.rewriter.is_some(), self.machine.is_rewriting());
        assert_eq!(info.rewriting, self.machine.has_cut());
        let runs = self.rewriter.as_ref().is_some_and(|r| r.at.is_some() && !r.is_concluded);
        assert_eq!(info.rewrite_began_s, i64::from(runs));
        assert_eq!(info.last_rewrite_failed, self.failed_last);
        assert_eq!(info.enabled, self.thread);
        assert_eq!(self.machine.writer().is_some(), self.thread);
        assert_eq!(info.write_failed, self.is_failing);
        assert_eq!(info.syncing, self.is_syncing);
        assert_eq!(self.machine.error().is_some(), self.is_failing);
        assert_eq!(self.machine.reader(), self.reader);
        assert_eq!(self.machine.is_data_dropped(), self.is_dropped && self.reader.is_some());
        assert_eq!(self.machine.is_switched(), self.thread == self.wanted);
        let waits = self.files == Files::AwaitBase && self.reader.is_some() && self.thread;
        assert_eq!(self.machine.waits_for_base(), waits);
    }

    /// No more events of clients: the log gets into its configured state, and the rewrite ends.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.switch();
            self.rewrite();
            self.check();
        }
        assert_eq!(self.machine.next_switch(), Switching::Done);
        assert!(self.machine.is_switched());
        assert_eq!(self.thread, self.reader.is_some());
    }
}

#[test]
fn state_follows_events_in_any_order() {
    for seed in 0..2_000 {
        let mut driver = Driver::new(seed);
        for _ in 0..150 {
            driver.step();
        }
        driver.settle();
    }
}

/// A log that is on, with a rewrite that has taken its cut after unit 5.
fn rewriting() -> (Machine, Arc<AtomicBool>) {
    let mut machine = Machine::default();
    machine.load();
    machine.begin(1);
    machine.opened(7, Files::Complete);
    let Ok(Requested::New { cancel, is_scheduled: false }) = machine.request(false, false) else {
        panic!("no other rewrite is running");
    };
    assert_eq!(machine.cut(5, 100), At::Log(Cut { log: 1, unit: 5 }));
    (machine, cancel)
}

#[test]
fn one_rewrite_at_a_time() {
    let (mut machine, _) = rewriting();
    assert!(matches!(machine.request(true, false), Err(Refusal::Busy)));
    machine.conclude(Outcome::Succeeded, 1);
    assert!(matches!(machine.request(true, false), Err(Refusal::Busy)), "not over yet");
    machine.over();
    assert!(matches!(machine.request(true, true), Err(Refusal::Busy)), "the server is ending");
    assert!(matches!(machine.request(true, false), Ok(Requested::New { .. })));
    assert!(matches!(machine.request(false, false), Ok(Requested::Served)));
    machine.set_scheduled(false);
    assert!(matches!(machine.request(false, false), Err(Refusal::Busy)));
}

#[test]
fn turning_the_log_off_cancels_the_rewrite() {
    let (mut machine, cancel) = rewriting();
    machine.want(false);
    assert_eq!(machine.next_switch(), Switching::TurnOff);
    assert_eq!(machine.end_log(), Some(1));
    assert!(cancel.load(Ordering::Relaxed));
    assert!(machine.is_on() && machine.reader().is_none(), "the rest is written");
    machine.ended();
    assert!(!machine.is_on() && machine.is_rewriting());
    machine.conclude(Outcome::Cancelled, 2);
    machine.over();
    assert!(!machine.has_rewrite_failed());
}

#[test]
fn cut_of_an_earlier_log_gets_no_file() {
    let (mut machine, _) = rewriting();
    assert_eq!(machine.end_log(), Some(1));
    machine.ended();
    machine.begin(2);
    machine.opened(8, Files::AwaitBase);
    machine.rotated(5, Ok(()), Files::AwaitBase);
    assert!(!machine.is_rotated(5));
    assert_eq!(machine.take_rotated(5), None);
    assert!(machine.waits_for_base());
    machine.rebased(Files::Complete);
    assert!(!machine.waits_for_base());
}

#[test]
fn replaced_data_restart_the_log_once() {
    let (mut machine, _) = rewriting();
    machine.replace_data();
    assert_eq!(machine.next_switch(), Switching::TurnOff);
    machine.end_log();
    machine.replace_data();
    machine.ended();
    assert_eq!(machine.next_switch(), Switching::TurnOn);
    machine.begin(2);
    machine.opened(8, Files::AwaitBase);
    assert_eq!(machine.next_switch(), Switching::Done);
}

#[test]
fn only_a_rewrite_ends_doubt() {
    let (mut machine, _) = rewriting();
    assert!(machine.write_failed("full".into()));
    assert!(!machine.sync_failed("torn".into()), "the first failure was logged");
    assert!(!machine.write_failed("full".into()));
    assert_eq!(machine.error(), Some("full"));
    machine.rotated(5, Ok(()), Files::AwaitBase);
    assert!(machine.waits_for_base() && machine.is_rotated(5));
    machine.rebased(Files::Complete);
    assert!(machine.recovered());
    assert_eq!(machine.error(), None);
}
