//! What the commands of one connection work with.

use crate::clients::ClientShared;
use crate::clients::Own;
use crate::queued::{Transaction, Watched};
use crate::snapshot_waits::Wait;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_keyspace::invalidation::NO_CLIENT;
use weft_resp::Proto;
use weft_resp::reply::Mark;

/// Whether replies are sent: CLIENT REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    On,
    Off,
    /// The reply of the next command is dropped.
    SkipNext,
    /// The reply of the command that runs now is dropped.
    Skipping,
}

impl ReplyMode {
    /// Whether the reply of what runs now is dropped.
    pub fn drops(self) -> bool {
        match self {
            ReplyMode::Off | ReplyMode::Skipping => true,
            ReplyMode::On | ReplyMode::SkipNext => false,
        }
    }
}

/// What CLIENT KILL has done, and still waits for.
#[derive(Debug)]
pub struct AnswerBehind {
    /// How many clients it has killed.
    pub killed: usize,
    /// Those whose command acts in the slow lane.
    pub clients: Vec<u64>,
}

/// Options that the client has set.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientOptions {
    pub no_touch: bool,
    /// CLIENT IMPORT-SOURCE: expired keys are neither shown as missing nor removed.
    pub import_source: bool,
    /// CLIENT CAPA: what the client said it understands.
    pub redirect_capable: bool,
}

/// How replies to commands are sent.
#[derive(Debug)]
pub struct Replies {
    pub mode: ReplyMode,
    /// While CLIENT REPLY drops a reply: what is in front of this mark is no reply.
    pub keep: Option<Mark>,
    /// CLIENT KILL is answered when these have ended.
    pub answer_behind: Option<Box<AnswerBehind>>,
    /// CLIENT LIST or INFO has noted the request that asked as input: to be taken back.
    pub asked_of_itself: bool,
}

impl Replies {
    fn new(mode: ReplyMode) -> Self {
        Replies { mode, keep: None, answer_behind: None, asked_of_itself: false }
    }
}

/// Sources of pushes, and how far they were read. A client can be a monitor, a subscriber and a
/// tracker at once.
#[derive(Clone, Debug, Default)]
pub struct PushState {
    /// MONITOR: sees every command.
    pub monitor: bool,
    /// It listens to something: [`ClientShared::subscriber`].
    pub subscribes: bool,
    /// Others push to it, whatever it listens to.
    pub is_pushed_to: bool,
    /// CLIENT TRACKING is on: it is told of what it has read. Then others push to it.
    pub tracks: Option<Own>,
    /// There may be something for it in its thread's mail, to come in front of its next reply.
    pub listens: bool,
    /// The number of the first message of its thread's mail that was not looked at for it.
    pub seen: u64,
}

/// What a connection is, for the commands that run on it.
#[derive(Debug)]
pub struct Session {
    pub shared: Arc<ClientShared>,
    pub db: usize,
    pub proto: Proto,
    pub authenticated: bool,
    /// Close once the replies are sent.
    pub close: bool,
    pub options: ClientOptions,
    pub replies: Replies,
    pub pushes: PushState,
    /// Between MULTI and EXEC.
    pub transaction: Option<Box<Transaction>>,
    pub watched: Option<Box<Watched>>,
    /// The last unit of the log of effects that it has made: what WAIT is about.
    pub last_unit: u64,
    /// Its command waits for a snapshot that is full.
    pub snapshot_wait: Option<Wait>,
}

impl Session {
    /// The session of a client that has sent no command.
    pub fn new(shared: Arc<ClientShared>, authenticated: bool) -> Self {
        Session {
            shared,
            db: 0,
            proto: Proto::Resp2,
            authenticated,
            close: false,
            options: ClientOptions::default(),
            replies: Replies::new(ReplyMode::On),
            pushes: PushState::default(),
            transaction: None,
            watched: None,
            last_unit: 0,
            snapshot_wait: None,
        }
    }

    /// Whether the client may do nothing but listen: it does, and in RESP2 a reply could not be
    /// told from a message.
    #[inline]
    pub fn is_restricted(&self) -> bool {
        self.pushes.subscribes && self.proto == Proto::Resp2
    }

    /// Others may have come to push to its client: their pushes are looked for from now on. The message
    /// that says so may still be in the mailbox, in front of the first of them.
    #[inline]
    pub fn note_redirection(&mut self) {
        if self.shared.pushes.is_redirected_to.load(Ordering::Relaxed) {
            (self.pushes.is_pushed_to, self.pushes.listens) = (true, true);
        }
    }

    /// Whose the changes are that it makes, if its client may not want to be told of them.
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
            ..Session::new(self.shared.clone(), self.authenticated)
        }
    }
}
