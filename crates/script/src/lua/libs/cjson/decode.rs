//! JSON to Lua values.

use super::super::number::parse_prefix;
use super::super::{check_string, error_when_full};
use super::settings::{Setting, read};
use crate::lua::frame::{Frame, Raised};

/// A part of JSON. A number or string has its value in the [`Scanner`].
#[derive(Clone, Copy, PartialEq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token {
    /// As errors show it.
    fn name(self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::String => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Error(problem) => problem,
        }
    }
}

pub(super) fn decode(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    if frame.len() != 1 {
        return Err(frame.bad_argument(1, "expected 1 argument"));
    }
    check_string(frame, 1)?;
    let input = frame.bytes(1).unwrap_or_default();
    if input.len() >= 2 && input[..2].contains(&0) {
        return Err(frame.error("JSON parser does not support UTF-16 or UTF-32"));
    }
    let [invalid, most_depth] = read(frame, [Setting::DecodeInvalid, Setting::DecodeDepth]);
    let scanner = Scanner { at: 0, start: 0, text: Vec::new(), allows_invalid: invalid == 1 };
    let mut decoder = Decoder { scanner, levels: Vec::new(), most_depth };
    decoder.value(frame)?;
    match decoder.next(frame) {
        Token::End => Ok(1),
        token => Err(decoder.refuse(frame, "the end", token)),
    }
}

/// An array or object whose elements are being read. Its table is on Lua's stack; an object's last key follows it.
enum Level {
    /// With so many elements.
    Array(i64),
    Object,
}

struct Decoder {
    scanner: Scanner,
    levels: Vec<Level>,
    most_depth: i32,
}

impl Decoder {
    fn next(&mut self, frame: &Frame<'_>) -> Token {
        self.scanner.next(frame.bytes(1).unwrap_or_default())
    }

    fn refuse(&mut self, frame: &mut Frame<'_>, wanted: &str, found: Token) -> Raised {
        let (found, at) = (found.name(), self.scanner.start + 1);
        frame.error(format!("Expected {wanted} but found {found} at character {at}"))
    }

    /// Reads one value and pushes it. Not recursive: a script may set any depth.
    fn value(&mut self, frame: &mut Frame<'_>) -> Result<(), Raised> {
        let mut token = self.next(frame);
        loop {
            frame.check_memory()?;
            let is_open = match token {
                Token::ArrayBegin => {
                    self.open(frame, Level::Array(0), 2)?;
                    token = self.next(frame);
                    token != Token::ArrayEnd
                }
                Token::ObjectBegin => {
                    self.open(frame, Level::Object, 3)?;
                    token = self.next(frame);
                    let is_open = token != Token::ObjectEnd;
                    if is_open {
                        token = self.key(frame, token)?;
                    }
                    is_open
                }
                _ => {
                    self.scalar(frame, token)?;
                    match self.add(frame)? {
                        Some(next) => token = next,
                        None => return Ok(()),
                    }
                    continue;
                }
            };
            if is_open {
                continue;
            }
            self.levels.pop();
            match self.add(frame)? {
                Some(next) => token = next,
                None => return Ok(()),
            }
        }
    }

    /// Begins an array or object, which needs `n` values on the stack.
    fn open(&mut self, frame: &mut Frame<'_>, level: Level, n: usize) -> Result<(), Raised> {
        self.levels.push(level);
        let (depth, at) = (self.levels.len(), self.scanner.at);
        if depth > self.most_depth as usize || !frame.reserve(n) {
            let text = format!("Found too many nested data structures ({depth}) at character {at}");
            return Err(error_when_full(frame, text));
        }
        frame.push_table(0, 0);
        Ok(())
    }

    /// Pushes a key, which `token` must be, and returns the first token of its value.
    fn key(&mut self, frame: &mut Frame<'_>, token: Token) -> Result<Token, Raised> {
        if token != Token::String {
            return Err(self.refuse(frame, "object key string", token));
        }
        frame.push_bytes(&self.scanner.text);
        match self.next(frame) {
            Token::Colon => Ok(self.next(frame)),
            token => Err(self.refuse(frame, "colon", token)),
        }
    }

    fn scalar(&mut self, frame: &mut Frame<'_>, token: Token) -> Result<(), Raised> {
        match token {
            Token::String => frame.push_bytes(&self.scanner.text),
            Token::Number(number) => frame.push_number(number),
            Token::Boolean(value) => frame.push_bool(value),
            Token::Null => frame.push_null(),
            _ => return Err(self.refuse(frame, "value", token)),
        }
        Ok(())
    }

    /// Adds the last value to its array or object, and closes those that end there. Returns the first token of the next
    /// value, or `None` if no array or object is open.
    fn add(&mut self, frame: &mut Frame<'_>) -> Result<Option<Token>, Raised> {
        loop {
            let (end, wanted) = match self.levels.last_mut() {
                None => return Ok(None),
                Some(Level::Array(len)) => {
                    *len += 1;
                    frame.set_index(-2, *len);
                    (Token::ArrayEnd, "comma or array end")
                }
                Some(Level::Object) => {
                    assert!(frame.set(-3), "a string is a key");
                    (Token::ObjectEnd, "comma or object end")
                }
            };
            match self.next(frame) {
                Token::Comma => {
                    let token = self.next(frame);
                    let is_object = end == Token::ObjectEnd;
                    return Ok(Some(if is_object { self.key(frame, token)? } else { token }));
                }
                token if token == end => {
                    self.levels.pop();
                }
                token => return Err(self.refuse(frame, wanted, token)),
            }
        }
    }
}

/// Splits JSON, which ends at a zero byte, into tokens.
struct Scanner {
    at: usize,
    /// Where the last token begins, or an error is.
    start: usize,
    /// The last string.
    text: Vec<u8>,
    /// Whether `nan`, `inf`, hexadecimal numbers and leading zeros and signs are allowed.
    allows_invalid: bool,
}

/// The byte at `at`; zero after the end.
fn byte(input: &[u8], at: usize) -> u8 {
    input.get(at).copied().unwrap_or(0)
}

impl Scanner {
    fn next(&mut self, input: &[u8]) -> Token {
        while matches!(byte(input, self.at), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.start = self.at;
        let rest = input.get(self.at..).unwrap_or_default();
        let first = byte(rest, 0);
        let single = match first {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            0 => return Token::End,
            b'"' => return self.string(input),
            b'-' | b'0'..=b'9' if !self.allows_invalid && is_invalid_number(rest) => {
                return Token::Error("invalid number");
            }
            b'-' | b'0'..=b'9' => return self.number(rest),
            _ => return self.word(rest),
        };
        self.at += 1;
        single
    }

    fn number(&mut self, rest: &[u8]) -> Token {
        match parse_prefix(rest) {
            Some((number, len)) => {
                self.at += len;
                Token::Number(number)
            }
            None => Token::Error("invalid number"),
        }
    }

    fn word(&mut self, rest: &[u8]) -> Token {
        for (word, token) in [
            (&b"true"[..], Token::Boolean(true)),
            (b"false", Token::Boolean(false)),
            (b"null", Token::Null),
        ] {
            if rest.starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        let may_be_number = matches!(rest[0], b'i' | b'I' | b'n' | b'N' | b'+');
        if may_be_number && self.allows_invalid && is_invalid_number(rest) {
            return self.number(rest);
        }
        Token::Error("invalid token")
    }

    fn string(&mut self, input: &[u8]) -> Token {
        self.at += 1;
        self.text.clear();
        loop {
            let rest = input.get(self.at..).unwrap_or_default();
            let is_end = |byte: &u8| matches!(byte, b'"' | b'\\' | 0);
            let len = rest.iter().position(is_end).unwrap_or(rest.len());
            self.text.extend_from_slice(&rest[..len]);
            self.at += len;
            match byte(rest, len) {
                b'"' => break,
                b'\\' => {
                    if let Err(problem) = self.escape(&rest[len..]) {
                        self.start = self.at;
                        return Token::Error(problem);
                    }
                }
                _ => {
                    self.start = self.at;
                    return Token::Error("unexpected end of string");
                }
            }
        }
        self.at += 1;
        Token::String
    }

    /// Reads the escape that `rest` begins with.
    fn escape(&mut self, rest: &[u8]) -> Result<(), &'static str> {
        let escaped = match byte(rest, 1) {
            letter @ (b'"' | b'\\' | b'/') => letter,
            b'b' => 0x08,
            b't' => b'\t',
            b'n' => b'\n',
            b'f' => 0x0c,
            b'r' => b'\r',
            b'u' => {
                let (code, len) = parse_unicode(rest).ok_or("invalid unicode escape code")?;
                self.text.extend_from_slice(code.encode_utf8(&mut [0; 4]).as_bytes());
                self.at += len;
                return Ok(());
            }
            _ => return Err("invalid escape code"),
        };
        self.text.push(escaped);
        self.at += 2;
        Ok(())
    }
}

/// The character of an escape `\uXXXX`, or of a pair of surrogates, and the length.
fn parse_unicode(rest: &[u8]) -> Option<(char, usize)> {
    let high = parse_hex4(rest)?;
    if let Some(code) = char::from_u32(high) {
        return Some((code, 6));
    }
    let pair = rest.get(6..).filter(|rest| rest.starts_with(b"\\u"))?;
    let low = parse_hex4(pair)?;
    if high >= 0xdc00 || !(0xdc00..0xe000).contains(&low) {
        return None;
    }
    let code = 0x1_0000 + ((high & 0x3ff) << 10 | (low & 0x3ff));
    Some((char::from_u32(code)?, 12))
}

/// The four digits after `\u`.
fn parse_hex4(rest: &[u8]) -> Option<u32> {
    let digits = rest.get(2..6)?;
    digits.iter().try_fold(0, |code, digit| Some(code << 4 | char::from(*digit).to_digit(16)?))
}

/// Whether a number that C reads is not one of JSON.
fn is_invalid_number(rest: &[u8]) -> bool {
    let digits = match byte(rest, 0) {
        b'+' => return true,
        b'-' => &rest[1..],
        _ => rest,
    };
    if byte(digits, 0) == b'0' {
        return matches!(byte(digits, 1), b'x' | b'X' | b'0'..=b'9');
    }
    let start = digits.get(..3).unwrap_or_default();
    start.eq_ignore_ascii_case(b"inf") || start.eq_ignore_ascii_case(b"nan")
}
