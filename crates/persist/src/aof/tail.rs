//! What is behind the place where a file stops being right, where zeros were written ahead of it.
//!
//! Units go over zeros whose place is safe already, so after a power loss any part of what was not synced may be
//! missing, also in front of what is there: data, then zeros, then data. That is no damage: nobody was
//! told that it was safe. What tells it from damage:
//!
//! * It begins in a batch whose head says that it was written over zeros, or where that one ends.
//! * There are zeros in it, as much as a disk leaves out.
//! * No head behind it says that the file was safe beyond its beginning when that was written. Under
//!   `always` each write is synced before the next one, so it is part of the last write that there was.
//!
//! What stands in a value may look like such a head. It is none if it knows more to be safe than stands in front of
//! it; nor if one can go from head to head behind the place up to where all is zeros, and does not come by it. That
//! fails to find the true ones where a length is damaged, so there what begins a batch that is whole is believed.

use super::encode::{CRC, Head, LONG_HEAD, parse_head};
use crate::rdb::crc64;
use std::io::{self, BufRead, BufReader, Read};

/// A disk writes multiples of this many bytes, at places that are multiples of it, or not.
const GRAIN: u64 = 64;
/// Bytes of a head with the line's end, at least.
const LINE: usize = 64;
/// Bytes of any annotation at most.
const NOTE: u64 = 1024;
/// How many heads are looked at more closely, in how many bytes, and how many bytes are compared for that. Where
/// there are more that may be some, one of them is.
const DOUBTS: usize = 4096;
const LOOKED_AT: u64 = 64 << 20;
const COMPARED: u64 = 1 << 30;
/// Bytes that are read at a time.
const PIECE: usize = 256 << 10;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// Nothing but zeros.
    Zeros,
    /// A write that has not reached the disk as a whole, and was not acknowledged.
    Torn,
    Damaged,
}

/// What [`examine`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Examined {
    pub tail: Tail,
    /// Where the zeros begin in which the file ends, if it is where some were written ahead.
    pub holds: Option<u64>,
}

/// Looks at a file that is right up to `from`, in which the batch that ends at `over_zeros` was written over
/// zeros. Reads it as a whole, and again where something in it looks like a head.
///
/// # Errors
/// Those of the input, which `open` gives from the beginning of the file.
pub(super) fn examine<R: Read>(
    open: impl Fn() -> io::Result<R>,
    from: u64,
    over_zeros: u64,
) -> io::Result<Examined> {
    if from > over_zeros {
        return Ok(Examined { tail: Tail::Damaged, holds: None });
    }
    let mut input = behind(&open, from)?;
    // A line that stands alone is shorter than two grains, and so is the end of a head.
    let upto = over_zeros.max((from + 2 * GRAIN).next_multiple_of(GRAIN));
    let mut look = Look { upto, at: from, start: from, holds: from, ..Look::default() };
    let mut heads = Vec::new();
    // `kept` bytes of the last piece stand at the front: a head may be in two pieces.
    let mut piece = vec![0; LINE + PIECE];
    let mut kept = 0;
    loop {
        let n = match input.read(&mut piece[kept..]) {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if n == 0 {
            break;
        }
        let start = look.at - kept as u64;
        piece[kept..kept + n].iter().for_each(|byte| look.take(*byte));
        if heads.len() <= DOUBTS {
            heads_in(&piece[..kept + n], start, from, &mut heads);
        }
        let keep = (kept + n).min(LINE);
        piece.copy_within(kept + n - keep..kept + n, 0);
        kept = keep;
    }
    look.end_grain();
    let tail = match (look.has_other, look.has_hole) {
        (false, _) => Tail::Zeros,
        (true, true) if !was_safe(&open, from, over_zeros, &heads)? => Tail::Torn,
        (true, _) => Tail::Damaged,
    };
    Ok(Examined { tail, holds: Some(look.holds) })
}

/// The file behind its first `from` bytes.
fn behind<R: Read>(open: &impl Fn() -> io::Result<R>, from: u64) -> io::Result<R> {
    let mut input = open()?;
    io::copy(&mut input.by_ref().take(from), &mut io::sink())?;
    Ok(input)
}

/// Notes where something in `bytes`, which begin at `start`, looks like a head that says that more than `from` bytes
/// were safe, which stand in front of it.
fn heads_in(bytes: &[u8], start: u64, from: u64, heads: &mut Vec<(u64, Head)>) {
    for (nth, _) in bytes.windows(CRC.len()).enumerate().filter(|(_, bytes)| *bytes == CRC) {
        let at = start + nth as u64;
        let line = bytes[nth..].split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
        let head = parse_head(line).filter(|head| head.safe.is_some_and(|n| from < n && n <= at));
        // One that stands at the end of a piece is met again.
        if let Some(head) = head.filter(|_| heads.last().is_none_or(|(last, _)| *last < at)) {
            heads.push((at, head));
        }
    }
}

/// Whether one of these, which look like heads that know more than `from` to have been safe, is one.
fn was_safe<R: Read>(
    open: &impl Fn() -> io::Result<R>,
    from: u64,
    over_zeros: u64,
    heads: &[(u64, Head)],
) -> io::Result<bool> {
    let followed = if from < over_zeros { follow(behind(open, over_zeros)?, from)? } else { None };
    match followed {
        Some(true) => return Ok(true),
        None => return Ok(!heads.is_empty()),
        Some(false) if heads.is_empty() => return Ok(false),
        Some(false) => {}
    }
    let mut bytes = Vec::new();
    behind(open, from)?.take(LOOKED_AT + 1).read_to_end(&mut bytes)?;
    Ok(bytes.len() as u64 > LOOKED_AT || heads.len() > DOUBTS || begins_batch(&bytes, from, heads))
}

/// Whether a batch that is whole begins at one of these heads, in `bytes`, which begin at `from`.
fn begins_batch(bytes: &[u8], from: u64, heads: &[(u64, Head)]) -> bool {
    let mut compared = 0;
    heads.iter().any(|(at, head)| {
        let start = (at - from) as usize + LONG_HEAD;
        let batch = bytes.get(start..).and_then(|rest| rest.get(..head.length as usize));
        let Some(batch) = batch.filter(|batch| !batch.is_empty()) else { return false };
        compared += head.length;
        compared > COMPARED || crc64(batch) == head.sum
    })
}

/// Goes from head to head in what is behind a batch: whether one of them knows more than `from` to have been safe.
/// `None`: that can't be said, since one of them is missing.
fn follow(input: impl Read, from: u64) -> io::Result<Option<bool>> {
    let mut input = BufReader::new(input);
    loop {
        let mut line = Vec::new();
        input.by_ref().take(NOTE).read_until(b'\n', &mut line)?;
        match (line.first(), parse_head(&line)) {
            (None, _) => return Ok(Some(false)),
            (Some(b'#'), Some(head)) => {
                // One that does not say it was not written over zeros, and so not with what is torn.
                if head.safe.is_none_or(|safe| safe > from) {
                    return Ok(Some(true));
                }
                io::copy(&mut input.by_ref().take(head.length), &mut io::sink())?;
            }
            (Some(b'#'), None) if line.ends_with(b"\r\n") && !line.contains(&0) => {}
            (Some(0), _) => {
                let mut rest = line.chain(input).bytes();
                while let Some(byte) = rest.next().transpose()? {
                    if byte != 0 {
                        return Ok(None);
                    }
                }
                return Ok(Some(false));
            }
            (Some(_), _) => return Ok(None),
        }
    }
}

/// Looks for a hole.
#[derive(Default)]
struct Look {
    /// Where what may have one ends.
    upto: u64,
    at: u64,
    /// Where the part begins that would be written or not, and whether something else than zeros is in it.
    start: u64,
    is_written: bool,
    /// Behind the last byte that is no zero.
    holds: u64,
    has_hole: bool,
    has_other: bool,
}

impl Look {
    fn take(&mut self, byte: u8) {
        self.at += 1;
        if byte != 0 {
            (self.is_written, self.holds) = (true, self.at);
        }
        if self.at.is_multiple_of(GRAIN) || self.at == self.upto {
            self.end_grain();
        }
    }

    fn end_grain(&mut self) {
        self.has_hole |= !self.is_written && self.start < self.at && self.at <= self.upto;
        self.has_other |= self.is_written;
        (self.start, self.is_written) = (self.at, false);
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode::{Annotations, Encoder};
    use super::*;

    /// A write of one batch, by whom the file was known to be safe up to there.
    fn write(safe: u64, value: usize) -> Vec<u8> {
        let mut encoder = Encoder::new(Annotations { timestamps: false, checksums: true });
        encoder.tell_safe(Some(safe));
        let command = format!("*1\r\n${value}\r\n{}\r\n", "v".repeat(value));
        let mut out = Vec::new();
        encoder.unit(1, &[(0, command.as_bytes())], &mut out);
        encoder.seal(&mut out);
        out
    }

    fn tail(bytes: &[u8], from: usize, over_zeros: usize) -> Tail {
        let found =
            examine(|| Ok(bytes), from as u64, over_zeros as u64).expect("memory does not fail");
        let written = bytes[from..].iter().rposition(|byte| *byte != 0);
        let holds = from + written.map_or(0, |at| at + 1);
        assert_eq!(found.holds, (from <= over_zeros).then_some(holds as u64));
        found.tail
    }

    #[test]
    fn what_is_missing_of_the_last_write_is_no_damage() {
        let first = write(0, 100);
        let from = first.len();
        let second = write(from as u64, 300_000);
        let whole = [&first[..], &second, &[0; 1000]].concat();
        let end = from + second.len();
        assert_eq!(tail(&whole, from, end), Tail::Damaged, "there is no hole");
        let missing = |range: std::ops::Range<usize>| {
            let mut bytes = whole.clone();
            bytes[range].fill(0);
            bytes
        };
        let up = from.next_multiple_of(64);
        for hole in [from..up, from..end - 1, up..up + 64, 128_000..256_000, end / 64 * 64..end] {
            assert_eq!(tail(&missing(hole.clone()), from, end), Tail::Torn, "{hole:?}");
        }
        // The head is missing, too, so nobody knows how long the batch is.
        assert_eq!(tail(&missing(from..up), from, from), Tail::Torn);
        assert_eq!(tail(&missing(up..up + 64), from, from), Tail::Torn);
        assert_eq!(tail(&missing(from..end), from, from), Tail::Zeros);
        assert_eq!(tail(&missing(300..301), from, end), Tail::Damaged, "half a part");
        assert_eq!(tail(&missing(from..up), from, from - 1), Tail::Damaged, "not over zeros");
    }

    #[test]
    fn what_is_missing_in_front_of_what_was_synced_is_damage() {
        let (first, second) = (write(0, 100), write(0, 300_000));
        let from = first.len();
        let end = from + second.len();
        // So long that the head is in two pieces at some of these.
        for filler in (0..100).chain([100_000, 300_000]) {
            let unsynced = write(from as u64, filler);
            let third = write(end as u64, 10);
            for (third, wanted) in [(&third, Tail::Damaged), (&unsynced, Tail::Torn)] {
                let mut bytes = [&first[..], &second, &unsynced, third].concat();
                bytes[128..4096].fill(0);
                assert_eq!(tail(&bytes, from, end), wanted, "{filler}");
            }
        }
    }

    /// A head that says so, in front of a batch that is whole if that is wanted.
    fn head(safe: u64, is_right: bool) -> Vec<u8> {
        let sum = if is_right { crc64(b"vvv") } else { 1 };
        format!("#CRC:{sum:016x}:000000000003:{safe:012x}\r\nvvv").into_bytes()
    }

    #[test]
    fn what_only_looks_like_a_head_is_data() {
        let first = write(0, 100);
        let from = first.len();
        let end = from + 300_000;
        let bytes = |put: &[u8], hole: std::ops::Range<usize>| {
            let mut bytes = [&first[..], &vec![b'v'; 300_000], &[0; 1000]].concat();
            bytes[200_000..200_000 + put.len()].copy_from_slice(put);
            bytes[hole].fill(0);
            bytes
        };
        let up = from.next_multiple_of(64);
        let (body, front) = (4096..8192, from..up);
        for safe in [0, from as u64, 200_001, 0xffff_ffff_ffff] {
            assert_eq!(
                tail(&bytes(&head(safe, true), body.clone()), from, end),
                Tail::Torn,
                "{safe}"
            );
            assert_eq!(
                tail(&bytes(&head(safe, true), front.clone()), from, from),
                Tail::Torn,
                "{safe}"
            );
        }
        for safe in [from as u64 + 1, 200_000] {
            let whole = tail(&bytes(&head(safe, true), body.clone()), from, end);
            assert_eq!(whole, Tail::Damaged, "the length may be wrong: {safe}");
            let other = tail(&bytes(&head(safe, false), body.clone()), from, end);
            assert_eq!(other, Tail::Torn, "one can go past it: {safe}");
            let missing = tail(&bytes(&head(safe, false), front.clone()), from, from);
            assert_eq!(missing, Tail::Damaged, "nobody knows where the batch ends: {safe}");
        }
        let many = head(200_000, false).repeat(1000);
        assert_eq!(tail(&bytes(&many, body.clone()), from, end), Tail::Torn);
    }

    #[test]
    fn heads_are_found_behind_annotations_and_what_is_torn() {
        let first = write(0, 100);
        let from = first.len();
        let second = write(from as u64, 20_000);
        let end = from + second.len();
        let third = |safe: usize| write(safe as u64, 10);
        let note = &b"#TS:1795357161\r\n#REPL:x\r\n"[..];
        let short = {
            let mut encoder = Encoder::new(Annotations { timestamps: false, checksums: true });
            let mut out = Vec::new();
            encoder.unit(1, &[(0, &b"*1\r\n$4\r\nPING\r\n"[..])], &mut out);
            encoder.seal(&mut out);
            out
        };
        for (behind, wanted) in [
            ([&third(from)[..], note, &third(from)].concat(), Tail::Torn),
            ([note, &third(end)].concat(), Tail::Damaged),
            ([&third(from)[..], note, &third(end)].concat(), Tail::Damaged),
            // It was not written with what is torn.
            ([&third(from)[..], &short].concat(), Tail::Damaged),
        ] {
            let mut bytes = [&first[..], &second, &behind, &[0; 500]].concat();
            bytes[4096..8192].fill(0);
            assert_eq!(tail(&bytes, from, end), wanted, "{}", behind.escape_ascii());
            // It is torn, too, and its head says what it says.
            let at = bytes.len() - 510;
            bytes[at..].fill(0);
            assert_eq!(tail(&bytes, from, end), wanted, "{}", behind.escape_ascii());
        }
    }
}
