//! The memory of a connection, as CLIENT LIST shows it and `maxmemory-clients` adds it up.
//!
//! Each size is known without a walk over buffers, so it is updated in every iteration.

use crate::clients::ClientShared;
use crate::conn::{Conn, DeferredRequest, Input};
use std::sync::atomic::Ordering::Relaxed;
use weft_memory::holdings::Holdings;
use weft_resp::Span;

/// Addresses, and entries in the maps that find a client by its id or its socket (bytes, measured).
const ELSEWHERE: usize = 240;

/// Memory of a connection without its buffers (bytes).
pub const FIXED: usize =
    size_of::<Conn>() + size_of::<ClientShared>() + size_of::<Holdings>() + ELSEWHERE;

/// The input of a connection that has not been executed yet, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputSizes {
    /// Input that has not been parsed.
    pub unparsed: usize,
    /// Arguments of an incomplete request.
    pub args: usize,
    /// Free space after the unparsed input.
    pub free: usize,
    /// The memory of all of it.
    pub room: usize,
}

impl Input {
    /// O(1).
    pub fn sizes(&self) -> InputSizes {
        let (value, value_room) = match &self.big {
            Some(big) => (big.buf.len(), big.buf.capacity()),
            None => (0, 0),
        };
        let parsed = if self.parser.in_request() && self.big.is_none() {
            self.parser.pos.min(self.buf.len())
        } else {
            0
        };
        let own = if self.args.is_empty() { 0 } else { self.args_bytes };
        let room = self.buf.capacity() + value_room;
        // Deferred requests count as unparsed: observers don't distinguish whether a request has been parsed.
        let later = self.waiting();
        let kept = |kept: &DeferredRequest| size_of::<DeferredRequest>() + kept.request.memory();
        let later_room = self.kept.iter().map(kept).sum::<usize>() + self.later.memory();
        InputSizes {
            unparsed: self.buf.len() + self.ahead.len() - parsed + value + later,
            args: own + parsed,
            free: room - self.buf.len() - value,
            room: room
                + self.ahead.memory()
                + later_room
                + own
                + self.spans.capacity() * size_of::<Span>(),
        }
    }
}

impl Conn {
    /// The memory of the connection, in bytes. O(1).
    pub fn memory(&self) -> usize {
        let holdings = self.session.shared.memory.holdings.total() as usize;
        FIXED + self.input.sizes().room + holdings + self.output.memory()
    }

    /// Publishes the sizes of the input for other threads. An idle connection has no input and stores nothing,
    /// except once after its input is gone.
    #[inline]
    pub fn show_input(&mut self) {
        let has = self.input.buf.capacity() > 0
            || self.input.big.is_some()
            || !self.input.args.is_empty()
            || !self.input.ahead.is_empty();
        if has || self.input.is_shown || self.session.replies.counted_own_request {
            self.show_input_now(has || !self.input.kept.is_empty() || !self.input.later.is_empty());
        }
    }

    #[cold]
    fn show_input_now(&mut self, has: bool) {
        let (input, shared) = (self.input.sizes(), &self.session.shared);
        shared.input.len.store(input.unparsed as u64, Relaxed);
        shared.input.free.store(input.free as u64, Relaxed);
        shared.input.room.store(input.room as u64, Relaxed);
        shared.input.argv.store(input.args as u64, Relaxed);
        self.input.is_shown = has;
        self.session.replies.counted_own_request = false;
    }
}
