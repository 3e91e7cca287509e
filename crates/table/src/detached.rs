//! The contents of a table that were taken out of it, to be dropped at leisure.
//!
//! FLUSHALL ASYNC takes everything out of a table in O(1) under the lock and sends it to a
//! background thread, where dropping millions of records delays no client.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use crate::directory::Root;
use crate::record::{Owner, Record};
use crate::segment::Segment;

/// Everything that was in a table. Dropping it drops the records, which takes
/// O(n) time.
pub struct Detached<O: Owner> {
    root: Root,
    len: usize,
    memory: usize,
    records: PhantomData<Record<O>>,
}

// SAFETY: it is the only owner of its records (Send by the bound), and of its
// directory and segments, which planners may still read but which are retired
// through the epoch collector.
unsafe impl<O: Owner + Send> Send for Detached<O> {}

impl<O: Owner> Detached<O> {
    /// # Safety
    ///
    /// `root` is that of a table which holds records of owner `O`, and which
    /// gives all of it up to the result.
    pub(crate) unsafe fn new(root: Root, len: usize, memory: usize) -> Self {
        Detached { root, len, memory, records: PhantomData }
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes allocated apart from the records.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.memory
    }

    /// The segment of a hash; `None` if nothing was ever in the table.
    pub(crate) fn segment(&self, hash: u64) -> Option<Segment<'_>> {
        // SAFETY: no other code changes or frees the directory while this value lives.
        let word = unsafe { self.root.locate(hash, Ordering::Relaxed) };
        // SAFETY: the segments are this value's own, which is not Sync, so this thread alone uses
        // them; planners load words of buckets at most. The records live as long as this value.
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
            // SAFETY: the segments and records are this value's own; planners
            // load words of buckets at most.
            for word in unsafe { segment.view() }.words() {
                if let Some(record) = word.record() {
                    // SAFETY: each record is in one slot, and the slots are not used after this:
                    // not even if an owner panics, as the remaining records then leak.
                    drop(unsafe { Record::<O>::from_raw(record) });
                }
            }
            // SAFETY: the root has been unlinked from its table; the iterator
            // reads the directory only, and the segment is not visited again.
            unsafe { segment.retire() };
        }
        // SAFETY: unlinked, and this is its end.
        unsafe { self.root.retire() };
    }
}
