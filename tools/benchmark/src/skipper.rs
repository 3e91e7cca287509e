//! Skips over replies without building them.
//!
//! A load generator needs the end of a reply, its type and, for an error, its text. So this is
//! RESP2 and RESP3 reduced to counting: a reply is complete when no value is missing. A plain value
//! subtracts one from the count, an aggregate of n adds n. There is no stack, only error texts are
//! copied, and bulk strings are skipped.
//!
//! Input comes in pieces that end anywhere. Only the state of one value is kept between pieces, so
//! the connection needs no input buffer.
//!
//! A caller that compares the values passes a [`Leaves`]; `()` compiles to nothing.

use memchr::memchr;

/// A set of reply types, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types(u16);

impl Types {
    pub const SIMPLE: Types = Types(1);
    pub const ERROR: Types = Types(1 << 1);
    pub const INTEGER: Types = Types(1 << 2);
    pub const BULK: Types = Types(1 << 3);
    pub const ARRAY: Types = Types(1 << 4);
    pub const NULL: Types = Types(1 << 5);
    pub const MAP: Types = Types(1 << 6);
    pub const SET: Types = Types(1 << 7);
    pub const DOUBLE: Types = Types(1 << 8);
    pub const BOOLEAN: Types = Types(1 << 9);
    pub const BIG_NUMBER: Types = Types(1 << 10);
    pub const VERBATIM: Types = Types(1 << 11);
    pub const PUSH: Types = Types(1 << 12);
    /// All types of replies except errors.
    pub const ANY: Types = Types(0x0fff & !Types::ERROR.0);

    const NAMES: [&str; 13] = [
        "simple string",
        "error",
        "integer",
        "bulk string",
        "array",
        "null",
        "map",
        "set",
        "double",
        "boolean",
        "big number",
        "verbatim string",
        "push",
    ];

    /// This set and the other.
    pub const fn or(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    /// Whether the two have a type in common.
    #[inline]
    pub const fn meets(self, other: Types) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::fmt::Display for Types {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = Types::NAMES.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1);
        let names: Vec<&str> = names.map(|(_, name)| *name).collect();
        f.write_str(&names.join(" or "))
    }
}

/// Receives the plain values of replies, in their order. Text may come in pieces.
pub trait Leaves {
    /// A value begins; `len` is the length of its text, if known in advance.
    fn begin(&mut self, of: Types, len: Option<u64>);
    /// The next piece of its text.
    fn text(&mut self, piece: &[u8]);
    /// The value is complete.
    fn end(&mut self);
}

impl Leaves for () {
    #[inline]
    fn begin(&mut self, _of: Types, _len: Option<u64>) {}
    #[inline]
    fn text(&mut self, _piece: &[u8]) {}
    #[inline]
    fn end(&mut self) {}
}

/// Input that is not a reply of any version of the protocol.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

/// The longest stored error text.
const TEXT: usize = 1024;

/// The state of one connection's input.
#[derive(Debug)]
pub struct Skipper {
    state: State,
    /// Missing values of the current reply; 0 between replies.
    missing: u64,
    /// The type of the current reply.
    kind: Types,
    /// The value being read is the reply itself, not within it.
    at_top: bool,
    /// The values being counted belong to an attribute before a reply.
    in_attribute: bool,
    text: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Type,
    /// In a value of one line, whose end is not known.
    Line(Types),
    /// In the line with the length of a string or an aggregate.
    Length {
        of: u8,
        number: u64,
        negative: bool,
    },
    /// In a string with this many missing bytes, line end included.
    Body {
        of: Types,
        left: u64,
    },
}

impl Default for Skipper {
    fn default() -> Self {
        Skipper {
            state: State::Type,
            missing: 0,
            kind: Types::NULL,
            at_top: false,
            in_attribute: false,
            text: Vec::new(),
        }
    }
}

impl Skipper {
    /// Continues in `input` and removes the bytes it read. Returns the type of the reply that
    /// ended, or none if the input ended first. Linear in the consumed input, with bulk strings
    /// skipped.
    ///
    /// # Errors
    /// If this is not RESP; the connection is unusable then.
    pub fn next(
        &mut self,
        input: &mut &[u8],
        leaves: &mut impl Leaves,
    ) -> Result<Option<Types>, Malformed> {
        loop {
            let done = match self.state {
                State::Type => {
                    let Some((&first, rest)) = input.split_first() else { return Ok(None) };
                    *input = rest;
                    self.begin(first, leaves)?;
                    continue;
                }
                State::Line(of) => self.line(of, input, leaves),
                State::Length { of, number, negative } => {
                    match self.length(of, number, negative, input, leaves)? {
                        Some(done) => done,
                        None => return Ok(None),
                    }
                }
                State::Body { of, left } => self.body(of, left, input, leaves),
            };
            if !done {
                // Either input is missing, or this was the head of something longer.
                if input.is_empty() {
                    return Ok(None);
                }
                continue;
            }
            self.state = State::Type;
            self.missing -= 1;
            if self.missing == 0 && !std::mem::take(&mut self.in_attribute) {
                return Ok(Some(self.kind));
            }
        }
    }

    /// The text of the last error reply.
    pub fn error(&self) -> String {
        String::from_utf8_lossy(&self.text).trim_end().to_string()
    }

    fn begin(&mut self, first: u8, leaves: &mut impl Leaves) -> Result<(), Malformed> {
        let of = match first {
            b'+' => Types::SIMPLE,
            b'-' | b'!' => Types::ERROR,
            b':' => Types::INTEGER,
            b'$' => Types::BULK,
            b'*' => Types::ARRAY,
            b'_' => Types::NULL,
            b'%' => Types::MAP,
            b'~' => Types::SET,
            b',' => Types::DOUBLE,
            b'#' => Types::BOOLEAN,
            b'(' => Types::BIG_NUMBER,
            b'=' => Types::VERBATIM,
            b'>' => Types::PUSH,
            b'|' => Types::MAP,
            other => {
                let shown = other.escape_ascii();
                return Err(Malformed(format!(
                    "Protocol error, got \"{shown}\" as reply type byte"
                )));
            }
        };
        self.at_top = self.missing == 0;
        if self.at_top {
            self.missing = 1;
            self.kind = of;
            self.in_attribute = first == b'|';
            self.text.clear();
        } else if first == b'|' {
            // In addition to the value that was expected here.
            self.missing += 1;
        }
        self.state = match first {
            b'$' | b'!' | b'=' | b'*' | b'%' | b'~' | b'>' | b'|' => {
                State::Length { of: first, number: 0, negative: false }
            }
            _ => {
                leaves.begin(of, None);
                State::Line(of)
            }
        };
        Ok(())
    }

    #[inline]
    fn line(&mut self, of: Types, input: &mut &[u8], leaves: &mut impl Leaves) -> bool {
        let end = memchr(b'\n', input);
        let (line, rest) = input.split_at(end.map_or(input.len(), |at| at + 1));
        *input = rest;
        leaves.text(line);
        self.keep(of, line);
        if end.is_some() {
            leaves.end();
        }
        end.is_some()
    }

    /// True if a value ended here, false if a body follows, none if input is missing.
    #[inline]
    fn length(
        &mut self,
        of: u8,
        mut number: u64,
        mut negative: bool,
        input: &mut &[u8],
        leaves: &mut impl Leaves,
    ) -> Result<Option<bool>, Malformed> {
        let wrong = || Malformed("Protocol error, a length is not a number".to_string());
        for (i, &byte) in input.iter().enumerate() {
            match byte {
                b'0'..=b'9' => {
                    let digit = u64::from(byte - b'0');
                    number = number
                        .checked_mul(10)
                        .and_then(|n| n.checked_add(digit))
                        .filter(|n| *n < 1 << 40)
                        .ok_or_else(wrong)?;
                }
                b'\r' => {}
                b'\n' => {
                    *input = &input[i + 1..];
                    return Ok(Some(self.measured(of, number, negative, leaves)));
                }
                b'-' => negative = true,
                _ => return Err(wrong()),
            }
        }
        *input = &[];
        self.state = State::Length { of, number, negative };
        Ok(None)
    }

    fn measured(&mut self, of: u8, n: u64, negative: bool, leaves: &mut impl Leaves) -> bool {
        if negative {
            // The null of RESP2.
            if self.at_top {
                self.kind = Types::NULL;
            }
            leaves.begin(Types::NULL, None);
            leaves.end();
            return true;
        }
        let kind = match of {
            b'*' | b'~' | b'>' => {
                self.missing += n;
                return true;
            }
            b'%' | b'|' => {
                self.missing += 2 * n;
                return true;
            }
            b'!' => Types::ERROR,
            b'=' => Types::VERBATIM,
            _ => Types::BULK,
        };
        leaves.begin(kind, Some(n));
        self.state = State::Body { of: kind, left: n + 2 };
        false
    }

    #[inline]
    fn body(&mut self, of: Types, left: u64, input: &mut &[u8], leaves: &mut impl Leaves) -> bool {
        let taken = (input.len() as u64).min(left) as usize;
        let (body, rest) = input.split_at(taken);
        *input = rest;
        let after = left - taken as u64;
        // The line end is not text.
        let text = (left.saturating_sub(2) as usize).min(taken);
        leaves.text(&body[..text]);
        self.keep(of, &body[..text]);
        if after == 0 {
            leaves.end();
            return true;
        }
        self.state = State::Body { of, left: after };
        false
    }

    #[inline]
    fn keep(&mut self, of: Types, text: &[u8]) {
        if of == Types::ERROR {
            let room = TEXT.saturating_sub(self.text.len());
            self.text.extend_from_slice(&text[..text.len().min(room)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Replies with their types, of every kind.
    const ALL: &[(&str, Types)] = &[
        ("+OK\r\n", Types::SIMPLE),
        ("-ERR no\r\n", Types::ERROR),
        (":-5\r\n", Types::INTEGER),
        ("$5\r\nhe\r\no\r\n", Types::BULK),
        ("$0\r\n\r\n", Types::BULK),
        ("$-1\r\n", Types::NULL),
        ("*-1\r\n", Types::NULL),
        ("_\r\n", Types::NULL),
        ("*0\r\n", Types::ARRAY),
        ("*3\r\n:1\r\n*2\r\n$-1\r\n+a\r\n$1\r\nx\r\n", Types::ARRAY),
        ("*1\r\n*-1\r\n", Types::ARRAY),
        ("%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", Types::MAP),
        ("~2\r\n,1.5\r\n#t\r\n", Types::SET),
        (",inf\r\n", Types::DOUBLE),
        ("#f\r\n", Types::BOOLEAN),
        ("(123456789012345678901234567890\r\n", Types::BIG_NUMBER),
        ("=7\r\ntxt:abc\r\n", Types::VERBATIM),
        ("!5\r\nERR x\r\n", Types::ERROR),
        (">2\r\n+invalidate\r\n*1\r\n+k\r\n", Types::PUSH),
        ("|1\r\n+ttl\r\n:3\r\n$2\r\nok\r\n", Types::BULK),
        ("*2\r\n|1\r\n+a\r\n:1\r\n:7\r\n:8\r\n", Types::ARRAY),
    ];

    fn types(skipper: &mut Skipper, piece: &[u8]) -> Vec<Types> {
        let (mut rest, mut found) = (piece, Vec::new());
        while let Some(reply) = skipper.next(&mut rest, &mut ()).unwrap() {
            found.push(reply);
        }
        assert!(rest.is_empty(), "input that is not consumed is lost");
        found
    }

    #[test]
    fn each_reply_has_its_end() {
        for (text, kind) in ALL {
            assert_eq!(types(&mut Skipper::default(), text.as_bytes()), [*kind], "{text:?}");
        }
    }

    #[test]
    fn errors_have_their_text() {
        let mut skipper = Skipper::default();
        types(&mut skipper, b"-WRONGTYPE Oper");
        types(&mut skipper, b"ation\r\n");
        assert_eq!(skipper.error(), "WRONGTYPE Operation");
        types(&mut skipper, b"!5\r\nERR");
        types(&mut skipper, b" x\r\n");
        assert_eq!(skipper.error(), "ERR x");
        types(&mut skipper, format!("-{}\r\n", "x".repeat(5000)).as_bytes());
        assert_eq!(skipper.error().len(), TEXT);
    }

    #[test]
    fn malformed_reply_is_refused() {
        for text in ["HTTP/1.1", "$x\r\n", "*99999999999999999999\r\n", "\r\n"] {
            let mut rest = text.as_bytes();
            assert!(Skipper::default().next(&mut rest, &mut ()).is_err(), "{text:?}");
        }
    }

    /// Records the values.
    #[derive(Default)]
    struct Notes(Vec<String>);

    impl Leaves for Notes {
        fn begin(&mut self, of: Types, len: Option<u64>) {
            self.0.push(format!("{of}({}):", len.map_or(String::new(), |len| len.to_string())));
        }
        fn text(&mut self, piece: &[u8]) {
            self.0.last_mut().unwrap().push_str(std::str::from_utf8(piece).unwrap());
        }
        fn end(&mut self) {
            self.0.last_mut().unwrap().push('.');
        }
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            chosen in proptest::collection::vec(0..ALL.len(), 1..8),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let text: String = chosen.iter().map(|&i| ALL[i].0).collect();
            let want: Vec<Types> = chosen.iter().map(|&i| ALL[i].1).collect();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort();
            let (mut skipper, mut notes, mut found) = (Skipper::default(), Notes::default(), vec![]);
            for cut in cuts.windows(2) {
                let mut rest = &text.as_bytes()[cut[0]..cut[1]];
                while let Some(reply) = skipper.next(&mut rest, &mut notes).unwrap() {
                    found.push(reply);
                }
            }
            prop_assert_eq!(found, want);
            let mut whole = Notes::default();
            let mut rest = text.as_bytes();
            let mut at_once = Skipper::default();
            while at_once.next(&mut rest, &mut whole).unwrap().is_some() {}
            prop_assert_eq!(notes.0, whole.0);
        }

        #[test]
        fn noise_never_panics(noise: Vec<u8>) {
            let mut rest = &noise[..];
            let mut skipper = Skipper::default();
            while let Ok(Some(_)) = skipper.next(&mut rest, &mut ()) {}
        }
    }
}
