//! What a turn gathers for the log until its group is committed.
//!
//! Commands say what is to be repeated in their place, or nothing: then it is their words, if they
//! have changed anything. What expires or is evicted on the way is said when it happens, in front of
//! the command that met it.

use super::lane::Lane;
use super::unit::{Args, Block, Target};
use std::fmt;
use std::sync::Arc;

/// The unit that is being made.
#[derive(Default)]
pub struct Draft {
    block: Block,
    /// The present command has changed a key.
    pub(crate) touched: bool,
    /// It has said what is to be logged, so its words are not.
    pub(crate) said: bool,
    /// Something was published, and the reader was not looked after.
    pub(super) rings: bool,
    /// The number of the last unit.
    pub(super) last: u64,
    pub(super) lane: Option<Arc<Lane>>,
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Draft { block, touched, said, .. } = self;
        f.debug_struct("Draft")
            .field("block", block)
            .field("touched", touched)
            .field("said", said)
            .finish_non_exhaustive()
    }
}

impl Draft {
    /// Whether there is nothing to be logged.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.block.has_no_entries()
    }

    /// Whether something is to be logged, or the words of the present command may have to be.
    pub(crate) fn is_pending(&self) -> bool {
        self.touched || self.said || !self.is_empty()
    }

    /// Appends a command.
    pub fn push(&mut self, db: usize, target: Target, args: &mut Args<'_, '_>) {
        self.block.push(db, target, args);
    }

    /// Appends a command of words that are all copied.
    #[inline]
    pub(crate) fn push_words(&mut self, db: usize, target: Target, words: &[&[u8]]) {
        self.block.push_words(db, target, words);
    }

    /// What was gathered.
    #[inline]
    pub(super) fn block(&mut self) -> &mut Block {
        &mut self.block
    }

    /// Forgets what was gathered.
    pub(crate) fn clear(&mut self) {
        self.block.clear();
        self.touched = false;
        self.said = false;
    }
}
