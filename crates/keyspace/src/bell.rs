//! The bell of a mailbox: who must wake the reader, and when it may sleep.
//!
//! Senders put a message into a queue and then [`Bell::ring`]; only the one that is answered
//! `true` has to wake the reader (with an eventfd). The reader, woken, calls [`Bell::answer`]
//! and then empties the queue. A message that is queued after the reader saw the queue empty
//! finds the bell silent and wakes again; one that was queued before is seen. A burst of
//! messages costs one wake-up.
//!
//! Model-tested with loom (`tests/loom_bell.rs`).

use crate::sync::{AtomicBool, Ordering};

/// See the module's description.
#[derive(Debug)]
pub struct Bell(AtomicBool);

impl Default for Bell {
    fn default() -> Self {
        Bell(AtomicBool::new(false))
    }
}

impl Bell {
    /// After a message was queued: whether the caller must wake the reader.
    #[inline]
    #[must_use]
    pub fn ring(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Before the reader empties the queue.
    #[inline]
    pub fn answer(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}
