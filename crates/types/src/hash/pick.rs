//! Chooses fields at random, all with the same probability.
//!
//! `draw` returns uniform 64-bit numbers. One field of a packed hash is chosen by its index, one of
//! a table by [`Dict::random`](crate::dict::Dict::random). Several distinct ones are chosen in one
//! pass: with `k` still wanted and `n` remaining, the next one is taken with probability k/n, so
//! every subset of that size is equally likely. If fields expire, the live ones are listed first.

use super::{Hash, Pair, View, pairs};
use std::collections::HashSet;

/// A uniform number less than `n`, which must not be 0.
fn below(n: usize, draw: &mut impl FnMut() -> u64) -> usize {
    ((u128::from(draw()) * n as u128) >> 64) as usize
}

impl<'a> Hash<'a> {
    /// The table, if none of its fields can have expired.
    fn unexpiring_table(self) -> Option<&'a super::Table> {
        match self.view {
            View::Table(table) if table.expiring() == 0 => Some(table),
            View::Table(_) | View::Packed { .. } => None,
        }
    }

    /// A random live field; `None` when there is none. O(n), or expected O(1) in a table whose
    /// fields don't expire.
    pub fn random(self, draw: &mut impl FnMut() -> u64) -> Option<Pair<'a>> {
        if let Some(table) = self.unexpiring_table() {
            return table.random(draw).map(Pair::of);
        }
        match self.view {
            View::Packed { count: 0, .. } => None,
            View::Packed { count, entries } => pairs(entries).nth(below(count, draw)),
            View::Table(_) => {
                let all = self.list();
                (!all.is_empty()).then(|| all[below(all.len(), draw)])
            }
        }
    }

    fn list(self) -> Vec<Pair<'a>> {
        let mut all = Vec::with_capacity(self.len());
        self.each(|pair| all.push(pair));
        all
    }

    /// The approximate number of fields that [`Hash::draw`] examines.
    #[must_use]
    pub fn draw_work(self, times: usize) -> usize {
        if self.unexpiring_table().is_some() { times } else { self.len().saturating_add(times) }
    }

    /// Passes `times` live fields to `seen`, each drawn from all; none if none is alive. O(n +
    /// times), or expected O(times) for a table whose fields don't expire.
    pub fn draw(
        self,
        times: usize,
        draw: &mut impl FnMut() -> u64,
        mut seen: impl FnMut(Pair<'a>),
    ) {
        if let Some(table) = self.unexpiring_table() {
            for _ in 0..times {
                table.random(draw).into_iter().for_each(|e| seen(Pair::of(e)));
            }
            return;
        }
        let all = self.list();
        if !all.is_empty() {
            (0..times).for_each(|_| seen(all[below(all.len(), draw)]));
        }
    }

    /// Whether `wanted` is so small that drawing until that many distinct fields are found rarely
    /// draws one twice.
    fn is_few(table: &super::Table, wanted: usize) -> bool {
        wanted < table.len() / 3
    }

    /// The approximate number of fields that [`Hash::sample`] examines.
    #[must_use]
    pub fn sample_work(self, wanted: usize) -> usize {
        match self.unexpiring_table() {
            Some(table) if Hash::is_few(table, wanted) => wanted,
            Some(_) | None => self.len(),
        }
    }

    /// Passes `wanted` distinct fields of the `live` ones (see [`Hash::live`]) to `seen`, or all if
    /// there are fewer. O(n), or expected O(wanted) if few are wanted from a table whose fields
    /// don't expire.
    pub fn sample(
        self,
        wanted: usize,
        live: usize,
        draw: &mut impl FnMut() -> u64,
        mut seen: impl FnMut(Pair<'a>),
    ) {
        if let Some(table) = self.unexpiring_table().filter(|table| Hash::is_few(table, wanted)) {
            let mut met = HashSet::with_capacity(wanted);
            while met.len() < wanted {
                let Some(entry) = table.random(draw) else {
                    return;
                };
                if met.insert(entry.key) {
                    seen(Pair::of(entry));
                }
            }
            return;
        }
        let (mut wanted, mut to_come) = (wanted.min(live), live);
        self.each(|pair| {
            if wanted > 0 && below(to_come, draw) < wanted {
                wanted -= 1;
                seen(pair);
            }
            to_come -= 1;
        });
    }
}
