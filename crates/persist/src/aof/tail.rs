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

use super::encode::{CRC, parse_head};
use std::io::{self, Read};

/// A disk writes multiples of this many bytes, at places that are multiples of it, or not.
const GRAIN: u64 = 64;
/// Bytes of a head with the line's end, at least.
const LINE: usize = 64;
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

/// Looks at a file that is right up to `from`, in which the batch that ends at `over_zeros` was written over
/// zeros. Reads it as a whole.
///
/// # Errors
/// Those of the input, which is at the beginning of the file.
pub(super) fn examine(mut input: impl Read, from: u64, over_zeros: u64) -> io::Result<Tail> {
    if from > over_zeros {
        return Ok(Tail::Damaged);
    }
    io::copy(&mut input.by_ref().take(from), &mut io::sink())?;
    // A line that stands alone is shorter than two grains, and so is the end of a head.
    let upto = over_zeros.max((from + 2 * GRAIN).next_multiple_of(GRAIN));
    let mut look = Look { upto, at: from, start: from, ..Look::default() };
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
            look.end_grain();
            return Ok(match (look.has_other, look.has_hole) {
                (false, _) => Tail::Zeros,
                (true, true) => Tail::Torn,
                (true, false) => Tail::Damaged,
            });
        }
        piece[kept..kept + n].iter().for_each(|byte| look.take(*byte));
        if knows_safe(&piece[..kept + n], from) {
            return Ok(Tail::Damaged);
        }
        let keep = (kept + n).min(LINE);
        piece.copy_within(kept + n - keep..kept + n, 0);
        kept = keep;
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
    has_hole: bool,
    has_other: bool,
}

impl Look {
    fn take(&mut self, byte: u8) {
        self.is_written |= byte != 0;
        self.at += 1;
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

/// Whether a head in `bytes` says that more than `from` bytes were safe.
fn knows_safe(bytes: &[u8], from: u64) -> bool {
    let starts = bytes.windows(CRC.len()).enumerate().filter(|(_, bytes)| *bytes == CRC);
    let lines = starts.filter_map(|(at, _)| {
        let line = bytes[at..].split_inclusive(|byte| *byte == b'\n').next()?;
        parse_head(line)?.safe
    });
    lines.into_iter().any(|safe| safe > from)
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
        examine(bytes, from as u64, over_zeros as u64).expect("memory does not fail")
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
}
