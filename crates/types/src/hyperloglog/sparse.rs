//! The sparse form: runs of equal registers.
//!
//! ```text
//!  00nnnnnn            n+1 zeros
//!  01nnnnnn nnnnnnnn   n+1 zeros, high bits first
//!  1vvvvvnn            n+1 registers of value v+1
//! ```
//!
//! A HyperLogLog that has seen few elements is a few runs of zeros with values between. A value
//! above 32 has no sparse form, so it makes the HyperLogLog dense, as does growth beyond a limit.
//! Adding an element splits the run that covers its register into up to three, then joins equal
//! neighbours.
//!
//! The bytes show how runs are split and joined, so both follow Valkey. Up to 64 zeros use the
//! short form. Joining begins at the run before the changed one, looks at five runs, and joins what
//! fits one run, which is four registers.
//!
//! If a corrupted HyperLogLog ends with a long run of zeros whose second byte is missing, that byte
//! is read as zero, as in Valkey.

use super::estimate::Histogram;
use super::{Corrupted, HEADER, Place};
use std::ops::Range;
use weft_base::runs::{Covering, Passed, Way, find};
use weft_base::sixbit::REGISTERS;

/// The highest value of a run, and the most registers of a run of values.
const VALUE_MAX: u8 = 32;
const VALUES_MAX: usize = 4;
/// The most zeros of a one-byte run.
const ZEROS_MAX: usize = 64;
/// The number of runs that joining looks at.
const JOINING: usize = 5;

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// 0 for zeros.
    value: u8,
    /// Registers.
    len: usize,
    /// Bytes.
    size: usize,
}

impl Run {
    /// The run at `at`.
    #[inline]
    fn at(runs: &[u8], at: usize) -> Run {
        let byte = runs[at];
        match byte >> 6 {
            0 => Run { value: 0, len: usize::from(byte) + 1, size: 1 },
            1 => {
                let low = runs.get(at + 1).copied().unwrap_or(0);
                Run { value: 0, len: long_zeros(byte, low), size: 2 }
            }
            _ => Run { value: value_of(byte), len: values_len(byte), size: 1 },
        }
    }

    fn is_short_zeros(self) -> bool {
        self.value == 0 && self.size == 1
    }
}

/// The value of a run by its first byte; 0 for zeros.
#[inline]
fn value_of(byte: u8) -> u8 {
    if byte & 0x80 == 0 { 0 } else { (byte >> 2 & 31) + 1 }
}

/// The length of a two-byte run of zeros.
#[inline]
fn long_zeros(high: u8, low: u8) -> usize {
    (usize::from(high & 63) << 8 | usize::from(low)) + 1
}

/// The length of a run of values.
#[inline]
fn values_len(byte: u8) -> usize {
    usize::from(byte & 3) + 1
}

/// The byte of a run of values.
fn values(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len - 1) as u8
}

/// The most bytes of three runs if the middle one is a run of values.
const CUT: usize = 5;

/// Bytes of up to three runs.
#[derive(Default)]
struct Cut {
    /// The last byte may be written but does not count.
    bytes: [u8; CUT + 1],
    size: usize,
}

impl Cut {
    fn push(&mut self, byte: u8) {
        self.bytes[self.size] = byte;
        self.size += 1;
    }

    fn values(&mut self, value: u8, len: usize) {
        if len > 0 {
            self.push(values(value, len));
        }
    }

    /// Branch-free: the form is as good as random, so a branch would be mispredicted.
    #[inline]
    fn zeros(&mut self, len: usize) {
        let (some, long) = (len > 0, len > ZEROS_MAX);
        let last = len.wrapping_sub(1);
        self.bytes[self.size] = if long { 0x40 | (last >> 8) as u8 } else { last as u8 };
        self.bytes[self.size + 1] = last as u8;
        self.size += usize::from(some) + usize::from(long);
    }

    /// Pushes a part of the split run: `len` registers of its value.
    #[inline]
    fn push_like(&mut self, run: Run, len: usize) {
        match run.value {
            0 => self.zeros(len),
            value => self.values(value, len),
        }
    }
}

/// Passes each run to `seen`: its first register, length and value. Runs after 16384 registers are
/// not passed. O(runs).
///
/// # Errors
///
/// [`Corrupted`] if the runs do not cover exactly all registers.
pub fn each_run(runs: &[u8], mut seen: impl FnMut(usize, usize, u8)) -> Result<(), Corrupted> {
    let (mut at, mut first) = (0, 0);
    while at < runs.len() {
        let run = Run::at(runs, at);
        if first + run.len > REGISTERS {
            return Err(Corrupted);
        }
        seen(first, run.len, run.value);
        at += run.size;
        first += run.len;
    }
    if first == REGISTERS { Ok(()) } else { Err(Corrupted) }
}

/// The number of registers of each value.
pub fn histogram(runs: &[u8]) -> Result<Histogram, Corrupted> {
    let mut histogram = [0; 64];
    each_run(runs, |_, len, value| histogram[usize::from(value)] += len as u32)?;
    Ok(histogram)
}

/// The runs as text: `z:` and `Z:` are short and long runs of zeros, `v:` a value and its length.
/// O(runs).
pub fn decode(runs: &[u8]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < runs.len() {
        let run = Run::at(runs, at);
        if at > 0 {
            text.push(' ');
        }
        text += &match run.value {
            0 if run.is_short_zeros() => format!("z:{}", run.len),
            0 => format!("Z:{}", run.len),
            value => format!("v:{value},{}", run.len),
        };
        at += run.size;
    }
    text
}

/// The result of adding an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The register was at least as high already.
    Nothing,
    Raised,
    /// Nothing changed: the HyperLogLog must become dense first.
    TooMuch,
}

/// The change that adding an element needs.
#[derive(Clone, Debug)]
pub enum Step {
    /// The register is at least as high already.
    Nothing,
    Raise(Patch),
    /// The HyperLogLog must become dense first.
    TooMuch,
}

/// A few bytes that replace others.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The replaced bytes, counted from the beginning of the header.
    pub range: Range<usize>,
    /// Bytes after `len` are meaningless.
    bytes: [u8; PATCH],
    len: usize,
}

/// The most bytes of a patch: one run, the parts of a split run, and the bytes after them that
/// joining may read.
const PATCH: usize = 2 + CUT + LOOKED_AT;

/// The most bytes that joining reads: two for each run, and the first of the next.
const LOOKED_AT: usize = 2 * JOINING + 1;

impl Patch {
    /// The new bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    /// Pushes the first `count` of `bytes`. Copying the constant `N` bytes avoids a call of memcpy.
    fn push_some<const N: usize>(&mut self, bytes: &[u8; N], count: usize) {
        self.bytes[self.len..][..N].copy_from_slice(bytes);
        self.len += count;
    }

    /// Joins equal neighbours, starting at the first run.
    fn join(&mut self) {
        let mut at = 0;
        for _ in 0..JOINING {
            if at >= self.len {
                return;
            }
            let run = Run::at(self.bytes(), at);
            let next = at + 1;
            if run.value > 0 && next < self.len {
                let after = Run::at(self.bytes(), next);
                let len = run.len + after.len;
                if after.value == run.value && len <= VALUES_MAX {
                    self.bytes[next] = values(run.value, len);
                    self.bytes.copy_within(next..self.len, at);
                    self.len -= 1;
                    continue;
                }
            }
            at += run.size;
        }
    }
}

/// The run that covers a register.
#[derive(Clone, Copy, Debug)]
struct Found {
    at: usize,
    /// Its first register.
    first: usize,
    run: Run,
    /// The run before it, and that run's first register; `None` for the first run.
    before: Option<(usize, usize)>,
}

impl Found {
    /// The patch that raises the register of `place`, which this run of `runs` covers.
    #[inline]
    fn raise(self, runs: &[u8], place: Place, limit: usize) -> Step {
        let Found { at, first, run, .. } = self;
        if run.value >= place.rank {
            return Step::Nothing;
        }
        let mut cut = Cut::default();
        cut.push_like(run, place.index - first);
        cut.values(place.rank, 1);
        cut.push_like(run, first + run.len - 1 - place.index);
        let len = HEADER + runs.len();
        let new_len = len + cut.size - run.size;
        if new_len > len && new_len > limit {
            return Step::TooMuch;
        }
        Step::Raise(if self.is_alone(runs, place) {
            let range = HEADER + at..HEADER + at + run.size;
            let mut patch = Patch { range, bytes: [0; PATCH], len: 0 };
            patch.push_some(&cut.bytes, cut.size);
            patch
        } else {
            self.joined(runs, &cut)
        })
    }

    /// Whether the value of `place` ends up between zeros with nothing to join: none of the runs
    /// that joining looks at, up to the one after the zeros, has an equal neighbour. May also
    /// return false where finding out would take longer.
    #[inline]
    fn is_alone(self, runs: &[u8], place: Place) -> bool {
        let Found { at, first, run, before } = self;
        run.value == 0
            && place.index != first
            && place.index + 1 != first + run.len
            && before.is_some()
            && runs.get(at + run.size..).is_some_and(|after| !begins_with_values(after))
    }

    /// Replaces the run with `cut` and joins equal neighbours, starting at the run before it.
    fn joined(self, runs: &[u8], cut: &Cut) -> Patch {
        let Found { at, run, before, .. } = self;
        // As in Valkey, the missing byte of a corrupted HyperLogLog counts as present.
        let end = at + run.size;
        let missing = end.saturating_sub(runs.len());
        let from = before.map_or(0, |(at, _)| at);
        let after = end.min(runs.len());
        let to = runs.len().min(after + LOOKED_AT);
        let range = HEADER + from..HEADER + to;
        let mut patch = Patch { range, bytes: [0; PATCH], len: 0 };
        for byte in &runs[from..at] {
            patch.push(*byte);
        }
        patch.push_some(&cut.bytes, cut.size - missing);
        match runs[after..].first_chunk::<LOOKED_AT>() {
            Some(whole) => patch.push_some(whole, LOOKED_AT),
            None => runs[after..].iter().for_each(|byte| patch.push(*byte)),
        }
        patch.join();
        patch
    }
}

/// Whether `runs` may begin with two runs of values.
#[inline]
fn begins_with_values(runs: &[u8]) -> bool {
    matches!(runs, [one, two, ..] if one & two & 0x80 != 0)
}

/// The change that raises the register of `place` in a sparse HyperLogLog. The result must have at
/// most `limit` bytes, or must not grow. O(runs).
///
/// # Errors
///
/// [`Corrupted`] when no run covers the register.
#[inline]
pub fn step(bytes: &[u8], place: Place, limit: usize) -> Result<Step, Corrupted> {
    // A higher value has no sparse form, so skip the search.
    if place.rank > VALUE_MAX {
        return Ok(Step::TooMuch);
    }
    let runs = &bytes[HEADER..];
    let found = find_from(runs, 0, 0, place.index).ok_or(Corrupted)?;
    Ok(found.raise(runs, place, limit))
}

/// A sparse HyperLogLog that many elements are added to. The first change copies it.
#[derive(Debug)]
pub struct SparseBuilder<'a> {
    original: &'a [u8],
    copy: Option<Vec<u8>>,
    /// The offset and first register of a run at or before the last register searched.
    known: (usize, usize),
}

impl<'a> SparseBuilder<'a> {
    /// From a header and the runs after it.
    pub fn new(bytes: &'a [u8]) -> SparseBuilder<'a> {
        SparseBuilder { original: bytes, copy: None, known: (0, 0) }
    }

    /// Header and runs.
    pub fn bytes(&self) -> &[u8] {
        self.copy.as_deref().unwrap_or(self.original)
    }

    /// Header and runs, or `None` if nothing has changed.
    pub fn into_changed(self) -> Option<Vec<u8>> {
        self.copy
    }

    fn runs(&self) -> &[u8] {
        &self.bytes()[HEADER..]
    }

    /// Like [`step`], but applies the change. O(1) when places come in ascending order.
    ///
    /// # Errors
    ///
    /// [`Corrupted`] when no run covers the register.
    pub fn add(&mut self, place: Place, limit: usize) -> Result<Added, Corrupted> {
        if place.rank > VALUE_MAX {
            return Ok(Added::TooMuch);
        }
        let found = self.find(place.index).ok_or(Corrupted)?;
        self.known = found.before.unwrap_or((0, 0));
        match found.raise(self.runs(), place, limit) {
            Step::Nothing => Ok(Added::Nothing),
            Step::TooMuch => Ok(Added::TooMuch),
            Step::Raise(patch) => {
                let with = patch.bytes().iter().copied();
                drop(self.to_mut().splice(patch.range.clone(), with));
                Ok(Added::Raised)
            }
        }
    }

    fn to_mut(&mut self) -> &mut Vec<u8> {
        self.copy.get_or_insert_with(|| {
            let mut copy = Vec::with_capacity(self.original.len() + 64);
            copy.extend_from_slice(self.original);
            copy
        })
    }

    /// The run that covers the register at `index`.
    fn find(&self, index: usize) -> Option<Found> {
        let (at, first) = self.known;
        if first <= index {
            let found = find_from(self.runs(), at, first, index)?;
            // The run before the first one searched is unknown.
            if found.at > at || at == 0 {
                return Some(found);
            }
        }
        find_from(self.runs(), 0, 0, index)
    }
}

/// Mask and value that match eight bytes: four pairs of up to 64 zeros and a run of values.
const SHORT_PAIRS: (u64, u64) = (0xc080_c080_c080_c080, 0x0080_0080_0080_0080);
/// Mask and value whose first six bytes match two pairs of long zeros and a run of values.
const LONG_PAIRS: (u64, u64) = (0xc000_80c0_0080_0000, 0x4000_8040_0080_0000);

/// Searches the run that covers the register at `index`, from the run at `at`. That run's first
/// register, `first`, is not after `index`.
#[inline]
fn find_from(runs: &[u8], at: usize, first: usize, index: usize) -> Option<Found> {
    let Passed { to, before } = match find(runs.get(at..).unwrap_or_default(), index - first) {
        Way::Found(Covering { begin, size, len, before }) => {
            let begins_at = at + begin.at;
            return Some(Found {
                at: begins_at,
                first: first + begin.registers,
                run: Run { value: value_of(runs[begins_at]), len, size },
                before: Some((at + before.at, first + before.registers)),
            });
        }
        Way::Passed(passed) => passed,
    };
    let found = find_run_by_run(runs, at + to.at, first + to.registers, index)?;
    if found.before.is_some() || to.at == 0 {
        return Some(found);
    }
    let before = last_before(runs, at + before.at, first + before.registers, found.at);
    Some(Found { before: Some(before), ..found })
}

/// Searches the run before the one at `end`, from the run at `at`. Returns it and its first
/// register.
#[cold]
fn last_before(runs: &[u8], mut at: usize, mut first: usize, end: usize) -> (usize, usize) {
    loop {
        let run = Run::at(runs, at);
        if at + run.size >= end {
            return (at, first);
        }
        at += run.size;
        first += run.len;
    }
}

/// Like [`find_from`].
#[inline]
fn find_run_by_run(runs: &[u8], mut at: usize, mut first: usize, index: usize) -> Option<Found> {
    let mut before = None;
    while at < runs.len() {
        // Most HyperLogLogs alternate between zeros and a value. Skip such a pair at once, and
        // several pairs if they have the same lengths. Short and long zeros have separate branches:
        // with a predicted length, the processor need not wait for the byte that decides it.
        if let Some(eight) = runs[at..].first_chunk() {
            let word = u64::from_be_bytes(*eight);
            let passed = if word & SHORT_PAIRS.0 == SHORT_PAIRS.1 {
                let lens = (word >> 8 & 0x003f_003f_003f_003f) + (word & 0x0003_0003_0003_0003);
                let sum = lens.wrapping_mul(0x0001_0001_0001_0001) >> 48;
                Some((8, sum as usize + 8))
            } else if word & LONG_PAIRS.0 == LONG_PAIRS.1 {
                let sum = (word >> 48 & 0x3fff) + (word >> 40 & 3) + (word >> 24 & 0x3fff);
                Some((6, (sum + (word >> 16 & 3)) as usize + 4))
            } else {
                None
            };
            if let Some((size, len)) = passed
                && first + len <= index
            {
                (at, first) = (at + size, first + len);
                before = Some((at - 1, first - values_len(runs[at - 1])));
                continue;
            }
        }
        if let Some(four) = runs[at..].first_chunk() {
            let word = u32::from_be_bytes(*four);
            if word & 0xc000_8000 == 0x4000_8000 {
                let value = first + (word >> 16 & 0x3fff) as usize + 1;
                let after = value + values_len((word >> 8) as u8);
                if after <= index {
                    before = Some((at + 2, value));
                    at += 3;
                    first = after;
                    continue;
                }
            } else if word & 0xc080_0000 == 0x0080_0000 {
                let value = first + (word >> 24) as usize + 1;
                let after = value + values_len((word >> 16) as u8);
                if after <= index {
                    before = Some((at + 1, value));
                    at += 2;
                    first = after;
                    continue;
                }
            }
        }
        let run = Run::at(runs, at);
        if index < first + run.len {
            return Some(Found { at, first, run, before });
        }
        before = Some((at, first));
        at += run.size;
        first += run.len;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_base::rng::Rng;

    /// The fast search finds the same run, and the same run before it, as a search run by run.
    #[test]
    #[ignore = "long: cargo xtask test --all"]
    fn fast_search_matches_run_by_run_search() {
        let mut rng = Rng::new(6);
        let mut together = 0;
        for round in 0..3000 {
            let (count, short) = (1 + rng.below(60), [5, 50, 95][round % 3]);
            let runs: Vec<u8> = (0..count)
                .flat_map(|_| {
                    let zeros = match rng.below(100) < short {
                        true => vec![rng.below(64) as u8],
                        false => vec![0x40 | rng.below(3) as u8, rng.below(256) as u8],
                    };
                    let value = values(1 + rng.below(32) as u8, 1 + rng.below(4) as usize);
                    match rng.below(20) {
                        0 => zeros,
                        1 => vec![value],
                        _ => [zeros, vec![value]].concat(),
                    }
                })
                .collect();
            together += usize::from(runs.len() > 16);
            let (mut at, mut first, mut before) = (0, 0, None);
            while at < runs.len() {
                let run = Run::at(&runs, at);
                for index in [first, first + run.len / 2, first + run.len - 1] {
                    let found = find_from(&runs, 0, 0, index).expect("within");
                    let context = format!("{index} of {}", decode(&runs));
                    assert_eq!((found.at, found.first, found.run), (at, first, run), "{context}");
                    assert_eq!(found.before, before, "{context}");
                }
                before = Some((at, first));
                at += run.size;
                first += run.len;
            }
            assert!(find_from(&runs, 0, 0, first).is_none());
        }
        assert!(together > 1000);
    }

    /// If `is_alone` says so, joining changes nothing, whatever the other runs are.
    #[test]
    fn lone_value_needs_no_joining() {
        let mut rng = Rng::new(5);
        let (mut alone, mut joined) = (0, 0);
        for round in 0..20_000 {
            let count = 1 + rng.below(12);
            let runs: Vec<u8> = (0..count)
                .flat_map(|_| match rng.below(4) {
                    0 => vec![rng.below(64) as u8],
                    1 => vec![0x40 | rng.below(2) as u8, rng.below(256) as u8],
                    _ => vec![values(1 + rng.below(2) as u8, 1 + rng.below(4) as usize)],
                })
                .take(if round % 2 == 0 { usize::MAX } else { 5 })
                .collect();
            let mut registers = 0;
            let mut at = 0;
            while at < runs.len() {
                let run = Run::at(&runs, at);
                registers += run.len;
                at += run.size;
            }
            let place = Place { index: rng.below(registers as u64) as usize, rank: 3 };
            let found = find_from(&runs, 0, 0, place.index).expect("within");
            if !found.is_alone(&runs, place) {
                joined += 1;
                continue;
            }
            alone += 1;
            let Step::Raise(patch) = found.raise(&runs, place, usize::MAX) else {
                unreachable!("a zero register is lower")
            };
            let mut cut = Cut::default();
            cut.zeros(place.index - found.first);
            cut.values(place.rank, 1);
            cut.zeros(found.first + found.run.len - 1 - place.index);
            let result = |patch: Patch| {
                let mut bytes = [&[0; HEADER], &runs[..]].concat();
                drop(bytes.splice(patch.range.clone(), patch.bytes().iter().copied()));
                bytes
            };
            assert_eq!(result(patch), result(found.joined(&runs, &cut)), "{}", decode(&runs));
        }
        assert!(alone > 1000 && joined > 1000, "{alone} {joined}");
    }
}
