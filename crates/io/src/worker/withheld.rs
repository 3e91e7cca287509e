//! Answers that wait until what they tell of is safe on disk (`appendfsync always`), or until those who read the
//! log of effects have caught up ([`weft_state::answers`]).
//!
//! The thread goes on meanwhile, with all other connections. One whose answers wait is suspended like
//! one whose command is elsewhere, and what is answered to it until then waits behind them. Who has them go
//! tells the threads that have said that they wait.

use crate::worker::{Worker, token};
use std::cmp::Reverse;
use weft_net::lifecycle::Awaited;

impl Worker {
    /// What has been answered to a connection tells of the unit of that number in the log of effects: it
    /// is sent when that may be known. Whether it must wait.
    pub(super) fn withhold(&mut self, index: usize, unit: u64) -> bool {
        let session = &mut self.conns[index].session;
        session.last_unit = session.last_unit.max(unit);
        if self.core.srv.links.answers.may_go(unit) {
            return false;
        }
        let conn = &mut self.conns[index];
        conn.output.withheld = conn.output.withheld.max(unit);
        self.withheld.push(Reverse((unit, token(index, conn.generation))));
        true
    }

    /// Says that answers are withheld, if that is so, and lets those go that need not be any more. To be
    /// called when all that was withheld was noted.
    pub(super) fn see_to_withheld(&mut self) {
        if self.withheld.is_empty() {
            return;
        }
        let answers = &self.core.srv.links.answers;
        answers.withholds(self.core.id, true);
        // Behind that: what may go since before it was said is seen here.
        self.let_go(answers.upto());
    }

    /// More may be answered.
    pub(super) fn durable(&mut self) {
        self.let_go(self.core.srv.links.answers.upto());
        self.see_to_withheld();
    }

    fn let_go(&mut self, upto: u64) {
        while let Some(Reverse((unit, token))) = self.withheld.peek().copied()
            && unit <= upto
        {
            self.withheld.pop();
            // It may have gone, or wait for more by now.
            let Some(index) = self.find(token) else { continue };
            if self.conns[index].output.withheld > upto {
                continue;
            }
            self.conns[index].output.withheld = 0;
            self.resume(index, Awaited::Durable(upto));
            self.on_writable(index);
        }
    }
}
