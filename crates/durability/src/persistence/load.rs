//! Loads a file into the keyspace.
//!
//! At the start, several threads load together. One at a time cuts a block of whole entries out of
//! the file; it turns them into records and inserts them while the next threads cut theirs. Clients
//! may connect meanwhile, and get LOADING errors. A full sync from a primary is loaded in the same
//! way, either into the keyspace or into a second one ([`Place`]).

use crate::persistence::save::Delay;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;
use weft_base::topology;
use weft_config::Id;
use weft_executor::script::functions::{Join, Libraries, load_file};
use weft_keyspace::{Access, Db, ExecContext, ShardSet, SlowLaneThread, StagedData};
use weft_memory::ThreadMemory;
use weft_persist::rdb::file::{
    Counts, Ended, Loader, Origin, Piece, Terms, Trouble, VersionCheck, Wrong,
};
use weft_persist::storage;
use weft_process::errors::{Failure, words};
use weft_process::{log_notice, log_warning};
use weft_state::server::Server;
use weft_types::{Limits, Record};

/// The most threads that load.
const MOST_THREADS: usize = 16;

/// The rules for loading files, from the configuration.
pub struct Rules {
    pub check: VersionCheck,
    pub is_summed: bool,
    pub limits: Limits,
    access: Access,
    now_ms: i64,
    delay: Delay,
}

impl Rules {
    pub fn new(srv: &Server) -> Rules {
        let config = srv.config();
        let check = match config.word(Id::RDB_VERSION_CHECK) {
            "relaxed" => VersionCheck::Relaxed,
            _ => VersionCheck::Strict,
        };
        let (settings, now_ms) = (srv.settings(), srv.now_ms());
        Rules {
            check,
            is_summed: config.bool(Id::RDBCHECKSUM),
            limits: settings.commands.limits,
            access: settings.access(now_ms),
            now_ms,
            delay: Delay::of(&config, Id::KEY_LOAD_DELAY),
        }
    }

    /// Calls `load` with the terms for creating records. `keeps_expired`: data after the file may
    /// still name expired keys.
    pub fn with_terms<T>(&self, keeps_expired: bool, load: impl FnOnce(&Terms<'_>) -> T) -> T {
        let clock = |idle, frequency| self.access.clock_of(idle, frequency);
        let over = (!keeps_expired).then_some(self.now_ms);
        load(&Terms { limits: &self.limits, clock: &clock, over })
    }
}

/// Opens the configured file, if it exists. Call it before clients can connect: from here on they
/// get LOADING errors.
///
/// # Errors
/// The file exists and can't be opened.
pub fn open(srv: &Server) -> Result<Option<File>, Failure> {
    let name = srv.config().str(Id::DBFILENAME).into_owned();
    match open_file(&name) {
        Ok(file) => {
            begin(srv, file.metadata().map_or(0, |data| data.len()));
            Ok(Some(file))
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(format!("Fatal error loading the DB: {}. Exiting.", words(&e))),
    }
}

/// Opens the snapshot of that name.
///
/// # Errors
/// I/O errors. A file that is not a regular file is also an error, since reading it might block.
pub fn open_file(name: &str) -> std::io::Result<File> {
    storage::open_file(Path::new(name), OpenOptions::new().read(true))
}

/// Loads the file opened by [`open`]. For clients, the server is still loading afterwards. Returns
/// the file's record of its origin.
///
/// # Errors
/// The file can't be loaded. A server without its data must not start.
pub fn at_start(srv: &'static Server, file: File) -> Result<Origin, Failure> {
    let began = Instant::now();
    // On a replica, keys expire only when the primary says so.
    let keeps_expired = srv.config().primary().is_some() || srv.links.replicator.is_member();
    let front = load_front(srv, file, keeps_expired, Place::Keyspace).map_err(|trouble| {
        tell(&trouble);
        "Fatal error loading the DB, check server logs. Exiting."
    })?;
    log_notice!("DB loaded from disk: {:.3} seconds", began.elapsed().as_secs_f64());
    Ok(front.origin)
}

/// Records that a file of `length` bytes is being loaded.
pub fn begin(srv: &Server, length: u64) {
    let loading = &srv.persistence.loading;
    loading.since_s.store(srv.now_ms() / 1000, Ordering::Relaxed);
    loading.total_bytes.store(length, Ordering::Relaxed);
    for counter in
        [&loading.loaded_bytes, &loading.memory, &loading.keys_loaded, &loading.keys_expired]
    {
        counter.store(0, Ordering::Relaxed);
    }
    srv.set_loading(true);
}

/// Logs why a file could not be loaded.
pub fn tell(trouble: &Trouble) {
    match &trouble.wrong {
        Wrong::Refused(refusal) => return log_warning!("{refusal}"),
        Wrong::Sum { expected, found } => log_warning!(
            "Wrong RDB checksum expected: ({expected:x}) but got ({found:x}). Aborting now."
        ),
        Wrong::Value(weft_persist::rdb::Fault::Short) => {
            log_warning!("Short read loading DB. Unrecoverable error, aborting now.");
        }
        Wrong::Database(_) | Wrong::Twice | Wrong::Value(_) | Wrong::Library(_) => {}
    }
    log_warning!("Internal error in RDB reading: {trouble}");
}

/// The state that the loading threads share.
struct Shared<R> {
    loader: Mutex<Loader<R>>,
    keys: AtomicU64,
    failed: Mutex<Option<Trouble>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|p| p.into_inner())
}

/// The place that loaded keys go to.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// The keyspace that clients see.
    Keyspace,
    /// A second keyspace, which clients don't see.
    Beside(&'a StagedData),
}

/// A loaded file, which may have been the first part of another file.
pub struct Front<R> {
    /// Bytes consumed.
    pub taken: u64,
    /// Bytes after them that were read ahead.
    pub ahead: Vec<u8>,
    pub rest: R,
    pub origin: Origin,
    /// Its functions, if clients don't see its keys yet.
    pub functions: Option<Libraries>,
}

/// Loads a file that may be the first part of another. `keeps_expired`: data after it may still
/// name expired keys.
///
/// # Errors
/// The fault of the file. A part of it may have been loaded.
pub fn load_front<R: Read + Send>(
    srv: &'static Server,
    file: R,
    keeps_expired: bool,
    place: Place<'_>,
) -> Result<Front<R>, Trouble> {
    let rules = Rules::new(srv);
    let mut loader = Loader::open(file, rules.check, srv.ks.databases())?;
    if !rules.is_summed {
        loader.ignore_sum();
    }
    let shared =
        Shared { loader: Mutex::new(loader), keys: AtomicU64::new(0), failed: Mutex::default() };
    let counts = Mutex::new(Counts::default());
    rules.with_terms(keeps_expired, |terms| {
        let work = || match load_pieces(srv, &shared, terms, rules.delay, place) {
            Ok(own) => lock(&counts).add(own),
            Err(trouble) => {
                lock(&shared.failed).get_or_insert(trouble);
            }
        };
        std::thread::scope(|scope| {
            let threads = topology::usable_cpus().clamp(1, MOST_THREADS);
            for n in 1..threads {
                let thread = std::thread::Builder::new().name(format!("weft-load-{n}"));
                let counted = move || {
                    weft_memory::count_whole_thread(&srv.memory);
                    work();
                };
                if thread.spawn_scoped(scope, counted).is_err() {
                    // Fewer threads only take longer.
                    break;
                }
            }
            work();
        });
    });
    if let Some(trouble) = lock(&shared.failed).take() {
        return Err(trouble);
    }
    let counts = *lock(&counts);
    let loader = shared.loader.into_inner().unwrap_or_else(|p| p.into_inner());
    let functions = conclude(srv, &loader, counts, Join::Replace)?;
    let functions = match place {
        Place::Keyspace => {
            srv.scripts.functions.replace(functions);
            None
        }
        Place::Beside(_) => Some(functions),
    };
    let (taken, origin) = (loader.offset(), loader.origin().clone());
    let (ahead, rest) = loader.into_rest();
    Ok(Front { taken, ahead, rest, origin, functions })
}

/// Runs one loading thread until the file has no more pieces.
fn load_pieces<R: Read>(
    srv: &'static Server,
    shared: &Shared<R>,
    terms: &Terms<'_>,
    delay: Delay,
    place: Place<'_>,
) -> Result<Counts, Trouble> {
    let _stack = weft_process::crash::second_stack();
    let mut memory = ThreadMemory::new();
    let mut hand = srv.hand();
    let mut context = ExecContext::new(srv.now_ms(), 0);
    let mut counts = Counts::default();
    let mut batch = Vec::new();
    while let Some(piece) = next_piece(srv, shared, terms) {
        piece.each(terms, &mut counts, |db, record| {
            batch.push((srv.ks.shard(record.key()), db, record));
            true
        })?;
        let keys = batch.len() as u64;
        if let Some(twice) = insert(&mut hand, &mut context, &mut batch, place) {
            return Err(Trouble {
                wrong: Wrong::Twice,
                offset: lock(&shared.loader).offset(),
                key: Some(twice.key().to_vec()),
                doing: "read-object-value",
            });
        }
        let before = shared.keys.fetch_add(keys, Ordering::Relaxed);
        (before..before + keys).for_each(|n| delay.wait(n));
        srv.persistence.loading.keys_loaded.store(before + keys, Ordering::Relaxed);
        memory.publish(&srv.memory);
    }
    memory.publish(&srv.memory);
    Ok(counts)
}

/// The next part of the file; `None` at its end and after another thread's failure.
fn next_piece<R: Read>(srv: &Server, shared: &Shared<R>, terms: &Terms<'_>) -> Option<Piece> {
    let mut loader = lock(&shared.loader);
    // Check under the loader's lock: a thread that failed has left the file in the middle of an
    // entry.
    if lock(&shared.failed).is_some() {
        return None;
    }
    let first = loader.offset() <= weft_persist::rdb::file::Header::LEN as u64;
    let piece = match loader.take(terms) {
        Ok(piece) => piece,
        Err(trouble) => {
            lock(&shared.failed).get_or_insert(trouble);
            return None;
        }
    };
    if first {
        introduce(srv, loader.origin());
    }
    srv.persistence.loading.loaded_bytes.store(loader.offset(), Ordering::Relaxed);
    piece
}

/// Inserts records into the keyspace, shard by shard. Returns a record whose key already exists.
fn insert(
    hand: &mut SlowLaneThread<'static>,
    context: &mut ExecContext,
    batch: &mut Vec<(u16, usize, Record)>,
    place: Place<'_>,
) -> Option<Record> {
    batch.sort_unstable_by_key(|(shard, db, _)| (*shard, *db));
    let mut records = batch.drain(..).peekable();
    while let Some((shard, ..)) = records.peek() {
        let shard = *shard;
        if let Place::Beside(beside) = place {
            let own = std::iter::from_fn(|| records.next_if(|(at, ..)| *at == shard));
            match beside.load(shard, own.map(|(_, db, record)| (db, record))) {
                Ok(()) => continue,
                Err(twice) => return Some(twice),
            }
        }
        let guard = hand.hold(context, &ShardSet::one(shard));
        while let Some((_, db, record)) = records.next_if(|(at, ..)| *at == shard) {
            if let Err(twice) = Db::new(&guard, context, db).load(record) {
                return Some(twice);
            }
        }
    }
    None
}

/// Logs the file's record of its origin.
pub fn introduce(srv: &Server, origin: &Origin) {
    if let Some((program, version)) = &origin.program {
        log_notice!("Loading RDB produced by {program} version {version}");
    }
    if let Some(made_s) = origin.made_s {
        log_notice!("RDB age {} seconds", (srv.now_ms() / 1000 - made_s).max(0));
    }
    if let Some(memory) = origin.memory {
        srv.persistence.loading.memory.store(memory, Ordering::Relaxed);
        let megabytes = memory as f64 / f64::from(1 << 20);
        log_notice!("RDB memory usage when created {megabytes:.2} Mb");
    }
    if origin.is_base {
        log_notice!("RDB is base AOF");
    }
}

/// Logs and records that a file was loaded completely. Returns the libraries that replace the server's.
///
/// # Errors
/// A library of functions is invalid. The keys were loaded.
pub fn conclude<R: Read>(
    srv: &Server,
    loader: &Loader<R>,
    counts: Counts,
    join: Join,
) -> Result<Libraries, Trouble> {
    let functions = load_file(srv, loader.functions(), join).map_err(|why| Trouble {
        wrong: Wrong::Library(why),
        offset: loader.offset(),
        key: None,
        doing: "read-functions",
    })?;
    if loader.ended() == Some(Ended::Unsummed) {
        log_notice!("RDB file was saved with checksum disabled: no check performed.");
    }
    match counts.empty {
        0 => log_notice!(
            "Done loading RDB, keys loaded: {}, keys expired: {}.",
            counts.loaded,
            counts.expired
        ),
        empty => log_notice!(
            "Done loading RDB, keys loaded: {}, keys expired: {}, empty keys skipped: {empty}.",
            counts.loaded,
            counts.expired
        ),
    }
    let loading = &srv.persistence.loading;
    loading.keys_loaded.store(counts.loaded, Ordering::Relaxed);
    loading.keys_expired.store(counts.expired, Ordering::Relaxed);
    Ok(functions)
}
