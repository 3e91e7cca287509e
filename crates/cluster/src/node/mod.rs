//! The decisions of a node in a cluster with a store.
//!
//! Events go in with the time, actions come out; no sockets, threads or clocks. `docs/design/cluster.md`
//! has the rules and why they are right.
//!
//! | module | holds |
//! |---|---|
//! | [`layout`] | keys and values in the store |
//! | [`state`] | the part of them that this node has seen |
//! | [`lease`] | the lease of this node, and until when it is certain |
//! | [`proposals`] | transactions whose effect is not seen |
//! | [`primary`] | the list of replicas, and which writes are confirmed |
//! | [`candidate`] | promotion |
//! | [`handover`] | slots and the role go to another node |
//! | [`marks`] | slots whose keys go to another node one by one |
//! | [`copies`] | slots go to another node with their keys |
//! | [`migration`] | a replica moves to a shard without replicas |
//! | [`cleanup`] | keys that nothing refers to |
//! | [`outage`] | the primary continues without the store |
//! | [`request`], [`requests`] | commands of operators |
//! | [`parts`] | the data of a node for these tasks |
//! | [`publish`] | the map that clients see |

pub mod action;
mod candidate;
mod cleanup;
mod copies;
mod handover;
pub mod layout;
mod lease;
mod marks;
mod migration;
mod outage;
mod parts;
mod primary;
mod proposals;
mod publish;
mod request;
mod requests;
mod settings;
#[cfg(test)]
mod sim;
mod state;

pub use action::{
    Action, DrainId, Duty, LeaseId, Led, Member, Ms, OpId, Operation, Outcome, RequestId, Revision,
    Transaction, Write,
};
pub use copies::{Cleaning, CopyView};
pub use request::{Direction, FailoverMode, Mark, NodeRequest};
pub use settings::Settings;
pub use state::{Change, Entry};

use crate::id::{NodeId, ShardId};
use crate::map::Addresses;
use crate::planted::{self, Fault};
use crate::slots::SlotSet;
use layout::{Invalid, IslandValue, Key, LeaseValue, NodeValue, ShardValue};
use lease::{Lease, RETRY};
use parts::{Candidate, Copies, Leader, Moving, Promises, Replica, Waiting, Yielding};
use proposals::{Proposals, Purpose};
use state::State;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Makes ids of shards, islands and handovers.
pub type Ids = Box<dyn FnMut() -> NodeId + Send>;

/// The watch of the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    /// A snapshot is due at this time.
    None(Ms),
    Snapshot(OpId),
    Open(OpId),
}

/// The data of this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Data {
    /// They are a state that a primary had, not a part of one.
    whole: bool,
    /// They have every write that this primary, an earlier process of this node, confirmed.
    durable: Option<Led>,
    offset: u64,
}

/// The role of this node by the state it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It has no shard.
    None,
    Leads {
        shard: ShardId,
        epoch: Revision,
    },
    /// An earlier process of this node is the primary.
    Restarted {
        shard: ShardId,
    },
    Follows {
        shard: ShardId,
        primary: Member,
        epoch: Revision,
    },
}

/// The last reports to the driver.
#[derive(Debug, Default)]
struct Shown {
    deadline: Ms,
    serve: Arc<SlotSet>,
    duty: Duty,
    through: u64,
    map: Option<Revision>,
    expects_role: bool,
}

/// A node.
pub struct Node {
    me: Member,
    settings: Settings,
    ids: Ids,
    state: Option<State>,
    watch: Watch,
    lease: Lease,
    /// Since when this node has its present lease key.
    key_since: Option<Ms>,
    /// The lease key was written, though it was not seen (a planted fault).
    key_written: bool,
    /// This node serves nothing before this time.
    quiet_until: Ms,
    /// Counts the writes of the lease key.
    attempt: u64,
    proposals: Proposals,
    operations: u64,
    drains: u64,
    data: Data,
    /// The shard whose data they are.
    shard: Option<ShardId>,
    /// When the primary was last heard.
    heard: Ms,
    replicas: BTreeMap<Member, Replica>,
    leader: Option<Leader>,
    yielding: Option<Yielding>,
    moving: BTreeMap<layout::HandoverId, Moving>,
    copies: Copies,
    candidate: Candidate,
    /// This process is about to end.
    is_leaving: bool,
    promises: Promises,
    orphans: migration::Orphans,
    /// When this node last looked for keys to remove.
    cleaned: Ms,
    requests: Vec<Waiting>,
    shown: Shown,
    /// Transactions of the present event.
    outbox: Vec<Action>,
}

impl Node {
    /// A node whose process starts.
    pub fn new(now: Ms, me: Member, settings: Settings, ids: Ids, out: &mut Vec<Action>) -> Node {
        let mut node = Node {
            me,
            settings,
            ids,
            state: None,
            watch: Watch::None(now),
            lease: Lease::default(),
            key_since: None,
            key_written: false,
            quiet_until: 0,
            attempt: 0,
            proposals: Proposals::default(),
            operations: 0,
            drains: 0,
            data: Data::default(),
            shard: None,
            heard: now,
            replicas: BTreeMap::new(),
            leader: None,
            yielding: None,
            moving: BTreeMap::new(),
            copies: Copies::default(),
            candidate: Candidate::default(),
            is_leaving: false,
            promises: Promises::default(),
            orphans: migration::Orphans::default(),
            cleaned: now,
            requests: Vec::new(),
            shown: Shown::default(),
            outbox: Vec::new(),
        };
        node.settle(now, out);
        node
    }

    pub fn me(&self) -> Member {
        self.me
    }

    /// The length of a lease.
    pub fn timeout(&self) -> Ms {
        self.settings.timeout
    }

    /// The lease of this node.
    pub fn lease(&self) -> Option<LeaseId> {
        self.lease.id()
    }

    /// Until when this node's lease is certainly valid; 0: it has none.
    pub fn lease_until(&self) -> Ms {
        if self.holds_key() { self.lease.valid_until() } else { 0 }
    }

    /// Whether the store has a line of this node.
    pub fn knows(&self, node: NodeId) -> bool {
        self.state.as_ref().is_some_and(|state| state.shard_of(node).is_some())
    }

    /// Whether this node belongs to no shard, and has a part of a copy at most. Once the driver has dropped that, it
    /// reports [`Node::data_at`], and this node begins again.
    pub fn has_lost_data(&self) -> bool {
        let is_out = self.state.is_some() && self.role() == Role::None;
        is_out && !self.data.whole && self.shown.duty == Duty::None
    }

    /// The addresses that a node announces.
    pub fn addresses_of(&self, node: NodeId) -> Option<Addresses> {
        Some(self.state.as_ref()?.nodes.get(&node)?.addresses.clone())
    }

    /// The nodes with a lease that announce this address for themselves, other than this one.
    pub fn at_address(&self, ip: &str, port: u16) -> Vec<NodeId> {
        let Some(state) = &self.state else { return Vec::new() };
        let is_at = |id: &NodeId, node: &NodeValue| {
            let of = &node.addresses;
            let ports = [of.port, of.tls_port, of.client_port, of.client_tls_port];
            *id != self.me.node
                && (of.ip == ip || of.client_ipv4 == ip || of.client_ipv6 == ip)
                && ports.contains(&port)
                && state.leases.contains_key(id)
        };
        state.nodes.iter().filter(|(id, node)| is_at(id, node)).map(|(id, _)| *id).collect()
    }

    /// Applies changed settings, except the length of a lease: that of the present one is known to the store.
    pub fn set(&mut self, now: Ms, settings: Settings, out: &mut Vec<Action>) {
        self.settings = Settings { timeout: self.settings.timeout, ..settings };
        self.settle(now, out);
    }

    /// Whether this process is about to end, from the next event on: it takes no role.
    pub fn set_leaving(&mut self, is_leaving: bool) {
        self.is_leaving = is_leaving;
    }

    /// Advances the time. The driver calls it about ten times a second.
    pub fn tick(&mut self, now: Ms, out: &mut Vec<Action>) {
        self.settle(now, out);
    }

    // ---- the store

    pub fn granted(&mut self, now: Ms, op: OpId, lease: LeaseId, out: &mut Vec<Action>) {
        self.lease.granted(now, op, lease, self.settings.timeout);
        self.key_written = false;
        self.settle(now, out);
    }

    pub fn kept_alive(&mut self, now: Ms, op: OpId, out: &mut Vec<Action>) {
        self.lease.kept_alive(now, op, self.settings.timeout);
        self.settle(now, out);
    }

    /// The store doesn't have the lease of a keepalive.
    pub fn lease_unknown(&mut self, now: Ms, op: OpId, out: &mut Vec<Action>) {
        self.lease.unknown(op);
        self.settle(now, out);
    }

    /// The store has answered a probe.
    pub fn answered(&mut self, now: Ms, op: OpId, out: &mut Vec<Action>) {
        self.lease.answered(op);
        self.settle(now, out);
    }

    /// An operation other than a transaction has no answer, or a watch was closed or compacted.
    pub fn failed(&mut self, now: Ms, op: OpId, out: &mut Vec<Action>) {
        let is_watch = matches!(self.watch, Watch::Snapshot(at) | Watch::Open(at) if at == op);
        if !self.lease.failed(op) && is_watch {
            self.watch = Watch::None(now + RETRY);
        }
        self.settle(now, out);
    }

    /// The store has an earlier revision than this node has seen: it was restored from a backup, or is another one. Others may decide
    /// on what it has now, so this node begins again: without a lease, a role and a view. It serves nothing for the length of a lease, in
    /// which the others see it, too.
    pub fn store_went_back(&mut self, now: Ms, out: &mut Vec<Action>) {
        self.lease = Lease::default();
        self.state = None;
        self.watch = Watch::None(now);
        self.proposals = Proposals::default();
        self.candidate = Candidate::default();
        self.key_since = None;
        self.quiet_until = now + self.settings.timeout;
        self.leader = None;
        self.yielding = None;
        self.moving.clear();
        out.push(Action::Log(
            "The store went back to an earlier state. This node begins again with it".to_string(),
        ));
        self.settle(now, out);
    }

    /// All keys under the prefix, at a revision.
    pub fn snapshot(
        &mut self,
        now: Ms,
        op: OpId,
        revision: Revision,
        entries: Vec<Entry>,
        out: &mut Vec<Action>,
    ) {
        if self.watch == Watch::Snapshot(op) {
            // No watch was open meanwhile, so the present state is of an earlier moment, in the same store.
            if self.state.as_ref().is_some_and(|state| state.revision > revision) {
                return self.store_went_back(now, out);
            }
            let mut invalid = Vec::new();
            self.state = Some(State::of_snapshot(revision, entries, &mut invalid));
            report(invalid, out);
            let op = self.next_op();
            self.watch = Watch::Open(op);
            out.push(Action::Store { op, operation: Operation::Watch { after: revision } });
        }
        self.settle(now, out);
    }

    /// All changes of a revision. Revisions arrive in their order.
    pub fn changes(
        &mut self,
        now: Ms,
        op: OpId,
        revision: Revision,
        changes: Vec<Change>,
        out: &mut Vec<Action>,
    ) {
        if self.watch == Watch::Open(op)
            && let Some(state) = &mut self.state
            && state.revision < revision
        {
            let mut invalid = Vec::new();
            state.apply(revision, changes, &mut invalid);
            report(invalid, out);
        }
        self.settle(now, out);
    }

    pub fn transacted(&mut self, now: Ms, op: OpId, outcome: Outcome, out: &mut Vec<Action>) {
        let seen = self.state.as_ref().map_or(0, |state| state.revision);
        let purpose = self.proposals.answered(now, op, outcome, seen);
        if purpose == Some(Purpose::LeaseKey) && matches!(outcome, Outcome::Done(_)) {
            self.key_written = true;
        }
        // It was never written, unless an earlier copy of it was.
        if let (Some(Purpose::Request(id)), Outcome::Refused) = (&purpose, outcome)
            && !self.proposals.is_possible(|purpose| *purpose == Purpose::Request(*id))
        {
            let waiting = self.requests.iter_mut().filter(|waiting| waiting.id == *id);
            waiting.for_each(|waiting| waiting.sent = false);
        }
        self.settle(now, out);
    }

    // ---- replication

    /// This node's data: loaded, received or written up to this offset of the stream.
    /// `durable`: the primary that led last with these files, if they have every write that it
    /// confirmed, and if no other process can have written to them.
    pub fn data_at(&mut self, now: Ms, offset: u64, durable: Option<Led>, out: &mut Vec<Action>) {
        self.data = Data { whole: true, durable, offset };
        self.settle(now, out);
    }

    /// This node's data are being replaced, or are lost.
    pub fn data_incomplete(&mut self, now: Ms, out: &mut Vec<Action>) {
        self.data = Data::default();
        self.settle(now, out);
    }

    /// The primary has sent something over the replication link.
    pub fn heard_primary(&mut self, now: Ms) {
        self.heard = now;
    }

    /// The greatest epoch that this node knows of a shard. A handshake with an older one is refused.
    pub fn epoch_of(&self, shard: ShardId) -> Option<Revision> {
        Some(self.state.as_ref()?.shards.get(&shard)?.epoch)
    }

    /// Whether a link to this primary may stand, and its stream may be applied.
    pub fn may_follow(&self, from: NodeId, of: Revision) -> bool {
        match self.shown.duty {
            Duty::Follow { primary, epoch, .. } => {
                primary == from && epoch == of || planted::is(Fault::OldEpochAccepted)
            }
            Duty::None | Duty::Lead { .. } => false,
        }
    }

    // ---- the loop

    fn next_op(&mut self) -> OpId {
        self.operations += 1;
        OpId(self.operations)
    }

    /// Sends a transaction after all actions of this event: what it ends has ended by then.
    fn propose(&mut self, now: Ms, purpose: Purpose, mut of: Transaction) {
        let op = self.next_op();
        if purpose != Purpose::LeaseKey && !planted::is(Fault::OwnKeyNotCompared) {
            // Rewriting this key makes the transaction impossible.
            let state = self.state.as_ref().expect("decided on a state");
            of.compares.push(state.compare(Key::Lease(self.me.node)));
        }
        let operation = Operation::Transact(of.clone());
        self.proposals.add(now, op, purpose, of);
        self.outbox.push(Action::Store { op, operation });
    }

    fn role(&self) -> Role {
        let Some((id, shard)) = self.state.as_ref().and_then(|state| state.shard_of(self.me.node))
        else {
            return Role::None;
        };
        let (primary, epoch) = (shard.value.primary, shard.epoch);
        if primary == self.me || primary.node == self.me.node && planted::is(Fault::RestartedLeads)
        {
            Role::Leads { shard: id, epoch }
        } else if primary.node == self.me.node {
            Role::Restarted { shard: id }
        } else {
            Role::Follows { shard: id, primary, epoch }
        }
    }

    /// Whether this node has seen its key under its present lease: so it has seen everything that
    /// others have changed while it had none.
    fn holds_key(&self) -> bool {
        let Some(state) = &self.state else { return false };
        let seen = state.leases.get(&self.me.node).is_some_and(|(value, lease)| {
            value.incarnation == self.me.incarnation && *lease == self.lease.id()
        });
        seen || self.key_written && planted::is(Fault::ViewNotAwaited)
    }

    /// Whether this node's lease is certainly valid.
    fn has_lease(&self, now: Ms) -> bool {
        self.holds_key() && now < self.lease.valid_until()
    }

    fn may_propose(&self, now: Ms) -> bool {
        self.state.as_ref().is_some_and(|state| self.proposals.may_propose(now, state))
    }

    fn settle(&mut self, now: Ms, out: &mut Vec<Action>) {
        let mut operations = self.operations;
        let next = || {
            operations += 1;
            OpId(operations)
        };
        self.lease.tick(now, self.settings.timeout, next, out);
        self.operations = operations;
        if let Watch::None(at) = self.watch
            && now >= at
        {
            let op = self.next_op();
            self.watch = Watch::Snapshot(op);
            out.push(Action::Store { op, operation: Operation::Snapshot });
        }
        if let Some(state) = &self.state {
            self.proposals.resolve(state);
            self.key_since = self.holds_key().then(|| self.key_since.unwrap_or(now));
            self.follow_role(now);
            self.repeat_proposals(now);
            self.keep_key(now);
            if self.has_lease(now) {
                self.keep_line(now);
                self.lead(now);
                self.run_candidate(now, out);
                self.migrate(now, out);
                self.clean_up(now);
            }
            self.ask_promises(now, out);
        }
        let mut replies = Vec::new();
        self.run_requests(now, &mut replies);
        if planted::is(Fault::RepliedEarly) {
            out.append(&mut replies);
        }
        self.show(now, out);
        // A thread may execute some actions before the others have come: a reply follows the change that it reports.
        out.append(&mut replies);
        out.append(&mut self.outbox);
    }

    /// Begins and ends the tasks of a role.
    fn follow_role(&mut self, now: Ms) {
        let shard = self.state.as_ref().and_then(|state| state.shard_of(self.me.node));
        let shard = shard.map(|(id, _)| id).or(self.shard);
        // A replica of another shard has no data of it yet.
        if self.shard.is_some_and(|before| Some(before) != shard)
            && matches!(self.role(), Role::Follows { .. })
        {
            self.data = Data::default();
        }
        self.shard = shard;
        match self.role() {
            Role::Leads { epoch, .. } => {
                if self.leader.as_ref().is_none_or(|leader| leader.epoch != epoch) {
                    self.leader = Some(Leader::new(epoch, self.data.offset));
                    self.replicas.retain(|_, replica| replica.epoch == epoch);
                    self.candidate = Candidate::default();
                    self.yielding = None;
                    self.moving.clear();
                }
            }
            Role::None | Role::Restarted { .. } | Role::Follows { .. } => {
                if self.leader.take().is_some() {
                    self.heard = now;
                }
                self.yielding = None;
                self.moving.clear();
                self.promises.forget();
            }
        }
    }

    fn repeat_proposals(&mut self, now: Ms) {
        let promotes = self.wants_promotion(now);
        let requested: Vec<RequestId> = self.requests.iter().map(|waiting| waiting.id).collect();
        let Some(state) = &self.state else { return };
        let mut operations = self.operations;
        let next = || {
            operations += 1;
            OpId(operations)
        };
        self.proposals.repeat(
            now,
            state,
            next,
            |purpose| match purpose {
                Purpose::Promotion => promotes,
                // The primary proposes what it wants by now.
                Purpose::List(_) | Purpose::LeaseKey => false,
                Purpose::Migration | Purpose::CleanUp => false,
                Purpose::Line
                | Purpose::Slots(_)
                | Purpose::Failover
                | Purpose::Withdrawal
                | Purpose::Marks => true,
                // The client of another one has got an error.
                Purpose::Request(id) => requested.contains(id),
            },
            &mut self.outbox,
        );
        self.operations = operations;
        // A transaction that can't be repeated is made impossible.
        let limit = now.saturating_sub(self.settings.timeout / 2);
        if self.proposals.is_unresolved_since(limit) && self.holds_key() {
            self.touch_key(now, None);
        }
    }

    /// Writes the lease key if there is none, so that this node counts as alive.
    fn keep_key(&mut self, now: Ms) {
        let (Some(state), Some(lease)) = (&self.state, self.lease.id()) else { return };
        let key = Key::Lease(self.me.node);
        let is_free = state.revision_of(key).is_none() || planted::is(Fault::LeaseKeyReplaced);
        let is_due = is_free && !self.holds_key() && now < self.lease.valid_until();
        if !is_due
            || !self.may_propose(now)
            || self.proposals.is_possible(|purpose| *purpose == Purpose::LeaseKey)
        {
            return;
        }
        let compare = state.compare(key);
        self.attempt += 1;
        let value =
            LeaseValue { incarnation: self.me.incarnation, attempt: self.attempt, candidacy: None };
        let put = Write::Put { key, value: value.encode(), lease: Some(lease) };
        let transaction = Transaction { compares: vec![compare], writes: vec![put] };
        self.propose(now, Purpose::LeaseKey, transaction);
    }

    /// Rewrites the lease key. All earlier transactions of this node are impossible once this is
    /// seen.
    fn touch_key(&mut self, now: Ms, candidacy: Option<layout::Candidacy>) {
        let Some(state) = &self.state else { return };
        if !self.may_propose(now)
            || self.proposals.is_possible(|purpose| *purpose == Purpose::LeaseKey)
        {
            return;
        }
        let key = Key::Lease(self.me.node);
        let compare = state.compare(key);
        self.attempt += 1;
        let value =
            LeaseValue { incarnation: self.me.incarnation, attempt: self.attempt, candidacy };
        let put = Write::Put { key, value: value.encode(), lease: self.lease.id() };
        let transaction = Transaction { compares: vec![compare], writes: vec![put] };
        self.propose(now, Purpose::LeaseKey, transaction);
    }

    /// Writes this node's own line. A node without one begins with an own shard in an own island.
    fn keep_line(&mut self, now: Ms) {
        let Some(state) = &self.state else { return };
        let is_line = |purpose: &Purpose| *purpose == Purpose::Line;
        if !self.may_propose(now) || self.proposals.is_possible(is_line) {
            return;
        }
        let mut value = NodeValue {
            shard: self.me.node,
            addresses: self.settings.addresses.clone(),
            zone: self.settings.zone.clone(),
            no_failover: self.settings.no_failover,
        };
        let key = Key::Node(self.me.node);
        let compare = state.compare(key);
        let put = |key, value| Write::Put { key, value, lease: None };
        let mut transaction = Transaction { compares: vec![compare], writes: Vec::new() };
        match state.nodes.get(&self.me.node) {
            Some(line) => {
                value.shard = line.shard;
                if *line == value {
                    return;
                }
            }
            None if !self.data.whole => return,
            // This version can't read the line. The node belongs to the shard in it.
            None if state.revision_of(key).is_some() => return,
            None => {
                let has_format = state.revision_of(Key::Format).is_some();
                let (shard, island) = ((self.ids)(), (self.ids)());
                value.shard = shard;
                let of_shard = ShardValue {
                    island,
                    epoch: None,
                    primary: self.me,
                    list: Vec::new(),
                    quorum: self.settings.quorum,
                    continues: self.settings.continues,
                };
                let slots = IslandValue::Slots(BTreeMap::new());
                transaction.writes.push(put(Key::Shard(shard), of_shard.encode()));
                transaction.writes.push(put(Key::Island(island), slots.encode()));
                if !has_format {
                    transaction.writes.push(put(Key::Format, b"weft 1\n".to_vec()));
                }
            }
        }
        transaction.writes.push(put(key, value.encode()));
        self.propose(now, Purpose::Line, transaction);
    }

    /// Until when this node may acknowledge, as a primary.
    fn deadline(&self, now: Ms) -> Ms {
        match self.role() {
            // Nothing else may lead to this: data that are lost are never served.
            Role::Leads { .. } if !self.data.whole => 0,
            Role::Leads { .. } if now < self.quiet_until => 0,
            Role::Leads { .. } => self.lease_until().max(self.promised_deadline(now)),
            Role::None | Role::Restarted { .. } | Role::Follows { .. } => 0,
        }
    }

    fn duty(&self) -> Duty {
        match self.role() {
            Role::Leads { shard, epoch } => Duty::Lead { shard, epoch },
            Role::Follows { shard, primary, epoch } if !self.is_frozen() => {
                Duty::Follow { shard, primary: primary.node, epoch }
            }
            Role::None | Role::Restarted { .. } | Role::Follows { .. } => Duty::None,
        }
    }

    /// Reports changes: ends before beginnings.
    fn show(&mut self, now: Ms, out: &mut Vec<Action>) {
        let (deadline, duty, serve) = (self.deadline(now), self.duty(), self.serve());
        if deadline < self.shown.deadline {
            out.push(Action::AcknowledgeUntil(deadline));
        }
        if duty != self.shown.duty {
            if matches!(duty, Duty::Follow { .. }) {
                self.heard = now;
            }
            self.shown.through = 0;
            self.shown.duty = duty;
            out.push(Action::Duty(duty));
        }
        if *serve != *self.shown.serve {
            self.shown.serve = serve.clone();
            out.push(Action::Serve(serve));
        }
        if deadline > self.shown.deadline {
            out.push(Action::AcknowledgeUntil(deadline));
        }
        self.shown.deadline = deadline;
        self.confirm(out);
        self.request_drains(out);
        self.publish(now, out);
    }
}

fn report(invalid: Vec<(String, Invalid)>, out: &mut Vec<Action>) {
    out.extend(invalid.into_iter().map(|(key, Invalid(why))| {
        Action::Log(format!("The cluster's store has an invalid value at {key}: {why}"))
    }));
}
