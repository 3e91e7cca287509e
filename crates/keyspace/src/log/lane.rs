//! One thread's units on their way to the readers: a block that changes hands as a whole.
//!
//! ```text
//!   owner:   take the block out of `full` (or an empty one out of `spare`) ─► append ─► put it back
//!   reader:  take the block out of `full` ─► read it at leisure ─► put it, emptied, into `spare`
//! ```
//!
//! Both only exchange a pointer, so neither ever waits for the other, and there is no bound: while no
//! reader comes the block grows. In the moment in which the owner has it out a reader finds nothing,
//! which delays the log and nobody else. Readers take blocks out one at a time, at the
//! [desk](super::desk), where all get what one has taken.

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
    /// Bytes that the block takes beside those of its commands.
    overhead: AtomicU64,
    /// A turn may come to be used with another keyspace.
    log: Weak<Log>,
}

impl Lane {
    pub(super) fn new(log: &Arc<Log>) -> Lane {
        Lane {
            full: Hatch::default(),
            spare: Hatch::default(),
            published: AtomicU64::new(0),
            overhead: AtomicU64::new(0),
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
        self.overhead.store(block.overhead() as u64, Ordering::Relaxed);
        self.full.put(block);
        number
    }

    /// What has come since the last call. Only who is at the desk calls this, so what was taken out is
    /// handed out in its order.
    pub(super) fn collect(&self) -> Option<Box<Block>> {
        let block = self.full.take();
        if block.is_some() {
            self.overhead.store(0, Ordering::Relaxed);
        }
        block
    }

    /// Gives back a block that was read. Any reader may.
    pub(super) fn give_back(&self, mut block: Box<Block>) {
        block.clear();
        self.spare.put(block);
    }

    /// About how many bytes its block takes beside those of its commands.
    pub(super) fn overhead(&self) -> u64 {
        self.overhead.load(Ordering::Relaxed)
    }

    /// Bytes of commands that were published, ever.
    pub(super) fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::log::unit::{Arg, Target};

    /// Where the block is that was published last.
    fn published(log: &Arc<Log>, draft: &mut Draft) -> usize {
        draft.push(0, Target::ALL, &mut [Arg::Bytes(b"PING")].into_iter());
        log.publish(draft, 0);
        let lane = draft.lane.as_ref().expect("it has published");
        let block = lane.full.take().expect("nobody else takes it");
        let at = std::ptr::from_ref(&*block).addr();
        lane.full.put(block);
        at
    }

    #[test]
    fn a_block_that_was_read_is_used_again() {
        for readers in 1..=super::super::MAX_READERS {
            let (log, mut draft) = (Arc::<Log>::default(), Draft::default());
            let mut readers: Vec<_> = (0..readers)
                .map(|_| log.begin(Target::ALL, Arc::new(|| {})).expect("there is room"))
                .collect();
            let first = published(&log, &mut draft);
            // Whoever collects has the block itself, the others have copies.
            let reader = &mut readers[0];
            assert_eq!(reader.next().map(|unit| unit.number()), Some(1));
            assert!(reader.next().is_none());
            assert_eq!(published(&log, &mut draft), first);
        }
    }
}
