//! Zipmaps: the small hashes of Redis before 2.6.
//!
//! ```text
//!  fields (1 byte; 254: unknown), (length, field, length, free, value, free bytes) ..., FF
//!
//!  length = 1 byte up to 253, or FE and u32 LE
//! ```

use crate::rdb::Fault;
use weft_types::packed::Value;

const BROKEN: Fault = Fault::Corrupt("a broken zipmap");

/// Passes the field and the value of each pair to `seen`, in order.
pub fn each<'a>(
    bytes: &'a [u8],
    seen: &mut dyn FnMut(Value<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let [claimed, rest @ .., 0xff] = bytes else { return Err(BROKEN) };
    let (mut rest, mut count) = (rest, 0usize);
    while !rest.is_empty() {
        let (field, tail) = field(rest).ok_or(BROKEN)?;
        let (value, tail) = value(tail).ok_or(BROKEN)?;
        rest = tail;
        count += 1;
        seen(Value::Bytes(field))?;
        seen(Value::Bytes(value))?;
    }
    match *claimed == 254 || usize::from(*claimed) == count {
        true => Ok(()),
        false => Err(BROKEN),
    }
}

fn len(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [0xfe, rest @ ..] => {
            let (len, rest) = rest.split_first_chunk()?;
            Some((u32::from_le_bytes(*len) as usize, rest))
        }
        [0xff, ..] | [] => None,
        [short, rest @ ..] => Some((usize::from(*short), rest)),
    }
}

fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = len(bytes)?;
    rest.split_at_checked(len)
}

fn value(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = len(bytes)?;
    let (free, rest) = rest.split_first()?;
    let (value, rest) = rest.split_at_checked(len)?;
    Some((value, rest.get(usize::from(*free)..)?))
}
