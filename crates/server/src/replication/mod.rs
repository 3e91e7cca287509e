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
pub mod primary;
pub mod replica;
pub mod roles;
pub mod settings;
pub mod thread;

use crate::server::{Server, attention};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::Thread;
use weft_config::{Config, Primary};
use weft_keyspace::{Guard, LogReader};
use weft_persist::rdb::file::Origin;
use weft_process::log::Role;
use weft_replication::replica::Follower;
use weft_replication::{Action, Ms, Node, Position, ReplicationId, Settings, Start};

/// See the module.
#[derive(Default)]
pub struct Hub {
    state: OnceLock<Mutex<State>>,
    /// weft-repl, once somebody needs it.
    thread: OnceLock<Thread>,
    /// For the fast path, renewed after each event.
    pub published: Published,
    /// The directive `replicaof` was followed: from here on it follows the role.
    has_gone_on: AtomicBool,
    /// Of the copy that is received, or was last.
    pub progress: replica::copy::Progress,
}

/// What others ask often.
#[derive(Default)]
pub struct Published {
    pub is_replica: AtomicBool,
    /// The stream of our primary comes in.
    pub is_linked: AtomicBool,
    /// A copy is loaded beside the data that are served (`async_loading`).
    pub loads_beside: AtomicBool,
    /// Where the stream ends, in bytes.
    pub offset: AtomicU64,
    /// The last unit of the log of effects that is in the stream.
    pub unit: AtomicU64,
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
            thread_rests: true,
        };
        self.publish(&state);
        let _ = self.state.set(Mutex::new(state));
    }

    /// To be called when the data of the start are there, and before anybody may write: `origin` is what
    /// their file says of itself.
    pub fn go_on(&self, srv: &'static Server, origin: Option<&Origin>) {
        let config = srv.config();
        let primary = config.primary();
        let primary = primary.map(|to| (String::from_utf8_lossy(&to.host).into_owned(), to.port));
        let position = origin.and_then(|origin| position(origin, primary.is_some()));
        let settings = settings::of(srv, &config);
        drop(config);
        let mut state = self.lock();
        (state.node, state.pending) = node(srv, settings, Start { position, primary });
        // A replica from the start has nobody to tell but those who ask from now on.
        srv.set_attention(attention::REPLICA, !state.node.is_primary());
        perform::all(srv, &mut state, None);
        self.ended(srv, state);
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

    /// The configuration has changed.
    pub fn set(&self, srv: &'static Server, config: &Config) {
        let settings = settings::of(srv, config);
        if self.state.get().is_some() {
            self.step(srv, |node, now, out| node.set(now, settings, out));
        }
    }

    /// # Panics
    /// Before [`Hub::begin`].
    pub fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.state.get().expect("begun before there are clients");
        state.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Tells the machine something, and does what follows. See the module for who may call it.
    pub fn step<T>(
        &self,
        srv: &'static Server,
        event: impl FnOnce(&mut Node, Ms, &mut Vec<Action>) -> T,
    ) -> T {
        let mut state = self.lock();
        let result = tell(srv, &mut state, event);
        perform::all(srv, &mut state, None);
        self.ended(srv, state);
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
        self.ended(srv, state);
        result
    }

    /// The end of an event.
    fn ended(&self, srv: &'static Server, mut state: MutexGuard<'_, State>) {
        self.publish(&state);
        state.tell_link();
        perform::spread(srv, &state);
        let is_left = !state.pending.is_empty() || state.tells_paused;
        let wakes = is_left || (state.is_busy() && std::mem::take(&mut state.thread_rests));
        drop(state);
        if wakes {
            self.wake(srv);
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

    fn publish(&self, state: &State) {
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
    }

    pub fn is_replica(&self) -> bool {
        self.published.is_replica.load(Ordering::Relaxed)
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

/// Where in a history the data of a file are, as far as that can be said.
fn position(origin: &Origin, is_replica: bool) -> Option<Position> {
    let id = ReplicationId::parse(origin.history.as_ref()?.as_bytes())?;
    // Who goes on as a replica must know which database the stream has selected; older servers did not
    // always say.
    let db = if is_replica { origin.stream_db? } else { origin.stream_db.unwrap_or(0) };
    Some(Position { id, offset: origin.offset?, db })
}

fn now(srv: &Server) -> Ms {
    u64::try_from(srv.mono_ms()).unwrap_or(0)
}
