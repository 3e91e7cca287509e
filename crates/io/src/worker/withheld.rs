//! Replies held back until their writes are safe on disk (`appendfsync always`), or until the
//! readers of the effect log have caught up ([`weft_state::answers`]).
//!
//! Meanwhile the thread serves its other connections. A connection with withheld replies is
//! suspended like one whose command runs on another thread, and later output to it queues after
//! those replies. The thread that releases replies notifies the threads that have registered as
//! withholding some.

use crate::worker::events::CALL;
use crate::worker::{Worker, token};
use std::cmp::Reverse;
use weft_net::lifecycle::Awaited;
use weft_state::inquiry::Inquiry;

impl Worker {
    /// Withholds a connection's replies, which depend on effect log unit `unit`, until that unit
    /// may be acknowledged. Returns whether they must wait.
    pub(super) fn withhold(&mut self, index: usize, unit: u64) -> bool {
        let session = &mut self.conns[index].session;
        session.last_unit = session.last_unit.max(unit);
        if self.core.srv.links.answers.may_send(unit) {
            return false;
        }
        let conn = &mut self.conns[index];
        conn.output.withheld = conn.output.withheld.max(unit);
        let token = token(index, conn.generation);
        self.note_withheld(index);
        self.withheld.push(Reverse((unit, token)));
        self.show_withheld();
        true
    }

    /// The unit on which the replies depend of commands that have logged up to `unit`.
    #[inline]
    pub(super) fn unit_of_replies(&self, index: usize, unit: u64) -> u64 {
        let srv = self.core.srv;
        match srv.links.answers.holds_reads() && self.needs_authority(index) {
            true => unit.max(srv.ks.log().last()),
            false => unit,
        }
    }

    /// Registers this thread as withholding replies, if it does, and sends those that need not wait
    /// any longer. Call it after all withheld replies are recorded.
    pub(super) fn release_withheld(&mut self) {
        if self.withheld.is_empty() {
            return;
        }
        let answers = &self.core.srv.links.answers;
        answers.set_withholding(self.core.id, true);
        // Read after the registration: units released before it are seen here, later ones cause a
        // notification.
        self.release_up_to(answers.upto());
    }

    /// Answers a question of the thread that changes this node's role. Returns the cost.
    pub(super) fn answer_inquiry(&mut self, inquiry: &Inquiry) -> usize {
        inquiry.answer(!self.withheld.is_empty());
        CALL
    }

    /// Sends the replies that may go after further units became durable.
    /// Returns the cost of the message that announced them.
    pub(super) fn handle_durable(&mut self) -> usize {
        self.release_up_to(self.core.srv.links.answers.upto());
        self.release_withheld();
        CALL
    }

    fn show_withheld(&self) {
        self.core.stats().event_loop.withheld.set(self.withheld.len() as u64);
    }

    fn release_up_to(&mut self, upto: u64) {
        while let Some(Reverse((unit, token))) = self.withheld.peek().copied()
            && unit <= upto
        {
            self.withheld.pop();
            // The connection may be closed, or wait for a later unit.
            let Some(index) = self.find(token) else { continue };
            if self.conns[index].output.withheld > upto {
                continue;
            }
            self.conns[index].output.withheld = 0;
            if self.needs_authority(index) && !self.check_released(index) {
                continue;
            }
            self.resume(index, Awaited::Durable(upto));
            self.on_writable(index);
        }
        self.show_withheld();
    }
}
