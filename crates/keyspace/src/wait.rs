//! The state of a client blocked on keys: which thread may act.
//!
//! A client that called BLPOP is in the wait queue of each of its keys. A thread that creates
//! such a key may serve it. Meanwhile its timeout may expire, or another client may unblock or
//! kill it. Exactly one of them must win, and no key may be created without a check for the
//! client:
//!
//! ```text
//!            claim                      finish
//!  WAITING ────────► CLAIMED ─────────────────────────► DONE
//!     │  ▲             │ │ knock         unclaim          ▲
//!     │  └─────────────┘ └──────► KNOCKED ──────► RETRY   │
//!     │     unclaim                                 │     │
//!     └──────────── quit ───────────────────────────┼─────┘
//!                                 settle: WAITING ◄─┴► DONE: finish, quit
//! ```
//!
//! *CLAIMED*: a thread that holds the shard of one of the keys runs the client's command. Another
//! thread that creates another of its keys sees the claim and *knocks*: if the claimer can't
//! serve the client, it sees the knock and makes the owner thread retry while it holds the shards
//! of all keys (*RETRY*). Without the knock, the second key would stay unread and the client
//! would sleep.
//!
//! Model-tested with loom (`tests/loom_wait.rs`).

use crate::sync::{AtomicU32, Ordering, fence};

const WAITING: u32 = 0;
const CLAIMED: u32 = 1;
const KNOCKED: u32 = 2;
const RETRY: u32 = 3;
const DONE: u32 = 4;

/// See the module's description.
#[derive(Debug)]
pub struct WaitState {
    step: AtomicU32,
    /// The client's position in all its wait queues; 0: it is in none yet. A thread that ends a
    /// wait may read it too early, so the thread that queues the client checks the wait again:
    /// see [`crate::wait_queue`].
    position: std::sync::atomic::AtomicU64,
}

/// The result of [`WaitState::claim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The caller must run the client's command, and then finish or unclaim it.
    Ours,
    /// Another thread runs it, and now knows that the caller's key exists too.
    Theirs,
    /// The owner thread will run it with the shards of all keys held, and will then pass on to
    /// the clients queued after it.
    Owners,
    /// The client no longer waits.
    Over,
}

/// The result of [`WaitState::unclaim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclaim {
    /// The client stays blocked.
    Waits,
    /// Another thread has knocked: the caller must notify the owner thread to retry.
    Retry,
}

impl Default for WaitState {
    fn default() -> Self {
        WaitState { step: AtomicU32::new(WAITING), position: Default::default() }
    }
}

impl WaitState {
    pub(crate) fn set_position(&self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
    }

    pub(crate) fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    fn change(&self, from: u32, to: u32) -> Result<u32, u32> {
        self.step.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Call while holding the shard of a key that the client may want.
    pub fn claim(&self) -> Claim {
        loop {
            let (from, to, answer) = match self.step.load(Ordering::Acquire) {
                WAITING => (WAITING, CLAIMED, Claim::Ours),
                CLAIMED => (CLAIMED, KNOCKED, Claim::Theirs),
                KNOCKED => return Claim::Theirs,
                RETRY => return Claim::Owners,
                _ => return Claim::Over,
            };
            if self.change(from, to).is_ok() {
                return answer;
            }
        }
    }

    /// The claimer calls this when it could not serve the client. `hand_over`: the owner thread
    /// must retry, whether or not another thread has knocked. If the client stays blocked, the
    /// caller must then check whether it was killed: see [`WaitState::settle`].
    pub fn unclaim(&self, hand_over: bool) -> Unclaim {
        if !hand_over && self.change(CLAIMED, WAITING).is_ok() {
            fence(Ordering::SeqCst);
            return Unclaim::Waits;
        }
        // Only the claimer leaves CLAIMED and KNOCKED.
        self.step.swap(RETRY, Ordering::AcqRel);
        Unclaim::Retry
    }

    /// The claimer, or the owner thread in RETRY, calls this when the client was served.
    pub fn finish(&self) {
        self.step.swap(DONE, Ordering::AcqRel);
    }

    /// The thread that retries in RETRY calls this while it holds the shards of all keys and
    /// could not serve the client: the client stays blocked, unless it has quit meanwhile. The
    /// caller must then check whether the client was killed: either the check sees that, or
    /// [`WaitState::give_up`] sees that the client waits.
    pub fn settle(&self) {
        let _ = self.change(RETRY, WAITING);
        fence(Ordering::SeqCst);
    }

    /// Call when the timeout expires, or the client is unblocked or killed. Returns whether it
    /// was still waiting, so that the caller may answer it. A thread that kills it must mark that
    /// before.
    pub fn give_up(&self) -> bool {
        fence(Ordering::SeqCst);
        self.change(WAITING, DONE).is_ok()
    }

    /// Call when the client is gone. Returns whether it was about to retry, so that the clients
    /// queued after it must retry instead. A claimer handles that itself.
    pub fn quit(&self) -> bool {
        loop {
            if self.change(RETRY, DONE).is_ok() {
                return true;
            }
            match self.change(WAITING, DONE) {
                // Another thread has unclaimed or settled it in between.
                Err(RETRY) => {}
                Ok(_) | Err(_) => return false,
            }
        }
    }

    /// Whether the owner thread must retry.
    pub fn is_retry(&self) -> bool {
        self.step.load(Ordering::Acquire) == RETRY
    }

    /// Whether the client no longer waits.
    pub fn is_over(&self) -> bool {
        self.step.load(Ordering::Acquire) == DONE
    }
}
