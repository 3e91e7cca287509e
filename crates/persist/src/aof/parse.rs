//! Parses one file: its commands, and the damage at its end.
//!
//! The parser trusts no input. It allocates memory only as bytes arrive, whatever a length claims.
//! It returns nothing of a batch with a wrong checksum, and nothing after it.

use super::encode::{CRC, Position, parse_head, parse_position, parse_time};
use crate::rdb::crc64;
use std::io::{self, Read};
use std::ops::Range;

/// Bytes requested in one read.
const READ: usize = 1 << 20;
/// Maximum length of a line in bytes.
const LINE: usize = 1024;
/// Maximum number of arguments of a command.
const ARGS: u64 = 1 << 31;

/// An item of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A command: see [`Parser::args`].
    Command,
    /// The following items were written in this Unix second or later.
    Time(i64),
    /// All data up to here equal a replication history at this position.
    Position(Position),
    /// A line without meaning for the data.
    Note,
    /// The end of the file.
    End,
}

/// Why there is no item at an offset.
#[derive(Debug)]
pub enum ParseFault {
    /// The file ends too early, or in nothing but zeros: a file system may have reserved space for
    /// bytes that never came.
    Torn(Wrong),
    /// The bytes are not what a writer has written.
    Corrupt(Wrong),
    Io(io::Error),
}

/// A description of the damage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    /// Offset in the file.
    pub at: u64,
    /// Empty if the file merely ends.
    pub words: String,
}

/// Parses a file with arbitrary content.
pub struct Parser<R> {
    input: R,
    /// Bytes read and not returned yet: `buf[at..]`. `offset` is the position of `buf[at]` in the
    /// file.
    buf: Vec<u8>,
    at: usize,
    offset: u64,
    /// Length of the whole file.
    length: u64,
    ended: bool,
    checks: bool,
    /// The arguments of the last command, in `buf`.
    spans: Vec<Range<usize>>,
    lines: u64,
    /// End of the last batch that was written over zeros, with the annotations after it.
    over_zeros: Option<u64>,
}

impl<R: Read> Parser<R> {
    /// Reads `input`, `length` bytes in all. `checks`: compare batches with their checksums.
    pub fn new(input: R, length: u64, checks: bool) -> Self {
        Parser {
            input,
            buf: Vec::new(),
            at: 0,
            offset: 0,
            length,
            ended: false,
            checks,
            spans: Vec::new(),
            lines: 0,
            over_zeros: None,
        }
    }

    /// Starts at `offset`, because the caller has consumed the input before it.
    pub fn starting_at(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Offset of the next item.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The arguments of the last command that [`Parser::item`] returned.
    pub fn args(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.spans.iter().map(|span| &self.buf[span.clone()])
    }

    /// Returns the first bytes of the file, up to `n`, without consuming them.
    ///
    /// # Errors
    /// Read errors.
    pub fn peek(&mut self, n: usize) -> io::Result<&[u8]> {
        self.fill(n)?;
        Ok(&self.buf[self.at..(self.at + n).min(self.buf.len())])
    }

    /// All bytes that were not consumed.
    pub fn into_rest(mut self) -> io::Chain<io::Cursor<Vec<u8>>, R> {
        self.buf.drain(..self.at);
        io::Cursor::new(self.buf).chain(self.input)
    }

    /// End of the batch of the last head, with the annotations after it, if that batch was written
    /// over zeros.
    pub fn over_zeros(&self) -> Option<u64> {
        self.over_zeros
    }

    /// Lines read so far, including those of an incomplete command.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the item at [`Parser::offset`] and advances the offset past it. O(bytes of the item
    /// and of a batch that it begins).
    ///
    /// # Errors
    /// Why there is none. The offset doesn't change then.
    pub fn item(&mut self) -> Result<Item, ParseFault> {
        self.spans.clear();
        if !self.fill(1).map_err(ParseFault::Io)? {
            return Ok(Item::End);
        }
        match self.buf[self.at] {
            b'*' => self.command(),
            b'#' => self.annotation(),
            0 => Err(self.zeros()),
            other => {
                let other = other.escape_ascii();
                Err(self.corrupt(self.at, format!("Expected prefix '*', got: '{other}'")))
            }
        }
    }

    fn annotation(&mut self) -> Result<Item, ParseFault> {
        let (line, end) = self.line(self.at)?;
        let line = &self.buf[line];
        if let Some(second) = parse_time(line) {
            self.give_note(end);
            return Ok(Item::Time(second));
        }
        if let Some(position) = parse_position(line) {
            self.give_note(end);
            return Ok(Item::Position(position));
        }
        // A hole that begins in this line may end in any later line.
        if !line.trim_ascii_end().iter().all(|b| matches!(b, b' '..=b'~' | b'\t')) {
            return Err(self.corrupt(self.at, "An annotation that is not text".into()));
        }
        match parse_head(line) {
            Some(head) => {
                let start = self.offset + (end - self.at) as u64;
                // Set even if the checksum is wrong: the batch was meant to end there.
                self.over_zeros = head.safe.map(|_| start.saturating_add(head.length));
                if self.checks {
                    self.check(end, head.sum, head.length)?;
                }
                self.give(end);
            }
            None if self.checks && line.starts_with(CRC) => {
                return Err(self.corrupt(self.at, "An invalid checksum line".into()));
            }
            None => self.give_note(end),
        }
        Ok(Item::Note)
    }

    /// Like [`Parser::give`], for an annotation, which was written together with the bytes before
    /// it.
    fn give_note(&mut self, end: usize) {
        let was_end = self.over_zeros == Some(self.offset);
        self.give(end);
        if was_end {
            self.over_zeros = Some(self.offset);
        }
    }

    /// Consumes the bytes up to `end`, an index into the buffer.
    fn give(&mut self, end: usize) {
        self.offset += (end - self.at) as u64;
        self.at = end;
    }

    /// Describes damage at `at`, an index into the buffer.
    fn wrong(&self, at: usize, words: String) -> Wrong {
        Wrong { at: self.offset + (at - self.at) as u64, words }
    }

    fn corrupt(&self, at: usize, words: String) -> ParseFault {
        ParseFault::Corrupt(self.wrong(at, words))
    }

    /// The file doesn't have the `length` bytes at `start`.
    fn short(&self, start: usize, length: u64) -> ParseFault {
        let got = self.buf.len() - start.min(self.buf.len());
        let words = format!("Expected to read {length} bytes, got {got} bytes");
        ParseFault::Torn(self.wrong(start, words))
    }

    fn command(&mut self) -> Result<Item, ParseFault> {
        let (count, mut at) = self.number(self.at, b'*')?;
        if count == 0 || count > ARGS {
            return Err(self.corrupt(self.at, format!("A command of {count} arguments")));
        }
        for _ in 0..count {
            let (length, start) = self.number(at, b'$')?;
            let possible = length <= self.length && self.reach(start + length as usize + 2)?;
            if !possible {
                return Err(self.short(start, length.saturating_add(2)));
            }
            // The buffer doesn't move before its start is consumed.
            let end = start + length as usize;
            if &self.buf[end..end + 2] != b"\r\n" {
                return Err(self.no_line_end(start, end));
            }
            self.lines += 1;
            self.spans.push(start..end);
            at = end + 2;
        }
        self.give(at);
        Ok(Item::Command)
    }

    /// No line ends at `at`, but the one that began at `start` should.
    fn no_line_end(&self, start: usize, at: usize) -> ParseFault {
        let got: String = self.buf[at..].iter().take(2).map(|b| format!("{b:02x}")).collect();
        self.corrupt(start, format!("Expected \\r\\n, got: {got}"))
    }

    /// Parses the number in the line at `at`, which begins with `prefix`. Returns it and the start
    /// of the next line.
    fn number(&mut self, at: usize, prefix: u8) -> Result<(u64, usize), ParseFault> {
        let (line, end) = self.line(at)?;
        let line = &self.buf[line];
        if line[0] != prefix {
            let (wanted, got) = (prefix as char, line[0].escape_ascii());
            return Err(self.corrupt(at, format!("Expected prefix '{wanted}', got: '{got}'")));
        }
        let digits = line[1..].iter().take_while(|b| b.is_ascii_digit()).count();
        if &line[1 + digits..] != b"\r\n" {
            return Err(self.no_line_end(at, at + 1 + digits));
        }
        let number = weft_base::num::parse_u64(&line[1..1 + digits]);
        self.lines += 1;
        let number = number.ok_or_else(|| self.corrupt(at, "Expected a number".into()))?;
        Ok((number, end))
    }

    /// Finds the line at `at`, with its end. Returns it and the start of the next line.
    fn line(&mut self, at: usize) -> Result<(Range<usize>, usize), ParseFault> {
        let mut seen = at;
        loop {
            let found = self.buf[seen..].iter().position(|b| *b == b'\n');
            let end = found.map_or(self.buf.len(), |n| seen + n + 1);
            if end - at > LINE {
                return Err(self.corrupt(at, "A line that is too long".into()));
            }
            if found.is_some() {
                return Ok((at..end, end));
            }
            seen = self.buf.len();
            if !self.reach(seen + 1)? {
                return Err(ParseFault::Torn(self.wrong(at, String::new())));
            }
        }
    }

    /// Compares the batch at `start` with the checksum and length of its head.
    fn check(&mut self, start: usize, sum: u64, length: u64) -> Result<(), ParseFault> {
        let before = (start - self.at) as u64;
        let possible = length <= self.length.saturating_sub(self.offset + before)
            && self.reach(start + length as usize)?;
        if !possible {
            return Err(self.short(start, length));
        }
        match crc64(&self.buf[start..start + length as usize]) == sum {
            true => Ok(()),
            false => Err(self.corrupt(start, format!("The checksum of {length} bytes is wrong"))),
        }
    }

    /// A command should begin here, but there is a zero: checks whether only zeros follow.
    fn zeros(&mut self) -> ParseFault {
        let first = self.buf[self.at..].iter().position(|b| *b != 0);
        let mut offset = self.offset + first.unwrap_or(self.buf.len() - self.at) as u64;
        let mut found = first.is_some();
        let mut piece = vec![0; READ];
        // The rest is read without keeping it, because it is never returned.
        while !found {
            match self.input.read(&mut piece) {
                Ok(0) => {
                    let words = "Zeros up to the end of the file".into();
                    return ParseFault::Torn(self.wrong(self.at, words));
                }
                Ok(n) => {
                    let other = piece[..n].iter().position(|b| *b != 0);
                    offset += other.unwrap_or(n) as u64;
                    found = other.is_some();
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return ParseFault::Io(e),
            }
        }
        self.corrupt(self.at, format!("Zeros, and other bytes from {offset:#x} on"))
    }

    /// Whether the buffer can be filled up to `end`, an index into it.
    fn reach(&mut self, end: usize) -> Result<bool, ParseFault> {
        self.fill(end - self.at).map_err(ParseFault::Io)
    }

    /// Whether there are `n` more bytes. Unconsumed bytes move to the start of a large buffer only
    /// between items, while no span refers to them.
    fn fill(&mut self, n: usize) -> io::Result<bool> {
        if self.spans.is_empty() && n <= 1 && self.at >= READ {
            self.buf.drain(..self.at);
            self.at = 0;
        }
        while self.buf.len() - self.at < n && !self.ended {
            let have = self.buf.len();
            // Requests at most as many bytes as have arrived so far, whatever a length claims.
            let missing = n - (have - self.at);
            let ask = missing.clamp(READ, (have - self.at).max(READ));
            self.buf.resize(have + ask, 0);
            let read = loop {
                match self.input.read(&mut self.buf[have..]) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    read => break read,
                }
            };
            self.buf.truncate(have + *read.as_ref().unwrap_or(&0));
            self.ended = read? == 0;
        }
        Ok(self.buf.len() - self.at >= n)
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode::{Annotations, Encoder};
    use super::*;

    /// Returns 13 bytes per read.
    struct Slowly<'a>(&'a [u8]);

    impl Read for Slowly<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = self.0.len().min(13).min(buf.len());
            buf[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    /// The commands of `bytes`, the final offset, and the reason to stop there.
    fn read(bytes: &[u8]) -> (Vec<String>, u64, String) {
        let fast = read_from(Parser::new(bytes, bytes.len() as u64, true));
        assert_eq!(fast, read_from(Parser::new(Slowly(bytes), bytes.len() as u64, true)));
        fast
    }

    fn read_from<R: Read>(mut parser: Parser<R>) -> (Vec<String>, u64, String) {
        let mut items = Vec::new();
        loop {
            match parser.item() {
                Ok(Item::Command) => {
                    let args: Vec<_> = parser.args().map(String::from_utf8_lossy).collect();
                    items.push(args.join(" "));
                }
                Ok(Item::Time(second)) => items.push(second.to_string()),
                Ok(Item::Note | Item::Position(_)) => {}
                Ok(Item::End) => return (items, parser.offset(), "end".into()),
                Err(ParseFault::Torn(_)) => return (items, parser.offset(), "torn".into()),
                Err(ParseFault::Corrupt(why)) => return (items, parser.offset(), why.words),
                Err(ParseFault::Io(e)) => panic!("{e}"),
            }
        }
    }

    fn file() -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(Annotations { timestamps: true, checksums: true });
        for second in 1..4 {
            let get = (0, &b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n"[..]);
            encoder.unit(second * 1000, &[get, get], &mut out);
        }
        encoder.seal(&mut out);
        out
    }

    #[test]
    fn encoded_units_are_parsed() {
        let bytes = file();
        let (items, end, how) = read(&bytes);
        assert_eq!((end, &*how), (bytes.len() as u64, "end"));
        let unit = ["MULTI", "GET a\r\nb", "GET a\r\nb", "EXEC"];
        let first = ["1", "MULTI", "SELECT 0", "GET a\r\nb", "GET a\r\nb", "EXEC"];
        let wanted = [&first[..], &["2"], &unit, &["3"], &unit].concat();
        assert_eq!(items, wanted);
    }

    #[test]
    fn truncation_anywhere_is_torn_and_drops_the_whole_batch() {
        let bytes = file();
        let (all, ..) = read(&bytes);
        for end in 0..bytes.len() {
            let (items, at, how) = read(&bytes[..end]);
            assert!(all.starts_with(&items));
            assert!(how == "torn" || how == "end" && at == end as u64, "{end}: {how}");
            assert_ne!(items.last().map(String::as_str), Some("MULTI"));
            // Space that was reserved for bytes that never came.
            let mut padded = bytes[..at as usize].to_vec();
            padded.resize(at as usize + 5000, 0);
            assert_eq!(read(&padded), (items, at, "torn".into()));
        }
    }

    #[test]
    fn hole_anywhere_is_found() {
        let bytes = file();
        let (all, ..) = read(&bytes);
        for at in 0..bytes.len() {
            let mut holed = bytes.clone();
            holed[at] = 0;
            let (items, ..) = read(&holed);
            // A hole may destroy a time stamp, which is neither data nor part of a batch.
            let only = |items: &[String]| {
                items.iter().filter(|i| i.parse::<i64>().is_err()).cloned().collect::<Vec<_>>()
            };
            assert!(only(&all).starts_with(&only(&items)), "{at}: {items:?}");
        }
    }

    #[test]
    fn invalid_files_are_refused() {
        for (bytes, how) in [
            (&b"PING\r\n"[..], "Expected prefix '*', got: 'P'"),
            (b"*x\r\n", "Expected \\r\\n, got: 780d"),
            (b"*\r\n", "Expected a number"),
            (b"*0\r\n", "A command of 0 arguments"),
            (b"*-1\r\n", "Expected \\r\\n, got: 2d31"),
            (b"*1\r\n*4\r\n", "Expected prefix '$', got: '*'"),
            (b"*1\r\n$1\r\nabc", "Expected \\r\\n, got: 6263"),
            (b"*1\r\n$9999999999\r\nabc", "torn"),
            (b"*1\r\n$4\r\nPING\r\n\0\0*", "Zeros, and other bytes from 0x10 on"),
        ] {
            assert_eq!(read(bytes).2, how);
        }
        assert_eq!(read(&[b'*'; 3000]).2, "A line that is too long");
    }

    #[test]
    fn checksums_are_ignored_when_disabled() {
        let mut bytes = file();
        let at = bytes.windows(5).position(|w| w == b"#CRC:").unwrap() + 5;
        bytes[at] ^= 1;
        let length = bytes.len() as u64;
        assert_eq!(read(&bytes).0, ["1"]);
        let (items, _, how) = read_from(Parser::new(&bytes[..], length, false));
        assert_eq!((items.len(), &*how), (16, "end"));
    }
}
