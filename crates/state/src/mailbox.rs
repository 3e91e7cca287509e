//! How threads reach each other: a lock-free queue and an eventfd that wakes its reader.
//!
//! A connection has one owner thread; everybody else sends that thread a [`Message`]. The
//! eventfd is written only by the sender that the mailbox's [`WakeFlag`] tells to, so a burst of
//! messages costs one system call.

use crate::clients::ClientShared;
use crate::conn::Kept;
use crate::feed::Order;
use crate::session::Session;
use crate::waiting::Waiting;
use crossbeam_queue::SegQueue;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use weft_keyspace::wake_flag::WakeFlag;
use weft_pubsub::mail::{Addressed, To};
use weft_pubsub::message::Published;
use weft_resp::Reply;

/// What can be said to an I/O thread.
#[derive(Debug)]
pub enum Message {
    /// A new connection to own.
    Accepted(weft_net::listen::Accepted),
    /// The shard on which this connection was parked has been released.
    Unpark { token: u64 },
    /// A connection of another thread's, to own from now on.
    Moved(Box<crate::conn::Conn>),
    /// Move connections worth this share of the work to that thread.
    Shed { to: usize, share: f64 },
    /// Send these replies, and tell that thread what became of them.
    Write { from: usize, jobs: Vec<crate::offload::WriteJob> },
    /// Another thread has sent replies.
    Written { done: Vec<crate::offload::Written> },
    /// Move every connection to a thread drawn at random: for tests.
    Scatter,
    /// Close this client's connection.
    Kill { client: Arc<ClientShared> },
    /// Bytes to append to this monitor's output, by its id; dropped when it is none any more.
    Feed { client: u64, bytes: Arc<Vec<u8>> },
    /// A message for clients of this thread that listen to its channel.
    Published(Box<Published>),
    /// What this client is told of the values that it, or another one, keeps.
    Push { client: Arc<ClientShared>, what: weft_tracking::message::Message },
    /// There will be such for this client.
    PushedTo { client: u64 },
    /// A command of this client runs in the slow lane now: what comes for it from here on comes
    /// behind its reply.
    SlowBegun { client: u64 },
    /// CLIENT UNPAUSE, or the end of a pause: run what was held back.
    Unpause,
    /// A waiting client was served, with this reply, by the unit of that number in the log of effects;
    /// 0 or an old one where nothing is logged.
    Served { waiting: Arc<Waiting>, reply: Reply, unit: u64 },
    /// A waiting client is to try again by itself.
    Retry { waiting: Arc<Waiting> },
    /// CLIENT UNBLOCK: the client waits no more, and gets the reply for the end of its time, or an
    /// error.
    Unblocked { waiting: Arc<Waiting>, error: bool },
    /// A command has left the slow lane, with this reply; and the session, if it went along. What it
    /// did is in the log of effects in `unit`; 0: it did nothing that is logged.
    SlowDone { client: u64, reply: Reply, session: Option<Box<Session>>, unit: u64 },
    /// A command in the slow lane waits for a key.
    SlowBlocked { waiting: Arc<Waiting> },
    /// A command in the slow lane is held back by a pause, and was not run.
    SlowPaused { client: u64, kept: Kept, session: Option<Box<Session>> },
    /// Accept connections from these TCP sockets, and from no others.
    Listen { listeners: Vec<weft_net::listen::Listener> },
    /// What the connection of a replica is to do.
    Replica { client: u64, order: Order },
    /// There is more to be sent to replicas.
    StreamGrown,
    /// This server is a replica from now on: nobody waits any longer.
    Demoted,
    /// More of what was withheld may be answered.
    Durable,
    /// Something changed that this thread must look at: the configuration, or whether it is active.
    Wake,
    /// End the loop.
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

    /// Queues `message` and wakes the owner if nobody has yet.
    pub fn send(&self, message: Message) {
        self.put(message);
        self.ring();
    }

    /// Queues `message`; [`Mailbox::ring`] is to follow.
    pub fn put(&self, message: Message) {
        self.queue.push(message);
    }

    /// Wakes the owner if nobody has yet.
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

    /// How many messages there are. O(1).
    pub fn count(&self) -> usize {
        self.queue.len()
    }

    /// The oldest message. Only the owner calls this.
    pub fn take(&self) -> Option<Message> {
        self.queue.pop()
    }
}
