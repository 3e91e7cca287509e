//! A server that follows a primary, as a state machine.
//!
//! ```text
//!            ┌──────────────────────── any failure: again in a second ───────────────────────┐
//!            ▼                                                                               │
//!  Waiting ─► Connecting ─► Ping ─► Questions ─► Psync ─► Head ─► Body ─► Loading ─► Online ─┤
//!    ▲                                             │ +CONTINUE                        ▲      │
//!    │                                             └──────────────────────────────────┘      │
//!    └──────────────────────────── link lost while online: at once ──────────────────────────┘
//! ```
//!
//! * Each attempt has a [`LinkId`]; what is told about another one is too late and changes nothing.
//! * The old data, and with them the right to go on where we were, live until the copy takes their place:
//!   see [`Load`]. From there to the end of loading there are no data that anybody could go on from, and
//!   the history is given up before the first of them goes.
//! * What is confirmed is what has been applied.

mod answers;
pub mod bulk;
pub mod words;

use crate::Ms;
use crate::action::{Action, Level, LinkId, Load};
use crate::cx::{Cx, Told};
use crate::id::ReplicationId;
use crate::lines::{Line, Lines};
use crate::planted::{self, Fault};
use crate::stream::Position;
use bulk::Body;
use std::collections::VecDeque;
use words::Question;

/// Until another attempt, after one that has failed.
const AGAIN: Ms = 1000;
/// Between two confirmations, and between two signs of life while a copy is loaded.
const EACH: Ms = 1000;

/// A copy that is on its way.
#[derive(Clone, Debug)]
struct Copy {
    /// What it is a copy of; `None` from a primary that does not tell.
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
    /// `gone`: the link was lost meanwhile, which does no harm to the copy.
    Loading {
        copy: Copy,
        last_sign: Ms,
        gone: bool,
    },
    Online {
        confirms: bool,
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
    /// The data are at the stream's position, and the primary may be asked to go on from there.
    resumable: bool,
    /// The old primary is taking the place of the one that it asks.
    failover: bool,
    /// How far the stream is safe in our log on disk, if there is one.
    durable: Option<u64>,
    /// Where the stream ends that has come, applied or not.
    came: u64,
    /// Nobody listens to the link: what has come is being applied, or waits for that. Until the last of it is
    /// told, and more is waited for, the silence is ours, however long it takes.
    is_behind: bool,
    /// Since when somebody listens again.
    listens_since: Ms,
}

impl Follower {
    /// Follows `host` and `port` from the next tick on. `link` is the last that was used.
    /// `resumable`: the data are at the stream's position.
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
            came: 0,
            is_behind: false,
            listens_since: now,
        }
    }

    /// Whom it follows.
    #[must_use]
    pub fn primary(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    #[must_use]
    pub fn link(&self) -> LinkId {
        self.link
    }

    /// Whether the stream comes in.
    #[must_use]
    pub fn is_online(&self) -> bool {
        matches!(self.state, State::Online { .. })
    }

    /// A copy is being taken in (`master_sync_in_progress`).
    #[must_use]
    pub fn is_syncing(&self) -> bool {
        matches!(self.state, State::Head { .. } | State::Body { .. } | State::Loading { .. })
    }

    /// When the link was lost, or was never there.
    #[must_use]
    pub fn down_since(&self) -> Option<Ms> {
        self.down_since
    }

    /// When something came from the primary.
    #[must_use]
    pub fn last_io(&self) -> Ms {
        self.last_io
    }

    /// Where the stream ends that has come, applied or not (`slave_read_repl_offset`).
    #[must_use]
    pub fn read_offset(&self) -> u64 {
        self.came
    }

    /// Whether the data are those of the stream's position, as a file may say about itself.
    #[must_use]
    pub fn has_position(&self) -> bool {
        self.resumable
    }

    /// In the words of ROLE.
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

    /// Whether units of this link may be applied. Asked with the data in hand; whoever is answered yes tells
    /// `applied` before anybody may change the role.
    #[must_use]
    pub fn may_apply(&self, link: LinkId) -> bool {
        self.is_now(link) && self.is_online()
    }

    /// All that came on this link is applied as far as it is complete, and more of it is waited for.
    pub(crate) fn listens(&mut self, now: Ms, link: LinkId) {
        if self.is_now(link) && std::mem::take(&mut self.is_behind) {
            self.listens_since = now;
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

    /// Gives the attempt up and makes another.
    fn fail(&mut self, cx: &mut Cx<'_>, why: impl Into<String>) {
        cx.log(Level::Warning, why);
        self.leave(cx);
        self.state = State::Waiting { until: cx.now + AGAIN };
    }

    /// Ends what there is of a link.
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
        self.is_behind = false;
        self.lines.clear();
        self.down_since.get_or_insert(cx.now);
        self.state = State::Waiting { until: cx.now };
    }

    /// Time has passed. To be called ten times a second or so.
    pub(crate) fn tick(&mut self, cx: &mut Cx<'_>) {
        let heard = self.last_io.max(self.listens_since);
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
            State::Online { .. } if silent && !self.is_behind => {
                cx.log(Level::Warning, "PRIMARY timeout: no data nor PING received...");
                self.lost(cx);
            }
            State::Loading { last_sign, gone: false, .. } if cx.now.saturating_sub(*last_sign) >= EACH => {
                *last_sign = cx.now;
                self.send(cx, b"\n".to_vec());
            }
            State::Online { confirms: true, last_ack } if cx.now.saturating_sub(*last_ack) >= EACH => self.confirm(cx),
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

    /// The connection is there.
    pub(crate) fn connected(&mut self, cx: &mut Cx<'_>, link: LinkId) {
        if self.is_now(link) && matches!(self.state, State::Connecting) {
            self.last_io = cx.now;
            self.state = State::Ping;
            self.send(cx, crate::encode::PING.to_vec());
        }
    }

    /// The connection could not be made, or is gone.
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

    /// Online no longer. The next attempt is made at once: what we missed may be kept only for a moment.
    fn lost(&mut self, cx: &mut Cx<'_>) {
        self.leave(cx);
        self.connect(cx);
    }

    /// Bytes have come: how many are taken. What is not is presented again after [`Action::Read`].
    /// `is_empty` tells whether there are no keys.
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
                    self.came += (bytes.len() - at) as u64;
                    if at < bytes.len() {
                        self.is_behind = true;
                        cx.out.push(Action::Stream { link: self.link, bytes: at..bytes.len() });
                    }
                    return bytes.len();
                }
                State::Loading { .. } => return at,
                State::Waiting { .. } | State::Connecting => return bytes.len(),
                State::Body { body, .. } => {
                    self.last_io = cx.now;
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
                        Line::TooLong => self.fail(cx, "The primary's answer has no end"),
                    }
                }
            }
        }
        bytes.len()
    }

    fn go_online(&mut self, cx: &mut Cx<'_>, confirms: bool) {
        self.state = State::Online { confirms, last_ack: cx.now };
        (self.last_io, self.down_since, self.failover) = (cx.now, None, false);
        let at = cx.stream.position();
        self.came = at.offset;
        cx.out.push(Action::BeginStream { link: self.link, at });
        if confirms {
            self.confirm(cx);
        }
    }

    /// From here on there is nothing that anybody could go on from.
    fn drop_data(&mut self, cx: &mut Cx<'_>) {
        cx.log(Level::Notice, "PRIMARY <-> REPLICA sync: Flushing old data");
        cx.told.push(Told::CutReplicas);
        if !planted::is(Fault::DroppedDataClaimed) {
            self.resumable = false;
            cx.stream.forget((cx.ids)());
        }
    }

    fn payload_ended(&mut self, cx: &mut Cx<'_>) {
        let State::Body { copy, .. } = &self.state else { unreachable!("its body has ended") };
        let copy = copy.clone();
        if copy.load == Load::File {
            self.drop_data(cx);
        }
        cx.log(Level::Notice, "PRIMARY <-> REPLICA sync: Loading DB in memory");
        cx.out.push(Action::EndLoad { link: self.link });
        self.state = State::Loading { copy, last_sign: cx.now, gone: false };
    }

    /// The copy is loaded; the stream behind it has `db` selected (`repl-stream-db` of the file).
    pub(crate) fn loaded(&mut self, cx: &mut Cx<'_>, link: LinkId, db: u32) {
        if !self.is_now(link) {
            return;
        }
        let State::Loading { copy, gone, .. } = &self.state else { return };
        let (of, gone) = (copy.of, *gone);
        if matches!(copy.load, Load::Beside { .. }) {
            cx.told.push(Told::CutReplicas);
            cx.out.push(Action::Swap { link });
        }
        let (id, offset) = of.unwrap_or_else(|| ((cx.ids)(), 0));
        cx.stream.adopt(Position { id, offset, db });
        self.resumable = of.is_some();
        cx.log(Level::Notice, "PRIMARY <-> REPLICA sync: Finished with success");
        if gone {
            self.state = State::Online { confirms: false, last_ack: cx.now };
            return self.lost(cx);
        }
        self.go_online(cx, of.is_some());
        cx.out.push(Action::Read { link: self.link });
    }

    /// The copy could not be loaded, or not be written.
    pub(crate) fn load_failed(&mut self, cx: &mut Cx<'_>, link: LinkId, why: &str) {
        if self.is_now(link) && matches!(self.state, State::Body { .. } | State::Loading { .. }) {
            self.fail(cx, format!("Failed trying to load the PRIMARY synchronization DB: {why}"));
        }
    }

    /// Units were applied, with the data in hand and [`Follower::may_apply`]: their bytes, and the
    /// database that is selected behind them.
    pub(crate) fn applied(&mut self, cx: &mut Cx<'_>, link: LinkId, bytes: &[u8], db: u32) {
        if self.may_apply(link) && !bytes.is_empty() {
            cx.stream.relay(bytes, db);
        }
    }

    /// What comes on this link is no stream: another copy is needed.
    pub(crate) fn broken(&mut self, cx: &mut Cx<'_>, link: LinkId, why: &str) {
        if self.may_apply(link) {
            self.resumable = false;
            self.fail(cx, format!("Protocol error from primary: {why}"));
        }
    }

    /// The primary wants to know how far we are; all before is applied.
    pub(crate) fn get_ack(&mut self, cx: &mut Cx<'_>, link: LinkId) {
        if self.may_apply(link) {
            self.confirm(cx);
        }
    }

    fn confirm(&mut self, cx: &mut Cx<'_>) {
        if let State::Online { last_ack, .. } = &mut self.state {
            *last_ack = cx.now;
            let offset =
                if planted::is(Fault::AcksWhatCame) { self.came } else { cx.stream.offset() };
            let durable = self.durable.map(|durable| durable.min(offset));
            self.send(cx, words::ack(offset, durable));
        }
    }
}
