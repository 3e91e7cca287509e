//! What a connection holds in memory: shown by CLIENT LIST, and added up for `maxmemory-clients`.
//!
//! All of it is known without walking over buffers, so that it can be renewed in every turn.

use crate::clients::ClientShared;
use crate::conn::{Conn, Kept};
use std::sync::atomic::Ordering::Relaxed;
use weft_memory::holdings::Holdings;
use weft_resp::Span;

/// Addresses, and places in what leads to a client by its number or its socket (bytes, measured).
const ELSEWHERE: usize = 240;

/// What a connection takes beside its buffers (bytes).
pub const FIXED: usize =
    size_of::<Conn>() + size_of::<ClientShared>() + size_of::<Holdings>() + ELSEWHERE;

/// The input of a connection that is not executed yet, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Not yet parsed.
    pub unparsed: usize,
    /// Arguments of a request that is not complete.
    pub args: usize,
    /// Room behind what was read.
    pub free: usize,
    /// All the memory of it.
    pub room: usize,
}

impl Conn {
    /// O(1).
    pub fn input(&self) -> Input {
        let (value, value_room) = match &self.big {
            Some(big) => (big.buf.len(), big.buf.capacity()),
            None => (0, 0),
        };
        let parsed = if self.parser.in_request() && self.big.is_none() {
            self.parser.pos.min(self.inbuf.len())
        } else {
            0
        };
        let own = if self.args.is_empty() { 0 } else { self.args_bytes };
        let room = self.inbuf.capacity() + value_room;
        // For whoever looks from outside it is all the same whether requests were looked at.
        let later = self.waiting_input();
        let kept = |kept: &Kept| size_of::<Kept>() + kept.request.memory();
        let later_room = self.kept.iter().map(kept).sum::<usize>() + self.later.memory();
        Input {
            unparsed: self.inbuf.len() + self.ahead.len() - parsed + value + later,
            args: own + parsed,
            free: room - self.inbuf.len() - value,
            room: room
                + self.ahead.memory()
                + later_room
                + own
                + self.spans.capacity() * size_of::<Span>(),
        }
    }

    /// All that the connection holds, in bytes. O(1).
    pub fn memory(&self) -> usize {
        let holdings = self.session.shared.holdings.total() as usize;
        FIXED + self.input().room + holdings + self.output_memory()
    }

    /// Shows others what input is there. A connection that has none, as is usual, has nothing to
    /// show but once that it is gone.
    #[inline]
    pub fn show_input(&mut self) {
        let has = self.inbuf.capacity() > 0
            || self.big.is_some()
            || !self.args.is_empty()
            || !self.ahead.is_empty();
        if has || self.shows_input || self.session.asked_of_itself {
            self.show_input_now(has || !self.kept.is_empty() || !self.later.is_empty());
        }
    }

    #[cold]
    fn show_input_now(&mut self, has: bool) {
        let (input, shared) = (self.input(), &self.session.shared);
        shared.query_len.store(input.unparsed as u64, Relaxed);
        shared.query_free.store(input.free as u64, Relaxed);
        shared.query_room.store(input.room as u64, Relaxed);
        shared.argv_mem.store(input.args as u64, Relaxed);
        self.shows_input = has;
        self.session.asked_of_itself = false;
    }
}
