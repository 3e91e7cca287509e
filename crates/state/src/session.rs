//! The state of one connection that its commands work with.

use crate::access::Identity;
use crate::acting::ActionId;
use crate::authority::NO_TERM;
use crate::clients::ClientShared;
use crate::clients::Own;
use crate::cluster::Import;
use crate::queued::{Transaction, Watched};
use crate::snapshot_waits::Wait;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weft_keyspace::ShardSet;
use weft_keyspace::invalidation::NO_CLIENT;
use weft_resp::Proto;
use weft_resp::reply::Mark;
use weft_script::Scope;

/// Whether replies are sent: CLIENT REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    On,
    Off,
    /// The next command's reply is dropped.
    SkipNext,
    /// The running command's reply is dropped.
    Skipping,
}

impl ReplyMode {
    /// Whether the running command's reply is dropped.
    pub fn drops(self) -> bool {
        match self {
            ReplyMode::Off | ReplyMode::Skipping => true,
            ReplyMode::On | ReplyMode::SkipNext => false,
        }
    }
}

/// The result of a command that has taken effect, and the commands of other clients that its reply waits for.
#[derive(Debug)]
pub struct PendingReply {
    /// The number to reply with: of killed clients, or of deleted users.
    pub count: usize,
    /// Commands that are still running in the slow lane.
    pub commands: Vec<ActionId>,
}

/// Whether ASKING lets a command use a slot that this node imports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    #[default]
    No,
    /// It applies to the next request.
    Next,
    /// It applies to the request that is being executed, and to its later attempts.
    Now,
    /// The connection copies keys to this node: [`crate::cluster::Import`].
    Import,
}

/// Options set by the client.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientOptions {
    pub no_touch: bool,
    /// CLIENT IMPORT-SOURCE: expired keys are neither shown as missing nor removed.
    pub import_source: bool,
    /// ASKING.
    pub asking: Asking,
    /// CLIENT CAPA: the client understands redirects.
    pub redirect_capable: bool,
}

/// How replies to commands are sent.
#[derive(Debug)]
pub struct Replies {
    pub mode: ReplyMode,
    /// While CLIENT REPLY drops a reply: the output before this mark is no reply, so it is kept.
    pub keep: Option<Mark>,
    /// The reply of CLIENT KILL, or of a change of users, is sent when these commands have ended.
    pub pending: Option<Box<PendingReply>>,
    /// The term of the node's authority in which the first of these replies was executed that needs it:
    /// [`crate::authority`].
    pub term: u64,
    /// CLIENT LIST or INFO counted its own request as input; the count must be corrected.
    pub counted_own_request: bool,
}

impl Replies {
    fn new(mode: ReplyMode) -> Self {
        Replies { mode, keep: None, pending: None, term: NO_TERM, counted_own_request: false }
    }
}

/// Sources of pushes, and the position up to which they were read. A client can be a monitor, a subscriber and
/// a tracker at once.
#[derive(Clone, Debug, Default)]
pub struct PushState {
    /// MONITOR: sees every command.
    pub monitor: bool,
    /// It has subscriptions: [`ClientShared::subscriber`].
    pub subscribes: bool,
    /// Invalidation messages of this or another client are sent to it, whatever its subscriptions.
    pub is_pushed_to: bool,
    /// CLIENT TRACKING is on: it is notified when keys that it has read change. Implies `is_pushed_to`.
    pub tracks: Option<Own>,
    /// Its thread's inbox may hold messages for it, which must be sent before its next reply.
    pub listens: bool,
    /// The number of the first message of its thread's inbox that has not been checked for it.
    pub seen: u64,
}

/// The time in a transaction or a script: it doesn't change while they run.
#[derive(Debug, Default)]
pub struct FixedTime {
    /// The time since 1970 that TIME has returned.
    pub time: Option<Duration>,
}

/// A connection as its commands see it.
#[derive(Debug)]
pub struct Session {
    pub shared: Arc<ClientShared>,
    pub db: usize,
    pub proto: Proto,
    pub identity: Identity,
    /// Close the connection once the replies are sent.
    pub close: bool,
    pub options: ClientOptions,
    pub replies: Replies,
    pub pushes: PushState,
    /// Between MULTI and EXEC.
    pub transaction: Option<Box<Transaction>>,
    pub watched: Option<Box<Watched>>,
    /// The last unit of the effect log that its commands made: WAIT waits for it.
    pub last_unit: u64,
    /// Its command waits for a snapshot at its memory limit.
    pub snapshot_wait: Option<Wait>,
    /// The needs of its script, which starts over.
    pub script: Option<Box<ScriptNeeds>>,
    /// Set while a script calls its commands.
    pub in_script: bool,
    /// In cluster mode, while EXEC or a script calls commands: the slot of its keys, once it is known.
    pub slot: Option<u16>,
    /// With [`Asking::Import`]: the slots that the connection copies.
    pub importing: Option<Arc<Import>>,
    /// Set while EXEC or a script calls commands.
    pub fixed_time: Option<FixedTime>,
}

/// The needs that a script has found in its earlier runs, before it starts over.
#[derive(Debug, Default)]
pub struct ScriptNeeds {
    pub scope: Scope,
    /// Shards of keys that it has not declared.
    pub shards: ShardSet,
    pub restarts: u32,
    /// MONITOR has shown its command.
    pub is_shown: bool,
}

impl Session {
    /// The session of a client that has sent no command.
    pub fn new(shared: Arc<ClientShared>, identity: Identity) -> Self {
        Session {
            shared,
            db: 0,
            proto: Proto::Resp2,
            identity,
            close: false,
            options: ClientOptions::default(),
            replies: Replies::new(ReplyMode::On),
            pushes: PushState::default(),
            transaction: None,
            watched: None,
            last_unit: 0,
            snapshot_wait: None,
            script: None,
            in_script: false,
            slot: None,
            importing: None,
            fixed_time: None,
        }
    }

    /// Whether the client may only use subscription commands: it has subscriptions, and in RESP2 a reply can't
    /// be distinguished from a message.
    #[inline]
    pub fn is_restricted(&self) -> bool {
        self.pushes.subscribes && self.proto == Proto::Resp2
    }

    /// Checks for pushes from now on if other clients redirect messages to this one. The message that announces
    /// them may still be in the mailbox, before the first push.
    #[inline]
    pub fn note_redirection(&mut self) {
        if self.shared.pushes.is_redirected_to.load(Ordering::Relaxed) {
            (self.pushes.is_pushed_to, self.pushes.listens) = (true, true);
        }
    }

    /// The client to be recorded as the author of its changes, if it may not want to be notified of them.
    #[inline]
    pub fn own_changes(&self) -> u64 {
        if self.pushes.tracks.is_some() { self.shared.id } else { NO_CLIENT }
    }

    /// A copy for a command that runs on another thread.
    pub fn detached(&self) -> Session {
        Session {
            db: self.db,
            proto: self.proto,
            options: self.options,
            replies: Replies::new(self.replies.mode),
            pushes: self.pushes.clone(),
            last_unit: self.last_unit,
            importing: self.importing.clone(),
            ..Session::new(self.shared.clone(), self.identity.clone())
        }
    }
}
