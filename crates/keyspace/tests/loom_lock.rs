//! Model of the shard lock: mutual exclusion, and every parked waiter is woken.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Notify};
use weft_keyspace::lock::{Park, ShardLock, Waiter};

struct World {
    lock: ShardLock,
    value: UnsafeCell<u32>,
    /// The event that each thread's event loop sleeps on.
    wake: [Notify; 3],
}

// SAFETY: only the holder of `lock` accesses `value`, which loom checks.
unsafe impl Sync for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            lock: ShardLock::default(),
            value: UnsafeCell::new(0),
            wake: [Notify::new(), Notify::new(), Notify::new()],
        })
    }

    fn add_and_release(&self) {
        // SAFETY: the caller holds the lock.
        self.value.with_mut(|v| unsafe { *v += 1 });
        for w in self.lock.release() {
            self.wake[w.thread as usize].notify();
        }
    }

    /// Takes the lock however long it takes, as an I/O thread does across iterations.
    fn locked_add(&self, me: u32) {
        loop {
            if self.lock.try_lock()
                || self.lock.park(Waiter { thread: me, token: 0 }) == Park::Acquired
            {
                return self.add_and_release();
            }
            // A lost wake-up is a deadlock, which loom reports.
            self.wake[me as usize].wait();
        }
    }
}

fn run(threads: u32) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let world = World::new();
        let others: Vec<_> = (1..threads)
            .map(|t| {
                let world = world.clone();
                loom::thread::spawn(move || world.locked_add(t))
            })
            .collect();
        world.locked_add(0);
        others.into_iter().for_each(|t| t.join().unwrap());
        // SAFETY: all threads have ended.
        world.value.with(|v| assert_eq!(unsafe { *v }, threads));
    });
}

#[test]
fn loom_two_threads() {
    run(2);
}

#[test]
fn loom_three_threads() {
    run(3);
}
