//! A map from byte strings to byte strings for large sets and hashes: packed and incremental.
//!
//! A general hash map spends an allocation and a pointer on every entry, leaves a third of its slots
//! empty, and doubles at once or keeps two tables meanwhile. Here entries are contiguous bytes in
//! *segments* of up to 128 entries and 4 KiB. An entry of a set takes its member and some six
//! bytes. Growth splits one segment, and the map is never moved as a whole.
//!
//! ```text
//!  hash = | page ........ | segment ...... | place in the segment | not used |
//!
//!  Dict ──► pages: Directory ──► page: Directory of up to 512 slots ──► Segment ──► block
//! ```
//!
//! A [`Directory`] maps a hash to its segment (extendible hashing). A page that would have more
//! than 512 slots is split, and the pages are in a directory of the same kind. So the largest step
//! of any growth copies 16 KiB. A lookup reads the slot, a line of the segment's words and that of
//! the entry. The pages above are few and cached.
//!
//! **Scanning.** A segment is a contiguous range of hash space, and splits and merges keep the
//! order of that space. So a cursor is just a place in it, whose bits are reversed to give clients
//! a short number. An element that exists throughout a scan is passed exactly when the cursor
//! reaches its hash, whatever is added, removed, split or merged in between.
//!
//! **No waves.** With uniform hashes all segments would be equally full at any time. They would
//! outgrow their blocks together, leave holes of that size all over the heap, and split together.
//! So hashes are mapped to places that are twice as dense at one end as at the other. Then the
//! segments cover a whole cycle from half full to full, for any number of entries, and blocks of
//! every size are always being freed and allocated. (The idea is that of spiral storage: G. N. N.
//! Martin, University of Warwick, 1979; J. K. Mullin, The Computer Journal 28(3), 1985.)
//!
//! **Hashes** are seeded per dictionary, so that a copy made in the order of a scan doesn't fill
//! the ranges of the copy one by one. `segment.rs` handles keys whose hashes collide on purpose;
//! the directories never exceed two slots for an entry.

mod block;
mod directory;
mod entry;
mod segment;

pub use entry::Entry;

use block::COUNT_SPLIT;
use directory::{Directory, Ranged};
use foldhash::quality::RandomState;
use segment::{Put, Segment};
use std::hash::{BuildHasher, Hasher};
use std::ops::ControlFlow;

/// The most bits of the hash that select a slot in a page.
const PAGE_BITS: u32 = 9;

/// The most bits of the hash that select a segment, which leaves 16 for the place in it.
const DEPTH_MAX: u32 = 48;

/// The number of draws of [`Dict::random`] before it counts entries instead.
const DRAWS: usize = 64;

type Page = Directory<Segment>;

/// A map from byte strings to byte strings. Each entry can have an expiry, which the map only
/// stores.
///
/// A clone takes O(1) and shares all memory. The first change after that copies the row of pages,
/// the page and the block that it changes.
#[derive(Clone, Debug)]
pub struct Dict<S = RandomState> {
    pages: Directory<Page>,
    len: usize,
    expiring: usize,
    /// An upper bound of the bits that lead to a slot of any page.
    deepest: u32,
    /// An upper bound of the count of any segment.
    widest: usize,
    hasher: S,
}

impl Default for Dict {
    fn default() -> Self {
        Dict::new()
    }
}

impl Dict {
    /// An empty map with its own seed.
    #[must_use]
    pub fn new() -> Self {
        Dict::with_hasher(RandomState::default())
    }
}

impl<S: BuildHasher> Dict<S> {
    /// An empty map with this hash, all of whose bits must be well distributed.
    pub fn with_hasher(hasher: S) -> Self {
        let pages = Directory::new(0, Page::new(0, Segment::new(0)));
        Dict { pages, len: 0, expiring: 0, deepest: 0, widest: COUNT_SPLIT, hasher }
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        hash(&self.hasher, key)
    }

    /// The number of entries. O(1).
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of entries with an expiry. O(1).
    #[must_use]
    pub fn expiring(&self) -> usize {
        self.expiring
    }

    /// Bytes on the heap and of the map itself. O(n / 100).
    #[must_use]
    pub fn memory(&self) -> usize {
        let page = |page: &Page| page.memory() + page.items().map(Segment::memory).sum::<usize>();
        size_of::<Self>() + self.pages.memory() + self.pages.items().map(page).sum::<usize>()
    }

    /// An estimate of [`Dict::memory`] from segments with about `samples` entries. Expected
    /// O(samples + pages).
    #[must_use]
    pub fn memory_about(&self, samples: usize) -> usize {
        let (mut seen, mut bytes) = (0, 0);
        let mut pages = 0;
        for page in self.pages.items() {
            pages += page.memory();
            for segment in page.items() {
                if seen >= samples {
                    break;
                }
                seen += segment.count();
                bytes += segment.memory();
            }
        }
        let segments = (bytes as u128 * self.len as u128 / seen.max(1) as u128) as usize;
        size_of::<Self>() + self.pages.memory() + pages + segments
    }

    /// The number of allocations. Stops counting at `most` or slightly later. O(most).
    #[must_use]
    pub fn pieces(&self, most: usize) -> usize {
        let mut pieces = 1;
        for segment in self.pages.items().flat_map(Page::items) {
            if pieces >= most {
                break;
            }
            pieces += segment.pieces();
        }
        pieces
    }

    /// The entry of `key`. Expected O(1).
    #[inline]
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Entry<'_>> {
        let hash = self.hash(key);
        self.pages.get(hash).get(hash).get(hash, key)
    }

    #[inline]
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    /// Replaces the entry with this key or adds one. Returns whether it is new. A value of the same
    /// length is overwritten in place. Expected amortized O(1); copies at most some 16 KiB, in
    /// addition to the entry.
    #[inline]
    pub fn insert(&mut self, key: &[u8], value: &[u8], expiry: Option<i64>) -> bool {
        let hash = self.hash(key);
        let new = Entry { key, value, expiry };
        loop {
            let deepest = self.depth_allowed();
            let segment = self.pages.get_mut(hash).get_mut(hash);
            match segment.put(hash, &new, deepest) {
                Put::Added => {
                    self.widest = self.widest.max(segment.count());
                    self.len += 1;
                    self.expiring += usize::from(expiry.is_some());
                    return true;
                }
                Put::Replaced { expired } => {
                    self.expiring += usize::from(expiry.is_some());
                    self.expiring -= usize::from(expired);
                    return false;
                }
                Put::Full => self.split(hash),
            }
        }
    }

    /// The greatest depth to which segments may be split: until the expected number of entries in a
    /// range is less than one. So keys with equal hashes can't make the directories large.
    #[inline]
    fn depth_allowed(&self) -> u32 {
        ((self.len | 1).ilog2() + 1).min(DEPTH_MAX)
    }

    /// Splits the segment that owns `hash`.
    #[cold]
    fn split(&mut self, hash: u64) {
        let page = self.pages.get(hash);
        if page.bits() == PAGE_BITS && page.get(hash).depth() == page.full_depth() {
            self.pages.split(hash, Page::divide);
        }
        let hasher = &self.hasher;
        let page = self.pages.get_mut(hash);
        page.split(hash, |segment| segment.split(|key| self::hash(hasher, key)));
        self.deepest = self.deepest.max(page.full_depth());
    }

    /// Removes the entry of `key`. Returns whether there was one. Expected amortized O(1).
    #[inline]
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let hash = self.hash(key);
        let segment = self.pages.get_mut(hash).get_mut(hash);
        let Some(expired) = segment.remove(hash, key) else {
            return false;
        };
        self.len -= 1;
        self.expiring -= usize::from(expired);
        if segment.is_sparse() {
            self.merge(hash);
        }
        true
    }

    /// Joins the segment that owns `hash` with its neighbour if both are sparse, and so on upwards.
    fn merge(&mut self, hash: u64) {
        let page = self.pages.get_mut(hash);
        let bits = page.bits();
        while page.merge(hash, Segment::may_merge, Segment::join) {}
        if page.bits() == bits {
            return;
        }
        // Two pages are joined if the result has at most half the slots of a full one.
        let sparse = |page: &Page| page.bits() + 2 <= PAGE_BITS;
        let may = |a: &Page, b: &Page| sparse(a) && sparse(b);
        while self.pages.merge(hash, may, Page::join) {}
        self.deepest = self.pages.items().map(Page::full_depth).max().unwrap_or(0);
    }

    /// Sets or removes the expiry of the entry of `key`. Returns whether there is such an entry.
    pub fn set_expiry(&mut self, key: &[u8], expiry: Option<i64>) -> bool {
        let Some(found) = self.get(key) else {
            return false;
        };
        match (found.expiry, expiry) {
            (None, None) => {}
            (Some(_), Some(at)) => {
                let hash = self.hash(key);
                let patched = self.pages.get_mut(hash).get_mut(hash).patch_expiry(hash, key, at);
                debug_assert!(patched, "get found an expiry");
            }
            (None, Some(_)) | (Some(_), None) => {
                let value = found.value.to_vec();
                self.insert(key, &value, expiry);
            }
        }
        true
    }

    /// Passes the entries of one step of a scan to `seen`. Returns the cursor of the next step, 0
    /// after the last. A step is a segment: up to some 128 entries, or a few large ones, or none. A
    /// scan begins with cursor 0, and any number is a valid cursor. An entry that is in the map
    /// throughout a scan is passed at least once.
    pub fn scan<'a>(&'a self, cursor: u64, mut seen: impl FnMut(Entry<'a>)) -> u64 {
        let place = cursor.reverse_bits();
        let segment = self.pages.get(place).get(place);
        segment.entries().for_each(&mut seen);
        after(place, segment.depth())
    }

    /// Like a step of [`Dict::scan`], but passes only entries with an expiry, to `dead`, and
    /// removes those for which it returns true. Returns the cursor of the next step. Skips segments
    /// in which no entry has an expiry.
    pub fn sweep(&mut self, cursor: u64, mut dead: impl FnMut(Entry<'_>) -> bool) -> u64 {
        let place = cursor.reverse_bits();
        let segment = self.pages.get(place).get(place);
        let next = after(place, segment.depth());
        if segment.expires() {
            let segment = self.pages.get_mut(place).get_mut(place);
            let (removed, expired) = segment.remove_if(|e| e.expiry.is_some() && dead(e));
            self.len -= removed;
            self.expiring -= expired;
            if removed > 0 && segment.is_sparse() {
                self.merge(place);
            }
        }
        next
    }

    /// All entries, in the order of a scan.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.pages.items().flat_map(Page::items).flat_map(Segment::entries)
    }

    /// Passes all entries in the order of a scan to `seen` until it breaks, and releases each page
    /// once it was passed: later changes of a page by another holder need not copy it for this map.
    /// Leaves this map empty.
    pub(crate) fn pass<B>(
        &mut self,
        mut seen: impl FnMut(Entry<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let nothing = Directory::new(0, Page::new(0, Segment::new(0)));
        let pages = std::mem::replace(&mut self.pages, nothing);
        (self.len, self.expiring, self.deepest, self.widest) = (0, 0, 0, COUNT_SPLIT);
        for page in pages.into_items() {
            page.items().flat_map(Segment::entries).try_for_each(&mut seen)?;
        }
        ControlFlow::Continue(())
    }

    /// A random entry, all with the same probability; `None` when there is none. `draw` returns
    /// uniform numbers. Expected O(1); O(n / 100) in a map that was made lopsided on purpose.
    pub fn random(&self, draw: &mut impl FnMut() -> u64) -> Option<Entry<'_>> {
        let (place, nth) = self.choose(draw)?;
        Some(self.pages.get(place).get(place).nth(nth))
    }

    /// Passes a random entry, chosen like [`Dict::random`], to `seen`, and removes it; `None` when
    /// there is none.
    pub fn pop<T>(
        &mut self,
        draw: &mut impl FnMut() -> u64,
        seen: impl FnOnce(Entry<'_>) -> T,
    ) -> Option<T> {
        let (place, nth) = self.choose(draw)?;
        let segment = self.pages.get_mut(place).get_mut(place);
        let answer = seen(segment.nth(nth));
        let expired = segment.remove_nth(nth);
        self.len -= 1;
        self.expiring -= usize::from(expired);
        if segment.is_sparse() {
            self.merge(place);
        }
        Some(answer)
    }

    /// Chooses a random entry, all with the same probability: a hash in its segment's range, and
    /// its index there.
    fn choose(&self, draw: &mut impl FnMut() -> u64) -> Option<(u64, usize)> {
        if self.len == 0 {
            return None;
        }
        // Draws a slot of the finest grid, then an index below the longest segment's count,
        // uniformly. If no entry is there, draws again. So each entry has the same probability.
        for _ in 0..DRAWS {
            let (place, ticket) = (draw(), draw());
            let page = self.pages.get(place);
            let Some(segment) = page.exact(place) else {
                continue;
            };
            // The slots of this page may be coarser than the grid.
            let coarser = self.deepest - page.full_depth();
            let nth = ((u128::from(ticket) * self.widest as u128) >> 64) as usize;
            if nth < segment.count() && (coarser == 0 || draw().trailing_zeros() >= coarser) {
                return Some((place, nth));
            }
        }
        self.locate((draw() % self.len as u64) as usize)
    }

    /// The position of the `n`-th entry in the order of a scan. O(n / 100).
    fn locate(&self, mut n: usize) -> Option<(u64, usize)> {
        let mut place = 0u64;
        for segment in self.pages.items().flat_map(Page::items) {
            if n < segment.count() {
                return Some((place, n));
            }
            n -= segment.count();
            // After the last segment this wraps, and the loop ends.
            place = place.wrapping_add(1u64.checked_shl(64 - segment.depth()).unwrap_or(0));
        }
        None
    }
}

/// The place of `key` in hash space.
#[inline]
fn hash(hasher: &impl BuildHasher, key: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(key);
    spread(state.finish())
}

/// Maps hashes to places in the same order, but twice as dense at 0 as at the other end: (2h + h²)
/// / 3 for h from 0 to 1.
#[inline]
fn spread(hash: u64) -> u64 {
    let square = ((u128::from(hash) * u128::from(hash)) >> 64) as u64;
    hash / 3 * 2 + square / 3
}

/// The cursor after the range of `depth` bits that contains `place`.
fn after(place: u64, depth: u32) -> u64 {
    let Some(width) = 1u64.checked_shl(64 - depth) else {
        return 0;
    };
    let first = place & !(width - 1);
    first.wrapping_add(width).reverse_bits()
}

#[cfg(test)]
mod tests;
