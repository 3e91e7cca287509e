//! The order in which actions take effect, while some of them wait for the end of commands.
//!
//! A change of the role stops the world, which a busy script delays. Keepalives, time and the view of the store continue meanwhile.
//! So the machine's actions go two ways:
//!
//! | action | executed |
//! |---|---|
//! | calls of the store other than transactions, log lines, promises | at once |
//! | an earlier deadline | at once, and it bounds the later ones that wait |
//! | a later deadline | at once if it extends one that has not passed and no change of the role waits; else in its turn |
//! | a confirmation | at once if no change of the role waits; else in its turn |
//! | slots, drains, roles, publications, transactions, replies | in their turn, by one thread |
//!
//! `docs/design/cluster.md` ("Actions that wait") says why that is right.

use std::collections::VecDeque;
use weft_cluster::node::{Action, Ms, Operation};

/// Actions that wait for their turn. The caller locks it, and sets a deadline before it unlocks it again.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    waiting: VecDeque<Action>,
    /// A change of the role was taken, and isn't done.
    changes_duty: bool,
    /// The deadline in force.
    deadline: Ms,
    /// The last one of the machine.
    wanted: Ms,
}

impl Queue {
    /// Accepts the next action of the machine. Returns what the caller is to execute at once.
    pub fn push(&mut self, now: Ms, action: Action) -> Option<Action> {
        match action {
            Action::Store { operation: Operation::Transact(_), .. }
            | Action::Serve(_)
            | Action::Drain(_)
            | Action::Duty(_)
            | Action::Reply { .. } => {
                self.waiting.push_back(action);
                None
            }
            Action::Publish => {
                if !matches!(self.waiting.back(), Some(Action::Publish)) {
                    self.waiting.push_back(action);
                }
                None
            }
            Action::AcknowledgeUntil(until) => self.push_deadline(now, until),
            Action::Confirm { .. } if self.has_duty() => {
                self.waiting.push_back(action);
                None
            }
            Action::Store { .. }
            | Action::Confirm { .. }
            | Action::AskPromise { .. }
            | Action::Promise { .. }
            | Action::Log(_) => Some(action),
        }
    }

    fn push_deadline(&mut self, now: Ms, until: Ms) -> Option<Action> {
        let is_later = until > std::mem::replace(&mut self.wanted, until);
        if !is_later {
            self.bound_waiting(until);
            if until >= self.deadline {
                return None;
            }
        } else if now >= self.deadline || self.has_duty() || self.has_deadline() {
            if let Some(Action::AcknowledgeUntil(last)) = self.waiting.back_mut() {
                *last = until;
            } else {
                self.waiting.push_back(Action::AcknowledgeUntil(until));
            }
            return None;
        }
        self.deadline = until;
        Some(Action::AcknowledgeUntil(until))
    }

    /// No deadline that waits may exceed this one.
    fn bound_waiting(&mut self, until: Ms) {
        for action in &mut self.waiting {
            if let Action::AcknowledgeUntil(waiting) = action {
                *waiting = until.min(*waiting);
            }
        }
    }

    /// Whether a change of the role waits or is being executed.
    fn has_duty(&self) -> bool {
        self.changes_duty || self.waiting.iter().any(|action| matches!(action, Action::Duty(_)))
    }

    fn has_deadline(&self) -> bool {
        self.waiting.iter().any(|action| matches!(action, Action::AcknowledgeUntil(_)))
    }

    /// The next action whose turn it is. The one before it is done. A deadline is in force from here on.
    pub fn take(&mut self) -> Option<Action> {
        let action = self.waiting.pop_front();
        self.changes_duty = matches!(action, Some(Action::Duty(_)));
        if let Some(Action::AcknowledgeUntil(until)) = action {
            self.deadline = until;
        }
        action
    }

    /// The action that was taken last is done.
    pub fn done(&mut self) {
        self.changes_duty = false;
    }

    /// Whether a deadline is next: what it depends on must be in force before it is taken.
    pub fn is_deadline_next(&self) -> bool {
        matches!(self.waiting.front(), Some(Action::AcknowledgeUntil(_)))
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests;
