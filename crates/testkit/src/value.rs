//! A reply, of any type of RESP2 and RESP3.
//!
//! The types stay separate even where a client library would merge them. `$-1`, `*-1` and `_` all
//! mean "nothing" to a caller, but a server that sends one instead of another breaks clients that
//! check, so they are three variants. Doubles and big numbers keep the text from the wire, because
//! the form of a number is part of the protocol.
//!
//! [`parse`] is a plain recursive descent over a slice. It starts from the beginning at each call,
//! which is quadratic in theory. But it refuses an incomplete bulk string by its length alone. So
//! in practice a retry costs the number of elements, not of bytes.

use std::fmt;

/// One complete reply or push message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// `+OK`
    Simple(Vec<u8>),
    /// `-ERR ...`, without the leading `-`
    Error(Vec<u8>),
    /// `!21 ...`: an error that may contain line breaks
    BulkError(Vec<u8>),
    /// `:1`
    Integer(i64),
    /// `$5 ...`
    Bulk(Vec<u8>),
    /// `=15 txt:...`: the three letters and the text
    Verbatim(Vec<u8>, Vec<u8>),
    /// `,3.14` as written by the server
    Double(Vec<u8>),
    /// `(349...` as written by the server
    BigNumber(Vec<u8>),
    /// `#t` or `#f`
    Bool(bool),
    /// `_`
    Null,
    /// `$-1`
    NullBulk,
    /// `*-1`
    NullArray,
    /// `*2 ...`
    Array(Vec<Value>),
    /// `~2 ...`
    Set(Vec<Value>),
    /// `>2 ...`: an out-of-band message instead of a reply
    Push(Vec<Value>),
    /// `%2 ...`, in the order of the wire
    Map(Vec<(Value, Value)>),
    /// `|1 ...` and the reply that it describes
    Attribute(Vec<(Value, Value)>, Box<Value>),
}

/// The bytes are not RESP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Offset of the invalid element.
    pub at: usize,
    /// The expected element.
    pub what: &'static str,
}

/// The deepest nesting of replies: far beyond any command, small enough for the stack.
const MAX_DEPTH: usize = 128;

/// Reads one value from the start of `bytes`.
///
/// `Ok(None)` if more bytes are needed, else the value and its length in bytes.
pub fn parse(bytes: &[u8]) -> Result<Option<(Value, usize)>, Malformed> {
    let mut reader = Reader { bytes, at: 0 };
    match reader.value(0) {
        Ok(value) => Ok(Some((value, reader.at))),
        Err(Stop::Incomplete) => Ok(None),
        Err(Stop::Malformed(what)) => Err(Malformed { at: reader.at, what }),
    }
}

enum Stop {
    Incomplete,
    Malformed(&'static str),
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// The rest of the current line; moves after its CRLF.
    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|&b| b == b'\n').ok_or(Stop::Incomplete)?;
        if end == 0 || rest[end - 1] != b'\r' {
            return Err(Stop::Malformed("a line ended by CR LF"));
        }
        self.at += end + 1;
        Ok(&rest[..end - 1])
    }

    fn integer(&mut self) -> Result<i64, Stop> {
        let line = self.line()?;
        std::str::from_utf8(line)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or(Stop::Malformed("an integer"))
    }

    /// A length, or `None` for the -1 of the RESP2 nulls.
    fn length(&mut self) -> Result<Option<usize>, Stop> {
        match self.integer()? {
            -1 => Ok(None),
            n => usize::try_from(n).map(Some).map_err(|_| Stop::Malformed("a length")),
        }
    }

    fn some_length(&mut self) -> Result<usize, Stop> {
        self.length()?.ok_or(Stop::Malformed("a length that is not null"))
    }

    /// `len` bytes and the CRLF after them.
    fn blob(&mut self, len: usize) -> Result<Vec<u8>, Stop> {
        let rest = &self.bytes[self.at..];
        if rest.len() < len + 2 {
            return Err(Stop::Incomplete);
        }
        if &rest[len..len + 2] != b"\r\n" {
            return Err(Stop::Malformed("CR LF after a bulk string"));
        }
        self.at += len + 2;
        Ok(rest[..len].to_vec())
    }

    fn values(&mut self, count: usize, depth: usize) -> Result<Vec<Value>, Stop> {
        (0..count).map(|_| self.value(depth + 1)).collect()
    }

    fn pairs(&mut self, count: usize, depth: usize) -> Result<Vec<(Value, Value)>, Stop> {
        (0..count).map(|_| Ok((self.value(depth + 1)?, self.value(depth + 1)?))).collect()
    }

    fn value(&mut self, depth: usize) -> Result<Value, Stop> {
        if depth > MAX_DEPTH {
            return Err(Stop::Malformed("less nesting"));
        }
        let kind = *self.bytes.get(self.at).ok_or(Stop::Incomplete)?;
        self.at += 1;
        Ok(match kind {
            b'+' => Value::Simple(self.line()?.to_vec()),
            b'-' => Value::Error(self.line()?.to_vec()),
            b':' => Value::Integer(self.integer()?),
            b',' => Value::Double(self.line()?.to_vec()),
            b'(' => Value::BigNumber(self.line()?.to_vec()),
            b'#' => match self.line()? {
                b"t" => Value::Bool(true),
                b"f" => Value::Bool(false),
                _ => return Err(Stop::Malformed("t or f")),
            },
            b'_' => match self.line()? {
                b"" => Value::Null,
                _ => return Err(Stop::Malformed("nothing after _")),
            },
            b'$' => match self.length()? {
                None => Value::NullBulk,
                Some(len) => Value::Bulk(self.blob(len)?),
            },
            b'!' => {
                let len = self.some_length()?;
                Value::BulkError(self.blob(len)?)
            }
            b'=' => {
                let len = self.some_length()?;
                let text = self.blob(len)?;
                if text.get(3) != Some(&b':') {
                    return Err(Stop::Malformed("a format and a colon"));
                }
                Value::Verbatim(text[..3].to_vec(), text[4..].to_vec())
            }
            b'*' => match self.length()? {
                None => Value::NullArray,
                Some(count) => Value::Array(self.values(count, depth)?),
            },
            b'~' => {
                let count = self.some_length()?;
                Value::Set(self.values(count, depth)?)
            }
            b'>' => {
                let count = self.some_length()?;
                Value::Push(self.values(count, depth)?)
            }
            b'%' => {
                let count = self.some_length()?;
                Value::Map(self.pairs(count, depth)?)
            }
            b'|' => {
                let count = self.some_length()?;
                let attributes = self.pairs(count, depth)?;
                Value::Attribute(attributes, Box::new(self.value(depth + 1)?))
            }
            _ => return Err(Stop::Malformed("a type byte")),
        })
    }
}

impl Value {
    /// Whether this is `+OK`.
    pub fn is_ok(&self) -> bool {
        *self == Value::Simple(b"OK".to_vec())
    }

    /// Whether this is one of the three nulls.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null | Value::NullBulk | Value::NullArray)
    }

    /// The text of an error reply.
    pub fn error(&self) -> Option<String> {
        match self {
            Value::Error(text) | Value::BulkError(text) => {
                Some(String::from_utf8_lossy(text).into_owned())
            }
            _ => None,
        }
    }

    /// The bytes of a string of any kind.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Simple(b)
            | Value::Bulk(b)
            | Value::Verbatim(_, b)
            | Value::Double(b)
            | Value::BigNumber(b) => Some(b),
            _ => None,
        }
    }

    /// The string, lossily as text.
    ///
    /// # Panics
    /// If the value is not a string.
    #[track_caller]
    pub fn text(&self) -> String {
        match self.bytes() {
            Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            None => panic!("expected a string, got {self}"),
        }
    }

    /// The integer.
    ///
    /// # Panics
    /// If the value is not an integer.
    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Value::Integer(n) => *n,
            _ => panic!("expected an integer, got {self}"),
        }
    }

    /// The elements of an array, set or push message.
    ///
    /// # Panics
    /// If the value is none of these.
    #[track_caller]
    pub fn items(&self) -> &[Value] {
        match self {
            Value::Array(items) | Value::Set(items) | Value::Push(items) => items,
            _ => panic!("expected an array, got {self}"),
        }
    }

    /// The value of `field` in a map, or in the flat array of RESP2.
    pub fn field(&self, field: &str) -> Option<&Value> {
        let is = |v: &Value| v.bytes() == Some(field.as_bytes());
        match self {
            Value::Map(pairs) => pairs.iter().find(|(k, _)| is(k)).map(|(_, v)| v),
            Value::Array(items) => {
                items.chunks_exact(2).find(|pair| is(&pair[0])).map(|pair| &pair[1])
            }
            _ => None,
        }
    }
}

/// Prints bytes as a double-quoted string with `\r`, `\n` and `\xHH` escapes.
pub fn quote(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for &b in bytes {
        match b {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            0x20..=0x7e => out.push(b as char),
            _ => out.push_str(&format!("\\x{b:02x}")),
        }
    }
    out.push('"');
    out
}

/// Like [`quote`], without the middle of a long string.
pub fn quote_short(bytes: &[u8]) -> String {
    const WHOLE: usize = 300;
    if bytes.len() <= WHOLE {
        return quote(bytes);
    }
    let (head, tail) = (&bytes[..WHOLE / 2], &bytes[bytes.len() - WHOLE / 2..]);
    format!("{}...({} bytes)...{}", quote(head), bytes.len(), quote(tail))
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, open: &str, items: &[Value], close: &str| {
            f.write_str(open)?;
            for (i, item) in items.iter().enumerate() {
                write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
            }
            f.write_str(close)
        };
        let map = |f: &mut fmt::Formatter<'_>, pairs: &[(Value, Value)]| {
            f.write_str("{")?;
            for (i, (key, value)) in pairs.iter().enumerate() {
                write!(f, "{}{key}: {value}", if i == 0 { "" } else { ", " })?;
            }
            f.write_str("}")
        };
        match self {
            Value::Simple(text) => write!(f, "+{}", String::from_utf8_lossy(text)),
            Value::Error(text) => write!(f, "-{}", String::from_utf8_lossy(text)),
            Value::BulkError(text) => write!(f, "!{}", quote_short(text)),
            Value::Integer(n) => write!(f, "{n}"),
            Value::Bulk(bytes) => f.write_str(&quote_short(bytes)),
            Value::Verbatim(format, text) => {
                write!(f, "={}:{}", String::from_utf8_lossy(format), quote_short(text))
            }
            Value::Double(text) => write!(f, ",{}", String::from_utf8_lossy(text)),
            Value::BigNumber(text) => write!(f, "({}", String::from_utf8_lossy(text)),
            Value::Bool(b) => write!(f, "#{b}"),
            Value::Null => f.write_str("null"),
            Value::NullBulk => f.write_str("null-bulk"),
            Value::NullArray => f.write_str("null-array"),
            Value::Array(items) => list(f, "[", items, "]"),
            Value::Set(items) => list(f, "~[", items, "]"),
            Value::Push(items) => list(f, ">[", items, "]"),
            Value::Map(pairs) => map(f, pairs),
            Value::Attribute(pairs, value) => {
                f.write_str("|")?;
                map(f, pairs)?;
                write!(f, " {value}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.as_bytes().to_vec())
    }

    /// One value of each type, in the examples of the protocol's specification.
    fn specimens() -> Vec<(&'static [u8], Value)> {
        vec![
            (b"+OK\r\n", Value::Simple(b"OK".to_vec())),
            (b"-ERR no\r\n", Value::Error(b"ERR no".to_vec())),
            (b":-42\r\n", Value::Integer(-42)),
            (b"$3\r\na\r\n\r\n", bulk("a\r\n")),
            (b"$0\r\n\r\n", bulk("")),
            (b"$-1\r\n", Value::NullBulk),
            (b"*-1\r\n", Value::NullArray),
            (b"_\r\n", Value::Null),
            (b"#t\r\n", Value::Bool(true)),
            (b",1.50\r\n", Value::Double(b"1.50".to_vec())),
            (b"(123456789012345678901\r\n", Value::BigNumber(b"123456789012345678901".to_vec())),
            (b"!5\r\nE a\nb\r\n", Value::BulkError(b"E a\nb".to_vec())),
            (b"=6\r\ntxt:hi\r\n", Value::Verbatim(b"txt".to_vec(), b"hi".to_vec())),
            (b"*2\r\n:1\r\n*0\r\n", Value::Array(vec![Value::Integer(1), Value::Array(vec![])])),
            (b"~1\r\n:1\r\n", Value::Set(vec![Value::Integer(1)])),
            (b">1\r\n+m\r\n", Value::Push(vec![Value::Simple(b"m".to_vec())])),
            (
                b"%1\r\n+k\r\n:1\r\n",
                Value::Map(vec![(Value::Simple(b"k".to_vec()), Value::Integer(1))]),
            ),
            (
                b"|1\r\n+k\r\n:1\r\n:7\r\n",
                Value::Attribute(
                    vec![(Value::Simple(b"k".to_vec()), Value::Integer(1))],
                    Box::new(Value::Integer(7)),
                ),
            ),
        ]
    }

    #[test]
    fn incomplete_values_are_not_parsed() {
        for (wire, value) in specimens() {
            assert_eq!(parse(wire), Ok(Some((value, wire.len()))), "{}", quote(wire));
            for cut in 0..wire.len() {
                assert_eq!(parse(&wire[..cut]), Ok(None), "{} cut at {cut}", quote(wire));
            }
        }
    }

    #[test]
    fn bytes_after_a_value_stay_unread() {
        assert_eq!(parse(b":1\r\n:2\r\n"), Ok(Some((Value::Integer(1), 4))));
    }

    #[test]
    fn invalid_bytes_are_refused() {
        for wire in [
            &b"x\r\n"[..],
            b":1\n",
            b":a\r\n",
            b"$1\r\nabc",
            b"#x\r\n",
            b"~-1\r\n",
            b"$-2\r\n",
            b"=2\r\nab\r\n",
        ] {
            assert!(parse(wire).is_err(), "{}", quote(wire));
        }
        assert!(parse(&b"*1\r\n".repeat(MAX_DEPTH + 2)).is_err());
    }

    #[test]
    fn fields_are_found_in_both_kinds_of_map() {
        let flat = Value::Array(vec![bulk("a"), bulk("b"), bulk("c"), Value::Integer(1)]);
        assert_eq!(flat.field("c"), Some(&Value::Integer(1)));
        assert_eq!(flat.field("b"), None);
        let map = Value::Map(vec![(bulk("a"), Value::Null)]);
        assert_eq!(map.field("a"), Some(&Value::Null));
    }
}
