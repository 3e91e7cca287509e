//! Skips bodies of values without decoding them.

use crate::rdb::{Code, Fault, Source, read};

/// Size of a stream ID and of a timestamp in bytes.
const ID: usize = 16;
const TIMESTAMP: usize = 8;

/// Skips the body of a value with this code. O(elements), where a packed value counts as one.
///
/// # Errors
///
/// The input is shorter than the body, or a string or a length begins with an invalid byte.
pub fn body<S: Source>(code: Code, from: &mut S) -> Result<(), Fault> {
    match code {
        Code::String | Code::ListZiplist | Code::SetInts | Code::SetListpack => string(from),
        Code::ZsetZiplist | Code::ZsetListpack => string(from),
        Code::HashZipmap | Code::HashZiplist | Code::HashListpack => string(from),
        Code::List | Code::Set | Code::Quicklist => each(from, string),
        Code::Quicklist2 => each(from, |from| {
            read::len(from)?;
            string(from)
        }),
        Code::ZsetText => each(from, |from| {
            string(from)?;
            read::double_as_text(from)?;
            Ok(())
        }),
        Code::Zset => each(from, |from| {
            string(from)?;
            from.skip(TIMESTAMP)
        }),
        Code::Hash => each(from, |from| {
            string(from)?;
            string(from)
        }),
        Code::HashExpiring => each(from, |from| {
            string(from)?;
            string(from)?;
            from.skip(TIMESTAMP)
        }),
        Code::HashMetadata => {
            from.skip(TIMESTAMP)?;
            each(from, |from| {
                read::len(from)?;
                string(from)?;
                string(from)
            })
        }
        Code::HashListpackEx => {
            from.skip(TIMESTAMP)?;
            string(from)
        }
        Code::Stream | Code::Stream2 | Code::Stream3 => stream(code, from),
    }
}

fn string<S: Source>(from: &mut S) -> Result<(), Fault> {
    read::skip_string(from)
}

fn lengths<S: Source>(n: usize, from: &mut S) -> Result<(), Fault> {
    (0..n).try_for_each(|_| read::len(from).map(|_| ()))
}

/// Reads a count and calls `one` as often. Each call consumes at least a byte, so a false count
/// ends with the input.
fn each<S: Source>(
    from: &mut S,
    mut one: impl FnMut(&mut S) -> Result<(), Fault>,
) -> Result<(), Fault> {
    (0..read::len(from)?).try_for_each(|_| one(from))
}

/// The format is described in `decode/stream.rs`.
fn stream<S: Source>(code: Code, from: &mut S) -> Result<(), Fault> {
    each(from, |from| {
        string(from)?;
        string(from)
    })?;
    let counts = code != Code::Stream;
    // The number of entries and the last ID; then the first ID, the greatest deleted ID and the
    // entries ever added.
    lengths(3, from)?;
    lengths(if counts { 5 } else { 0 }, from)?;
    each(from, |from| {
        string(from)?;
        lengths(if counts { 3 } else { 2 }, from)?;
        each(from, |from| {
            from.skip(ID + TIMESTAMP)?;
            lengths(1, from)
        })?;
        each(from, |from| {
            string(from)?;
            from.skip(if code == Code::Stream3 { 2 * TIMESTAMP } else { TIMESTAMP })?;
            each(from, |from| from.skip(ID))
        })
    })
}
