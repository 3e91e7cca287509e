//! Collects entries one by one into a whole value, for loading.

use super::Value;
use super::encode::Encoded;
use super::entries::Entries;
use super::form::Form;
use std::marker::PhantomData;

/// Collected entries of the form `F`. Each gets its shortest encoding, whatever its encoding in the
/// source.
#[derive(Clone, Debug)]
pub struct Collected<F: Form> {
    bytes: Vec<u8>,
    count: usize,
    form: PhantomData<F>,
}

impl<F: Form> Default for Collected<F> {
    fn default() -> Self {
        Collected { bytes: Vec::new(), count: 0, form: PhantomData }
    }
}

impl<F: Form> Collected<F> {
    /// Appends an entry. Amortized O(length).
    pub fn push(&mut self, value: Value<'_>) {
        let entry = match value {
            Value::Bytes(text) => Encoded::of(text),
            Value::Int(n) => Encoded::of_int(n),
        };
        let at = self.bytes.len();
        self.bytes.resize(at + entry.len::<F>(), 0);
        entry.write::<F>(&mut self.bytes[at..]);
        self.count += 1;
    }

    /// How many entries there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    #[must_use]
    pub fn entries(&self) -> Entries<'_, F> {
        Entries::new(&self.bytes)
    }

    /// The bytes of all entries.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Whether two of the entries at multiples of `step` are equal. O(n log n).
    #[must_use]
    pub fn has_duplicates(&self, step: usize) -> bool {
        let entries = self.entries();
        let mut all: Vec<&[u8]> = entries
            .offsets()
            .step_by(step)
            .map(|at| &entries.bytes()[at..entries.after(at)])
            .collect();
        all.sort_unstable();
        all.windows(2).any(|pair| pair[0] == pair[1])
    }
}
