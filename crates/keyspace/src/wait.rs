//! The state of a client that waits for a key: whose is it to act?
//!
//! A client that called BLPOP stands in the line of each of its keys. Whoever makes such a key, on
//! any thread, may serve it; meanwhile its time may run out, it may be unblocked by another client
//! or be gone. Exactly one of them must win, and no key may come to be without a look at the
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
//! thread that makes another of its keys finds that, and *knocks*: when the claimer can't serve
//! the client after all, it sees the knock and has the owner thread try again with all keys in
//! hand (*RETRY*). Without the knock, the second key would lie there and the client would sleep.
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
    /// The client's place in all its lines; 0: it stands in none yet. Whoever ends a wait may look too early,
    /// and whoever enters looks at the wait again: see [`crate::lines`].
    place: std::sync::atomic::AtomicU64,
}

/// What came of [`WaitState::claim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The caller is to run the client's command, and then to finish or unclaim it.
    Ours,
    /// Someone else does, and knows now that the caller's key is there too.
    Theirs,
    /// The owner thread is going to, with all keys in hand, and will look after those who stand
    /// behind the client.
    Owners,
    /// The client does not wait any more.
    Over,
}

/// What came of [`WaitState::unclaim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclaim {
    /// The client waits on.
    Waits,
    /// Someone knocked: the caller is to tell the owner thread to try again.
    Retry,
}

impl Default for WaitState {
    fn default() -> Self {
        WaitState { step: AtomicU32::new(WAITING), place: Default::default() }
    }
}

impl WaitState {
    pub(crate) fn set_place(&self, place: u64) {
        self.place.store(place, Ordering::Relaxed);
    }

    pub(crate) fn place(&self) -> u64 {
        self.place.load(Ordering::Relaxed)
    }

    fn change(&self, from: u32, to: u32) -> Result<u32, u32> {
        self.step.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Called by who holds the shard of a key that the client may want.
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

    /// Called by the claimer when there was nothing for the client; `hand_over`: have the owner
    /// thread try, whether or not someone has knocked. If it waits on, who calls looks afterwards whether it was
    /// killed: see [`WaitState::settle`].
    pub fn unclaim(&self, hand_over: bool) -> Unclaim {
        if !hand_over && self.change(CLAIMED, WAITING).is_ok() {
            fence(Ordering::SeqCst);
            return Unclaim::Waits;
        }
        // Only the claimer gets out of CLAIMED and KNOCKED.
        self.step.swap(RETRY, Ordering::AcqRel);
        Unclaim::Retry
    }

    /// Called by the claimer, or by the owner thread in RETRY, when the client was served.
    pub fn finish(&self) {
        self.step.swap(DONE, Ordering::AcqRel);
    }

    /// Called by who tries in RETRY, while it holds the shards of all keys: there was nothing, the client waits
    /// on, unless it has quit meanwhile. Who calls looks afterwards whether the client was killed: either that is
    /// seen there, or [`WaitState::give_up`] sees that it waits.
    pub fn settle(&self) {
        let _ = self.change(RETRY, WAITING);
        fence(Ordering::SeqCst);
    }

    /// Called when the time is over, or the client is unblocked or killed: whether it was still
    /// waiting, so that the caller may answer it. Who kills it says so before.
    pub fn give_up(&self) -> bool {
        fence(Ordering::SeqCst);
        self.change(WAITING, DONE).is_ok()
    }

    /// Called when the client is gone: whether it was its turn to try, which is that of those behind it now. Who has
    /// claimed it sees to that by itself.
    pub fn quit(&self) -> bool {
        loop {
            if self.change(RETRY, DONE).is_ok() {
                return true;
            }
            match self.change(WAITING, DONE) {
                // It was given up or given back in between.
                Err(RETRY) => {}
                Ok(_) | Err(_) => return false,
            }
        }
    }

    /// Whether the owner thread is to try again.
    pub fn is_retry(&self) -> bool {
        self.step.load(Ordering::Acquire) == RETRY
    }

    /// Whether the client does not wait any more.
    pub fn is_over(&self) -> bool {
        self.step.load(Ordering::Acquire) == DONE
    }
}
