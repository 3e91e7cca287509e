//! A replica becomes the primary.
//!
//! The primary's lease key is gone, so it acknowledges nothing any more. Each candidate writes what
//! it has into its own lease key, waits by its rank among the candidates, and proposes itself. The
//! wait only saves refused transactions and keeps the most data; the comparisons make it safe. From
//! its candidacy on, a candidate follows no primary: a promotion that is on its way must find the data
//! as they were.

use super::action::{Action, Led, Member, Ms, Transaction, Write};
use super::layout::{Candidacy, Key};
use super::parts::Forced;
use super::proposals::Purpose;
use super::state::{Shard, State};
use super::{Node, Role};
use crate::id::ShardId;
use crate::planted::{self, Fault};

fn is_promotion(purpose: &Purpose) -> bool {
    *purpose == Purpose::Promotion
}

impl Node {
    /// Whether the data must stay as they are, because a promotion may commit.
    pub(super) fn is_frozen(&self) -> bool {
        (self.candidate.offer.is_some() || self.proposals.is_possible(is_promotion))
            && !planted::is(Fault::CandidateFollows)
    }

    /// Whether this node has to keep its word not to be promoted, or can't give it.
    pub(super) fn is_candidate(&self) -> bool {
        self.candidate.offer.is_some()
            || self.candidate.forced.is_some()
            || self.proposals.is_possible(is_promotion)
    }

    /// The shard of which this node should become the primary by now.
    fn claimed(&self, now: Ms) -> Option<(ShardId, &Shard)> {
        let state = self.state.as_ref()?;
        let whole = self.data.whole || planted::is(Fault::LoadingPromoted);
        if !whole || self.is_leaving || !self.has_lease(now) {
            return None;
        }
        let (id, shard) = state.shard_of(self.me.node)?;
        let claims = match self.role() {
            Role::Follows { primary, .. } => {
                !state.is_alive(primary) && self.may_succeed(now, shard)
            }
            Role::Restarted { .. } => self.may_lead_again(now, state, shard),
            Role::None | Role::Leads { .. } => false,
        };
        claims.then_some((id, shard))
    }

    /// The operator's wish, if it is for the shard as it is.
    fn forced(&self, now: Ms, shard: &Shard) -> Option<Forced> {
        self.candidate.forced.filter(|forced| forced.epoch == shard.epoch && now < forced.until)
    }

    fn may_succeed(&self, now: Ms, shard: &Shard) -> bool {
        let forced = self.forced(now, shard);
        let is_listed = shard.value.list.iter().any(|member| {
            *member == self.me
                || member.node == self.me.node && planted::is(Fault::RestartForgotten)
        });
        let limit = self.settings.timeout.saturating_mul(self.settings.validity_factor + 1);
        let is_fresh = self.settings.validity_factor == 0
            || shard.value.quorum > 0
            || now <= self.heard.saturating_add(limit);
        let is_excluded = self.settings.no_failover || self.settings.priority == 0;
        // An outage of the store ends the leases of all nodes. The primary may come back as soon as this node.
        let has_waited =
            self.key_since.is_some_and(|since| now >= since + self.settings.timeout / 2);
        (is_listed
            || forced.is_some_and(|forced| forced.unlisted)
            || planted::is(Fault::UnlistedPromoted))
            && (is_fresh && has_waited && !is_excluded || forced.is_some())
            && !self.promises.binds(now)
    }

    /// The data of a process that has restarted may lack confirmed writes. A listed replica is
    /// better, unless its node has restarted, too.
    fn may_lead_again(&self, now: Ms, state: &State, shard: &Shard) -> bool {
        let waited = self
            .candidate
            .waits_since
            .is_some_and(|since| now >= since + 2 * self.settings.timeout);
        let is_alone = shard.value.list.iter().all(|member| state.has_restarted(*member));
        let led = Led { incarnation: shard.value.primary.incarnation, epoch: shard.epoch };
        let is_complete = shard.value.quorum == 0
            || self.data.durable == Some(led)
            || self.data.durable.is_some() && planted::is(Fault::DurableForgotten);
        let is_forced = self.forced(now, shard).is_some_and(|forced| forced.unlisted);
        is_forced || is_complete && (is_alone || waited)
    }

    /// Whether a promotion without an answer should be repeated.
    pub(super) fn wants_promotion(&self, now: Ms) -> bool {
        self.claimed(now).is_some()
    }

    pub(super) fn run_candidate(&mut self, now: Ms, out: &mut Vec<Action>) {
        match self.role() {
            Role::Restarted { .. } => drop(self.candidate.waits_since.get_or_insert(now)),
            Role::None | Role::Leads { .. } | Role::Follows { .. } => {
                self.candidate.waits_since = None;
            }
        }
        self.candidate.forced.take_if(|forced| now >= forced.until);
        let Some((id, shard)) = self.claimed(now) else {
            self.withdraw(now);
            return;
        };
        let epoch = shard.epoch;
        match self.candidate.offer {
            Some(offer) if offer.epoch == epoch => self.offer_seen(now, id, out),
            Some(_) | None => {
                let offset = self.data.offset;
                let offer = Candidacy { epoch, offset, priority: self.settings.priority };
                self.candidate.offer = Some(offer);
                self.candidate.seen = None;
                self.touch_key(now, Some(offer));
            }
        }
    }

    /// Proposes the promotion, after a time that grows with the rank of the offer.
    fn offer_seen(&mut self, now: Ms, id: ShardId, out: &mut Vec<Action>) {
        let (Some(state), Some(offer)) = (&self.state, self.candidate.offer) else { return };
        let seen = state.leases.get(&self.me.node).and_then(|(lease, _)| lease.candidacy);
        if seen != Some(offer) {
            return self.touch_key(now, Some(offer));
        }
        let since = *self.candidate.seen.get_or_insert(now);
        let step = self.settings.timeout / 32;
        let wait = step * (1 + 2 * rank(state, id, self.me, offer) as u64);
        let is_possible = self.proposals.is_possible(is_promotion);
        if now < since + wait || is_possible || !self.may_propose(now) {
            return;
        }
        let Some(shard) = state.shards.get(&id) else { return };
        let mut value = shard.value.clone();
        let key = Key::Shard(id);
        let mut compares = vec![state.compare(key)];
        if value.primary.node != self.me.node && !planted::is(Fault::LeaseNotCompared) {
            compares.push(state.compare(Key::Lease(value.primary.node)));
        }
        value.epoch = None;
        value.primary = self.me;
        value.list.retain(|member| member.node != self.me.node);
        let put = Write::Put { key, value: value.encode(), lease: None };
        let transaction = Transaction { compares, writes: vec![put] };
        out.push(Action::Log(format!("Proposing this node as the primary of shard {id}")));
        self.propose(now, Purpose::Promotion, transaction);
    }

    /// The primary is back, or another one was made.
    fn withdraw(&mut self, now: Ms) {
        if self.proposals.is_possible(is_promotion) {
            // One without an answer may still commit: the data stay until that is impossible.
            if self.proposals.is_unknown(is_promotion) {
                self.touch_key(now, None);
            }
        } else {
            self.candidate.offer = None;
            self.candidate.seen = None;
        }
    }
}

/// The number of better offers for this shard.
fn rank(state: &State, id: ShardId, me: Member, mine: Candidacy) -> usize {
    let order = |offer: &Candidacy, member: Member| {
        (std::cmp::Reverse(offer.offset), offer.priority, member)
    };
    let offers = state.nodes_of(id).filter_map(|node| {
        let (lease, _) = state.leases.get(&node)?;
        let member = Member { node, incarnation: lease.incarnation };
        Some((member, lease.candidacy.filter(|offer| offer.epoch == mine.epoch)?))
    });
    offers.filter(|(member, offer)| order(offer, *member) < order(&mine, me)).count()
}
