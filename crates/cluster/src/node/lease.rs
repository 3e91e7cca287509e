//! The lease of this node, and until when it is certainly valid.
//!
//! A keepalive that was sent at `s` and answered extends the lease beyond `s + T` on the store's
//! clock. This node counts on `s + T - T/8`: the eighth allows for clocks of different rates.

use super::action::{Action, LeaseId, Ms, OpId, Operation};
use crate::planted::{self, Fault};
use std::collections::BTreeMap;

/// Pause before a failed operation is repeated.
pub(super) const RETRY: Ms = 100;

#[derive(Debug, Default)]
pub(super) struct Lease {
    id: Option<LeaseId>,
    grant: Option<(OpId, Ms)>,
    /// Keepalives without an answer, with the times of sending.
    keepalives: BTreeMap<OpId, Ms>,
    last_sent: Option<Ms>,
    valid_until: Ms,
    probe: Option<OpId>,
    /// The last probe was answered.
    answers: bool,
}

/// How long a lease is certain after the sending of its last keepalive.
pub(super) fn certain(timeout: Ms) -> Ms {
    timeout - timeout / 8
}

impl Lease {
    pub fn id(&self) -> Option<LeaseId> {
        self.id
    }

    pub fn valid_until(&self) -> Ms {
        self.valid_until
    }

    /// Requests a lease, or keeps it alive.
    pub fn tick(
        &mut self,
        now: Ms,
        timeout: Ms,
        mut next: impl FnMut() -> OpId,
        out: &mut Vec<Action>,
    ) {
        let due = |after: Ms| self.last_sent.is_none_or(|sent| now >= sent + after);
        match self.id {
            None if self.grant.is_none() && due(RETRY) => {
                let op = next();
                self.grant = Some((op, now));
                self.last_sent = Some(now);
                out.push(Action::Store { op, operation: Operation::Grant { ttl: timeout } });
            }
            None => {}
            Some(lease) if due(timeout / 8) => {
                let op = next();
                self.last_sent = Some(now);
                // Keepalives whose answers are lost would keep a node alive that serves nothing.
                let probes = now >= self.valid_until && !std::mem::take(&mut self.answers);
                let operation = match probes {
                    true => {
                        self.probe = Some(op);
                        Operation::Probe
                    }
                    false => {
                        self.keepalives.insert(op, now);
                        Operation::KeepAlive { lease }
                    }
                };
                out.push(Action::Store { op, operation });
            }
            Some(_) => {}
        }
    }

    /// The store has answered a probe.
    pub fn answered(&mut self, op: OpId) {
        self.answers |= self.probe.take_if(|probe| *probe == op).is_some();
    }

    pub fn granted(&mut self, now: Ms, op: OpId, lease: LeaseId, timeout: Ms) {
        if let Some((_, sent)) = self.grant.take_if(|(granted, _)| *granted == op) {
            self.id = Some(lease);
            self.valid_until = counted_from(now, sent) + certain(timeout);
        }
    }

    pub fn kept_alive(&mut self, now: Ms, op: OpId, timeout: Ms) {
        if let Some(sent) = self.keepalives.remove(&op) {
            self.valid_until = self.valid_until.max(counted_from(now, sent) + certain(timeout));
        }
    }

    /// The store has no such lease.
    pub fn unknown(&mut self, op: OpId) {
        if self.keepalives.remove(&op).is_some() {
            *self = Lease { last_sent: self.last_sent, ..Lease::default() };
        }
    }

    /// An operation has no answer. Returns whether it was one of the lease.
    pub fn failed(&mut self, op: OpId) -> bool {
        let granted = self.grant.take_if(|(granted, _)| *granted == op).is_some();
        let probed = self.probe.take_if(|probe| *probe == op).is_some();
        granted || probed || self.keepalives.remove(&op).is_some()
    }
}

fn counted_from(now: Ms, sent: Ms) -> Ms {
    if planted::is(Fault::DeadlineFromAnswer) { now } else { sent }
}
