//! A wake-up flag of a mailbox: decides which sender wakes the reader, and when the reader may
//! sleep.
//!
//! A sender queues a message and then calls [`WakeFlag::set`]; only the sender that gets `true` has
//! to wake the reader (with an eventfd). The woken reader calls [`WakeFlag::clear`] and then empties
//! the queue. A message queued after the reader saw the queue empty finds the flag clear, so its
//! sender wakes the reader again. The reader sees all earlier messages. A burst of messages costs
//! one wake-up.
//!
//! Model-tested with loom (`tests/loom_wake_flag.rs`).

use crate::sync::{AtomicBool, Ordering};

/// The wake flag: see the module's description.
#[derive(Debug)]
pub struct WakeFlag(AtomicBool);

impl Default for WakeFlag {
    fn default() -> Self {
        WakeFlag(AtomicBool::new(false))
    }
}

impl WakeFlag {
    /// Call after queueing a message: whether the caller must wake the reader.
    #[inline]
    #[must_use]
    pub fn set(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Call before the reader empties the queue.
    #[inline]
    pub fn clear(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}
