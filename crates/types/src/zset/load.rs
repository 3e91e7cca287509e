//! Builds a sorted set from saved elements, in any order.

use super::edit::{Edit, build, large};
use super::tree::Tree;
use crate::limits::PACKED_MAX;
use crate::packed::COUNT_MAX;
use crate::{Limits, Record};

/// A sorted set that is being loaded.
#[derive(Debug)]
pub struct Load {
    form: Form,
    limits: Limits,
    duplicates: bool,
}

#[derive(Debug)]
enum Form {
    Few { all: Vec<(Box<[u8]>, f64)>, bytes: usize },
    Tree(Box<Tree>),
}

impl Load {
    /// An empty set.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        let form = Form::Few { all: Vec::new(), bytes: 0 };
        Load { form, limits: *limits, duplicates: false }
    }

    /// An empty set that stays small however long the members are, because they were packed in the
    /// source.
    #[must_use]
    pub fn packed(limits: &Limits) -> Self {
        Load::new(&Limits { zset_value: usize::MAX, ..*limits })
    }

    /// Adds an element, whose score must not be NaN. O(log n).
    pub fn add(&mut self, member: &[u8], score: f64) {
        debug_assert!(!score.is_nan());
        if let Form::Few { all, bytes } = &mut self.form {
            let sum = bytes.saturating_add(member.len());
            let fits = all.len() < self.limits.zset_entries.min(COUNT_MAX / 2)
                && member.len() <= self.limits.zset_value
                && sum <= PACKED_MAX;
            if fits {
                *bytes = sum;
                return all.push((member.into(), score));
            }
            let few = std::mem::take(all);
            self.form = Form::Tree(Box::default());
            few.iter().for_each(|(member, score)| self.add(member, *score));
        }
        if let Form::Tree(tree) = &mut self.form {
            match tree.find(member) {
                Some(_) => self.duplicates = true,
                None => tree.insert(member, score),
            }
        }
    }

    /// The record of `key` with these elements. `expiry` is in Unix milliseconds; `clock` is as in
    /// [`Record::clock`]. `None` if there was a duplicate member.
    #[must_use]
    pub fn finish(self, key: &[u8], expiry: Option<i64>, clock: u32) -> Option<Record> {
        if self.duplicates {
            return None;
        }
        match self.form {
            Form::Few { mut all, .. } => {
                all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                if all.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                    return None;
                }
                // Sorted by member already; the stable sort keeps that order for equal scores.
                all.sort_by(|a, b| a.1.partial_cmp(&b.1).expect("no score is NaN"));
                Some(build(key, expiry, clock, &all, &self.limits))
            }
            Form::Tree(tree) => Some(large(Edit::new(key, expiry, clock).finish(), *tree)),
        }
    }
}
