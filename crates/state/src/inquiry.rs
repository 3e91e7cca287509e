//! A question to all I/O threads: has a thread handled the messages before the question, and does it withhold replies?
//!
//! A mailbox is a queue. So once all threads have answered, none has a message that was sent to it before the question. At the end of
//! the batch that it executed then, a thread may send others, which come after the question: ask twice.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub struct Inquiry {
    /// Threads that have not answered yet.
    left: AtomicUsize,
    withholds: AtomicBool,
}

impl Inquiry {
    /// One more thread is asked.
    pub fn add(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// A thread answers. `withholds`: replies of its clients wait for the disk or for replicas.
    pub fn answer(&self, withholds: bool) {
        if withholds {
            self.withholds.store(true, Ordering::Relaxed);
        }
        self.left.fetch_sub(1, Ordering::Release);
    }

    /// Whether all threads have answered, and if so, whether any withholds replies.
    pub fn result(&self) -> Option<bool> {
        (self.left.load(Ordering::Acquire) == 0).then(|| self.withholds.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_comes_with_the_last_answer() {
        let inquiry = Inquiry::default();
        inquiry.left.store(3, Ordering::Relaxed);
        inquiry.answer(false);
        inquiry.answer(true);
        assert_eq!(inquiry.result(), None);
        inquiry.answer(false);
        assert_eq!(inquiry.result(), Some(true));
    }
}
