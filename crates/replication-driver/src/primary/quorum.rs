//! `cluster-write-quorum`: the reply of a write leaves when the cluster has confirmed the write.
//!
//! ```text
//!  a write ─► its unit is above `Bound::Quorum`: the reply is withheld
//!  weft-repl ─► the unit is in the stream ([`Marks`]) ─► GETACK, unless the last one is unanswered
//!  REPLCONF ACK ─► the cluster's machine ─► Hub::confirm(offset) ─► the bound rises ─► the reply leaves
//! ```
//!
//! Only [`Hub::confirm`] raises the bound. Without replicas, writes wait. Reads are not delayed: they may return a write that
//! is not confirmed yet.
//!
//! The stream is kept from the beginning of the quorum, with or without replicas: a write that is not in the log has no unit,
//! and its reply would not wait.

use crate::primary::waits::Marks;
use crate::{Hub, State, pass_event, thread};
use weft_state::answers::{Bound, NONE};
use weft_state::attention;
use weft_state::mailbox::Message;
use weft_state::server::Server;

/// The state of the quorum, under the mutex.
#[derive(Debug, Default)]
pub struct Quorum {
    is_on: bool,
    /// Units up to this one are confirmed.
    confirmed: u64,
    /// The last unit of the stream when replicas were asked to acknowledge.
    asked: u64,
}

impl Quorum {
    /// Whether writes wait for confirmations.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Units up to this one need no further question. No replica has to acknowledge the data before the beginning of the stream.
    fn settled(&self, marks: &Marks) -> u64 {
        self.confirmed.max(marks.began())
    }

    /// Whether writes of the stream are not confirmed.
    pub fn waits(&self, marks: &Marks) -> bool {
        self.is_on && marks.last_unit() > self.settled(marks)
    }

    /// Whether replicas must be asked, which is recorded. A question is answered when the writes before it are
    /// confirmed. Without replicas, the stream would not contain the question: the next replica is asked.
    fn asks(&mut self, marks: &Marks, has_replicas: bool) -> bool {
        let asks = has_replicas && self.waits(marks) && self.asked <= self.settled(marks);
        if asks {
            self.asked = marks.last_unit();
        }
        asks
    }
}

impl Hub {
    /// Withholds the replies of writes from here on until they are confirmed, or ends that. It is in force when this returns.
    /// Without it, replies that are withheld for a quorum leave: call [`Hub::abandon_unconfirmed`] first if this server no
    /// longer leads.
    ///
    /// The caller holds neither shards nor a lock that an implementation of the cluster takes.
    pub fn set_quorum(&self, srv: &'static Server, on: bool) {
        // Replies of writes need a term, so that they can be abandoned.
        if on {
            srv.set_attention(attention::LEASE, true);
        }
        srv.links.answers.set_holds_reads(on);
        let mut state = self.lock();
        if state.replicas.quorum.is_on != on {
            state.replicas.quorum = Quorum { is_on: on, ..Quorum::default() };
            let bound = if on { 0 } else { NONE };
            srv.links.answers.set(&srv.threads, Bound::Quorum, bound);
        }
        pass_event(srv, &mut state, |node, _, out| node.keep_stream(on, out));
        self.finish(srv, state);
        if !self.lock().pending.is_empty() {
            thread::with_world(srv);
        }
    }

    /// All writes up to this offset of the stream are confirmed: their replies leave. Ignored by a replica.
    ///
    /// The caller holds no lock that an implementation of the cluster takes.
    pub fn confirm(&self, srv: &'static Server, through: u64) {
        let mut state = self.lock();
        let unit = state.replicas.waiters.marks.unit_through(through);
        let is_primary = state.node.is_primary();
        let quorum = &mut state.replicas.quorum;
        if quorum.is_on && is_primary && unit > quorum.confirmed {
            quorum.confirmed = unit;
            srv.links.answers.set(&srv.threads, Bound::Quorum, unit);
        }
        self.finish(srv, state);
    }

    /// This server leads no longer, or leads again in another epoch. Replies to commands that have executed before never leave:
    /// their connections are closed. The caller has ended the execution of writes, or ends it before it leads again.
    pub fn abandon_unconfirmed(&self, srv: &'static Server) {
        srv.nodes.cluster.authority.end_term();
        srv.broadcast(|| Message::TermEnded);
    }
}

/// Asks replicas to acknowledge at once, if writes wait for that.
pub fn ask(srv: &'static Server, state: &mut State) {
    let has_replicas = state.node.primary().has_replicas();
    let replicas = &mut state.replicas;
    if replicas.quorum.asks(&replicas.waiters.marks, has_replicas) {
        pass_event(srv, state, |node, now, out| node.request_acks(now, out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_question_at_a_time() {
        let mut marks = Marks::default();
        marks.begin(10, 50);
        // A question of an earlier stream was never answered.
        let mut quorum = Quorum { is_on: true, confirmed: 3, asked: 7 };
        assert!(!quorum.asks(&marks, true), "nothing was written");
        marks.note(12, 100);
        assert!(quorum.asks(&marks, true) && !quorum.asks(&marks, true));
        marks.note(20, 200);
        assert!(!quorum.asks(&marks, true), "the first question is unanswered");
        quorum.confirmed = marks.unit_through(140);
        assert_eq!(quorum.confirmed, 12);
        assert!(quorum.waits(&marks) && quorum.asks(&marks, true) && !quorum.asks(&marks, true));
        quorum.confirmed = marks.unit_through(200);
        assert!(!quorum.waits(&marks) && !quorum.asks(&marks, true));
    }

    #[test]
    fn replica_that_comes_later_is_asked() {
        let mut marks = Marks::default();
        marks.begin(10, 50);
        marks.note(12, 100);
        let mut quorum = Quorum { is_on: true, ..Quorum::default() };
        assert!(!quorum.asks(&marks, false));
        assert!(quorum.asks(&marks, true));
    }

    #[test]
    fn no_question_without_a_quorum() {
        let mut marks = Marks::default();
        marks.begin(10, 50);
        marks.note(11, 60);
        assert!(!Quorum::default().asks(&marks, true));
    }
}
