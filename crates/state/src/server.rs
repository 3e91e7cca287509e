//! The state that all threads of the server share.

use crate::access::Access;
use crate::answers::ReplyBounds;
use crate::attention::{self, Attention};
use crate::bio::Bio;
use crate::cluster::{self, ClusterState};
use crate::command_table::CommandTable;
use crate::configuration::Configuration;
use crate::conn::ResumeMessage;
use crate::defrag_state::Defrag;
use crate::inquiry::Inquiry;
use crate::listening::Listening;
use crate::mailbox::{Message, ThreadMessage};
use crate::pause::{PauseMode, Pauses};
use crate::process_state::{Ending, Hardware, ProcessState};
use crate::replication_status::ReplicationStatus;
use crate::server_parts::{Background, ClientState, Nodes};
use crate::settings::Settings;
use crate::slow_lane::{self, SlowLane};
use crate::statistics::Statistics;
use crate::stats::ThreadStats;
use crate::threads::{MAX_IO_THREADS, Pool};
use crate::time::{Time, unix_us};
use crate::tls::Tls;
use crate::upkeep::Watchdog;
use crate::user_lines::user_lines;
use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, MutexGuard, RwLock};
use weft_base::machine::Machine;
use weft_config::{Config, Id};
use weft_keyspace::{Keyspace, SlowLaneThread, Waiter};
use weft_memory::Memory;
use weft_net::listen::Listener;
use weft_process::log_warning;
use weft_replication::Position;
use weft_scheduler::placement::Placement;

/// The functions that this crate and the crates above call on the append-only file.
pub trait Journal: Any + Send + Sync {
    /// Why writes must be refused now: the error of the last write to disk.
    fn refusal(&self) -> Option<String>;

    /// Delays replies while too much of the log waits to be written. O(threads).
    fn watch_pressure(&self, srv: &Server);
}

/// The functions that this crate and the crates above call on replication.
pub trait Replicator: Any + Send + Sync {
    /// Delays replies while too much of the log waits for the replication stream, and reads a part of it. The
    /// caller holds no shard lock.
    fn watch_pressure(&'static self, srv: &'static Server);

    /// Sets the directive `replicaof` to the present primary.
    fn set_replicaof(&self, config: &mut Config);

    /// Whether this server is a member of a shard, by a cluster with a store.
    fn is_member(&self) -> bool;

    /// The position stored in a file of the data at a cut. The caller is at the cut.
    fn position_at_cut(&self, srv: &'static Server) -> Option<Position>;

    /// Forgets the positions of units, since the data has been replaced.
    fn forget_positions(&self, srv: &'static Server);

    /// Records that no unit is durable on this server's disk any more.
    fn forget_durable(&self);

    /// The last unit whose position is known, if it is above `unit`.
    fn last_known_position_above(&self, unit: u64) -> Option<u64>;

    /// The position after `unit`, as an append-only file stores it.
    fn position_after(&self, unit: u64) -> Option<weft_persist::aof::Position>;

    /// Whether the position after `unit`, which is the last unit, is known.
    fn has_position_after(&self, unit: u64) -> bool;

    /// Called when more units have been synced to this server's disk.
    fn is_durable(&self, srv: &'static Server);

    /// How many replicas have acknowledged that all units up to `unit` are on their disk.
    fn replicas_on_disk(&self, srv: &Server, unit: u64) -> i64;

    /// Answers clients that wait for this server's disk with the error `text`.
    fn refuse_local(&self, srv: &'static Server, text: &str);
}

/// Runs an I/O thread on the calling thread until the server stops. Sends `Ok` once the thread has started, or
/// the error.
pub type RunThread = fn(usize, &'static Server, Vec<Listener>, &SyncSender<io::Result<()>>);

/// The parts of a server that are built by crates above this one, as [`Server::new`] takes them.
pub struct Parts {
    /// The functions of commands on the server, by number.
    pub functions: Box<dyn Any + Send + Sync>,
    pub journal: Box<dyn Journal>,
    pub replication: Arc<ReplicationStatus>,
    pub replicator: Box<dyn Replicator>,
    pub run_thread: RunThread,
}

/// The parts of a server that are built by crates above this one. This crate knows only their traits.
pub struct Links {
    /// The functions that [`Run::Server`](crate::command_table::Run::Server) numbers; only the executor knows
    /// their type.
    pub functions: Box<dyn Any + Send + Sync>,
    /// The append-only file.
    pub journal: Box<dyn Journal>,
    pub replicator: Box<dyn Replicator>,
    /// The body of each I/O thread.
    pub run_thread: RunThread,
    /// Replies that wait for the disk or for replicas.
    pub answers: ReplyBounds,
}

/// The server: one per process.
pub struct Server {
    pub ks: Keyspace,
    pub table: CommandTable,
    /// Users and their rights.
    pub access: Access,
    /// The I/O threads.
    pub threads: Arc<Pool>,
    pub slow: Arc<SlowLane>,
    pub attention: Attention,
    pub memory: Memory,
    pub clients: ClientState,
    pub persistence: crate::saves::Persistence,
    pub nodes: Nodes,
    pub configuration: Configuration,
    pub statistics: Statistics,
    pub scripts: weft_script::Scripts,
    pub process: ProcessState,
    pub links: Links,
}

impl Server {
    /// Whether this server is a node of a cluster.
    #[inline]
    pub fn is_in_cluster(&self) -> bool {
        self.attention.load(Ordering::Relaxed) & attention::CLUSTER != 0
    }

    /// A server without I/O threads. It is leaked: it lives as long as the process, so threads refer to it
    /// without counting references.
    pub fn new(
        config: Config,
        called: String,
        table: CommandTable,
        parts: Parts,
    ) -> &'static Server {
        let commands = table.all().len();
        let threads = Arc::new(Pool::new(commands));
        let wake_by = threads.clone();
        let slow = Arc::new(SlowLane::default());
        let slow_threads = slow.clone();
        let wake =
            Box::new(move |w: Waiter| match (w.thread as usize).checked_sub(MAX_IO_THREADS) {
                None => wake_by.unpark(w),
                Some(slow) => slow_threads.wake(slow),
            });
        let databases = cluster::databases(&config);
        let cluster = ClusterState::new(config.bool(Id::CLUSTER_ENABLED));
        let keyspace = if cluster.is_enabled() { Keyspace::by_slot } else { Keyspace::new };
        let ks = keyspace(databases, MAX_IO_THREADS, wake);
        let mut random = [0u8; 28];
        fill_random(&mut random);
        let access = Access::new(&table, databases);
        access.set_default_password(config.bytes(Id::REQUIREPASS));
        let process = ProcessState {
            started_ms: unix_us() / 1000,
            started: std::time::Instant::now(),
            run_id: random[..20].iter().map(|b| format!("{b:02x}")).collect(),
            config_file: config.file().map(|f| f.display().to_string()).unwrap_or_default(),
            called,
            executable: std::env::current_exe()
                .map(|p| p.display().to_string())
                .unwrap_or_default(),
            seed: u64::from_ne_bytes(random[20..].try_into().expect("eight bytes")),
            listening: Listening::default(),
            hardware: Hardware {
                machine: Machine::read(Path::new("/")),
                allowed_cpus: weft_base::topology::allowed_cpus(),
                placement: RwLock::default(),
            },
            ending: Ending::default(),
            tls: Tls::default(),
            time: Time::default(),
            background: Background {
                bio: Bio::default(),
                defrag: Defrag::default(),
                watchdog: Watchdog::default(),
                active_expire: AtomicBool::new(true),
                http_seen_ms: AtomicI64::new(0),
            },
        };
        // One for each slow-lane thread, then one for the loading thread, one for the thread that applies the
        // primary's commands, and one for the thread that serves metrics.
        let slow_stats = (0..slow_lane::THREADS + 3).map(|_| ThreadStats::new(commands)).collect();
        let srv: &'static Server = Box::leak(Box::new(Server {
            ks,
            table,
            access,
            threads,
            slow,
            attention: Attention::default(),
            memory: Memory::default(),
            clients: ClientState::default(),
            persistence: crate::saves::Persistence::default(),
            nodes: Nodes { replication: parts.replication, cluster },
            configuration: Configuration::new(config),
            statistics: Statistics::new(slow_stats),
            scripts: weft_script::Scripts::default(),
            process,
            links: Links {
                functions: parts.functions,
                journal: parts.journal,
                replicator: parts.replicator,
                run_thread: parts.run_thread,
                answers: ReplyBounds::default(),
            },
        }));
        srv.statistics.totals.last_save_s.store(srv.process.started_ms / 1000, Ordering::Relaxed);
        srv.renew_attention(&srv.settings());
        srv.set_attention(attention::CLUSTER, srv.nodes.cluster.is_enabled());
        srv
    }

    /// Unix time in milliseconds. It never goes back, whichever thread calls.
    pub fn now_ms(&self) -> i64 {
        self.unix_ms_at(self.process.time.clock.raw())
    }

    /// A context for the calling thread, which executes no commands. With it the thread locks shards as a
    /// slow-lane thread does.
    pub fn hand(&'static self) -> SlowLaneThread<'static> {
        let clock =
            self.process.time.hand_clock.get_or_init(|| Box::leak(Box::new(|| self.now_ms())));
        SlowLaneThread::background(&self.ks, clock)
    }

    /// Milliseconds since the start, independent of changes to the wall clock: for timeouts and idle times.
    pub fn mono_ms(&self) -> i64 {
        self.mono_ms_at(self.process.time.clock.raw())
    }

    /// [`Server::mono_ms`] at a tick of the raw clock.
    #[inline]
    pub fn mono_ms_at(&self, tick: u64) -> i64 {
        self.process.time.mono_ms_at(tick)
    }

    /// [`Server::now_ms`] at a tick of the raw clock.
    #[inline]
    pub fn unix_ms_at(&self, tick: u64) -> i64 {
        self.process.time.unix_ms_at(tick)
    }

    /// A seed for thread `id`'s random numbers.
    pub fn seed(&self, id: usize) -> u64 {
        self.process.seed ^ (id as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    pub fn config(&self) -> MutexGuard<'_, Config> {
        self.configuration.config()
    }

    /// Calls `write` with a copy of the present configuration, to write it into its file. Rewrites run one at a
    /// time. Readers of the configuration don't wait for the disk; the caller does.
    pub fn rewrite_config<T>(&self, write: impl FnOnce(&Config) -> T) -> T {
        let _alone = self.configuration.rewriting.lock().unwrap_or_else(|p| p.into_inner());
        let mut config = {
            let mut present = self.config();
            self.links.replicator.set_replicaof(&mut present);
            present.clone()
        };
        config.set_user_lines(user_lines(&self.access, self.settings().auth.channels, &config));
        write(&config)
    }

    /// The settings now in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.configuration.settings()
    }

    /// The placement of threads, as configured last.
    pub fn placement(&self) -> Arc<Placement> {
        self.process.hardware.placement.read().unwrap_or_else(|p| p.into_inner()).clone()
    }

    pub fn set_placement(&self, placement: Placement) {
        *self.process.hardware.placement.write().unwrap_or_else(|p| p.into_inner()) =
            Arc::new(placement);
    }

    /// Publishes the settings that follow from `config`; threads see them at their next batch.
    pub fn publish_settings(&self, config: &Config) {
        self.configuration.publish(config, |settings| self.renew_attention(settings));
        self.renew_unsaved();
    }

    fn renew_attention(&self, settings: &Settings) {
        self.set_attention(attention::MAXMEMORY, settings.eviction.maxmemory > 0);
        self.set_attention(attention::IMPORT, settings.changes.import_mode);
    }

    pub fn set_attention(&self, bit: u32, on: bool) {
        self.attention.set(bit, on);
    }

    /// The counters of all threads that execute commands.
    pub fn all_stats(&self) -> impl Iterator<Item = &ThreadStats> + Clone {
        self.threads.iter().map(|thread| &thread.stats).chain(&self.statistics.slow_threads)
    }

    /// Asks every thread. See [`crate::inquiry`].
    pub fn inquire(&self) -> Arc<Inquiry> {
        let inquiry = Arc::new(Inquiry::default());
        // Counted as a thread until all are asked.
        inquiry.add();
        self.broadcast(|| {
            inquiry.add();
            Message::Inquiry(inquiry.clone())
        });
        inquiry.answer(false);
        inquiry
    }

    /// Sends `message` to every thread.
    pub fn broadcast(&self, message: impl Fn() -> Message) {
        self.threads.iter().for_each(|thread| thread.mailbox.send(message()));
    }

    /// From here on, replies that depend on keys need the authority of a lease, and there is none. The start calls it
    /// before there are clients, if the cluster has a store.
    pub fn require_authority(&self) {
        self.nodes.cluster.authority.set_until(0, 0);
        self.set_attention(attention::LEASE, true);
    }

    /// Lets replies leave before this time ([`Server::mono_ms`]) only; 0: none. It may go back.
    pub fn acknowledge_until(&self, until_ms: u64) {
        self.nodes.cluster.authority.set_until(self.mono_ms() as u64, until_ms);
    }

    /// Whether replies may leave of a command that recorded `term` before it executed.
    pub fn may_acknowledge(&self, term: u64) -> bool {
        self.nodes.cluster.authority.permits(term, || self.mono_ms())
    }

    /// Asks all threads to stop; the process then exits with `code`. During loading the process exits at once:
    /// nothing has changed, and the loading thread would not stop before the end of the file.
    pub fn shut_down(&self, code: u32) {
        if self.persistence.loading.is_on() {
            log_warning!("Shutdown during loading, exiting now.");
            weft_process::pidfile::remove_held();
            std::process::exit(code as i32);
        }
        self.process.ending.exit_code.store(code, Ordering::SeqCst);
        self.process.ending.stop.store(true, Ordering::SeqCst);
        self.broadcast(|| Message::Thread(ThreadMessage::Stop));
    }

    /// Whether sweeps for expired keys run. Without them a key expires only on access.
    pub fn active_expire(&self) -> bool {
        self.process.background.active_expire.load(Ordering::Relaxed)
            && !self.persistence.loading.is_on()
    }

    pub fn is_stopping(&self) -> bool {
        self.process.ending.stop.load(Ordering::SeqCst)
    }

    /// Whether the process stops, or a shutdown is being prepared.
    pub fn is_leaving(&self) -> bool {
        self.is_stopping() || self.process.ending.attempts.has_begun()
    }

    /// Warns that a client speaks HTTP, as a browser does when a malicious page sends it here. Logs at most
    /// once a minute.
    #[cold]
    pub fn warn_about_http(&self, peer: &str) {
        const QUIET_MS: i64 = 60_000;
        let (now, last) =
            (self.mono_ms(), self.process.background.http_seen_ms.load(Ordering::Relaxed));
        if last == 0 || now - last > QUIET_MS {
            self.process.background.http_seen_ms.store(now.max(1), Ordering::Relaxed);
            log_warning!(
                "Possible SECURITY ATTACK detected. A client sends POST or Host: as commands, as a \
                 browser does when a malicious page uses it to reach this server. Connection from \
                 {peer} aborted."
            );
        }
    }

    /// Records the time since `began` as a latency of `event`; does nothing if `began` is `None`.
    pub fn sample_latency(&self, event: &str, began: Option<std::time::Instant>) {
        self.statistics.latency.sample_since(event, began, self.now_ms() / 1000);
    }

    /// Counts an error reply; `reply` starts with its code.
    pub fn count_error(&self, reply: &[u8]) {
        self.statistics.count_error(reply);
    }
}

impl Server {
    /// Starts a pause or extends the present one: the stricter mode and the later end win.
    pub fn pause(&self, mode: PauseMode, until_ms: i64) {
        let mut state = self.clients.pause.state();
        let now = state.client.filter(|(_, until)| *until > self.mono_ms());
        state.client = Some(match now {
            Some((old, until)) => (old.max(mode), until.max(until_ms)),
            None => (mode, until_ms),
        });
        self.set_attention(attention::PAUSED, true);
    }

    /// Pauses writes for a failover, or resumes them.
    pub fn pause_for_failover(&self, on: bool) {
        self.renew_pauses(|pauses| std::mem::replace(&mut pauses.failover, on) != on);
    }

    /// Suspends the requests on slots that [`crate::cluster::Topology::suspended`] names, or resumes them. `all`: writes without
    /// a key, too.
    pub fn suspend_slots(&self, on: bool, all: bool) {
        self.renew_pauses(|pauses| {
            let before = (pauses.slots, pauses.failover);
            (pauses.slots, pauses.failover) = (on, all);
            // Other slots may be suspended than before.
            before.0 || before != (on, all)
        });
    }

    /// Pauses writes while the server prepares to shut down, or resumes them.
    pub fn pause_for_shutdown(&self, on: bool) {
        self.renew_pauses(|pauses| std::mem::replace(&mut pauses.end, on) != on);
    }

    /// Whether a pause is on. Expiry and eviction must then not remove keys.
    #[inline]
    pub fn is_paused(&self) -> bool {
        self.attention.load(Ordering::SeqCst) & attention::PAUSED != 0
    }

    /// Ends CLIENT PAUSE; every thread executes the requests that it held back.
    pub fn unpause(&self) {
        self.renew_pauses(|pauses| pauses.client.take().is_some());
    }

    /// Called regularly: ends a pause whose time is over.
    pub fn end_expired_pause(&self) {
        let now = self.mono_ms();
        self.renew_pauses(|pauses| {
            let is_over = pauses.client.is_some_and(|(_, until)| until <= now);
            if is_over {
                pauses.client = None;
            }
            is_over
        });
    }

    /// Changes the pauses and the attention bit under one lock, since another pause may begin at any time.
    /// `change` returns whether it changed anything.
    fn renew_pauses(&self, change: impl FnOnce(&mut Pauses) -> bool) {
        let mut state = self.clients.pause.state();
        if !change(&mut state) {
            return;
        }
        let is_paused = state.client.is_some() || state.end || state.failover || state.slots;
        self.set_attention(attention::PAUSED, is_paused);
        drop(state);
        // The pause that ended may have been the stricter of two: each thread checks its held-back requests
        // again.
        self.broadcast(|| Message::Resume(ResumeMessage::Unpause));
    }
}

impl Server {
    /// Records how much of the log readers have not read yet. O(threads).
    pub fn note_unread(&self) {
        self.links.answers.note_unread(self.ks.log().pending_memory());
    }

    /// Delays replies to writers while a reader of the log falls behind. Each thread calls it regularly, and
    /// after it has logged [`STEP`](crate::answers::STEP) bytes, while it holds no shard lock. O(threads). If
    /// the reader for replicas has not run for too long, the calling thread reads a part of the log for it.
    pub fn watch_log(&'static self) {
        self.links.journal.watch_pressure(self);
        self.links.replicator.watch_pressure(self);
        self.note_unread();
    }
}

/// Fills `bytes` with unpredictable data from /dev/urandom, or from the clock and the process id if that fails.
pub fn fill_random(bytes: &mut [u8]) {
    use std::io::Read;
    let read = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(bytes));
    if read.is_err() {
        let mut rng =
            weft_keyspace::context::Rng::new(unix_us() as u64 ^ u64::from(std::process::id()));
        bytes.iter_mut().for_each(|b| *b = rng.next() as u8);
    }
}
