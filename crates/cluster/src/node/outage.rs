//! A primary continues without the store (`cluster-store-outage continue`).
//!
//! It acknowledges while every replica that may be promoted has promised not to try. A promise
//! counts from the sending of the question, less an eighth for clocks of different rates, as a lease
//! does. A primary without replicas continues: no node can be promoted.

use super::action::{Action, Member, Ms, OpId, Revision};
use super::lease::certain;
use super::{Node, Role};
use crate::id::NodeId;
use crate::planted::{self, Fault};

impl Node {
    /// The primary asks for a promise.
    pub fn promise_asked(
        &mut self,
        now: Ms,
        from: NodeId,
        of: Revision,
        ask: OpId,
        out: &mut Vec<Action>,
    ) {
        let follows = match self.role() {
            Role::Follows { primary, epoch, .. } => primary.node == from && epoch == of,
            Role::None | Role::Leads { .. } | Role::Restarted { .. } => false,
        };
        let is_candidate = self.is_candidate() && !planted::is(Fault::CandidatePromises);
        if follows && !is_candidate {
            self.promises.until = self.promises.until.max(now + self.settings.timeout);
            out.push(Action::Promise { to: from, epoch: of, ask });
        }
    }

    /// A replica has promised.
    pub fn promised(&mut self, now: Ms, member: Member, ask: OpId, out: &mut Vec<Action>) {
        if let Some((asked, sent)) = self.promises.asked.remove(&ask)
            && asked == member
        {
            let sent = if planted::is(Fault::PromiseFromAnswer) { now } else { sent };
            let until = sent + certain(self.settings.timeout);
            let given = self.promises.given.entry(member).or_default();
            *given = until.max(*given);
        }
        self.settle(now, out);
    }

    fn may_continue(&self) -> bool {
        // The store must say so, too: others then take nothing from a primary without a lease.
        self.settings.continues && self.led().is_some_and(|(_, shard)| shard.value.continues)
    }

    /// Until when this primary continues by promises.
    pub(super) fn promised_deadline(&self, now: Ms) -> Ms {
        if !self.may_continue() {
            return 0;
        }
        let until = |member: &Member| self.promises.given.get(member).copied().unwrap_or(0);
        let members = self.may_be_listed();
        let promised = members.iter().map(until);
        let first = match planted::is(Fault::OnePromiseEnough) {
            true => promised.max(),
            false => promised.min(),
        };
        // Without replicas there is no end; this one is renewed with each tick.
        first.unwrap_or(now + self.settings.timeout / 2)
    }

    pub(super) fn ask_promises(&mut self, now: Ms, out: &mut Vec<Action>) {
        let timeout = self.settings.timeout;
        let is_due = now + timeout / 2 >= self.lease_until()
            && now >= self.promises.last_asked + timeout / 8
            && self.may_continue();
        if !is_due {
            return;
        }
        self.promises.last_asked = now;
        self.promises.asked.retain(|_, (_, sent)| now < *sent + timeout);
        let Some(epoch) = self.leader.as_ref().map(|leader| leader.epoch) else { return };
        for member in self.may_be_listed() {
            let ask = self.next_op();
            self.promises.asked.insert(ask, (member, now));
            out.push(Action::AskPromise { member, epoch, ask });
        }
    }
}
