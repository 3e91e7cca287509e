//! The data of a node for each of its tasks. The code is in the modules of the tasks.

use super::action::{DrainId, Member, Ms, OpId, RequestId, Revision};
use super::layout::{Candidacy, HandoverId};
use super::request::NodeRequest;
use crate::planted::{self, Fault};
use crate::slots::SlotSet;
use std::collections::{BTreeMap, BTreeSet};

/// This node as the primary of an epoch.
#[derive(Debug)]
pub(super) struct Leader {
    pub epoch: Revision,
    /// Writes up to here may be confirmed: those of earlier primaries, and those that all listed
    /// replicas have.
    pub through: u64,
}

impl Leader {
    /// `offset`: the end of this node's data when it became the primary. An earlier one may have confirmed
    /// all of it.
    pub fn new(epoch: Revision, offset: u64) -> Leader {
        let through = if planted::is(Fault::InheritedNotConfirmed) { 0 } else { offset };
        Leader { epoch, through }
    }
}

/// A replica that is linked to this node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replica {
    /// The epoch of its link.
    pub epoch: Revision,
    pub acked: u64,
    pub heard: Ms,
    /// It has a whole copy of the data.
    pub whole: bool,
}

#[derive(Debug, Default)]
pub(super) struct Candidate {
    /// The offer that is in the lease key, or on its way there.
    pub offer: Option<Candidacy>,
    /// When it was seen.
    pub seen: Option<Ms>,
    /// An operator wants the promotion, until this time: without regard to age and exclusion.
    pub forced: Option<Forced>,
    /// When this node first saw that it could be the primary again after its restart.
    pub waits_since: Option<Ms>,
}

/// An operator's wish to promote this node in place of the primary of an epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forced {
    pub epoch: Revision,
    pub until: Ms,
    /// Even though it isn't listed.
    pub unlisted: bool,
}

/// The suspension of slots or of all requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    pub id: DrainId,
    pub requested: bool,
    pub done: bool,
}

/// Slots that leave.
#[derive(Debug)]
pub(super) struct Moving {
    pub slots: SlotSet,
    pub drain: Drain,
    /// After the end of all commands, there were keys of these slots.
    pub has_keys: bool,
}

/// Reports of the driver about moves of keys from this shard.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// The target is close: the slots may be suspended.
    pub close: BTreeSet<HandoverId>,
    /// The target has everything.
    pub done: BTreeSet<HandoverId>,
    /// It ends without effect.
    pub failed: BTreeSet<HandoverId>,
}

/// This primary hands its role to a replica.
#[derive(Debug)]
pub(super) struct Yielding {
    pub to: Member,
    pub since: Ms,
    /// `None`: the replica must come closer first, and requests are served.
    pub drain: Option<Drain>,
}

#[derive(Debug, Default)]
pub(super) struct Promises {
    /// Our own: no promotion before this time.
    pub until: Ms,
    /// The promises of replicas: when each ends for us.
    pub given: BTreeMap<Member, Ms>,
    pub asked: BTreeMap<OpId, (Member, Ms)>,
    pub last_asked: Ms,
}

impl Promises {
    /// Whether this node has promised not to try a promotion now.
    pub fn binds(&self, now: Ms) -> bool {
        now < self.until && !planted::is(Fault::PromiseBroken)
    }

    pub fn forget(&mut self) {
        self.given.clear();
        self.asked.clear();
    }
}

/// A request without an answer.
#[derive(Debug)]
pub(super) struct Waiting {
    pub id: RequestId,
    pub request: NodeRequest,
    pub since: Ms,
    /// A transaction for it was sent.
    pub sent: bool,
    /// The id of its handover.
    pub handover: HandoverId,
}
