//! Examines the bytes after the valid part of a file, where zeros were written ahead.
//!
//! Units overwrite zeros within a durable length. So a power failure can lose any part of the
//! unsynced bytes, also before bytes that survive: data, then zeros, then data. That is no damage,
//! because none of it was acknowledged. It differs from damage:
//!
//! * It begins in a batch whose head says that the batch was written over zeros, or at the end of
//!   that batch.
//! * It contains zeros at the granularity at which a disk loses writes.
//! * No later head says that the file was durable beyond its beginning. Under `always` each write
//!   is synced before the next one, so the gap is part of the last write.
//!
//! A value may contain bytes that look like such a head. They are not a head if they claim a durable
//! length beyond their own offset. If the chain of heads after the gap leads to the final zeros, only
//! heads on the chain count, and heads of a complete batch, because a length in the chain may be
//! damaged. If the chain is broken, any possible head counts.

use super::encode::{CRC, Head, LONG_HEAD, parse_head};
use crate::rdb::crc64;
use std::io::{self, BufRead, BufReader, Read};

/// A disk writes or loses multiples of this many bytes, at multiples of it.
const GRAIN: u64 = 64;
/// Minimum length of a head in bytes, with the line end.
const LINE: usize = 64;
/// Maximum length of an annotation in bytes.
const NOTE: u64 = 1024;
/// Limits: heads examined more closely, bytes examined for that, and bytes checksummed. If a limit
/// is exceeded, the file counts as damaged.
const HEADS_MAX: usize = 4096;
const EXAMINED_MAX: u64 = 64 << 20;
const CHECKSUMMED_MAX: u64 = 1 << 30;
/// Bytes per read.
const PIECE: usize = 256 << 10;

/// The kind of a file's end. See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// Only zeros.
    Zeros,
    /// A write that reached the disk only in part, and was not acknowledged.
    Torn,
    Damaged,
}

/// The result of [`examine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Examined {
    pub tail: Tail,
    /// Start of the zeros at the end of the file, if they may have been written ahead.
    pub holds: Option<u64>,
}

/// Examines a file that is valid up to `from`, in which the batch that ends at `over_zeros` was
/// written over zeros. Reads the file once, and again where some bytes look like a head.
///
/// # Errors
/// Read errors. `open` returns the file from its beginning.
pub(super) fn examine<R: Read>(
    open: impl Fn() -> io::Result<R>,
    from: u64,
    over_zeros: u64,
) -> io::Result<Examined> {
    if from > over_zeros {
        return Ok(Examined { tail: Tail::Damaged, holds: None });
    }
    let mut input = skip_to(&open, from)?;
    // A lone line is shorter than two grains, and so is the end of a head.
    let upto = over_zeros.max((from + 2 * GRAIN).next_multiple_of(GRAIN));
    let mut search =
        HoleSearch { upto, at: from, start: from, holds: from, ..HoleSearch::default() };
    let mut heads = Vec::new();
    // The last `kept` bytes of a piece are kept, because a head may span two pieces.
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
        let start = search.at - kept as u64;
        piece[kept..kept + n].iter().for_each(|byte| search.take(*byte));
        if heads.len() <= HEADS_MAX {
            heads_in(&piece[..kept + n], start, from, &mut heads);
        }
        let keep = (kept + n).min(LINE);
        piece.copy_within(kept + n - keep..kept + n, 0);
        kept = keep;
    }
    search.end_grain();
    let tail = match (search.has_other, search.has_hole) {
        (false, _) => Tail::Zeros,
        (true, true) if !was_safe(&open, from, over_zeros, &heads)? => Tail::Torn,
        (true, _) => Tail::Damaged,
    };
    Ok(Examined { tail, holds: Some(search.holds) })
}

/// The file after its first `from` bytes.
fn skip_to<R: Read>(open: &impl Fn() -> io::Result<R>, from: u64) -> io::Result<R> {
    let mut input = open()?;
    io::copy(&mut input.by_ref().take(from), &mut io::sink())?;
    Ok(input)
}

/// Collects the heads in `bytes`, which begin at `start`. A head must claim a durable length
/// greater than `from`, and not beyond its own offset.
fn heads_in(bytes: &[u8], start: u64, from: u64, heads: &mut Vec<(u64, Head)>) {
    for (nth, _) in bytes.windows(CRC.len()).enumerate().filter(|(_, bytes)| *bytes == CRC) {
        let at = start + nth as u64;
        let line = bytes[nth..].split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
        let head = parse_head(line).filter(|head| head.safe.is_some_and(|n| from < n && n <= at));
        // A head at the end of a piece is found again in the next one.
        if let Some(head) = head.filter(|_| heads.last().is_none_or(|(last, _)| *last < at)) {
            heads.push((at, head));
        }
    }
}

/// Whether one of these possible heads, which claim a durable length beyond `from`, is a real one.
fn was_safe<R: Read>(
    open: &impl Fn() -> io::Result<R>,
    from: u64,
    over_zeros: u64,
    heads: &[(u64, Head)],
) -> io::Result<bool> {
    let followed = if from < over_zeros { follow(skip_to(open, over_zeros)?, from)? } else { None };
    match followed {
        Some(true) => return Ok(true),
        None => return Ok(!heads.is_empty()),
        Some(false) if heads.is_empty() => return Ok(false),
        Some(false) => {}
    }
    let mut bytes = Vec::new();
    skip_to(open, from)?.take(EXAMINED_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes.len() as u64 > EXAMINED_MAX
        || heads.len() > HEADS_MAX
        || begins_batch(&bytes, from, heads))
}

/// Whether a complete batch begins at one of these heads. `bytes` begin at `from`.
fn begins_batch(bytes: &[u8], from: u64, heads: &[(u64, Head)]) -> bool {
    let mut compared = 0;
    heads.iter().any(|(at, head)| {
        let start = (at - from) as usize + LONG_HEAD;
        let batch = bytes.get(start..).and_then(|rest| rest.get(..head.length as usize));
        let Some(batch) = batch.filter(|batch| !batch.is_empty()) else { return false };
        compared += head.length;
        compared > CHECKSUMMED_MAX || crc64(batch) == head.sum
    })
}

/// Follows the chain of heads after a batch. Returns whether one of them has a durable length
/// beyond `from`; `None` if the chain is broken.
fn follow(input: impl Read, from: u64) -> io::Result<Option<bool>> {
    let mut input = BufReader::new(input);
    loop {
        let mut line = Vec::new();
        input.by_ref().take(NOTE).read_until(b'\n', &mut line)?;
        match (line.first(), parse_head(&line)) {
            (None, _) => return Ok(Some(false)),
            (Some(b'#'), Some(head)) => {
                // A head without a durable length was not written over zeros, so it isn't part of
                // the torn write.
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

/// Searches for a hole.
#[derive(Default)]
struct HoleSearch {
    /// End of the range that may have a hole.
    upto: u64,
    at: u64,
    /// Start of the current grain, and whether it has a byte other than zero.
    start: u64,
    is_written: bool,
    /// Offset after the last byte that isn't zero.
    holds: u64,
    has_hole: bool,
    has_other: bool,
}

impl HoleSearch {
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

    /// One batch, whose head claims the durable length `safe`.
    fn write(safe: u64, value: usize) -> Vec<u8> {
        let mut encoder = Encoder::new(Annotations { timestamps: false, checksums: true });
        encoder.set_durable_length(Some(safe));
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
    fn hole_in_the_last_write_is_torn() {
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
        // The head is missing, too, so the length of the batch is unknown.
        assert_eq!(tail(&missing(from..up), from, from), Tail::Torn);
        assert_eq!(tail(&missing(up..up + 64), from, from), Tail::Torn);
        assert_eq!(tail(&missing(from..end), from, from), Tail::Zeros);
        assert_eq!(tail(&missing(300..301), from, end), Tail::Damaged, "half a part");
        assert_eq!(tail(&missing(from..up), from, from - 1), Tail::Damaged, "not over zeros");
    }

    #[test]
    fn hole_before_synced_data_is_damage() {
        let (first, second) = (write(0, 100), write(0, 300_000));
        let from = first.len();
        let end = from + second.len();
        // With some of these lengths, the head spans two pieces.
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

    /// A head with this durable length; `is_right`: it has a complete batch.
    fn head(safe: u64, is_right: bool) -> Vec<u8> {
        let sum = if is_right { crc64(b"vvv") } else { 1 };
        format!("#CRC:{sum:016x}:000000000003:{safe:012x}\r\nvvv").into_bytes()
    }

    #[test]
    fn false_heads_in_values_are_data() {
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
            assert_eq!(other, Tail::Torn, "the chain of heads passes it: {safe}");
            let missing = tail(&bytes(&head(safe, false), front.clone()), from, from);
            assert_eq!(missing, Tail::Damaged, "the end of the batch is unknown: {safe}");
        }
        let many = head(200_000, false).repeat(1000);
        assert_eq!(tail(&bytes(&many, body.clone()), from, end), Tail::Torn);
    }

    #[test]
    fn heads_are_found_after_annotations_and_torn_bytes() {
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
        for (rest, wanted) in [
            ([&third(from)[..], note, &third(from)].concat(), Tail::Torn),
            ([note, &third(end)].concat(), Tail::Damaged),
            ([&third(from)[..], note, &third(end)].concat(), Tail::Damaged),
            // This batch was not part of the torn write.
            ([&third(from)[..], &short].concat(), Tail::Damaged),
        ] {
            let mut bytes = [&first[..], &second, &rest, &[0; 500]].concat();
            bytes[4096..8192].fill(0);
            assert_eq!(tail(&bytes, from, end), wanted, "{}", rest.escape_ascii());
            // The last batch is torn, too, but its head is still valid.
            let at = bytes.len() - 510;
            bytes[at..].fill(0);
            assert_eq!(tail(&bytes, from, end), wanted, "{}", rest.escape_ascii());
        }
    }
}
