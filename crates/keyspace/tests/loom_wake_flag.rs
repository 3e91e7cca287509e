//! Model of a mailbox's wake flag: every message is read although wake-ups are coalesced.
#![cfg(loom)]

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Mutex};
use weft_keyspace::wake_flag::WakeFlag;

struct Mailbox {
    queue: Mutex<Vec<u32>>,
    wake_flag: WakeFlag,
    /// The eventfd: a counter that the reader resets to zero.
    event: AtomicU32,
}

impl Mailbox {
    fn send(&self, message: u32) {
        self.queue.lock().unwrap().push(message);
        if self.wake_flag.set() {
            self.event.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn loom_every_message_is_read() {
    loom::model(|| {
        let mailbox = Arc::new(Mailbox {
            queue: Mutex::new(Vec::new()),
            wake_flag: WakeFlag::default(),
            event: AtomicU32::new(0),
        });
        let senders: Vec<_> = (0..2)
            .map(|n| {
                let mailbox = mailbox.clone();
                loom::thread::spawn(move || mailbox.send(n))
            })
            .collect();
        let mut read = 0;
        while read < 2 {
            // A lost wake-up makes this loop endless, which loom reports.
            while mailbox.event.swap(0, Ordering::SeqCst) == 0 {
                loom::thread::yield_now();
            }
            mailbox.wake_flag.clear();
            read += std::mem::take(&mut *mailbox.queue.lock().unwrap()).len();
        }
        senders.into_iter().for_each(|s| s.join().unwrap());
    });
}
