//! `struct`: values as the bytes of a C struct, by a format string.
//!
//! | option | value |
//! |---|---|
//! | `b` `B`, `h` `H`, `l` `L`, `T` | integer of 1, 2, 8, 8 bytes; small letters have a sign |
//! | `iN`, `IN` | integer of N bytes (4) |
//! | `f`, `d` | float, double |
//! | `x` | a zero byte |
//! | `cN` | N bytes (1); `c0`: all, or as many as the integer before it |
//! | `s` | bytes and a zero |
//! | `<` `>` | little or big endian |
//! | `!N` | alignment of up to N bytes (8) |

use super::{integer_or, number, string};
use crate::lua::frame::{Frame, Native, Raised};

pub(super) const FUNCTIONS: &[(&str, Native)] =
    &[("pack", pack), ("size", size), ("unpack", unpack)];

const MOST_INTEGER_SIZE: i64 = 32;

/// A format that is read option by option.
struct Format {
    text: Vec<u8>,
    at: usize,
    is_big: bool,
    align: i64,
}

impl Format {
    fn new(text: Vec<u8>) -> Self {
        Format { text, at: 0, is_big: false, align: 1 }
    }

    /// The next option, up to the end or a zero byte.
    fn next(&mut self) -> Option<u8> {
        let option = *self.text.get(self.at).filter(|option| **option != 0)?;
        self.at += 1;
        Some(option)
    }

    /// The digits that follow, as a number.
    fn digits(&mut self, frame: &mut Frame<'_>, otherwise: i64) -> Result<i64, Raised> {
        let mut n: Option<i64> = None;
        while let Some(digit) = self.text.get(self.at).filter(|b| b.is_ascii_digit()) {
            let more = n.unwrap_or(0) * 10 + i64::from(digit - b'0');
            if more > i64::from(i32::MAX) {
                return Err(frame.error("integral size overflow"));
            }
            n = Some(more);
            self.at += 1;
        }
        Ok(n.unwrap_or(otherwise))
    }

    /// The size of the value of an option; 0 if it has none, or if that depends on the value.
    fn size(&mut self, frame: &mut Frame<'_>, option: u8) -> Result<i64, Raised> {
        Ok(match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'f' => 4,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'c' => self.digits(frame, 1)?,
            b'i' | b'I' => {
                let size = self.digits(frame, 4)?;
                if size > MOST_INTEGER_SIZE {
                    return Err(frame.error(format!(
                        "integral size {size} is larger than limit of {MOST_INTEGER_SIZE}"
                    )));
                }
                size
            }
            _ => 0,
        })
    }

    /// The bytes to insert before a value of this size at `position`.
    fn padding(&self, position: i64, option: u8, size: i64) -> i64 {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.align);
        (size - (position & (size - 1))) & (size - 1)
    }

    /// An option that has no value.
    fn control(&mut self, frame: &mut Frame<'_>, option: u8) -> Result<(), Raised> {
        match option {
            b' ' => {}
            b'<' => self.is_big = false,
            b'>' => self.is_big = true,
            b'!' => {
                let align = self.digits(frame, 8)?;
                if align <= 0 || align & (align - 1) != 0 {
                    return Err(frame.error(format!("alignment {align} is not a power of 2")));
                }
                self.align = align;
            }
            other => {
                let text = format!("invalid format option '{}'", char::from(other));
                return Err(frame.bad_argument(1, &text));
            }
        }
        Ok(())
    }

    /// `bytes`, which are little endian, in this order.
    fn ordered<const N: usize>(&self, mut bytes: [u8; N]) -> [u8; N] {
        if self.is_big {
            bytes.reverse();
        }
        bytes
    }
}

fn pack(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let mut format = Format::new(string(frame, 1)?);
    // Marks the end of the arguments: the first missing one is nil.
    frame.push_nil();
    let mut out = Vec::new();
    let mut at = 2;
    while let Some(option) = format.next() {
        let size = format.size(frame, option)?;
        let padding = format.padding(out.len() as i64, option, size);
        out.resize(out.len() + padding as usize, 0);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                pack_integer(number(frame, at)?, size as usize, format.is_big, &mut out);
            }
            b'x' => out.push(0),
            b'f' => {
                out.extend_from_slice(&format.ordered((number(frame, at)? as f32).to_le_bytes()))
            }
            b'd' => out.extend_from_slice(&format.ordered(number(frame, at)?.to_le_bytes())),
            b'c' | b's' => {
                let text = string(frame, at)?;
                let size = if size == 0 { text.len() } else { size as usize };
                let Some(text) = text.get(..size) else {
                    return Err(frame.bad_argument(at + 1, "string too short"));
                };
                out.extend_from_slice(text);
                if option == b's' {
                    out.push(0);
                }
            }
            _ => {
                format.control(frame, option)?;
                continue;
            }
        }
        at += usize::from(option != b'x');
    }
    frame.push_bytes(&out);
    Ok(1)
}

/// As C programs on x86 convert a double. Other numbers than those of 64 bits have no defined result in C.
fn as_unsigned(number: f64) -> u64 {
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    match number {
        _ if number.is_nan() => 1 << 63,
        _ if number < 0.0 => number as i64 as u64,
        _ if number >= LIMIT => 0,
        _ => number as u64,
    }
}

fn pack_integer(number: f64, size: usize, is_big: bool, out: &mut Vec<u8>) {
    let value = as_unsigned(number);
    let from = out.len();
    let bytes = value.to_le_bytes();
    out.extend((0..size).map(|at| bytes.get(at).copied().unwrap_or(0)));
    if is_big {
        out[from..].reverse();
    }
}

fn unpack_integer(bytes: &[u8], is_signed: bool, is_big: bool) -> f64 {
    let join = |n: u64, byte: &u8| n << 8 | u64::from(*byte);
    let value = match is_big {
        true => bytes.iter().fold(0, join),
        false => bytes.iter().rev().fold(0, join),
    };
    if !is_signed || bytes.is_empty() {
        return value as f64;
    }
    // Shifts by more than 63 wrap, as on x86.
    let mask = u64::MAX << ((bytes.len() * 8 - 1) & 63);
    let value = if value & mask != 0 { value | mask } else { value };
    value as i64 as f64
}

fn size(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let mut format = Format::new(string(frame, 1)?);
    let mut position = 0_i64;
    while let Some(option) = format.next() {
        let size = format.size(frame, option)?;
        position += format.padding(position, option, size);
        match option {
            b's' => return Err(frame.bad_argument(1, "option 's' has no fixed size")),
            b'c' if size == 0 => return Err(frame.bad_argument(1, "option 'c0' has no fixed size")),
            _ if !option.is_ascii_alphanumeric() => format.control(frame, option)?,
            _ => {}
        }
        position += size;
    }
    frame.push_number(position as f64);
    Ok(1)
}

const TOO_SHORT: &str = "data string too short";

fn unpack(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let mut format = Format::new(string(frame, 1)?);
    let data = string(frame, 2)?;
    let mut position = integer_or(frame, 3, 1)? - 1;
    // A negative position is past the end, as a number without sign.
    if position == -1 {
        return Err(frame.bad_argument(3, "offset must be 1 or greater"));
    }
    let mut results = 0;
    while let Some(option) = format.next() {
        let mut size = format.size(frame, option)?;
        position += format.padding(position, option, size);
        let Some(rest) = usize::try_from(position).ok().and_then(|at| data.get(at..)) else {
            return Err(frame.bad_argument(2, TOO_SHORT));
        };
        if option == b'c' && size == 0 {
            let previous = (results > 0).then(|| frame.number(-1)).flatten();
            let Some(previous) = previous else {
                return Err(frame.error("format 'c0' needs a previous size"));
            };
            size = as_unsigned(previous) as i64;
            frame.pop(1);
            results -= 1;
        }
        let Some(bytes) = usize::try_from(size).ok().and_then(|size| rest.get(..size)) else {
            return Err(frame.bad_argument(2, TOO_SHORT));
        };
        if !frame.reserve(2) {
            return Err(frame.error("stack overflow (too many results)"));
        }
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                frame.push_number(unpack_integer(
                    bytes,
                    option.is_ascii_lowercase(),
                    format.is_big,
                ));
            }
            b'x' => {
                position += 1;
                continue;
            }
            b'f' => {
                let bytes = format.ordered(bytes.try_into().unwrap_or_default());
                frame.push_number(f64::from(f32::from_le_bytes(bytes)));
            }
            b'd' => {
                let bytes = format.ordered(bytes.try_into().unwrap_or_default());
                frame.push_number(f64::from_le_bytes(bytes));
            }
            b'c' => frame.push_bytes(bytes),
            b's' => {
                let Some(end) = rest.iter().position(|b| *b == 0) else {
                    return Err(frame.error("unfinished string in data"));
                };
                frame.push_bytes(&rest[..end]);
                size = end as i64 + 1;
            }
            _ => {
                format.control(frame, option)?;
                continue;
            }
        }
        results += 1;
        position += size;
    }
    frame.push_number((position + 1) as f64);
    Ok(results + 1)
}
