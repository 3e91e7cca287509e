//! The stream that this server has written or received: its history, and the part that is kept.
//!
//! A primary appends units. A replica appends the bytes of its primary unchanged, once they are
//! applied. The id changes exactly when the guarantees of the old one end; each method that changes
//! it gives the reason.

use crate::backlog::Backlog;
use crate::cluster::PromiseQuestion;
use crate::id::{History, ReplicationId, Verdict};
use crate::planted::{self, Fault};
use std::ops::Range;
use weft_resp::{Command, FirstSelect, UnitEncoder};

/// A position in a history: a file of the data records it, and a replica continues from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub id: ReplicationId,
    /// Bytes of the history that the data include.
    pub offset: u64,
    /// The database that the stream has selected there.
    pub db: u32,
}

// A primary's messages to its replicas are part of the stream and count in its offset.

/// The primary is alive: `PING`.
pub const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
/// Replicas must report their offset at once: `REPLCONF GETACK *`.
pub const GET_ACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

/// Capacity in bytes that is kept for the next units.
const SCRATCH: usize = 1 << 20;

/// Appends units as one batch.
pub struct Units<'a> {
    encoder: &'a mut UnitEncoder,
    bytes: &'a mut Vec<u8>,
    /// End of the stream before them.
    offset: u64,
    kept: bool,
}

impl Units<'_> {
    /// End of the stream after the units so far.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Appends a unit. Returns the end of the stream after it, for which WAIT waits.
    pub fn unit<C: Command>(&mut self, commands: &[C]) -> u64 {
        if self.kept {
            self.encoder.unit(commands, self.bytes);
        }
        self.end()
    }
}

#[derive(Debug)]
pub struct Stream {
    history: History,
    backlog: Option<Backlog>,
    encoder: UnitEncoder,
    /// `repl-backlog-size` in bytes.
    size: u64,
    /// The bytes are the primary's, and so are their SELECTs.
    relays: bool,
    scratch: Vec<u8>,
}

impl Stream {
    /// A new server. Nothing is kept until a replica needs it.
    #[must_use]
    pub fn new(id: ReplicationId, size: u64) -> Stream {
        Stream {
            history: History::new(id, 0),
            backlog: None,
            encoder: UnitEncoder::new(FirstSelect::BeforeMulti),
            size,
            relays: false,
            scratch: Vec::new(),
        }
    }

    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Bytes that the data include.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.history.offset
    }

    #[must_use]
    pub fn backlog(&self) -> Option<&Backlog> {
        self.backlog.as_ref()
    }

    #[must_use]
    pub fn kept(&self) -> Option<Range<u64>> {
        self.backlog.as_ref().map(Backlog::kept)
    }

    #[must_use]
    pub fn position(&self) -> Position {
        let db = match planted::is(Fault::DatabaseForgotten) {
            true => 0,
            false => self.encoder.db().unwrap_or(0) as u32,
        };
        Position { id: self.history.id, offset: self.history.offset, db }
    }

    /// Whether a replica may continue from this offset.
    #[must_use]
    pub fn psync(&self, asked_id: &[u8], asked: i64) -> Verdict {
        self.history.psync(asked_id, asked, self.kept())
    }

    /// Sets the size in bytes.
    pub fn resize(&mut self, size: u64) {
        self.size = size;
        if let Some(backlog) = &mut self.backlog {
            backlog.resize(size);
        }
    }

    pub fn trim(&mut self, needed: Option<u64>) {
        if let Some(backlog) = &mut self.backlog {
            backlog.trim(needed);
        }
    }

    /// Keeps the stream from here on. Earlier writes didn't count, so no replica can have a valid
    /// offset: a new history begins. Returns whether anything changed.
    pub fn keep(&mut self, id: impl FnOnce() -> ReplicationId) -> bool {
        if self.backlog.is_some() {
            return false;
        }
        if !planted::is(Fault::UnkeptWritesIgnored) {
            self.history.renew(id());
        }
        self.keep_from_here();
        true
    }

    /// Changes the id of the history from here on.
    pub fn rename(&mut self, id: ReplicationId) {
        self.history.renew(id);
    }

    fn keep_from_here(&mut self) {
        self.backlog = Some(Backlog::new(self.history.offset, self.size));
        self.encoder.forget_db();
    }

    /// Drops the backlog. Later writes are not kept, so no replica could continue.
    pub fn forget(&mut self, id: ReplicationId) {
        if !planted::is(Fault::UnkeptWritesIgnored) {
            self.history.renew(id);
        }
        self.backlog = None;
    }

    /// Appends units of this server as one batch. Without a backlog the offset doesn't advance.
    /// O(bytes).
    pub fn write<T>(&mut self, write: impl FnOnce(&mut Units<'_>) -> T) -> T {
        let mut bytes = std::mem::take(&mut self.scratch);
        let (offset, kept) = (self.history.offset, self.backlog.is_some());
        let result =
            write(&mut Units { encoder: &mut self.encoder, bytes: &mut bytes, offset, kept });
        self.append(&bytes);
        bytes.clear();
        bytes.shrink_to(SCRATCH);
        self.scratch = bytes;
        result
    }

    pub fn ping(&mut self) {
        self.append(PING);
    }

    pub fn get_ack(&mut self) {
        self.append(GET_ACK);
    }

    /// Appends the primary's question for a promise.
    pub fn ask_promise(&mut self, question: &PromiseQuestion) {
        self.append(&question.encode());
    }

    fn append(&mut self, bytes: &[u8]) {
        if let Some(backlog) = &mut self.backlog {
            backlog.append(bytes);
            self.history.offset += bytes.len() as u64;
        }
    }

    /// Appends bytes of the primary that were applied; `db` is the selected database after them.
    pub fn relay(&mut self, bytes: &[u8], db: u32) {
        if self.backlog.is_none() {
            self.backlog = Some(Backlog::new(self.history.offset, self.size));
        }
        self.append(bytes);
        self.encoder.selected(db as usize);
    }

    /// Becomes a replica: the primary writes the stream from here on.
    pub fn demote(&mut self) {
        self.relays = true;
    }

    /// A snapshot begins here, and its readers continue from here: the next unit must select its
    /// database.
    pub fn cut(&mut self) {
        if !self.relays {
            self.encoder.forget_db();
        }
    }

    /// Becomes a primary with the data of a replica: a new id, and the old one as the second.
    pub fn promote(&mut self, id: ReplicationId) {
        self.relays = false;
        if !planted::is(Fault::IdNotShifted) {
            self.history.shift(id);
        }
        if self.backlog.is_none() {
            self.keep_from_here();
        }
        self.encoder.forget_db();
    }

    /// The primary accepts a continuation, and its history has this id now. Returns whether the id
    /// changes.
    pub fn continued(&mut self, id: ReplicationId) -> bool {
        if self.backlog.is_none() {
            self.backlog = Some(Backlog::new(self.history.offset, self.size));
        }
        let other = self.history.id != id;
        if other {
            self.history.shift(id);
        }
        other
    }

    /// The data are a copy of the primary's at this position.
    pub fn adopt(&mut self, position: Position) {
        self.history = History::new(position.id, position.offset);
        self.backlog = Some(Backlog::new(position.offset, self.size));
        self.encoder.selected(position.db as usize);
    }

    /// The data are from a replica's file. It will ask its primary to continue.
    pub fn resume(&mut self, position: Position) {
        self.adopt(position);
    }

    /// The data are from a primary's file. Later writes get a new id, because the server may have
    /// written more than the file has.
    pub fn restart(&mut self, position: Position, id: ReplicationId) {
        self.adopt(position);
        self.history.shift(id);
        self.encoder.forget_db();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_equal_the_encoded_words() {
        for (constant, text) in
            [(PING, &[&b"PING"[..]][..]), (GET_ACK, &[b"REPLCONF", b"GETACK", b"*"])]
        {
            let mut out = Vec::new();
            weft_resp::append_request(text, &mut out);
            assert_eq!(out, constant);
        }
    }
}
