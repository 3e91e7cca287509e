//! Drives the machines of [`weft_replication`] in the server.
//!
//! ```text
//!  I/O threads ─► log of effects ─► weft-repl: Node::write ─► backlog ─► I/O threads ─► replicas
//!  commands, sockets, time ─► Hub::step: an event ─► actions, executed in order
//! ```
//!
//! * this file: the [`Hub`], which takes events
//! * [`perform`] - executes the actions
//! * [`thread`] - weft-repl: reads the log, advances the time, executes what must stop the world
//! * [`settings`] - the configuration; [`roles`]: the effects of a role on clients
//! * [`cluster`] - the role in a cluster with a store
//! * [`pressure`] - limits the unread part of the log
//! * [`positions`] - the positions in a history that files of the data record
//! * [`primary`] - replicas of this server; [`replica`]: its primary
//!
//! One mutex protects the machine and the reader of the log. A thread that stops the world for a
//! cut (a change of role, the beginning of a snapshot) reads the rest of the log itself
//! ([`Hub::cut`]), and then passes the event to the machine. So the stream has everything written
//! before the cut, and nothing after it.
//!
//! A thread with the mutex never blocks on shards, a safepoint, the disk or a full socket. The
//! mutex is taken while the world is stopped or inside a safepoint, and never the other way round.
//! An action that must stop the world, and all actions after it, are left to weft-repl otherwise:
//! see [`State::pending`].

pub mod cluster;
pub mod perform;
pub mod positions;
pub mod pressure;
pub mod primary;
pub mod replica;
pub mod roles;
pub mod settings;
pub mod thread;

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::Thread;
use weft_config::{Config, Primary};
use weft_keyspace::{Guard, LogReader, ReaderId};
use weft_process::log::Role;
use weft_replication::replica::Follower;
use weft_replication::{Action, Ms, Node, Position, Settings, Start};
use weft_state::attention;
use weft_state::replication_status::ReplicationStatus;
use weft_state::server::{Replicator, Server};

/// The hub of `srv`.
///
/// # Panics
/// If the server was built without one.
pub fn hub(srv: &Server) -> &Hub {
    let any: &dyn Any = &*srv.links.replicator;
    any.downcast_ref().expect("the hub of replication")
}

/// The server's state of replication. See the module documentation.
#[derive(Default)]
pub struct Hub {
    state: OnceLock<Mutex<State>>,
    /// The reader of the log, while the log is read.
    reader: Mutex<Option<ReaderId>>,
    /// weft-repl, once it is needed.
    thread: OnceLock<Thread>,
    /// Status for the fast path, updated after each event.
    pub published: Arc<ReplicationStatus>,
    /// The directive `replicaof` was applied: from here on it follows the role.
    has_initial_role: AtomicBool,
    /// Progress of the current or last copy.
    pub progress: replica::copy::Progress,
    /// In a cluster with a store.
    cluster: OnceLock<cluster::Cluster>,
}

/// The state under the mutex.
pub struct State {
    pub node: Node,
    /// The reader of the effect log, while this server writes the stream and a replica needs it.
    pub log: Option<LogReader>,
    /// The link to the primary.
    pub link: replica::Follow,
    /// Actions still to be executed, in order. Not empty only while the first one must stop the
    /// world.
    pub pending: VecDeque<Action>,
    /// Kept to reuse its capacity.
    out: Vec<Action>,
    /// Clients' writes must be paused, and the machine must be notified once they are.
    pub pause_requested: bool,
    pub replicas: primary::Replicas,
    pub places: positions::Positions,
    /// weft-repl has not started, or sleeps without a timeout.
    thread_sleeps: bool,
    /// weft-repl sleeps, and the log wakes it.
    waits_for_log: bool,
}

impl Hub {
    /// Starts as a primary without a history. The caller calls it once, before there are clients.
    pub fn begin(&self, srv: &'static Server) {
        let settings = settings::of(&srv.config());
        let (node, pending) = node(srv, settings, Start { position: None, primary: None });
        let state = State {
            node,
            log: None,
            link: replica::Follow::default(),
            pending,
            out: Vec::new(),
            pause_requested: false,
            replicas: primary::Replicas::default(),
            places: positions::Positions::default(),
            thread_sleeps: true,
            waits_for_log: false,
        };
        self.publish(srv, &state);
        let _ = self.state.set(Mutex::new(state));
    }

    /// Sets the initial role, once the data are loaded and before any client may write. `found` is
    /// the position that their file records.
    pub fn go_on(&self, srv: &'static Server, found: Option<positions::Found>) {
        let config = srv.config();
        let primary = config.primary();
        let primary = primary.map(|to| (String::from_utf8_lossy(&to.host).into_owned(), to.port));
        let is_replica = primary.is_some() || self.is_member();
        let position = found.and_then(|found| found.position(is_replica));
        let settings = settings::of(&config);
        drop(config);
        let held = self.held_node(srv, position);
        let mut state = self.lock();
        (state.node, state.pending) = match held {
            Some(held) => (held, VecDeque::new()),
            None => node(srv, settings, Start { position, primary }),
        };
        let has_quorum = state.replicas.quorum.is_on();
        pass_event(srv, &mut state, |node, _, out| node.keep_stream(has_quorum, out));
        // No client can have data yet, so the new role needs no notification.
        roles::note_expiry(srv, !state.node.is_primary());
        srv.set_attention(attention::REPLICA, !state.node.is_primary());
        self.finish(srv, state);
        // Writes from here on must be in the stream, if there is one.
        if !self.lock().pending.is_empty() {
            thread::with_world(srv);
        }
        self.has_initial_role.store(true, Ordering::SeqCst);
    }

    /// Sets the directive `replicaof` to the current primary. Callers do so before they read it.
    pub fn set_replicaof(&self, config: &mut Config) {
        if !self.has_initial_role.load(Ordering::SeqCst) || self.is_member() {
            return;
        }
        let state = self.lock();
        let primary = state.node.follower().map(|follower| {
            let (host, port) = follower.primary();
            Primary { host: host.as_bytes().to_vec(), port }
        });
        config.set_primary(primary);
    }

    /// # Panics
    /// Before [`Hub::begin`].
    pub fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.state.get().expect("begun before there are clients");
        state.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Returns the machine once the stream has everything written before this call. Waits briefly
    /// for threads that are still about to log.
    pub fn up_to_date(&self, srv: &'static Server) -> MutexGuard<'_, State> {
        const TRIES: usize = 100;
        let (last, mut tries) = (srv.ks.log().last(), TRIES);
        // In parts, because other threads need the machine, too.
        while tries > 0 {
            let mut state = self.lock();
            if state.log.is_none() {
                return state;
            }
            let has_more = thread::drain(srv, &mut state, thread::AT_ONCE);
            let is_there = state.log.as_ref().is_none_or(|log| log.position() >= last);
            self.finish(srv, state);
            if is_there {
                break;
            }
            tries -= usize::from(!has_more);
            std::thread::yield_now();
        }
        self.lock()
    }

    /// Passes an event to the machine and executes the actions. The module documentation restricts
    /// the callers.
    pub fn step<T>(
        &self,
        srv: &'static Server,
        event: impl FnOnce(&mut Node, Ms, &mut Vec<Action>) -> T,
    ) -> T {
        let mut state = self.lock();
        let result = pass_event(srv, &mut state, event);
        self.finish(srv, state);
        result
    }

    /// The same at a cut: the stream has everything written before. The world, or at least every
    /// I/O thread, is stopped. With `guard`, actions that must stop the world are executed at once.
    /// O(unread part of the log).
    pub fn cut<T>(
        &self,
        srv: &'static Server,
        guard: Option<&Guard<'_>>,
        event: impl FnOnce(&mut Node, Ms, &mut Vec<Action>) -> T,
    ) -> T {
        let mut state = self.lock();
        thread::drain(srv, &mut state, usize::MAX);
        perform::execute_pending(srv, &mut state, guard);
        let result = pass_event(srv, &mut state, event);
        perform::execute_pending(srv, &mut state, guard);
        self.finish(srv, state);
        result
    }

    /// Ends an event: publishes changes and wakes weft-repl if actions are left.
    fn finish(&self, srv: &'static Server, mut state: MutexGuard<'_, State>) {
        primary::quorum::ask(srv, &mut state);
        perform::execute_pending(srv, &mut state, None);
        self.publish(srv, &state);
        state.wake_settled_link();
        perform::notify_growth(srv, &mut state);
        let is_left = !state.pending.is_empty() || state.pause_requested;
        let wakes = is_left
            || (state.is_busy() && std::mem::take(&mut state.thread_sleeps))
            || !state.is_woken_by_log();
        drop(state);
        if wakes {
            self.wake(srv);
        }
    }

    /// Reads the rest of the log, after the last command was executed.
    pub fn end(&self, srv: &'static Server) {
        let mut state = self.lock();
        thread::drain(srv, &mut state, usize::MAX);
        if let Some(unit) = state.log.as_ref().map(LogReader::position) {
            state.note_place(srv, unit);
        }
    }

    /// Wakes weft-repl, and starts it first if necessary.
    pub fn wake(&self, srv: &'static Server) {
        let thread = self.thread.get_or_init(|| thread::start(srv));
        thread.unpark();
    }

    /// The position that a file of the data at a cut must record. The caller is at the cut.
    pub fn position_at_cut(&self, srv: &'static Server) -> Option<Position> {
        self.cut(srv, None, |_, _, _| ());
        let state = self.lock();
        // A backlog that is still to be created doesn't exist yet.
        if state.pending.is_empty() { state.node.position() } else { None }
    }

    fn publish(&self, srv: &Server, state: &State) {
        let published = &self.published;
        let follower = state.node.follower();
        if published.is_replica.swap(follower.is_some(), Ordering::SeqCst) != follower.is_some() {
            let role = if follower.is_some() { Role::Replica } else { Role::Primary };
            weft_process::log::set_role(role);
        }
        let is_linked = follower.is_some_and(Follower::is_online);
        published.is_linked.store(is_linked, Ordering::SeqCst);
        published.offset.store(state.node.stream().offset(), Ordering::SeqCst);
        if let Some(log) = &state.log {
            published.unit.store(log.position(), Ordering::SeqCst);
        }
        self.relieve(srv, state);
        let kept = state.node.stream().kept().map_or(0, |kept| kept.end - kept.start);
        let behind = kept.saturating_sub(state.node.settings().backlog_size);
        published.behind.store(behind, Ordering::Relaxed);
        let has_few = state.node.is_primary() && !state.node.may_write(now(srv));
        if published.has_few.swap(has_few, Ordering::SeqCst) != has_few {
            srv.set_attention(attention::FEW_REPLICAS, has_few);
        }
    }

    /// Applies a changed configuration.
    pub fn set(&self, srv: &'static Server, config: &Config) {
        // `begin` reads the whole configuration.
        if self.state.get().is_some() {
            let settings = settings::of(config);
            self.step(srv, |node, now, out| node.set(now, settings, out));
        }
    }

    /// The reader of the log, for callers without the machine.
    fn reader(&self) -> MutexGuard<'_, Option<ReaderId>> {
        self.reader.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The primary of this server.
    pub fn primary_of(&self) -> Option<(String, u16)> {
        let state = self.lock();
        let (host, port) = state.node.follower()?.primary();
        Some((host.to_string(), port))
    }
}

impl Hub {
    /// Returns a hub that updates `published`.
    pub fn new(published: Arc<ReplicationStatus>) -> Hub {
        Hub { published, ..Hub::default() }
    }
}

impl Replicator for Hub {
    fn watch_pressure(&'static self, srv: &'static Server) {
        Hub::watch_pressure(self, srv);
    }

    fn set_replicaof(&self, config: &mut Config) {
        Hub::set_replicaof(self, config);
    }

    fn is_member(&self) -> bool {
        Hub::is_member(self)
    }

    fn position_at_cut(&self, srv: &'static Server) -> Option<Position> {
        Hub::position_at_cut(self, srv)
    }

    fn forget_positions(&self, srv: &'static Server) {
        self.lock().forget_positions(srv);
    }

    fn forget_durable(&self) {
        self.lock().node.durable(None);
    }

    fn last_known_position_above(&self, unit: u64) -> Option<u64> {
        Hub::last_known_position_above(self, unit)
    }

    fn position_after(&self, unit: u64) -> Option<weft_persist::aof::Position> {
        Hub::position_after(self, unit)
    }

    fn has_position_after(&self, unit: u64) -> bool {
        Hub::has_position_after(self, unit)
    }

    fn is_durable(&self, srv: &'static Server) {
        Hub::is_durable(self, srv);
    }

    fn replicas_on_disk(&self, srv: &Server, unit: u64) -> i64 {
        Hub::replicas_on_disk(self, srv, unit)
    }

    fn refuse_local(&self, srv: &'static Server, text: &str) {
        Hub::refuse_local(self, srv, text);
    }
}

impl State {
    /// Whether time matters: there is a replica, a primary, or a backlog.
    pub fn is_busy(&self) -> bool {
        let node = &self.node;
        !node.is_primary() || node.primary().has_replicas() || node.stream().backlog().is_some()
    }

    /// Whether a write wakes weft-repl, if it sleeps. Another thread that has read the log has ended that.
    fn is_woken_by_log(&mut self) -> bool {
        !self.waits_for_log
            || self.log.as_mut().is_none_or(|log| log.is_asleep() || log.may_sleep())
    }

    /// Wakes the link's thread if it waits for an empty queue of actions.
    pub fn wake_settled_link(&mut self) {
        if self.pending.is_empty() {
            self.link.notify_settled();
        }
    }
}

/// Passes an event to the machine; its actions become pending.
pub fn pass_event<T>(
    srv: &'static Server,
    state: &mut State,
    event: impl FnOnce(&mut Node, Ms, &mut Vec<Action>) -> T,
) -> T {
    let mut out = std::mem::take(&mut state.out);
    let result = event(&mut state.node, now(srv), &mut out);
    state.pending.extend(out.drain(..));
    state.out = out;
    result
}

fn node(srv: &Server, settings: Settings, start: Start) -> (Node, VecDeque<Action>) {
    let mut out = Vec::new();
    let node = Node::new(now(srv), settings, settings::ids(), start, &mut out);
    (node, out.into())
}

pub fn now(srv: &Server) -> Ms {
    u64::try_from(srv.mono_ms()).unwrap_or(0)
}
