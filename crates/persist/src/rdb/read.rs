//! Reads lengths, numbers and strings.

use super::lzf;
use super::{Fault, Source};
use weft_types::string::Digits;

/// The head of a string.
enum Head {
    Len(u64),
    Int(i64),
    Lzf,
}

fn head<S: Source>(from: &mut S) -> Result<Head, Fault> {
    let [first] = from.array()?;
    Ok(match first {
        0x00..=0xbf => Head::Len(rest_of_len(first, from)?),
        0xc0 => Head::Int(i64::from(i8::from_le_bytes(from.array()?))),
        0xc1 => Head::Int(i64::from(i16::from_le_bytes(from.array()?))),
        0xc2 => Head::Int(i64::from(i32::from_le_bytes(from.array()?))),
        0xc3 => Head::Lzf,
        0xc4..=0xff => return Err(Fault::Corrupt("an invalid first byte of a string")),
    })
}

/// Reads the rest of a length that begins with this byte.
fn rest_of_len<S: Source>(first: u8, from: &mut S) -> Result<u64, Fault> {
    Ok(match first {
        0x00..=0x3f => u64::from(first),
        0x40..=0x7f => {
            let [low] = from.array()?;
            u64::from(first & 0x3f) << 8 | u64::from(low)
        }
        0x80 => u64::from(u32::from_be_bytes(from.array()?)),
        0x81 => u64::from_be_bytes(from.array()?),
        0x82..=0xbf => return Err(Fault::Corrupt("an invalid first byte of a length")),
        // The head of a number or a compressed string is invalid here: the reference reads a short
        // length.
        0xc0..=0xff => u64::from(first & 0x3f),
    })
}

/// Reads a length.
pub fn len<S: Source>(from: &mut S) -> Result<u64, Fault> {
    let [first] = from.array()?;
    rest_of_len(first, from)
}

fn size(n: u64) -> Result<usize, Fault> {
    usize::try_from(n).map_err(|_| Fault::Short)
}

/// Reads a number of bytes or elements.
pub fn count<S: Source>(from: &mut S) -> Result<usize, Fault> {
    size(len(from)?)
}

/// Reads a string into `text`, replacing its content. O(length). Memory is bounded by the length,
/// or by [`lzf::FACTOR`] times the bytes read. A compressed string's length is subtracted from
/// `plain_left`, and is an error if it exceeds that.
pub fn string<S: Source>(
    from: &mut S,
    text: &mut Vec<u8>,
    plain_left: &mut usize,
) -> Result<(), Fault> {
    text.clear();
    match head(from)? {
        Head::Len(n) => from.append(size(n)?, text),
        Head::Int(n) => {
            text.extend_from_slice(Digits::new().format(n).as_bytes());
            Ok(())
        }
        Head::Lzf => {
            let (packed, plain) = (count(from)?, count(from)?);
            *plain_left = plain_left.checked_sub(plain).ok_or(Fault::Long)?;
            let mut block = Vec::new();
            from.append(packed, &mut block)?;
            lzf::decompress(&block, plain, text).ok_or(Fault::Corrupt("a broken compressed string"))
        }
    }
}

/// Skips a string. O(1) memory.
pub fn skip_string<S: Source>(from: &mut S) -> Result<(), Fault> {
    match head(from)? {
        Head::Len(n) => from.skip(size(n)?),
        Head::Int(_) => Ok(()),
        Head::Lzf => {
            let (packed, _plain) = (count(from)?, len(from)?);
            from.skip(packed)
        }
    }
}

/// Reads a score in binary form. It may be NaN.
pub fn double<S: Source>(from: &mut S) -> Result<f64, Fault> {
    Ok(f64::from_le_bytes(from.array()?))
}

/// Reads a score as text: its length in a byte, or a special byte for NaN and infinities.
pub fn double_as_text<S: Source>(from: &mut S) -> Result<f64, Fault> {
    let [n] = from.array()?;
    match n {
        253 => Ok(f64::NAN),
        254 => Ok(f64::INFINITY),
        255 => Ok(f64::NEG_INFINITY),
        0..=252 => {
            let mut text = Vec::new();
            from.append(usize::from(n), &mut text)?;
            score(&text)
        }
    }
}

/// Parses all of `text` as a score.
pub fn score(text: &[u8]) -> Result<f64, Fault> {
    let whole = !text.is_empty() && !text.contains(&0);
    let score = if whole { weft_base::num::parse_f64_bound(text) } else { None };
    score.ok_or(Fault::Corrupt("a score that is not a number"))
}

/// Reads a signed number of eight bytes.
pub fn signed<S: Source>(from: &mut S) -> Result<i64, Fault> {
    Ok(i64::from_le_bytes(from.array()?))
}
