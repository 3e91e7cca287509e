//! `struct`: binary structures.
//!
//! | letters | value | bytes |
//! |---|---|---|
//! | `b` `B` `h` `H` `l` `L` `T` | integer; a small letter is signed | 1, 1, 2, 2, 8, 8, 8 |
//! | `i` `I` | integer, `i3` has 3 bytes | 4 by default, up to 32 |
//! | `f` `d` | float, double | 4, 8 |
//! | `s` | string with a zero at its end | |
//! | `c` | string, `c7` of 7 bytes; `c0`: all of it, or as many as the number before | 1 by default |
//! | `x` | none; a zero byte | 1 |
//! | `<` `>` `!` | little endian, big endian, alignment: `!4` to at most 4 bytes | |

use super::number::{to_i64, to_u64};
use super::{
    Frame, Native, Raised, before_zero, check_number, check_stack, check_string, integer_or,
    push_functions,
};

const FUNCTIONS: [(&str, Native); 3] = [("pack", pack), ("unpack", unpack), ("size", size)];

pub(super) fn push(frame: &mut Frame<'_>) {
    push_functions(frame, &FUNCTIONS);
}

const MOST_INTEGER: i32 = 32;
/// The alignment of `!` alone.
const ALIGN: i32 = 8;

/// Reads a format.
struct Format {
    text: Vec<u8>,
    at: usize,
    is_big: bool,
    /// Values are aligned to their size, but at most to this. A power of 2.
    align: usize,
}

impl Format {
    fn new(frame: &mut Frame<'_>) -> Result<Format, Raised> {
        check_string(frame, 1)?;
        let text = before_zero(frame.bytes(1).unwrap_or_default()).to_vec();
        Ok(Format { text, at: 0, is_big: cfg!(target_endian = "big"), align: 1 })
    }

    /// The next letter and its size in bytes.
    fn next(&mut self, frame: &mut Frame<'_>) -> Result<Option<(u8, usize)>, Raised> {
        let Some(letter) = self.text.get(self.at).copied() else { return Ok(None) };
        self.at += 1;
        let size = match letter {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.number(frame, 1)? as usize,
            b'i' | b'I' => {
                let size = self.number(frame, 4)?;
                if size > MOST_INTEGER {
                    return Err(frame.error(format!(
                        "integral size {size} is larger than limit of {MOST_INTEGER}"
                    )));
                }
                size as usize
            }
            _ => 0,
        };
        Ok(Some((letter, size)))
    }

    /// The number that follows a letter.
    fn number(&mut self, frame: &mut Frame<'_>, default: i32) -> Result<i32, Raised> {
        let mut number = None;
        while let Some(digit @ b'0'..=b'9') = self.text.get(self.at) {
            self.at += 1;
            let next = number.unwrap_or(0_i32).checked_mul(10);
            match next.and_then(|next| next.checked_add(i32::from(digit - b'0'))) {
                Some(next) => number = Some(next),
                None => return Err(frame.error("integral size overflow")),
            }
        }
        Ok(number.unwrap_or(default))
    }

    /// Bytes to skip at `at`, before a value of this size.
    fn padding(&self, at: usize, letter: u8, size: usize) -> usize {
        if size == 0 || letter == b'c' {
            return 0;
        }
        let size = size.min(self.align);
        size.wrapping_sub(at & (size - 1)) & (size - 1)
    }

    /// Applies a letter that has no value.
    fn control(&mut self, frame: &mut Frame<'_>, letter: u8) -> Result<(), Raised> {
        match letter {
            b' ' => {}
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                let align = self.number(frame, ALIGN)?;
                if align <= 0 || !(align as u32).is_power_of_two() {
                    let problem = format!("alignment {align} is not a power of 2");
                    return Err(frame.error(problem));
                }
                self.align = align as usize;
            }
            _ => {
                let problem = [b"invalid format option '", &[letter][..], b"'"].concat();
                return Err(frame.bad_argument(1, problem));
            }
        }
        Ok(())
    }
}

fn pack(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let mut format = Format::new(frame)?;
    // A missing argument is nil.
    frame.push_nil();
    let mut out = Vec::new();
    let mut arg = 2;
    while let Some((letter, size)) = format.next(frame)? {
        out.resize(out.len() + format.padding(out.len(), letter, size), 0);
        match letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let number = check_number(frame, arg)?;
                arg += 1;
                append_integer(&mut out, number, size, format.is_big);
            }
            b'x' => out.push(0),
            b'f' => {
                let number = check_number(frame, arg)? as f32;
                arg += 1;
                append(&mut out, number.to_le_bytes(), format.is_big);
            }
            b'd' => {
                let number = check_number(frame, arg)?;
                arg += 1;
                append(&mut out, number.to_le_bytes(), format.is_big);
            }
            b'c' | b's' => {
                check_string(frame, arg)?;
                frame.check_output(out.len() + frame.length(arg as i32))?;
                let text = frame.bytes(arg as i32).unwrap_or_default();
                arg += 1;
                let size = if size == 0 { text.len() } else { size };
                let Some(text) = text.get(..size) else {
                    return Err(frame.bad_argument(arg, "string too short"));
                };
                out.extend_from_slice(text);
                if letter == b's' {
                    out.push(0);
                }
            }
            _ => format.control(frame, letter)?,
        }
        frame.check_output(out.len())?;
    }
    frame.check_room(out.len())?;
    frame.push_bytes(&out);
    Ok(1)
}

fn append<const N: usize>(out: &mut Vec<u8>, mut bytes: [u8; N], is_big: bool) {
    if is_big {
        bytes.reverse();
    }
    out.extend_from_slice(&bytes);
}

/// An integer has 64 bits; those above are zero, even if it is negative.
fn append_integer(out: &mut Vec<u8>, number: f64, size: usize, is_big: bool) {
    let value = if number < 0.0 { to_i64(number) as u64 } else { to_u64(number) };
    let mut bytes = [0; MOST_INTEGER as usize];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    let bytes = &mut bytes[..size];
    if is_big {
        bytes.reverse();
    }
    out.extend_from_slice(bytes);
}

/// The integer in `bytes`, of which at most 64 bits are kept.
fn integer(bytes: &[u8], is_big: bool, is_signed: bool) -> f64 {
    let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let value = if is_big { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) };
    if !is_signed {
        return value as f64;
    }
    // Shifts are modulo 64.
    let mask = u64::MAX.wrapping_shl((bytes.len() as u32 * 8).wrapping_sub(1));
    let value = if value & mask == 0 { value } else { value | mask };
    value as i64 as f64
}

fn unpack(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let mut format = Format::new(frame)?;
    check_string(frame, 2)?;
    let len = frame.length(2);
    let from = integer_or(frame, 3, 1)?;
    if from == 0 {
        return Err(frame.bad_argument(3, "offset must be 1 or greater"));
    }
    // A negative offset is a large one.
    let mut at = (from as usize).wrapping_sub(1);
    let mut results = 0;
    while let Some((letter, size)) = format.next(frame)? {
        at = at.wrapping_add(format.padding(at, letter, size));
        check_range(frame, at, size, len)?;
        check_stack(frame, 0, 2, "too many results")?;
        let data = &frame.bytes(2).unwrap_or_default()[at..];
        let mut used = size;
        match letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let number = integer(&data[..size], format.is_big, letter.is_ascii_lowercase());
                frame.push_number(number);
                results += 1;
            }
            b'x' => {}
            b'f' => {
                let bytes = take(data, format.is_big);
                frame.push_number(f64::from(f32::from_le_bytes(bytes)));
                results += 1;
            }
            b'd' => {
                let bytes = take(data, format.is_big);
                frame.push_number(f64::from_le_bytes(bytes));
                results += 1;
            }
            b'c' => {
                if size == 0 {
                    used = previous_size(frame, results)?;
                    results -= 1;
                    check_range(frame, at, used, len)?;
                }
                frame.push_part(2, at..at + used);
                results += 1;
            }
            b's' => {
                let Some(end) = data.iter().position(|byte| *byte == 0) else {
                    return Err(frame.error("unfinished string in data"));
                };
                used = end + 1;
                frame.push_part(2, at..at + end);
                results += 1;
            }
            _ => format.control(frame, letter)?,
        }
        at += used;
    }
    frame.push_number((at as i64).wrapping_add(1) as f64);
    Ok(results + 1)
}

fn take<const N: usize>(data: &[u8], is_big: bool) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&data[..N]);
    if is_big {
        bytes.reverse();
    }
    bytes
}

fn check_range(frame: &mut Frame<'_>, at: usize, size: usize, len: usize) -> Result<(), Raised> {
    if size <= len && at <= len - size {
        return Ok(());
    }
    Err(frame.bad_argument(2, "data string too short"))
}

/// Removes the last result, which is the size of the string for `c0`.
fn previous_size(frame: &mut Frame<'_>, results: usize) -> Result<usize, Raised> {
    match frame.number(-1) {
        Some(size) if results > 0 => {
            frame.pop(1);
            Ok(to_u64(size) as usize)
        }
        _ => Err(frame.error("format 'c0' needs a previous size")),
    }
}

fn size(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let mut format = Format::new(frame)?;
    let mut total = 0_usize;
    while let Some((letter, size)) = format.next(frame)? {
        total = total.saturating_add(format.padding(total, letter, size));
        if letter == b's' {
            return Err(frame.bad_argument(1, "option 's' has no fixed size"));
        }
        if letter == b'c' && size == 0 {
            return Err(frame.bad_argument(1, "option 'c0' has no fixed size"));
        }
        if !letter.is_ascii_alphanumeric() {
            format.control(frame, letter)?;
        }
        total = total.saturating_add(size);
    }
    frame.push_number(total as f64);
    Ok(1)
}
