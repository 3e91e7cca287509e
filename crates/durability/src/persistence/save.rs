//! Saves the keyspace into a file.
//!
//! Walkers of a snapshot hold a shard for a small step, and encode its keys while they hold no
//! lock. A walker that waits for the disk blocks at the writer, and blocks no other thread.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_base::cpulist::CpuSet;
use weft_base::topology;
use weft_config::{Config, Id};
use weft_executor::script::functions::Libraries;
use weft_executor::snapshot_waits as waits;
use weft_executor::snapshot_waits::Taken;
use weft_keyspace::snapshot::{BeginError, Image, Snapshot, Step};
use weft_keyspace::{Access, Busy, Db, ExecContext, Guard, Import, Policy, RecordRef, Stop};
use weft_memory::ThreadMemory;
use weft_persist::rdb::file::{Lane, Place, Saver, Told, Used};
use weft_persist::rdb::{Form, VERSION, code_of};
use weft_process::errors::words;
use weft_process::{log_notice, log_warning};
use weft_replication::Position;
use weft_scheduler::placement::bind_to;
use weft_scheduler::yielding;
use weft_scheduler::yielding::YieldingWriter;
use weft_state::saves::Running;
use weft_state::server::Server;

/// The maximum number of walkers.
const MOST_WALKERS: usize = 8;

/// The minimum that a snapshot may keep, in addition to the data, before writes wait. Used when no
/// limit is set.
const LEAST_KEPT: u64 = 64 << 20;

/// The reason why there is no new file.
#[derive(Debug)]
pub enum Failed {
    /// The save was cancelled.
    Cancelled,
    Disk(io::Error),
    /// Another snapshot is running, and there is one at a time.
    Taken,
    /// The snapshot could not begin.
    Snapshot(String),
    /// The snapshot would have to wait for a busy script.
    BusyScript,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Cancelled => f.write_str("it was cancelled"),
            Failed::Disk(e) => f.write_str(&words(e)),
            Failed::Taken => f.write_str(&BeginError::Taken.to_string()),
            Failed::Snapshot(why) => f.write_str(why),
            Failed::BusyScript => f.write_str(&BeginError::GaveUp.to_string()),
        }
    }
}

impl From<io::Error> for Failed {
    fn from(e: io::Error) -> Self {
        Failed::Disk(e)
    }
}

/// The configuration of a save, read when it begins.
#[derive(Clone, Debug)]
pub struct Plan {
    folder: PathBuf,
    name: String,
    pub form: Form,
    is_summed: bool,
    is_incremental: bool,
    /// The CPUs of its threads.
    cpus: CpuSet,
    access: Access,
    walkers: usize,
    pub limit: usize,
    delay: Delay,
    /// The eviction policy needs the last use or the frequency of keys.
    tells_use: bool,
    /// An error if a key can't be written in the version that the reader knows.
    is_strict: bool,
}

/// `rdb-key-save-delay` and `key-load-delay`, for tests.
#[derive(Clone, Copy, Debug)]
pub struct Delay(i64);

impl Delay {
    pub fn of(config: &Config, id: Id) -> Delay {
        Delay(config.int(id))
    }

    /// Waits after key number `n`, if configured.
    pub fn wait(self, n: u64) {
        match self.0 {
            0 => {}
            us @ 1.. => std::thread::sleep(Duration::from_micros(us as u64)),
            keys if n.is_multiple_of(keys.unsigned_abs()) => {
                std::thread::sleep(Duration::from_micros(1));
            }
            _ => {}
        }
    }
}

impl Plan {
    /// `quiet`: the server serves clients meanwhile, which should not notice the save.
    ///
    /// # Errors
    /// The working directory can't be determined.
    pub fn new(srv: &Server, quiet: bool) -> io::Result<Plan> {
        Plan::on(srv, quiet, srv.placement().save.clone())
    }

    /// Like [`Plan::new`], with threads on these CPUs.
    ///
    /// # Errors
    /// The working directory can't be determined.
    pub fn on(srv: &Server, quiet: bool, place: CpuSet) -> io::Result<Plan> {
        let config = srv.config();
        let cpus = topology::usable_cpus();
        let own = place.len();
        let walkers = match own {
            0 if quiet => cpus / 2,
            0 => cpus,
            own => own,
        };
        let limit = match config.memory(Id::SNAPSHOT_MEMORY_LIMIT) {
            0 => (srv.memory.used() as u64 / 4).max(LEAST_KEPT),
            limit => limit,
        };
        Ok(Plan {
            // CONFIG SET dir may run before the save ends.
            folder: std::env::current_dir()?,
            name: config.str(Id::DBFILENAME).into_owned(),
            form: Form { version: VERSION, compress: config.bool(Id::RDBCOMPRESSION) },
            is_summed: config.bool(Id::RDBCHECKSUM),
            is_incremental: config.bool(Id::RDB_SAVE_INCREMENTAL_FSYNC),
            cpus: place,
            access: srv.settings().access(srv.now_ms()),
            walkers: walkers.clamp(1, MOST_WALKERS),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            delay: Delay::of(&config, Id::RDB_KEY_SAVE_DELAY),
            is_strict: false,
            tells_use: {
                let policy = config.word(Id::MAXMEMORY_POLICY);
                policy.ends_with("-lru") || policy.ends_with("-lfu")
            },
        })
    }

    /// A plan for replicas, which read this version of the format and no newer one.
    #[must_use]
    pub fn for_replicas(mut self, version: u32) -> Plan {
        self.form.version = u16::try_from(version).unwrap_or(VERSION);
        self.is_strict = true;
        self
    }

    /// Whether the file ends with a checksum.
    pub fn is_summed(&self) -> bool {
        self.is_summed
    }

    /// A key's last use or frequency, if the eviction policy needs it.
    fn used(&self, clock: u32) -> Option<Used> {
        self.tells_use.then(|| match self.access.policy {
            Policy::Lru => Used::Idle(u64::from(self.access.idle_seconds(clock))),
            Policy::Lfu => Used::Frequency(self.access.frequency(clock) as u8),
        })
    }
}

/// The origin of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    ByClient,
    /// A save point.
    ByNobody,
}

/// A save whose snapshot was taken.
pub struct Begun {
    running: Running,
    plan: Plan,
    snapshot: Taken,
    /// Changes up to the cut.
    changes: u64,
    /// The position of the data in the replication history.
    position: Option<Position>,
    /// The functions of the cut.
    functions: Arc<Libraries>,
}

/// The polling interval for the end of another snapshot.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The error for saves during a full sync.
pub const HALF: &str = "the data are being loaded";

/// Takes a snapshot: the file will have the keyspace of one moment during this call. Waits for long
/// commands that have begun to write, without blocking other threads. A save that a client waits
/// for also waits for the end of a rewrite.
///
/// # Errors
/// The save was cancelled before it began, or it is a background save and another snapshot is
/// running.
pub fn begin(
    srv: &'static Server,
    running: &Running,
    plan: Plan,
    asked: Asked,
) -> Result<Begun, Failed> {
    let mut hand = srv.hand();
    let mut context = ExecContext::new(srv.now_ms(), 0);
    context.cancel = Some(running.cancel.clone());
    // Write expired keys as well: neither replicas nor the log have been notified of their expiry.
    context.set_import(Import::Source);
    let is_busy = |held: Busy| srv.scripts.busy.killer(|shard| shard == held.shard).is_some();
    // SHUTDOWN SAVE waits.
    let may_give_up = asked == Asked::ByClient && !srv.persistence.is_ending();
    let gives_up = |held| may_give_up && is_busy(held);
    loop {
        let at_cut = |_: &Stop<'_>| {
            let is_better = asked == Asked::ByNobody && srv.is_file_better();
            let is_whole = !srv.persistence.loading.is_on() && !is_better;
            let functions = srv.scripts.functions.current();
            (is_whole, srv.changes(), srv.links.replicator.position_at_cut(srv), functions)
        };
        let (hand, context) = (&mut hand, &mut context);
        return match Snapshot::begin_or_give_up(hand, context, plan.limit, &gives_up, at_cut) {
            Ok((_, (false, ..))) => Err(Failed::Snapshot(HALF.into())),
            Ok((snapshot, (true, changes, position, functions))) => {
                srv.persistence.saves().count += 1;
                let snapshot = Taken::new(srv, snapshot);
                let running = running.clone();
                Ok(Begun { running, plan, snapshot, changes, position, functions })
            }
            Err(BeginError::Taken) if !running.in_background => {
                std::thread::sleep(LOOK_AGAIN);
                continue;
            }
            Err(BeginError::Cancelled) => Err(Failed::Cancelled),
            Err(BeginError::GaveUp) => Err(Failed::BusyScript),
            Err(BeginError::Taken) => Err(Failed::Taken),
        };
    }
}

impl Begun {
    /// Writes the file and moves it into place. O(all keys).
    ///
    /// # Errors
    /// See [`Failed`]. The previous file still exists.
    pub fn finish(self, srv: &'static Server) -> Result<(), Failed> {
        let Begun { running, plan, snapshot, changes, position, functions } = self;
        let place = open(srv, &plan)?;
        let saver = Saver::begin(YieldingWriter(place), plan.form, plan.is_summed)?
            .pausing(yielding::yield_if_due);
        introduce(srv, &saver, Introduced::file(position, &functions))?;
        let done = write(srv, &plan, &snapshot, &saver, &running);
        let kept = snapshot.progress().peak_bytes;
        drop(snapshot);
        srv.persistence.saves().last_kept = kept;
        if let Err(failed) = done {
            let began = srv.statistics.latency.begin();
            drop(saver);
            srv.sample_latency("rdb-unlink-temp-file", began);
            return Err(failed);
        }
        put(saver.finish()?.0.0)?;
        srv.note_saved(changes);
        Ok(())
    }
}

/// Writes all of `snapshot` with several threads. O(all keys).
///
/// # Errors
/// See [`Failed`].
pub fn write<W: io::Write + Send>(
    srv: &'static Server,
    plan: &Plan,
    snapshot: &Snapshot<'static>,
    saver: &Saver<W>,
    running: &Running,
) -> Result<(), Failed> {
    for (db, counts) in snapshot.counts().iter().enumerate() {
        saver.sizes(db, counts.keys as u64, counts.expiring as u64);
    }
    let failed = Mutex::new(None);
    let is_yielding = yielding::is_yielding();
    std::thread::scope(|scope| {
        let walk = || {
            bind_to(&plan.cpus);
            if let Err(e) = walk(srv, plan, snapshot, saver, running) {
                failed.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(e);
                // The other walkers can stop.
                running.failed.store(true, Ordering::Relaxed);
            }
        };
        for n in 1..plan.walkers {
            let thread = std::thread::Builder::new().name(format!("weft-save-{n}"));
            let counted = move || {
                weft_memory::count_whole_thread(&srv.memory);
                if is_yielding {
                    yielding::start_yielding();
                }
                walk();
            };
            if thread.spawn_scoped(scope, counted).is_err() {
                // Fewer threads only take longer.
                break;
            }
        }
        walk();
    });
    failed.into_inner().unwrap_or_else(|p| p.into_inner()).map_or(Ok(()), Err)
}

fn open<'s>(srv: &'s Server, plan: &Plan) -> Result<Place<'s>, Failed> {
    let persistence = &srv.persistence;
    let number = persistence.next_file();
    let place =
        Place::begin(&persistence.storage, &plan.folder, &plan.name, number, plan.is_incremental);
    place.map_err(|e| {
        log_warning!(
            "Failed opening the temp RDB file in {} for saving: {}",
            plan.folder.display(),
            words(&e)
        );
        Failed::Disk(e)
    })
}

fn put(place: Place<'_>) -> Result<(), Failed> {
    place.finish()?;
    log_notice!("DB saved on disk");
    Ok(())
}

/// The fields before the keys.
#[derive(Clone, Copy, Debug)]
pub struct Introduced<'a> {
    pub is_aof_base: bool,
    /// The position from which replicas may continue, if there is one.
    pub position: Option<Position>,
    pub functions: Option<&'a Libraries>,
}

impl<'a> Introduced<'a> {
    /// A file of the data at one moment.
    pub fn file(position: Option<Position>, functions: &'a Libraries) -> Self {
        Introduced { is_aof_base: false, position, functions: Some(functions) }
    }

    /// The base of an append-only file, which incremental files follow.
    pub fn aof_base(functions: &'a Libraries) -> Self {
        Introduced { is_aof_base: true, position: None, functions: Some(functions) }
    }
}

/// Writes facts about this server, and its functions.
pub fn introduce<W: io::Write>(
    srv: &Server,
    saver: &Saver<W>,
    introduced: Introduced<'_>,
) -> io::Result<()> {
    let Introduced { is_aof_base, position, functions } = introduced;
    saver.tell("weft-ver", Told::Text(weft_state::version::VERSION))?;
    saver.tell("redis-bits", Told::Number(i64::from(usize::BITS)))?;
    saver.tell("ctime", Told::Number(srv.now_ms() / 1000))?;
    saver.tell("used-mem", Told::Number(srv.memory.used() as i64))?;
    if let Some(position) = position {
        saver.tell("repl-stream-db", Told::Number(i64::from(position.db)))?;
        saver.tell("repl-id", Told::Text(position.id.as_str()))?;
        saver.tell("repl-offset", Told::Number(position.offset as i64))?;
    }
    saver.tell("aof-base", Told::Number(i64::from(is_aof_base)))?;
    let Some(functions) = functions else { return Ok(()) };
    functions.all().try_for_each(|library| saver.function(&library.text))
}

/// Runs one walker.
fn walk<W: io::Write>(
    srv: &'static Server,
    plan: &Plan,
    snapshot: &Snapshot<'static>,
    saver: &Saver<W>,
    running: &Running,
) -> Result<(), Failed> {
    let _stack = weft_process::crash::second_stack();
    take(srv, snapshot, running, IntoLane { lane: saver.lane(), plan, keys: 0 })
}

/// The destination of a snapshot's keys.
pub trait Taker {
    /// The result.
    type Done;

    /// Takes one key of the cut. The caller holds no lock.
    ///
    /// # Errors
    /// I/O errors; after one, no more keys come.
    fn image(&mut self, image: Image) -> io::Result<()>;

    /// Called by each walker after its last key.
    ///
    /// # Errors
    /// I/O errors.
    fn finish(self) -> io::Result<Self::Done>;
}

/// The cost of an image in addition to its bytes, in encoded bytes.
const IMAGE: usize = 128;

/// Passes the keys of a snapshot to `taker`, except keys that other walkers take. O(all keys).
///
/// # Errors
/// See [`Failed`].
pub fn take<T: Taker>(
    srv: &'static Server,
    snapshot: &Snapshot<'static>,
    running: &Running,
    taker: T,
) -> Result<T::Done, Failed> {
    let mut memory = ThreadMemory::new();
    let done = take_all(srv, snapshot, running, taker, &mut memory);
    // The taker's memory has been freed.
    memory.publish(&srv.memory);
    done
}

fn take_all<T: Taker>(
    srv: &'static Server,
    snapshot: &Snapshot<'static>,
    running: &Running,
    mut taker: T,
    memory: &mut ThreadMemory,
) -> Result<T::Done, Failed> {
    let mut hand = srv.hand();
    let mut context = ExecContext::new(srv.now_ms(), 0);
    loop {
        if running.is_over() {
            return Err(Failed::Cancelled);
        }
        yielding::yield_if_due();
        waits::pause(srv, || !running.is_over());
        let mut done = Ok(());
        let step = snapshot.step(&mut hand, &mut context, &mut |image| {
            waits::look(srv);
            waits::pause(srv, || !running.is_over());
            let bytes = image.alloc_size();
            if done.is_ok() {
                done = taker.image(image);
            }
            yielding::report_work(IMAGE + bytes);
        });
        done?;
        memory.publish(&srv.memory);
        waits::look(srv);
        match step {
            Step::More => {}
            Step::Done => return Ok(taker.finish()?),
        }
    }
}

/// Writes into a file that several threads share.
struct IntoLane<'s, W> {
    lane: Lane<'s, W>,
    plan: &'s Plan,
    /// Keys so far, for the delay in tests.
    keys: u64,
}

impl<W: io::Write> Taker for IntoLane<'_, W> {
    type Done = ();

    fn image(&mut self, image: Image) -> io::Result<()> {
        let (db, used) = (image.db(), self.plan.used(image.clock()));
        let version = self.plan.form.version;
        if self.plan.is_strict && code_of(&image, version).version() > version {
            let key = String::from_utf8_lossy(image.key());
            return Err(io::Error::other(format!(
                "Key '{key}' of database {db} can't be written in version {version} of the RDB format"
            )));
        }
        self.lane.add_shared(db, image.into_shared(), used)?;
        self.keys += 1;
        self.plan.delay.wait(self.keys);
        Ok(())
    }

    fn finish(self) -> io::Result<()> {
        self.lane.finish()
    }
}

/// Saves while the world is stopped, for the whole duration. O(all keys).
///
/// # Errors
/// See [`Failed`].
pub fn save_stopped(
    srv: &'static Server,
    guard: &Guard<'_>,
    context: &mut ExecContext,
) -> Result<(), Failed> {
    let plan = Plan::new(srv, false)?;
    let saver = Saver::begin(open(srv, &plan)?, plan.form, plan.is_summed)?;
    let position = srv.links.replicator.position_at_cut(srv);
    introduce(srv, &saver, Introduced::file(position, &srv.scripts.functions.current()))?;
    let mut lane: Lane<'_, _> = saver.lane();
    // As in [`begin`].
    context.set_import(Import::Source);
    for db in 0..srv.ks.databases() {
        let (keys, expiring) = srv.ks.counts(db);
        saver.sizes(db, keys as u64, expiring as u64);
        let mut done = Ok(());
        Db::new(guard, context, db).for_each(|record: RecordRef<'_>| {
            if done.is_ok() {
                done = lane.add(db, &record, plan.used(record.clock()));
            }
        });
        done?;
    }
    context.set_import(Import::No);
    lane.finish()?;
    put(saver.finish()?.0)?;
    srv.note_saved(srv.changes().wrapping_add(context.tally.dirty));
    Ok(())
}
