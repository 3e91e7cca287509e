//! The state machine with its actions that wait for weft-cluster.

use crate::new_id;
use std::collections::VecDeque;
use weft_cluster::node::{Action, Member, Ms, Node, RequestId, Settings};
use weft_cluster::{Map, NodeId};
use weft_state::server::{Server, fill_random};

/// See the module documentation.
pub struct Machine {
    node: Node,
    actions: VecDeque<Action>,
    /// Kept to reuse its capacity.
    out: Vec<Action>,
    requests: u64,
}

/// An event that is being passed.
pub struct Event<'a> {
    pub now: Ms,
    pub node: &'a mut Node,
    pub out: &'a mut Vec<Action>,
    requests: &'a mut u64,
}

impl Machine {
    /// The machine of a process that starts.
    pub fn new(srv: &Server, me: NodeId, settings: Settings) -> Machine {
        let mut random = [0; 8];
        fill_random(&mut random);
        let member = Member { node: me, incarnation: u64::from_le_bytes(random) };
        let mut out = Vec::new();
        let now = u64::try_from(srv.mono_ms()).unwrap_or(0);
        let node = Node::new(now, member, settings, Box::new(new_id), &mut out);
        Machine { node, actions: out.into(), out: Vec::new(), requests: 0 }
    }

    /// Passes an event; its actions wait. `is_leaving`: this process is about to end.
    pub fn pass<T>(
        &mut self,
        now: Ms,
        is_leaving: bool,
        event: impl FnOnce(&mut Event<'_>) -> T,
    ) -> T {
        let Machine { node, actions, out, requests } = self;
        node.set_leaving(is_leaving);
        let result = event(&mut Event { now, node, out, requests });
        actions.extend(out.drain(..));
        result
    }

    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Takes all actions that wait.
    pub fn take(&mut self) -> VecDeque<Action> {
        std::mem::take(&mut self.actions)
    }

    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The map as of the last seen revision.
    pub fn map(&self) -> Option<Map> {
        self.node.map()
    }
}

impl Event<'_> {
    pub fn tick(&mut self) {
        self.node.tick(self.now, self.out);
    }

    pub fn set(&mut self, settings: Settings) {
        self.node.set(self.now, settings, self.out);
    }

    /// The number of a request that nothing has used.
    pub fn next_request(&mut self) -> RequestId {
        *self.requests += 1;
        RequestId(*self.requests)
    }
}
