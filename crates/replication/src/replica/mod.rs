//! A server that follows a primary, as a state machine.
//!
//! ```text
//!            ┌──────────────────────── any failure: retry in a second ───────────────────────┐
//!            ▼                                                                               │
//!  Waiting ─► Connecting ─► Ping ─► Questions ─► Psync ─► Head ─► Body ─► Loading ─► Online ─┤
//!    ▲                                             │ +CONTINUE                        ▲      │
//!    │                                             └──────────────────────────────────┘      │
//!    └──────────────────────────── link lost while online: at once ──────────────────────────┘
//! ```
//!
//! * Each attempt has a [`LinkId`]. Events of another attempt are late and have no effect.
//! * The old data, and with them the position from which to continue, are kept until the copy
//!   replaces them: see [`Load`]. From then to the end of loading no position is valid. The history
//!   is dropped before the first of the data.
//! * Acknowledged units have been applied.

mod answers;
pub mod bulk;
mod source;
pub mod words;

use crate::Ms;
use crate::action::{Action, Level, LinkId, Load};
use crate::cx::{Cx, Notification};
use crate::id::ReplicationId;
use crate::lines::{Line, Lines};
use crate::planted::{self, Fault};
use crate::stream::Position;
use bulk::Body;
pub(crate) use source::Source;
use std::collections::VecDeque;
use words::Question;

/// Delay before the next attempt after a failed one.
const AGAIN: Ms = 1000;
/// Interval of acknowledgements, and of signs of life while a copy is loaded.
const EACH: Ms = 1000;

/// A copy in progress.
#[derive(Clone, Debug)]
struct Copy {
    /// The position of the copy; `None` if the primary doesn't report it.
    of: Option<(ReplicationId, u64)>,
    load: Load,
}

#[derive(Clone, Debug)]
enum State {
    Waiting {
        until: Ms,
    },
    Connecting,
    Ping,
    Questions {
        left: VecDeque<Question>,
    },
    Psync {
        asked: bool,
    },
    Head {
        of: Option<(ReplicationId, u64)>,
    },
    Body {
        copy: Copy,
        body: Body,
    },
    /// `gone`: the link was lost meanwhile, which doesn't affect the copy.
    Loading {
        copy: Copy,
        last_sign: Ms,
        gone: bool,
    },
    Online {
        acknowledges: bool,
        last_ack: Ms,
    },
}

/// Follows one primary.
#[derive(Debug)]
pub struct Follower {
    host: String,
    port: u16,
    state: State,
    link: LinkId,
    last_io: Ms,
    lines: Lines,
    down_since: Option<Ms>,
    /// The data match the stream's position, so the primary may be able to continue from there.
    resumable: bool,
    /// This server, the old primary, is handing its role over to the server that it asks.
    failover: bool,
    /// Offset of the stream up to which the local log is durable, if there is one.
    durable: Option<u64>,
    /// End of the received stream, applied or not.
    received_to: u64,
    /// The received bytes are still being applied, or wait for that, so the replica isn't reading.
    /// Until they are applied and it reads again, the primary's silence doesn't count.
    is_applying: bool,
    /// Time since which the replica reads again.
    reading_since: Ms,
    /// In a cluster with a store.
    source: Option<Source>,
    /// Something has arrived from the primary since the last report.
    has_heard: bool,
}

impl Follower {
    /// Follows `host` and `port` from the next tick on. `link` is the last id in use. `resumable`:
    /// the data match the stream's position.
    #[must_use]
    pub(crate) fn new(now: Ms, host: String, port: u16, link: LinkId, resumable: bool) -> Follower {
        Follower {
            host,
            port,
            state: State::Waiting { until: now },
            link,
            last_io: now,
            lines: Lines::default(),
            down_since: Some(now),
            resumable,
            failover: false,
            durable: None,
            received_to: 0,
            is_applying: false,
            reading_since: now,
            source: None,
            has_heard: false,
        }
    }

    /// The primary's address.
    #[must_use]
    pub fn primary(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    #[must_use]
    pub fn link(&self) -> LinkId {
        self.link
    }

    /// Whether the stream is being received.
    #[must_use]
    pub fn is_online(&self) -> bool {
        matches!(self.state, State::Online { .. })
    }

    /// Whether a copy is being received or loaded (`master_sync_in_progress`).
    #[must_use]
    pub fn is_syncing(&self) -> bool {
        matches!(self.state, State::Head { .. } | State::Body { .. } | State::Loading { .. })
    }

    /// Since when there is no link.
    #[must_use]
    pub fn down_since(&self) -> Option<Ms> {
        self.down_since
    }

    /// Time of the last bytes from the primary.
    #[must_use]
    pub fn last_io(&self) -> Ms {
        self.last_io
    }

    /// End of the received stream, applied or not (`slave_read_repl_offset`).
    #[must_use]
    pub fn read_offset(&self) -> u64 {
        self.received_to
    }

    /// Whether the data match the stream's position, so that a file may record it.
    #[must_use]
    pub fn has_position(&self) -> bool {
        self.resumable
    }

    /// The state as ROLE prints it.
    #[must_use]
    pub fn state_name(&self) -> &'static str {
        match self.state {
            State::Waiting { .. } => "connect",
            State::Connecting => "connecting",
            State::Ping | State::Questions { .. } | State::Psync { .. } => "handshake",
            State::Head { .. } | State::Body { .. } | State::Loading { .. } => "sync",
            State::Online { .. } => "connected",
        }
    }

    /// Whether units of this link may be applied. The caller must hold the shards, and must call
    /// `applied` before the role can change.
    #[must_use]
    pub fn may_apply(&self, link: LinkId) -> bool {
        self.is_now(link) && self.is_online()
    }

    /// All complete units of this link are applied, and the replica reads again.
    pub(crate) fn mark_reading(&mut self, now: Ms, link: LinkId) {
        if self.is_now(link) && std::mem::take(&mut self.is_applying) {
            self.reading_since = now;
        }
    }

    pub(crate) fn set_failover(&mut self, failover: bool) {
        self.failover = failover;
    }

    pub(crate) fn set_durable(&mut self, durable: Option<u64>) {
        self.durable = durable;
    }

    fn is_now(&self, link: LinkId) -> bool {
        link == self.link || planted::is(Fault::LateAnswersCount)
    }

    fn send(&mut self, cx: &mut Cx<'_>, bytes: Vec<u8>) {
        cx.out.push(Action::Send { link: self.link, bytes });
    }

    /// Ends the attempt and schedules another.
    fn fail(&mut self, cx: &mut Cx<'_>, why: impl Into<String>) {
        cx.log(Level::Warning, why);
        self.leave(cx);
        self.state = State::Waiting { until: cx.now + AGAIN };
    }

    /// Closes the link.
    pub(crate) fn leave(&mut self, cx: &mut Cx<'_>) {
        match self.state {
            State::Waiting { .. } => return,
            State::Body { .. } | State::Loading { .. } => {
                cx.out.push(Action::AbandonLoad { link: self.link });
            }
            State::Connecting
            | State::Ping
            | State::Questions { .. }
            | State::Psync { .. }
            | State::Head { .. }
            | State::Online { .. } => {}
        }
        cx.out.push(Action::Disconnect { link: self.link });
        self.is_applying = false;
        self.lines.clear();
        self.down_since.get_or_insert(cx.now);
        self.state = State::Waiting { until: cx.now };
    }

    /// Advances the time. The caller calls it about ten times a second.
    pub(crate) fn tick(&mut self, cx: &mut Cx<'_>) {
        let heard = self.last_io.max(self.reading_since);
        let silent =
            cx.now.saturating_sub(heard) > cx.settings.timeout && !planted::is(Fault::NoTimeouts);
        match &mut self.state {
            State::Waiting { until } if cx.now >= *until => self.connect(cx),
            State::Waiting { .. } => {}
            State::Connecting | State::Ping | State::Questions { .. } | State::Psync { .. } if silent => {
                self.fail(cx, "Timeout connecting to the PRIMARY...");
            }
            State::Head { .. } | State::Body { .. } if silent => self.fail(
                cx,
                "Timeout receiving bulk data from PRIMARY... If the problem persists try to set the \
                 'repl-timeout' parameter in valkey.conf to a larger value.",
            ),
            State::Online { .. } if silent && !self.is_applying => {
                cx.log(Level::Warning, "PRIMARY timeout: no data nor PING received...");
                self.lost(cx);
            }
            State::Loading { last_sign, gone: false, .. } if cx.now.saturating_sub(*last_sign) >= EACH => {
                *last_sign = cx.now;
                self.send(cx, b"\n".to_vec());
            }
            State::Online { acknowledges: true, last_ack } if cx.now.saturating_sub(*last_ack) >= EACH => self.acknowledge(cx),
            State::Connecting
            | State::Ping
            | State::Questions { .. }
            | State::Psync { .. }
            | State::Head { .. }
            | State::Body { .. }
            | State::Loading { .. }
            | State::Online { .. } => {}
        }
    }

    fn connect(&mut self, cx: &mut Cx<'_>) {
        self.link = LinkId(self.link.0 + 1);
        self.lines.clear();
        self.last_io = cx.now;
        self.state = State::Connecting;
        cx.log(Level::Notice, format!("Connecting to PRIMARY {}:{}", self.host, self.port));
        cx.out.push(Action::Connect { link: self.link, host: self.host.clone(), port: self.port });
    }

    /// The connection is established.
    pub(crate) fn connected(&mut self, cx: &mut Cx<'_>, link: LinkId) {
        if self.is_now(link) && matches!(self.state, State::Connecting) {
            self.last_io = cx.now;
            self.state = State::Ping;
            self.send(cx, crate::stream::PING.to_vec());
        }
    }

    /// The connection failed or was closed.
    pub(crate) fn closed(&mut self, cx: &mut Cx<'_>, link: LinkId, why: &str) {
        if !self.is_now(link) {
            return;
        }
        match &mut self.state {
            State::Waiting { .. } => {}
            State::Connecting => {
                self.fail(cx, format!("Error condition on socket for SYNC: {why}"));
            }
            State::Ping | State::Questions { .. } | State::Psync { .. } => {
                self.fail(cx, format!("Failed to read response from the server: {why}"));
            }
            State::Head { .. } | State::Body { .. } => {
                self.fail(cx, format!("I/O error trying to sync with PRIMARY: {why}"));
            }
            State::Loading { gone, .. } => *gone = true,
            State::Online { .. } => {
                cx.log(Level::Notice, "Connection with primary lost.");
                self.lost(cx);
            }
        }
    }

    /// The link was lost while online. Reconnects at once, because the primary may keep the missed
    /// bytes only briefly.
    fn lost(&mut self, cx: &mut Cx<'_>) {
        self.leave(cx);
        self.connect(cx);
    }

    /// Takes received bytes. Returns how many were consumed; the caller presents the rest again
    /// after [`Action::Read`]. `is_empty` returns whether the keyspace has no keys.
    pub(crate) fn received(
        &mut self,
        cx: &mut Cx<'_>,
        link: LinkId,
        bytes: &[u8],
        is_empty: &dyn Fn() -> bool,
    ) -> usize {
        let mut at = 0;
        while self.is_now(link) {
            match &mut self.state {
                State::Online { .. } => {
                    self.last_io = cx.now;
                    self.has_heard = true;
                    self.received_to += (bytes.len() - at) as u64;
                    if at < bytes.len() {
                        self.is_applying = true;
                        cx.out.push(Action::Stream { link: self.link, bytes: at..bytes.len() });
                    }
                    return bytes.len();
                }
                State::Loading { .. } => return at,
                State::Waiting { .. } | State::Connecting => return bytes.len(),
                State::Body { body, .. } => {
                    self.last_io = cx.now;
                    self.has_heard = true;
                    let (used, part, complete) = body.take(&bytes[at..]);
                    at += used;
                    if !part.is_empty() {
                        cx.out.push(Action::Payload { link: self.link, bytes: part });
                    }
                    if complete {
                        self.payload_ended(cx);
                    } else if at == bytes.len() {
                        return at;
                    }
                }
                State::Ping
                | State::Questions { .. }
                | State::Psync { .. }
                | State::Head { .. } => {
                    let (used, line) = self.lines.take(&bytes[at..]);
                    at += used;
                    self.last_io = cx.now;
                    match line {
                        Line::Complete(line) => self.line(cx, &line, is_empty),
                        Line::More => return bytes.len(),
                        Line::TooLong => self.fail(cx, "The primary's reply is too long"),
                    }
                }
            }
        }
        bytes.len()
    }

    fn go_online(&mut self, cx: &mut Cx<'_>, acknowledges: bool) {
        self.state = State::Online { acknowledges, last_ack: cx.now };
        (self.last_io, self.down_since, self.failover) = (cx.now, None, false);
        let at = cx.stream.position();
        self.received_to = at.offset;
        cx.out.push(Action::BeginStream { link: self.link, at });
        if acknowledges {
            self.acknowledge(cx);
        }
    }

    /// From here on the data have no valid position. Returns `false` if they must stay, and the
    /// attempt has ended.
    fn drop_data(&mut self, cx: &mut Cx<'_>, copy: &Copy) -> bool {
        if !self.may_drop(cx) {
            return false;
        }
        self.count_discarded(cx, copy);
        cx.log(Level::Notice, "PRIMARY <-> REPLICA sync: Flushing old data");
        cx.notifications.push(Notification::CutReplicas);
        if !planted::is(Fault::DroppedDataClaimed) {
            self.resumable = false;
            cx.stream.forget((cx.ids)());
        }
        true
    }

    fn payload_ended(&mut self, cx: &mut Cx<'_>) {
        let State::Body { copy, .. } = &self.state else { unreachable!("its body has ended") };
        let copy = copy.clone();
        if copy.load == Load::File && !self.drop_data(cx, &copy) {
            return;
        }
        cx.log(Level::Notice, "PRIMARY <-> REPLICA sync: Loading DB in memory");
        cx.out.push(Action::EndLoad { link: self.link });
        self.state = State::Loading { copy, last_sign: cx.now, gone: false };
    }

    /// The copy is loaded. `db` is the selected database of the stream after it (`repl-stream-db`
    /// of the file).
    pub(crate) fn loaded(&mut self, cx: &mut Cx<'_>, link: LinkId, db: u32) -> bool {
        if !self.is_now(link) {
            return false;
        }
        let State::Loading { copy, gone, .. } = &self.state else { return false };
        let (copy, gone) = (copy.clone(), *gone);
        let of = copy.of;
        if matches!(copy.load, Load::Staged { .. }) {
            if !self.may_drop(cx) {
                return false;
            }
            self.count_discarded(cx, &copy);
            cx.notifications.push(Notification::CutReplicas);
            cx.out.push(Action::Swap { link });
        }
        let (id, offset) = of.unwrap_or_else(|| ((cx.ids)(), 0));
        cx.stream.adopt(Position { id, offset, db });
        self.resumable = of.is_some();
        self.report_data(cx);
        cx.log(Level::Notice, "PRIMARY <-> REPLICA sync: Finished with success");
        if gone {
            self.state = State::Online { acknowledges: false, last_ack: cx.now };
            self.lost(cx);
            return true;
        }
        self.go_online(cx, of.is_some());
        cx.out.push(Action::Read { link: self.link });
        true
    }

    /// The copy could not be written or loaded.
    pub(crate) fn load_failed(&mut self, cx: &mut Cx<'_>, link: LinkId, why: &str) {
        if self.is_now(link) && matches!(self.state, State::Body { .. } | State::Loading { .. }) {
            self.fail(cx, format!("Failed trying to load the PRIMARY synchronization DB: {why}"));
        }
    }

    /// Units were applied, while the caller held the shards and [`Follower::may_apply`] returned
    /// true: their bytes, and the selected database after them.
    pub(crate) fn applied(&mut self, cx: &mut Cx<'_>, link: LinkId, bytes: &[u8], db: u32) {
        if self.may_apply(link) && !bytes.is_empty() {
            cx.stream.relay(bytes, db);
        }
    }

    /// The received bytes are not a valid stream: a full copy is needed.
    pub(crate) fn broken(&mut self, cx: &mut Cx<'_>, link: LinkId, why: &str) {
        if self.may_apply(link) {
            self.resumable = false;
            self.fail(cx, format!("Protocol error from primary: {why}"));
        }
    }

    /// The primary requests the offset; everything before is applied.
    pub(crate) fn get_ack(&mut self, cx: &mut Cx<'_>, link: LinkId) {
        if self.may_apply(link) {
            self.acknowledge(cx);
        }
    }

    fn acknowledge(&mut self, cx: &mut Cx<'_>) {
        if let State::Online { last_ack, .. } = &mut self.state {
            *last_ack = cx.now;
            if !planted::is(Fault::ReportedLate) {
                self.report_data(cx);
            }
            let offset = if planted::is(Fault::AcksReceived) {
                self.received_to
            } else {
                cx.stream.offset()
            };
            let durable = self.durable.map(|durable| durable.min(offset));
            self.send(cx, words::ack(offset, durable));
        }
    }
}
