//! Where each slot is served: the map, compiled for the request path.
//!
//! Most requests need one bit: [`Routes::serves`]. [`Routes::verdict`] answers all others, as
//! Valkey's `getNodeByQuery` does.

use crate::id::NodeId;
use crate::map::{Addresses, Map, Node, Role, State};
use crate::settings::{Preferred, Settings, Via};
use crate::slots::{Slot, SlotSet};
use std::collections::BTreeMap;
use weft_base::limits::SLOTS;

/// Index of no node.
const NOBODY: u16 = u16::MAX;

/// The routes of all slots, as one node sees them.
#[derive(Clone, Debug)]
pub struct Routes {
    /// The slots that this node serves without a condition: it is a primary, owns them, the
    /// cluster is up, and they are not in transit.
    serves: SlotSet,
    owners: Box<[u16]>,
    nodes: Vec<(NodeId, Addresses)>,
    migrating: BTreeMap<Slot, NodeId>,
    importing: BTreeMap<Slot, NodeId>,
    me: NodeId,
    role: Role,
    state: State,
    settings: Settings,
}

/// The client and the command that ask for a slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asker {
    /// The command, or one of a transaction, writes.
    pub writes: bool,
    /// The client said READONLY.
    pub readonly: bool,
    /// The client said ASKING, or the command is RESTORE-ASKING.
    pub asking: bool,
    /// The command works on sharded channels.
    pub shard_channels: bool,
    /// The command is MIGRATE, which works on this node's keys while their slot is in transit.
    pub migrates: bool,
}

/// What a look at the keys of a request in a slot in transit found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeysFound {
    pub existing: usize,
    pub missing: usize,
    /// The request has two different keys.
    pub several: bool,
    /// MOVE, or COPY to another database: refused while the slot is in transit.
    pub crosses_databases: bool,
}

/// A slot that is moving, as a request sees it.
#[derive(Clone, Copy)]
enum Transit {
    MigratingTo(NodeId),
    Importing,
}

/// Where a request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    Here,
    /// It depends on the keys: look them up, then ask [`Routes::verdict_of_keys`].
    LookAtKeys,
    Moved(&'a Addresses),
    Ask(&'a Addresses),
    /// Some keys are here, others have moved.
    TryAgain,
    Unbound,
    Down,
    DownReadsOnly,
}

impl Routes {
    /// Compiles the routes of node `me`.
    pub fn compile(map: &Map, me: NodeId, settings: Settings) -> Routes {
        let myself = map.node(me).expect("the map has this node");
        let nodes = map.nodes();
        let index = |node: &Node| nodes.partition_point(|other| other.id < node.id) as u16;
        let owners: Box<[u16]> =
            (0..SLOTS as Slot).map(|slot| map.owner(slot).map_or(NOBODY, index)).collect();
        let state = map.state(&settings);
        let mut serves = SlotSet::default();
        if state == State::Ok && myself.is_primary() {
            serves = map.slots_of(me);
            let moving = myself.migrating.keys().chain(myself.importing.keys());
            moving.for_each(|slot| _ = serves.remove(*slot));
        }
        Routes {
            serves,
            owners,
            nodes: nodes.iter().map(|node| (node.id, node.addresses.clone())).collect(),
            migrating: myself.migrating.clone(),
            importing: myself.importing.clone(),
            me,
            role: myself.role,
            state,
            settings,
        }
    }

    /// Whether this node serves `slot` without any condition.
    #[inline]
    pub fn serves(&self, slot: Slot) -> bool {
        self.serves.contains(slot)
    }

    /// Whether the cluster is up.
    pub fn is_up(&self) -> bool {
        self.state == State::Ok
    }

    /// Whether this node is a primary.
    pub fn is_primary(&self) -> bool {
        self.role == Role::Primary
    }

    /// The endpoint and the port in a redirect.
    pub fn endpoint<'a>(&self, addresses: &'a Addresses, via: Via) -> (&'a str, u16) {
        let preferred: Preferred = self.settings.preferred;
        (addresses.endpoint(preferred, via), addresses.port_for(via))
    }

    /// Where a request with keys in `slot` is served. A request without keys is always served here.
    pub fn verdict(&self, slot: Slot, asker: Asker) -> Verdict<'_> {
        match self.transit(slot, asker) {
            Some(_) if self.owner(slot).is_some() && !asker.shard_channels => Verdict::LookAtKeys,
            _ => self.verdict_of_keys(slot, asker, KeysFound::default()),
        }
    }

    /// The same when the keys were looked up.
    pub fn verdict_of_keys(&self, slot: Slot, asker: Asker, keys: KeysFound) -> Verdict<'_> {
        let Some((owner, addresses)) = self.owner(slot) else { return Verdict::Unbound };
        let transit = self.transit(slot, asker);
        if transit.is_some() && keys.crosses_databases {
            return Verdict::TryAgain;
        }
        if let Some(down) = self.down(asker) {
            return down;
        }
        if transit.is_some() && asker.migrates && self.is_primary() {
            return Verdict::Here;
        }
        match transit {
            Some(Transit::MigratingTo(to)) if keys.missing > 0 => {
                return match self.addresses(to) {
                    Some(to) if keys.existing == 0 => Verdict::Ask(to),
                    _ => Verdict::TryAgain,
                };
            }
            Some(Transit::Importing) if asker.asking => {
                let half = keys.several && keys.missing > 0;
                return if half { Verdict::TryAgain } else { Verdict::Here };
            }
            _ => {}
        }
        let reads = (asker.readonly || asker.shard_channels) && !asker.writes;
        let here = owner == self.me || reads && self.role == Role::ReplicaOf(owner);
        if here { Verdict::Here } else { Verdict::Moved(addresses) }
    }

    /// The client is blocked on a key of `slot`: whether it must be unblocked, with which error.
    pub fn verdict_of_blocked(&self, slot: Slot, asker: Asker) -> Verdict<'_> {
        if self.state == State::Fail {
            return Verdict::Down;
        }
        let Some((owner, addresses)) = self.owner(slot) else { return Verdict::Unbound };
        let imported = self.importing.contains_key(&slot);
        let reads = asker.readonly && !asker.writes && self.role == Role::ReplicaOf(owner);
        match owner == self.me || imported || reads {
            true => Verdict::Here,
            false => Verdict::Moved(addresses),
        }
    }

    fn down(&self, asker: Asker) -> Option<Verdict<'static>> {
        if self.state == State::Ok {
            return None;
        }
        if asker.shard_channels {
            return (!self.settings.shard_channels_when_down).then_some(Verdict::Down);
        }
        match self.settings.reads_when_down {
            false => Some(Verdict::Down),
            true => asker.writes.then_some(Verdict::DownReadsOnly),
        }
    }

    fn transit(&self, slot: Slot, asker: Asker) -> Option<Transit> {
        if !self.is_primary() && !asker.readonly {
            return None;
        }
        let primary = match self.role {
            Role::Primary => self.me,
            Role::ReplicaOf(primary) => primary,
        };
        let owned = self.owner(slot).is_some_and(|(owner, _)| owner == primary);
        match self.migrating.get(&slot) {
            Some(to) if owned => Some(Transit::MigratingTo(*to)),
            _ => self.importing.get(&slot).map(|_| Transit::Importing),
        }
    }

    fn owner(&self, slot: Slot) -> Option<(NodeId, &Addresses)> {
        let (id, addresses) = self.nodes.get(usize::from(self.owners[usize::from(slot)]))?;
        Some((*id, addresses))
    }

    fn addresses(&self, id: NodeId) -> Option<&Addresses> {
        let at = self.nodes.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(&self.nodes[at].1)
    }
}
