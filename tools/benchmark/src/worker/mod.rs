//! A generator thread: one epoll loop over its share of the connections.
//!
//! ```text
//!            ┌──────────────────────────────────────────────┐
//!            ▼                                              │
//!  epoll ─► one read ─► skip replies, note latencies ─► all read?
//!                       (one reading of the clock)          │ yes
//!                                                           ▼
//!                  open loop: wait in a queue until a     patch digits, one write
//!                  request is due, a timer wakes
//! ```
//!
//! A batch of a connection takes one read, one write, one reading of the clock and one record in
//! the histogram. Descriptors are registered once for input, and for output only while the socket
//! is full. Requests of one kind are laid out once, and then only their digits change.
//!
//! A latency ends when the read of the reply's end returns. It begins, in a closed loop, just
//! before the write, and in an open loop at the request's due time.

mod conn;
mod redirect;
mod send;

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use crate::cluster::Follower;
use crate::cpu;
use crate::keys::Drawer;
use crate::plan::{Plan, Quota, Shared};
use crate::schedule::Schedule;
use crate::skipper::Types;
use crate::stream::{INPUT, NonBlocking};
use crate::suite::Kind;
use crate::tally::Tally;
use crate::verify::Verifier;
use conn::{Conn, Flight, GREETING, Phase};

/// How often counts are passed on.
pub const TICK_NS: u64 = 250_000_000;

/// The timeout of replies after the last request.
const DRAIN_NS: u64 = 30_000_000_000;

/// The timer's token among the connections.
const TIMER: u64 = u64::MAX;

/// A thread's message to the reporting thread.
#[derive(Debug)]
pub enum Message {
    /// The warm-up is over.
    Begun,
    /// Counts since the last time, and whether the warm-up was over.
    Counts(Tally, bool),
    /// The thread is done: its index and its usage.
    Done(usize, Usage),
    /// The run cannot continue.
    Failed(String),
}

/// The time that a thread used while it counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub wall_ns: u64,
    pub cpu_ns: u64,
    /// Waiting for the server, or for the due time of the next request.
    pub idle_ns: u64,
}

impl Usage {
    /// The share of the time in which it could not have done more: on the CPU, or waiting for one.
    pub fn busy(&self) -> f64 {
        let wall = self.wall_ns.max(1) as f64;
        let on_cpu = self.cpu_ns as f64 / wall;
        let not_idle = 1.0 - self.idle_ns as f64 / wall;
        on_cpu.max(not_idle).clamp(0.0, 1.0)
    }
}

/// A generator thread's state.
pub struct Worker {
    plan: Arc<Plan>,
    shared: Arc<Shared>,
    index: usize,
    reports: Sender<Message>,
    epoll: OwnedFd,
    timer: Option<(OwnedFd, u64)>,
    conns: Vec<Conn>,
    drawer: Drawer,
    quota: Quota,
    schedule: Option<Schedule>,
    /// Connections without requests in flight, in an open loop.
    free: VecDeque<usize>,
    follower: Option<Follower>,
    /// Requests of the only kind, one after the other.
    prepared: Vec<u8>,
    laid_count: usize,
    /// A batch under construction.
    batch: Vec<u8>,
    tally: Tally,
    begun: bool,
    begin_ns: u64,
    end_ns: u64,
    next_tick_ns: u64,
    /// No more requests are sent.
    is_over: bool,
    open: u64,
    usage: Usage,
    last_reply_ns: u64,
}

/// The reason for an early end, as text.
pub type Failure = String;

impl Worker {
    /// Takes over connections, with the indexes of their nodes.
    ///
    /// # Errors
    /// If the kernel has no more descriptors.
    pub fn new(
        plan: Arc<Plan>,
        shared: Arc<Shared>,
        index: usize,
        start_ns: u64,
        streams: Vec<(NonBlocking, usize)>,
        reports: Sender<Message>,
    ) -> std::io::Result<Worker> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let conns: Vec<Conn> = streams
            .into_iter()
            .map(|(stream, node)| Conn::new(stream, Phase::Open, node))
            .collect();
        for (i, conn) in conns.iter().enumerate() {
            let data = epoll::EventData::new_u64(i as u64);
            epoll::add(&epoll, &conn.stream, data, epoll::EventFlags::IN)?;
        }
        let mut timer = None;
        if plan.rate.is_some() {
            let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
            let data = epoll::EventData::new_u64(TIMER);
            epoll::add(&epoll, &fd, data, epoll::EventFlags::IN)?;
            timer = Some((fd, 0));
        }
        let seed = plan.seed.wrapping_add(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(index as u64));
        let begin_ns = start_ns + plan.warmup_ns;
        let end_ns = plan.duration_ns.map_or(u64::MAX, |duration| begin_ns + duration);
        Ok(Worker {
            drawer: Drawer::new(plan.keys, plan.keyspace, seed, Arc::clone(&plan.counters)),
            quota: Quota::new(&plan),
            schedule: plan.rate.map(|rate| Schedule::new(start_ns, rate, index, plan.threads)),
            follower: plan.cluster.clone().map(Follower::new),
            tally: Tally::new(plan.test.kinds.len(), plan.precision),
            index,
            shared,
            reports,
            epoll,
            timer,
            conns,
            free: VecDeque::new(),
            prepared: Vec::new(),
            laid_count: 0,
            batch: Vec::new(),
            begun: false,
            begin_ns,
            end_ns,
            next_tick_ns: start_ns + TICK_NS,
            is_over: false,
            open: 0,
            usage: Usage::default(),
            last_reply_ns: start_ns,
            plan,
        })
    }

    /// Runs to the end and reports it.
    pub fn run(mut self) {
        let ended = self.work();
        // The receiver is gone if the run has failed elsewhere.
        let _ = match ended {
            Ok(()) => self.reports.send(Message::Done(self.index, self.usage)),
            Err(failure) => {
                self.shared.stop();
                self.reports.send(Message::Failed(failure))
            }
        };
    }

    fn work(&mut self) -> Result<(), Failure> {
        let mut events = Vec::with_capacity(self.conns.len().clamp(16, 1024) + 1);
        let mut input = vec![0; INPUT];
        let (mut wall, mut cpu_start) = (self.now(), cpu::own_ns());
        // Without a warm-up counting begins before the first request is sent.
        self.tick(wall)?;
        for i in 0..self.conns.len() {
            self.on_free(i, wall)?;
        }
        loop {
            let before = self.now();
            if self.tick(before)? {
                (wall, cpu_start) = (before, cpu::own_ns());
                self.usage = Usage::default();
            }
            self.dispatch(before)?;
            if (self.is_over && self.open == 0) || self.shared.is_stopped() {
                break;
            }
            self.wait(&mut events, before)?;
            for event in events.drain(..) {
                self.on_event(event, &mut input)?;
            }
        }
        self.usage.wall_ns = self.now() - wall;
        self.usage.cpu_ns = cpu::own_ns() - cpu_start;
        self.hand_over();
        Ok(())
    }

    #[inline]
    fn now(&self) -> u64 {
        self.plan.clock.mono_ns()
    }

    /// Waits for events.
    fn wait(&mut self, events: &mut Vec<epoll::Event>, before: u64) -> Result<(), Failure> {
        let until = self.next_tick_ns.min(self.next_change()).saturating_sub(before);
        // A full millisecond more, so that the time has come when it ends.
        let until = until + 1_000_000;
        let timeout = Timespec {
            tv_sec: (until / 1_000_000_000) as i64,
            tv_nsec: (until % 1_000_000_000) as i64,
        };
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(format!("Error: epoll: {e}")),
        }
        self.usage.idle_ns += self.now() - before;
        Ok(())
    }

    /// The next end of the warm-up or of the run.
    fn next_change(&self) -> u64 {
        if !self.begun {
            self.begin_ns
        } else if !self.is_over {
            self.end_ns
        } else {
            u64::MAX
        }
    }

    /// Does the work that is due; returns true when counting begins.
    fn tick(&mut self, now: u64) -> Result<bool, Failure> {
        if now >= self.next_tick_ns {
            self.hand_over();
            self.next_tick_ns = now + TICK_NS;
        }
        if self.schedule.is_none() && now >= self.end_ns {
            self.is_over = true;
        }
        let silence = now.saturating_sub(self.last_reply_ns.max(self.end_of_requests()));
        let is_late = self.is_over || now >= self.end_ns;
        if is_late && self.open > 0 && silence > DRAIN_NS {
            let seconds = DRAIN_NS / 1_000_000_000;
            return Err(format!(
                "Error: the server does not answer: {} requests are open after {seconds} s",
                self.open
            ));
        }
        if self.begun || now < self.begin_ns {
            return Ok(false);
        }
        self.begun = true;
        self.tally.clear();
        let _ = self.reports.send(Message::Begun);
        Ok(true)
    }

    /// The time from which missing replies are an error.
    fn end_of_requests(&self) -> u64 {
        if self.end_ns == u64::MAX { 0 } else { self.end_ns }
    }

    fn hand_over(&mut self) {
        let fresh = Tally::new(self.plan.test.kinds.len(), self.plan.precision);
        let counts = std::mem::replace(&mut self.tally, fresh);
        let _ = self.reports.send(Message::Counts(counts, self.begun));
    }

    fn on_event(&mut self, event: epoll::Event, input: &mut [u8]) -> Result<(), Failure> {
        let data = event.data.u64();
        if data == TIMER {
            // Read only to reset it; the clock decides which requests are due.
            if let Some((timer, armed)) = &mut self.timer {
                let _ = rustix::io::read(timer, &mut [0u8; 8]);
                *armed = 0;
            }
            return Ok(());
        }
        let (i, flags) = (data as usize, event.flags);
        if flags.contains(epoll::EventFlags::OUT) {
            self.on_writable(i)?;
        }
        // An error or a hang-up shows when reading.
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR)
        {
            self.on_readable(i, input)?;
        }
        Ok(())
    }

    fn on_readable(&mut self, i: usize, input: &mut [u8]) -> Result<(), Failure> {
        let read = match self.conns[i].stream.recv(input) {
            Ok(0) => return Err("Error: Server closed the connection".to_string()),
            Ok(read) => read,
            // Possibly part of a handshake, but not a reply.
            Err(e) if e.kind() == ErrorKind::WouldBlock => return self.on_progress(i),
            Err(e) => return Err(format!("Error: {e}")),
        };
        self.settle(i)?;
        let now = self.now();
        let mut rest = &input[..read];
        let mut last = GREETING;
        // Equal latencies are recorded once.
        let mut alike: Option<(Flight, u64)> = None;
        while let Some(reply) = self.next_reply(i, &mut rest)? {
            if reply == Types::PUSH {
                continue;
            }
            let Some(&flight) = self.conns[i].next() else {
                return Err("Error: the server sent a reply without a request".to_string());
            };
            self.open -= 1;
            last = flight.kind;
            self.conns[i].arrive();
            if !self.is_good(i, &flight, reply, now)? {
                continue;
            }
            match &mut alike {
                Some((of, count)) if of.due_ns == flight.due_ns && of.kind == flight.kind => {
                    *count += 1;
                }
                _ => {
                    self.record(alike.replace((flight, 1)), now);
                }
            }
        }
        self.record(alike, now);
        self.last_reply_ns = now;
        // A connection that was only greeted has been free since it was established.
        if last != GREETING && self.conns[i].in_flight() == 0 {
            if self.plan.keepalive {
                self.on_free(i, now)?;
            } else if !self.is_over {
                self.reconnect(i)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn next_reply(&mut self, i: usize, rest: &mut &[u8]) -> Result<Option<Types>, Failure> {
        let conn = &mut self.conns[i];
        let next = if self.plan.verify {
            let kind = conn.next().map_or(GREETING, |flight| flight.kind);
            let check = self.plan.test.kinds.get(usize::from(kind)).map(|kind| kind.check);
            let mut verifier = Verifier {
                check: check.unwrap_or(crate::verify::Check::Nothing),
                content: &self.plan.content,
                progress: &mut conn.progress,
                keys: &mut conn.keys,
            };
            conn.skipper.next(rest, &mut verifier)
        } else {
            conn.skipper.next(rest, &mut ())
        };
        next.map_err(|malformed| format!("Error: {}", malformed.0))
    }

    #[inline]
    fn record(&mut self, alike: Option<(Flight, u64)>, now: u64) {
        if let Some((flight, count)) = alike
            && (flight.counted || !self.begun)
            && flight.kind != GREETING
        {
            let latency = now.saturating_sub(flight.due_ns).max(1);
            self.tally.latencies[usize::from(flight.kind)].saturating_record_n(latency, count);
            self.tally.last_ns = now;
        }
    }

    /// Whether a reply is as expected; otherwise it is counted, or ends the run.
    #[inline]
    fn is_good(
        &mut self,
        i: usize,
        flight: &Flight,
        reply: Types,
        now: u64,
    ) -> Result<bool, Failure> {
        let mut wrong = false;
        if self.plan.verify {
            let kind = self.plan.test.kinds.get(usize::from(flight.kind));
            let conn = &mut self.conns[i];
            wrong = conn.progress.finish(kind.map_or(0, Kind::keys), &mut conn.keys);
        }
        let request = match self.follower {
            Some(_) if flight.kind != GREETING => self.conns[i].requests.pop_front(),
            _ => None,
        };
        if flight.expect.meets(reply) && !wrong {
            return Ok(true);
        }
        self.on_bad(i, flight, reply, request, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_the_time_without_waiting() {
        let usage = |cpu_ns, idle_ns| Usage { wall_ns: 100, cpu_ns, idle_ns }.busy();
        assert_eq!(usage(20, 80), 0.2);
        assert_eq!(usage(50, 80), 0.5, "waiting costs CPU too");
        assert_eq!(usage(50, 0), 1.0, "another process had the CPU");
        assert_eq!(Usage::default().busy(), 1.0);
    }
}
