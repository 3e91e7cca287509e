//! Receives a copy of the primary's data and replaces the old data with it.
//!
//! | | destination | old data are dropped |
//! |---|---|---|
//! | `Load::File` | a file next to the snapshot, loaded once it is complete | when it is complete |
//! | `Load::Direct` | a [pipe] to the loader | when it begins |
//! | `Load::Staged` | the pipe, into new tables next to the old ones | when it is loaded, atomically |
//!
//! A copy with an unreadable header is refused before any of the old data are dropped.
//!
//! From the first dropped key to the end of loading, clients get LOADING. With new tables next to
//! the old ones they don't, as long as the old data belong to the history of the new ones. An
//! aborted load leaves nothing in memory. The files stay unchanged then: no automatic save runs,
//! and the append-only file is not rewritten, until a copy is loaded or this server is a primary
//! with new data.
//!
//! The keys of a copy cause no single notifications. Once the data are replaced, watches of
//! existing keys fail, and clients blocked on keys are checked. Clients with client-side caching
//! were notified when the old data were dropped.

use crate::hub;
use crate::replica::apply::Applier;
use crate::replica::forget;
use crate::replica::handle::{WakeFlag, settle};
use crate::replica::pipe::{PipeIn, pipe};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use weft_config::Id;
use weft_durability::aof::aof;
use weft_durability::persistence::load;
use weft_durability::persistence::load::{Front, Place};
use weft_executor::dispatch::commit;
use weft_executor::dispatch::core::Core;
use weft_executor::script::functions::Libraries;
use weft_keyspace::{Db, Guard, Import, StagedData, context::Free};
use weft_persist::rdb::file::{Header, Origin};
use weft_process::log_warning;
use weft_replication::action::{LinkId, Load};
use weft_state::server::Server;

/// Progress of a copy in bytes, for INFO; a total of 0 is unknown.
#[derive(Debug, Default)]
pub struct Progress {
    pub total: AtomicU64,
    pub read: AtomicU64,
}

/// The received part of the current copy.
enum Copy {
    /// An unnamed file, so a change of `dir` or the end of the process needs no cleanup.
    File(File),
    /// The first bytes of a copy that is loaded while it arrives, until the header is complete and
    /// can be checked. `total`: the expected length.
    Front {
        bytes: Vec<u8>,
        total: Option<u64>,
    },
    Pipe {
        to: PipeIn,
        loader: JoinHandle<Result<Loaded, String>>,
        beside: Option<Arc<StagedData>>,
    },
}

pub struct Copies {
    srv: &'static Server,
    present: Option<Copy>,
    /// The old data must not be shown, so clients get LOADING.
    is_loading: bool,
    /// The old data are dropped, and the present data are part of the copy.
    is_dropped: bool,
}

impl Copies {
    pub fn new(srv: &'static Server) -> Copies {
        Copies { srv, present: None, is_loading: false, is_dropped: false }
    }

    /// A copy begins, with this length in bytes if known.
    pub fn begin(&mut self, link: LinkId, load: Load, bytes: Option<u64>) {
        let srv = self.srv;
        let progress = &hub(srv).progress;
        progress.total.store(bytes.unwrap_or(0), Ordering::Relaxed);
        progress.read.store(0, Ordering::Relaxed);
        let begun = match load {
            Load::File => self.open_file(),
            Load::Direct => Ok(Copy::Front { bytes: Vec::new(), total: bytes }),
            Load::Staged { serve } => {
                match serve {
                    true => srv.nodes.replication.loads_async.store(true, Ordering::SeqCst),
                    false => self.begin_loading(bytes),
                }
                self.open_pipe(Some(Arc::new(StagedData::new(&srv.ks))))
            }
        };
        match begun {
            Ok(copy) => self.present = Some(copy),
            Err(why) => self.failed(link, &why),
        }
    }

    fn begin_loading(&mut self, bytes: Option<u64>) {
        load::begin(self.srv, bytes.unwrap_or(0));
        self.is_loading = true;
    }

    fn failed(&self, link: LinkId, why: &str) {
        let hub = hub(self.srv);
        hub.step(self.srv, |node, now, out| node.load_failed(now, link, why, out));
    }

    fn open_file(&self) -> Result<Copy, String> {
        self.srv.persistence.unnamed_file().map(Copy::File).map_err(|e| {
            let why = weft_process::errors::words(&e);
            format!("Opening the temp file needed for PRIMARY <-> REPLICA synchronization: {why}")
        })
    }

    /// Starts a thread that loads from a pipe while more is received.
    fn open_pipe(&self, beside: Option<Arc<StagedData>>) -> Result<Copy, String> {
        let (to, from) = pipe();
        let loader = start_loader(self.srv, from, beside.clone()).map_err(|e| e.to_string())?;
        Ok(Copy::Pipe { to, loader, beside })
    }

    /// Takes bytes of the copy.
    pub fn feed(&mut self, applier: &mut Applier, link: LinkId, mut bytes: Vec<u8>) {
        let progress = &hub(self.srv).progress;
        progress.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if let Some(Copy::Front { bytes: front, total }) = &mut self.present {
            front.append(&mut bytes);
            if front.len() < Header::LEN {
                return;
            }
            let total = *total;
            bytes = std::mem::take(front);
            if let Err(why) = check_front(self.srv, &bytes) {
                return self.failed(link, &why);
            }
            if !self.drop_old(applier, link, total) {
                return;
            }
            match self.open_pipe(None) {
                Ok(copy) => self.present = Some(copy),
                Err(why) => return self.failed(link, &why),
            }
        }
        let failed = match &mut self.present {
            None | Some(Copy::Front { .. }) => None,
            Some(Copy::File(file)) => file.write_all(&bytes).err().map(|e| {
                format!(
                    "Write error or short write writing to the DB dump file needed for PRIMARY \
                     <-> REPLICA synchronization: {}",
                    weft_process::errors::words(&e)
                )
            }),
            // The loader ends early only on an error, which is its result.
            Some(Copy::Pipe { to, .. }) => to.send(bytes).is_err().then(String::new),
        };
        if let Some(mut why) = failed {
            if let Some(Copy::Pipe { to, loader, .. }) = self.present.take_if(|_| why.is_empty()) {
                drop(to);
                why = join_loader(loader)
                    .err()
                    .unwrap_or_else(|| "it continues after its end".into());
            }
            self.failed(link, &why);
        }
    }

    /// The copy is complete.
    pub fn end(&mut self, applier: &mut Applier, link: LinkId, wake_flag: &WakeFlag) {
        let srv = self.srv;
        let Some(copy) = self.present.take() else { return };
        let is_staged = matches!(copy, Copy::Pipe { beside: Some(_), .. });
        let loaded = match copy {
            Copy::File(file) => self.load_file(applier, link, file),
            Copy::Front { .. } => Err("it ends before its header".into()),
            Copy::Pipe { to, loader, beside } => {
                drop(to);
                let mut loaded = join_loader(loader);
                let mut beside = beside.and_then(Arc::into_inner);
                if loaded.is_ok() {
                    let mut state = hub(srv).lock();
                    if state.link.of(link).is_some() {
                        state.link.copy = beside.take().map(|beside| (link, beside));
                    }
                }
                if let Some(unwanted) = beside {
                    srv.process.background.bio.free_copy(unwanted);
                    loaded = loaded.map(|loaded| Loaded { functions: None, ..loaded });
                }
                loaded
            }
        };
        match loaded {
            Ok(Loaded { origin, functions }) => {
                let db = origin.stream_db.unwrap_or(0);
                let hub = hub(srv);
                // One cut, so that no client sees the link with the old data, or gets LOADING
                // afterwards.
                let Applier { core, hand, .. } = applier;
                core.begin();
                let guard = hand.world(&mut core.context);
                let is_wanted =
                    hub.cut(srv, Some(&guard), |node, now, out| node.loaded(now, link, db, out));
                if is_staged && !is_wanted {
                    // The old data are still in place.
                    drop(guard);
                    self.end_loading();
                    return settle(srv, wake_flag);
                }
                if let Some(functions) = functions {
                    srv.scripts.functions.replace(functions);
                }
                begin_files_anew(srv, &guard);
                srv.persistence.set_hollow(false);
                self.end_loading();
                notify_replaced(core, guard);
                settle(srv, wake_flag);
            }
            Err(why) => self.failed(link, &why),
        }
    }

    /// Replaces the old data with a complete file.
    fn load_file(
        &mut self,
        applier: &mut Applier,
        link: LinkId,
        mut file: File,
    ) -> Result<Loaded, String> {
        let mut front = Vec::new();
        let to_words = |e: std::io::Error| weft_process::errors::words(&e);
        let bytes = file.stream_position().map_err(to_words)?;
        file.rewind().map_err(to_words)?;
        (&mut file).take(Header::LEN as u64).read_to_end(&mut front).map_err(to_words)?;
        check_front(self.srv, &front)?;
        file.rewind().map_err(to_words)?;
        if !self.drop_old(applier, link, Some(bytes)) {
            return Err("it is no longer needed".into());
        }
        join_loader(
            start_loader(self.srv, file, None).map_err(|e| weft_process::errors::words(&e))?,
        )
    }

    fn end_loading(&mut self) {
        self.srv.nodes.replication.loads_async.store(false, Ordering::SeqCst);
        self.is_dropped = false;
        if std::mem::take(&mut self.is_loading) {
            self.srv.set_loading(false);
        }
    }

    /// Drops the received part of a copy, and the data if the old ones are dropped already.
    pub fn abandon(&mut self, applier: &mut Applier) {
        match self.present.take() {
            None | Some(Copy::Front { .. } | Copy::File(_)) => {}
            Some(Copy::Pipe { to, loader, beside }) => {
                drop(to);
                let _ = join_loader(loader);
                if let Some(unwanted) = beside.and_then(Arc::into_inner) {
                    self.srv.process.background.bio.free_copy(unwanted);
                }
            }
        }
        let was_dropped = self.is_dropped;
        if was_dropped {
            // Clients' writes must not follow the dropped data in a file.
            let is_written = !self.srv.settings().replica.is_read_only;
            self.empty(applier, || true, is_written);
            if !is_written {
                aof(self.srv).outlives_data();
            }
            self.srv.forget_changes();
        }
        self.end_loading();
        if was_dropped {
            let Applier { core, hand, .. } = applier;
            core.begin();
            let guard = hand.world(&mut core.context);
            notify_replaced(core, guard);
        }
    }

    /// Drops the old data, unless the attempt was ended. Returns whether it did.
    fn drop_old(&mut self, applier: &mut Applier, link: LinkId, bytes: Option<u64>) -> bool {
        let srv = self.srv;
        let is_current = || hub(srv).lock().link.of(link).is_some();
        let begins = || {
            let begins = is_current();
            if begins {
                load::begin(srv, bytes.unwrap_or(0));
            }
            begins
        };
        self.is_dropped = self.empty(applier, begins, false);
        self.is_loading |= self.is_dropped;
        if self.is_dropped {
            srv.persistence.set_hollow(true);
        }
        self.is_dropped
    }

    /// Drops all data, if that is still `wanted` once the world is stopped. O(all keys), or O(1) if
    /// they are freed in the background. `for_good`: restarts the append-only file, which otherwise
    /// keeps the old data until there are new ones.
    fn empty(&self, applier: &mut Applier, wanted: impl FnOnce() -> bool, for_good: bool) -> bool {
        let lazy = self.srv.config().bool(Id::REPLICA_LAZY_FLUSH);
        let free = if lazy { Free::Background } else { Free::Here };
        let Applier { core, hand, .. } = applier;
        core.begin();
        let guard = hand.world(&mut core.context);
        if !wanted() {
            return false;
        }
        for db in 0..self.srv.ks.databases() {
            let taken = Db::new(&guard, &mut core.context, db).take_all();
            core.context.discard_all(taken.contents, free);
        }
        Db::new(&guard, &mut core.context, 0).notify_emptied();
        forget(&guard, &mut core.context);
        if for_good {
            begin_files_anew(self.srv, &guard);
        }
        drop(guard);
        core.free_deferred();
        core.publish();
        true
    }
}

/// Handles replaced data: watches of keys that now exist fail. Clients blocked on keys are served,
/// or unblocked if their key is gone.
fn notify_replaced(core: &mut Core, mut guard: Guard<'_>) {
    for db in 0..core.srv.ks.databases() {
        Db::new(&guard, &mut core.context, db).notify_filled();
    }
    core.context.set_import(Import::Bystander);
    commit::commit_pending(core, &mut guard, Vec::new());
    drop(guard);
    core.free_deferred();
    core.publish();
}

/// Restarts the append-only file, if there is one, because the data were replaced.
fn begin_files_anew(srv: &'static Server, guard: &Guard<'_>) {
    if aof(srv).is_on()
        && let Err(why) = weft_durability::aof::start::again(srv, guard)
    {
        log_warning!("The append-only file can't be restarted yet: {why}");
        weft_durability::aof::start::follow_soon(srv, aof(srv).stay_off);
    }
}

/// Checks the header of a file.
///
/// # Errors
/// The reason why the file can't be read.
fn check_front(srv: &Server, bytes: &[u8]) -> Result<(), String> {
    let front = bytes.first_chunk().ok_or("Unexpected EOF reading RDB file")?;
    let check = load::Rules::new(srv).check;
    let header = Header::parse(*front).and_then(|header| header.dialect(check));
    header.map(drop).map_err(|refusal| {
        log_warning!("{refusal}");
        refusal.to_string()
    })
}

/// A complete copy.
struct Loaded {
    origin: Origin,
    /// They replace the functions when the copy replaces the data.
    functions: Option<Libraries>,
}

/// Converts the result of a loader, and logs its error.
fn log_error(loaded: Result<Loaded, weft_persist::rdb::file::Trouble>) -> Result<Loaded, String> {
    loaded.map_err(|trouble| {
        load::tell(&trouble);
        trouble.to_string()
    })
}

/// Starts threads that load a copy into the keyspace or into new tables. They have a lower priority
/// than serving threads of any server, so that a primary on the same machine isn't slowed down.
fn start_loader(
    srv: &'static Server,
    from: impl Read + Send + 'static,
    beside: Option<Arc<StagedData>>,
) -> std::io::Result<JoinHandle<Result<Loaded, String>>> {
    let thread = std::thread::Builder::new().name("weft-load-0".into());
    thread.spawn(move || {
        weft_memory::count_whole_thread(&srv.memory);
        weft_scheduler::yielding::lower_priority();
        let _stack = weft_process::crash::second_stack();
        let place = beside.as_deref().map_or(Place::Keyspace, Place::Beside);
        let loaded = load::load_front(srv, from, true, place);
        log_error(loaded.map(|Front { origin, functions, .. }| Loaded { origin, functions }))
    })
}

fn join_loader(loader: JoinHandle<Result<Loaded, String>>) -> Result<Loaded, String> {
    loader.join().unwrap_or_else(|_| Err("the loading thread panicked".into()))
}
