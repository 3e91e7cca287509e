//! One thread's units on their way to the reader: a block that changes hands as a whole.
//!
//! ```text
//!   owner:   take the block out of `full` (or an empty one out of `spare`) ─► append ─► put it back
//!   reader:  take the block out of `full` ─► read it at leisure ─► put it, emptied, into `spare`
//! ```
//!
//! Both only exchange a pointer, so neither ever waits for the other, and there is no bound: while the
//! reader does not come the block grows. In the moment in which the owner has it out the reader finds
//! nothing, which delays the log and nobody else.

use super::Log;
use super::draft::Draft;
use super::unit::Block;
use crate::sync::{AtomicU64, Hatch, Ordering};
use std::sync::{Arc, Weak};

/// See the module's description. On lines of its own.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Lane {
    full: Hatch<Block>,
    spare: Hatch<Block>,
    /// Bytes of commands, ever; changed by the owner.
    published: AtomicU64,
    /// The same, changed by the reader.
    collected: AtomicU64,
    /// A turn may come to be used with another keyspace.
    log: Weak<Log>,
}

impl Lane {
    pub(super) fn new(log: &Arc<Log>) -> Lane {
        Lane {
            full: Hatch::default(),
            spare: Hatch::default(),
            published: AtomicU64::new(0),
            collected: AtomicU64::new(0),
            log: Arc::downgrade(log),
        }
    }

    /// Whether it is a lane of `log`.
    pub(super) fn is_of(&self, log: &Arc<Log>) -> bool {
        std::ptr::eq(self.log.as_ptr(), Arc::as_ptr(log))
    }

    /// Appends what is in `draft` as the unit whose number `draw` answers. Only the owner calls this.
    pub(super) fn publish(&self, draft: &mut Draft, ms: i64, draw: impl FnOnce() -> u64) -> u64 {
        let block = self.full.take().or_else(|| self.spare.take());
        let mut block = block.unwrap_or_default();
        let size = block.append(draft.block());
        let published = self.published.load(Ordering::Relaxed) + size as u64;
        self.published.store(published, Ordering::Relaxed);
        // As late as can be: from here until the block is back, the reader waits.
        let number = draw();
        block.end_unit(number, ms);
        self.full.put(block);
        number
    }

    /// What has come since the last call. Only the reader calls this, as all below.
    pub(super) fn collect(&self) -> Option<Box<Block>> {
        self.full.take()
    }

    /// Gives back a block that was read.
    pub(super) fn give_back(&self, mut block: Box<Block>) {
        block.clear();
        self.spare.put(block);
    }

    /// Notes that a unit of `bytes` was passed on.
    pub(super) fn passed(&self, bytes: usize) {
        let collected = self.collected.load(Ordering::Relaxed) + bytes as u64;
        self.collected.store(collected, Ordering::Relaxed);
    }

    /// Bytes that were published and not passed on.
    pub(super) fn pending_bytes(&self) -> u64 {
        let collected = self.collected.load(Ordering::Relaxed);
        self.published.load(Ordering::Relaxed).saturating_sub(collected)
    }

    /// Forgets everything. Neither owner nor a reader is at it.
    pub(super) fn clear(&self) {
        drop(self.full.take());
        self.collected.store(self.published.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
