//! A long list: the row of its chunks.

use super::End;
use super::chunk::Chunk;
use crate::Limits;
use crate::packed::{COUNT_MAX, Encoded, Entries, Form, TwoWay, Value};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

/// What the reference counts for the frame of each of its chunks (bytes). Here there is none, but
/// where a chunk is full must be the same, since OBJECT ENCODING depends on it.
pub(super) const FRAME: usize = 7;

/// What the reference adds to the length of an element to guess the length of its entry.
const GUESS: usize = 8;

/// The most bytes of a chunk whose limit is a number of elements.
const SAFE_BYTES: usize = 8192;

/// How much a chunk may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    Bytes(usize),
    Elements(usize),
}

impl Fill {
    /// What `list-max-listpack-size` says.
    pub(super) fn of(limits: &Limits) -> Fill {
        match limits.list_size {
            0 => Fill::Elements(1),
            n if n > 0 => Fill::Elements(n as usize),
            n => Fill::Bytes(4096 << (-n - 1).min(4)),
        }
    }

    /// Whether entries of so many bytes, frame included, and so many elements are too much.
    pub(super) fn exceeds(self, bytes: usize, elements: usize) -> bool {
        match self {
            Fill::Bytes(most) => bytes > most,
            Fill::Elements(most) => bytes > SAFE_BYTES || elements > most,
        }
    }

    /// Whether a list of one chunk of this size goes back into its record.
    fn fits_half(self, bytes: usize, elements: usize) -> bool {
        match self {
            Fill::Bytes(most) => bytes <= most / 2,
            Fill::Elements(most) => elements <= most / 2,
        }
    }

    /// The most bytes of entries for which slack is kept.
    fn most_bytes(self) -> usize {
        match self {
            Fill::Bytes(most) => most,
            Fill::Elements(_) => SAFE_BYTES,
        }
    }
}

/// Bytes of a packed list as the reference counts them. O(1) with backward lengths, else O(n).
pub(super) fn framed<F: Form>(entries: Entries<'_, F>) -> usize {
    let bytes = if F::BACKWARD { entries.end() } else { entries.len_in::<TwoWay>() };
    bytes + FRAME
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Chunks {
    chunks: VecDeque<Chunk>,
    len: usize,
    fill: Fill,
    /// `list-compress-depth`: how many chunks at either end are never pressed, while all others
    /// are; 0: none is pressed. Like `fill`, as it was when the list became a long one.
    depth: usize,
}

/// Where an element is: chunk, place in it, offset of its entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub chunk: usize,
    pub nth: usize,
    pub at: usize,
}

impl Chunks {
    /// The list of these packed entries, as its one chunk.
    pub(super) fn of(entries: Entries<'_, TwoWay>, count: usize, limits: &Limits) -> Self {
        let mut chunks = VecDeque::new();
        if count > 0 {
            chunks.push_back(Chunk::of(entries, count));
        }
        Chunks { chunks, len: count, fill: Fill::of(limits), depth: limits.list_compress }
    }

    /// Elements. O(1).
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory, this value included. O(chunks).
    pub fn memory(&self) -> usize {
        let row = self.chunks.capacity() * size_of::<Chunk>() + size_of::<Chunks>();
        row + self.chunks.iter().map(Chunk::memory).sum::<usize>()
    }

    /// The bytes of the entries of each chunk.
    pub(super) fn texts(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        self.chunks.iter().map(Chunk::text)
    }

    /// The entries and their number, when the list has shrunk so far that it goes back into its
    /// record: one chunk, at most half full by what the directive says now.
    pub(super) fn as_small(&self, fill: Fill) -> Option<(Entries<'_, TwoWay>, usize)> {
        let chunk = self.chunks.front().filter(|_| self.chunks.len() == 1)?;
        // At the end of the row, it is never pressed.
        let entries = chunk.plain_entries()?;
        let small = fill.fits_half(framed(entries), chunk.count());
        (small && chunk.count() <= COUNT_MAX).then(|| (entries, chunk.count()))
    }

    fn allows(&self, chunk: &Chunk, len: usize) -> bool {
        !self.fill.exceeds(chunk.bytes() + FRAME + len + GUESS, chunk.count() + 1)
    }

    /// Whether chunks are pressed where they should be and nowhere else.
    #[cfg(test)]
    pub(super) fn keeps_depth(&self) -> bool {
        let inner = self.depth..self.chunks.len().saturating_sub(self.depth);
        self.chunks.iter().enumerate().all(|(at, chunk)| {
            let mut wanted = chunk.clone();
            match self.depth > 0 && inner.contains(&at) {
                true => wanted.press(),
                false => wanted.unpress(),
            }
            chunk.is_pressed() == wanted.is_pressed()
        })
    }

    /// Adds an element at one end. Amortized O(1).
    #[inline]
    pub(super) fn push(&mut self, end: End, text: &[u8]) {
        let entry = Encoded::of(text);
        let most = self.fill.most_bytes();
        let last = match end {
            End::Left => self.chunks.front(),
            End::Right => self.chunks.back(),
        };
        if !last.is_some_and(|chunk| self.allows(chunk, text.len())) {
            self.new_end(end);
        }
        self.len += 1;
        match end {
            End::Left => self.chunks.front_mut().expect("made above").push_left(&entry, most),
            End::Right => self.chunks.back_mut().expect("made above").push_right(&entry, most),
        }
    }

    #[cold]
    fn new_end(&mut self, end: End) {
        // The one that was the last becomes an inner one, unless it is the only one.
        let settled = match end {
            _ if self.chunks.len() < 2 => None,
            End::Left => self.chunks.front_mut(),
            End::Right => self.chunks.back_mut(),
        };
        if let Some(chunk) = settled {
            chunk.settle();
        }
        match end {
            End::Left => self.chunks.push_front(Chunk::default()),
            End::Right => self.chunks.push_back(Chunk::default()),
        }
        self.keep_depth(0..0);
    }

    /// Presses and decompresses chunks as `list-compress-depth` says, after chunks have come or
    /// gone at one place of the row or been changed in `touched`. O(depth) beside what is pressed.
    fn keep_depth(&mut self, touched: Range<usize>) {
        if self.depth == 0 {
            return;
        }
        let (depth, end) = (self.depth, self.chunks.len());
        for at in 0..depth.min(end) {
            self.chunks[at].unpress();
            self.chunks[end - 1 - at].unpress();
        }
        let inner = depth..end.saturating_sub(depth);
        let edges = [inner.start, inner.end.saturating_sub(1)];
        let touched = touched.start.max(inner.start)..touched.end.min(inner.end);
        for at in edges.into_iter().filter(|at| inner.contains(at)).chain(touched) {
            self.chunks[at].press();
        }
    }

    /// Takes up to `n` elements from one end, shown to `seen` in the order of their going.
    pub(super) fn pop(&mut self, end: End, mut n: usize, seen: &mut impl FnMut(Value<'_>)) {
        while n > 0 {
            let chunk = match end {
                End::Left => self.chunks.front_mut(),
                End::Right => self.chunks.back_mut(),
            };
            let Some(chunk) = chunk else { return };
            let taken = n.min(chunk.count());
            let bytes = show(Entries::new(&chunk.text()), end, taken, seen);
            match end {
                End::Left => chunk.drop_left(taken, bytes),
                End::Right => chunk.drop_right(taken, bytes),
            }
            self.len -= taken;
            n -= taken;
            if chunk.count() == 0 {
                match end {
                    End::Left => self.chunks.pop_front(),
                    End::Right => self.chunks.pop_back(),
                };
                self.keep_depth(0..0);
            }
        }
    }

    /// Drops `n` elements from one end, whole chunks without a look at them. O(chunks).
    pub(super) fn trim(&mut self, end: End, mut n: usize) {
        loop {
            let chunk = match end {
                End::Left => self.chunks.front(),
                End::Right => self.chunks.back(),
            };
            let Some(count) = chunk.map(Chunk::count).filter(|count| *count <= n) else {
                self.pop(end, n, &mut |_| {});
                return self.keep_depth(0..0);
            };
            match end {
                End::Left => self.chunks.pop_front(),
                End::Right => self.chunks.pop_back(),
            };
            self.len -= count;
            n -= count;
        }
    }

    /// The chunk of the element at `index`, which must be below the length, and its place in the
    /// chunk; looked for from the nearer end.
    fn locate(&self, index: usize) -> (usize, usize) {
        if index < self.len / 2 {
            let mut before = 0;
            let found = self.chunks.iter().position(|chunk| {
                let here = index < before + chunk.count();
                before += if here { 0 } else { chunk.count() };
                here
            });
            (found.expect("below the length"), index - before)
        } else {
            let mut behind = self.len;
            let found = self.chunks.iter().rposition(|chunk| {
                behind -= chunk.count();
                index >= behind
            });
            (found.expect("below the length"), index - behind)
        }
    }

    /// Finds the element at `index`, which must be below the length.
    pub(super) fn find(&self, index: usize) -> Place {
        let (chunk, nth) = self.locate(index);
        let at = offset(&self.chunks[chunk], nth);
        Place { chunk, nth, at }
    }

    /// Shows the elements from `index` to the tail to `seen`, until it says `false`.
    pub(super) fn each_from(&self, index: usize, seen: &mut impl FnMut(Value<'_>) -> bool) {
        if index >= self.len {
            return;
        }
        let (first, nth) = self.locate(index);
        let mut skip = nth;
        for chunk in self.chunks.range(first..) {
            let text = chunk.text();
            let entries = Entries::<TwoWay>::new(&text);
            let entries = match std::mem::take(&mut skip) {
                0 => entries,
                nth => entries.from(entries.offset_of(chunk.count(), nth)),
            };
            if !entries.iter().all(|(_, value)| seen(value)) {
                return;
            }
        }
    }

    /// Shows the elements from the one `back` places before the tail to the head to `seen`, until
    /// it says `false`.
    pub(super) fn each_back_from(&self, back: usize, seen: &mut impl FnMut(Value<'_>) -> bool) {
        if back >= self.len {
            return;
        }
        let (last, nth) = self.locate(self.len - 1 - back);
        let mut keep = Some(nth + 1);
        for chunk in self.chunks.range(..=last).rev() {
            let text = chunk.text();
            let entries = Entries::<TwoWay>::new(&text);
            let entries = match keep.take() {
                Some(n) => entries.until(entries.offset_of(chunk.count(), n)),
                None => entries,
            };
            if !entries.back().all(|(_, value)| seen(value)) {
                return;
            }
        }
    }

    /// Puts `text` in the place of the element at `place`. An element that is too large for any
    /// chunk has one of its own, which goes when something smaller takes its place.
    pub(super) fn set(&mut self, place: Place, text: &[u8]) {
        let chunk = &self.chunks[place.chunk];
        let alone = chunk.count() == 1 && self.fill.exceeds(chunk.bytes() + FRAME, 1);
        if alone && !self.fill.exceeds(text.len(), 1) {
            self.insert(place, text, true);
            self.remove_at(place);
        } else {
            self.chunks[place.chunk].replace(place.at, 1, &[Encoded::of(text)]);
        }
        self.keep_depth(around(place.chunk));
    }

    /// Removes the element at `place`.
    fn remove_at(&mut self, place: Place) {
        self.chunks[place.chunk].replace(place.at, 1, &[]);
        self.len -= 1;
        if self.chunks[place.chunk].count() == 0 {
            self.chunks.remove(place.chunk);
        }
    }

    /// Removes up to `most` elements that equal `text`, from one end on; answers how many. O(n).
    pub(super) fn remove(&mut self, end: End, text: &[u8], most: usize) -> usize {
        let wanted = Encoded::of(text);
        let mut removed = 0;
        let mut chunk = if end == End::Left { 0 } else { self.chunks.len() };
        while removed < most {
            match end {
                End::Left if chunk == self.chunks.len() => break,
                End::Right if chunk == 0 => break,
                End::Left => {}
                End::Right => chunk -= 1,
            }
            let hits = {
                let text = self.chunks[chunk].text();
                hits(Entries::<TwoWay>::new(&text), &wanted, end, most - removed)
            };
            removed += hits.len();
            let emptied = hits.len() == self.chunks[chunk].count();
            // From the right, so that the offsets of those on the left stay valid.
            for at in hits {
                self.remove_at(Place { chunk, nth: 0, at });
            }
            if end == End::Left && !emptied {
                chunk += 1;
            }
        }
        if removed > 0 {
            self.keep_depth(0..self.chunks.len());
        }
        removed
    }

    /// Inserts `text` before or after the element at `place`. A chunk that is full hands over to
    /// its neighbour at the edge, or is split, and the parts are joined with what is beside them
    /// where that fits.
    pub(super) fn insert(&mut self, place: Place, text: &[u8], after: bool) {
        self.len += 1;
        self.chunks[place.chunk].unpress();
        self.insert_into(place, text, after);
        self.keep_depth(around(place.chunk));
    }

    fn insert_into(&mut self, place: Place, text: &[u8], after: bool) {
        let Place { chunk, nth, at } = place;
        let full = !self.allows(&self.chunks[chunk], text.len());
        let entry = Encoded::of(text);
        let at = match after {
            true => Entries::<TwoWay>::new(&self.chunks[chunk].text()).after(at),
            false => at,
        };
        if !full {
            return self.chunks[chunk].replace(at, 0, &[entry]);
        }
        let last = nth + 1 == self.chunks[chunk].count();
        let most = self.fill.most_bytes();
        let roomy = |of: Option<&Chunk>| of.is_some_and(|chunk| self.allows(chunk, text.len()));
        let (next, previous) = (self.chunks.get(chunk + 1), chunk.checked_sub(1));
        let alone = Chunk::default();
        if after && last {
            match roomy(next) {
                true => self.chunks[chunk + 1].replace(0, 0, &[entry]),
                false => {
                    self.chunks.insert(chunk + 1, alone);
                    self.chunks[chunk + 1].push_right(&entry, most);
                    self.chunks[chunk + 1].settle();
                }
            }
        } else if !after && nth == 0 {
            match previous.filter(|p| roomy(self.chunks.get(*p))) {
                Some(previous) => {
                    let end = self.chunks[previous].bytes();
                    self.chunks[previous].replace(end, 0, &[entry]);
                }
                None => {
                    self.chunks.insert(chunk, alone);
                    self.chunks[chunk].push_right(&entry, most);
                    self.chunks[chunk].settle();
                }
            }
        } else {
            let left = nth + usize::from(after);
            let count = self.chunks[chunk].count() - left;
            let mut right = self.chunks[chunk].split_off(at, count);
            match after {
                true => right.replace(0, 0, &[entry]),
                false => {
                    let end = self.chunks[chunk].bytes();
                    self.chunks[chunk].replace(end, 0, &[entry]);
                }
            }
            self.chunks.insert(chunk + 1, right);
            self.join_around(if after { chunk + 1 } else { chunk });
        }
    }

    /// Joins the neighbours of the chunk at `center`, and it with them, where that fits.
    fn join_around(&mut self, center: usize) {
        let mut center = center;
        if center >= 2 && self.join(center - 2) {
            center -= 1;
        }
        if center + 2 < self.chunks.len() {
            self.join(center + 1);
        }
        if center >= 1 && self.join(center - 1) {
            center -= 1;
        }
        if center + 1 < self.chunks.len() {
            self.join(center);
        }
    }

    /// Joins the chunk at `left` with the one behind it, if they fit into one; whether they did.
    fn join(&mut self, left: usize) -> bool {
        let (a, b) = (&self.chunks[left], &self.chunks[left + 1]);
        if self.fill.exceeds(a.bytes() + b.bytes() + FRAME, a.count() + b.count()) {
            return false;
        }
        if let Some(right) = self.chunks.remove(left + 1) {
            self.chunks[left].join(&right);
        }
        true
    }
}

/// The chunks that a change at this one can have touched: it is split, and each part joined with
/// two neighbours at most.
fn around(chunk: usize) -> Range<usize> {
    chunk.saturating_sub(3)..chunk + 4
}

/// Where the `nth` entry of a chunk is.
fn offset(chunk: &Chunk, nth: usize) -> usize {
    Entries::<TwoWay>::new(&chunk.text()).offset_of(chunk.count(), nth)
}

/// Shows `n` entries from one end; answers their length in bytes.
fn show(
    entries: Entries<'_, TwoWay>,
    end: End,
    n: usize,
    seen: &mut impl FnMut(Value<'_>),
) -> usize {
    match end {
        End::Left => {
            let mut at = 0;
            for _ in 0..n {
                seen(entries.get(at));
                at = entries.after(at);
            }
            at
        }
        End::Right => {
            let mut from = entries.end();
            for (at, value) in entries.back().take(n) {
                seen(value);
                from = at;
            }
            entries.end() - from
        }
    }
}

/// Offsets of up to `most` entries that equal `wanted`, looked for from one end; in descending
/// order.
pub(super) fn hits<F: Form>(
    entries: Entries<'_, F>,
    wanted: &Encoded<'_>,
    end: End,
    most: usize,
) -> Vec<usize> {
    let matches = |at: &usize| entries.holds(*at, wanted);
    match end {
        End::Left => {
            let mut found: Vec<usize> = entries.offsets().filter(matches).take(most).collect();
            found.reverse();
            found
        }
        End::Right => entries.back().map(|(at, _)| at).filter(matches).take(most).collect(),
    }
}
