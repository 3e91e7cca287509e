//! One server: its stream, its replicas, its primary, and their interaction.
//!
//! The interface for an I/O layer. Every method takes the time, which never decreases, and appends
//! actions. The caller executes them in that order. Nothing here blocks, allocates without bound or
//! reads a clock.

mod cluster;
mod roles;

use crate::Ms;
use crate::action::{Action, ConnId, Ids, LinkId, SnapshotId};
use crate::cluster::{Greeting, Membership, PromiseQuestion};
use crate::cx::{Cx, Notification};
use crate::failover::Failover;
use crate::planted::{self, Fault};
use crate::primary::{Primary, ReplconfEffect};
use crate::replica::Follower;
use crate::settings::Settings;
use crate::stream::{Position, Stream, Units};

/// The initial state of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The position of the loaded data, if they have one.
    pub position: Option<Position>,
    /// The primary to follow.
    pub primary: Option<(String, u16)>,
}

/// Both machines of a server.
pub struct Node {
    settings: Settings,
    ids: Ids,
    stream: Stream,
    primary: Primary,
    follower: Option<Follower>,
    last_link: LinkId,
    failover: Failover,
    /// In a cluster with a store.
    membership: Option<Membership>,
    discarded: u64,
}

impl Node {
    /// A server without data.
    fn empty(now: Ms, settings: Settings, mut ids: Ids) -> Node {
        let stream = Stream::new(ids(), settings.backlog_size);
        Node {
            settings,
            ids,
            stream,
            primary: Primary::new(now),
            follower: None,
            last_link: LinkId(0),
            failover: Failover::No,
            membership: None,
            discarded: 0,
        }
    }

    #[must_use]
    pub fn new(now: Ms, settings: Settings, ids: Ids, start: Start, out: &mut Vec<Action>) -> Node {
        let mut node = Node::empty(now, settings, ids);
        match (start.primary, start.position) {
            (Some((host, port)), position) => {
                node.stream.demote();
                if let Some(position) = position {
                    node.stream.adopt(position);
                }
                let follower = Follower::new(now, host, port, node.last_link, position.is_some());
                node.follower = Some(follower);
            }
            (None, Some(position)) => {
                let id = (node.ids)();
                node.stream.restart(position, id);
                out.push(Action::KeepWrites);
            }
            (None, None) => {}
        }
        node
    }

    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    #[must_use]
    pub fn primary(&self) -> &Primary {
        &self.primary
    }

    /// The link to the primary, if this server is a replica.
    #[must_use]
    pub fn follower(&self) -> Option<&Follower> {
        self.follower.as_ref()
    }

    #[must_use]
    pub fn is_primary(&self) -> bool {
        self.follower.is_none()
    }

    #[must_use]
    pub fn failover(&self) -> &Failover {
        &self.failover
    }

    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The position that a file of the data records; `None` if no server could continue from these
    /// data.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        let has = match &self.follower {
            Some(follower) => follower.has_position(),
            None => self.stream.backlog().is_some(),
        };
        has.then(|| self.stream.position())
    }

    /// Whether enough replicas are connected for a client's write.
    #[must_use]
    pub fn may_write(&self, now: Ms) -> bool {
        self.primary.may_write(now, &self.settings)
    }

    fn run<T>(
        &mut self,
        now: Ms,
        out: &mut Vec<Action>,
        run: impl FnOnce(&mut Primary, Option<&mut Follower>, &mut Cx<'_>) -> T,
    ) -> T {
        let mut cx = Cx {
            now,
            settings: &self.settings,
            stream: &mut self.stream,
            ids: &mut self.ids,
            out,
            member: self.membership.as_ref().map(|membership| &*membership.shard),
            discarded: &mut self.discarded,
            notifications: Vec::new(),
        };
        let result = run(&mut self.primary, self.follower.as_mut(), &mut cx);
        let notifications = std::mem::take(&mut cx.notifications);
        for notification in notifications {
            match notification {
                Notification::CutReplicas => self.cut_replicas(now, out),
                Notification::Accepted => self.end_failover(out),
                Notification::Refused => {
                    self.abort_failover(now, "Failover target rejected psync request", out)
                }
            }
        }
        result
    }

    fn serve(
        &mut self,
        now: Ms,
        out: &mut Vec<Action>,
        run: impl FnOnce(&mut Primary, &mut Cx<'_>),
    ) {
        self.run(now, out, |primary, _, cx| run(primary, cx));
    }

    fn follow(
        &mut self,
        now: Ms,
        out: &mut Vec<Action>,
        run: impl FnOnce(&mut Follower, &mut Cx<'_>),
    ) {
        self.run(now, out, |_, follower, cx| {
            if let Some(follower) = follower {
                run(follower, cx);
            }
        });
    }

    fn cut_replicas(&mut self, now: Ms, out: &mut Vec<Action>) {
        self.serve(now, out, |primary, cx| primary.drop_all(cx));
    }

    /// Applies a changed configuration.
    pub fn set(&mut self, now: Ms, settings: Settings, out: &mut Vec<Action>) {
        self.stream.resize(settings.backlog_size);
        self.settings = settings;
        self.serve(now, out, |primary, cx| primary.appended(cx));
    }

    /// Continues under another id, so that no replica can continue from before.
    pub fn change_id(&mut self) {
        let id = (self.ids)();
        self.stream.rename(id);
    }

    /// Advances the time. The caller calls it about ten times a second.
    pub fn tick(&mut self, now: Ms, out: &mut Vec<Action>) {
        self.follow(now, out, |follower, cx| follower.tick(cx));
        let is_primary = self.is_primary();
        let speaks = is_primary && self.failover == Failover::No;
        self.serve(now, out, |primary, cx| primary.tick(cx, is_primary, speaks));
        self.drive_failover(now, out);
        self.report();
    }

    // ---- the stream

    /// Appends committed units of this server, in the order of the log, as many at once as are
    /// ready.
    pub fn write<T>(
        &mut self,
        now: Ms,
        write: impl FnOnce(&mut Units<'_>) -> T,
        out: &mut Vec<Action>,
    ) -> T {
        debug_assert!(self.is_primary(), "a replica's stream is its primary's");
        let result = self.stream.write(write);
        self.serve(now, out, |primary, cx| primary.appended(cx));
        result
    }

    /// Keeps the stream from here on, even without replicas, or only as long as `repl-backlog-ttl` allows.
    pub fn keep_stream(&mut self, always: bool, out: &mut Vec<Action>) {
        self.primary.keep_backlog(always);
        if always && self.is_primary() && self.stream.keep(&mut *self.ids) {
            out.push(Action::KeepWrites);
        }
    }

    /// A client waits for replicas' acknowledgements.
    pub fn request_acks(&mut self, now: Ms, out: &mut Vec<Action>) {
        if self.is_primary() {
            self.serve(now, out, |primary, cx| primary.request_acks(cx));
        }
    }

    // ---- replicas

    /// Handles `REPLCONF` with its arguments, from a client that connects from `peer`.
    pub fn replconf(
        &mut self,
        now: Ms,
        conn: ConnId,
        peer: &str,
        args: &[&[u8]],
        out: &mut Vec<Action>,
    ) {
        match Greeting::parse(args).filter(|_| self.membership.is_some()) {
            Some(Ok(greeting)) => return self.greet(now, conn, peer, greeting, out),
            Some(Err(text)) => return refuse(conn, &text, out),
            None => {}
        }
        if let Some((epoch, ask)) =
            PromiseQuestion::parse_promise(args).filter(|_| self.membership.is_some())
        {
            return self.promised(conn, epoch, ask);
        }
        match self.run(now, out, |primary, _, cx| primary.replconf(cx, conn, peer, args)) {
            ReplconfEffect::Nothing => {}
            ReplconfEffect::GetAck => {
                let link = self.follower.as_ref().map(Follower::link);
                self.follow(now, out, |follower, cx| {
                    follower.get_ack(cx, link.unwrap_or_default())
                });
            }
        }
        self.drive_failover(now, out);
    }

    /// Handles `PSYNC` with its arguments, or `SYNC` without arguments.
    pub fn sync(
        &mut self,
        now: Ms,
        conn: ConnId,
        peer: &str,
        args: &[&[u8]],
        out: &mut Vec<Action>,
    ) {
        if self.primary.is_replica(conn) {
            return;
        }
        if let Err(text) = self.admits_replica(conn, args) {
            return refuse(conn, text, out);
        }
        if let [id, _, word, ..] = args
            && word.eq_ignore_ascii_case(b"failover")
            && let Err(text) = self.take_over(now, id, out)
        {
            return refuse(conn, &text, out);
        }
        if self.failover != Failover::No {
            return refuse(conn, "NOMASTERLINK Can't SYNC while failing over", out);
        }
        if self.follower.as_ref().is_some_and(|follower| !follower.is_online()) {
            return refuse(conn, "NOMASTERLINK Can't SYNC while not connected with my master", out);
        }
        let asked = match args {
            [id, offset, ..] => match weft_base::num::parse_i64(offset) {
                Some(offset) => Some((*id, offset)),
                None => return refuse(conn, "ERR value is not an integer or out of range", out),
            },
            _ => None,
        };
        self.serve(now, out, |primary, cx| primary.sync(cx, conn, peer, asked));
    }

    /// The connection of a client or replica was closed.
    pub fn closed(&mut self, now: Ms, conn: ConnId, out: &mut Vec<Action>) {
        self.serve(now, out, |primary, cx| primary.closed(cx, conn));
    }

    /// A replica sent a bare line end.
    pub fn newline(&mut self, now: Ms, conn: ConnId, out: &mut Vec<Action>) {
        self.serve(now, out, |primary, cx| primary.newline(cx, conn));
    }

    /// The stream was sent to a replica up to this offset.
    pub fn written(&mut self, now: Ms, conn: ConnId, to: u64, out: &mut Vec<Action>) {
        self.serve(now, out, |primary, cx| primary.written(cx, conn, to));
    }

    /// The snapshot begins at this point of the stream: it contains everything appended before, and
    /// [`Stream::position`] is its position.
    pub fn snapshot_began(&mut self, now: Ms, snapshot: SnapshotId, out: &mut Vec<Action>) {
        self.serve(now, out, |primary, cx| primary.snapshot_began(cx, snapshot));
    }

    /// A snapshot's file is complete and has this length.
    pub fn snapshot_ready(
        &mut self,
        now: Ms,
        snapshot: SnapshotId,
        bytes: u64,
        out: &mut Vec<Action>,
    ) {
        self.serve(now, out, |primary, cx| primary.snapshot_ready(cx, snapshot, bytes));
    }

    pub fn snapshot_failed(
        &mut self,
        now: Ms,
        snapshot: SnapshotId,
        why: &str,
        out: &mut Vec<Action>,
    ) {
        self.serve(now, out, |primary, cx| primary.snapshot_failed(cx, snapshot, why));
    }

    /// A replica's socket has taken all of its snapshot.
    pub fn bulk_sent(&mut self, now: Ms, conn: ConnId, out: &mut Vec<Action>) {
        self.serve(now, out, |primary, cx| primary.bulk_sent(cx, conn));
    }

    /// A replica's socket has taken no byte of its snapshot for `repl-timeout`.
    pub fn bulk_stuck(&mut self, now: Ms, conn: ConnId, out: &mut Vec<Action>) {
        self.serve(now, out, |primary, cx| primary.bulk_stuck(cx, conn));
    }

    // ---- the primary

    pub fn connected(&mut self, now: Ms, link: LinkId, out: &mut Vec<Action>) {
        self.follow(now, out, |follower, cx| follower.connected(cx, link));
    }

    /// The link to the primary was closed, or connecting failed.
    pub fn link_closed(&mut self, now: Ms, link: LinkId, why: &str, out: &mut Vec<Action>) {
        self.follow(now, out, |follower, cx| follower.closed(cx, link, why));
    }

    /// The primary sent bytes. Returns how many were consumed. The caller presents the rest again,
    /// before new bytes, after [`Action::Read`]. `is_empty`: the keyspace has no keys.
    pub fn received(
        &mut self,
        now: Ms,
        link: LinkId,
        bytes: &[u8],
        is_empty: &dyn Fn() -> bool,
        out: &mut Vec<Action>,
    ) -> usize {
        self.run(now, out, |_, follower, cx| match follower {
            Some(follower) => follower.received(cx, link, bytes, is_empty),
            None => bytes.len(),
        })
    }

    /// The copy is loaded. `db` is the selected database of its stream (`repl-stream-db`). Returns
    /// whether the copy is this server's data now.
    pub fn loaded(&mut self, now: Ms, link: LinkId, db: u32, out: &mut Vec<Action>) -> bool {
        self.run(now, out, |_, follower, cx| match follower {
            Some(follower) => follower.loaded(cx, link, db),
            None => false,
        })
    }

    pub fn load_failed(&mut self, now: Ms, link: LinkId, why: &str, out: &mut Vec<Action>) {
        self.follow(now, out, |follower, cx| follower.load_failed(cx, link, why));
    }

    /// Whether units of this link may be applied. The caller must hold the shards, or otherwise
    /// prevent a change of role or link, until it has called [`Node::applied`].
    #[must_use]
    pub fn may_apply(&self, link: LinkId) -> bool {
        self.follower.as_ref().is_some_and(|follower| follower.may_apply(link))
            && self.admits_stream()
            || planted::is(Fault::LateAnswersCount)
    }

    /// All complete units of this link are applied, and the replica waits for more. From here on,
    /// silence counts towards the timeout. It doesn't count while units are applied, wait for
    /// shards or are blocked by a pause.
    pub fn mark_reading(&mut self, now: Ms, link: LinkId) {
        if let Some(follower) = &mut self.follower {
            follower.mark_reading(now, link);
        }
    }

    /// Complete units were applied: their bytes, and the selected database after them.
    pub fn applied(&mut self, now: Ms, link: LinkId, bytes: &[u8], db: u32, out: &mut Vec<Action>) {
        self.run(now, out, |primary, follower, cx| {
            if let Some(follower) = follower {
                follower.applied(cx, link, bytes, db);
            }
            primary.appended(cx);
        });
    }

    /// The received bytes are not a valid stream.
    pub fn broken(&mut self, now: Ms, link: LinkId, why: &str, out: &mut Vec<Action>) {
        self.follow(now, out, |follower, cx| follower.broken(cx, link, why));
    }

    /// The stream had `REPLCONF GETACK`, and everything before it was applied.
    pub fn get_ack(&mut self, now: Ms, link: LinkId, out: &mut Vec<Action>) {
        self.follow(now, out, |follower, cx| follower.get_ack(cx, link));
    }

    /// The log on disk is durable up to this offset of the stream; `None` without a log.
    pub fn durable(&mut self, offset: Option<u64>) {
        if let Some(follower) = &mut self.follower {
            follower.set_durable(offset);
        }
    }
}

fn refuse(conn: ConnId, text: &str, out: &mut Vec<Action>) {
    out.push(Action::Reply { conn, bytes: format!("-{text}\r\n").into_bytes() });
}
