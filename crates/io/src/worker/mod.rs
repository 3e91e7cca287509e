//! One I/O thread: its event loop and the connections it owns.
//!
//! ```text
//! wait ─► for each ready connection: read, parse, plan ─┐   until the batch is full
//!         ┌─────────────────────────────────────────────┘
//!         └► enter the safepoint ─► execute all requests, prefetching ahead ─► leave the safepoint
//!            ─► write each connection's replies
//! ```
//!
//! The thread holds no lock and is outside the safepoint while it reads, writes or sleeps.
//!
//! * this file: the event loop and its periodic work
//! * [`events`] - handling kernel events and messages from other threads
//! * [`input`] - reading and planning; [`execute`]: executing a batch; [`output`]: sending replies
//! * [`sampling`] - keys for the page on the metrics port
//! * [`pushes`] - delivering published messages
//! * [`replicas`] - sending the replication stream
//! * `look` - whether to poll again before sleeping
//! * [`withheld`] - replies that wait for the disk or for replicas; [`authority`]: those that need a lease
//! * [`away`] - connections whose command runs elsewhere; [`moving`]: moving connections;
//!   [`owning`]: accepting and closing them
//! * [`offload`] - `io-threads-do-reads no`
//! * [`tls`] - handshakes
//! * [`parts`] - the fields of a worker
//!
//! A connection's state alone decides what it may do next: [`weft_net::lifecycle`].

use crate::look::Polling;
use crate::worker::parts::{
    Connections, Deadlines, Execution, LISTENERS, Listening, Offload, Pushes, Upkeep,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use weft_base::topology;
use weft_executor::dispatch::core::Core;
use weft_executor::tracking;
use weft_keyspace::{Inside, Outside};
use weft_memory::ThreadMemory;
use weft_net::interest::Interest;
use weft_net::listen::Listener;
use weft_net::poll::{Poll, Ready};
use weft_process::log_verbose;
use weft_scheduler::placement::Placement;
use weft_state::mailbox::ThreadMessage;
use weft_state::server::Server;

mod authority;
mod away;
mod events;
mod execute;
mod input;
mod moving;
mod offload;
mod output;
mod owning;
mod parts;
mod pushes;
pub mod replicas;
mod sampling;
mod tls;
mod withheld;

/// The poll token of the mailbox.
const MAILBOX: u64 = u64::MAX;

/// An I/O thread: see the module documentation.
pub struct Worker {
    pub core: Core,
    /// `Some` between batches.
    outside: Option<Outside<'static>>,
    poll: Poll,
    listening: Listening,
    conns: Connections,
    execution: Execution,
    looks: Polling,
    offload: Offload,
    pushes: Pushes,
    /// Messages remain in the mailbox for the next iteration.
    has_mail: bool,
    /// Units of the effect log and tokens of the connections whose replies wait for them, lowest
    /// unit first. An entry may outlive its connection.
    withheld: BinaryHeap<Reverse<(u64, u64)>>,
    deadlines: Deadlines,
    upkeep: Upkeep,
}

fn token(index: usize, generation: u32) -> u64 {
    u64::from(generation) << 32 | index as u64
}

impl Worker {
    /// Creates worker `id`. Must be called on the thread that will run it.
    pub fn new(id: usize, srv: &'static Server, listeners: Vec<Listener>) -> std::io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(srv.threads[id].mailbox.fd(), MAILBOX, Interest::READ)?;
        for (n, listener) in listeners.iter().enumerate() {
            poll.add(listener.fd(), LISTENERS + n as u64, Interest::READ)?;
        }
        let mut worker = Worker {
            core: Core::new(id, srv),
            outside: Some(Outside::new(&srv.ks, id)),
            poll,
            listening: Listening::new(listeners),
            conns: Connections::default(),
            execution: Execution::default(),
            looks: Polling::default(),
            offload: Offload::default(),
            pushes: Pushes::default(),
            has_mail: false,
            withheld: BinaryHeap::new(),
            deadlines: Deadlines::default(),
            upkeep: Upkeep::new(id),
        };
        // Memory of the worker itself counts as overhead of an empty server, so the thread's
        // account starts at zero.
        worker.core.memory = ThreadMemory::new_from_zero();
        Ok(worker)
    }

    /// Runs until the server stops.
    pub fn run(&mut self) -> std::io::Result<()> {
        let mut ready: Vec<Ready> = Vec::new();
        self.upkeep.bound = self.core.srv.placement();
        bind(self.core.srv, self.core.id, &self.upkeep.bound);
        while !self.core.srv.is_stopping() {
            ready.clear();
            let timeout = if self.is_busy() { 0 } else { self.until_due() };
            if timeout != 0 && std::mem::take(&mut self.execution.has_served) {
                self.looks.look(&self.core.srv.process.time.clock, &mut self.poll, &mut ready)?;
            }
            if ready.is_empty() {
                self.poll.wait(timeout, &mut ready)?;
            }
            self.core.stats().event_loop.turns.add(1);
            // Accepting a connection reads settings, such as whether a password is required.
            self.core.renew_settings();
            self.listening.handshakes_left = self.core.settings.clients.new_tls;
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
            self.continue_streams();
            self.cron_if_due();
            if self.core.settings.upkeep.has_chores {
                self.do_chores();
            }
        }
        Ok(())
    }

    /// Whether work is pending that no event announces.
    fn is_busy(&self) -> bool {
        !self.conns.queued.is_empty()
            || !self.pushes.pushed.is_empty()
            || self.has_mail
            || self.pushes.streams_wait
    }

    /// Enters the safepoint.
    fn enter(&mut self) -> Inside<'static> {
        self.outside.take().expect("outside between batches").enter()
    }

    /// Leaves the safepoint.
    fn leave(&mut self, inside: Inside<'static>) {
        self.outside = Some(inside.leave());
        self.core.publish();
    }

    /// Milliseconds until the next scheduled work; negative for none.
    fn until_due(&self) -> i64 {
        if self.is_idle_inactive() {
            return -1;
        }
        let now = self.core.srv.mono_ms();
        let cron = (self.upkeep.next_cron_ms - now).clamp(0, 1000);
        let due = self.until_deadline(now).map_or(cron, |deadline| deadline.min(cron));
        if !self.core.settings.upkeep.has_chores {
            return due;
        }
        let defrag = self.upkeep.mover.until_due(&self.core, now).filter(|_| self.is_active());
        defrag.map_or(due, |defrag| defrag.min(due))
    }

    /// Work of each iteration that only some configurations need: evicts clients above
    /// `maxmemory-clients`, and runs a step of active defragmentation if one is due.
    #[cold]
    fn do_chores(&mut self) {
        if self.core.settings.clients.memory > 0 {
            weft_admin::client_eviction::evict_clients(
                self.core.srv,
                self.core.settings.clients.memory,
            );
        }
        let now = self.core.srv.mono_ms();
        if self.is_active() && self.upkeep.mover.until_due(&self.core, now) == Some(0) {
            let mut inside = self.enter();
            let shards = self.upkeep.cron.shards(&self.core);
            self.upkeep.mover.run(&mut self.core, &mut inside, shards, now);
            self.leave(inside);
        }
    }

    /// Whether this thread is inactive and has no work left.
    fn is_idle_inactive(&self) -> bool {
        let helps = || self.is_divided() && self.core.id < self.core.srv.threads.configured();
        !self.is_active() && self.conns.is_empty() && !helps()
    }

    fn is_active(&self) -> bool {
        self.core.id < self.core.srv.threads.active()
    }

    /// Handles a message about this event loop, and returns its cost.
    fn handle_thread(&mut self, message: ThreadMessage) -> usize {
        match message {
            // This thread may have become active or inactive: its cron handles that.
            ThreadMessage::Wake => {
                self.upkeep.next_cron_ms = 0;
                self.bind_again();
            }
            // The loop checks whether the server is stopping.
            ThreadMessage::Stop => {}
        }
        1
    }

    /// Rebinds the thread to its CPUs if the placement has changed.
    fn bind_again(&mut self) {
        let placement = self.core.srv.placement();
        if !Arc::ptr_eq(&placement, &self.upkeep.bound) {
            bind(self.core.srv, self.core.id, &placement);
            self.upkeep.bound = placement;
        }
    }

    fn cron_if_due(&mut self) {
        if self.is_idle_inactive() {
            return self.upkeep.cron.rest(&mut self.core);
        }
        let now = self.core.srv.mono_ms();
        if now < self.upkeep.next_cron_ms {
            return;
        }
        self.core.stats().event_loop.ticks.add(1);
        self.upkeep.next_cron_ms = now + 1000 / self.core.settings.upkeep.hz.max(1);
        if self.upkeep.cron.tick(&mut self.core, now, self.upkeep.busy_connections, &mut self.looks)
        {
            self.upkeep.period = self.upkeep.period.wrapping_add(1);
            self.upkeep.busy_connections = 0;
        }
        if self.upkeep.cron.expires(&self.core) {
            let mut inside = self.enter();
            self.upkeep.cron.expire(&mut self.core, &mut inside);
            self.leave(inside);
        }
        if tracking::is_over(&self.core) {
            let mut inside = self.enter();
            let shards = self.upkeep.cron.shards(&self.core);
            tracking::shrink(&mut self.core, &mut inside, shards);
            self.leave(inside);
        }
        if self.core.id == 0 {
            let limits = self.core.settings.upkeep.defrag;
            self.upkeep.mover.measure(self.core.srv, &limits, now);
            self.close_unauthenticated(now);
        }
        self.check_clients(now);
        self.accept_again();
        if !self.is_active() {
            self.hand_over();
        }
    }

    /// Closes idle clients and those above the soft output limit for too long, and updates the
    /// memory accounting of the others.
    fn check_clients(&mut self, now_ms: i64) {
        let timeout = self.core.settings.clients.timeout_s;
        for index in self.conns.indices() {
            if self.is_handshake_late(index, now_ms) {
                self.fail_handshake(index, "it takes too long");
                continue;
            }
            let conn = &self.conns[index];
            let idle = timeout > 0 && conn.session.shared.idle_seconds(now_ms) > timeout;
            let is_told = conn.session.pushes.monitor
                || conn.session.pushes.subscribes
                || conn.replica.is_some();
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

/// Binds the calling I/O thread `id` to the CPUs that `placement` lists, and records the CPUs it is
/// allowed.
fn bind(srv: &Server, id: usize, placement: &Placement) {
    if let Some(cpus) = placement.io.get(id) {
        weft_scheduler::placement::bind_to(cpus);
    }
    srv.threads[id].note_cpus(topology::allowed_cpus());
}
