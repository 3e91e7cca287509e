//! The parts of a worker: each holds the fields that are used together.

use crate::cron::Cron;
use slab::Slab;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use weft_executor::batch::Batch;
use weft_executor::defrag::Mover;
use weft_net::interest::Interest;
use weft_net::listen::Listener;
use weft_net::poll::Poll;
use weft_resp::Reply;
use weft_scheduler::placement::Placement;
use weft_state::conn::Conn;
use weft_state::offload::WriteJob;

/// Poll tokens from here on denote listeners and the mailbox, not connections.
pub(super) const LISTENERS: u64 = u64::MAX - 1024;

/// Maximum number of spare reply buffers, in addition to those of the current batch.
const POOLED: usize = 256;

/// Minimum number of deadlines at which stale ones are removed.
const FEW_DEADLINES: usize = 64;

/// The listening sockets of the thread.
pub(super) struct Listening {
    pub listeners: Vec<Listener>,
    /// Whether the listeners are watched.
    pub accepts: bool,
    /// Failures to accept are not logged before this time (monotonic ms).
    pub quiet_until_ms: i64,
    /// The handshakes that this iteration may still continue.
    pub handshakes_left: usize,
}

impl Listening {
    pub fn new(listeners: Vec<Listener>) -> Self {
        Listening { listeners, accepts: true, quiet_until_ms: 0, handshakes_left: 0 }
    }

    /// Sets the events to watch on all (registered) listeners to `interest`.
    pub fn watch(&self, poll: &Poll, interest: Interest) {
        for (n, listener) in self.listeners.iter().enumerate() {
            let _ = poll.change(listener.fd(), LISTENERS + n as u64, interest);
        }
    }
}

/// The connections that the thread owns, by index and by client.
#[derive(Default)]
pub(super) struct Connections {
    slots: Slab<Conn>,
    by_client: HashMap<u64, usize, foldhash::fast::RandomState>,
    /// The generation of the newest connection: see [`Conn::generation`].
    generation: u32,
    /// Connections with requests to execute that no event announces.
    pub queued: Vec<usize>,
}

impl Connections {
    /// Returns the next generation, which distinguishes tokens of connections that used the
    /// same slot.
    pub fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1) & 0x7fff_ffff;
        self.generation
    }

    /// Adds a connection. Returns its index.
    pub fn insert(&mut self, conn: Conn) -> usize {
        let client = conn.session.shared.id;
        let index = self.slots.insert(conn);
        self.by_client.insert(client, index);
        index
    }

    /// Removes a connection. Returns `None` if there is none at `index`.
    pub fn remove(&mut self, index: usize) -> Option<Conn> {
        let conn = self.slots.try_remove(index)?;
        self.by_client.remove(&conn.session.shared.id);
        self.queued.retain(|i| *i != index);
        Some(conn)
    }

    /// The index of a client's connection.
    #[inline]
    pub fn index_of(&self, client: u64) -> Option<usize> {
        self.by_client.get(&client).copied()
    }

    pub fn of_client(&self, client: u64) -> Option<&Conn> {
        self.index_of(client).and_then(|index| self.slots.get(index))
    }

    #[inline]
    pub fn get(&self, index: usize) -> Option<&Conn> {
        self.slots.get(index)
    }

    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Conn> {
        self.slots.get_mut(index)
    }

    pub fn contains(&self, index: usize) -> bool {
        self.slots.contains(index)
    }

    pub fn iter(&self) -> slab::Iter<'_, Conn> {
        self.slots.iter()
    }

    /// The indices of all connections, for loops that add or remove connections.
    pub fn indices(&self) -> Vec<usize> {
        self.slots.iter().map(|(index, _)| index).collect()
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

impl Index<usize> for Connections {
    type Output = Conn;

    #[inline]
    fn index(&self, index: usize) -> &Conn {
        &self.slots[index]
    }
}

impl IndexMut<usize> for Connections {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut Conn {
        &mut self.slots[index]
    }
}

/// The next batch of requests, and buffers for its replies.
#[derive(Default)]
pub(super) struct Execution {
    pub batch: Batch,
    /// Spare reply buffers, reused by the next batch.
    pub replies: Vec<Reply>,
    /// Requests were executed in this iteration.
    pub has_served: bool,
    pub last_sample: LastSample,
}

/// The last key that this thread has sampled: [`crate::worker::sampling`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastSample {
    /// Monotonic milliseconds.
    pub at_ms: i64,
    /// The requests that the thread had executed.
    pub requests: u64,
}

impl Execution {
    /// Returns a reply's buffer to the pool.
    pub fn recycle(&mut self, mut reply: Reply) {
        if self.replies.len() < POOLED {
            reply.trim();
            self.replies.push(reply);
        }
    }
}

/// Replies for other threads to write: see [`crate::worker::offload`].
#[derive(Default)]
pub(super) struct Offload {
    pub jobs: Vec<WriteJob>,
    /// Whether further replies may be added.
    pub is_open: bool,
}

/// Output that is not a reply to a request.
#[derive(Default)]
pub(super) struct Pushes {
    /// Connections with unsent pushes.
    pub pushed: VecDeque<usize>,
    /// Clients that receive the replication stream. Some may be gone.
    pub streams: Vec<u64>,
    /// Some stream has more data to send, because it used up its share of the iteration.
    pub streams_wait: bool,
}

/// When blocked clients time out: monotonic milliseconds and client, the earliest first. An entry
/// may outlive its wait.
pub(super) struct Deadlines {
    heap: BinaryHeap<Reverse<(i64, u64)>>,
    /// Number of entries above which stale ones are removed.
    at_most: usize,
}

impl Default for Deadlines {
    fn default() -> Self {
        Deadlines { heap: BinaryHeap::new(), at_most: FEW_DEADLINES }
    }
}

impl Deadlines {
    pub fn push(&mut self, at_ms: i64, client: u64) {
        self.heap.push(Reverse((at_ms, client)));
    }

    /// The earliest deadline.
    pub fn first(&self) -> Option<(i64, u64)> {
        self.heap.peek().map(|Reverse(first)| *first)
    }

    /// Removes and returns the earliest deadline if it is due.
    pub fn pop_due(&mut self, now_ms: i64) -> Option<(i64, u64)> {
        let due = self.first().filter(|(at_ms, _)| *at_ms <= now_ms)?;
        self.heap.pop();
        Some(due)
    }

    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Whether there are enough entries that stale ones should be removed.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.heap.len() > self.at_most
    }

    /// Keeps the entries for which `is_current` holds, and removes duplicates.
    pub fn retain(&mut self, is_current: impl Fn(i64, u64) -> bool) {
        let mut left = std::mem::take(&mut self.heap).into_vec();
        left.sort_unstable();
        left.dedup();
        left.retain(|Reverse((at_ms, client))| is_current(*at_ms, *client));
        self.at_most = FEW_DEADLINES + 2 * left.len();
        self.heap = left.into();
    }
}

/// Periodic work of the thread, and its load figures.
pub(super) struct Upkeep {
    pub cron: Cron,
    pub next_cron_ms: i64,
    pub mover: Mover,
    /// The CPUs that the thread was bound to.
    pub bound: Arc<Placement>,
    /// Number of the current load period.
    pub period: u32,
    /// Connections that sent requests in this period.
    pub busy_connections: u64,
}

impl Upkeep {
    pub fn new(id: usize) -> Self {
        Upkeep {
            cron: Cron::new(id),
            next_cron_ms: 0,
            mover: Mover::default(),
            bound: Arc::default(),
            period: 1,
            busy_connections: 0,
        }
    }

    /// Adds `work` to a connection's count for this period.
    #[inline]
    pub fn note_work(&mut self, conn: &mut Conn, work: u64) {
        self.busy_connections += u64::from(conn.usage.note_work(self.period, work));
    }
}
