//! Messages between threads: a lock-free queue, and an eventfd that wakes its reader.
//!
//! A connection has one owner thread; other threads send that thread a [`Message`]. Only the sender that sets
//! the mailbox's [`WakeFlag`] writes to the eventfd, so a burst of messages costs one system call.

use crate::conn::{ConnectionMessage, MoveMessage, ResumeMessage};
use crate::feed::ReplicaMessage;
use crate::inquiry::Inquiry;
use crate::offload::OffloadMessage;
use crate::push::PushMessage;
use crate::slow_lane::SlowMessage;
use crate::waiting::WaitMessage;
use crossbeam_queue::SegQueue;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use weft_keyspace::wake_flag::WakeFlag;
use weft_pubsub::inbox::{Addressed, To};

/// A message to an I/O thread, by the part of the thread that handles it. Each part has a file in `io/worker/`.
#[derive(Debug)]
pub enum Message {
    Push(PushMessage),
    Connection(ConnectionMessage),
    Move(MoveMessage),
    Resume(ResumeMessage),
    Wait(WaitMessage),
    Slow(SlowMessage),
    Replica(ReplicaMessage),
    Offload(OffloadMessage),
    /// Some of the withheld replies may be sent now.
    Durable,
    /// A term of the node's authority has ended: replies that are withheld since then never leave.
    TermEnded,
    Thread(ThreadMessage),
    /// The thread is asked what it withholds.
    Inquiry(Arc<Inquiry>),
}

/// A message about the event loop itself.
#[derive(Clone, Copy, Debug)]
pub enum ThreadMessage {
    /// The configuration, or the thread's active state, has changed.
    Wake,
    /// Stop the event loop.
    Stop,
}

/// Mailboxes hold many messages under load. The largest is the result of a command in the slow lane.
const _: () = assert!(size_of::<Message>() <= 104);

impl Addressed for Message {
    #[inline]
    fn to(&self) -> To {
        match self {
            Message::Push(message) => message.to(),
            Message::Connection(_)
            | Message::Move(_)
            | Message::Resume(_)
            | Message::Wait(_)
            | Message::Slow(_)
            | Message::Replica(_)
            | Message::Offload(_)
            | Message::Durable
            | Message::TermEnded
            | Message::Thread(_)
            | Message::Inquiry(_) => To::Thread,
        }
    }
}

/// One thread's mailbox.
#[derive(Debug)]
pub struct Mailbox {
    queue: SegQueue<Message>,
    wake_flag: WakeFlag,
    event: OwnedFd,
}

impl Mailbox {
    pub fn new() -> std::io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox { queue: SegQueue::new(), wake_flag: WakeFlag::default(), event })
    }

    /// The descriptor to poll for reading.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Queues `message`, and wakes the owner unless it has been woken already.
    pub fn send(&self, message: Message) {
        self.put(message);
        self.ring();
    }

    /// Queues `message`. The caller then calls [`Mailbox::ring`].
    pub fn put(&self, message: Message) {
        self.queue.push(message);
    }

    /// Wakes the owner unless it has been woken already.
    pub fn ring(&self) {
        if self.wake_flag.set() {
            // An eventfd write fails only when the counter is full, and then it is readable.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// Called by the owner when the descriptor is readable, before it takes the messages.
    pub fn acknowledge(&self) {
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
        self.wake_flag.clear();
    }

    /// The number of messages. O(1).
    pub fn count(&self) -> usize {
        self.queue.len()
    }

    /// The oldest message. Only the owner calls this.
    pub fn take(&self) -> Option<Message> {
        self.queue.pop()
    }
}
