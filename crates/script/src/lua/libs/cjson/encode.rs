//! Lua values to JSON.

use super::super::number::{append_general, to_i32};
use super::super::{error_when_full, unwrap_proxy};
use super::settings::{Setting, read};
use crate::lua::frame::{Frame, Kind, Raised};

/// An array or object that is being written. Its table is on Lua's stack; an object's last key follows it.
enum Level {
    Array { len: i64, next: i64 },
    Object { is_first: bool },
}

struct Encoder {
    out: Vec<u8>,
    levels: Vec<Level>,
    sparse_converts: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    most_depth: i32,
    invalid_numbers: i32,
    precision: usize,
}

pub(super) fn encode(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    if frame.len() != 1 {
        return Err(frame.bad_argument(1, "expected 1 argument"));
    }
    use Setting::*;
    let settings = read(
        frame,
        [SparseConvert, SparseRatio, SparseSafe, EncodeDepth, EncodeInvalid, Precision],
    );
    let [sparse_converts, sparse_ratio, sparse_safe, most_depth, invalid_numbers, precision] =
        settings;
    let mut encoder = Encoder {
        out: Vec::new(),
        levels: Vec::new(),
        sparse_converts: sparse_converts == 1,
        sparse_ratio,
        sparse_safe,
        most_depth,
        invalid_numbers,
        precision: precision as usize,
    };
    encoder.value(frame)?;
    frame.check_room(encoder.out.len())?;
    frame.push_bytes(&encoder.out);
    Ok(1)
}

/// An error about the value at `at`.
fn refuse(frame: &mut Frame<'_>, at: i32, reason: &str) -> Raised {
    let kind = frame.kind(at).name();
    frame.error(format!("Cannot serialise {kind}: {reason}"))
}

impl Encoder {
    /// Writes the last value, which stays. Not recursive: a script may set any depth.
    fn value(&mut self, frame: &mut Frame<'_>) -> Result<(), Raised> {
        loop {
            let is_complete = match frame.kind(-1) {
                Kind::Table => {
                    self.open(frame)?;
                    false
                }
                _ => {
                    self.scalar(frame)?;
                    true
                }
            };
            frame.check_output(self.out.len())?;
            if !self.advance(frame, is_complete)? {
                return Ok(());
            }
        }
    }

    /// Begins an array or object.
    fn open(&mut self, frame: &mut Frame<'_>) -> Result<(), Raised> {
        let depth = self.levels.len() as i32 + 1;
        if depth > self.most_depth || !frame.reserve(3) {
            let text = format!("Cannot serialise, excessive nesting ({depth})");
            return Err(error_when_full(frame, text));
        }
        unwrap_proxy(frame);
        match self.array_length(frame)? {
            Some(len) if len > 0 => {
                self.out.push(b'[');
                self.levels.push(Level::Array { len: i64::from(len), next: 1 });
            }
            _ => {
                self.out.push(b'{');
                frame.push_nil();
                self.levels.push(Level::Object { is_first: true });
            }
        }
        Ok(())
    }

    /// Pushes the value that follows. `is_complete`: the last value was written. Returns false after the last one.
    fn advance(&mut self, frame: &mut Frame<'_>, mut is_complete: bool) -> Result<bool, Raised> {
        loop {
            let Some(level) = self.levels.last_mut() else { return Ok(false) };
            if is_complete {
                frame.pop(1);
            }
            match level {
                Level::Array { len, next } if *next <= *len => {
                    if *next > 1 {
                        self.out.push(b',');
                    }
                    frame.get_index(-1, *next);
                    *next += 1;
                    return Ok(true);
                }
                Level::Array { .. } => self.out.push(b']'),
                Level::Object { is_first } => {
                    if frame.next(-2) {
                        if !std::mem::take(is_first) {
                            self.out.push(b',');
                        }
                        self.key(frame)?;
                        return Ok(true);
                    }
                    self.out.push(b'}');
                }
            }
            self.levels.pop();
            is_complete = true;
        }
    }

    /// Writes the key before the last value.
    fn key(&mut self, frame: &mut Frame<'_>) -> Result<(), Raised> {
        match frame.kind(-2) {
            Kind::Number => {
                self.out.push(b'"');
                self.number(frame, -2)?;
                self.out.extend_from_slice(b"\":");
            }
            Kind::String => {
                self.string(frame, -2)?;
                self.out.push(b':');
            }
            _ => return Err(refuse(frame, -2, "table key must be a number or string")),
        }
        Ok(())
    }

    fn scalar(&mut self, frame: &mut Frame<'_>) -> Result<(), Raised> {
        match frame.kind(-1) {
            Kind::String => self.string(frame, -1)?,
            Kind::Number => self.number(frame, -1)?,
            Kind::Boolean if frame.is_true(-1) => self.out.extend_from_slice(b"true"),
            Kind::Boolean => self.out.extend_from_slice(b"false"),
            Kind::Nil => self.out.extend_from_slice(b"null"),
            Kind::LightUserdata if frame.address(-1) == 0 => {
                self.out.extend_from_slice(b"null");
            }
            _ => return Err(refuse(frame, -1, "type not supported")),
        }
        Ok(())
    }

    fn string(&mut self, frame: &mut Frame<'_>, at: i32) -> Result<(), Raised> {
        let text = frame.bytes(at).unwrap_or_default();
        let len = self.out.len() + text.len();
        // Few strings are so long that their length with escapes matters.
        if len + 5 * text.len() > Frame::MOST_OUTPUT {
            let more: usize = text.iter().map(|byte| escape_len(*byte)).sum();
            frame.check_output(len + more)?;
        }
        append_string(&mut self.out, frame.bytes(at).unwrap_or_default());
        Ok(())
    }

    fn number(&mut self, frame: &mut Frame<'_>, at: i32) -> Result<(), Raised> {
        let number = frame.number(at).unwrap_or_default();
        match self.invalid_numbers {
            _ if number.is_finite() => append_general(&mut self.out, number, self.precision),
            0 => return Err(refuse(frame, at, "must not be NaN or Inf")),
            1 if number.is_nan() => self.out.extend_from_slice(b"nan"),
            1 => append_general(&mut self.out, number, self.precision),
            _ => self.out.extend_from_slice(b"null"),
        }
        Ok(())
    }

    /// The largest index of the table that is the last value; `None` if it becomes an object, for another key or
    /// because it is sparse. An index over 2^31 - 1 is the smallest number, as in the reference.
    fn array_length(&mut self, frame: &mut Frame<'_>) -> Result<Option<i32>, Raised> {
        let (mut most, mut items) = (0_i32, 0_i32);
        frame.push_nil();
        while frame.next(-2) {
            let key = match frame.kind(-2) {
                Kind::Number => frame.number(-2).unwrap_or_default(),
                _ => 0.0,
            };
            if key < 1.0 || key.floor() != key {
                frame.pop(2);
                return Ok(None);
            }
            if key > f64::from(most) {
                most = to_i32(key);
            }
            items = items.wrapping_add(1);
            frame.pop(1);
        }
        let is_sparse = self.sparse_ratio > 0
            && most > items.wrapping_mul(self.sparse_ratio)
            && most > self.sparse_safe;
        match is_sparse {
            false => Ok(Some(most)),
            true if self.sparse_converts => Ok(None),
            true => Err(refuse(frame, -1, "excessively sparse array")),
        }
    }
}

/// The escape of each byte: 0 for none, `u` for its code, else the letter after the backslash.
const ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        escapes[byte] = b'u';
        byte += 1;
    }
    escapes[0x7f] = b'u';
    escapes[0x08] = b'b';
    escapes[b'\t' as usize] = b't';
    escapes[b'\n' as usize] = b'n';
    escapes[0x0c] = b'f';
    escapes[b'\r' as usize] = b'r';
    escapes[b'"' as usize] = b'"';
    escapes[b'\\' as usize] = b'\\';
    escapes[b'/' as usize] = b'/';
    escapes
};

/// Bytes that the escape of a byte adds.
fn escape_len(byte: u8) -> usize {
    match ESCAPES[usize::from(byte)] {
        0 => 0,
        b'u' => 5,
        _ => 1,
    }
}

fn append_string(out: &mut Vec<u8>, text: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text;
    while let Some(len) = rest.iter().position(|byte| ESCAPES[usize::from(*byte)] != 0) {
        out.extend_from_slice(&rest[..len]);
        let byte = usize::from(rest[len]);
        match ESCAPES[byte] {
            b'u' => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[DIGITS[byte >> 4], DIGITS[byte & 15]]);
            }
            letter => out.extend_from_slice(&[b'\\', letter]),
        }
        rest = &rest[len + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}
