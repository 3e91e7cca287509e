//! A server with replicas, as a state machine for each of them.
//!
//! ```text
//!  REPLCONF ...          SYNC, PSYNC               snapshot began        its bytes sent
//!  Guest ───────────────► Waiting ────► Snapshot ─────────────► Sending ─────────────► Online
//!    │                   (asks for one    (+FULLRESYNC)          (from a file: when      (stream: at once,
//!    │                    or attaches)                            it is complete)         or at its first
//!    └──────── PSYNC within the backlog: +CONTINUE ──────────────────────────────────►    confirmation)
//! ```
//!
//! All replicas read the same backlog, each from its own offset. A slow replica costs the memory
//! kept for it, up to its limit, and is disconnected then. It never costs a client time.
//!
//! The same machine serves replicas of a replica. The module `node` handles the differences: which
//! server may extend the stream, and when no replica may begin.

mod attached;
mod counts;
mod members;
mod replconf;
mod sync;
mod waits;

use crate::Ms;
use crate::action::{Action, ConnId, Level};
use crate::cx::Cx;
use crate::planted::{self, Fault};
use attached::{Attached, Phase};
pub use counts::ReplicaView;
pub(crate) use replconf::ReplconfEffect;
use std::collections::BTreeMap;
use sync::Batch;
pub use waits::{Done, Goal, Waits};

/// Interval of the newlines sent to replicas that wait for a copy.
const NEWLINES: Ms = 1000;

/// Counters that INFO prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub sync_full: u64,
    pub sync_partial_ok: u64,
    pub sync_partial_err: u64,
    /// Replicas that were disconnected because they exceeded the output limit.
    pub over_limit: u64,
}

/// All replicas of this server.
#[derive(Debug, Default)]
pub struct Primary {
    replicas: BTreeMap<ConnId, Attached>,
    batch: Option<Batch>,
    /// The id of the last requested snapshot.
    last_snapshot: u64,
    no_replicas_since: Option<Ms>,
    /// The backlog is never freed.
    keeps_backlog: bool,
    last_ping: Ms,
    last_newlines: Ms,
    /// End of the stream after the last GETACK.
    asked_at: Option<u64>,
    counts: Counts,
}

impl Primary {
    pub(crate) fn new(now: Ms) -> Primary {
        Primary {
            no_replicas_since: Some(now),
            last_ping: now,
            last_newlines: now,
            ..Primary::default()
        }
    }

    /// The state of a connection; creates it if it is new.
    fn entry(&mut self, conn: ConnId, peer: &str) -> &mut Attached {
        self.replicas.entry(conn).or_insert_with(|| Attached::new(conn, peer))
    }

    fn all(&self) -> impl Iterator<Item = &Attached> {
        self.replicas.values().filter(|replica| replica.is_replica())
    }

    /// Whether this connection is a replica.
    #[must_use]
    pub fn is_replica(&self, conn: ConnId) -> bool {
        self.replicas.get(&conn).is_some_and(Attached::is_replica)
    }

    #[must_use]
    pub fn has_replicas(&self) -> bool {
        self.all().next().is_some()
    }

    /// A connection was closed.
    pub(crate) fn closed(&mut self, cx: &mut Cx<'_>, conn: ConnId) {
        let Some(replica) = self.replicas.remove(&conn) else { return };
        members::report_gone(cx, &replica);
        if !replica.is_replica() {
            return;
        }
        cx.notice(format!("Connection with replica {} lost.", replica.name()));
        if !self.has_replicas() {
            self.no_replicas_since = Some(cx.now);
        }
        self.batch_has_lost(cx, &replica);
        self.trim(cx);
    }

    /// Disconnects a replica.
    fn drop_replica(&mut self, cx: &mut Cx<'_>, conn: ConnId, flush: bool) {
        cx.out.push(Action::Close { conn, flush });
        self.closed(cx, conn);
    }

    /// Disconnects all replicas; they must synchronize again.
    pub(crate) fn drop_all(&mut self, cx: &mut Cx<'_>) {
        let all: Vec<ConnId> = self.all().map(|replica| replica.conn).collect();
        for conn in all {
            self.drop_replica(cx, conn, false);
        }
    }

    /// The I/O layer has sent the stream to a replica up to this offset.
    pub(crate) fn written(&mut self, cx: &mut Cx<'_>, conn: ConnId, to: u64) {
        if let Some(replica) = self.replicas.get_mut(&conn)
            && let Some(cursor) = &mut replica.cursor
        {
            *cursor = to.max(*cursor);
        }
        self.trim(cx);
    }

    /// Handles growth of the stream.
    pub(crate) fn appended(&mut self, cx: &mut Cx<'_>) {
        let (now, end) = (cx.now, cx.stream.offset());
        let (limit, backlog) = (cx.settings.output, cx.settings.backlog_size);
        let over: Vec<ConnId> = self
            .replicas
            .values_mut()
            .filter_map(|replica| {
                replica.is_over(now, end, &limit, backlog).then_some(replica.conn)
            })
            .collect();
        for conn in over {
            let name = self.replicas[&conn].name();
            self.counts.over_limit += 1;
            cx.log(
                Level::Warning,
                format!("Client {name} scheduled to be closed ASAP for overcoming of output buffer limits."),
            );
            self.drop_replica(cx, conn, false);
        }
        self.trim(cx);
    }

    fn trim(&mut self, cx: &mut Cx<'_>) {
        cx.stream.trim(self.replicas.values().filter_map(|replica| replica.cursor).min());
    }

    /// Requests acknowledgements from all replicas, for clients that wait for them.
    pub(crate) fn request_acks(&mut self, cx: &mut Cx<'_>) {
        if self.has_replicas() && self.asked_at != Some(cx.stream.offset()) {
            cx.stream.get_ack();
            self.asked_at = Some(cx.stream.offset());
            self.appended(cx);
        }
    }

    /// Advances the time. `speaks`: this server is a primary and may extend the stream by PING.
    pub(crate) fn tick(&mut self, cx: &mut Cx<'_>, is_primary: bool, speaks: bool) {
        if cx.now.saturating_sub(self.last_ping) >= cx.settings.ping_period {
            self.last_ping = cx.now;
            if speaks && self.has_replicas() {
                cx.stream.ping();
            }
        }
        if cx.now.saturating_sub(self.last_newlines) >= NEWLINES {
            self.last_newlines = cx.now;
            self.newlines(cx);
        }
        self.drop_silent(cx);
        if is_primary && cx.member.is_none() {
            self.free_backlog(cx);
        }
        self.begin_if_due(cx);
        self.appended(cx);
    }

    fn newlines(&mut self, cx: &mut Cx<'_>) {
        let waits = |replica: &&Attached| {
            matches!(replica.phase, Phase::Waiting { .. } | Phase::Snapshot { .. })
        };
        for replica in self.replicas.values().filter(waits) {
            cx.out.push(Action::Reply { conn: replica.conn, bytes: b"\n".to_vec() });
        }
    }

    fn drop_silent(&mut self, cx: &mut Cx<'_>) {
        if planted::is(Fault::NoTimeouts) {
            return;
        }
        let silent = |replica: &&Attached| {
            replica.is_online() && !replica.silent && replica.lag(cx.now) > cx.settings.timeout
        };
        let silent: Vec<ConnId> =
            self.replicas.values().filter(silent).map(|replica| replica.conn).collect();
        for conn in silent {
            let name = self.replicas[&conn].name();
            cx.log(
                Level::Warning,
                format!("Disconnecting timedout replica (streaming sync): {name}"),
            );
            self.drop_replica(cx, conn, false);
        }
    }

    /// The socket of a streamed copy is stuck: its replica reads nothing.
    pub(crate) fn bulk_stuck(&mut self, cx: &mut Cx<'_>, conn: ConnId) {
        if let Some(replica) = self.replicas.get(&conn) {
            let name = replica.name();
            cx.log(Level::Warning, format!("Disconnecting timedout replica (full sync): {name}"));
            self.drop_replica(cx, conn, false);
        }
    }

    /// Keeps the backlog however long there are no replicas, or frees it after `repl-backlog-ttl`.
    pub(crate) fn keep_backlog(&mut self, always: bool) {
        self.keeps_backlog = always;
    }

    fn free_backlog(&mut self, cx: &mut Cx<'_>) {
        let ttl = cx.settings.backlog_ttl;
        if ttl == 0 || self.keeps_backlog || cx.stream.backlog().is_none() || self.has_replicas() {
            return;
        }
        if self.no_replicas_since.is_some_and(|since| cx.now.saturating_sub(since) > ttl) {
            let id = (cx.ids)();
            cx.stream.forget(id);
            cx.notice(format!(
                "Replication backlog freed after {} seconds without connected replicas.",
                ttl / 1000
            ));
            cx.out.push(Action::DropWrites);
        }
    }

    /// The role has changed: the time without replicas begins now.
    pub(crate) fn begin_alone(&mut self, now: Ms) {
        if !self.has_replicas() {
            self.no_replicas_since = Some(now);
        }
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }
}
