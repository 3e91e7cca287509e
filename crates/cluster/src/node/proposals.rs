//! Transactions of this node whose effect it has not seen.
//!
//! A transaction without an answer may be written much later. So it stays *possible* until this node
//! has seen that a key which it compares has another revision: then it has been written, or never
//! will be. Meanwhile the node behaves so that both are right.

use super::action::{Action, Member, Ms, OpId, Operation, Outcome, RequestId, Transaction};
use super::layout::HandoverId;
use super::lease::RETRY;
use super::state::State;
use crate::planted::{self, Fault};

/// The purpose of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// This node's lease key. Nothing depends on its outcome before it is seen.
    LeaseKey,
    /// This node's own line.
    Line,
    /// The list of the shard that this node leads becomes this one.
    List(Vec<Member>),
    /// This node becomes the primary.
    Promotion,
    /// Slots leave this node's shard.
    Slots(HandoverId),
    /// The role goes to a replica.
    Failover,
    /// A request for a failover is withdrawn.
    Withdrawal,
    /// Pointless marks of slots are removed.
    Marks,
    /// This replica moves to another shard.
    Migration,
    /// Keys that nothing refers to are deleted.
    CleanUp,
    Request(RequestId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Sent,
    /// No answer, since this time.
    Unknown(Ms),
    Done(u64),
}

#[derive(Clone, Debug)]
pub(super) struct Proposal {
    op: OpId,
    pub purpose: Purpose,
    transaction: Transaction,
    status: Status,
    /// An earlier copy has no answer. So the answer of this one isn't that of all.
    repeated: bool,
    since: Ms,
}

#[derive(Debug, Default)]
pub(super) struct Proposals {
    all: Vec<Proposal>,
    /// The time and the seen revision of the last refusal.
    refused: Option<(Ms, u64)>,
}

impl Proposals {
    pub fn add(&mut self, now: Ms, op: OpId, purpose: Purpose, transaction: Transaction) {
        let status = Status::Sent;
        self.all.push(Proposal { op, purpose, transaction, status, repeated: false, since: now });
    }

    /// After a refusal: whether the state has changed since, or some time has passed.
    pub fn may_propose(&self, now: Ms, state: &State) -> bool {
        self.refused.is_none_or(|(at, seen)| state.revision > seen || now >= at + RETRY)
    }

    /// Whether a transaction for this may still be written, or its effect is not seen yet.
    pub fn is_possible(&self, purpose: impl Fn(&Purpose) -> bool) -> bool {
        self.all.iter().any(|proposal| purpose(&proposal.purpose))
    }

    /// Whether one is answered as unknown.
    pub fn is_unknown(&self, purpose: impl Fn(&Purpose) -> bool) -> bool {
        let unknown = |proposal: &&Proposal| matches!(proposal.status, Status::Unknown(_));
        self.all.iter().filter(unknown).any(|proposal| purpose(&proposal.purpose))
    }

    /// Whether one waits for its answer or for its effect.
    pub fn is_awaited(&self, purpose: impl Fn(&Purpose) -> bool) -> bool {
        let awaited = |proposal: &&Proposal| !matches!(proposal.status, Status::Unknown(_));
        self.all.iter().filter(awaited).any(|proposal| purpose(&proposal.purpose))
    }

    /// Whether one has had no known outcome since before this time.
    pub fn is_unresolved_since(&self, time: Ms) -> bool {
        self.all
            .iter()
            .any(|proposal| matches!(proposal.status, Status::Unknown(_)) && proposal.since <= time)
    }

    /// The lists that the shard may get.
    pub fn lists(&self) -> impl Iterator<Item = &[Member]> {
        self.all.iter().filter_map(|proposal| match &proposal.purpose {
            Purpose::List(list) => Some(&list[..]),
            Purpose::LeaseKey
            | Purpose::Line
            | Purpose::Promotion
            | Purpose::Slots(_)
            | Purpose::Failover
            | Purpose::Withdrawal
            | Purpose::Marks
            | Purpose::Migration
            | Purpose::CleanUp
            | Purpose::Request(_) => None,
        })
    }

    /// Records an outcome. Returns the purpose of the transaction, if it is known.
    pub fn answered(&mut self, now: Ms, op: OpId, outcome: Outcome, seen: u64) -> Option<Purpose> {
        let at = self.all.iter().position(|proposal| proposal.op == op)?;
        let proposal = &mut self.all[at];
        let purpose = proposal.purpose.clone();
        match outcome {
            Outcome::Done(_) if planted::is(Fault::SettledByAnswer) => drop(self.all.remove(at)),
            Outcome::Done(revision) => proposal.status = Status::Done(revision),
            Outcome::Refused => {
                self.refused = Some((now, seen));
                // An earlier copy may have been written, or may be written yet.
                match proposal.repeated {
                    true => proposal.status = Status::Unknown(now),
                    false => drop(self.all.remove(at)),
                }
            }
            Outcome::Unknown
                if purpose == Purpose::LeaseKey || planted::is(Fault::UnknownIsFailure) =>
            {
                self.refused = Some((now, seen));
                self.all.remove(at);
            }
            Outcome::Unknown => proposal.status = Status::Unknown(now),
        }
        Some(purpose)
    }

    /// Removes those that the state shows to be written or impossible.
    pub fn resolve(&mut self, state: &State) {
        self.all.retain(|proposal| match proposal.status {
            // It will be answered.
            Status::Sent => true,
            Status::Done(revision) => state.revision < revision,
            // A key that was absent may exist and be absent again, so it proves nothing.
            Status::Unknown(_) => {
                proposal.transaction.compares.iter().all(|(key, revision)| {
                    revision.is_none() || state.revision_of(*key) == *revision
                })
            }
        });
    }

    /// Sends those again that have no answer, if `wanted`, and if the state doesn't refuse them.
    pub fn repeat(
        &mut self,
        now: Ms,
        state: &State,
        mut next: impl FnMut() -> OpId,
        wanted: impl Fn(&Purpose) -> bool,
        out: &mut Vec<Action>,
    ) {
        for proposal in &mut self.all {
            let due = match proposal.status {
                Status::Unknown(since) => now >= since + RETRY,
                Status::Sent | Status::Done(_) => false,
            };
            let compares = &proposal.transaction.compares;
            let holds = compares.iter().all(|(key, seen)| state.revision_of(*key) == *seen);
            if due && holds && wanted(&proposal.purpose) {
                proposal.op = next();
                proposal.status = Status::Sent;
                proposal.repeated = true;
                let operation = Operation::Transact(proposal.transaction.clone());
                out.push(Action::Store { op: proposal.op, operation });
            }
        }
    }
}
