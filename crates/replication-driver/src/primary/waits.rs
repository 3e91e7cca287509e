//! WAIT, and WAITAOF for replicas: clients that wait until their writes are replicated or durable.
//!
//! A session remembers its last unit of the effect log. The unit's end in the stream is known once
//! weft-repl has read it ([`Marks`]). From then on it is compared with the acknowledged offsets,
//! and replicas are asked to acknowledge at once.
//!
//! The client's thread handles the timeout, as for any blocked client, and asks here for the reply.

use crate::{Hub, State, pass_event};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_durability::aof::aof;
use weft_executor::blocking;
use weft_replication::primary::{Done, Goal, Waits};
use weft_resp::Reply;
use weft_state::server::Server;
use weft_state::waiting::Waiting;

/// Number of marks kept.
const MARKS: usize = 4096;

/// Recent units of the effect log with their ends in the stream.
#[derive(Debug, Default)]
pub struct Marks {
    /// Units and offsets, both ascending. A unit between two marks counts with the later one.
    ends: VecDeque<(u64, u64)>,
    /// The last unit before the stream began.
    began: u64,
}

impl Marks {
    /// The stream begins at this offset, after this unit. Earlier units are in the stream up to
    /// there, or in the copy that a replica gets. A replica that has acknowledged less may lack
    /// them, because it may have lagged behind when this server was a primary before.
    pub fn begin(&mut self, unit: u64, offset: u64) {
        *self = Marks { ends: VecDeque::from([(unit, offset)]), began: unit };
    }

    /// All units up to this one are in the stream, which ends at this offset.
    pub fn note(&mut self, unit: u64, offset: u64) {
        if self.ends.back().is_some_and(|(last, _)| *last >= unit) {
            return;
        }
        // `unit_through` needs ascending offsets.
        debug_assert!(self.ends.back().is_none_or(|(_, end)| *end <= offset));
        if self.ends.len() == MARKS {
            self.ends.pop_front();
        }
        self.ends.push_back((unit, offset));
    }

    /// The last unit before the stream began.
    pub fn began(&self) -> u64 {
        self.began
    }

    /// The last unit of the stream, or 0.
    pub fn last_unit(&self) -> u64 {
        self.ends.back().map_or(0, |(unit, _)| *unit)
    }

    /// The greatest known unit such that the stream up to `offset` includes it and all units before it; 0: none is known.
    /// O(log(marks)).
    pub fn unit_through(&self, offset: u64) -> u64 {
        let after = self.ends.partition_point(|(_, end)| *end <= offset);
        after.checked_sub(1).map_or(0, |at| self.ends[at].0)
    }

    /// An offset of the stream that includes the unit, possibly slightly beyond its end. `None`:
    /// the stream doesn't have it yet. Unit 0 is that of a client without writes. O(log(marks)).
    pub fn offset(&self, unit: u64) -> Option<u64> {
        if unit == 0 {
            return Some(0);
        }
        let at = self.ends.partition_point(|(end, _)| *end < unit);
        self.ends.get(at).map(|(_, offset)| *offset)
    }
}

#[derive(Debug)]
struct Waiter {
    waiting: Arc<Waiting>,
    /// The client's last unit.
    unit: u64,
    goal: Goal,
    /// Replicas were asked to acknowledge it.
    has_asked: bool,
}

/// The waiting clients.
#[derive(Debug, Default)]
pub struct Waiters {
    all: Vec<Waiter>,
    pub marks: Marks,
}

impl Waiters {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// Evaluates a goal.
fn evaluate(srv: &Server, state: &State, unit: u64, goal: Goal) -> (bool, Done) {
    // No replica has a unit that isn't in the stream yet.
    let offset = state.replicas.waiters.marks.offset(unit).unwrap_or(u64::MAX);
    let (local, durable) = match aof(srv).is_on() {
        true => (unit, aof(srv).durable()),
        false => (u64::MAX, 0),
    };
    Waits::<()>::evaluate(goal, state.node.primary(), offset, local, durable)
}

/// Appends the reply for a client.
pub fn answer(reply: &mut Reply, done: Done) {
    match done {
        Done::Replicas(replicas) => reply.int(replicas as i64),
        Done::Disk { local, replicas } => {
            reply.array(2);
            reply.int(local as i64);
            reply.int(replicas as i64);
        }
    }
}

impl Hub {
    /// Evaluates a client's goal for its last unit. If it is not reached, the client blocks with
    /// the result of `waiting`, unless that is `None`. Returns `None` if this server is a replica
    /// by now.
    pub fn wait(
        &self,
        srv: &'static Server,
        unit: u64,
        goal: Goal,
        waiting: impl FnOnce() -> Option<Arc<Waiting>>,
    ) -> Option<(Done, Option<Arc<Waiting>>)> {
        let mut state = self.up_to_date(srv);
        if !state.node.is_primary() {
            return None;
        }
        let (reached, done) = evaluate(srv, &state, unit, goal);
        let waiting = if reached { None } else { waiting() };
        if let Some(waiting) = &waiting {
            // Lets CLIENT UNBLOCK and similar commands find it.
            srv.clients.blocked.enter(&srv.ks, waiting);
            let waiter = Waiter { waiting: waiting.clone(), unit, goal, has_asked: false };
            state.replicas.waiters.all.push(waiter);
            self.published.has_waits.store(true, Ordering::SeqCst);
            check_waiters(srv, &mut state);
        }
        self.finish(srv, state);
        Some((done, waiting))
    }

    /// Number of replicas that have reported everything up to `unit` as durable. Doesn't ask them.
    pub fn replicas_on_disk(&self, srv: &Server, unit: u64) -> i64 {
        let state = self.lock();
        if !state.node.is_primary() {
            return 0;
        }
        match evaluate(srv, &state, unit, Goal::Disk { local: false, replicas: 0 }).1 {
            Done::Disk { replicas, .. } => replicas as i64,
            Done::Replicas(_) => 0,
        }
    }

    /// The reply for a client whose timeout has passed, if it waits for replicas. It may have been
    /// removed from the waiting clients already, because it has given up.
    pub fn result_at_timeout(&self, srv: &Server, waiting: &Arc<Waiting>) -> Option<Done> {
        let (unit, goal) = waiting.replicas?;
        let mut state = self.lock();
        state.replicas.waiters.all.retain(|waiter| !Arc::ptr_eq(&waiter.waiting, waiting));
        Some(evaluate(srv, &state, unit, goal).1)
    }

    /// The append-only file was switched off: refuses clients that wait for this server's disk with
    /// the error `text`.
    pub fn refuse_local(&self, srv: &'static Server, text: &str) {
        if !self.published.has_waits.load(Ordering::SeqCst) {
            return;
        }
        let mut state = self.lock();
        state.replicas.waiters.all.retain(|waiter| {
            let is_local = matches!(waiter.goal, Goal::Disk { local: true, .. });
            if is_local && waiter.waiting.state.give_up() {
                blocking::answer(srv, &waiter.waiting, |reply| reply.error(text.as_bytes()));
            }
            !is_local
        });
    }

    /// More units are durable on this server's disk.
    pub fn is_durable(&self, srv: &'static Server) {
        self.note_durable(aof(srv).durable());
        if self.published.has_waits.load(Ordering::SeqCst) {
            self.wake(srv);
        }
    }
}

/// Replies to the clients whose goal is reached, and asks replicas to acknowledge for the others.
/// O(waiting clients * replicas).
pub fn check_waiters(srv: &'static Server, state: &mut State) {
    if state.replicas.waiters.all.is_empty() {
        return;
    }
    let mut asks = false;
    let mut all = std::mem::take(&mut state.replicas.waiters.all);
    all.retain_mut(|waiter| {
        if waiter.waiting.state.is_over() {
            return false;
        }
        let (reached, done) = evaluate(srv, state, waiter.unit, waiter.goal);
        if reached {
            if waiter.waiting.state.give_up() {
                blocking::answer(srv, &waiter.waiting, |reply| answer(reply, done));
            }
            return false;
        }
        if !waiter.has_asked && state.replicas.waiters.marks.offset(waiter.unit).is_some() {
            (waiter.has_asked, asks) = (true, true);
        }
        true
    });
    srv.nodes.replication.has_waits.store(!all.is_empty(), Ordering::SeqCst);
    state.replicas.waiters.all = all;
    if asks {
        pass_event(srv, state, |node, now, out| node.request_acks(now, out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_counts_with_the_next_mark() {
        let mut marks = Marks::default();
        marks.begin(10, 50);
        assert_eq!((marks.offset(0), marks.offset(1)), (Some(0), Some(50)));
        assert_eq!((marks.offset(10), marks.offset(11)), (Some(50), None));
        marks.note(12, 100);
        marks.note(12, 200);
        marks.note(20, 300);
        assert_eq!((marks.offset(11), marks.offset(12)), (Some(100), Some(100)));
        assert_eq!(
            (marks.offset(13), marks.offset(20), marks.offset(21)),
            (Some(300), Some(300), None)
        );
        assert_eq!(
            [49, 50, 99, 100, 299, 300].map(|offset| marks.unit_through(offset)),
            [0, 10, 10, 12, 12, 20]
        );
        assert_eq!(marks.last_unit(), 20);
        for unit in 21..21 + 2 * MARKS as u64 {
            marks.note(unit, 20 * unit);
        }
        let oldest = 21 + MARKS as u64;
        assert_eq!(marks.offset(11), Some(20 * oldest), "a dropped unit counts as the oldest mark");
        assert_eq!(marks.unit_through(20 * oldest - 1), 0, "earlier units are not known any more");
        marks.begin(50_000, 700_000);
        assert_eq!((marks.offset(50_000), marks.offset(50_001)), (Some(700_000), None));
    }
}
