//! Consumer groups of a stream.

/// The groups of a stream.
#[derive(Clone, Debug, Default)]
pub struct Groups {}

impl Groups {
    /// Bytes of memory of the groups, beside this. O(groups).
    pub fn memory(&self) -> usize {
        0
    }

    /// How many allocations, about, counted up to `most` or a little beyond.
    pub fn pieces(&self, _most: usize) -> usize {
        1
    }
}
