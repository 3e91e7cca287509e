//! The topology that requests see.
//!
//! It follows from the map of the machine, and the slots that it serves now. Slots that this node owns and doesn't serve
//! are *suspended*: they are about to go to another node, and requests on them wait. Slots of the primary whose role this
//! node is about to get are *expected*: requests that it would redirect wait.

use crate::{Shared, Topology};
use std::sync::Arc;
use weft_cluster::node::Duty;
use weft_cluster::{Map, Node, NodeId, SlotSet};
use weft_executor::cluster::change;
use weft_state::cluster::settings_of;

/// See the module documentation.
pub struct Publisher {
    driver: Shared,
    serves: Arc<SlotSet>,
    duty: Duty,
    /// The topology in force may not be the present one.
    is_due: bool,
    /// The map in force is that of the store.
    shows_store: bool,
}

impl Publisher {
    pub fn new(driver: Shared) -> Publisher {
        Publisher {
            driver,
            serves: Arc::default(),
            duty: Duty::None,
            is_due: true,
            shows_store: false,
        }
    }

    /// The slots that this node serves from the next publication on.
    pub fn serve(&mut self, slots: Arc<SlotSet>) {
        (self.serves, self.is_due) = (slots, true);
    }

    /// Whether the slots of this node, if it has any, are all about to go, as its role is.
    pub fn serves_nothing(&self) -> bool {
        self.serves.is_empty()
    }

    /// Whether this node is a primary.
    pub fn leads(&self) -> bool {
        matches!(self.duty, Duty::Lead { .. })
    }

    /// Whether this node neither leads nor follows.
    pub fn is_idle(&self) -> bool {
        self.duty == Duty::None
    }

    pub fn set_duty(&mut self, duty: Duty) {
        (self.duty, self.is_due) = (duty, true);
    }

    /// The map may be another one.
    pub fn look_again(&mut self) {
        self.is_due = true;
    }

    /// Whether the map in force is that of the store, with this node in it.
    pub fn shows_store(&self) -> bool {
        self.shows_store
    }

    /// Before a deadline: slots or the role may have gone while there was no lease. A replica has neither. If it is about to
    /// lead, clients that come before the deadline is set would be refused.
    pub fn publish_losses(&mut self) {
        if self.driver.srv.nodes.cluster.topology().routes.is_primary() {
            self.publish();
        }
    }

    /// Puts the present topology into force, if it is another one.
    pub fn publish(&mut self) {
        if !self.is_due {
            return;
        }
        let srv = self.driver.srv;
        let state = &srv.nodes.cluster;
        let before = state.topology();
        let Some((map, suspended, expected)) = self.present(&before) else { return };
        self.is_due = false;
        let settings = settings_of(&srv.config());
        let is_same = map == before.map && settings == before.settings;
        if is_same && suspended == before.suspended && expected == before.expected {
            return;
        }
        let owns = !map.slots_of(before.me).is_empty();
        self.driver.note_forgotten(&before.map, &map);
        let mut topology = weft_state::cluster::Topology::new(map, before.me, settings);
        (topology.suspended, topology.expected) = (suspended, expected);
        let leads = topology.routes.is_primary();
        let begins = !topology.suspended.is_empty() || !topology.expected.is_empty();
        // The role is about to go: no write at all may follow.
        let is_whole = begins && owns && self.serves_nothing();
        {
            let mut hand = srv.hand();
            let stop = hand.stop();
            change::put_into_force(srv, topology, &stop);
            if leads {
                state.authority.set_changes_role(false);
            }
            if begins {
                srv.suspend_slots(true, is_whole);
            }
        }
        if !begins {
            srv.suspend_slots(false, false);
        }
    }

    /// The present map, the slots that are suspended, and those that are expected. `None` if this node is about to lead: its role or
    /// its deadline isn't in force yet, so the map would bring clients that are refused.
    fn present(&mut self, before: &Topology) -> Option<(Map, SlotSet, SlotSet)> {
        let me = self.driver.me;
        let may_lead = before.routes.is_primary()
            || self.leads() && self.driver.srv.nodes.cluster.authority.bounded_until() > 0;
        let (map, incoming, expected) = {
            let machine = self.driver.machine();
            let node = machine.node();
            if node.leads() && !may_lead {
                return None;
            }
            (machine.map(), node.incoming(), node.expected())
        };
        self.shows_store = map.is_some();
        let mut map = map.unwrap_or_else(|| {
            // This node has no line in the store: it knows no other one.
            let mut alone = Node::new(me, me);
            if let Some(node) = before.map.node(me) {
                alone.addresses = node.addresses.clone();
                alone.zone.clone_from(&node.zone);
            }
            Map::of_one(alone)
        });
        // Versions count revisions of the whole store: most of them change nothing here.
        map.version = 0;
        keep_marks_of(me, &mut map);
        let suspended = match self.duty {
            Duty::Lead { .. } => {
                let owned = map.slots_of(me);
                let leaving = owned.iter().filter(|slot| !self.serves.contains(*slot));
                // Until this node sees the end, its owner may redirect clients here already.
                leaving.chain(incoming.iter().filter(|slot| !owned.contains(*slot))).collect()
            }
            Duty::None | Duty::Follow { .. } => SlotSet::default(),
        };
        Some((map, suspended, expected))
    }
}

/// Removes the marks of other nodes: they decide on no request here, and no command shows them.
fn keep_marks_of(me: NodeId, map: &mut Map) {
    let others: Vec<NodeId> =
        map.nodes().iter().map(|node| node.id).filter(|id| *id != me).collect();
    for other in others {
        let node = map.node_mut(other).expect("it is in the map");
        node.migrating.clear();
        node.importing.clear();
    }
}
