//! The sparse form: runs of equal registers.
//!
//! ```text
//!  00nnnnnn            n+1 zeros
//!  01nnnnnn nnnnnnnn   n+1 zeros, high bits first
//!  1vvvvvnn            n+1 registers of value v+1
//! ```
//!
//! One that has seen little is a few runs of zeros with values between. A value above 32 can't be
//! said, so it makes the whole dense, as does growth beyond a limit. To add an element is to cut the
//! run that covers its register in up to three, and then to join neighbours that have become equal.
//!
//! How exactly it is cut and joined is visible in the bytes, so it follows the reference: zeros are
//! cut to the short form up to 64 of them, and joining begins at the run in front of the changed one
//! and looks at five runs; it joins what fits one run, which is four registers.
//!
//! A long run of zeros whose second byte is missing, at the end of a corrupted one, is read as if
//! that byte were zero, which is what the reference finds there.

use super::estimate::Histogram;
use super::{Corrupted, HEADER, Place};
use weft_base::sixbit::REGISTERS;

/// The highest value of a run, and the most registers of a run of values.
const VALUE_MAX: u8 = 32;
const VALUES_MAX: usize = 4;
/// The most zeros in a byte.
const ZEROS_MAX: usize = 64;
/// Runs that are looked at when neighbours are joined.
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
                Run { value: 0, len: (usize::from(byte & 63) << 8 | usize::from(low)) + 1, size: 2 }
            }
            _ => Run { value: (byte >> 2 & 31) + 1, len: usize::from(byte & 3) + 1, size: 1 },
        }
    }

    fn is_short_zeros(self) -> bool {
        self.value == 0 && self.size == 1
    }
}

/// The byte of a run of values.
fn values(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len - 1) as u8
}

/// Bytes of up to three runs.
#[derive(Default)]
struct Cut {
    bytes: [u8; 5],
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

    fn zeros(&mut self, len: usize) {
        match len {
            0 => {}
            1..=ZEROS_MAX => self.push((len - 1) as u8),
            _ => {
                self.push(0x40 | ((len - 1) >> 8) as u8);
                self.push((len - 1) as u8);
            }
        }
    }

    /// As the run that is cut: of its value.
    fn like(&mut self, run: Run, len: usize) {
        match run.value {
            0 => self.zeros(len),
            value => self.values(value, len),
        }
    }
}

/// Shows each run: its first register, how many there are, and their value. What is behind 16384
/// registers is not shown. O(runs).
///
/// # Errors
///
/// When the runs do not cover exactly all registers.
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

/// How many registers have each value.
pub fn histogram(runs: &[u8]) -> Result<Histogram, Corrupted> {
    let mut histogram = [0; 64];
    each_run(runs, |_, len, value| histogram[usize::from(value)] += len as u32)?;
    Ok(histogram)
}

/// The runs as people read them: `z:` and `Z:` are short and long runs of zeros, `v:` a value and
/// how often. O(runs).
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

/// What adding has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The register was as high before.
    Nothing,
    Raised,
    /// Nothing, since it must become dense for this.
    TooMuch,
}

/// Where a run is that was looked for.
#[derive(Clone, Copy, Debug)]
struct Found {
    at: usize,
    /// Its first register.
    first: usize,
    run: Run,
    /// The run in front of it, and its first register; none in front of the first run.
    before: Option<(usize, usize)>,
}

/// A sparse one that elements are added to. It is copied when the first of them changes it.
#[derive(Debug)]
pub struct Growing<'a> {
    original: &'a [u8],
    copy: Option<Vec<u8>>,
    /// A run, and its first register, that is not behind any register looked for last.
    known: (usize, usize),
}

impl<'a> Growing<'a> {
    /// From a header and what follows it.
    pub fn new(bytes: &'a [u8]) -> Growing<'a> {
        Growing { original: bytes, copy: None, known: (0, 0) }
    }

    /// Header and runs.
    pub fn bytes(&self) -> &[u8] {
        self.copy.as_deref().unwrap_or(self.original)
    }

    /// Header and runs, if anything has changed.
    pub fn into_changed(self) -> Option<Vec<u8>> {
        self.copy
    }

    fn runs(&self) -> &[u8] {
        &self.bytes()[HEADER..]
    }

    /// Raises the register of `place`, if the result has no more than `limit` bytes or the whole
    /// does not grow. O(runs); a run or so when places come in ascending order.
    ///
    /// # Errors
    ///
    /// [`Corrupted`], when no run covers the register.
    pub fn add(&mut self, place: Place, limit: usize) -> Result<Added, Corrupted> {
        // What can't be said is not looked for.
        if place.rank > VALUE_MAX {
            return Ok(Added::TooMuch);
        }
        let found = self.find(place.index).ok_or(Corrupted)?;
        self.known = found.before.unwrap_or((0, 0));
        let Found { at, run, .. } = found;
        if run.value >= place.rank {
            return Ok(Added::Nothing);
        }
        if run.len == 1 && (run.value > 0 || run.is_short_zeros()) {
            self.to_mut()[HEADER + at] = values(place.rank, 1);
        } else {
            let mut cut = Cut::default();
            cut.like(run, place.index - found.first);
            cut.values(place.rank, 1);
            cut.like(run, found.first + run.len - 1 - place.index);
            let len = self.bytes().len();
            let new_len = len + cut.size - run.size;
            if new_len > len && new_len > limit {
                return Ok(Added::TooMuch);
            }
            let at = HEADER + at;
            let bytes = self.to_mut();
            bytes.splice(at..len.min(at + run.size), cut.bytes[..cut.size].iter().copied());
            // The reference counts the missing byte of a corrupted run as there.
            bytes.truncate(new_len);
        }
        let from = found.before.map_or(0, |(at, _)| at);
        self.join(from);
        Ok(Added::Raised)
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
            // Which run is in front of the first that was looked at is not known.
            if found.at > at || at == 0 {
                return Some(found);
            }
        }
        find_from(self.runs(), 0, 0, index)
    }

    /// Joins equal neighbours, from the run at `at` on.
    fn join(&mut self, mut at: usize) {
        let bytes = self.to_mut();
        for _ in 0..JOINING {
            if HEADER + at >= bytes.len() {
                return;
            }
            let run = Run::at(&bytes[HEADER..], at);
            let next = HEADER + at + 1;
            if run.value > 0 && next < bytes.len() {
                let behind = Run::at(&bytes[HEADER..], at + 1);
                let len = run.len + behind.len;
                if behind.value == run.value && len <= VALUES_MAX {
                    bytes[next] = values(run.value, len);
                    bytes.remove(next - 1);
                    continue;
                }
            }
            at += run.size;
        }
    }
}

/// The run that covers the register at `index`, looked for from the run at `at` on, whose first
/// register is `first`.
fn find_from(runs: &[u8], mut at: usize, mut first: usize, index: usize) -> Option<Found> {
    let mut before = None;
    while at < runs.len() {
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
