//! Reading one file: commands, and what is wrong with the rest.
//!
//! Nothing is taken on trust. A length makes memory only as far as bytes come; a batch whose checksum
//! is not right is not given out at all, and neither is what comes after it.

use super::encode::{CRC, Position, parse_head, parse_position, parse_time};
use crate::rdb::crc64;
use std::io::{self, Read};
use std::ops::Range;

/// Bytes that are asked for in one read.
const READ: usize = 1 << 20;
/// Bytes of a line at most.
const LINE: usize = 1024;
/// Arguments of a command at most.
const ARGS: u64 = 1 << 31;

/// What stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A command: see [`Parser::args`].
    Command,
    /// What follows was written in this Unix second or later.
    Time(i64),
    /// The data, with all before it, are what a history of replication has here.
    Position(Position),
    /// A line of no meaning for the data.
    Note,
    /// The end of the file.
    End,
}

/// Why there is no item at a place.
#[derive(Debug)]
pub enum ParseFault {
    /// The file ends too early, or in nothing but zeros, where a file system has promised space to
    /// bytes that never came.
    Torn(Wrong),
    /// The bytes are not what a writer has written.
    Corrupt(Wrong),
    Io(io::Error),
}

/// What is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    /// Where in the file.
    pub at: u64,
    /// May be empty: the file ends, and that is all.
    pub words: String,
}

/// Reads a file that may be anything.
pub struct Parser<R> {
    input: R,
    /// What was read and not given out: `buf[at..]`, and where `buf[at]` is in the file.
    buf: Vec<u8>,
    at: usize,
    offset: u64,
    /// Of the whole file.
    length: u64,
    ended: bool,
    checks: bool,
    /// The arguments of the last command, in `buf`.
    spans: Vec<Range<usize>>,
    lines: u64,
    /// Behind the last batch that was written over zeros, and annotations behind it.
    over_zeros: Option<u64>,
}

impl<R: Read> Parser<R> {
    /// Reads `input`, `length` bytes in all; `checks`: batches are compared with their checksums.
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

    /// Goes on at `offset`, up to where the input was read by somebody else.
    pub fn starting_at(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Where the next item begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The arguments of the command that [`Parser::item`] has found last.
    pub fn args(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.spans.iter().map(|span| &self.buf[span.clone()])
    }

    /// The first bytes of the file, up to `n`; nothing is given out by that.
    ///
    /// # Errors
    /// Those of the input.
    pub fn peek(&mut self, n: usize) -> io::Result<&[u8]> {
        self.fill(n)?;
        Ok(&self.buf[self.at..(self.at + n).min(self.buf.len())])
    }

    /// All that was not given out.
    pub fn into_rest(mut self) -> io::Chain<io::Cursor<Vec<u8>>, R> {
        self.buf.drain(..self.at);
        io::Cursor::new(self.buf).chain(self.input)
    }

    /// Where what the last head tells of ends, with annotations behind it, if that was written where zeros are
    /// written ahead.
    pub fn over_zeros(&self) -> Option<u64> {
        self.over_zeros
    }

    /// Lines that were read, of commands that are whole and of one that is not.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The item at [`Parser::offset`], which moves behind it. O(its bytes), and those of the batch that
    /// it begins.
    ///
    /// # Errors
    /// Why there is none. The offset stays then.
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
        // A hole that begins here may end at any line further on.
        if !line.trim_ascii_end().iter().all(|b| matches!(b, b' '..=b'~' | b'\t')) {
            return Err(self.corrupt(self.at, "An annotation that is no text".into()));
        }
        match parse_head(line) {
            Some(head) => {
                let start = self.offset + (end - self.at) as u64;
                // Also if it is not right: it was to end there.
                self.over_zeros = head.safe.map(|_| start.saturating_add(head.length));
                if self.checks {
                    self.check(end, head.sum, head.length)?;
                }
                self.give(end);
            }
            None if self.checks && line.starts_with(CRC) => {
                return Err(self.corrupt(self.at, "A checksum that is none".into()));
            }
            None => self.give_note(end),
        }
        Ok(Item::Note)
    }

    /// The same as [`Parser::give`], of an annotation: it was written with what stands before it.
    fn give_note(&mut self, end: usize) {
        let was_end = self.over_zeros == Some(self.offset);
        self.give(end);
        if was_end {
            self.over_zeros = Some(self.offset);
        }
    }

    /// What is up to `end`, a place in the buffer, is given out.
    fn give(&mut self, end: usize) {
        self.offset += (end - self.at) as u64;
        self.at = end;
    }

    /// What is wrong at a place in the buffer.
    fn wrong(&self, at: usize, words: String) -> Wrong {
        Wrong { at: self.offset + (at - self.at) as u64, words }
    }

    fn corrupt(&self, at: usize, words: String) -> ParseFault {
        ParseFault::Corrupt(self.wrong(at, words))
    }

    /// The file does not have the `length` bytes at `start`.
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
            // The buffer does not move before its front is given out.
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

    /// No line ends at `at`, though what began at `start` should have.
    fn no_line_end(&self, start: usize, at: usize) -> ParseFault {
        let got: String = self.buf[at..].iter().take(2).map(|b| format!("{b:02x}")).collect();
        self.corrupt(start, format!("Expected \\r\\n, got: {got}"))
    }

    /// The number in the line at `at`, which begins with `prefix`, and where the next line begins.
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

    /// The line at `at`, with its end, and where the next one begins.
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

    /// Compares the batch that begins at `start` with what its head says.
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

    /// A zero is where a command should begin: whether nothing else follows.
    fn zeros(&mut self) -> ParseFault {
        let first = self.buf[self.at..].iter().position(|b| *b != 0);
        let mut offset = self.offset + first.unwrap_or(self.buf.len() - self.at) as u64;
        let mut found = first.is_some();
        let mut piece = vec![0; READ];
        // The rest is looked at without being kept: it is not given out.
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

    /// Whether the buffer can be filled up to `end`, a place in it.
    fn reach(&mut self, end: usize) -> Result<bool, ParseFault> {
        self.fill(end - self.at).map_err(ParseFault::Io)
    }

    /// Whether there are `n` more bytes. Moves what was not given out only while nothing of it is
    /// referred to: to the front of the buffer when that is large, between items.
    fn fill(&mut self, n: usize) -> io::Result<bool> {
        if self.spans.is_empty() && n <= 1 && self.at >= READ {
            self.buf.drain(..self.at);
            self.at = 0;
        }
        while self.buf.len() - self.at < n && !self.ended {
            let have = self.buf.len();
            // Not more at once than what has come so far, whatever a length has promised.
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

    /// Gives a few bytes at a time.
    struct Slowly<'a>(&'a [u8]);

    impl Read for Slowly<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = self.0.len().min(13).min(buf.len());
            buf[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    /// The commands of `bytes`, where they end, and what is there.
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
    fn what_was_written_is_read() {
        let bytes = file();
        let (items, end, how) = read(&bytes);
        assert_eq!((end, &*how), (bytes.len() as u64, "end"));
        let unit = ["MULTI", "GET a\r\nb", "GET a\r\nb", "EXEC"];
        let first = ["1", "MULTI", "SELECT 0", "GET a\r\nb", "GET a\r\nb", "EXEC"];
        let wanted = [&first[..], &["2"], &unit, &["3"], &unit].concat();
        assert_eq!(items, wanted);
    }

    #[test]
    fn a_file_that_ends_anywhere_is_torn_there_and_nothing_of_a_batch_is_read() {
        let bytes = file();
        let (all, ..) = read(&bytes);
        for end in 0..bytes.len() {
            let (items, at, how) = read(&bytes[..end]);
            assert!(all.starts_with(&items));
            assert!(how == "torn" || how == "end" && at == end as u64, "{end}: {how}");
            assert_ne!(items.last().map(String::as_str), Some("MULTI"));
            // Space that was promised to what never came.
            let mut padded = bytes[..at as usize].to_vec();
            padded.resize(at as usize + 5000, 0);
            assert_eq!(read(&padded), (items, at, "torn".into()));
        }
    }

    #[test]
    fn a_hole_anywhere_is_found() {
        let bytes = file();
        let (all, ..) = read(&bytes);
        for at in 0..bytes.len() {
            let mut holed = bytes.clone();
            holed[at] = 0;
            let (items, ..) = read(&holed);
            // Time stamps may be lost: they are no data, and no part of a batch.
            let only = |items: &[String]| {
                items.iter().filter(|i| i.parse::<i64>().is_err()).cloned().collect::<Vec<_>>()
            };
            assert!(only(&all).starts_with(&only(&items)), "{at}: {items:?}");
        }
    }

    #[test]
    fn what_is_no_file() {
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
    fn batches_are_not_compared_if_that_is_not_wanted() {
        let mut bytes = file();
        let at = bytes.windows(5).position(|w| w == b"#CRC:").unwrap() + 5;
        bytes[at] ^= 1;
        let length = bytes.len() as u64;
        assert_eq!(read(&bytes).0, ["1"]);
        let (items, _, how) = read_from(Parser::new(&bytes[..], length, false));
        assert_eq!((items.len(), &*how), (16, "end"));
    }
}
