//! Replies that need the authority of this node's lease: [`weft_state::authority`].
//!
//! They are checked when they are passed to the connection's output, after their commands have executed. Withheld replies are
//! checked when they are released. Bytes that wait for the socket have passed the check, and are sent as a slow network
//! would send them. If authority is missing, the connection is closed: the client doesn't know the results of its requests,
//! which is true.

use crate::worker::Worker;
use crate::worker::events::CALL;
use std::cmp::Reverse;
use weft_executor::authority;
use weft_process::log_warning;
use weft_pubsub::run::Run;
use weft_resp::Reply;
use weft_state::authority::NO_TERM;
use weft_state::conn::{Conn, State};

/// Whether a command of the client is not complete.
fn has_command_elsewhere(conn: &Conn) -> bool {
    match conn.state {
        State::Slow(_) | State::Waiting(_) => true,
        State::Reading
        | State::Ready
        | State::Executing
        | State::Parked
        | State::Paused
        | State::Withheld(_)
        | State::Full
        | State::Closing => false,
    }
}

impl Worker {
    /// Whether replies of the connection need authority.
    #[inline]
    pub(super) fn needs_authority(&self, index: usize) -> bool {
        let conn = &self.conns[index];
        conn.session.replies.term | conn.output.term != NO_TERM
    }

    /// Closes the connection, unless `reply` may leave. Returns whether it may.
    #[cold]
    pub(super) fn check_authority(&mut self, index: usize, reply: &mut Reply) -> bool {
        let srv = self.core.srv;
        let conn = &mut self.conns[index];
        let new = std::mem::replace(&mut conn.session.replies.term, NO_TERM);
        // The term of withheld replies is the earlier one.
        let term = if conn.output.term == NO_TERM { new } else { conn.output.term };
        let is_withheld = conn.output.withheld != 0;
        let keeps = is_withheld || has_command_elsewhere(conn);
        conn.output.term = if keeps { term } else { NO_TERM };
        if is_withheld || reply.is_empty() || srv.may_acknowledge(term) {
            return true;
        }
        reply.clear();
        self.close_unacknowledged(index);
        false
    }

    /// Whether withheld replies that are released now may leave. Closes the connection otherwise.
    #[cold]
    pub(super) fn check_released(&mut self, index: usize) -> bool {
        let srv = self.core.srv;
        let conn = &mut self.conns[index];
        let term = conn.output.term;
        if !has_command_elsewhere(conn) {
            conn.output.term = NO_TERM;
        }
        if !conn.has_output() || srv.may_acknowledge(term) {
            return true;
        }
        self.close_unacknowledged(index);
        false
    }

    /// Replies that are withheld from here on need authority, though their commands have recorded no term.
    pub(super) fn note_withheld(&mut self, index: usize) {
        let srv = self.core.srv;
        if authority::is_required(srv) && !self.needs_authority(index) {
            self.conns[index].output.term = srv.nodes.cluster.authority.term();
        }
    }

    /// The blocked client of a connection gets a reply that was made in `term`.
    pub(super) fn set_term(&mut self, index: usize, term: u64) {
        let output = &mut self.conns[index].output;
        if output.term != NO_TERM && output.withheld == 0 {
            output.term = term;
        }
    }

    /// A term has ended without a result for the writes in it: closes the connections that wait for one. Returns the cost.
    #[cold]
    pub(super) fn end_withheld(&mut self) -> usize {
        let term = self.core.srv.nodes.cluster.authority.term();
        let all = std::mem::take(&mut self.withheld).into_vec();
        let cost = CALL * (1 + all.len());
        for Reverse((unit, token)) in all {
            let Some(index) = self.find(token) else { continue };
            let output = &self.conns[index].output;
            if output.term != NO_TERM && output.term != term {
                self.close_unacknowledged(index);
            } else {
                self.withheld.push(Reverse((unit, token)));
            }
        }
        cost
    }

    /// Whether messages on a shard channel may be delivered. Closes their receivers otherwise.
    #[inline]
    pub(super) fn may_deliver(&mut self, run: &Run) -> bool {
        !authority::binds_messages(self.core.srv) || self.check_messages(run)
    }

    #[cold]
    fn check_messages(&mut self, run: &Run) -> bool {
        let srv = self.core.srv;
        if !run.needs_authority() || srv.nodes.cluster.authority.lasts(srv.mono_ms()) {
            return true;
        }
        for (_, message) in run.each() {
            for (_, ids) in message.parts() {
                for id in ids.iter() {
                    if let Some(index) = self.conns.index_of(*id) {
                        self.close_unacknowledged(index);
                    }
                }
            }
        }
        false
    }

    fn close_unacknowledged(&mut self, index: usize) {
        let srv = self.core.srv;
        if srv.nodes.cluster.authority.count_closed(srv.mono_ms()) {
            log_warning!(
                "Closing connections without a reply: this node has no lease of the cluster's store, or leads no more."
            );
        }
        self.close(index);
    }
}
