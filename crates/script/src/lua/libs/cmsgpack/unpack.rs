//! MessagePack to Lua values.

use super::super::{check_integer, check_stack, check_string, error_when_full, integer_or};
use crate::lua::frame::{Frame, Kind, Raised};
use std::ops::Range;

const MISSING: &str = "Missing bytes in input.";

/// `unpack(bytes)`: all values.
pub(super) fn unpack(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    unpack_some(frame, 0, 0)
}

/// `unpack_one(bytes, [offset])`: the next offset and one value.
pub(super) fn unpack_one(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let offset = integer_or(frame, 2, 0)?;
    frame.pop(frame.len().saturating_sub(1));
    unpack_some(frame, 1, offset)
}

/// `unpack_limit(bytes, limit, [offset])`: the next offset and up to `limit` values.
pub(super) fn unpack_limit(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let limit = check_integer(frame, 2)?;
    let offset = integer_or(frame, 3, 0)?;
    frame.pop(frame.len().saturating_sub(1));
    unpack_some(frame, limit, offset)
}

/// Without limit and offset: all values, and no offset. The next offset is -1 at the end.
fn unpack_some(frame: &mut Frame<'_>, limit: i64, offset: i64) -> Result<usize, Raised> {
    check_string(frame, 1)?;
    let len = frame.length(1);
    if offset < 0 || limit < 0 {
        // The reference prints the length in place of the limit.
        return Err(frame.error(format!(
            "Invalid request to unpack with offset of {} and limit of {}.",
            offset as i32, len as i32
        )));
    }
    if offset as usize > len {
        return Err(frame.error(format!(
            "Start offset {} greater than input length {}.",
            offset as i32, len as i32
        )));
    }
    let is_all = limit == 0 && offset == 0;
    let most = if is_all { i64::from(i32::MAX) } else { limit };
    let mut unpacker = Unpacker { at: offset as usize, levels: Vec::new(), open_arrays: 0 };
    let mut results = 0;
    while unpacker.at < len && (results as i64) < most {
        unpacker.value(frame)?;
        results += 1;
    }
    if !is_all {
        check_stack(frame, 0, 1, "in function mp_unpack_full")?;
        let next = if unpacker.at == len { -1.0 } else { unpacker.at as f64 };
        frame.push_number(next);
        frame.insert(2);
        results += 1;
    }
    Ok(results)
}

/// A value, or the head of an array or map.
enum Item {
    Nil,
    Boolean(bool),
    Number(f64),
    /// The positions of a string in the input.
    Bytes(Range<usize>),
    /// An array or map of so many elements.
    Array(usize),
    Map(usize),
}

enum Bad {
    End,
    Format,
}

/// An array or map of which elements are missing. It is on Lua's stack; the key of a map follows it.
enum Level {
    Array { len: usize, next: usize },
    Map { left: usize, has_key: bool },
}

struct Unpacker {
    at: usize,
    levels: Vec<Level>,
    /// The reference has the index of each on its stack.
    open_arrays: usize,
}

impl Unpacker {
    /// Unpacks and pushes one value.
    fn value(&mut self, frame: &mut Frame<'_>) -> Result<(), Raised> {
        loop {
            frame.check_memory()?;
            let input = frame.bytes(1).unwrap_or_default();
            if self.at == input.len() {
                return Err(error_when_full(frame, MISSING));
            }
            let item = read(input, self.at);
            check_stack(
                frame,
                self.open_arrays,
                1,
                "too many return values at once; use unpack_one or unpack_limit instead.",
            )?;
            match item {
                Ok((item, end)) => {
                    self.at = end;
                    self.push(frame, item)?;
                }
                Err(Bad::End) => return Err(error_when_full(frame, MISSING)),
                Err(Bad::Format) => {
                    return Err(error_when_full(frame, "Bad data format in input."));
                }
            }
            if self.complete(frame)? {
                return Ok(());
            }
        }
    }

    /// Pushes a value, or an array or map without its elements.
    fn push(&mut self, frame: &mut Frame<'_>, item: Item) -> Result<(), Raised> {
        match item {
            Item::Nil => frame.push_nil(),
            Item::Boolean(value) => frame.push_bool(value),
            Item::Number(number) => frame.push_number(number),
            Item::Bytes(range) => frame.push_part(1, range),
            Item::Array(len) => {
                frame.push_table(0, 0);
                let place = "in function mp_decode_to_lua_array";
                check_stack(frame, self.open_arrays, 1, place)?;
                self.levels.push(Level::Array { len, next: 0 });
                self.open_arrays += 1;
                return Ok(());
            }
            Item::Map(left) => {
                frame.push_table(0, 0);
                self.levels.push(Level::Map { left, has_key: false });
                return Ok(());
            }
        }
        self.add(frame)
    }

    /// Adds the last value to the array or map to which it belongs, if there is one.
    fn add(&mut self, frame: &mut Frame<'_>) -> Result<(), Raised> {
        match self.levels.last_mut() {
            None => {}
            Some(Level::Array { next, .. }) => {
                *next += 1;
                frame.set_index(-2, *next as i64);
            }
            Some(Level::Map { has_key: has_key @ false, .. }) => *has_key = true,
            Some(Level::Map { left, has_key }) => {
                *left -= 1;
                *has_key = false;
                let is_nil = frame.kind(-2) == Kind::Nil;
                if !frame.set(-3) {
                    frame.push_bytes(if is_nil {
                        b"table index is nil"
                    } else {
                        b"table index is NaN"
                    });
                    return Err(frame.raise());
                }
            }
        }
        Ok(())
    }

    /// Closes the arrays and maps that have all their elements. Returns whether none is open.
    fn complete(&mut self, frame: &mut Frame<'_>) -> Result<bool, Raised> {
        while let Some(level) = self.levels.last() {
            match level {
                Level::Array { len, next } if len == next => self.open_arrays -= 1,
                Level::Map { left: 0, .. } => {}
                Level::Array { .. } | Level::Map { .. } => return Ok(false),
            }
            self.levels.pop();
            self.add(frame)?;
        }
        Ok(true)
    }
}

/// Reads the item at `at`, and returns it and the position after it (or after its head).
fn read(input: &[u8], at: usize) -> Result<(Item, usize), Bad> {
    let mut reader = Reader { input, at: at + 1 };
    let code = input[at];
    let item = match code {
        0x00..=0x7f => Item::Number(f64::from(code)),
        0xe0..=0xff => Item::Number(f64::from(code as i8)),
        0x80..=0x8f => Item::Map(usize::from(code & 0xf)),
        0x90..=0x9f => Item::Array(usize::from(code & 0xf)),
        0xa0..=0xbf => reader.bytes(usize::from(code & 0x1f))?,
        0xc0 => Item::Nil,
        0xc2 => Item::Boolean(false),
        0xc3 => Item::Boolean(true),
        0xca => Item::Number(f64::from(f32::from_be_bytes(reader.take()?))),
        0xcb => Item::Number(f64::from_be_bytes(reader.take()?)),
        0xcc => Item::Number(f64::from(u8::from_be_bytes(reader.take()?))),
        0xcd => Item::Number(f64::from(u16::from_be_bytes(reader.take()?))),
        0xce => Item::Number(f64::from(u32::from_be_bytes(reader.take()?))),
        // The reference reads the unsigned one as signed, too.
        0xcf | 0xd3 => Item::Number(i64::from_be_bytes(reader.take()?) as f64),
        0xd0 => Item::Number(f64::from(i8::from_be_bytes(reader.take()?))),
        0xd1 => Item::Number(f64::from(i16::from_be_bytes(reader.take()?))),
        0xd2 => Item::Number(f64::from(i32::from_be_bytes(reader.take()?))),
        0xd9..=0xdb => {
            let len = reader.len(code - 0xd9)?;
            reader.bytes(len)?
        }
        0xdc | 0xdd => Item::Array(reader.len(code - 0xdc + 1)?),
        0xde | 0xdf => Item::Map(reader.len(code - 0xde + 1)?),
        0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => return Err(Bad::Format),
    };
    Ok((item, reader.at))
}

struct Reader<'a> {
    input: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        let bytes = self.input[self.at..].first_chunk().ok_or(Bad::End)?;
        self.at += N;
        Ok(*bytes)
    }

    /// A length of 8, 16 or 32 bits, for `width` 0, 1 and 2.
    fn len(&mut self, width: u8) -> Result<usize, Bad> {
        Ok(match width {
            0 => usize::from(u8::from_be_bytes(self.take()?)),
            1 => usize::from(u16::from_be_bytes(self.take()?)),
            _ => u32::from_be_bytes(self.take()?) as usize,
        })
    }

    fn bytes(&mut self, len: usize) -> Result<Item, Bad> {
        let end = self.at + len;
        if end > self.input.len() {
            return Err(Bad::End);
        }
        let range = self.at..end;
        self.at = end;
        Ok(Item::Bytes(range))
    }
}
