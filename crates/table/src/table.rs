//! The table: its parts, and operations without its lock.
//!
//! A table belongs to a shard, and one thread at a time uses it through [`TableMut`]: the holder of
//! the shard's lock. Any other thread may meanwhile *plan*: compute the bucket of a hash and
//! prefetch it, then read the bucket and prefetch the candidate records. So a thread can prepare a
//! batch of commands before it takes a single lock.
//!
//! Planning is a race by design, and made harmless as follows:
//!
//! - every word that a planner reads (root, directory, bucket slots) is atomic;
//! - directories and segments that are replaced are retired through [`crate::epoch`], and a planner
//!   holds a guard, so it only reads memory of this table, current or outdated;
//! - records are freed at once, so planners never dereference a record's address: they prefetch it,
//!   which is harmless for any address.
//!
//! A planner that loses the race only prefetches the wrong line.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::counter::Counter;
use crate::detached::Detached;
use crate::directory::Root;
use crate::epoch::Guard;
use crate::groups::Groups;
use crate::ops::TableMut;
use crate::prefetch::prefetch_read;
use crate::record::Owner;
use crate::segment::LINE;
use crate::slot::h16;

/// The least number of cache lines of a record that are prefetched: all of it for most records.
pub const LINES: usize = 2;

/// Hashes keys. All 64 bits of the hash must be well distributed: the top ones choose the segment,
/// the low 16 the bucket. If an attacker can choose keys, the hash must be keyed: a directory
/// doubles for as long as more keys than fit into a segment share their top bits.
///
/// Copies of a hasher must agree during the table's life. With a hasher that violates this, entries
/// can't be found, but nothing else breaks.
pub trait KeyHasher: Copy {
    /// The hash of a key.
    fn hash(&self, key: &[u8]) -> u64;

    /// Whether the top [`GROUP_BITS`](crate::GROUP_BITS) of a hash are the key's group: see `groups.rs`.
    #[inline(always)]
    fn is_grouped(&self) -> bool {
        false
    }
}

/// A hash table of [`Record`](crate::Record)s. An empty one has no memory except its own 64 bytes.
#[repr(align(64))]
pub struct Table<O: Owner, H: KeyHasher> {
    root: AtomicPtr<u8>,
    pub(crate) len: Counter,
    pub(crate) expiring: Counter,
    pub(crate) marked: Counter,
    /// The number of segments, and of their cache lines.
    pub(crate) segments: Counter,
    pub(crate) lines: Counter,
    /// The number of segments whose local depth is the global depth. Unless it is 0, the directory
    /// cannot be halved. Meaningless at depth 0.
    pub(crate) deepest: Counter,
    pub(crate) hasher: H,
    /// The number of records of each group, if the hasher has groups.
    pub(crate) groups: Option<Box<Groups>>,
    owner: PhantomData<fn(O) -> O>,
}

// SAFETY: the table owns its records, directory and segments, so it may move to another thread if
// the records and the hasher may.
unsafe impl<O: Owner + Send, H: KeyHasher + Send> Send for Table<O, H> {}
// SAFETY: through `&Table` a thread can plan, which is designed for concurrent use; read counters,
// which are atomic; and call `exclusive`, whose caller guarantees exclusive access. Through that,
// records move between threads and are used by many threads in turn, hence Send and Sync for the
// owner.
unsafe impl<O: Owner + Send + Sync, H: KeyHasher + Sync> Sync for Table<O, H> {}

impl<O: Owner, H: KeyHasher> Table<O, H> {
    /// An empty table. Allocates nothing, except counters of groups.
    #[must_use]
    pub fn new(hasher: H) -> Self {
        Table {
            root: AtomicPtr::new(Root::EMPTY.into_raw()),
            len: Counter::new(),
            expiring: Counter::new(),
            marked: Counter::new(),
            segments: Counter::new(),
            lines: Counter::new(),
            deepest: Counter::new(),
            groups: hasher.is_grouped().then(Box::default),
            hasher,
            owner: PhantomData,
        }
    }

    /// The number of records. May be outdated without the lock.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.get()
    }

    /// Whether there are no records. May be outdated without the lock.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of records with an expiry. May be outdated without the lock.
    #[inline]
    #[must_use]
    pub fn expiring(&self) -> usize {
        self.expiring.get()
    }

    /// The number of marked records ([`MARK`](crate::MARK)). May be outdated without the lock.
    #[inline]
    #[must_use]
    pub fn marked(&self) -> usize {
        self.marked.get()
    }

    /// The number of records of a group, below [`GROUPS`](crate::GROUPS). May be outdated without
    /// the lock. O(1).
    ///
    /// # Panics
    ///
    /// If the table's hasher has no groups.
    #[must_use]
    pub fn group_len(&self, group: usize) -> usize {
        self.groups.as_ref().expect("the hasher has groups").len(group)
    }

    /// Bytes allocated for directory and segments, without the records. May be outdated without the
    /// lock. O(1).
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        let words = self.groups.as_ref().map_or(0, |groups| groups.words.get());
        self.root(Ordering::Relaxed).bytes() + words * size_of::<u64>() + self.lines.get() * LINE
    }

    /// The table's hasher.
    #[must_use]
    pub fn hasher(&self) -> H {
        self.hasher
    }

    #[inline(always)]
    pub(crate) fn root(&self, order: Ordering) -> Root {
        Root::from_raw(self.root.load(order))
    }

    /// Publishes another root. Only the holder of the lock calls it.
    pub(crate) fn set_root(&self, root: Root) {
        self.root.store(root.into_raw(), Ordering::Release);
    }

    /// First round of planning: prefetches the bucket where a key of this hash
    /// is looked up first.
    #[inline]
    pub fn plan_bucket(&self, hash: u64, _guard: &Guard) {
        let root = self.root(Ordering::Acquire);
        if !root.is_empty() {
            // SAFETY: the guard was pinned before the root was read, so this
            // directory cannot be freed while the guard lives.
            let segment = unsafe { root.locate(hash, Ordering::Acquire) };
            prefetch_read(segment.home_bucket(h16(hash)).cast());
        }
    }

    /// Second round: reads that bucket and prefetches the first `lines` cache lines, and at least
    /// [`LINES`], of each candidate record. Needs the first round: it waits for the bucket if that
    /// has not arrived.
    #[inline]
    pub fn plan_record(&self, hash: u64, lines: usize, _guard: &Guard) {
        let root = self.root(Ordering::Acquire);
        if root.is_empty() {
            return;
        }
        // SAFETY: as in `plan_bucket`.
        let segment = unsafe { root.locate(hash, Ordering::Acquire) };
        let h16 = h16(hash);
        // SAFETY: the word was read from a root or directory while the guard was pinned, so the
        // segment cannot be freed while the guard lives. Acquire made its content visible. The home
        // bucket is one of its buckets, and all its words are atomic.
        let bucket = unsafe { &*segment.home_bucket(h16) };
        for word in bucket.words() {
            if word.h16() == h16
                && let Some(record) = word.record()
            {
                let record = record.as_ptr().cast_const();
                prefetch_read(record);
                prefetch_read(record.wrapping_add(64));
                for line in LINES..lines {
                    prefetch_read(record.wrapping_add(64 * line));
                }
            }
        }
    }

    /// Access for the holder of the table's lock.
    ///
    /// # Safety
    ///
    /// While the result lives, no thread uses another `TableMut` of this table. Every access
    /// through an earlier one happened before (a lock around the table ensures both).
    #[inline(always)]
    pub unsafe fn exclusive(&self) -> TableMut<'_, O, H> {
        TableMut { table: self }
    }

    /// Access for the exclusive owner of the table.
    #[inline]
    pub fn get_mut(&mut self) -> TableMut<'_, O, H> {
        TableMut { table: self }
    }

    /// Takes everything out, in O(1). See [`TableMut::take`].
    pub(crate) fn detach(&self) -> Detached<O> {
        // SAFETY: the contents of the root move to the result as a whole, and the table is empty
        // after this.
        let detached =
            unsafe { Detached::new(self.root(Ordering::Relaxed), self.len(), self.memory_usage()) };
        self.set_root(Root::EMPTY);
        for counter in
            [&self.len, &self.expiring, &self.marked, &self.segments, &self.lines, &self.deepest]
        {
            counter.set(0);
        }
        if let Some(groups) = &self.groups {
            groups.clear();
        }
        detached
    }
}

impl<O: Owner, H: KeyHasher> Drop for Table<O, H> {
    fn drop(&mut self) {
        // Not freed directly: through `TableMut::swap` this may hold memory that a planner of
        // another table is reading.
        drop(self.detach());
    }
}
