//! One thread's log: a queue of units in one block that changes hands as a whole.
//!
//! ```text
//!   owner:   take the block out of `full` (or an empty one out of `spare`) ─► append ─► put it back
//!   reader:  take the block out of `full` ─► read it ─► put it, emptied, into `spare`
//! ```
//!
//! Both only exchange a pointer, so neither ever waits for the other. There is no bound: while no
//! reader collects, the block grows. During an append by the owner a reader finds no block, which
//! delays only the log. Readers take blocks out one at a time, in the [fan-out](super::fan_out),
//! which passes each block to all of them.

use super::Log;
use super::draft::Draft;
use super::unit::Block;
use crate::sync::{AtomicBox, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// One thread's log; see the module's description. Aligned against false sharing.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct ThreadLog {
    full: AtomicBox<Block>,
    spare: AtomicBox<Block>,
    /// Bytes of all commands published so far; changed by the owner.
    published: AtomicU64,
    /// Memory of the block without the bytes of its commands.
    overhead: AtomicU64,
    /// An execution context may later be used with another keyspace.
    log: Weak<Log>,
}

impl ThreadLog {
    pub(super) fn new(log: &Arc<Log>) -> ThreadLog {
        ThreadLog {
            full: AtomicBox::default(),
            spare: AtomicBox::default(),
            published: AtomicU64::new(0),
            overhead: AtomicU64::new(0),
            log: Arc::downgrade(log),
        }
    }

    /// Whether it belongs to `log`.
    pub(super) fn is_of(&self, log: &Arc<Log>) -> bool {
        std::ptr::eq(self.log.as_ptr(), Arc::as_ptr(log))
    }

    /// Appends the entries of `draft` as a unit with the number that `draw` returns. Only the
    /// owner may call this.
    pub(super) fn publish(&self, draft: &mut Draft, ms: i64, draw: impl FnOnce() -> u64) -> u64 {
        let block = self.full.take().or_else(|| self.spare.take());
        let mut block = block.unwrap_or_default();
        let size = block.append(draft.block());
        let published = self.published.load(Ordering::Relaxed) + size as u64;
        self.published.store(published, Ordering::Relaxed);
        // Drawn as late as possible: readers wait from here until the block is back.
        let number = draw();
        block.end_unit(number, ms);
        self.overhead.store(block.overhead() as u64, Ordering::Relaxed);
        self.full.put(block);
        number
    }

    /// Takes the units since the last call. Only the holder of the fan-out calls this, so blocks
    /// are passed on in the order of their units.
    pub(super) fn collect(&self) -> Option<Box<Block>> {
        let block = self.full.take();
        if block.is_some() {
            self.overhead.store(0, Ordering::Relaxed);
        }
        block
    }

    /// Returns a block after it was read. Any reader may call this.
    pub(super) fn give_back(&self, mut block: Box<Block>) {
        block.clear();
        self.spare.put(block);
    }

    /// The approximate memory of its block without the bytes of its commands.
    pub(super) fn overhead(&self) -> u64 {
        self.overhead.load(Ordering::Relaxed)
    }

    /// Bytes of all commands published so far.
    pub(super) fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::log::unit::{Arg, Target};

    /// The address of the block that was published last.
    fn published(log: &Arc<Log>, draft: &mut Draft) -> usize {
        draft.push(0, Target::ALL, &mut [Arg::Bytes(b"PING")].into_iter());
        log.publish(draft, 0);
        let thread_log = draft.thread_log.as_ref().expect("it has published");
        let block = thread_log.full.take().expect("no reader is collecting");
        let at = std::ptr::from_ref(&*block).addr();
        thread_log.full.put(block);
        at
    }

    #[test]
    fn a_block_is_reused_after_it_was_read() {
        for readers in 1..=super::super::MAX_READERS {
            let (log, mut draft) = (Arc::<Log>::default(), Draft::default());
            let mut readers: Vec<_> = (0..readers)
                .map(|_| log.begin(Target::ALL, Arc::new(|| {})).expect("there is room"))
                .collect();
            let first = published(&log, &mut draft);
            // The collecting reader has the block itself, the others have copies.
            let reader = &mut readers[0];
            assert_eq!(reader.next().map(|unit| unit.number()), Some(1));
            assert!(reader.next().is_none());
            assert_eq!(published(&log, &mut draft), first);
        }
    }
}
