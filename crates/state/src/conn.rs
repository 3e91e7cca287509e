//! One connection: its socket, input that has not been executed, and replies that have not been sent.

use crate::ahead::ReadAhead;
use crate::args::ArgBuf;
use crate::attempt::Attempt;
use crate::clients::ClientShared;
use crate::feed::Feed;
use crate::held_back::HeldBack;
use crate::packed_requests::PackedRequests;
use crate::session::Session;
use crate::waiting::Waiting;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weft_net::backlog::Backlog;
use weft_net::interest::Interest;
use weft_net::lifecycle as state;
use weft_net::lifecycle::Pending;
use weft_net::listen::{Accepted, Listener};
use weft_net::stream::Stream;
use weft_resp::{Parser, ProtocolError, Span};

/// A message about the beginning or the end of connections.
#[derive(Debug)]
pub enum ConnectionMessage {
    /// A new connection to own, and its place in the order of all arrivals.
    Accepted(Accepted, u64),
    /// Close this client's connection.
    Kill { client: Arc<ClientShared> },
    /// Accept connections from exactly these TCP sockets.
    Listen { listeners: Vec<Listener> },
}

/// A message that moves connections between threads.
#[derive(Debug)]
pub enum MoveMessage {
    /// A connection of another thread, to own from now on.
    Moved(Box<Conn>),
    /// Move connections worth this share of the work to thread `to`.
    Shed { to: usize, share: f64 },
    /// Move every connection to a random thread: for tests.
    Scatter,
}

/// The end of a wait for other clients' commands.
#[derive(Clone, Copy, Debug)]
pub enum ResumeMessage {
    /// The shard on which this connection was parked has been released.
    Unpark { token: u64 },
    /// CLIENT UNPAUSE, or the end of a pause: execute the requests that were held back.
    Unpause,
}

/// A large bulk string that is being read directly into the value's buffer.
#[derive(Debug)]
pub struct BigRead {
    pub buf: Vec<u8>,
    /// Bytes of the value, without the two that end it on the wire.
    pub len: usize,
}

/// A complete request whose execution is deferred.
#[derive(Debug)]
pub struct DeferredRequest {
    /// Exactly one request.
    pub request: PackedRequests,
    pub attempt: Attempt,
}

impl DeferredRequest {
    pub fn new(request: PackedRequests) -> Self {
        DeferredRequest { request, attempt: Attempt::FIRST }
    }
}

/// The state of a connection. A job in the slow lane is identified by its cancel flag.
pub type State = state::State<Arc<Waiting>, Arc<AtomicBool>>;
/// How the requests of a batch ended.
pub type Executed = state::Executed<Arc<Waiting>, Arc<AtomicBool>>;

/// Input that was read and has not been executed.
#[derive(Debug, Default)]
pub struct Input {
    pub parser: Parser,
    /// Bytes that were read and have not been executed; usually empty.
    pub buf: Vec<u8>,
    /// Bytes that follow `buf`, read while the client was blocked.
    pub ahead: ReadAhead,
    /// Arguments of the incomplete request at the start of `buf`.
    pub spans: Vec<Span>,
    /// Arguments of an incomplete request that were copied out of the buffer.
    pub args: Vec<ArgBuf>,
    /// Bytes of `args`; valid while `args` is not empty.
    pub args_bytes: usize,
    pub big: Option<BigRead>,
    /// The few complete requests that come before those in `later`.
    pub kept: VecDeque<DeferredRequest>,
    /// Complete requests that come before the bytes in `buf`.
    pub later: PackedRequests,
    /// A protocol error after the deferred requests. No input after it is parsed.
    pub protocol_error: Option<ProtocolError>,
    /// The published sizes of the input are not zero.
    pub is_shown: bool,
}

impl Input {
    /// Whether there are requests to execute, or an error to report, before the socket is read.
    pub fn has_requests(&self) -> bool {
        !self.buf.is_empty() || !self.ahead.is_empty() || self.has_parsed()
    }

    /// Whether some of these are parsed already.
    fn has_parsed(&self) -> bool {
        !self.kept.is_empty() || !self.later.is_empty() || self.protocol_error.is_some()
    }

    /// Whether the next requests are, at least in part, in the bytes that were read ahead.
    pub fn continues_in_read_ahead(&self) -> bool {
        !self.ahead.is_empty() && !self.has_parsed()
    }

    /// Input that has not been planned, in bytes.
    pub fn unplanned(&self) -> usize {
        self.buf.len() + self.big.as_ref().map_or(0, |b| b.buf.len())
    }

    /// The complete requests that wait for a later iteration, in bytes. O(length of `kept`), which is short.
    pub fn waiting(&self) -> usize {
        self.kept.iter().map(|kept| kept.request.bytes()).sum::<usize>() + self.later.bytes()
    }

    /// Copies the arguments of the incomplete request out of `buf`.
    pub fn copy_partial_args(&mut self, buf: &[u8], spans: &[Span]) {
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

/// Replies and pushes that have not been sent.
#[derive(Debug, Default)]
pub struct Output {
    pub backlog: Backlog,
    /// Another thread writes a reply; later replies wait in `backlog`. Always set for a replica.
    pub writing: bool,
    /// The backlog is sent only after this unit of the effect log is safe; 0: no wait.
    pub withheld: u64,
    /// The term of the replies that are withheld, or of the command that runs elsewhere, if they need the node's
    /// authority: [`crate::authority`].
    pub term: u64,
    /// `backlog` holds new pushes: the connection is in its thread's list of connections to flush.
    pub pushed: bool,
    /// While a command of the client runs in the slow lane: pushes to be sent after its reply.
    pub held_back: Option<Box<HeldBack>>,
    /// When the soft output limit was exceeded (monotonic ms), while it is.
    pub soft_since: Cell<Option<i64>>,
}

impl Output {
    /// Whether this thread may send `backlog` now.
    pub fn sends(&self) -> bool {
        !self.writing && self.withheld == 0
    }

    /// Replies that the client has not taken, in bytes.
    pub fn pending(&self) -> usize {
        self.backlog.len()
    }

    /// The same, including held-back pushes.
    pub fn untaken(&self) -> usize {
        self.backlog.len() + self.held_back.as_ref().map_or(0, |held_back| held_back.bytes())
    }

    /// Memory of all of these (bytes).
    pub fn memory(&self) -> usize {
        self.backlog.memory() + self.held_back.as_ref().map_or(0, |held_back| held_back.memory())
    }
}

/// Memory and work that are charged to the connection's thread.
#[derive(Debug, Default)]
pub struct Usage {
    /// The connection's share of its thread's count of client memory (bytes).
    pub accounted: u64,
    /// Work in the load period `work_period`: requests, and kilobytes in both directions. Work of earlier
    /// periods counts less with each period.
    pub work: u64,
    pub work_period: u32,
}

impl Usage {
    /// Adds `work` done in `period`. Returns whether it is the first work of that period.
    pub fn note_work(&mut self, period: u32, work: u64) -> bool {
        let ago = period.wrapping_sub(self.work_period);
        if ago > 0 {
            // Earlier work loses half of its weight with each period.
            self.work = self.work.checked_shr(ago).unwrap_or(0);
            self.work_period = period;
        }
        self.work += work;
        ago > 0
    }
}

#[derive(Debug)]
pub struct Conn {
    /// Shared only while another thread writes to it for this connection.
    pub stream: Stream,
    pub state: State,
    /// Set if the client is a replica: the data that its connection sends.
    pub replica: Option<Feed>,
    /// Distinguishes this connection's tokens from those of earlier connections in the same slot.
    pub generation: u32,
    pub interest: Interest,
    pub session: Session,
    pub input: Input,
    pub output: Output,
    pub usage: Usage,
}

impl Conn {
    /// A connection from which nothing has been read.
    pub fn new(stream: Stream, generation: u32, session: Session) -> Self {
        Conn {
            stream,
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

    /// Whether output waits for the socket.
    pub fn has_output(&self) -> bool {
        self.output.pending() > 0 || self.stream.has_unsent()
    }

    /// The events to poll the socket for.
    pub fn wanted(&self) -> Interest {
        let writes =
            self.has_output() && (self.output.sends() || self.replica.is_some_and(Feed::sends));
        Interest::of(self.state.watches_input(), writes)
    }

    /// The pending output and requests, by which the state machine decides.
    pub fn pending(&self) -> Pending {
        Pending {
            output: self.has_output(),
            in_row: self.output.pushed,
            is_elsewhere: !self.output.sends(),
            stands: self.input.kept.front().is_some_and(|kept| kept.attempt.retry.is_some()),
        }
    }

    /// The input that `client-query-buffer-limit` bounds, in bytes: unparsed input and queued commands. Called
    /// after a read: at that time no request is deferred, unless the client is blocked.
    pub fn held_input(&self) -> usize {
        let queued = self.session.transaction.as_ref().map_or(0, |t| t.memory());
        // A large value counts with its whole length. The bytes read ahead begin with the rest of that value.
        let coming = self.input.big.as_ref().map_or(0, |big| big.len + 2 - big.buf.len());
        self.input.unplanned() + coming.max(self.input.ahead.len()) + queued
    }
}
