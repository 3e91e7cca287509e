//! PSYNC and SYNC: a continuation from the backlog, or a snapshot followed by the stream.
//!
//! One snapshot serves all waiting replicas that request the same form. Only one is requested or in
//! progress at a time. A later replica joins a snapshot that has not begun. It also joins one that
//! goes into a file, as long as the backlog has the stream after its beginning. The others wait for
//! the next.

use super::Primary;
use super::attached::{Attached, Phase};
use super::replconf::{full_resync, reply};
use crate::action::{Action, ConnId, Form, Level, Parts, SnapshotId, Target};
use crate::cx::Cx;
use crate::id::{Verdict, Why};

/// The requested snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub snapshot: SnapshotId,
    pub target: Target,
    form: Form,
    /// Offset of the stream that it contains, once it has begun.
    offset: Option<u64>,
}

impl Primary {
    /// Handles `PSYNC id offset`, or SYNC. The caller has decided that a replica may begin now.
    pub(crate) fn sync(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        peer: &str,
        asked: Option<(&[u8], i64)>,
    ) {
        let replica = self.entry(conn, peer);
        if replica.is_replica() {
            return;
        }
        if replica.announced.parts != Parts::ALL && !replica.announced.eof {
            return reply(cx, conn, "-ERR Filtered replica requires EOF capability");
        }
        let name = replica.name();
        cx.notice(format!("Replica {name} asks for synchronization"));
        match asked {
            Some((id, offset)) => match cx.stream.psync(id, offset) {
                Verdict::Continue { from } => return self.continue_from(cx, conn, from),
                Verdict::Full(why) => {
                    if why != Why::Wanted {
                        self.counts.sync_partial_err += 1;
                    }
                    explain(cx, &name, why, id, offset);
                }
            },
            None => self.entry(conn, peer).silent = true,
        }
        self.report_copy(cx, conn);
        self.counts.sync_full += 1;
        if cx.stream.keep(&mut *cx.ids) {
            let id = cx.stream.history().id;
            cx.notice(format!(
                "Replication backlog created, my new replication IDs are '{id}' and '{}'",
                "0".repeat(40)
            ));
            cx.out.push(Action::KeepWrites);
        }
        self.no_replicas_since = None;
        self.entry(conn, peer).phase = Phase::Waiting { since: cx.now };
        self.attach(cx, conn);
        self.begin_if_due(cx);
    }

    /// Continues from the backlog.
    fn continue_from(&mut self, cx: &mut Cx<'_>, conn: ConnId, from: u64) {
        self.counts.sync_partial_ok += 1;
        self.no_replicas_since = None;
        let (now, end, id) = (cx.now, cx.stream.offset(), cx.stream.history().id);
        let Some(replica) = self.replicas.get_mut(&conn) else { return };
        replica.phase = Phase::Online { started: true };
        replica.acks.time = now;
        replica.cursor = Some(from);
        let (name, psync2) = (replica.name(), replica.announced.psync2);
        reply(cx, conn, &if psync2 { format!("+CONTINUE {id}") } else { "+CONTINUE".to_string() });
        cx.out.push(Action::SendStream { conn, from });
        cx.notice(format!(
            "Partial resynchronization request from {name} accepted. Sending {} bytes of backlog starting \
             from offset {}.",
            end - from,
            from + 1
        ));
    }

    /// Joins the snapshot in progress, if this replica can use it.
    fn attach(&mut self, cx: &mut Cx<'_>, conn: ConnId) {
        let (Some(batch), Some(replica)) = (self.batch, self.replicas.get(&conn)) else { return };
        let understood = batch.target == Target::Disk || replica.announced.eof;
        let kept = |offset| cx.stream.kept().is_some_and(|kept| kept.start <= offset);
        match batch.offset {
            _ if replica.form() != batch.form || !understood => {
                cx.notice("Can't attach the replica to the current BGSAVE. Waiting for next BGSAVE for SYNC");
            }
            None => self.await_snapshot(conn, batch.snapshot),
            Some(_) if batch.target == Target::Stream => {
                cx.notice("Current BGSAVE has socket target. Waiting for next BGSAVE for SYNC");
            }
            Some(offset) if kept(offset) => {
                self.await_snapshot(conn, batch.snapshot);
                self.begin_full(cx, conn, offset);
                cx.notice("Waiting for end of BGSAVE for SYNC");
            }
            Some(_) => {
                cx.notice("Can't attach the replica to the current BGSAVE. Waiting for next BGSAVE for SYNC");
            }
        }
    }

    fn await_snapshot(&mut self, conn: ConnId, snapshot: SnapshotId) {
        if let Some(replica) = self.replicas.get_mut(&conn) {
            replica.phase = Phase::Snapshot { snapshot };
        }
    }

    /// Its snapshot has begun at this offset.
    fn begin_full(&mut self, cx: &mut Cx<'_>, conn: ConnId, offset: u64) {
        let Some(replica) = self.replicas.get_mut(&conn) else { return };
        replica.cursor = (!replica.announced.rdb_only).then_some(offset);
        if !replica.silent {
            reply(cx, conn, &full_resync(cx.stream.history().id, offset));
        }
    }

    /// Requests a snapshot, if none is in progress and a replica has waited long enough.
    pub(super) fn begin_if_due(&mut self, cx: &mut Cx<'_>) {
        if self.batch.is_some() {
            return;
        }
        let since = |replica: &Attached| match replica.phase {
            Phase::Waiting { since } => Some(since),
            Phase::Guest
            | Phase::Snapshot { .. }
            | Phase::Sending { .. }
            | Phase::Online { .. } => None,
        };
        let waiting = self.replicas.values().filter_map(|replica| Some((since(replica)?, replica)));
        let Some((first, form)) =
            waiting.clone().map(|(since, replica)| (since, replica.form())).min()
        else {
            return;
        };
        let together: Vec<&Attached> =
            waiting.map(|(_, replica)| replica).filter(|replica| replica.form() == form).collect();
        // A filtered snapshot must not be left as a file on disk.
        let streamed = (cx.settings.diskless_sync || form.parts != Parts::ALL)
            && together.iter().all(|replica| replica.announced.eof);
        let most = cx.settings.diskless_max_replicas;
        let enough = most > 0 && together.len() >= most;
        if streamed && !enough && cx.now.saturating_sub(first) < cx.settings.diskless_delay {
            return;
        }
        let target = if streamed { Target::Stream } else { Target::Disk };
        let together: Vec<ConnId> = together.iter().map(|replica| replica.conn).collect();
        self.last_snapshot += 1;
        let snapshot = SnapshotId(self.last_snapshot);
        for conn in together {
            self.await_snapshot(conn, snapshot);
        }
        self.batch = Some(Batch { snapshot, target, form, offset: None });
        let place = if streamed { "replicas sockets" } else { "disk" };
        cx.notice(format!("Starting BGSAVE for SYNC with target: {place}"));
        cx.out.push(Action::Snapshot { snapshot, target, form });
    }

    /// Replicas that get this snapshot.
    fn members(&self, of: SnapshotId) -> Vec<ConnId> {
        let is_member = |replica: &&Attached| match replica.phase {
            Phase::Snapshot { snapshot } | Phase::Sending { snapshot, .. } => snapshot == of,
            Phase::Guest | Phase::Waiting { .. } | Phase::Online { .. } => false,
        };
        self.replicas.values().filter(is_member).map(|replica| replica.conn).collect()
    }

    fn batch_of(&mut self, snapshot: SnapshotId) -> Option<&mut Batch> {
        self.batch.as_mut().filter(|batch| batch.snapshot == snapshot)
    }

    /// The snapshot begins here: it contains the stream so far.
    pub(crate) fn snapshot_began(&mut self, cx: &mut Cx<'_>, snapshot: SnapshotId) {
        let offset = cx.stream.offset();
        let Some(batch) = self.batch_of(snapshot) else { return };
        batch.offset = Some(offset);
        let target = batch.target;
        cx.stream.cut();
        let mark = *(cx.ids)().as_bytes();
        for conn in self.members(snapshot) {
            self.begin_full(cx, conn, offset);
            if target == Target::Stream {
                let head = [b"$EOF:", &mark[..], b"\r\n"].concat();
                cx.out.push(Action::SendBulk { conn, snapshot, head, mark: Some(mark) });
                self.sending(conn, snapshot, target);
            }
        }
    }

    fn sending(&mut self, conn: ConnId, snapshot: SnapshotId, target: Target) {
        if let Some(replica) = self.replicas.get_mut(&conn) {
            replica.phase = Phase::Sending { snapshot, target, confirmed: false };
        }
    }

    /// The file is complete and has this length.
    pub(crate) fn snapshot_ready(&mut self, cx: &mut Cx<'_>, snapshot: SnapshotId, bytes: u64) {
        if self
            .batch_of(snapshot)
            .is_none_or(|batch| batch.target != Target::Disk || batch.offset.is_none())
        {
            return;
        }
        self.batch = None;
        for conn in self.members(snapshot) {
            let head = format!("${bytes}\r\n").into_bytes();
            cx.out.push(Action::SendBulk { conn, snapshot, head, mark: None });
            self.sending(conn, snapshot, Target::Disk);
        }
        self.begin_if_due(cx);
    }

    /// The snapshot failed.
    pub(crate) fn snapshot_failed(&mut self, cx: &mut Cx<'_>, snapshot: SnapshotId, why: &str) {
        let Some(batch) = self.batch_of(snapshot) else { return };
        let begun = batch.offset.is_some();
        self.batch = None;
        for conn in self.members(snapshot) {
            cx.log(Level::Warning, format!("SYNC failed. {why}"));
            if !begun {
                reply(cx, conn, "-ERR BGSAVE failed, replication can't continue");
            }
            self.drop_replica(cx, conn, !begun);
        }
        self.begin_if_due(cx);
    }

    /// A replica's socket has taken all of its snapshot.
    pub(crate) fn bulk_sent(&mut self, cx: &mut Cx<'_>, conn: ConnId) {
        let Some(replica) = self.replicas.get_mut(&conn) else { return };
        let Phase::Sending { snapshot, target, confirmed } = replica.phase else { return };
        let name = replica.name();
        // It has its copy, so a failure of the snapshot no longer affects it.
        replica.phase = Phase::Online { started: false };
        if replica.announced.rdb_only {
            cx.notice(format!(
                "RDB transfer completed, rdb only replica ({name}) should be disconnected asap"
            ));
            self.drop_replica(cx, conn, true);
            return self.end_batch(cx, snapshot);
        }
        replica.acks.time = cx.now;
        match target {
            Target::Stream if !confirmed => cx.notice(format!(
                "Streamed replica with replica {name} succeeded (socket). Waiting for REPLCONF ACK from \
                 replica to enable streaming"
            )),
            Target::Stream | Target::Disk => self.start_stream(cx, conn),
        }
        self.end_batch(cx, snapshot);
    }

    /// A streamed snapshot ends when the last of its replicas has it.
    fn end_batch(&mut self, cx: &mut Cx<'_>, snapshot: SnapshotId) {
        if self.batch_of(snapshot).is_some() && self.members(snapshot).is_empty() {
            self.batch = None;
            self.begin_if_due(cx);
        }
    }

    pub(super) fn start_stream(&mut self, cx: &mut Cx<'_>, conn: ConnId) {
        let Some(replica) = self.replicas.get_mut(&conn) else { return };
        let Some(from) = replica.cursor else { return };
        replica.phase = Phase::Online { started: true };
        let name = replica.name();
        cx.out.push(Action::SendStream { conn, from });
        cx.notice(format!("Synchronization with replica {name} succeeded"));
    }

    /// Cancels the snapshot of a closed replica if no other replica needs it.
    pub(super) fn batch_has_lost(&mut self, cx: &mut Cx<'_>, replica: &Attached) {
        let (Phase::Snapshot { snapshot } | Phase::Sending { snapshot, .. }) = replica.phase else {
            return;
        };
        if self.batch_of(snapshot).is_some() && self.members(snapshot).is_empty() {
            self.batch = None;
            cx.notice("Diskless rdb transfer, last replica dropped, killing fork child.");
            cx.out.push(Action::AbandonSnapshot { snapshot });
            self.begin_if_due(cx);
        }
    }
}

/// Logs why a continuation is not possible.
fn explain(cx: &mut Cx<'_>, name: &str, why: Why, id: &[u8], offset: i64) {
    let history = *cx.stream.history();
    let id = String::from_utf8_lossy(id);
    let second = history.second.map_or_else(|| "0".repeat(40), |second| second.id.to_string());
    cx.notice(match why {
        Why::Wanted => format!("Full resync requested by replica {name}"),
        Why::OtherHistory => format!(
            "Partial resynchronization not accepted: Replication ID mismatch (Replica asked for '{id}', \
             my replication IDs are '{}' and '{second}')",
            history.id
        ),
        Why::BeyondSecond { valid_to } => format!(
            "Partial resynchronization not accepted: Requested offset for second ID was {offset}, but I \
             can reply up to {valid_to}"
        ),
        Why::NotKept | Why::Ahead => format!(
            "Unable to partial resync with replica {name} for lack of backlog (Replica request was: \
             {offset})."
        ),
    });
    if why == Why::Ahead {
        cx.log(
            Level::Warning,
            format!(
                "Warning: replica {name} tried to PSYNC with an offset that is greater than the primary \
                 replication offset."
            ),
        );
    }
}
