//! The chunks of a long list in a row: two ends, and pages between them.
//!
//! ```text
//!  front           pages                              back
//!  [chunk chunk]   [ 128 chunks ][ 128 ] ... [ 128 ]  [chunk chunk chunk]
//!                    counted, as the chunks' entries
//! ```
//!
//! Elements are added and removed at the ends, whose chunks are directly accessible. A row of few
//! chunks is only a front. An end with too many chunks moves the innermost ones into a page; an
//! empty end takes over a page. Pages are reference-counted: a clone of the row copies the ends and
//! the list of pages, and shares each page until one side changes a chunk in it.

use super::End;
use super::chunk::Chunk;
use crate::counted::CountedRow;
use std::collections::VecDeque;

/// The approximate number of chunks of a page; never more than twice that.
const PAGE: usize = if cfg!(test) { 4 } else { 128 };

/// The most chunks of an end. A row without pages may have this many, too.
const END_MOST: usize = 2 * PAGE;

/// See the module documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// Empty only if there is no chunk at all.
    front: VecDeque<Chunk>,
    rest: Option<Box<Rest>>,
}

/// The chunks of a long row after its front.
#[derive(Clone, Debug, Default)]
struct Rest {
    /// No page is empty.
    pages: VecDeque<CountedRow<Chunk>>,
    /// The number of chunks in pages.
    paged: usize,
    /// Not empty.
    back: VecDeque<Chunk>,
}

impl Rest {
    /// The page of the `at`-th chunk after the front, which must be in a page, and its index there.
    /// O(pages).
    fn page(&self, mut at: usize) -> (usize, usize) {
        for (page, chunks) in self.pages.iter().enumerate() {
            if at < chunks.len() {
                return (page, at);
            }
            at -= chunks.len();
        }
        unreachable!("paged counts the chunks of all pages")
    }

    fn get(&self, at: usize) -> Option<&Chunk> {
        if at >= self.paged {
            return self.back.get(at - self.paged);
        }
        let (page, at) = self.page(at);
        Some(&self.pages[page][at])
    }

    fn get_mut(&mut self, at: usize) -> Option<&mut Chunk> {
        if at >= self.paged {
            return self.back.get_mut(at - self.paged);
        }
        let (page, at) = self.page(at);
        Some(&mut self.pages[page][at])
    }

    /// Changes a page as a vector. Removes an empty page, divides a page that is too long, and
    /// joins two short neighbours.
    fn edit<T>(&mut self, page: usize, change: impl FnOnce(&mut Vec<Chunk>) -> T) -> T {
        let mut chunks = std::mem::take(&mut self.pages[page]).into_vec();
        self.paged -= chunks.len();
        let answer = change(&mut chunks);
        self.paged += chunks.len();
        if chunks.len() > 2 * PAGE {
            let after = chunks.split_off(PAGE);
            self.pages.insert(page + 1, after.into());
        } else if chunks.len() < PAGE / 2
            && self.pages.get(page + 1).is_some_and(|next| next.len() <= PAGE / 2)
        {
            chunks.extend(self.pages.remove(page + 1).into_iter().flat_map(CountedRow::into_vec));
        }
        match chunks.is_empty() {
            true => drop(self.pages.remove(page)),
            false => self.pages[page] = chunks.into(),
        }
        answer
    }

    /// Appends a page of these chunks to the pages.
    fn add_page(&mut self, chunks: VecDeque<Chunk>) {
        if !chunks.is_empty() {
            self.paged += chunks.len();
            self.pages.push_back(Vec::from(chunks).into());
        }
    }

    fn chunks(&self) -> impl DoubleEndedIterator<Item = &Chunk> {
        self.pages.iter().flat_map(|page| page.iter()).chain(&self.back)
    }
}

impl Row {
    /// The number of chunks. O(1).
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.front.len() + self.rest.as_ref().map_or(0, |rest| rest.paged + rest.back.len())
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.front.is_empty()
    }

    /// The chunk at `at`. O(1) at the ends, O(pages) between them; so for all below.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&Chunk> {
        match &self.rest {
            Some(rest) if at >= self.front.len() => rest.get(at - self.front.len()),
            Some(_) | None => self.front.get(at),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Chunk> {
        match &mut self.rest {
            Some(rest) if at >= self.front.len() => rest.get_mut(at - self.front.len()),
            Some(_) | None => self.front.get_mut(at),
        }
    }

    #[inline]
    pub(super) fn front(&self) -> Option<&Chunk> {
        self.front.front()
    }

    #[inline]
    pub(super) fn back(&self) -> Option<&Chunk> {
        match &self.rest {
            Some(rest) => rest.back.back(),
            None => self.front.back(),
        }
    }

    #[inline]
    pub(super) fn front_mut(&mut self) -> Option<&mut Chunk> {
        self.front.front_mut()
    }

    #[inline]
    pub(super) fn back_mut(&mut self) -> Option<&mut Chunk> {
        match &mut self.rest {
            Some(rest) => rest.back.back_mut(),
            None => self.front.back_mut(),
        }
    }

    /// The chunk at one end.
    #[inline]
    pub(super) fn end_mut(&mut self, end: End) -> Option<&mut Chunk> {
        match end {
            End::Left => self.front_mut(),
            End::Right => self.back_mut(),
        }
    }

    #[inline]
    pub(super) fn push_front(&mut self, chunk: Chunk) {
        self.front.push_front(chunk);
        self.spill();
    }

    #[inline]
    pub(super) fn push_back(&mut self, chunk: Chunk) {
        match &mut self.rest {
            Some(rest) => rest.back.push_back(chunk),
            None => self.front.push_back(chunk),
        }
        self.spill();
    }

    pub(super) fn pop(&mut self, end: End) -> Option<Chunk> {
        let popped = match (end, &mut self.rest) {
            (End::Right, Some(rest)) => rest.back.pop_back(),
            (End::Right, None) => self.front.pop_back(),
            (End::Left, _) => self.front.pop_front(),
        };
        self.fill_ends();
        popped
    }

    /// Inserts a chunk before the one at `at`, or at the end.
    pub(super) fn insert(&mut self, at: usize, chunk: Chunk) {
        match (at.checked_sub(self.front.len()), &mut self.rest) {
            (Some(at), Some(rest)) if at >= rest.paged => rest.back.insert(at - rest.paged, chunk),
            (Some(at), Some(rest)) => {
                let (page, at) = rest.page(at);
                rest.edit(page, |chunks| chunks.insert(at, chunk));
            }
            (_, None) | (None, Some(_)) => self.front.insert(at, chunk),
        }
        self.spill();
    }

    /// Removes the chunk at `at`.
    pub(super) fn remove(&mut self, at: usize) -> Option<Chunk> {
        let removed = match (at.checked_sub(self.front.len()), &mut self.rest) {
            (Some(at), Some(rest)) if at >= rest.paged => rest.back.remove(at - rest.paged),
            (Some(at), Some(rest)) => {
                let (page, at) = rest.page(at);
                Some(rest.edit(page, |chunks| chunks.remove(at)))
            }
            (_, None) | (None, Some(_)) => self.front.remove(at),
        };
        self.fill_ends();
        removed
    }

    /// All chunks in order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Chunk> {
        self.front.iter().chain(self.rest.iter().flat_map(|rest| rest.chunks()))
    }

    /// All chunks in order, by value.
    pub(super) fn into_chunks(self) -> impl Iterator<Item = Chunk> {
        let (pages, back) = match self.rest {
            Some(rest) => (rest.pages, rest.back),
            None => Default::default(),
        };
        let paged = pages.into_iter().flat_map(CountedRow::into_vec);
        self.front.into_iter().chain(paged).chain(back)
    }

    /// Passes the chunks from one end on to `look`, and each for which it returns `Some` to
    /// `change`, until that returns `false`. Pages without such a chunk stay shared.
    pub(super) fn change_matching<T>(
        &mut self,
        end: End,
        mut look: impl FnMut(&Chunk) -> Option<T>,
        mut change: impl FnMut(&mut Chunk, T) -> bool,
    ) {
        let mut parts = vec![Part::End(&mut self.front)];
        if let Some(rest) = &mut self.rest {
            parts.extend(rest.pages.iter_mut().map(Part::Page));
            parts.push(Part::End(&mut rest.back));
        }
        if end == End::Right {
            parts.reverse();
        }
        for part in &mut parts {
            let len = part.len();
            for n in 0..len {
                let at = match end {
                    End::Left => n,
                    End::Right => len - 1 - n,
                };
                if let Some(found) = look(part.get(at))
                    && !change(part.get_mut(at), found)
                {
                    return;
                }
            }
        }
    }

    /// Removes and returns the chunks from `at` on. O(pages + chunks of a page).
    pub(super) fn split_off(&mut self, at: usize) -> Row {
        let mut right = Row::default();
        match (at.checked_sub(self.front.len()), &mut self.rest) {
            (None, _) => {
                right.front = self.front.split_off(at);
                right.rest = self.rest.take();
            }
            (Some(_), None) => {}
            (Some(at), Some(rest)) if at >= rest.paged => {
                right.front = rest.back.split_off(at - rest.paged);
            }
            (Some(at), Some(rest)) => {
                let (page, within) = rest.page(at);
                let mut pages = rest.pages.split_off(page);
                if within > 0
                    && let Some(page) = pages.pop_front()
                {
                    let mut left = page.into_vec();
                    pages.push_front(left.split_off(within).into());
                    rest.pages.push_back(left.into());
                }
                let (paged, back) = (rest.paged - at, std::mem::take(&mut rest.back));
                rest.paged = at;
                right.rest = Some(Box::new(Rest { pages, paged, back }));
            }
        }
        self.fill_ends();
        right.fill_ends();
        right
    }

    /// Appends the chunks of another row. O(pages + chunks of the ends).
    pub(super) fn append(&mut self, other: Row) {
        if self.is_empty() {
            *self = other;
            return;
        }
        let own = self.rest.get_or_insert_with(Box::default);
        let back = std::mem::take(&mut own.back);
        own.add_page(back);
        own.add_page(other.front);
        if let Some(mut rest) = other.rest {
            own.paged += rest.paged;
            own.pages.append(&mut rest.pages);
            own.back = rest.back;
        }
        self.fill_ends();
    }

    /// Moves chunks of an end with too many of them into a page.
    #[inline]
    fn spill(&mut self) {
        let back = self.rest.as_ref().map_or(0, |rest| rest.back.len());
        if self.front.len().max(back) > END_MOST {
            self.page_out();
        }
    }

    #[cold]
    fn page_out(&mut self) {
        let Some(rest) = &mut self.rest else {
            let back = self.front.split_off(PAGE);
            self.rest = Some(Box::new(Rest { back, ..Rest::default() }));
            return;
        };
        if self.front.len() > END_MOST {
            let page = Vec::from(self.front.split_off(self.front.len() - PAGE));
            rest.paged += page.len();
            rest.pages.push_front(page.into());
        }
        if rest.back.len() > END_MOST {
            let back = rest.back.split_off(PAGE);
            let page = std::mem::replace(&mut rest.back, back);
            rest.add_page(page);
        }
    }

    /// Moves a page into an empty end.
    #[inline]
    fn fill_ends(&mut self) {
        if let Some(rest) = &self.rest
            && (self.front.is_empty() || rest.back.is_empty())
        {
            self.page_in();
        }
    }

    #[cold]
    fn page_in(&mut self) {
        let Some(rest) = &mut self.rest else { return };
        if self.front.is_empty()
            && let Some(page) = rest.pages.pop_front()
        {
            rest.paged -= page.len();
            self.front = page.into_vec().into();
        }
        if rest.back.is_empty()
            && let Some(page) = rest.pages.pop_back()
        {
            rest.paged -= page.len();
            rest.back = page.into_vec().into();
        }
        if self.front.is_empty() || rest.back.is_empty() {
            // There are no pages left.
            self.front.append(&mut rest.back);
            self.rest = None;
        }
    }

    /// Frees memory of the ends, and of the list of pages, if less than a quarter of it is used.
    pub(super) fn shrink(&mut self) {
        shrink(&mut self.front);
        if let Some(rest) = &mut self.rest {
            shrink(&mut rest.back);
            shrink(&mut rest.pages);
        }
    }

    /// Frees all unused memory if the row is short.
    pub(super) fn fit(&mut self, short: usize) {
        if self.front.capacity() <= short {
            self.front.shrink_to_fit();
        }
    }

    /// Bytes of memory, without the memory that chunks own. O(pages).
    pub(super) fn memory(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| {
            let list = rest.pages.capacity() * size_of::<CountedRow<Chunk>>();
            let pages = rest.pages.iter().map(CountedRow::memory).sum::<usize>();
            size_of::<Rest>() + list + pages + rest.back.capacity() * size_of::<Chunk>()
        });
        self.front.capacity() * size_of::<Chunk>() + rest
    }
}

fn shrink<T>(row: &mut VecDeque<T>) {
    if row.capacity() > 4 * row.len() + 16 {
        row.shrink_to(2 * row.len());
    }
}

/// A part of a row that is changed or shared as a whole.
enum Part<'r> {
    End(&'r mut VecDeque<Chunk>),
    Page(&'r mut CountedRow<Chunk>),
}

impl Part<'_> {
    fn len(&self) -> usize {
        match self {
            Part::End(chunks) => chunks.len(),
            Part::Page(chunks) => chunks.len(),
        }
    }

    fn get(&self, at: usize) -> &Chunk {
        match self {
            Part::End(chunks) => &chunks[at],
            Part::Page(chunks) => &chunks[at],
        }
    }

    fn get_mut(&mut self, at: usize) -> &mut Chunk {
        match self {
            Part::End(chunks) => &mut chunks[at],
            Part::Page(chunks) => &mut chunks[at],
        }
    }
}

impl std::ops::Index<usize> for Row {
    type Output = Chunk;

    #[inline]
    fn index(&self, at: usize) -> &Chunk {
        self.get(at).expect("an index in the row")
    }
}

impl std::ops::IndexMut<usize> for Row {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut Chunk {
        self.get_mut(at).expect("an index in the row")
    }
}

#[cfg(test)]
impl Row {
    /// Panics unless the invariants of the module documentation hold.
    pub(super) fn check(&self) {
        let Some(rest) = &self.rest else { return };
        assert!(!self.front.is_empty() && self.front.len() <= END_MOST);
        assert!(!rest.back.is_empty() && rest.back.len() <= END_MOST);
        assert!(rest.pages.iter().all(|page| !page.is_empty() && page.len() <= 2 * PAGE));
        assert_eq!(rest.paged, rest.pages.iter().map(|page| page.len()).sum::<usize>());
        assert_eq!(self.len(), self.iter().count());
    }
}
