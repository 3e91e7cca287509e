//! Splits the stream into units, which a replica applies one by one, each atomically.
//!
//! Bytes arrive in pieces of any size. The splitter returns the replica's next unit: a command, or
//! all commands between MULTI and EXEC, each with its database, and the unit's length in the
//! stream. A replica may acknowledge a byte only after it applied the unit with that byte. So the
//! offset advances by whole units. If a link ends inside a unit, the replica requests the unit
//! again.
//!
//! The caller can take several units at once, so that it can look ahead.
//!
//! SELECT changes the state of the stream. That state is part of a replica's position, as the
//! offset is, because the following bytes depend on it.

use std::ops::Range;
use weft_base::num::parse_i64;
use weft_resp::{Limits, Parser, Span, Step};

use crate::cluster::PromiseQuestion;
use crate::planted::{self, Fault as Planted};

/// Maximum size of an incomplete unit, including later bytes of the same push.
const MOST: usize = u32::MAX as usize;

/// Capacity in bytes that an empty buffer keeps.
const ROOM: usize = 1 << 20;

/// Why a stream can't be followed any longer. The replica then starts a full sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The next bytes are not a request.
    Protocol(weft_resp::ProtocolError),
    /// EXEC without MULTI, or MULTI in a transaction.
    Transaction,
    /// SELECT of an invalid database.
    Database,
    /// A unit of 4 GiB or more.
    TooLong,
}

impl std::fmt::Display for StreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StreamError::Protocol(error) => error.fmt(f),
            StreamError::Transaction => f.write_str("MULTI and EXEC do not match"),
            StreamError::Database => f.write_str("SELECT of an invalid database"),
            StreamError::TooLong => f.write_str("a transaction of 4 GiB or more"),
        }
    }
}

/// The type of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Commands to apply atomically.
    Write,
    /// Bytes that only advance the offset: PING, SELECT, an empty transaction.
    Nothing,
    /// The primary requests the offset, once everything before is applied.
    GetAck,
    /// The primary requests a promise: [`PromiseQuestion`](crate::cluster::PromiseQuestion).
    AskPromise,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    db: u32,
    /// Index of its first argument in the spans.
    first: u32,
    count: u32,
    /// Its spans point into `unquoted`.
    inline: bool,
}

/// A complete unit.
#[derive(Clone, Copy, Debug)]
struct Found {
    kind: Kind,
    /// Index of its first entry, and the end of its entries.
    entries: (u32, u32),
    /// Start and end of its bytes.
    place: (usize, usize),
    /// The selected database after it.
    db: u32,
}

/// Splits the stream into units.
#[derive(Debug)]
pub struct Splitter {
    buf: Vec<u8>,
    parser: Parser,
    /// Start in `buf` of the first unit that was not released.
    start: usize,
    spans: Vec<Span>,
    entries: Vec<Entry>,
    /// Arguments of inline commands.
    unquoted: Vec<u8>,
    in_transaction: bool,
    /// Units taken; the next call releases them.
    found: Vec<Found>,
    /// The error after the taken units, for the next call.
    broken: Option<StreamError>,
    /// The selected database inside the unit; and the one at the end of the last unit.
    db_inside: u32,
    db: u32,
}

impl Splitter {
    /// Returns a splitter for a stream in which this database is selected.
    #[must_use]
    pub fn new(db: u32) -> Splitter {
        Splitter {
            buf: Vec::new(),
            parser: Parser::default(),
            start: 0,
            spans: Vec::new(),
            entries: Vec::new(),
            unquoted: Vec::new(),
            in_transaction: false,
            found: Vec::new(),
            broken: None,
            db_inside: db,
            db,
        }
    }

    /// The selected database after the unit taken last.
    #[must_use]
    pub fn db(&self) -> u32 {
        self.db
    }

    /// Bytes held and not returned yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.buf.len() - self.found.last().map_or(self.start, |last| last.place.1)
    }

    /// Takes the next bytes. Amortized O(bytes).
    pub fn push(&mut self, bytes: &[u8]) {
        self.forget();
        // Released bytes are removed only when they are the greater part, so moves are rare.
        let full = self.buf.len() + bytes.len() > MOST;
        if self.start > self.buf.len() / 2 || (full && self.start > 0) {
            self.buf.drain(..self.start);
            self.parser.pos -= self.start;
            let shift = self.start as u32;
            for entry in self.entries.iter().filter(|entry| !entry.inline) {
                for span in &mut self.spans[entry.first as usize..][..entry.count as usize] {
                    span.start -= shift;
                }
            }
            let named = self.entries.last().map_or(0, |last| last.first + last.count);
            for span in &mut self.spans[named as usize..] {
                span.start -= shift;
            }
            self.start = 0;
        }
        if self.buf.is_empty() {
            self.buf.shrink_to(ROOM);
        }
        self.buf.extend_from_slice(bytes);
    }

    /// Returns the next complete unit.
    ///
    /// # Errors
    /// The bytes are not a valid stream. No more units are returned then.
    pub fn next_unit(&mut self) -> Result<Option<Unit<'_>>, StreamError> {
        let found = self.take(1)?;
        Ok((found > 0).then(|| self.unit(0)))
    }

    /// Takes at most `most` complete units and releases those taken before. Returns how many.
    /// O(bytes of the units).
    ///
    /// # Errors
    /// The next bytes are not a valid stream. No more units are returned then.
    pub fn take(&mut self, most: usize) -> Result<usize, StreamError> {
        self.forget();
        while self.found.len() < most {
            match self.find() {
                Ok(true) => {}
                Ok(false) => break,
                Err(broken) => {
                    self.broken = Some(broken);
                    break;
                }
            }
        }
        match &self.broken {
            Some(broken) if self.found.is_empty() => Err(broken.clone()),
            Some(_) | None => Ok(self.found.len()),
        }
    }

    /// One of the units that the last call took.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn unit(&self, n: usize) -> Unit<'_> {
        Unit { found: self.found[n], splitter: self }
    }

    /// Searches for the end of another unit. Returns whether it was found.
    fn find(&mut self) -> Result<bool, StreamError> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let begin = self.found.last().map_or(self.start, |last| last.place.1);
        let first_entry = self.found.last().map_or(0, |last| last.entries.1);
        // The stream may have values of any length that the primary accepted.
        let limits = Limits { max_bulk: i64::MAX as usize, ..Limits::default() };
        loop {
            let buf = self.buf.get(..MOST).unwrap_or(&self.buf);
            let first = self.named();
            let inline = match self.parser.next(buf, &mut self.spans, &limits) {
                Step::Complete => false,
                Step::Inline(args) => {
                    self.unquote(&args);
                    true
                }
                Step::More | Step::Big { .. } if self.buf.len() >= MOST && begin == 0 => {
                    return Err(StreamError::TooLong);
                }
                Step::More | Step::Big { .. } => return Ok(false),
                Step::Error(error) => return Err(StreamError::Protocol(error)),
            };
            let count = self.spans.len() as u32 - first;
            let kind = self.command(Entry { db: self.db_inside, first, count, inline })?;
            // Drops the arguments of words that are not commands of a unit, because nothing reads
            // them.
            self.spans.truncate(self.named() as usize);
            if let Some(kind) = kind {
                self.db = self.db_inside;
                let entries = (first_entry, self.entries.len() as u32);
                let place = (begin, self.parser.pos);
                self.found.push(Found { kind, entries, place, db: self.db });
                return Ok(true);
            }
        }
    }

    /// Number of spans that belong to commands of units.
    fn named(&self) -> u32 {
        self.entries.last().map_or(0, |last| last.first + last.count)
    }

    /// Bytes of units taken since the last [`Splitter::push`], by their range.
    #[must_use]
    pub fn bytes(&self, place: Range<usize>) -> &[u8] {
        &self.buf[place]
    }

    /// Releases the taken units.
    fn forget(&mut self) {
        let Some(last) = self.found.last() else { return };
        self.start = last.place.1;
        let entries = last.entries.1 as usize;
        self.found.clear();
        if entries == self.entries.len() {
            let named = self.named() as usize;
            self.spans.drain(..named);
            self.entries.clear();
            self.unquoted.clear();
            return;
        }
        // A transaction has begun after them.
        let spans = self.entries[entries].first;
        self.spans.drain(..spans as usize);
        self.entries.drain(..entries);
        self.entries.iter_mut().for_each(|entry| entry.first -= spans);
    }

    fn unquote(&mut self, args: &[Vec<u8>]) {
        for arg in args {
            let span = Span { start: self.unquoted.len() as u32, len: arg.len() as u32 };
            self.spans.push(span);
            self.unquoted.extend(arg);
        }
    }

    fn arg(&self, entry: Entry, index: usize) -> &[u8] {
        let span = self.spans[entry.first as usize + index];
        span.of(if entry.inline { &self.unquoted } else { &self.buf })
    }

    /// Takes a command. Returns the type of the unit that it ends, if any.
    fn command(&mut self, entry: Entry) -> Result<Option<Kind>, StreamError> {
        let is = |index: usize, word: &str| {
            entry.count as usize > index
                && self.arg(entry, index).eq_ignore_ascii_case(word.as_bytes())
        };
        let torn = planted::is(Planted::TornTransactions);
        let kind = if entry.count == 0 {
            Some(Kind::Nothing)
        } else if is(0, "SELECT") {
            let db = (entry.count == 2).then(|| parse_i64(self.arg(entry, 1))).flatten();
            self.db_inside =
                db.and_then(|db| u32::try_from(db).ok()).ok_or(StreamError::Database)?;
            Some(Kind::Nothing)
        } else if is(0, "MULTI") {
            if std::mem::replace(&mut self.in_transaction, !torn) {
                return Err(StreamError::Transaction);
            }
            Some(Kind::Nothing)
        } else if is(0, "EXEC") {
            if !std::mem::take(&mut self.in_transaction) && !torn {
                return Err(StreamError::Transaction);
            }
            let before = self.found.last().map_or(0, |last| last.entries.1);
            let empty = self.entries.len() == before as usize;
            Some(if empty { Kind::Nothing } else { Kind::Write })
        } else if !self.in_transaction && is(0, "PING") {
            Some(Kind::Nothing)
        } else if !self.in_transaction && is(0, "REPLCONF") {
            Some(match () {
                () if is(1, "GETACK") => Kind::GetAck,
                () if is(1, PromiseQuestion::OPTION) => Kind::AskPromise,
                () => Kind::Nothing,
            })
        } else {
            self.entries.push(entry);
            (!self.in_transaction).then_some(Kind::Write)
        };
        Ok(kind.filter(|_| !self.in_transaction))
    }
}

/// A unit, to be applied atomically.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    found: Found,
    splitter: &'a Splitter,
}

impl<'a> Unit<'a> {
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.found.kind
    }

    /// Its bytes of the stream, which this server forwards to its own replicas.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        &self.splitter.buf[self.place()]
    }

    /// The range of its bytes in the pushed data: the next unit begins at its end.
    #[must_use]
    pub fn place(&self) -> Range<usize> {
        self.found.place.0..self.found.place.1
    }

    /// Number of its commands.
    #[must_use]
    pub fn len(&self) -> usize {
        (self.found.entries.1 - self.found.entries.0) as usize
    }

    /// Whether it has no commands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The selected database after it.
    #[must_use]
    pub fn db(&self) -> u32 {
        self.found.db
    }

    /// Database and argument count of one of its commands.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn command(&self, n: usize) -> (u32, usize) {
        let entry = self.splitter.entries[self.found.entries.0 as usize..][n];
        (entry.db, entry.count as usize)
    }

    /// One argument of that command.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn arg(&self, n: usize, at: usize) -> &'a [u8] {
        let splitter = self.splitter;
        splitter.arg(splitter.entries[self.found.entries.0 as usize..][n], at)
    }

    /// Its commands: database and arguments.
    pub fn commands(
        &self,
    ) -> impl Iterator<Item = (u32, impl ExactSizeIterator<Item = &'a [u8]> + use<'a>)> + use<'a>
    {
        let splitter = self.splitter;
        let entries = self.found.entries.0 as usize..self.found.entries.1 as usize;
        splitter.entries[entries].iter().map(move |&entry| {
            (entry.db, (0..entry.count as usize).map(move |index| splitter.arg(entry, index)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{GET_ACK, PING};
    use weft_resp::{FirstSelect, UnitEncoder, append_request};

    /// The result: kind, length, and the commands with their databases.
    type Seen = (Kind, usize, Vec<(u32, Vec<Vec<u8>>)>);

    fn feed(stream: &[u8], piece: usize) -> (Vec<Seen>, Option<StreamError>, u32) {
        feed_by(stream, piece, 1)
    }

    /// Takes at most `most` units at once.
    fn feed_by(stream: &[u8], piece: usize, most: usize) -> (Vec<Seen>, Option<StreamError>, u32) {
        let (mut splitter, mut seen) = (Splitter::new(0), Vec::new());
        for bytes in stream.chunks(piece) {
            splitter.push(bytes);
            loop {
                match splitter.take(most) {
                    Ok(0) => break,
                    Ok(found) => {
                        for unit in (0..found).map(|n| splitter.unit(n)) {
                            let commands = unit
                                .commands()
                                .map(|(db, args)| (db, args.map(<[u8]>::to_vec).collect()));
                            seen.push((unit.kind(), unit.bytes().len(), commands.collect()));
                        }
                    }
                    Err(broken) => return (seen, Some(broken), splitter.db()),
                }
            }
        }
        (seen, None, splitter.db())
    }

    fn stream() -> Vec<u8> {
        let mut out = Vec::new();
        let mut set = Vec::new();
        append_request(&[b"SET", b"key", &[b'x'; 40_000]], &mut set);
        let mut encoder = UnitEncoder::new(FirstSelect::BeforeMulti);
        encoder.unit(&[(0, &b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n"[..])], &mut out);
        out.extend(PING);
        encoder
            .unit(&[(3, &b"*2\r\n$3\r\nDEL\r\n$1\r\na\r\n"[..]), (5, &set), (3, PING)], &mut out);
        out.extend(GET_ACK);
        out.extend(b"\r\nset  \"a b\" c\r\n");
        out.extend(b"*1\r\n$5\r\nmulti\r\n*2\r\n$6\r\nselect\r\n$1\r\n7\r\n*1\r\n$4\r\nexec\r\n");
        encoder.unit(&[(3, &set[..])], &mut out);
        out
    }

    #[test]
    fn units_are_complete_for_any_split_of_the_bytes() {
        let stream = stream();
        let (whole, broken, db) = feed(&stream, stream.len());
        assert_eq!((broken, db), (None, 7));
        let kinds: Vec<(Kind, Vec<u32>)> = whole
            .iter()
            .map(|(kind, _, commands)| (*kind, commands.iter().map(|(db, _)| *db).collect()))
            .collect();
        let write = |dbs: &[u32]| (Kind::Write, dbs.to_vec());
        let nothing = || (Kind::Nothing, vec![]);
        assert_eq!(
            kinds,
            [
                nothing(),
                write(&[0]),
                nothing(),
                nothing(),
                write(&[3, 5, 3]),
                (Kind::GetAck, vec![]),
                nothing(),
                write(&[3]),
                nothing(),
                write(&[7]),
            ]
        );
        assert_eq!(whole[7].2[0].1, [b"set".to_vec(), b"a b".to_vec(), b"c".to_vec()]);
        assert_eq!(whole[4].2[1].1[2].len(), 40_000);
        assert_eq!(whole.iter().map(|(_, bytes, _)| bytes).sum::<usize>(), stream.len());
        for piece in (1..200).chain([1000, 30_000, 40_000, 50_000]) {
            for most in [1, 2, 3, 100] {
                assert_eq!(feed_by(&stream, piece, most).0, whole, "{piece} {most}");
            }
        }
    }

    #[test]
    fn invalid_streams_are_refused() {
        let cases: [(&[u8], StreamError); 6] = [
            (b"*1\r\n$4\r\nEXEC\r\n", StreamError::Transaction),
            (b"*1\r\n$5\r\nMULTI\r\n*1\r\n$5\r\nMULTI\r\n", StreamError::Transaction),
            (b"*2\r\n$6\r\nSELECT\r\n$1\r\nx\r\n", StreamError::Database),
            (b"*2\r\n$6\r\nSELECT\r\n$2\r\n-1\r\n", StreamError::Database),
            (b"*1\r\n$6\r\nSELECT\r\n", StreamError::Database),
            (
                b"*1\r\n:1\r\n",
                StreamError::Protocol(weft_resp::ProtocolError::ExpectedDollar(b':')),
            ),
        ];
        for (stream, broken) in cases {
            let whole = [b"*1\r\n$4\r\nPING\r\n", stream].concat();
            assert_eq!(feed(stream, 3).1.as_ref(), Some(&broken));
            let (seen, found, _) = feed_by(&whole, whole.len(), 10);
            assert_eq!((seen.len(), found), (1, Some(broken)), "earlier units are taken");
        }
    }

    #[test]
    fn select_in_an_unfinished_transaction_has_no_effect() {
        let mut splitter = Splitter::new(4);
        splitter.push(b"*1\r\n$5\r\nMULTI\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n7\r\n");
        assert!(splitter.next_unit().expect("a stream").is_none());
        assert_eq!((splitter.db(), splitter.pending()), (4, 38));
    }
}
