//! BITCOUNT and BITPOS: count or find bits in a value or a part of it.
//!
//! A range in bytes or bits is converted to bits. Its first and last byte may count in part;
//! [`weft_base::bits`] handles the bytes between them.

use crate::ctx::{Ctx, FAST_WORK};
use crate::error::{CmdResult, Error, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use crate::string::range::BYTES_PER_ELEMENT;
use crate::string::string;
use weft_base::bits;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_types::string::{Digits, Text};

pub const BITCOUNT: Command = Command {
    spec: Spec {
        name: "bitcount",
        arity: -2,
        flags: Flags::READONLY,
        keys: &keys::one(&["RO", "ACCESS"]),
        acl: &[],
        group: Group::Bitmap,
        since: "2.6.0",
        summary: "Counts the bits that are set in a key's value or a part of it.",
        complexity: "O(N) where N is the length of the part.",
        syntax: "key [range=(start:integer [end-unit-block=(end:integer \
                 [unit=(byte=BYTE|bit=BIT)]@7.0.0)])]",
        history: &[("7.0.0", "Options `BYTE` and `BIT`."), ("8.0.0", "`end` can be left out.")],
        tips: &[],
        special: Special::queued_work(QueuedWork::ReadBytes),
    },
    lock: Lock::Keys,
    run: bitcount,
    subcommands: &[],
};

pub const BITPOS: Command = Command {
    spec: Spec {
        name: "bitpos",
        arity: -3,
        flags: Flags::READONLY,
        since: "2.8.7",
        summary: "Finds the first bit that is 0, or 1, in a key's value or a part of it.",
        syntax: "key bit:integer [range=(start:integer [end-unit-block=(end:integer \
                 [unit=(byte=BYTE|bit=BIT)]@7.0.0)])]",
        history: &[("7.0.0", "Options `BYTE` and `BIT`.")],
        special: Special::queued_work(QueuedWork::ReadBytes),
        ..BITCOUNT.spec
    },
    run: bitpos,
    ..BITCOUNT
};

const NO_BIT: Error = Error::new("ERR The bit argument must be 1 or 0.");

/// The part of a value that a request names. Negative numbers count from the end of the value.
#[derive(Clone, Copy, Debug)]
struct RequestedRange {
    start: i64,
    end: Option<i64>,
    /// Bits per unit of `start` and `end`.
    unit: usize,
}

/// Bits from the first to the last, both inclusive and inside the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: usize,
    last: usize,
}

impl RequestedRange {
    /// Parses the arguments from `at` on.
    fn parse(ctx: &Ctx<'_>, at: usize) -> Result<RequestedRange, Error> {
        let words = ctx.args.len() - at;
        if words > 3 {
            return Err(SYNTAX);
        }
        let start = if words > 0 { ctx.int(at)? } else { 0 };
        let unit = match words {
            3 if ctx.is(at + 2, "BIT") => 1,
            3 if !ctx.is(at + 2, "BYTE") => return Err(SYNTAX),
            _ => 8,
        };
        let end = if words > 1 { Some(ctx.int(at + 1)?) } else { None };
        Ok(RequestedRange { start, end, unit })
    }

    /// Whether the ends are reversed, when both count from the end of the value. Checked before
    /// they are clamped to the value, since clamping may make them equal.
    fn is_backward(self) -> bool {
        self.start < 0 && self.end.is_some_and(|end| end < 0 && self.start > end)
    }

    /// The range in a value of `len` bytes; `None` if it is empty.
    fn clamp_to(self, len: usize) -> Option<Range> {
        let total = (len * 8 / self.unit) as i64;
        let into = |n: i64| if n < 0 { (total + n).max(0) } else { n };
        let start = into(self.start);
        let end = into(self.end.unwrap_or(total - 1)).min(total - 1);
        let in_bits = |n: i64| n as usize * self.unit;
        let range = || Range { first: in_bits(start), last: in_bits(end) + self.unit - 1 };
        (start <= end).then(range)
    }
}

impl Range {
    /// Byte `at` with the bits outside of the range cleared.
    fn part(self, at: usize, byte: u8) -> u8 {
        let from = if at == self.first / 8 { 0xff >> (self.first % 8) } else { 0xff };
        let to = if at == self.last / 8 { 0xff << (7 - self.last % 8) } else { 0xff };
        byte & from & to
    }

    /// The positions of the first and the last byte.
    fn bytes(self) -> (usize, usize) {
        (self.first / 8, self.last / 8)
    }

    /// The work of reading the whole range, for [`Ctx::weigh`].
    fn work(self) -> usize {
        (self.last - self.first) / 8 / BYTES_PER_ELEMENT
    }

    /// The contiguous parts of the range: the slice, its first bit in the string, and the range
    /// relative to the slice.
    fn parts<'t>(self, text: Text<'t>) -> impl Iterator<Item = (&'t [u8], usize, Range)> {
        let mut first = self.first;
        std::iter::from_fn(move || {
            let slice = text.slice_from(first / 8);
            if slice.is_empty() || first > self.last {
                return None;
            }
            let begin = first / 8 * 8;
            let last = self.last.min(begin + slice.len() * 8 - 1);
            let part = (slice, begin, Range { first: first - begin, last: last - begin });
            first = last + 1;
            Some(part)
        })
    }

    fn count_in(self, text: Text<'_>) -> usize {
        self.parts(text).map(|(slice, _, part)| part.count(slice)).sum()
    }

    /// As [`Range::find`], over the pieces of a string.
    fn find_in(self, text: Text<'_>, one: bool) -> Option<usize> {
        self.parts(text).find_map(|(slice, begin, part)| Some(begin + part.find(slice, one)?))
    }

    fn count(self, bytes: &[u8]) -> usize {
        let (a, b) = self.bytes();
        let first = self.part(a, bytes[a]).count_ones() as usize;
        if a == b {
            return first;
        }
        let last = self.part(b, bytes[b]).count_ones() as usize;
        first + bits::count_ones(&bytes[a + 1..b]) + last
    }

    /// The position of the first bit that is set (if `one`) or clear.
    fn find(self, bytes: &[u8], one: bool) -> Option<usize> {
        let other = if one { 0 } else { 0xff };
        let (a, b) = self.bytes();
        let in_byte = |at: usize| {
            let wanted = self.part(at, bytes[at] ^ other);
            (wanted != 0).then(|| at * 8 + wanted.leading_zeros() as usize)
        };
        in_byte(a).or_else(|| {
            let inner = bytes.get(a + 1..b).unwrap_or_default();
            let at = bits::first_other_than(inner, other).map_or(b, |at| a + 1 + at);
            in_byte(at)
        })
    }
}

fn bitcount(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let requested = RequestedRange::parse(ctx, 2)?;
    let count = match ctx.db.read(&key) {
        None => 0,
        Some(record) => {
            let mut room = Digits::new();
            let text = string(&record)?.text(&mut room);
            match requested.clamp_to(text.len()) {
                Some(range) if !requested.is_backward() => {
                    ctx.lane.weigh(range.work(), &mut ctx.pause)?;
                    range.count_in(text)
                }
                Some(_) | None => 0,
            }
        }
    };
    ctx.reply.int(count as i64);
    Ok(())
}

fn bitpos(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let one = match ctx.int(2)? {
        0 => false,
        1 => true,
        _ => return Err(NO_BIT),
    };
    let requested = RequestedRange::parse(ctx, 3)?;
    let found = match ctx.db.read(&key) {
        None => (!one).then_some(0),
        Some(record) => {
            let mut room = Digits::new();
            let text = string(&record)?.text(&mut room);
            match requested.clamp_to(text.len()) {
                None => None,
                Some(range) => {
                    let near = range.last.min(range.first + FAST_WORK * BYTES_PER_ELEMENT * 8);
                    let mut found = Range { last: near, ..range }.find_in(text, one);
                    if found.is_none() && near < range.last {
                        ctx.lane.weigh(range.work(), &mut ctx.pause)?;
                        found = Range { first: near, ..range }.find_in(text, one);
                    }
                    // Without a given end, the zeros after the value count too.
                    let beyond = (!one && requested.end.is_none()).then_some(range.last + 1);
                    found.or(beyond)
                }
            }
        }
    };
    ctx.reply.int(found.map_or(-1, |at| at as i64));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bit(bytes: &[u8], at: usize) -> bool {
        bytes[at / 8] >> (7 - at % 8) & 1 == 1
    }

    #[test]
    fn ranges_match_a_loop_over_bits() {
        let bytes = [0, 0x81, 0xff, 0x10, 0xff, 0];
        for first in 0..48 {
            for last in first..48 {
                let range = Range { first, last };
                let ones = (first..=last).filter(|at| bit(&bytes, *at)).count();
                assert_eq!(range.count(&bytes), ones, "{range:?}");
                for one in [false, true] {
                    let want = (first..=last).find(|at| bit(&bytes, *at) == one);
                    assert_eq!(range.find(&bytes, one), want, "{range:?} {one}");
                }
            }
        }
    }

    #[test]
    fn find_reaches_the_last_byte() {
        let mut bytes = vec![0; 3000];
        bytes[2998] = 4;
        let all = Range { first: 3, last: 23_999 };
        assert_eq!(all.find(&bytes, true), Some(2998 * 8 + 5));
        assert_eq!(Range { last: 2998 * 8 + 4, ..all }.find(&bytes, true), None);
        assert_eq!(all.find(&vec![0xff; 3000], false), None);
    }

    #[test]
    fn ends_are_clamped_to_the_value() {
        let requested = |start, end, unit| RequestedRange { start, end, unit };
        let range = |first, last| Some(Range { first, last });
        assert_eq!(requested(0, None, 8).clamp_to(3), range(0, 23));
        assert_eq!(requested(0, None, 8).clamp_to(0), None);
        assert_eq!(requested(-100, Some(-1), 8).clamp_to(0), None);
        assert_eq!(requested(-1, None, 8).clamp_to(3), range(16, 23));
        assert_eq!(requested(i64::MIN, Some(i64::MAX), 1).clamp_to(3), range(0, 23));
        assert_eq!(requested(5, Some(-5), 1).clamp_to(3), range(5, 19));
        assert_eq!(requested(2, Some(1), 8).clamp_to(3), None);
        assert_eq!(requested(3, Some(9), 8).clamp_to(3), None);
        assert_eq!(requested(-9, Some(-10), 8).clamp_to(3), range(0, 7));
        assert!(requested(-9, Some(-10), 8).is_backward());
    }
}
