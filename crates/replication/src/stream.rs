//! What this server has written or received, as others may read it: its history, and the bytes of it
//! that are kept.
//!
//! A primary appends units; a replica appends the bytes of its primary as they are, when they are applied.
//! The id changes exactly when what was said under the old one can't be kept any longer, and each method
//! here that changes it says why.

use crate::backlog::Backlog;
use crate::encode::{self, Command, Encoder};
use crate::id::{History, ReplicationId, Verdict};
use crate::planted::{self, Fault};
use std::ops::Range;

/// A place in a history: what a file of the data says about itself, and what a replica goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub id: ReplicationId,
    /// Bytes of the history that the data contain.
    pub offset: u64,
    /// The database that the stream has selected there.
    pub db: u32,
}

/// Bytes that are held for the next units.
const SCRATCH: usize = 1 << 20;

/// Takes units that are appended together.
pub struct Units<'a> {
    encoder: &'a mut Encoder,
    bytes: &'a mut Vec<u8>,
    /// Where the stream ended before them.
    offset: u64,
    kept: bool,
}

impl Units<'_> {
    /// Where the stream ends behind what was appended so far.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Appends a unit, and tells where the stream ends behind it: what WAIT waits for.
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
    encoder: Encoder,
    /// `repl-backlog-size` in bytes.
    size: u64,
    /// The bytes are another's, and so is what they say about databases.
    relays: bool,
    scratch: Vec<u8>,
}

impl Stream {
    /// A server without a past. Nothing is kept until somebody wants it.
    #[must_use]
    pub fn new(id: ReplicationId, size: u64) -> Stream {
        Stream {
            history: History::new(id, 0),
            backlog: None,
            encoder: Encoder::default(),
            size,
            relays: false,
            scratch: Vec::new(),
        }
    }

    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Bytes that the data contain.
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

    /// May a replica go on from there?
    #[must_use]
    pub fn psync(&self, asked_id: &[u8], asked: i64) -> Verdict {
        self.history.psync(asked_id, asked, self.kept())
    }

    /// A new size in bytes.
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

    /// From here on what is written is kept. Up to here it was not, so nobody can have an offset of
    /// ours: the history is a new one. Answers whether that was to be done.
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

    /// The history has another name from here on.
    pub fn rename(&mut self, id: ReplicationId) {
        self.history.renew(id);
    }

    fn keep_from_here(&mut self) {
        self.backlog = Some(Backlog::new(self.history.offset, self.size));
        self.encoder.forget_db();
    }

    /// Nothing is kept any longer, so what comes is no continuation that anybody could follow.
    pub fn forget(&mut self, id: ReplicationId) {
        if !planted::is(Fault::UnkeptWritesIgnored) {
            self.history.renew(id);
        }
        self.backlog = None;
    }

    /// Appends units of our own, all at once. Without a backlog nobody counts. O(bytes).
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
        self.append(encode::PING);
    }

    pub fn get_ack(&mut self) {
        self.append(encode::GET_ACK);
    }

    fn append(&mut self, bytes: &[u8]) {
        if let Some(backlog) = &mut self.backlog {
            backlog.append(bytes);
            self.history.offset += bytes.len() as u64;
        }
    }

    /// Appends what came from the primary and has been applied; `db` is selected behind it.
    pub fn relay(&mut self, bytes: &[u8], db: u32) {
        if self.backlog.is_none() {
            self.backlog = Some(Backlog::new(self.history.offset, self.size));
        }
        self.append(bytes);
        self.encoder.selected(db as usize);
    }

    /// Becomes a replica: what comes is written by somebody else.
    pub fn demote(&mut self) {
        self.relays = true;
    }

    /// Somebody is given the data as they are here, and then reads from here: what comes next must say
    /// which database it means.
    pub fn cut(&mut self) {
        if !self.relays {
            self.encoder.forget_db();
        }
    }

    /// Becomes a primary with the data of a replica: a new name, and the old one as the second.
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

    /// The primary lets us go on, and its history has this name now. Answers whether that is another.
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

    /// The data are a copy of the primary's at this place.
    pub fn adopt(&mut self, position: Position) {
        self.history = History::new(position.id, position.offset);
        self.backlog = Some(Backlog::new(position.offset, self.size));
        self.encoder.selected(position.db as usize);
    }

    /// The data are those of a file of a replica, which will ask its primary to go on.
    pub fn resume(&mut self, position: Position) {
        self.adopt(position);
    }

    /// The data are those of a file of a primary: what it wrote before has another name than what
    /// comes, as it may have written more than the file has.
    pub fn restart(&mut self, position: Position, id: ReplicationId) {
        self.adopt(position);
        self.history.shift(id);
        self.encoder.forget_db();
    }
}
