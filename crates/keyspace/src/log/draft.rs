//! The log entries that a group collects until it is committed.
//!
//! A command logs other words to repeat instead of its own, or nothing; by default its own words
//! are logged if it has changed a key. Expiry and eviction that a command causes are logged when
//! they happen, before the command itself.

use super::thread_log::ThreadLog;
use super::unit::{Args, Block, Target};
use std::fmt;
use std::sync::Arc;

/// The unit under construction.
#[derive(Default)]
pub struct Draft {
    block: Block,
    /// The current command has changed a key.
    pub(crate) touched: bool,
    /// The current command has logged other words, so its own words are not logged.
    pub(crate) overridden: bool,
    /// Receivers that get none of the current entries.
    withheld: Target,
    /// A unit was published, and the readers have not been woken since.
    pub(super) wakes_readers: bool,
    /// The number of the last unit.
    pub(super) last: u64,
    pub(super) thread_log: Option<Arc<ThreadLog>>,
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Draft { block, touched, overridden, .. } = self;
        f.debug_struct("Draft")
            .field("block", block)
            .field("touched", touched)
            .field("said", overridden)
            .finish_non_exhaustive()
    }
}

impl Draft {
    /// Whether there are no entries.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.block.has_no_entries()
    }

    /// Whether there are entries, or the words of the current command may have to be logged.
    pub(crate) fn is_pending(&self) -> bool {
        self.touched || self.overridden || !self.is_empty()
    }

    /// Appends a command.
    pub fn push(&mut self, db: usize, target: Target, args: &mut Args<'_, '_>) {
        if let Some(target) = target.without(self.withheld) {
            self.block.push(db, target, args);
        }
    }

    /// Chooses the receivers of the entries from here on.
    pub(crate) fn direct(&mut self, to_log: bool, to_replicas: bool) {
        self.withheld = Target::of(!to_log, !to_replicas);
    }

    /// Appends a command of words that are all copied.
    #[inline]
    pub(crate) fn push_words(&mut self, db: usize, target: Target, words: &[&[u8]]) {
        if let Some(target) = target.without(self.withheld) {
            self.block.push_words(db, target, words);
        }
    }

    /// The collected entries.
    #[inline]
    pub(super) fn block(&mut self) -> &mut Block {
        &mut self.block
    }

    /// Discards the collected entries.
    pub(crate) fn clear(&mut self) {
        self.block.clear();
        self.touched = false;
        self.overridden = false;
    }
}
