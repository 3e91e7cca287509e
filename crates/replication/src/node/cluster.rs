//! The role of a node in a cluster with a store.
//!
//! As in `roles`, a change is a cut. Every link ends with it, in both directions: a link belongs
//! to one epoch.

use super::{Node, refuse};
use crate::Ms;
use crate::action::{Action, ConnId, Ids, LinkId};
use crate::cluster::{Cluster, Greeting, Membership, PromiseQuestion, ShardPrimary};
use crate::planted::{self, Fault};
use crate::replica::{Follower, Source};
use crate::settings::Settings;
use crate::stream::Position;
use weft_cluster::node::{Duty, OpId, Revision};
use weft_cluster::{NodeId, ShardId};

impl Node {
    /// A node of a cluster. It neither serves nor follows until the cluster says so. `position`:
    /// that of the loaded data, if they have one.
    #[must_use]
    pub fn in_cluster(
        now: Ms,
        settings: Settings,
        ids: Ids,
        position: Option<Position>,
        cluster: Cluster,
    ) -> Node {
        let Cluster { me, shard } = cluster;
        let mut node = Node::empty(now, settings, ids);
        node.stream.demote();
        if let Some(position) = position {
            node.stream.adopt(position);
        }
        node.follower = Some(Follower::idle(now, node.last_link, position.is_some()));
        shard.has_data(node.stream.offset());
        node.membership = Some(Membership { me, shard, duty: Duty::None, reported: None });
        node
    }

    /// The duty of a node of a cluster.
    #[must_use]
    pub fn duty(&self) -> Option<Duty> {
        self.membership.as_ref().map(|membership| membership.duty)
    }

    /// Bytes of its own history that this server has dropped since its start, because the history
    /// of its shard continues without them.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    fn take_duty(&mut self, duty: Duty) -> bool {
        let Some(membership) = &mut self.membership else { return false };
        membership.reported = None;
        std::mem::replace(&mut membership.duty, duty) != duty
    }

    /// Leads the shard.
    pub fn lead(&mut self, now: Ms, shard: ShardId, epoch: Revision, out: &mut Vec<Action>) {
        if !self.take_duty(Duty::Lead { shard, epoch }) {
            return;
        }
        match self.is_primary() {
            true => self.drop_members(now, out),
            false => self.promote(now, out),
        }
        self.report_position();
    }

    /// Follows the primary of the shard.
    pub fn follow_shard(&mut self, now: Ms, primary: &ShardPrimary, out: &mut Vec<Action>) {
        let ShardPrimary { host, port, node, shard, epoch } = primary;
        let duty = Duty::Follow { shard: *shard, primary: *node, epoch: *epoch };
        let is_new = self.take_duty(duty);
        let is_there = |follower: &Follower| follower.primary() == (host, *port);
        let Some(Membership { me, .. }) = self.membership else { return };
        if !is_new && self.follower.as_ref().is_some_and(is_there) {
            return;
        }
        let resumable = self.stand_down(now, out);
        let mut follower = Follower::new(now, host.clone(), *port, self.last_link, resumable);
        let greeting = Greeting { shard: *shard, epoch: *epoch, member: me };
        follower.set_source(Source::new(*node, greeting));
        self.follower = Some(follower);
        self.follow(now, out, |follower, cx| follower.tick(cx));
    }

    /// Neither serves nor follows: data and position stay as they are.
    pub fn hold(&mut self, now: Ms, out: &mut Vec<Action>) {
        if self.take_duty(Duty::None) {
            let resumable = self.stand_down(now, out);
            self.follower = Some(Follower::idle(now, self.last_link, resumable));
        }
    }

    /// Ends the present duty. Returns whether the data match the position.
    fn stand_down(&mut self, now: Ms, out: &mut Vec<Action>) -> bool {
        let resumable = self.leave_role(now, out);
        self.drop_members(now, out);
        if let Some(membership) = self.membership.as_ref().filter(|_| resumable) {
            membership.shard.has_data(self.stream.offset());
        }
        resumable
    }

    /// Closes the links of all replicas, also of those that have not asked for data.
    fn drop_members(&mut self, now: Ms, out: &mut Vec<Action>) {
        self.serve(now, out, |primary, cx| primary.drop_members(cx));
    }

    /// Reports what this server has.
    pub fn report_position(&mut self) {
        let offset = self.stream.offset();
        let Some(membership) = &mut self.membership else { return };
        let has_data = self.follower.as_ref().map(Follower::is_online);
        if has_data == Some(false) || membership.reported == Some(offset) {
            return;
        }
        membership.reported = Some(offset);
        match has_data {
            Some(_) => membership.shard.has_data(offset),
            None => membership.shard.written(offset),
        }
    }

    /// Reports once a tick.
    pub(super) fn report(&mut self) {
        let has_heard = self.follower.as_mut().is_some_and(Follower::take_heard);
        if let Some(membership) = self.membership.as_ref().filter(|_| has_heard) {
            membership.shard.heard_primary();
        }
        self.report_position();
    }

    /// Whether the cluster lets this server apply the stream of its primary now.
    pub(super) fn admits_stream(&self) -> bool {
        let Some(Membership { duty, shard, .. }) = &self.membership else { return true };
        match duty {
            Duty::Follow { primary, epoch, .. } => {
                shard.may_follow(*primary, *epoch) || planted::is(Fault::OldEpochApplied)
            }
            Duty::None | Duty::Lead { .. } => false,
        }
    }

    /// The stream of this link may no longer be applied: closes it, so that none of it is skipped.
    pub fn refuse_stream(&mut self, now: Ms, link: LinkId, out: &mut Vec<Action>) {
        self.follow(now, out, |follower, cx| follower.refuse_stream(cx, link));
    }

    /// Asks a replica for a promise.
    pub fn ask_promise(&mut self, now: Ms, question: PromiseQuestion, out: &mut Vec<Action>) {
        let duty = self.duty();
        if matches!(duty, Some(Duty::Lead { epoch, .. }) if epoch == question.epoch) {
            self.serve(now, out, |primary, cx| primary.ask_promise(cx, &question));
        }
    }

    /// The stream of this link had a question for a promise, which is `unit`.
    pub fn promise_asked(&mut self, link: LinkId, unit: &[u8]) {
        let (Some(membership), Some(of)) = (&self.membership, PromiseQuestion::parse(unit)) else {
            return;
        };
        if let Duty::Follow { primary, .. } = membership.duty
            && of.member == membership.me
            && self.may_apply(link)
        {
            membership.shard.promise_asked(primary, of.epoch, of.ask);
        }
    }

    /// Gives the primary of this epoch a promise.
    pub fn promise(
        &mut self,
        now: Ms,
        to: NodeId,
        epoch: Revision,
        ask: OpId,
        out: &mut Vec<Action>,
    ) {
        let follows = match self.duty() {
            Some(Duty::Follow { primary, epoch: of, .. }) => primary == to && of == epoch,
            Some(Duty::None | Duty::Lead { .. }) | None => false,
        };
        if follows {
            self.follow(now, out, |follower, cx| follower.promise(cx, epoch, ask));
        }
    }

    /// A replica has promised.
    pub(super) fn promised(&self, conn: ConnId, epoch: Revision, ask: OpId) {
        let Some(Membership { duty: Duty::Lead { epoch: own, .. }, shard, .. }) = &self.membership
        else {
            return;
        };
        if let Some(greeting) = self.primary.greeting(conn)
            && (greeting.epoch, *own) == (epoch, epoch)
            && self.primary.is_replica(conn)
        {
            shard.promised(greeting.member, ask);
        }
    }

    /// Handles the greeting of a replica.
    pub(super) fn greet(
        &mut self,
        now: Ms,
        conn: ConnId,
        peer: &str,
        greeting: Greeting,
        out: &mut Vec<Action>,
    ) {
        let Some(Membership { duty, shard, .. }) = &self.membership else { return };
        let Greeting { shard: of, epoch, member } = greeting;
        if *duty != (Duty::Lead { shard: of, epoch }) {
            return refuse(conn, "NOMASTERLINK Not the primary of this shard and epoch", out);
        }
        if !shard.admits(member, of, epoch) {
            return refuse(conn, "NOMASTERLINK The primary accepts no replica now", out);
        }
        self.serve(now, out, |primary, cx| primary.greet(cx, conn, peer, greeting));
    }

    /// Whether this connection may become a replica by PSYNC with these arguments, or the error.
    pub(super) fn admits_replica(&self, conn: ConnId, args: &[&[u8]]) -> Result<(), &'static str> {
        let Some(Membership { duty, shard, .. }) = &self.membership else { return Ok(()) };
        let continues = args.first().is_some_and(|id| *id != b"?");
        if self.primary.takes_copy_only(conn) && !continues {
            return Ok(());
        }
        let Some(Greeting { shard: of, epoch, member }) = self.primary.greeting(conn) else {
            return Err(
                "NOMASTERLINK Only a replica of this shard can SYNC with a node of a cluster",
            );
        };
        match *duty == (Duty::Lead { shard: of, epoch }) && shard.admits(member, of, epoch) {
            true => Ok(()),
            false => Err("NOMASTERLINK The primary accepts no replica now"),
        }
    }
}
