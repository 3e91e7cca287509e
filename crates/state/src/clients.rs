//! The facts about each client that any thread may read: the registry for CLIENT LIST and KILL.
//!
//! A connection's state belongs to its owner thread. This module holds a copy for other threads: facts that
//! never change, a few counters that the owner stores once per iteration, and strings under a mutex that only
//! CLIENT SETNAME and similar commands write. No thread waits for the owner, so CLIENT LIST is one pass over
//! the map.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use weft_acl::User;
use weft_keyspace::Watch;
use weft_memory::holdings::{ClientMemoryKind, Holdings};
use weft_memory::size_class::heap;
use weft_net::listen::Accepted;
use weft_pubsub::subscriber::{Shown, Subscriber};
use weft_tracking::tracker::Receiver;

/// The tracking state of a client, to which the tables of readers refer.
pub type Tracker = weft_tracking::tracker::Tracker<ClientShared>;

/// The tracking state of a session.
pub type Own = weft_tracking::own::Own<ClientShared>;
/// All clients with tracking on.
pub type Tracking = weft_tracking::Tracking<ClientShared>;
/// The readers of the keys of one shard.
pub type Table = weft_tracking::table::Table<ClientShared>;

/// The client's addresses and its socket. Never changes.
#[derive(Debug)]
pub struct Origin {
    pub fd: i32,
    pub peer: String,
    pub local: String,
    pub unix: bool,
    pub tls: bool,
    /// The link to our primary. No I/O thread owns it.
    pub is_primary: bool,
    /// When it was accepted, in monotonic milliseconds.
    pub created_ms: i64,
}

/// Last command and traffic of the client.
#[derive(Debug, Default)]
pub struct Activity {
    /// When its last request arrived, in monotonic milliseconds.
    pub last_ms: AtomicI64,
    pub db: AtomicU32,
    /// Number of the last command in the command table, plus one; 0: none yet.
    pub last_command: AtomicU32,
    /// 2 or 3.
    pub resp: AtomicU32,
    pub blocked: AtomicBool,
    pub commands: AtomicU64,
    pub net_in: AtomicU64,
    pub net_out: AtomicU64,
}

/// Input that has not been executed yet (bytes).
#[derive(Debug, Default)]
pub struct ShownInput {
    /// Unparsed input, the free space after it, and the memory of all input.
    pub len: AtomicU64,
    pub free: AtomicU64,
    pub room: AtomicU64,
    /// Arguments of an incomplete request.
    pub argv: AtomicU64,
}

/// Replies that have not been sent to the client yet.
#[derive(Debug, Default)]
pub struct ShownOutput {
    /// Their memory (bytes).
    pub bytes: AtomicU64,
    /// The number of buffers that hold them.
    pub pieces: AtomicU64,
}

/// Memory that the server holds for the client.
#[derive(Debug, Default)]
pub struct ClientMemory {
    /// All memory of the connection (bytes), kept up to date while `maxmemory-clients` is set.
    pub total: AtomicU64,
    /// The client's memory (bytes) if client eviction chose it and its connection is not closed yet; see
    /// `weft_admin::client_eviction`.
    pub evicted: AtomicU64,
    /// Memory held for the client outside its buffers.
    pub holdings: Arc<Holdings>,
}

/// The client's MULTI and WATCH.
#[derive(Debug)]
pub struct ShownTransaction {
    /// Between MULTI and EXEC.
    pub is_open: AtomicBool,
    /// Commands queued since MULTI; -1 before the client's first MULTI or WATCH.
    pub queued: AtomicI64,
    /// The number of watched keys.
    pub watched: AtomicU64,
    /// Records whether a watched key has changed.
    pub watch: Mutex<Option<Arc<Watch>>>,
}

impl Default for ShownTransaction {
    fn default() -> Self {
        ShownTransaction {
            is_open: AtomicBool::new(false),
            queued: AtomicI64::new(-1),
            watched: AtomicU64::new(0),
            watch: Mutex::new(None),
        }
    }
}

/// Pushes that other threads send to the client: subscriptions, tracking, MONITOR.
#[derive(Debug, Default)]
pub struct PushTarget {
    pub monitor: AtomicBool,
    pub subscriptions: Shown,
    /// The client's subscriptions, if it has any. Changed by the owner thread, and removed when the client is
    /// killed.
    subscriber: Mutex<Option<Box<Subscriber>>>,
    route: Mutex<Route>,
    /// Set when the client turns tracking on for the first time.
    tracker: OnceLock<Arc<Tracker>>,
    /// Another client redirects its invalidation messages to this one.
    pub is_redirected_to: AtomicBool,
    /// The link of another node of the cluster ([`crate::node_links`]).
    pub is_node_link: AtomicBool,
}

/// Options of the client, as CLIENT LIST shows them.
#[derive(Debug, Default)]
pub struct ShownOptions {
    pub no_evict: AtomicBool,
    /// READONLY was sent. Only shown: without cluster mode it has no effect.
    pub readonly: AtomicBool,
    pub no_touch: AtomicBool,
    pub import_source: AtomicBool,
    pub reply_off: AtomicBool,
    /// CLIENT CAPA REDIRECT.
    pub redirect_capable: AtomicBool,
}

/// The client's part in replication.
#[derive(Debug, Default)]
pub struct ReplicaRole {
    /// The replication state machine knows the client.
    pub is_known: AtomicBool,
    /// It is a replica.
    pub is_replica: AtomicBool,
}

/// The facts about one client that any thread may read.
#[derive(Debug)]
pub struct ClientShared {
    pub id: u64,
    /// The I/O thread that owns the connection.
    thread: AtomicUsize,
    pub origin: Origin,
    pub activity: Activity,
    pub input: ShownInput,
    pub output: ShownOutput,
    pub memory: ClientMemory,
    pub transaction: ShownTransaction,
    pub pushes: PushTarget,
    pub options: ShownOptions,
    pub replica: ReplicaRole,
    pub killed: AtomicBool,
    pub closing: AtomicBool,
    names: Mutex<Names>,
}

impl Receiver for ClientShared {
    fn id(&self) -> u64 {
        self.id
    }

    fn takes_pushes(&self) -> bool {
        !self.closing.load(Ordering::Acquire) && !self.killed.load(Ordering::Acquire)
    }

    fn holdings(&self) -> &Arc<Holdings> {
        &self.memory.holdings
    }
}

/// A thread locks it while it sends the client a push, and while the client moves to another thread.
#[derive(Debug, Default)]
pub struct Route {
    /// The mailbox of the client's thread may hold pushes for it.
    pub was_pushed_to: bool,
}

/// The strings that the client set with CLIENT SETNAME and SETINFO, and its user.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pub name: Vec<u8>,
    pub lib_name: Vec<u8>,
    pub lib_version: Vec<u8>,
    /// `None`: the link to our primary, which may do everything.
    pub user: Option<Arc<User>>,
}

impl Names {
    /// The name of the user, as CLIENT LIST shows it.
    pub fn user_name(&self) -> &[u8] {
        self.user.as_ref().map_or(b"(superuser)", |user| &user.name)
    }
}

impl ClientShared {
    /// Whether a watched key has changed, so that EXEC will do nothing.
    pub fn is_watch_broken(&self) -> bool {
        let watch = self.transaction.watch.lock().unwrap_or_else(|p| p.into_inner());
        watch.as_ref().is_some_and(|watch| watch.is_broken())
    }

    /// The I/O thread that owns the connection.
    pub fn thread(&self) -> usize {
        self.thread.load(Ordering::Relaxed)
    }

    /// The client's subscriptions.
    pub fn subscriber(&self) -> MutexGuard<'_, Option<Box<Subscriber>>> {
        self.pushes.subscriber.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Shows other threads how many subscriptions the client has, and charges their memory.
    pub fn show_subscriptions(&self, subscriber: Option<&Subscriber>) {
        self.pushes.subscriptions.renew(subscriber);
        self.memory
            .holdings
            .set(ClientMemoryKind::Subscriptions, subscriber.map_or(0, Subscriber::memory));
    }

    /// Keeps the client on its thread while the guard lives.
    pub fn route(&self) -> MutexGuard<'_, Route> {
        self.pushes.route.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The client's tracking state, if it has ever turned tracking on.
    pub fn tracker(&self) -> Option<Arc<Tracker>> {
        self.pushes.tracker.get().cloned()
    }

    /// The same, created on the first call.
    pub fn make_tracker(self: &Arc<Self>) -> Arc<Tracker> {
        self.pushes.tracker.get_or_init(|| Arc::new(Tracker::new(self))).clone()
    }

    /// Whether the client subscribes to a channel or a pattern.
    pub fn is_subscriber(&self) -> bool {
        self.pushes.subscriptions.any()
    }

    /// Called by the owner when it moves the connection to another thread.
    pub fn set_thread(&self, thread: usize) {
        self.thread.store(thread, Ordering::Relaxed);
    }

    pub fn new(id: u64, thread: usize, fd: i32, accepted: &Accepted, now_ms: i64) -> Self {
        let (peer, local) = (accepted.peer.clone(), accepted.local.clone());
        let (unix, tls) = (accepted.unix, accepted.is_tls);
        let origin = Origin { fd, peer, local, unix, tls, is_primary: false, created_ms: now_ms };
        ClientShared::of(id, thread, origin)
    }

    /// The link to our primary, between these two addresses.
    pub fn of_primary(id: u64, fd: i32, [peer, local]: [String; 2], now_ms: i64) -> Self {
        let (unix, tls, is_primary) = (false, false, true);
        let origin = Origin { fd, peer, local, unix, tls, is_primary, created_ms: now_ms };
        ClientShared::of(id, 0, origin)
    }

    fn of(id: u64, thread: usize, origin: Origin) -> Self {
        let activity = Activity {
            last_ms: AtomicI64::new(origin.created_ms),
            resp: AtomicU32::new(2),
            ..Activity::default()
        };
        ClientShared {
            id,
            thread: AtomicUsize::new(thread),
            origin,
            activity,
            input: ShownInput::default(),
            output: ShownOutput::default(),
            memory: ClientMemory::default(),
            transaction: ShownTransaction::default(),
            pushes: PushTarget::default(),
            options: ShownOptions::default(),
            replica: ReplicaRole::default(),
            killed: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            names: Mutex::default(),
        }
    }

    /// Calls `look` with the strings that the client set, and its user.
    pub fn with_names<T>(&self, look: impl FnOnce(&Names) -> T) -> T {
        look(&self.names.lock().unwrap_or_else(|p| p.into_inner()))
    }

    /// Changes the strings that the client set.
    pub fn change_names(&self, change: impl FnOnce(&mut Names)) {
        let mut names = self.names.lock().unwrap_or_else(|p| p.into_inner());
        change(&mut names);
        let all = [&names.name, &names.lib_name, &names.lib_version];
        self.memory
            .holdings
            .set(ClientMemoryKind::Names, all.iter().map(|name| heap(name.capacity())).sum());
    }

    /// Records that the client sent a request or took a reply at this monotonic time (milliseconds).
    pub fn touch(&self, mono_ms: i64) {
        self.activity.last_ms.store(mono_ms, Ordering::Relaxed);
    }

    /// Whole seconds since the last request.
    pub fn idle_seconds(&self, now_ms: i64) -> i64 {
        (now_ms - self.activity.last_ms.load(Ordering::Relaxed)).max(0) / 1000
    }
}

/// All clients by id, oldest first.
#[derive(Debug, Default)]
pub struct Clients {
    by_id: Mutex<BTreeMap<u64, Arc<ClientShared>>>,
    next_id: AtomicU64,
}

impl Clients {
    /// A number that no client has had before.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn map(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientShared>>> {
        self.by_id.lock().unwrap_or_else(|p| p.into_inner())
    }

    pub fn insert(&self, client: Arc<ClientShared>) {
        self.map().insert(client.id, client);
    }

    pub fn remove(&self, id: u64) {
        self.map().remove(&id);
    }

    pub fn get(&self, id: u64) -> Option<Arc<ClientShared>> {
        self.map().get(&id).cloned()
    }

    pub fn len(&self) -> usize {
        self.map().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `seen` for each client, oldest first, under the lock. `seen` must be quick, since no client can
    /// connect meanwhile. O(clients).
    pub fn each(&self, seen: impl FnMut(&ClientShared)) {
        self.map().values().map(|client| &**client).for_each(seen);
    }

    /// Every client, oldest first. O(clients).
    pub fn all(&self) -> Vec<Arc<ClientShared>> {
        self.map().values().cloned().collect()
    }
}
