//! One connection: its socket, what was read and not executed, what was answered and not sent.

use crate::blocking::Waiting;
use crate::clients::ClientShared;
use crate::dispatch::transaction::{Transaction, Watched};
use crate::io::backlog::Backlog;
use crate::io::poll::Interest;
use rustix::fd::OwnedFd;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weft_resp::{Blob, Parser, Proto, ProtocolError, Span};

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

/// What a connection is, for the commands that run on it.
#[derive(Debug)]
pub struct Session {
    pub shared: Arc<ClientShared>,
    pub db: usize,
    pub proto: Proto,
    pub authenticated: bool,
    pub reply_mode: ReplyMode,
    /// Close once the replies are sent.
    pub close: bool,
    /// MONITOR: sees every command.
    pub monitor: bool,
    pub no_touch: bool,
    /// CLIENT IMPORT-SOURCE: expired keys are neither shown as missing nor removed.
    pub import_source: bool,
    /// CLIENT CAPA: what the client said it understands.
    pub redirect_capable: bool,
    /// Between MULTI and EXEC.
    pub transaction: Option<Box<Transaction>>,
    pub watched: Option<Box<Watched>>,
    /// What the client waits for.
    pub waiting: Option<Arc<Waiting>>,
    /// A command of the client's is in the slow lane; set to cancel it.
    pub slow: Option<Arc<AtomicBool>>,
}

impl Session {
    /// A copy for a command that runs on another thread.
    pub fn detached(&self) -> Session {
        Session {
            shared: self.shared.clone(),
            db: self.db,
            proto: self.proto,
            authenticated: self.authenticated,
            reply_mode: self.reply_mode,
            close: false,
            monitor: self.monitor,
            no_touch: self.no_touch,
            import_source: self.import_source,
            redirect_capable: self.redirect_capable,
            transaction: None,
            watched: None,
            waiting: None,
            slow: None,
        }
    }
}

/// An argument that is not a span of a buffer.
#[derive(Clone, Debug)]
pub enum ArgBuf {
    Bytes(Vec<u8>),
    /// A large value, where it will stay.
    Blob(Blob),
}

impl ArgBuf {
    pub fn bytes(&self) -> &[u8] {
        match self {
            ArgBuf::Bytes(b) => b,
            ArgBuf::Blob(b) => b,
        }
    }
}

/// A large bulk string that is being read straight into its place.
#[derive(Debug)]
pub struct BigRead {
    pub buf: Vec<u8>,
    /// Bytes of the value; two more end it on the wire.
    pub len: usize,
}

/// Why a connection's requests are not executed for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspended {
    /// Parked on a busy shard.
    Shard,
    /// CLIENT PAUSE.
    Paused,
    /// Too many replies wait to be taken.
    Output,
    /// The client waits for a key.
    Blocked,
    /// A command of it is in the slow lane.
    Slow,
}

#[derive(Debug)]
pub struct Conn {
    /// Shared only while another thread writes for this one.
    pub fd: Arc<OwnedFd>,
    /// A reply is away to be written by another thread.
    pub writing: bool,
    /// Tells the tokens of this connection from those of earlier ones in the same slot.
    pub generation: u32,
    pub session: Session,
    pub parser: Parser,
    /// Bytes that were read and not executed: usually none.
    pub inbuf: Vec<u8>,
    /// Arguments of the incomplete request at the start of `inbuf`.
    pub spans: Vec<Span>,
    /// Arguments of an incomplete request that had to be taken out of the buffer.
    pub args: Vec<ArgBuf>,
    pub big: Option<BigRead>,
    /// Complete requests that wait to be executed again after a suspension.
    pub again: std::collections::VecDeque<Vec<ArgBuf>>,
    pub suspended: Option<Suspended>,
    /// In the worker's list of connections that have something to execute without reading.
    pub queued: bool,
    pub out: Backlog,
    pub interest: Interest,
    /// Since when the soft output limit is exceeded (Unix ms).
    pub soft_since: Cell<Option<i64>>,
    /// Its requests are in the present batch.
    pub in_batch: bool,
    /// What is to be answered after the requests that were suspended.
    pub protocol_error: Option<ProtocolError>,
    /// What it did in the period of the load `work_period` and, less and less, before: requests,
    /// and kilobytes in both directions.
    pub work: u64,
    pub work_period: u32,
}

impl Conn {
    /// Whether more requests are to be read.
    pub fn wants_input(&self) -> bool {
        self.suspended.is_none() && !self.session.close
    }

    /// Whether the client must be seen to hang up although nothing is read from it: it waits for
    /// something that may never come.
    pub fn wants_hangup(&self) -> bool {
        match self.suspended {
            Some(Suspended::Blocked | Suspended::Slow) => true,
            Some(Suspended::Shard | Suspended::Paused | Suspended::Output) | None => false,
        }
    }

    /// Replies not taken by the client, in bytes.
    pub fn pending_output(&self) -> usize {
        self.out.len()
    }

    /// Unparsed input in bytes.
    pub fn pending_input(&self) -> usize {
        self.inbuf.len() + self.big.as_ref().map_or(0, |b| b.buf.len())
    }

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

    /// Turns the arguments of the incomplete request into ones of their own.
    pub fn own_partial(&mut self, buf: &[u8], spans: &[Span]) {
        self.args.extend(spans.iter().map(|s| ArgBuf::Bytes(s.of(buf).to_vec())));
    }
}
