//! Tests the states of a connection against a model, with events in an order drawn from a seed.
//!
//! The model has the guarantees that a client needs. Its requests are numbered. Each is executed
//! once and in order, every wait ends, and a connection with requests to execute is always queued.
//! The driver plays the connection's thread and all other threads. It can contain a planted fault,
//! and the tests must find each of them.

use super::*;
use std::collections::VecDeque;

type Machine = State<u32, u32>;

/// The fault planted in the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Reads while older requests are kept.
    ReadsWhileReady,
    /// Executes requests of any queued connection, whatever its state.
    TakesUpAnything,
    /// Does not queue the connection when a shard is released.
    DropsWakeUps,
    /// Closes when the peer ends, whatever is pending.
    ClosesEarly,
    /// Resumes on any event.
    ResumesOnAnything,
}

/// A small random number generator: xorshift (Marsaglia, 2003).
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// A connection, its thread and its client.
struct Driver {
    machine: Machine,
    fault: Fault,
    rng: Rng,
    /// The connection is in its thread's queue.
    queued: bool,
    /// Requests that are read and not executed, and requests that the client has sent.
    kept: VecDeque<u32>,
    sent: VecDeque<u32>,
    next: u32,
    /// Executed requests and answered requests, both in order.
    executed: Vec<u32>,
    answered: Vec<u32>,
    /// The request whose command runs or waits on another thread.
    elsewhere: Option<u32>,
    withheld: Option<(u64, u32)>,
    /// The client must accept replies before more is executed; and whether that was violated.
    full: bool,
    executed_while_full: bool,
    ended: bool,
    closed: bool,
}

impl Driver {
    fn new(seed: u64, fault: Fault) -> Self {
        Driver {
            machine: Machine::default(),
            fault,
            rng: Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            queued: false,
            kept: VecDeque::new(),
            sent: VecDeque::new(),
            next: 0,
            executed: Vec::new(),
            answered: Vec::new(),
            elsewhere: None,
            withheld: None,
            full: false,
            executed_while_full: false,
            ended: false,
            closed: false,
        }
    }

    fn send(&mut self) {
        if !self.ended {
            self.sent.push_back(self.next);
            self.next += 1;
        }
    }

    /// The socket is readable: reads some of the sent requests and executes them as a batch.
    fn readable(&mut self) {
        let reads = match self.fault {
            Fault::ReadsWhileReady => matches!(self.machine, State::Reading | State::Ready),
            _ => self.machine.reads(),
        };
        if self.sent.is_empty() {
            if self.ended {
                self.peer_ended();
            }
            return;
        }
        if !reads {
            return;
        }
        let count = 1 + self.rng.below(self.sent.len() as u64) as usize;
        let requests: Vec<u32> = self.sent.drain(..count).collect();
        self.execute(requests);
    }

    fn peer_ended(&mut self) {
        let early = self.fault == Fault::ClosesEarly;
        if early || self.machine.peer_ended() == Ended::Close {
            self.closed = true;
        }
    }

    /// The thread processes its queue.
    fn take_up(&mut self) {
        if !std::mem::take(&mut self.queued) {
            return;
        }
        let has = !self.kept.is_empty();
        let by_fault = self.fault == Fault::TakesUpAnything && has;
        if self.machine.dequeue(has) || by_fault {
            let requests: Vec<u32> = self.kept.drain(..).collect();
            self.execute(requests);
        }
    }

    fn execute(&mut self, requests: Vec<u32>) {
        self.executed_while_full |= self.full;
        if self.fault == Fault::None {
            self.machine.batched();
        } else {
            self.machine = State::Executing;
        }
        let mut left: VecDeque<u32> = requests.into();
        let how = loop {
            let Some(request) = left.front().copied() else { break Executed::All };
            match self.rng.below(14) {
                0 => break Executed::Parked,
                1 => break Executed::Again,
                2 => break Executed::Paused,
                3 => {
                    self.run(left.pop_front());
                    self.elsewhere = Some(request);
                    break if self.rng.below(2) == 0 {
                        Executed::Slow(request)
                    } else {
                        Executed::Blocked(request)
                    };
                }
                4 => {
                    self.run(left.pop_front());
                    self.withheld = Some((u64::from(request), request));
                    break Executed::Withheld(u64::from(request));
                }
                _ => {
                    self.run(left.pop_front());
                    self.answered.push(request);
                }
            }
        };
        left.extend(self.kept.drain(..));
        self.kept = left;
        if self.machine.executed(how) {
            self.queued = true;
        }
    }

    fn run(&mut self, request: Option<u32>) {
        self.executed.extend(request);
    }

    /// An event that the connection may be waiting for.
    fn event(&mut self, by: Awaited) {
        if self.fault == Fault::DropsWakeUps && by == Awaited::Shard {
            let _ = self.machine.resumed(by);
            return;
        }
        let is_its = match by {
            Awaited::Slow => matches!(self.machine, State::Slow(_)),
            Awaited::Key => matches!(self.machine, State::Waiting(_)),
            Awaited::Durable(upto) => self.withheld.is_some_and(|(number, _)| number <= upto),
            Awaited::Shard | Awaited::Pause | Awaited::Output => false,
        };
        self.full &= by != Awaited::Output;
        let by_fault = self.fault == Fault::ResumesOnAnything && !self.machine.is_in_batch();
        if self.machine.resumed(by) || by_fault {
            if by_fault {
                self.machine = State::Ready;
            }
            self.queued = true;
            if is_its {
                let (elsewhere, withheld) = (self.elsewhere.take(), self.withheld.take());
                self.answered.extend(elsewhere.or(withheld.map(|(_, request)| request)));
            }
        }
    }

    /// A command in the slow lane blocks on a key or is paused.
    fn slow_command_changes(&mut self) {
        let State::Slow(request) = self.machine else { return };
        if self.rng.below(2) == 0 {
            assert!(self.machine.waits_after_all(request));
        } else {
            assert!(self.machine.pause_after_slow());
            // The command has not run: it is kept, before all others.
            assert_eq!(self.executed.pop(), Some(request));
            self.elsewhere = None;
            self.kept.push_front(request);
        }
    }

    fn step(&mut self) {
        match self.rng.below(12) {
            0 | 1 => self.send(),
            2 | 3 => self.readable(),
            4 | 5 => self.take_up(),
            6 => self.event(Awaited::Shard),
            7 => self.event(Awaited::Slow),
            8 => self.event(Awaited::Key),
            9 => self.event(Awaited::Pause),
            10 => match self.rng.below(4) {
                0 => self.full |= self.machine.filled(),
                1 => self.event(Awaited::Output),
                _ => {
                    let upto = self.rng.below(u64::from(self.next) + 1);
                    self.event(Awaited::Durable(upto));
                }
            },
            _ => self.slow_command_changes(),
        }
    }

    /// Sends every possible event and runs the thread, until no more can happen.
    fn settle(&mut self) {
        for _ in 0..40 * (self.next + 2) {
            for by in [
                Awaited::Shard,
                Awaited::Slow,
                Awaited::Key,
                Awaited::Pause,
                Awaited::Output,
                Awaited::Durable(u64::MAX),
            ] {
                self.event(by);
            }
            self.take_up();
            self.readable();
        }
    }

    fn check(&self) -> Result<(), String> {
        let in_order = |all: &[u32]| all.iter().copied().eq(0..all.len() as u32);
        if !in_order(&self.executed) {
            return Err(format!("executed out of order: {:?}", self.executed));
        }
        if !in_order(&self.answered) {
            return Err(format!("answered out of order: {:?}", self.answered));
        }
        if self.executed_while_full {
            return Err("requests were executed for a client that accepts no replies".into());
        }
        if matches!(self.machine, State::Ready) && !self.queued && !self.closed {
            return Err("ready but not queued".into());
        }
        if self.elsewhere.is_some()
            && !matches!(self.machine, State::Slow(_) | State::Waiting(_))
            && !self.closed
        {
            return Err(format!("{:?} while its command is on another thread", self.machine));
        }
        Ok(())
    }
}

/// Runs random events. Then the client ends, all events occur, and all requests must be answered.
fn run(seed: u64, fault: Fault) -> Result<(), String> {
    let mut driver = Driver::new(seed, fault);
    for _ in 0..60 {
        driver.step();
        driver.check()?;
    }
    driver.ended = seed.is_multiple_of(2);
    for _ in 0..10 {
        // A client that hangs up while it is blocked or paused is closed.
        if driver.ended && !matches!(driver.machine, State::Waiting(_) | State::Paused) {
            driver.readable();
        }
        driver.check()?;
    }
    let mut left = 4;
    while left > 0 && !driver.closed {
        left -= 1;
        driver.settle();
        driver.check()?;
    }
    let all = driver.answered.len() as u32 == driver.next;
    let may_be_cut = driver.closed && !matches!(fault, Fault::ClosesEarly);
    if !all && !may_be_cut {
        return Err(format!(
            "{} of {} answered in {:?}, {} kept, {} unread",
            driver.answered.len(),
            driver.next,
            driver.machine,
            driver.kept.len(),
            driver.sent.len()
        ));
    }
    Ok(())
}

const RUNS: u64 = 20_000;

#[test]
fn requests_are_executed_and_answered_once_and_in_order() {
    for seed in 0..RUNS {
        run(seed, Fault::None).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

#[test]
fn every_planted_fault_is_found() {
    for fault in [
        Fault::ReadsWhileReady,
        Fault::TakesUpAnything,
        Fault::DropsWakeUps,
        Fault::ClosesEarly,
        Fault::ResumesOnAnything,
    ] {
        assert!((0..RUNS).any(|seed| run(seed, fault).is_err()), "{fault:?} is not found");
    }
}

#[test]
fn interest_follows_from_the_state() {
    let states: [(Machine, (bool, bool), Ended); 10] = [
        (State::Reading, (true, false), Ended::Close),
        (State::Ready, (true, false), Ended::Later),
        (State::Executing, (true, false), Ended::Later),
        (State::Parked, (false, false), Ended::Later),
        (State::Slow(1), (false, false), Ended::Later),
        (State::Waiting(1), (true, true), Ended::Close),
        (State::Paused, (true, true), Ended::Close),
        (State::Withheld(1), (false, false), Ended::Later),
        (State::Full, (false, false), Ended::Later),
        (State::Closing, (false, false), Ended::Later),
    ];
    for (mut machine, want, ended) in states {
        let reads = (machine.watches_input(), machine.reads_ahead());
        assert_eq!((reads, machine.peer_ended()), (want, ended), "{machine:?}");
        machine.close();
        assert!(machine.is_closing() && !machine.reads() && !machine.reads_ahead());
    }
}
