//! Messages between threads: a lock-free queue, and an eventfd that wakes its reader.
//!
//! A connection has one owner thread; other threads send that thread a [`Message`]. Only the sender that sets
//! the mailbox's [`WakeFlag`] writes to the eventfd, so a burst of messages costs one system call.

use crate::clients::ClientShared;
use crate::conn::DeferredRequest;
use crate::feed::Order;
use crate::session::Session;
use crate::waiting::Waiting;
use crossbeam_queue::SegQueue;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use weft_keyspace::wake_flag::WakeFlag;
use weft_pubsub::inbox::{Addressed, To};
use weft_pubsub::message::Published;
use weft_resp::Reply;

/// A message to an I/O thread.
#[derive(Debug)]
pub enum Message {
    /// A new connection to own.
    Accepted(weft_net::listen::Accepted),
    /// The shard on which this connection was parked has been released.
    Unpark { token: u64 },
    /// A connection of another thread, to own from now on.
    Moved(Box<crate::conn::Conn>),
    /// Move connections worth this share of the work to thread `to`.
    Shed { to: usize, share: f64 },
    /// Send these replies, and report the results to thread `from`.
    Write { from: usize, jobs: Vec<crate::offload::WriteJob> },
    /// Another thread has sent replies.
    Written { done: Vec<crate::offload::Written> },
    /// Move every connection to a random thread: for tests.
    Scatter,
    /// Close this client's connection.
    Kill { client: Arc<ClientShared> },
    /// Bytes to append to the output of this client if it is still in MONITOR.
    Feed { client: u64, bytes: Arc<Vec<u8>> },
    /// A message for the clients of this thread that subscribe to its channel.
    Published(Box<Published>),
    /// An invalidation message for this client.
    Push { client: Arc<ClientShared>, what: weft_tracking::message::Message },
    /// More pushes for this client will follow.
    PushedTo { client: u64 },
    /// A command of this client runs in the slow lane now: pushes that arrive from here on must follow its
    /// reply.
    SlowBegun { client: u64 },
    /// CLIENT UNPAUSE, or the end of a pause: execute the requests that were held back.
    Unpause,
    /// A blocked client was served with this reply. `unit` is the unit of the effect log with its effects; 0,
    /// or an older unit, if nothing is logged.
    Served { waiting: Arc<Waiting>, reply: Reply, unit: u64 },
    /// A blocked client's command must be retried on the thread of its connection.
    Retry { waiting: Arc<Waiting> },
    /// CLIENT UNBLOCK: the wait ends with the reply for a timeout, or with an error.
    Unblocked { waiting: Arc<Waiting>, error: bool },
    /// A command has left the slow lane, with this reply, and with the session if the command took it. Its
    /// effects are in `unit` of the effect log; 0: nothing is logged.
    SlowDone { client: u64, reply: Reply, session: Option<Box<Session>>, unit: u64 },
    /// A command in the slow lane waits for a key.
    SlowBlocked { waiting: Arc<Waiting> },
    /// A pause holds back a command in the slow lane; it was not executed.
    SlowPaused { client: u64, kept: DeferredRequest, session: Option<Box<Session>> },
    /// Accept connections from exactly these TCP sockets.
    Listen { listeners: Vec<weft_net::listen::Listener> },
    /// A command for the connection of a replica.
    Replica { client: u64, order: Order },
    /// The replication stream has more bytes to send to replicas.
    StreamGrown,
    /// This server has become a replica: blocked clients are unblocked.
    Demoted,
    /// Some of the withheld replies may be sent now.
    Durable,
    /// The configuration, or the thread's active state, has changed.
    Wake,
    /// Stop the event loop.
    Stop,
}

impl Addressed for Message {
    fn to(&self) -> To {
        match self {
            Message::Published(_) => To::Listeners,
            Message::Push { client, .. } => To::Client(client.id),
            Message::Accepted(_)
            | Message::Unpark { .. }
            | Message::Moved(_)
            | Message::Shed { .. }
            | Message::Write { .. }
            | Message::Written { .. }
            | Message::Scatter
            | Message::Kill { .. }
            | Message::Feed { .. }
            | Message::PushedTo { .. }
            | Message::SlowBegun { .. }
            | Message::Unpause
            | Message::Served { .. }
            | Message::Retry { .. }
            | Message::Unblocked { .. }
            | Message::SlowDone { .. }
            | Message::SlowBlocked { .. }
            | Message::SlowPaused { .. }
            | Message::Listen { .. }
            | Message::Replica { .. }
            | Message::StreamGrown
            | Message::Demoted
            | Message::Durable
            | Message::Wake
            | Message::Stop => To::Thread,
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
