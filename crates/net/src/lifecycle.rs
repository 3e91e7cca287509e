//! What a connection is doing: one state at a time, and what may follow it.
//!
//! ```text
//!             ┌────────────────────────── resumed ◄──────────────────────────────┐
//!             ▼                                                                  │
//!  Reading ─► Executing ─► Parked · Slow · Waiting · Paused · Withheld · Full ───┘
//!     ▲        │   ▲                          │
//!     └─ done ─┘   └───────── Ready ◄─────────┘  (Waiting: tries again itself)
//!
//!  any ─► Closing ─► gone            any ─► gone
//! ```
//!
//! This file knows no sockets, threads or commands. [`State`] says what may happen now; what is to
//! be done by others about a change (run it in the next turn, cancel its job, pass its place in a
//! line on) is an answer that the caller must look at. Which events the socket is watched for
//! follows from the state and from nothing else. The rules are tested with events in any order
//! (`tests` below), the callers with histories of clients.
//!
//! `W` is what a waiting client stands in line with, `J` what its job in the slow lane is known by.

/// See the module.
#[derive(Debug, Default)]
pub enum State<W, J> {
    /// Nothing is under way: what the client sends is read and executed.
    #[default]
    Reading,
    /// It has requests to execute that no event will announce: it is in its thread's queue.
    Ready,
    /// Its requests are in the present batch.
    Executing,
    /// Its next request waits for a busy shard, whose release wakes it.
    Parked,
    /// A command of it is in the slow lane.
    Slow(J),
    /// It waits for a key.
    Waiting(W),
    /// CLIENT PAUSE holds its next request back.
    Paused,
    /// Its last command was executed, and its reply is kept back until the effects up to this
    /// number are durable.
    Withheld(u64),
    /// So many of its replies were not taken that it is not read from until they are.
    Full,
    /// Nothing more is read or executed: it is closed when its replies are sent.
    Closing,
}

/// How the requests of a batch ended.
#[derive(Debug)]
pub enum Executed<W, J> {
    /// All that were complete are executed.
    All,
    /// All that were looked at; there are more in its buffer.
    More,
    /// A shard is busy, and will wake it.
    Parked,
    /// A shard was busy and is free by now: try again.
    Again,
    Slow(J),
    Blocked(W),
    Paused,
    Withheld(u64),
    /// The client, or what it sent, is at its end.
    Close,
}

/// What has come that a connection may be waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The shard was released.
    Shard,
    /// The command has left the slow lane.
    Slow,
    /// It was served, or its time is over, or it was unblocked.
    Key,
    /// The pause is over.
    Pause,
    /// Effects up to this number are durable.
    Durable(u64),
    /// Enough of its replies were taken.
    Output,
}

/// What is to be done when the client has said that it sends no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It is gone, for all that the server can tell: close.
    Close,
    /// It has asked for something, and may still take the answer: go on.
    Later,
}

/// What is pending beside the state where a connection is to change its thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Output that is not sent.
    pub output: bool,
    /// Nobody has tried to send that: it is in its thread's row of such.
    pub in_row: bool,
    /// Replies are withheld, or another thread writes them.
    pub is_elsewhere: bool,
    /// The client stands in line with its next request.
    pub stands: bool,
}

/// What the new thread of a connection has to do, as no event announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// It has requests to execute.
    pub queue: bool,
    /// It has output to send, or to wait with until the socket has room.
    pub send: bool,
}

impl<W, J> State<W, J> {
    /// Whether the connection may change its thread: whatever it waits for finds it where it goes. The
    /// socket does, and so do other threads that look up the client's thread. What has noted the thread
    /// that it is on now does not: a shard, the slow lane, a key, a pause that ends, the disk.
    pub fn may_move(&self, pending: Pending) -> bool {
        let waits_for_its_client = match self {
            State::Reading | State::Ready => true,
            State::Executing
            | State::Parked
            | State::Slow(_)
            | State::Waiting(_)
            | State::Paused
            | State::Withheld(_)
            | State::Full
            | State::Closing => false,
        };
        // One whose client does not take what it is sent stays.
        let output = !pending.output || pending.in_row;
        waits_for_its_client && output && !pending.is_elsewhere && !pending.stands
    }

    /// What is to be done where the connection arrives.
    pub fn on_arrival(&self, pending: Pending) -> Arrival {
        Arrival { queue: matches!(self, State::Ready), send: pending.output || pending.in_row }
    }

    /// Its requests are put into a batch.
    pub fn batched(&mut self) {
        debug_assert!(matches!(self, State::Reading | State::Ready), "in one batch at a time");
        *self = State::Executing;
    }

    /// Its batch was executed. Whether it is to be queued.
    #[must_use]
    pub fn executed(&mut self, how: Executed<W, J>) -> bool {
        debug_assert!(matches!(self, State::Executing), "executed and not in a batch");
        *self = match how {
            Executed::All => State::Reading,
            Executed::More | Executed::Again => State::Ready,
            Executed::Parked => State::Parked,
            Executed::Slow(job) => State::Slow(job),
            Executed::Blocked(waiting) => State::Waiting(waiting),
            Executed::Paused => State::Paused,
            Executed::Withheld(number) => State::Withheld(number),
            Executed::Close => State::Closing,
        };
        matches!(self, State::Ready)
    }

    /// What it may have waited for is there. Whether that is so, and it is to be queued: it goes on
    /// with what it has, then reads.
    #[must_use]
    pub fn resumed(&mut self, by: Awaited) -> bool {
        let resumes = match (&self, by) {
            (State::Parked, Awaited::Shard)
            | (State::Slow(_), Awaited::Slow)
            | (State::Waiting(_), Awaited::Key)
            | (State::Paused, Awaited::Pause)
            | (State::Full, Awaited::Output) => true,
            (State::Withheld(number), Awaited::Durable(upto)) => *number <= upto,
            (
                State::Reading
                | State::Ready
                | State::Executing
                | State::Parked
                | State::Slow(_)
                | State::Waiting(_)
                | State::Paused
                | State::Withheld(_)
                | State::Full
                | State::Closing,
                _,
            ) => false,
        };
        if resumes {
            *self = State::Ready;
        }
        resumes
    }

    /// It is in its thread's queue, and its turn has come: whether it is to be batched. One with
    /// nothing to execute reads.
    #[must_use]
    pub fn taken_up(&mut self, has_requests: bool) -> bool {
        if !matches!(self, State::Ready) {
            return false;
        }
        if !has_requests {
            *self = State::Reading;
        }
        has_requests
    }

    /// Its command, for which the client waited in the slow lane, waits for a key now. Whether that
    /// was so.
    #[must_use]
    pub fn waits_after_all(&mut self, waiting: W) -> bool {
        let was_slow = matches!(self, State::Slow(_));
        if was_slow {
            *self = State::Waiting(waiting);
        }
        was_slow
    }

    /// It waits for a key, and tries again in the slow lane.
    pub fn tries_elsewhere(&mut self, job: J) {
        debug_assert!(matches!(self, State::Waiting(_)), "it stands in line");
        *self = State::Slow(job);
    }

    /// Its command, for which the client waited in the slow lane, is held back by a pause. Whether
    /// that was so.
    #[must_use]
    pub fn paused_after_all(&mut self) -> bool {
        let was_slow = matches!(self, State::Slow(_));
        if was_slow {
            *self = State::Paused;
        }
        was_slow
    }

    /// Too many replies wait to be taken: whether it stops reading for that.
    pub fn filled(&mut self) -> bool {
        let fills = matches!(self, State::Reading | State::Ready);
        if fills {
            *self = State::Full;
        }
        fills
    }

    /// Nothing more is executed; what was answered is still sent. The answer is the state that it
    /// leaves, with what it held.
    pub fn close(&mut self) -> State<W, J> {
        std::mem::replace(self, State::Closing)
    }

    /// Whether more is to be read and planned.
    #[inline]
    pub fn reads(&self) -> bool {
        matches!(self, State::Reading)
    }

    /// Whether what the client sends is read and left unparsed. As in the reference: a hang-up comes behind all that
    /// was sent before it, and a client that hangs up while it waits is gone.
    #[inline]
    pub fn reads_ahead(&self) -> bool {
        matches!(self, State::Waiting(_) | State::Paused)
    }

    /// Whether its requests may be in the present batch.
    #[inline]
    pub fn is_in_batch(&self) -> bool {
        matches!(self, State::Executing)
    }

    /// Whether it is closed as soon as its replies are sent.
    pub fn is_closing(&self) -> bool {
        matches!(self, State::Closing)
    }

    /// Whether the client has nothing to wait for but what it does itself.
    pub fn is_idle(&self) -> bool {
        matches!(self, State::Reading | State::Full | State::Closing)
    }

    /// Whether the socket is to be watched for input. States that last as long as a turn change nothing.
    pub fn watches_input(&self) -> bool {
        match self {
            State::Reading
            | State::Ready
            | State::Executing
            | State::Waiting(_)
            | State::Paused => true,
            State::Parked | State::Slow(_) | State::Withheld(_) | State::Full | State::Closing => {
                false
            }
        }
    }

    /// The client has closed its side.
    pub fn peer_ended(&self) -> Ended {
        match self {
            State::Reading | State::Waiting(_) | State::Paused => Ended::Close,
            State::Ready
            | State::Executing
            | State::Parked
            | State::Slow(_)
            | State::Withheld(_)
            | State::Full
            | State::Closing => Ended::Later,
        }
    }

    pub fn waiting(&self) -> Option<&W> {
        match self {
            State::Waiting(waiting) => Some(waiting),
            State::Reading
            | State::Ready
            | State::Executing
            | State::Parked
            | State::Slow(_)
            | State::Paused
            | State::Withheld(_)
            | State::Full
            | State::Closing => None,
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "lifecycle_tests.rs"]
mod tests;
