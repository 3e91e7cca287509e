//! The incremental request parser.
//!
//! A request is either an array of bulk strings (`*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`) or an inline
//! line of text. [`Parser::next`] looks at a buffer from a given position and either completes
//! one request, whose arguments are [`Span`]s of that buffer, or remembers how far it came, so
//! that nothing is scanned twice however the bytes trickle in: a request of a million arguments
//! in a million packets costs linear time.
//!
//! A bulk string of [`BIG_BULK`] bytes or more that has not arrived completely stops the parser
//! with [`Step::Big`]: the caller takes the arrived part, reads the rest of the value from the
//! socket straight into the memory where it will stay, and resumes with [`Parser::big_done`]. A
//! client that sends one such value often sends another: [`Parser::is_after_large`] advises the
//! caller to read little at first, so that little of the next value is copied.
//!
//! Like Valkey, the byte after the `\r` of a header line is skipped unchecked; the two bytes after
//! a bulk string must be a line break.

use std::fmt;
use weft_base::words;

/// A bulk string of at least this many bytes goes straight to its own allocation when it is
/// not complete in the buffer (bytes).
pub const BIG_BULK: usize = 32 * 1024;
/// Longest inline request, and longest `*`/`$` header line (bytes).
pub const MAX_INLINE: usize = 64 * 1024;

/// Most arguments of a request before authentication.
const STRANGERS_ARGS: usize = 10;

/// Where an argument lies in the buffer that was parsed: offset and length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    pub start: u32,
    pub len: u32,
}

impl Span {
    /// The bytes of this span.
    #[inline]
    pub fn of(self, buf: &[u8]) -> &[u8] {
        &buf[self.start as usize..self.start as usize + self.len as usize]
    }
}

/// The limits of a peer's requests.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest bulk string in bytes (`proto-max-bulk-len`).
    pub max_bulk: usize,
    /// Most arguments in one request.
    pub max_args: usize,
    /// Before authentication, requests are kept small: 10 arguments of 16 KiB.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_bulk: 512 << 20, max_args: i32::MAX as usize, authenticated: true }
    }
}

/// Why a request can't be understood. The connection is closed after the error was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    InvalidMultibulkLength,
    UnauthenticatedMultibulkLength,
    TooBigMbulkCount,
    TooBigBulkCount,
    ExpectedDollar(u8),
    InvalidBulkLength,
    UnauthenticatedBulkLength,
    TooBigInline,
    NulInInline,
    UnbalancedQuotes,
    InvalidCrlf,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            Self::InvalidMultibulkLength => f.write_str("invalid multibulk length"),
            Self::UnauthenticatedMultibulkLength => f.write_str("unauthenticated multibulk length"),
            Self::TooBigMbulkCount => f.write_str("too big mbulk count string"),
            Self::TooBigBulkCount => f.write_str("too big bulk count string"),
            Self::ExpectedDollar(b) => write!(f, "expected '$', got '{}'", printable(*b)),
            Self::InvalidBulkLength => f.write_str("invalid bulk length"),
            Self::UnauthenticatedBulkLength => f.write_str("unauthenticated bulk length"),
            Self::TooBigInline => f.write_str("too big inline request"),
            Self::NulInInline => f.write_str("NUL byte in inline request"),
            Self::UnbalancedQuotes => f.write_str("unbalanced quotes in request"),
            Self::InvalidCrlf => f.write_str("invalid CRLF in request"),
        }
    }
}

/// An error reply can't contain line breaks: they become spaces.
fn printable(b: u8) -> char {
    if matches!(b, b'\r' | b'\n') { ' ' } else { b as char }
}

/// The result of one call of [`Parser::next`].
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// One request; its spans are in `args` (possibly none: an empty request has no reply).
    Complete,
    /// An inline request, unquoted.
    Inline(Vec<Vec<u8>>),
    /// More bytes are needed; everything before `pos` is understood.
    More,
    /// A bulk string of `len` bytes starts at `pos` and is not complete: see the module docs.
    Big {
        len: usize,
    },
    Error(ProtocolError),
}

/// The state between two calls. `pos` is the next byte to look at, relative to the buffer.
#[derive(Debug, Default, Clone)]
pub struct Parser {
    pub pos: usize,
    /// Arguments still to come of a request that has begun; 0 between requests.
    left: usize,
    /// Length of the bulk string whose header was read.
    bulk: Option<usize>,
    /// The present request, or between two the last one, has a large bulk string.
    large: bool,
}

impl Parser {
    /// Whether a request has begun but not ended.
    pub fn in_request(&self) -> bool {
        self.left > 0
    }

    /// Arguments announced but not yet read.
    pub fn args_left(&self) -> usize {
        self.left
    }

    /// Whether the present request, or between two the last one, has a bulk string of
    /// [`BIG_BULK`] bytes or more.
    pub fn is_after_large(&self) -> bool {
        self.large
    }

    /// After [`Step::Big`]: the value was read elsewhere, its two trailing bytes too; parsing
    /// continues at `pos` 0 of a new buffer. `true` when that was the last argument.
    pub fn big_done(&mut self) -> bool {
        self.bulk = None;
        self.left -= 1;
        self.pos = 0;
        self.left == 0
    }

    /// Parses on from `self.pos` in `buf`, appending spans to `args`. Costs time linear in the
    /// bytes that are new.
    #[inline]
    pub fn next(&mut self, buf: &[u8], args: &mut Vec<Span>, limits: &Limits) -> Step {
        if self.left == 0 {
            match buf.get(self.pos) {
                None => return Step::More,
                Some(b'*') => match self.header(buf, limits) {
                    Ok(true) => {}
                    Ok(false) => return Step::More,
                    Err(e) => return Step::Error(e),
                },
                Some(_) => return self.inline(buf),
            }
            if self.left == 0 {
                return Step::Complete;
            }
        }
        self.bulks(buf, args, limits)
    }

    /// Reads `*N\r\n`. `Ok(false)` when it is not complete.
    #[inline]
    fn header(&mut self, buf: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        if let Some((n, next)) = short_line(buf, self.pos, b'*')
            && n <= STRANGERS_ARGS.min(limits.max_args)
        {
            (self.pos, self.left, self.large) = (next, n, false);
            return Ok(true);
        }
        let Some((n, next)) = number_line(buf, self.pos + 1, ProtocolError::TooBigMbulkCount)?
        else {
            return Ok(false);
        };
        let n = n.ok_or(ProtocolError::InvalidMultibulkLength)?;
        if n > limits.max_args as i64 {
            return Err(ProtocolError::InvalidMultibulkLength);
        }
        if n > STRANGERS_ARGS as i64 && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedMultibulkLength);
        }
        self.pos = next;
        self.left = n.max(0) as usize;
        self.large = false;
        Ok(true)
    }

    #[inline]
    fn bulks(&mut self, buf: &[u8], args: &mut Vec<Span>, limits: &Limits) -> Step {
        if self.bulk.is_none() {
            self.short_bulks(buf, args, limits);
        }
        while self.left > 0 {
            let len = match self.bulk {
                Some(len) => len,
                None => match self.bulk_header(buf, limits) {
                    Ok(Some(len)) => {
                        if len >= BIG_BULK {
                            self.large = true;
                        }
                        len
                    }
                    Ok(None) => return Step::More,
                    Err(e) => return Step::Error(e),
                },
            };
            if buf.len() - self.pos < len + 2 {
                self.bulk = Some(len);
                return if len >= BIG_BULK { Step::Big { len } } else { Step::More };
            }
            if buf[self.pos + len..self.pos + len + 2] != *b"\r\n" {
                return Step::Error(ProtocolError::InvalidCrlf);
            }
            args.push(Span { start: self.pos as u32, len: len as u32 });
            self.pos += len + 2;
            self.bulk = None;
            self.left -= 1;
        }
        Step::Complete
    }

    /// Takes what almost every request consists of: bulk strings of less than a hundred bytes that
    /// are there as a whole. Whatever is otherwise is left where it stands, for [`Parser::bulks`].
    #[inline]
    fn short_bulks(&mut self, buf: &[u8], args: &mut Vec<Span>, limits: &Limits) {
        let (mut pos, mut left) = (self.pos, self.left);
        while left > 0
            && let Some((len, at)) = short_line(buf, pos, b'$')
            && len <= limits.max_bulk
            && let Some(end) = buf.get(at + len..at + len + 2)
            && *end == *b"\r\n"
        {
            args.push(Span { start: at as u32, len: len as u32 });
            pos = at + len + 2;
            left -= 1;
        }
        (self.pos, self.left) = (pos, left);
    }

    /// Reads `$N\r\n`; `None` when it is not complete.
    #[inline]
    fn bulk_header(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        if buf.get(self.pos).is_some_and(|b| *b != b'$') {
            return not_a_bulk(&buf[self.pos..]);
        }
        let Some((n, next)) = number_line(buf, self.pos + 1, ProtocolError::TooBigBulkCount)?
        else {
            return Ok(None);
        };
        let n = n
            .filter(|n| *n >= 0 && *n <= limits.max_bulk as i64)
            .ok_or(ProtocolError::InvalidBulkLength)?;
        if n > 16384 && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        self.pos = next;
        Ok(Some(n as usize))
    }

    fn inline(&mut self, buf: &[u8]) -> Step {
        let rest = &buf[self.pos..];
        // Valkey looks for the end of the line as of a C string: after a NUL it waits for ever.
        let Some(end) = memchr::memchr2(b'\n', 0, rest) else {
            return if rest.len() > MAX_INLINE {
                Step::Error(ProtocolError::TooBigInline)
            } else {
                Step::More
            };
        };
        if rest[end] == 0 {
            return Step::Error(ProtocolError::NulInInline);
        }
        let mut line = &rest[..end];
        if line.last() == Some(&b'\r') {
            line = &line[..line.len() - 1];
        }
        match words::split(line) {
            None => Step::Error(ProtocolError::UnbalancedQuotes),
            Some(args) => {
                self.pos += end + 1;
                Step::Inline(args)
            }
        }
    }
}

/// A line instead of a bulk header. The reference looks for the end of the line first, so the wrong
/// byte is only reported once the line is there.
#[cold]
fn not_a_bulk(rest: &[u8]) -> Result<Option<usize>, ProtocolError> {
    match memchr::memchr(b'\r', rest) {
        Some(end) if end + 1 < rest.len() => Err(ProtocolError::ExpectedDollar(rest[0])),
        None if rest.len() > MAX_INLINE => Err(ProtocolError::TooBigBulkCount),
        Some(_) | None => Ok(None),
    }
}

/// A header line that begins with `mark` and has a number of one or two digits: the number, and the
/// position after the line. `None` also when the buffer ends shortly after it.
#[inline]
fn short_line(buf: &[u8], at: usize, mark: u8) -> Option<(usize, usize)> {
    let line: &[u8; 5] = buf.get(at..)?.first_chunk()?;
    let [first, second] = [line[1], line[2]].map(|digit| usize::from(digit.wrapping_sub(b'0')));
    if line[0] != mark || first > 9 {
        return None;
    }
    if line[2] == b'\r' && line[3] == b'\n' {
        return Some((first, at + 4));
    }
    let is_number = first > 0 && second <= 9;
    (is_number && line[3] == b'\r' && line[4] == b'\n').then_some((10 * first + second, at + 5))
}

/// A header line's number (`None` when it isn't one) and the position after its line break.
type NumberLine = Option<(Option<i64>, usize)>;

/// Reads the number from `at` to `\r`, and skips one byte more. `Ok(None)` when the line is
/// not complete.
#[inline]
fn number_line(buf: &[u8], at: usize, too_big: ProtocolError) -> Result<NumberLine, ProtocolError> {
    // Almost every header is one to three digits: read them without looking for the end first.
    let mut n = 0i64;
    let mut i = at;
    while i < buf.len() && i < at + 9 && buf[i].is_ascii_digit() {
        n = n * 10 + i64::from(buf[i] - b'0');
        i += 1;
    }
    let canonical = i > at && (buf[at] != b'0' || i == at + 1);
    if canonical && i + 1 < buf.len() && buf[i] == b'\r' {
        return Ok(Some((Some(n), i + 2)));
    }
    number_line_slow(buf, at, too_big)
}

#[cold]
fn number_line_slow(
    buf: &[u8],
    at: usize,
    too_big: ProtocolError,
) -> Result<NumberLine, ProtocolError> {
    let rest = buf.get(at..).unwrap_or(&[]);
    let Some(end) = memchr::memchr(b'\r', rest) else {
        // The header byte itself counts, as in the reference.
        return if rest.len() + 1 > MAX_INLINE { Err(too_big) } else { Ok(None) };
    };
    if end + 1 >= rest.len() {
        return Ok(None);
    }
    Ok(Some((strict_i64(&rest[..end]), at + end + 2)))
}

/// A decimal integer without sign `+`, leading zeros or spaces.
fn strict_i64(s: &[u8]) -> Option<i64> {
    let digits = s.strip_prefix(b"-").unwrap_or(s);
    let canonical = match digits {
        [] => false,
        [b'0', rest @ ..] => rest.is_empty() && digits.len() == s.len(),
        _ => digits.iter().all(u8::is_ascii_digit),
    };
    if !canonical {
        return None;
    }
    std::str::from_utf8(s).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(buf: &[u8]) -> (Vec<Vec<Vec<u8>>>, Step) {
        let (mut p, mut out) = (Parser::default(), Vec::new());
        loop {
            let mut args = Vec::new();
            match p.next(buf, &mut args, &Limits::default()) {
                Step::Complete => out.push(args.iter().map(|s| s.of(buf).to_vec()).collect()),
                Step::Inline(a) => out.push(a),
                other => return (out, other),
            }
        }
    }

    #[test]
    fn requests_in_a_row() {
        let (got, end) =
            all(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING x\r\n*0\r\n*-1\r\n*1\r\n$0\r\n\r\n");
        assert_eq!(end, Step::More);
        let want: Vec<Vec<Vec<u8>>> = vec![
            vec![b"GET".to_vec(), b"k".to_vec()],
            vec![b"PING".to_vec(), b"x".to_vec()],
            vec![],
            vec![],
            vec![vec![]],
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn every_split_gives_the_same() {
        let whole = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n";
        for cut in 0..whole.len() {
            let (mut p, mut args) = (Parser::default(), Vec::new());
            assert_eq!(p.next(&whole[..cut], &mut args, &Limits::default()), Step::More, "{cut}");
            assert_eq!(p.next(whole, &mut args, &Limits::default()), Step::Complete);
            assert_eq!(args.len(), 3);
            assert_eq!(args[2].of(whole), b"value");
            assert_eq!(p.pos, whole.len());
        }
    }

    #[test]
    fn big_values_stop_the_parser() {
        let mut buf = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$40000\r\n".to_vec();
        let at = buf.len();
        buf.extend_from_slice(&[b'x'; 100]);
        let (mut p, mut args) = (Parser::default(), Vec::new());
        assert_eq!(p.next(&buf, &mut args, &Limits::default()), Step::Big { len: 40000 });
        assert_eq!((p.pos, args.len()), (at, 2));
        assert!(p.big_done());
        assert!(!p.in_request() && p.is_after_large());
        assert_eq!(p.next(b"*1\r\n$4\r\nPING\r\n", &mut args, &Limits::default()), Step::Complete);
        assert!(!p.is_after_large());
    }

    #[test]
    fn errors() {
        let long = vec![b'1'; MAX_INLINE + 10];
        let cases: Vec<(Vec<u8>, &str)> = vec![
            (b"*x\r\n".to_vec(), "invalid multibulk length"),
            (b"*01\r\n".to_vec(), "invalid multibulk length"),
            (b"*3000000000\r\n".to_vec(), "invalid multibulk length"),
            (b"*1\r\n:1\r\n".to_vec(), "expected '$', got ':'"),
            (b"*1\r\n\r\n".to_vec(), "expected '$', got ' '"),
            (b"*1\r\n$4\r\nPINGxx".to_vec(), "invalid CRLF in request"),
            (b"*1\r\n$-1\r\n".to_vec(), "invalid bulk length"),
            (b"*1\r\n$600000000\r\n".to_vec(), "invalid bulk length"),
            (b"SET \"a\r\n".to_vec(), "unbalanced quotes in request"),
            (b"SET k a\0b\r\n".to_vec(), "NUL byte in inline request"),
            (b"\0".to_vec(), "NUL byte in inline request"),
            ([b"*".to_vec(), long.clone()].concat(), "too big mbulk count string"),
            ([b"*1\r\n$".to_vec(), long.clone()].concat(), "too big bulk count string"),
            (long, "too big inline request"),
        ];
        for (input, text) in cases {
            let Step::Error(e) = all(&input).1 else { panic!("no error for {text}") };
            assert_eq!(e.to_string(), format!("Protocol error: {text}"));
        }
        let limits = Limits { authenticated: false, ..Limits::default() };
        let step = |b: &[u8]| Parser::default().next(b, &mut Vec::new(), &limits);
        assert_eq!(step(b"*11\r\n"), Step::Error(ProtocolError::UnauthenticatedMultibulkLength));
        assert_eq!(
            step(b"*1\r\n$16385\r\n"),
            Step::Error(ProtocolError::UnauthenticatedBulkLength)
        );
    }
}
