//! The role in a cluster with a store.
//!
//! The node of the cluster decides ([`weft_cluster::node`]); this carries the role out. Replication
//! asks and informs it by [`ShardMember`], while it holds the mutex of the hub. So no caller of the
//! methods here may hold a lock that an implementation of that trait takes.

use crate::{Hub, hub, pass_event, settings};
use weft_cluster::node::{OpId, Revision};
use weft_cluster::{NodeId, ShardId};
use weft_keyspace::ExecContext;
pub use weft_replication::cluster::{Cluster, PromiseQuestion, ShardMember, ShardPrimary};
use weft_replication::{Action, Ms, Node, Position};
use weft_state::server::Server;

impl Hub {
    /// This server is a member of a shard. The caller calls it before any data are loaded.
    ///
    /// # Panics
    /// If it was called before.
    pub fn join(&self, cluster: Cluster) {
        assert!(self.cluster.set(cluster).is_ok(), "a server joins one cluster");
    }

    /// Whether this server is a member of a shard.
    pub fn is_member(&self) -> bool {
        self.cluster.get().is_some()
    }

    /// The machine of a member, before the cluster has said what it does.
    pub(super) fn held_node(
        &self,
        srv: &'static Server,
        position: Option<Position>,
    ) -> Option<Node> {
        let cluster = self.cluster.get()?.clone();
        let settings = settings::of(&srv.config());
        Some(Node::in_cluster(crate::now(srv), settings, settings::ids(), position, cluster))
    }

    /// Leads the shard. Returns when all later writes are in the stream of this epoch.
    pub fn lead(&self, srv: &'static Server, shard: ShardId, epoch: Revision) {
        change(srv, |node, now, out| node.lead(now, shard, epoch, out));
    }

    /// Follows the primary of the shard. Returns when nothing of an earlier link can be applied.
    pub fn follow(&self, srv: &'static Server, primary: &ShardPrimary) {
        change(srv, |node, now, out| node.follow_shard(now, primary, out));
    }

    /// Neither leads nor follows. Returns when the data stay as they are.
    pub fn hold(&self, srv: &'static Server) {
        change(srv, |node, now, out| node.hold(now, out));
    }

    /// Asks a replica for a promise. Without a link to it, the question is lost.
    pub fn ask_promise(&self, srv: &'static Server, question: PromiseQuestion) {
        self.step(srv, |node, now, out| node.ask_promise(now, question, out));
    }

    /// Gives the primary of this epoch a promise. Without a link to it, the promise is lost.
    pub fn promise(&self, srv: &'static Server, to: NodeId, epoch: Revision, ask: OpId) {
        self.step(srv, |node, now, out| node.promise(now, to, epoch, ask, out));
    }

    /// Reports everything written before this call to the shard ([`ShardMember::written`]), asks
    /// replicas to acknowledge it, and returns the end of the stream.
    pub fn report_written(&self, srv: &'static Server) -> u64 {
        let mut state = self.up_to_date(srv);
        pass_event(srv, &mut state, |node, now, out| {
            node.request_acks(now, out);
            node.report_position();
        });
        let end = state.node.stream().offset();
        self.finish(srv, state);
        end
    }
}

/// Changes the role at a cut. The caller holds nothing, and is no thread that executes commands.
fn change(srv: &'static Server, event: impl FnOnce(&mut Node, Ms, &mut Vec<Action>)) {
    let mut hand = srv.hand();
    let mut context = ExecContext::new(srv.now_ms(), 0);
    let guard = hand.world(&mut context);
    hub(srv).cut(srv, Some(&guard), event);
}
