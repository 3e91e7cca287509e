//! The contents of a table that were taken out of it, to be dropped later.
//!
//! FLUSHALL ASYNC takes the contents of a table in O(1) under the lock and sends them to a
//! background thread, where dropping millions of records delays no client.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use crate::directory::Root;
use crate::record::{Owner, Record};
use crate::segment::Segment;

/// The contents of a table. Dropping it drops the records in O(n).
pub struct Detached<O: Owner> {
    root: Root,
    len: usize,
    memory: usize,
    records: PhantomData<Record<O>>,
}

// SAFETY: it is the only owner of its records (Send by the bound), and of its directory and
// segments. Planners may still read those, but they are retired through the epoch collector.
unsafe impl<O: Owner + Send> Send for Detached<O> {}

impl<O: Owner> Detached<O> {
    /// # Safety
    ///
    /// `root` is that of a table with records of owner `O`, and the table passes all ownership to
    /// the result.
    pub(crate) unsafe fn new(root: Root, len: usize, memory: usize) -> Self {
        Detached { root, len, memory, records: PhantomData }
    }

    /// The number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Allocated bytes, without the records.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.memory
    }

    /// The segment of a hash; `None` if the table never had a record.
    pub(crate) fn segment(&self, hash: u64) -> Option<Segment<'_>> {
        // SAFETY: no other code changes or frees the directory while this value lives.
        let word = unsafe { self.root.locate(hash, Ordering::Relaxed) };
        // SAFETY: this value owns the segments and is not Sync, so only this thread uses them.
        // Planners load words of buckets at most. The records live as long as this value.
        (!word.is_null()).then(|| unsafe { word.view() })
    }
}

impl<O: Owner> Drop for Detached<O> {
    fn drop(&mut self) {
        if self.root.is_empty() {
            return;
        }
        // SAFETY: only this value changes or frees the directory.
        for segment in unsafe { self.root.segments() } {
            // SAFETY: this value owns the segments and records. Planners load words of buckets at
            // most.
            for word in unsafe { segment.view() }.words() {
                if let Some(record) = word.record() {
                    // SAFETY: each record is in one slot, and the slots are not used after this: if
                    // an owner panics, the remaining records leak.
                    drop(unsafe { Record::<O>::from_raw(record) });
                }
            }
            // SAFETY: the root has been unlinked from its table. The iterator reads only the
            // directory, and does not visit the segment again.
            unsafe { segment.retire() };
        }
        // SAFETY: the root is unlinked and not used after this.
        unsafe { self.root.retire_all() };
    }
}
