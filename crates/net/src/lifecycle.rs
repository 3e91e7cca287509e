//! The state machine of a connection.
//!
//! ```text
//!             ┌────────────────────────── resumed ◄──────────────────────────────┐
//!             ▼                                                                  │
//!  Reading ─► Executing ─► Parked · Slow · Waiting · Paused · Withheld · Full ───┘
//!     ▲        │   ▲                          │
//!     └─ done ─┘   └───────── Ready ◄─────────┘  (Waiting: retries itself)
//!
//!  any ─► Closing ─► gone            any ─► gone
//! ```
//!
//! This file uses no sockets, threads or commands. [`State`] decides which steps are allowed now.
//! If a transition needs an action of the caller (queue the connection, cancel its job, pass on its
//! position in a wait queue), the return value says so. The events for which the socket is watched
//! depend only on the state. The tests below check the rules with events in any order; tests of the
//! callers use client histories.
//!
//! `W` is the client's entry in the wait queues of keys. `J` identifies its job in the slow lane.

/// The state of a connection.
#[derive(Debug, Default)]
pub enum State<W, J> {
    /// Idle: new input is read and executed.
    #[default]
    Reading,
    /// It has requests to execute for which no event will arrive, so it is in its thread's queue.
    Ready,
    /// Its requests are in the current batch.
    Executing,
    /// Its next request needs a busy shard. The release of the shard wakes it.
    Parked,
    /// One of its commands is in the slow lane.
    Slow(J),
    /// Blocked on a key.
    Waiting(W),
    /// CLIENT PAUSE delays its next request.
    Paused,
    /// Its last command was executed. The reply is withheld until the effects up to this number are
    /// durable.
    Withheld(u64),
    /// Too many of its replies are unsent. It is not read until the client accepts some.
    Full,
    /// No more input is read or executed. The connection is closed after its replies are sent.
    Closing,
}

/// The result of executing a batch of a connection's requests.
#[derive(Debug)]
pub enum Executed<W, J> {
    /// All complete requests were executed.
    All,
    /// All parsed requests were executed; the buffer has more.
    More,
    /// A shard is busy; its release will wake the connection.
    Parked,
    /// A shard was busy but is free now: retry.
    Again,
    Slow(J),
    Blocked(W),
    Paused,
    Withheld(u64),
    /// The client must be disconnected.
    Close,
}

/// An event for which a connection may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The shard was released.
    Shard,
    /// The command has left the slow lane.
    Slow,
    /// The blocked command was served, timed out or was unblocked.
    Key,
    /// The pause is over.
    Pause,
    /// Effects up to this number are durable.
    Durable(u64),
    /// The client has accepted enough replies.
    Output,
}

/// The action after the client has closed its sending side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Close: no request is pending, so the client counts as gone.
    Close,
    /// Continue: requests are pending, and the client may still read the replies.
    Later,
}

/// The properties, in addition to [`State`], that matter when a connection moves to another thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// There is unsent output.
    pub output: bool,
    /// No send of that output was attempted yet: the connection is in its thread's send queue.
    pub in_row: bool,
    /// Replies are withheld, or another thread writes them.
    pub is_elsewhere: bool,
    /// The client has a position in a wait queue for its next request.
    pub stands: bool,
}

/// The tasks of the new thread of a connection, since no event will trigger them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Queue the connection: it has requests to execute.
    pub queue: bool,
    /// Send output, or watch for space in the socket's buffer.
    pub send: bool,
}

impl<W, J> State<W, J> {
    /// Whether the connection may move to another thread: everything that it waits for must find it
    /// there. The socket does, and so do threads that look up the client's current thread. A shard,
    /// the slow lane, a key, the end of a pause and the disk do not, since they have recorded the
    /// current thread.
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
        // A connection whose client does not accept its output stays.
        let output = !pending.output || pending.in_row;
        waits_for_its_client && output && !pending.is_elsewhere && !pending.stands
    }

    /// The tasks of the new thread when the connection arrives.
    pub fn on_arrival(&self, pending: Pending) -> Arrival {
        Arrival { queue: matches!(self, State::Ready), send: pending.output || pending.in_row }
    }

    /// Its requests were added to a batch.
    pub fn batched(&mut self) {
        debug_assert!(matches!(self, State::Reading | State::Ready), "in one batch at a time");
        *self = State::Executing;
    }

    /// Its batch was executed. Returns whether to queue the connection.
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

    /// Handles an event. Returns whether the connection was waiting for it and must be queued. It
    /// then executes buffered requests and reads again.
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

    /// Called for each connection of the thread's queue. Returns whether its requests must be
    /// batched. Without requests, it reads.
    #[must_use]
    pub fn dequeue(&mut self, has_requests: bool) -> bool {
        if !matches!(self, State::Ready) {
            return false;
        }
        if !has_requests {
            *self = State::Reading;
        }
        has_requests
    }

    /// Its command in the slow lane is now blocked on a key. Returns whether the command was in the
    /// slow lane.
    #[must_use]
    pub fn waits_after_all(&mut self, waiting: W) -> bool {
        let was_slow = matches!(self, State::Slow(_));
        if was_slow {
            *self = State::Waiting(waiting);
        }
        was_slow
    }

    /// The command that is blocked on a key is retried in the slow lane.
    pub fn tries_elsewhere(&mut self, job: J) {
        debug_assert!(matches!(self, State::Waiting(_)), "the client is blocked");
        *self = State::Slow(job);
    }

    /// Its command in the slow lane is delayed by a pause. Returns whether the command was in the
    /// slow lane.
    #[must_use]
    pub fn pause_after_slow(&mut self) -> bool {
        let was_slow = matches!(self, State::Slow(_));
        if was_slow {
            *self = State::Paused;
        }
        was_slow
    }

    /// Too many replies are unsent. Returns whether the connection stops reading for that.
    pub fn filled(&mut self) -> bool {
        let fills = matches!(self, State::Reading | State::Ready);
        if fills {
            *self = State::Full;
        }
        fills
    }

    /// Executes no more requests, but still sends the replies. Returns the previous state with its
    /// contents.
    pub fn close(&mut self) -> State<W, J> {
        std::mem::replace(self, State::Closing)
    }

    /// Whether to read and plan more input.
    #[inline]
    pub fn reads(&self) -> bool {
        matches!(self, State::Reading)
    }

    /// Whether input is read but not parsed. As in the reference, a hang-up is seen after all
    /// earlier input, and a client that hangs up while it is blocked or paused is disconnected.
    #[inline]
    pub fn reads_ahead(&self) -> bool {
        matches!(self, State::Waiting(_) | State::Paused)
    }

    /// Whether its requests may be in the current batch.
    #[inline]
    pub fn is_in_batch(&self) -> bool {
        matches!(self, State::Executing)
    }

    /// Whether it is closed as soon as its replies are sent.
    pub fn is_closing(&self) -> bool {
        matches!(self, State::Closing)
    }

    /// Whether the connection waits only for its client.
    pub fn is_idle(&self) -> bool {
        matches!(self, State::Reading | State::Full | State::Closing)
    }

    /// Whether to watch the socket for input. States that last only one iteration keep the watch.
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

    /// The client has closed its sending side. Returns the action to take.
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
