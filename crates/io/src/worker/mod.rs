//! One I/O thread: its event loop and the connections it owns.
//!
//! ```text
//! wait ─► for each ready connection: read, parse, plan ─┐   until the batch is full
//!         ┌─────────────────────────────────────────────┘
//!         └► enter the gate ─► execute all requests, prefetching ahead ─► leave the gate
//!            ─► write each connection's replies
//! ```
//!
//! Nothing is locked or gated while the thread reads, writes or sleeps.
//!
//! * this file: the loop, and what is done at times
//! * [`events`] - from the kernel's events and other threads' messages to what follows
//! * [`input`] - reading and planning; [`turn`]: executing a batch; [`output`]: sending replies
//! * [`pushes`] - what was published
//! * [`replicas`] - replicas: the stream of writes
//! * [`look`] - whether to look again before sleeping
//! * [`withheld`] - answers that wait for the disk
//! * [`away`] - connections whose command is elsewhere; [`moving`], [`owning`]: they come and go
//! * [`offload`] - `io-threads-do-reads no`
//!
//! What a connection may do next is decided by its state alone: [`weft_net::lifecycle`].

use crate::look::Looks;
use slab::Slab;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use weft_base::topology;
use weft_executor::batch::Batch;
use weft_executor::dispatch::core::Core;
use weft_executor::tracking;
use weft_keyspace::{Inside, Outside};
use weft_memory::ThreadMemory;
use weft_net::interest::Interest;
use weft_net::listen::Listener;
use weft_net::poll::{Poll, Ready};
use weft_process::log_verbose;
use weft_resp::Reply;
use weft_scheduler::placement::Placement;
use weft_state::conn::Conn;
use weft_state::server::Server;

mod away;
mod events;
mod input;
mod moving;
mod offload;
mod output;
mod owning;
mod pushes;
pub mod replicas;
mod turn;
mod withheld;

/// Reply buffers that are kept beside those of the present batch.
const POOLED: usize = 256;

/// Tokens from here on are not connections.
const MAILBOX: u64 = u64::MAX;
const LISTENERS: u64 = u64::MAX - 1024;

/// See the module's description.
pub struct Worker {
    pub core: Core,
    /// There between batches.
    outside: Option<Outside<'static>>,
    poll: Poll,
    conns: Slab<Conn>,
    by_client: HashMap<u64, usize, foldhash::fast::RandomState>,
    listeners: Vec<Listener>,
    /// Whether the listeners are watched, and until when failures are not logged.
    accepts: bool,
    quiet_until_ms: i64,
    batch: Batch,
    /// Reply buffers of the jobs of a batch, kept for the next one.
    replies: Vec<Reply>,
    /// Requests were executed in this turn.
    has_served: bool,
    looks: Looks,
    /// Replies for other threads to send, and whether more are taken: see [`offload`].
    offloaded: Vec<weft_state::offload::WriteJob>,
    offloads: bool,
    /// Connections with something to execute that no event will announce.
    queued: Vec<usize>,
    /// Connections with pushes to be sent.
    pushed: VecDeque<usize>,
    /// Clients that are sent the stream of writes. One of them may be gone.
    streams: Vec<u64>,
    /// There is more for one of them, whose share of a turn was used up.
    streams_wait: bool,
    /// Some of what has come was left for the next turn.
    has_mail: bool,
    generation: u32,
    next_cron_ms: i64,
    cron: crate::cron::Cron,
    mover: weft_executor::defrag::Mover,
    /// Where this thread was told to run.
    bound: Arc<Placement>,
    /// Periods of the load so far, and connections that had requests in this one.
    period: u32,
    busy_connections: u64,
    /// Units of the log of effects, and connections whose answers wait for them, the first first. An
    /// entry may outlive its connection.
    withheld: BinaryHeap<Reverse<(u64, u64)>>,
    /// When the time of which waiting client is over: monotonic milliseconds and client, the earliest
    /// first. An entry may outlive its wait.
    deadlines: BinaryHeap<Reverse<(i64, u64)>>,
    /// When there are more of them, those that have outlived it are forgotten.
    deadlines_at_most: usize,
}

fn token(index: usize, generation: u32) -> u64 {
    u64::from(generation) << 32 | index as u64
}

impl Worker {
    /// Worker `id`; must be called on the thread that will run it.
    pub fn new(id: usize, srv: &'static Server, listeners: Vec<Listener>) -> std::io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(srv.threads[id].mailbox.fd(), MAILBOX, Interest::READ)?;
        for (n, listener) in listeners.iter().enumerate() {
            poll.add(listener.fd(), LISTENERS + n as u64, Interest::READ)?;
        }
        let mut worker = Worker {
            cron: crate::cron::Cron::new(id),
            mover: weft_executor::defrag::Mover::default(),
            bound: Arc::default(),
            period: 1,
            busy_connections: 0,
            core: Core::new(id, srv),
            outside: Some(Outside::new(&srv.ks, id)),
            poll,
            conns: Slab::new(),
            by_client: HashMap::default(),
            listeners,
            accepts: true,
            quiet_until_ms: 0,
            batch: Batch::default(),
            replies: Vec::new(),
            has_served: false,
            looks: Looks::default(),
            offloaded: Vec::new(),
            offloads: false,
            queued: Vec::new(),
            pushed: VecDeque::new(),
            streams: Vec::new(),
            streams_wait: false,
            has_mail: false,
            generation: 0,
            next_cron_ms: 0,
            withheld: BinaryHeap::new(),
            deadlines: BinaryHeap::new(),
            deadlines_at_most: 64,
        };
        // What a worker is made of is part of what an empty server takes.
        worker.core.memory = ThreadMemory::from_here();
        Ok(worker)
    }

    /// Runs until the server is told to stop.
    pub fn run(&mut self) -> std::io::Result<()> {
        let mut ready: Vec<Ready> = Vec::new();
        self.bound = self.core.srv.placement();
        bind(self.core.srv, self.core.id, &self.bound);
        while !self.core.srv.is_stopping() {
            ready.clear();
            let timeout = if self.is_busy() { 0 } else { self.until_due() };
            if timeout != 0 && std::mem::take(&mut self.has_served) {
                self.looks.look(&self.core.srv.time.clock, &mut self.poll, &mut ready)?;
            }
            if ready.is_empty() {
                self.poll.wait(timeout, &mut ready)?;
            }
            self.core.stats().turns.add(1);
            // Before a connection is accepted: whether it needs a password, for one.
            self.core.renew_settings();
            for event in &ready {
                self.on_event(*event);
            }
            if self.has_mail {
                self.flush();
                self.on_mail();
            }
            self.end_waits();
            self.run_queued();
            self.flush();
            self.forget_deadlines();
            self.send_pushes();
            self.feed_again();
            self.cron_if_due();
            if self.core.settings.has_chores {
                self.do_chores();
            }
        }
        Ok(())
    }

    /// Whether there is something to do that no event announces.
    fn is_busy(&self) -> bool {
        !self.queued.is_empty() || !self.pushed.is_empty() || self.has_mail || self.streams_wait
    }

    /// Goes inside the gate.
    fn enter(&mut self) -> Inside<'static> {
        self.outside.take().expect("outside between batches").enter()
    }

    /// Goes outside of it again.
    fn leave(&mut self, inside: Inside<'static>) {
        self.outside = Some(inside.leave());
        self.core.publish();
    }

    /// Milliseconds until something has to be done unasked; negative for never.
    fn until_due(&self) -> i64 {
        if self.has_no_part() {
            return -1;
        }
        let now = self.core.srv.mono_ms();
        let cron = (self.next_cron_ms - now).clamp(0, 1000);
        let due = self.until_deadline(now).map_or(cron, |deadline| deadline.min(cron));
        if !self.core.settings.has_chores {
            return due;
        }
        let defrag = self.mover.until_due(&self.core, now).filter(|_| self.is_active());
        defrag.map_or(due, |defrag| defrag.min(due))
    }

    /// What is done in each turn only where the configuration asks for it: keeps clients within
    /// `maxmemory-clients`, and moves records for a moment if that is wanted now.
    #[cold]
    fn do_chores(&mut self) {
        if self.core.settings.clients_memory > 0 {
            weft_admin::client_eviction::evict_clients(
                self.core.srv,
                self.core.settings.clients_memory,
            );
        }
        let now = self.core.srv.mono_ms();
        if self.is_active() && self.mover.until_due(&self.core, now) == Some(0) {
            let mut inside = self.enter();
            let shards = self.cron.shards(&self.core);
            self.mover.run(&mut self.core, &mut inside, shards, now);
            self.leave(inside);
        }
    }

    /// Whether this thread is not wanted now, and has nothing left to do.
    fn has_no_part(&self) -> bool {
        let helps = || self.is_divided() && self.core.id < self.core.srv.threads.configured();
        !self.is_active() && self.conns.is_empty() && !helps()
    }

    fn is_active(&self) -> bool {
        self.core.id < self.core.srv.threads.active()
    }

    /// Goes where the thread is to run now, if that has changed.
    fn bind_again(&mut self) {
        let placement = self.core.srv.placement();
        if !Arc::ptr_eq(&placement, &self.bound) {
            bind(self.core.srv, self.core.id, &placement);
            self.bound = placement;
        }
    }

    fn cron_if_due(&mut self) {
        if self.has_no_part() {
            return self.cron.rest(&mut self.core);
        }
        let now = self.core.srv.mono_ms();
        if now < self.next_cron_ms {
            return;
        }
        self.core.stats().ticks.add(1);
        self.next_cron_ms = now + 1000 / self.core.settings.hz.max(1);
        if self.cron.tick(&mut self.core, now, self.busy_connections, &mut self.looks) {
            self.period = self.period.wrapping_add(1);
            self.busy_connections = 0;
        }
        if self.cron.expires(&self.core) {
            let mut inside = self.enter();
            self.cron.expire(&mut self.core, &mut inside);
            self.leave(inside);
        }
        if tracking::is_over(&self.core) {
            let mut inside = self.enter();
            let shards = self.cron.shards(&self.core);
            tracking::shrink(&mut self.core, &mut inside, shards);
            self.leave(inside);
        }
        if self.core.id == 0 {
            let limits = self.core.settings.defrag;
            self.mover.measure(self.core.srv, &limits, now);
        }
        self.check_clients(now);
        self.accept_again();
        if !self.is_active() {
            self.hand_over();
        }
    }

    /// Closes idle clients and those whose output has been over the soft limit for too long; renews
    /// the account of what the others hold.
    fn check_clients(&mut self, now_ms: i64) {
        let timeout = self.core.settings.timeout_s;
        let all: Vec<usize> = self.conns.iter().map(|(index, _)| index).collect();
        for index in all {
            let conn = &self.conns[index];
            let idle = timeout > 0 && conn.session.shared.idle_seconds(now_ms) > timeout;
            let is_told = conn.session.monitor || conn.session.subscribes || conn.replica.is_some();
            if idle && !is_told && conn.state.is_idle() {
                log_verbose!("Closing idle client");
                self.close(index);
            } else if self.over_output_limit(conn) {
                self.close_overfull(index);
            } else {
                self.account_memory(index);
            }
        }
    }
}

/// Lets the calling I/O thread `id` run where `placement` says, and notes where it may.
fn bind(srv: &Server, id: usize, placement: &Placement) {
    if let Some(cpus) = placement.io.get(id) {
        weft_scheduler::placement::bind_to(cpus);
    }
    srv.threads[id].note_cpus(topology::allowed_cpus());
}
