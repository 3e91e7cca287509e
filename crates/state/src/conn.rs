//! One connection: its socket, what was read and not executed, what was answered and not sent.

use crate::ahead::ReadAhead;
use crate::args::ArgBuf;
use crate::attempt::Attempt;
use crate::feed::Feed;
use crate::held_back::HeldBack;
use crate::later::Later;
use crate::session::Session;
use crate::waiting::Waiting;
use rustix::fd::OwnedFd;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weft_net::backlog::Backlog;
use weft_net::interest::Interest;
use weft_net::lifecycle as state;
use weft_net::lifecycle::Pending;
use weft_resp::{Parser, ProtocolError, Span};

/// A large bulk string that is being read straight into its place.
#[derive(Debug)]
pub struct BigRead {
    pub buf: Vec<u8>,
    /// Bytes of the value; two more end it on the wire.
    pub len: usize,
}

/// A complete request whose execution is deferred.
#[derive(Debug)]
pub struct Kept {
    /// This one request.
    pub request: Later,
    pub attempt: Attempt,
}

impl Kept {
    pub fn new(request: Later) -> Self {
        Kept { request, attempt: Attempt::FIRST }
    }
}

/// What a connection is doing. A job in the slow lane is known by what cancels it.
pub type State = state::State<Arc<Waiting>, Arc<AtomicBool>>;
/// How the requests of a batch ended.
pub type Executed = state::Executed<Arc<Waiting>, Arc<AtomicBool>>;

/// Input that was read and not executed.
#[derive(Debug, Default)]
pub struct Input {
    pub parser: Parser,
    /// Bytes that were read and not executed: usually none.
    pub buf: Vec<u8>,
    /// Bytes that follow those, read while the client was blocked.
    pub ahead: ReadAhead,
    /// Arguments of the incomplete request at the start of `buf`.
    pub spans: Vec<Span>,
    /// Arguments of an incomplete request that had to be taken out of the buffer.
    pub args: Vec<ArgBuf>,
    /// Bytes of those, while there are any.
    pub args_bytes: usize,
    pub big: Option<BigRead>,
    /// Complete requests that come before what is in `later`: few.
    pub kept: VecDeque<Kept>,
    /// Those that come before what is in `buf`.
    pub later: Later,
    /// What follows the kept requests makes no sense. Nothing more of it is parsed.
    pub protocol_error: Option<ProtocolError>,
    /// Others are shown that there is input.
    pub is_shown: bool,
}

impl Input {
    /// Whether there is something to execute, or to answer, before the socket is read.
    pub fn has_requests(&self) -> bool {
        !self.buf.is_empty() || !self.ahead.is_empty() || self.has_parsed()
    }

    /// Whether some of that is parsed already.
    fn has_parsed(&self) -> bool {
        !self.kept.is_empty() || !self.later.is_empty() || self.protocol_error.is_some()
    }

    /// Whether the next requests are, at least in part, in what was read ahead.
    pub fn goes_on_ahead(&self) -> bool {
        !self.ahead.is_empty() && !self.has_parsed()
    }

    /// Input that is not planned, in bytes.
    pub fn unplanned(&self) -> usize {
        self.buf.len() + self.big.as_ref().map_or(0, |b| b.buf.len())
    }

    /// The complete requests that wait for a later turn, in bytes. There are few in `kept`.
    pub fn waiting(&self) -> usize {
        self.kept.iter().map(|kept| kept.request.bytes()).sum::<usize>() + self.later.bytes()
    }

    /// Turns the arguments of the incomplete request into ones of their own.
    pub fn own_partial(&mut self, buf: &[u8], spans: &[Span]) {
        for span in spans {
            self.push_arg(ArgBuf::Bytes(span.of(buf).to_vec()));
        }
    }

    /// Adds an argument to the incomplete request.
    pub fn push_arg(&mut self, arg: ArgBuf) {
        if self.args.is_empty() {
            self.args_bytes = 0;
        }
        self.args_bytes += size_of::<ArgBuf>() + arg.bytes().len();
        self.args.push(arg);
    }
}

/// Replies and pushes that were not sent.
#[derive(Debug, Default)]
pub struct Output {
    pub backlog: Backlog,
    /// Another thread writes a reply; those that follow wait in `backlog`. Always set for a replica.
    pub writing: bool,
    /// Nothing of that is sent before this unit of the log of effects is safe; 0: there is none.
    pub withheld: u64,
    /// `backlog` holds pushes that were not tried yet: the connection is in its thread's row of such.
    pub pushed: bool,
    /// While a command of it runs in the slow lane: pushes that come behind its reply.
    pub held_back: Option<Box<HeldBack>>,
    /// Since when the soft output limit is exceeded (monotonic ms).
    pub soft_since: Cell<Option<i64>>,
}

impl Output {
    /// Whether what waits in `backlog` may be sent now.
    pub fn sends(&self) -> bool {
        !self.writing && self.withheld == 0
    }

    /// Replies not taken by the client, in bytes.
    pub fn pending(&self) -> usize {
        self.backlog.len()
    }

    /// The same with what is held back for now.
    pub fn untaken(&self) -> usize {
        self.backlog.len() + self.held_back.as_ref().map_or(0, |held_back| held_back.bytes())
    }

    /// Memory of all of that (bytes).
    pub fn memory(&self) -> usize {
        self.backlog.memory() + self.held_back.as_ref().map_or(0, |held_back| held_back.memory())
    }
}

/// Memory and work that count for the thread of the connection.
#[derive(Debug, Default)]
pub struct Usage {
    /// What this connection has added to its thread's account of clients' memory (bytes).
    pub accounted: u64,
    /// What it did in the period of the load `work_period` and, less and less, before: requests,
    /// and kilobytes in both directions.
    pub work: u64,
    pub work_period: u32,
}

impl Usage {
    /// Counts `work` done in `period`; whether it is the first of that period.
    pub fn note_work(&mut self, period: u32, work: u64) -> bool {
        let ago = period.wrapping_sub(self.work_period);
        if ago > 0 {
            // What was is worth half as much with each period.
            self.work = self.work.checked_shr(ago).unwrap_or(0);
            self.work_period = period;
        }
        self.work += work;
        ago > 0
    }
}

#[derive(Debug)]
pub struct Conn {
    /// Shared only while another thread writes for this one.
    pub fd: Arc<OwnedFd>,
    pub state: State,
    /// It is a replica's, and sends that.
    pub replica: Option<Feed>,
    /// Tells the tokens of this connection from those of earlier ones in the same slot.
    pub generation: u32,
    pub interest: Interest,
    pub session: Session,
    pub input: Input,
    pub output: Output,
    pub usage: Usage,
}

impl Conn {
    /// A connection of which nothing has been read.
    pub fn new(fd: OwnedFd, generation: u32, session: Session) -> Self {
        Conn {
            fd: Arc::new(fd),
            state: State::default(),
            replica: None,
            generation,
            interest: Interest::READ,
            session,
            input: Input::default(),
            output: Output::default(),
            usage: Usage::default(),
        }
    }

    /// What the socket is to be watched for.
    pub fn wanted(&self) -> Interest {
        let writes = self.output.pending() > 0
            && (self.output.sends() || self.replica.is_some_and(Feed::sends));
        Interest::of(self.state.watches_input(), writes)
    }

    /// What of it would have to be known where it goes.
    pub fn pending(&self) -> Pending {
        Pending {
            output: self.output.pending() > 0,
            in_row: self.output.pushed,
            is_elsewhere: !self.output.sends(),
            stands: self.input.kept.front().is_some_and(|kept| kept.attempt.retry.is_some()),
        }
    }

    /// What the client has sent and `client-query-buffer-limit` is about, in bytes: unparsed input
    /// and queued commands. To be asked when something is read: then no requests wait, unless the client is blocked.
    pub fn held_input(&self) -> usize {
        let queued = self.session.transaction.as_ref().map_or(0, |t| t.memory());
        // Of a large value, all that is to come. What was read ahead begins with that.
        let coming = self.input.big.as_ref().map_or(0, |big| big.len + 2 - big.buf.len());
        self.input.unplanned() + coming.max(self.input.ahead.len()) + queued
    }
}
