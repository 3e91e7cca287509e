//! Replicas in a cluster with a store: each link belongs to a member of the shard, in one epoch.

use super::{Attached, Phase, Primary};
use crate::action::ConnId;
use crate::cluster::{Greeting, PromiseQuestion};
use crate::cx::Cx;
use crate::primary::replconf::reply;

impl Primary {
    /// A member of the shard begins a link, which replaces its earlier ones: no late acknowledgement
    /// of them may count after a copy has begun. The reply says where the history of this shard has
    /// left the earlier one.
    pub(crate) fn greet(&mut self, cx: &mut Cx<'_>, conn: ConnId, peer: &str, greeting: Greeting) {
        let is_earlier = |attached: &&Attached| {
            attached.conn != conn
                && attached.greeting.is_some_and(|earlier| earlier.member == greeting.member)
        };
        let earlier: Vec<ConnId> =
            self.replicas.values().filter(is_earlier).map(|attached| attached.conn).collect();
        for earlier in earlier {
            self.drop_replica(cx, earlier, false);
        }
        let attached = self.entry(conn, peer);
        if attached.is_replica() {
            return;
        }
        attached.greeting = Some(greeting);
        match cx.stream.history().second {
            Some(second) => reply(cx, conn, &format!("+OK {} {}", second.id, second.valid_to)),
            None => reply(cx, conn, "+OK"),
        }
    }

    /// Asks a member for a promise, if it gets the stream.
    pub(crate) fn ask_promise(&mut self, cx: &mut Cx<'_>, question: &PromiseQuestion) {
        let is_asked = |attached: &Attached| {
            attached.is_online()
                && attached.greeting.is_some_and(|greeting| greeting.member == question.member)
        };
        if self.replicas.values().any(is_asked) {
            cx.stream.ask_promise(question);
            self.appended(cx);
        }
    }

    /// The greeting of this connection.
    pub(crate) fn greeting(&self, conn: ConnId) -> Option<Greeting> {
        self.replicas.get(&conn)?.greeting
    }

    /// Whether this connection takes a copy without the stream, as backups do.
    pub(crate) fn takes_copy_only(&self, conn: ConnId) -> bool {
        self.replicas.get(&conn).is_some_and(|attached| attached.announced.rdb_only)
    }

    /// The epoch ends: closes all links.
    pub(crate) fn drop_members(&mut self, cx: &mut Cx<'_>) {
        let has_link = |attached: &&Attached| attached.is_replica() || attached.greeting.is_some();
        let all: Vec<ConnId> =
            self.replicas.values().filter(has_link).map(|attached| attached.conn).collect();
        for conn in all {
            self.drop_replica(cx, conn, false);
        }
    }

    /// A copy will be sent to this replica.
    pub(super) fn report_copy(&self, cx: &Cx<'_>, conn: ConnId) {
        self.report_progress(cx, conn, 0, false);
    }

    /// A replica has acknowledged. A replica that waits for a copy has nothing to acknowledge.
    pub(super) fn report_ack(&self, cx: &Cx<'_>, conn: ConnId) {
        let Some(attached) = self.replicas.get(&conn) else { return };
        match attached.phase {
            Phase::Online { .. } | Phase::Sending { .. } => {
                self.report_progress(cx, conn, attached.acks.applied, true);
            }
            Phase::Guest | Phase::Waiting { .. } | Phase::Snapshot { .. } => {}
        }
    }

    fn report_progress(&self, cx: &Cx<'_>, conn: ConnId, acked: u64, whole: bool) {
        if let Some(shard) = cx.member
            && let Some(Greeting { member, epoch, .. }) = self.greeting(conn)
        {
            // A replica can't have more than the stream.
            shard.progress(member, epoch, acked.min(cx.stream.offset()), whole);
        }
    }
}

/// The link of a replica has ended.
pub(super) fn report_gone(cx: &Cx<'_>, attached: &Attached) {
    if let (Some(shard), Some(greeting)) = (cx.member, attached.greeting) {
        shard.gone(greeting.member);
    }
}
