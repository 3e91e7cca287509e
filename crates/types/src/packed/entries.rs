//! Reads entries by their offsets.

use super::encode::Encoded;
use super::form::{Form, back_len, before, write_back};
use super::{Value, front_len};
use std::marker::PhantomData;

/// A sequence of entries of one form.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a, F: Form> {
    bytes: &'a [u8],
    form: PhantomData<F>,
}

impl<'a, F: Form> Entries<'a, F> {
    /// The entries in `bytes`. Only the owner of the bytes knows their form.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Entries { bytes, form: PhantomData }
    }

    #[inline]
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The offset after the last entry: the length of all entries in bytes.
    #[inline]
    #[must_use]
    pub fn end(self) -> usize {
        self.bytes.len()
    }

    /// The entries from the one at `at` on.
    #[inline]
    #[must_use]
    pub fn from(self, at: usize) -> Self {
        Entries::new(&self.bytes[at..])
    }

    /// The entries before the offset `end`.
    #[inline]
    #[must_use]
    pub fn until(self, end: usize) -> Self {
        Entries::new(&self.bytes[..end])
    }

    /// The entry at `at`.
    #[inline]
    #[must_use]
    pub fn get(self, at: usize) -> Value<'a> {
        super::get(self.bytes, at)
    }

    /// The offset after the entry at `at`.
    #[inline]
    #[must_use]
    pub fn after(self, at: usize) -> usize {
        // Fast path: most entries are short texts and small integers.
        match self.bytes[at] {
            0x00..=0x7f => at + 1 + back_len::<F>(1),
            head @ 0x80..=0xbf => at + 1 + usize::from(head & 0x3f) + back_len::<F>(1),
            0xc0.. => {
                let front = front_len(&self.bytes[at..]).expect("an entry starts here");
                at + front + back_len::<F>(front)
            }
        }
    }

    /// Whether the entry at `at` is `wanted`.
    #[inline]
    #[must_use]
    pub fn holds(self, at: usize, wanted: &Encoded<'_>) -> bool {
        wanted.is_at(self.bytes, at)
    }

    /// All entries with their offsets.
    #[inline]
    pub fn iter(self) -> Iter<'a, F> {
        Iter { entries: self, at: 0 }
    }

    /// All entries with their offsets, from the last to the first. A form without backward lengths
    /// needs O(n) steps before it yields the first one, and memory for more than 32 entries.
    #[inline]
    pub fn back(self) -> F::Back<'a> {
        F::back(self)
    }

    /// The offsets of all entries.
    pub fn offsets(self) -> impl Iterator<Item = usize> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let at = next;
            (at < self.end()).then(|| {
                next = self.after(at);
                at
            })
        })
    }

    /// The offset of the `n`-th of `count` entries; the end for `n == count`. Searches from the
    /// nearer end if the form allows it. O(distance).
    #[must_use]
    pub fn offset_of(self, count: usize, n: usize) -> usize {
        if !F::BACKWARD || n <= count / 2 {
            (0..n).fold(0, |at, _| self.after(at))
        } else {
            (n..count).fold(self.end(), |at, _| before(self.bytes, at))
        }
    }

    /// The offset of the first entry equal to `wanted` among those at multiples of `step`. O(n),
    /// with one comparison of first bytes for most entries.
    #[inline]
    #[must_use]
    pub fn find(self, wanted: &Encoded<'_>, step: usize) -> Option<usize> {
        let mut at = 0;
        loop {
            if at >= self.end() {
                return None;
            }
            if self.holds(at, wanted) {
                return Some(at);
            }
            at = self.after(at);
            for _ in 1..step {
                if at >= self.end() {
                    return None;
                }
                at = self.after(at);
            }
        }
    }

    /// Bytes of the entries in the form `G`. O(n).
    #[must_use]
    pub fn len_in<G: Form>(self) -> usize {
        self.fronts().map(|front| front.len() + back_len::<G>(front.len())).sum()
    }

    /// The same entries in the form `G`. O(n).
    #[must_use]
    pub fn in_form<G: Form>(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len_in::<G>());
        for front in self.fronts() {
            bytes.extend_from_slice(front);
            let at = bytes.len();
            bytes.resize(at + back_len::<G>(front.len()), 0);
            write_back(front.len(), &mut bytes[at..]);
        }
        bytes
    }

    /// Head and data of every entry.
    fn fronts(self) -> impl Iterator<Item = &'a [u8]> {
        self.offsets().map(move |at| {
            let front = front_len(&self.bytes[at..]).expect("an entry starts here");
            &self.bytes[at..at + front]
        })
    }
}

/// See [`Entries::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a, F: Form> {
    entries: Entries<'a, F>,
    at: usize,
}

impl<'a, F: Form> Iterator for Iter<'a, F> {
    /// Offset and value.
    type Item = (usize, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.entries.bytes;
        let at = self.at;
        if at == bytes.len() {
            return None;
        }
        // Fast path: most entries are short, so decode and skip them in one step.
        let head = bytes[at];
        if head & 0x80 == 0 {
            self.at = at + 1 + back_len::<F>(1);
            return Some((at, Value::Int(i64::from(head))));
        }
        if head & 0x40 == 0 {
            let end = at + 1 + usize::from(head & 0x3f);
            self.at = end + back_len::<F>(1);
            return Some((at, Value::Bytes(&bytes[at + 1..end])));
        }
        self.at = self.entries.after(at);
        Some((at, self.entries.get(at)))
    }
}
