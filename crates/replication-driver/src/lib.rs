//! Replication: what the server does with the machines of [`weft_replication`].
//!
//! ```text
//!  I/O threads ─► log of effects ─► weft-repl: Node::write ─► backlog ─► I/O threads ─► replicas
//!  commands, sockets, time ─► Hub::step: an event ─► actions, done in their order
//! ```
//!
//! * this file: the [`Hub`], where events go in
//! * [`perform`] - what is done about each action
//! * [`thread`] - weft-repl: reads the log, tells the time, does what needs the world
//! * [`settings`] - what the configuration says; [`roles`]: what clients notice of all this
//! * [`pressure`] - when the log grows faster than it is read
//! * [`positions`] - what files of the data say about their place in a history
//! * [`primary`] - replicas of ours; [`replica`]: our primary
//!
//! The machine is behind one mutex, and so is the reader of the log: whoever stops the world for a cut
//! (a change of role, the beginning of a snapshot) reads the rest of the log himself ([`Hub::cut`]), and
//! tells the machine then. So everything written before the cut is in the stream, and nothing after.
//!
//! Who holds the mutex waits for nothing: no shards, no gate, no disk, no full socket. It is taken with the
//! world in hand, or in a gate, and never the other way round. What needs the world and comes up without it
//! is left, with all behind it, to weft-repl: see [`State::pending`].

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
/// If the server was put together without one.
pub fn hub(srv: &Server) -> &Hub {
    let any: &dyn Any = &*srv.links.replicator;
    any.downcast_ref().expect("the hub of replication")
}

/// See the module.
#[derive(Default)]
pub struct Hub {
    state: OnceLock<Mutex<State>>,
    /// Who reads the log, while somebody does.
    reader: Mutex<Option<ReaderId>>,
    /// weft-repl, once somebody needs it.
    thread: OnceLock<Thread>,
    /// For the fast path, renewed after each event.
    pub published: Arc<ReplicationStatus>,
    /// The directive `replicaof` was followed: from here on it follows the role.
    has_gone_on: AtomicBool,
    /// Of the copy that is received, or was last.
    pub progress: replica::copy::Progress,
}

/// What the mutex holds.
pub struct State {
    pub node: Node,
    /// The reader of the log of effects, while somebody needs the stream and this server writes it.
    pub log: Option<LogReader>,
    /// The way to our primary.
    pub link: replica::Follow,
    /// What is still to be done, in order. More than nothing only while the first of it needs the world.
    pub pending: VecDeque<Action>,
    /// Kept for the next event.
    out: Vec<Action>,
    /// The writes of clients are to be paused, and the machine waits to be told that they are.
    pub tells_paused: bool,
    pub replicas: primary::Replicas,
    pub places: positions::Places,
    /// weft-repl is not there, or sleeps until it is woken, as time is no matter.
    thread_rests: bool,
}

impl Hub {
    /// To be called once, before there are clients: a primary without a past.
    pub fn begin(&self, srv: &'static Server) {
        let settings = settings::of(srv, &srv.config());
        let (node, pending) = node(srv, settings, Start { position: None, primary: None });
        let state = State {
            node,
            log: None,
            link: replica::Follow::default(),
            pending,
            out: Vec::new(),
            tells_paused: false,
            replicas: primary::Replicas::default(),
            places: positions::Places::default(),
            thread_rests: true,
        };
        self.publish(srv, &state);
        let _ = self.state.set(Mutex::new(state));
    }

    /// To be called when the data of the start are there, and before anybody may write: `found` is what
    /// their file says of itself.
    pub fn go_on(&self, srv: &'static Server, found: Option<positions::Found>) {
        let config = srv.config();
        let primary = config.primary();
        let primary = primary.map(|to| (String::from_utf8_lossy(&to.host).into_owned(), to.port));
        let position = found.and_then(|found| found.position(primary.is_some()));
        let settings = settings::of(srv, &config);
        drop(config);
        let mut state = self.lock();
        (state.node, state.pending) = node(srv, settings, Start { position, primary });
        // A replica from the start has nobody to tell but those who ask from now on.
        roles::note_expiry(srv, !state.node.is_primary());
        srv.set_attention(attention::REPLICA, !state.node.is_primary());
        self.finish(srv, state);
        // Who writes from here on is in the stream, if there is one.
        if !self.lock().pending.is_empty() {
            thread::with_world(srv);
        }
        self.has_gone_on.store(true, Ordering::SeqCst);
    }

    /// Has the directive `replicaof` say whom this server follows: to be called before anybody reads it.
    pub fn tell_config(&self, config: &mut Config) {
        if !self.has_gone_on.load(Ordering::SeqCst) {
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

    /// The machine, when what was written before this call is in the stream. Where another thread is still
    /// about to log something it is waited for, but not for long.
    pub fn up_to_date(&self, srv: &'static Server) -> MutexGuard<'_, State> {
        const TRIES: usize = 100;
        let (last, mut tries) = (srv.ks.log().last(), TRIES);
        // Part by part: others want the machine, too.
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

    /// Tells the machine something, and does what follows. See the module for who may call it.
    pub fn step<T>(
        &self,
        srv: &'static Server,
        event: impl FnOnce(&mut Node, Ms, &mut Vec<Action>) -> T,
    ) -> T {
        let mut state = self.lock();
        let result = tell(srv, &mut state, event);
        self.finish(srv, state);
        result
    }

    /// The same at a cut: all that was written before is in the stream. The world, or at least every
    /// I/O thread, is stopped; with `guard`, what needs the world is done at once. O(what was not read of
    /// the log).
    pub fn cut<T>(
        &self,
        srv: &'static Server,
        guard: Option<&Guard<'_>>,
        event: impl FnOnce(&mut Node, Ms, &mut Vec<Action>) -> T,
    ) -> T {
        let mut state = self.lock();
        thread::drain(srv, &mut state, usize::MAX);
        perform::all(srv, &mut state, guard);
        let result = tell(srv, &mut state, event);
        perform::all(srv, &mut state, guard);
        self.finish(srv, state);
        result
    }

    /// The end of an event: what was changed is published, and does not wait for long.
    fn finish(&self, srv: &'static Server, mut state: MutexGuard<'_, State>) {
        perform::all(srv, &mut state, None);
        self.publish(srv, &state);
        state.tell_link();
        perform::spread(srv, &mut state);
        let is_left = !state.pending.is_empty() || state.tells_paused;
        let wakes = is_left || (state.is_busy() && std::mem::take(&mut state.thread_rests));
        drop(state);
        if wakes {
            self.wake(srv);
        }
    }

    /// Nobody executes any more: reads the rest of the log.
    pub fn end(&self, srv: &'static Server) {
        let mut state = self.lock();
        thread::drain(srv, &mut state, usize::MAX);
        if let Some(unit) = state.log.as_ref().map(LogReader::position) {
            state.note_place(srv, unit);
        }
    }

    /// Has weft-repl look, which is started if it was not.
    pub fn wake(&self, srv: &'static Server) {
        let thread = self.thread.get_or_init(|| thread::start(srv));
        thread.unpark();
    }

    /// What a file of the data as they are at a cut says about itself. To be called there.
    pub fn position_at_cut(&self, srv: &'static Server) -> Option<Position> {
        self.cut(srv, None, |_, _, _| ());
        let state = self.lock();
        // What is to be kept from some moment on is not kept yet.
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

    /// The configuration has changed to this.
    pub fn set(&self, srv: &'static Server, config: &Config) {
        // Before it begins, it is given all there is.
        if self.state.get().is_some() {
            let settings = settings::of(srv, config);
            self.step(srv, |node, now, out| node.set(now, settings, out));
        }
    }

    /// Who reads the log, for those who do not have the machine.
    fn reader(&self) -> MutexGuard<'_, Option<ReaderId>> {
        self.reader.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Whom this server follows.
    pub fn primary_of(&self) -> Option<(String, u16)> {
        let state = self.lock();
        let (host, port) = state.node.follower()?.primary();
        Some((host.to_string(), port))
    }
}

impl Hub {
    /// A hub that renews `published`.
    pub fn new(published: Arc<ReplicationStatus>) -> Hub {
        Hub { published, ..Hub::default() }
    }
}

impl Replicator for Hub {
    fn watch_pressure(&'static self, srv: &'static Server) {
        Hub::watch_pressure(self, srv);
    }

    fn tell_config(&self, config: &mut Config) {
        Hub::tell_config(self, config);
    }

    fn position_at_cut(&self, srv: &'static Server) -> Option<Position> {
        Hub::position_at_cut(self, srv)
    }

    fn forget_places(&self, srv: &'static Server) {
        self.lock().forget_places(srv);
    }

    fn forget_durable(&self) {
        self.lock().node.durable(None);
    }

    fn placed_behind(&self, unit: u64) -> Option<u64> {
        Hub::placed_behind(self, unit)
    }

    fn place_behind(&self, unit: u64) -> Option<weft_persist::aof::Position> {
        Hub::place_behind(self, unit)
    }

    fn has_place_at(&self, unit: u64) -> bool {
        Hub::has_place_at(self, unit)
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

    /// Wakes the thread of the link, if it waits until everything is done.
    pub fn tell_link(&mut self) {
        if self.pending.is_empty() {
            self.link.tell_settled();
        }
    }
}

/// Tells the machine something; what follows is pending.
pub fn tell<T>(
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
