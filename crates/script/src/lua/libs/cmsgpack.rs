//! `cmsgpack`: values as MessagePack (<https://github.com/msgpack/msgpack/blob/master/spec.md>).

use super::{integer, integer_or, string};
use crate::lua::frame::{Frame, Kind, Native, Raised};

pub(super) const FUNCTIONS: &[(&str, Native)] = &[
    ("pack", pack),
    ("unpack", unpack),
    ("unpack_limit", unpack_limit),
    ("unpack_one", unpack_one),
];

pub(super) const TEXTS: [(&str, &str); 4] = [
    ("_NAME", "cmsgpack"),
    ("_VERSION", "lua-cmsgpack 0.4.0"),
    ("_COPYRIGHT", "Copyright (C) 2012, Redis Ltd."),
    ("_DESCRIPTION", "MessagePack C implementation for Lua"),
];

/// Tables that are nested deeper are packed as nil.
const MOST_NESTING: usize = 16;

/// Values that are nested deeper are not unpacked: a thread has a stack of 2 MB.
const MOST_UNPACKED_NESTING: usize = 2000;

fn pack(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let values = frame.len();
    if values == 0 {
        return Err(frame.bad_argument(0, "MessagePack pack needs input."));
    }
    let mut out = Vec::new();
    for at in 1..=values {
        frame.push_copy(at as i32);
        pack_value(frame, &mut out, 0);
    }
    frame.push_bytes(&out);
    Ok(1)
}

/// Packs the last value, and removes it.
fn pack_value(frame: &mut Frame<'_>, out: &mut Vec<u8>, level: usize) {
    match frame.kind(-1) {
        Kind::String => pack_bytes(frame.bytes(-1).unwrap_or_default(), out),
        Kind::Boolean => out.push(0xc2 + u8::from(frame.is_true(-1))),
        Kind::Number => pack_number(frame.number(-1).unwrap_or_default(), out),
        Kind::Table if level < MOST_NESTING => pack_table(frame, out, level),
        _ => out.push(0xc0),
    }
    frame.pop(1);
}

/// A head of one of three widths: its byte and a length of one, two or four bytes. `None`: there is no such width.
fn pack_length(len: usize, heads: [Option<u8>; 3], out: &mut Vec<u8>) {
    match (heads, u8::try_from(len), u16::try_from(len)) {
        ([Some(head), ..], Ok(len), _) => out.extend_from_slice(&[head, len]),
        ([_, Some(head), _], _, Ok(len)) => {
            out.push(head);
            out.extend_from_slice(&len.to_be_bytes());
        }
        ([_, _, head], ..) => {
            out.push(head.unwrap_or_default());
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}

fn pack_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    match bytes.len() {
        short @ 0..32 => out.push(0xa0 | short as u8),
        len => pack_length(len, [Some(0xd9), Some(0xda), Some(0xdb)], out),
    }
    out.extend_from_slice(bytes);
}

fn pack_number(number: f64, out: &mut Vec<u8>) {
    let integer = number as i64;
    if integer as f64 != number || integer == i64::MAX {
        let short = number as f32;
        if f64::from(short) == number {
            out.push(0xca);
            out.extend_from_slice(&short.to_be_bytes());
        } else {
            out.push(0xcb);
            out.extend_from_slice(&number.to_be_bytes());
        }
        return;
    }
    let (head, bytes): (u8, &[u8]) = match integer {
        -32..=0x7f => return out.push(integer as u8),
        0x80..=0xff => (0xcc, &[integer as u8]),
        0x100..=0xffff => (0xcd, &(integer as u16).to_be_bytes()),
        0x1_0000..=0xffff_ffff => (0xce, &(integer as u32).to_be_bytes()),
        0x1_0000_0000.. => (0xcf, &integer.to_be_bytes()),
        -0x80..-32 => (0xd0, &[integer as u8]),
        -0x8000..-0x80 => (0xd1, &(integer as u16).to_be_bytes()),
        -0x8000_0000..-0x8000 => (0xd2, &(integer as u32).to_be_bytes()),
        ..-0x8000_0000 => (0xd3, &integer.to_be_bytes()),
    };
    out.push(head);
    out.extend_from_slice(bytes);
}

/// Packs the table that is the last value, and keeps it.
fn pack_table(frame: &mut Frame<'_>, out: &mut Vec<u8>, level: usize) {
    if !frame.reserve(3) {
        return out.push(0xc0);
    }
    let (is_array, entries) = shape(frame);
    if is_array {
        let len = frame.length(-1);
        match len {
            0..16 => out.push(0x90 | len as u8),
            _ => pack_length(len, [None, Some(0xdc), Some(0xdd)], out),
        }
        for n in 1..=len as i64 {
            frame.get_index(-1, n);
            pack_value(frame, out, level + 1);
        }
        return;
    }
    match entries {
        0..16 => out.push(0x80 | entries as u8),
        _ => pack_length(entries, [None, Some(0xde), Some(0xdf)], out),
    }
    frame.push_nil();
    while frame.next(-2) {
        frame.push_copy(-2);
        pack_value(frame, out, level + 1);
        pack_value(frame, out, level + 1);
    }
}

/// Whether the keys of the table that is the last value are 1, 2, 3 ...; and their number. O(entries).
fn shape(frame: &mut Frame<'_>) -> (bool, usize) {
    let (mut entries, mut highest, mut is_array) = (0, 0.0, true);
    frame.push_nil();
    while frame.next(-2) {
        frame.pop(1);
        entries += 1;
        let key = (frame.kind(-1) == Kind::Number).then(|| frame.number(-1)).flatten();
        match key.filter(|key| *key > 0.0 && *key == key.trunc()) {
            Some(key) => highest = f64::max(highest, key),
            None => is_array = false,
        }
    }
    (is_array && highest == entries as f64, entries)
}

fn unpack(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    unpack_from(frame, 0, 0)
}

fn unpack_one(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let offset = integer_or(frame, 2, 0)?;
    unpack_from(frame, 1, offset)
}

fn unpack_limit(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let limit = integer(frame, 2)?;
    let offset = integer_or(frame, 3, 0)?;
    unpack_from(frame, limit, offset)
}

/// Unpacks at most `limit` values from `offset` on, and returns the position after them first. Without both, it unpacks
/// all values, and returns no position.
fn unpack_from(frame: &mut Frame<'_>, limit: i64, offset: i64) -> Result<usize, Raised> {
    let data = string(frame, 1)?;
    let len = data.len() as i64;
    if offset < 0 || limit < 0 {
        return Err(frame.error(format!(
            "Invalid request to unpack with offset of {offset} and limit of {len}."
        )));
    }
    if offset > len {
        return Err(frame.error(format!("Start offset {offset} greater than input length {len}.")));
    }
    let is_whole = limit == 0 && offset == 0;
    let mut input = Input { left: &data[offset as usize..], failed: None };
    frame.pop(frame.len() - 1);
    let mut values = 0;
    while !input.left.is_empty() && (is_whole || values < limit) {
        if !frame.reserve(5) {
            let text = "too many return values at once; use unpack_one or unpack_limit instead.";
            return Err(frame.error(format!("stack overflow ({text})")));
        }
        if push_value(frame, &mut input, 0).is_none() {
            let text = input.failed.unwrap_or("Missing bytes in input.");
            return Err(frame.error(text));
        }
        values += 1;
    }
    if is_whole {
        return Ok(values as usize);
    }
    let position = if input.left.is_empty() { -1 } else { len - input.left.len() as i64 };
    frame.push_number(position as f64);
    frame.insert(2);
    Ok(values as usize + 1)
}

/// The packed bytes that follow.
struct Input<'a> {
    left: &'a [u8],
    /// The error, unless bytes are missing.
    failed: Option<&'static str>,
}

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(len)?;
        self.left = left;
        Some(taken)
    }

    /// An integer of `len` bytes, without sign.
    fn unsigned(&mut self, len: usize) -> Option<u64> {
        Some(self.take(len)?.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, len: usize) -> Option<f64> {
        let unused = 64 - 8 * len as u32;
        self.unsigned(len).map(|n| ((n << unused) as i64 >> unused) as f64)
    }

    fn fail<T>(&mut self, text: &'static str) -> Option<T> {
        self.failed = Some(text);
        None
    }
}

/// Pushes the next value. `None`: it can't be unpacked.
fn push_value(frame: &mut Frame<'_>, input: &mut Input<'_>, depth: usize) -> Option<()> {
    let head = input.unsigned(1)? as u8;
    match head {
        0..=0x7f => frame.push_number(f64::from(head)),
        0xe0.. => frame.push_number(f64::from(head as i8)),
        0x80..=0x8f => push_map(frame, input, usize::from(head & 15), depth)?,
        0x90..=0x9f => push_array(frame, input, usize::from(head & 15), depth)?,
        0xa0..=0xbf => frame.push_bytes(input.take(usize::from(head & 31))?),
        0xc0 => frame.push_nil(),
        0xc2 | 0xc3 => frame.push_bool(head == 0xc3),
        0xca => frame.push_number(f64::from(f32::from_bits(input.unsigned(4)? as u32))),
        0xcb => frame.push_number(f64::from_bits(input.unsigned(8)?)),
        0xcc..=0xce => frame.push_number(input.unsigned(1 << (head - 0xcc))? as f64),
        // With a sign, as the original.
        0xcf => frame.push_number(input.signed(8)?),
        0xd0..=0xd3 => frame.push_number(input.signed(1 << (head - 0xd0))?),
        0xd9..=0xdb => {
            let len = input.unsigned(1 << (head - 0xd9))? as usize;
            frame.push_bytes(input.take(len)?);
        }
        0xdc | 0xdd => {
            let len = input.unsigned(2 << (head - 0xdc))? as usize;
            push_array(frame, input, len, depth)?;
        }
        0xde | 0xdf => {
            let len = input.unsigned(2 << (head - 0xde))? as usize;
            push_map(frame, input, len, depth)?;
        }
        0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => return input.fail("Bad data format in input."),
    }
    Some(())
}

fn push_array(
    frame: &mut Frame<'_>,
    input: &mut Input<'_>,
    len: usize,
    depth: usize,
) -> Option<()> {
    if depth > MOST_UNPACKED_NESTING || !frame.reserve(3) {
        return input.fail("stack overflow (in function mp_decode_to_lua_array)");
    }
    frame.push_table(len.min(input.left.len()), 0);
    for n in 1..=len as i64 {
        push_value(frame, input, depth + 1)?;
        frame.set_index(-2, n);
    }
    Some(())
}

fn push_map(frame: &mut Frame<'_>, input: &mut Input<'_>, len: usize, depth: usize) -> Option<()> {
    if depth > MOST_UNPACKED_NESTING || !frame.reserve(4) {
        return input.fail("stack overflow (in function mp_decode_to_lua_hash)");
    }
    frame.push_table(0, len.min(input.left.len()));
    for _ in 0..len {
        push_value(frame, input, depth + 1)?;
        push_value(frame, input, depth + 1)?;
        if !frame.set(-3) {
            return input.fail("table index is nil");
        }
    }
    Some(())
}
