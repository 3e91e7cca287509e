//! The role of this node in replication, and what replication reports.

use crate::{Driver, Shared};
use std::sync::Arc;
use weft_cluster::NodeId;
use weft_cluster::ShardId;
use weft_cluster::node::{self, Duty, Member, OpId, Revision};
use weft_config::Id;
use weft_durability::aof::aof;
use weft_durability::aof::mark::Led;
use weft_replication_driver::cluster::{Cluster, ShardMember, ShardPrimary};
use weft_replication_driver::hub;

impl Driver {
    /// Carries out a duty. Returns when nothing of the earlier one continues.
    pub(crate) fn change_role(&self, duty: Duty) {
        let srv = self.srv;
        if duty != Duty::None {
            aof(srv).mark.set_found(None);
        }
        match duty {
            Duty::None => {
                aof(srv).mark_for(None);
                hub(srv).hold(srv);
            }
            Duty::Lead { shard, epoch } => {
                hub(srv).lead(srv, shard, epoch);
                let Member { incarnation, .. } = self.machine().node().me();
                aof(srv).mark_for(Some(Led { incarnation, epoch }));
            }
            Duty::Follow { shard, primary, epoch } => {
                aof(srv).mark_for(None);
                let tls = srv.config().bool(Id::TLS_REPLICATION);
                let address = self.machine().node().addresses_of(primary);
                match address {
                    Some(of) => {
                        let port = if tls { of.tls_port } else { of.port };
                        let primary =
                            ShardPrimary { host: of.ip, port, node: primary, shard, epoch };
                        hub(srv).follow(srv, &primary);
                    }
                    None => hub(srv).hold(srv),
                }
            }
        }
    }
}

/// Connects replication to the machine. Must come before there are data.
pub(crate) fn join(driver: Shared) {
    let me = driver.machine().node().me();
    hub(driver.srv).join(Cluster { me, shard: Arc::new(Reports(driver)) });
}

/// Questions and reports of replication. It calls with its mutex held; the machine's is taken for a moment.
struct Reports(Shared);

impl ShardMember for Reports {
    fn admits(&self, member: Member, shard: ShardId, epoch: Revision) -> bool {
        let machine = self.0.machine();
        machine.node().admits_replica(member.node, shard, epoch)
    }

    fn progress(&self, member: Member, epoch: Revision, acked: u64, whole: bool) {
        self.0.pass(|event| {
            event.node.replica_progress(event.now, member, epoch, acked, whole, event.out);
        });
    }

    fn gone(&self, member: Member) {
        self.0.pass(|event| event.node.replica_gone(event.now, member, event.out));
    }

    fn may_follow(&self, primary: NodeId, epoch: Revision) -> bool {
        self.0.machine().node().may_follow(primary, epoch)
    }

    fn drops_data(&self, primary: NodeId, epoch: Revision) -> bool {
        self.0.pass(|event| {
            let may = event.node.may_follow(primary, epoch);
            if may {
                event.node.data_incomplete(event.now, event.out);
            }
            may
        })
    }

    fn has_data(&self, offset: u64) {
        let found = aof(self.0.srv).mark.found();
        let durable = found.map(|Led { incarnation, epoch }| node::Led { incarnation, epoch });
        self.0.pass(|event| event.node.data_at(event.now, offset, durable, event.out));
    }

    fn heard_primary(&self) {
        self.0.pass(|event| event.node.heard_primary(event.now));
    }

    fn written(&self, offset: u64) {
        self.0.pass(|event| event.node.written(offset));
    }

    fn promise_asked(&self, primary: NodeId, epoch: Revision, ask: OpId) {
        self.0.pass(|event| event.node.promise_asked(event.now, primary, epoch, ask, event.out));
    }

    fn promised(&self, member: Member, ask: OpId) {
        self.0.pass(|event| event.node.promised(event.now, member, ask, event.out));
    }
}
