//! A copy of the primary's data: received, and put in the place of what there is.
//!
//! | | goes | old data go |
//! |---|---|---|
//! | `Load::File` | into a file beside the snapshot, which is loaded when it is complete | when it is complete |
//! | `Load::Direct` | through a [pipe] to the loader | when it begins |
//! | `Load::Beside` | through the pipe, into tables beside the old ones | when it is loaded, at once |
//!
//! What is no file that can be read here is refused before any of the old data go.
//!
//! From the moment in which the first of the old data goes to the end of loading, clients are told LOADING;
//! with tables beside them they are not, as long as the old data are of the history of the new ones. What
//! breaks off in between leaves nothing behind in memory. The files stay as they are then: nothing is saved
//! that nobody has asked for, and the append-only file does not begin anew, until a copy is there or this
//! server is a primary with data of its own.
//!
//! No key of a copy is told of by itself. When the data are others, all who watch a key that is there find
//! their watch broken, and all who wait for keys have them looked at; those who keep what they read were told
//! when the old data went.

use crate::hub;
use crate::replica::apply::Applier;
use crate::replica::forget;
use crate::replica::handle::{Bell, settle};
use crate::replica::pipe::{PipeIn, pipe};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use weft_config::Id;
use weft_durability::aof::aof;
use weft_durability::persistence::load;
use weft_durability::persistence::load::Place;
use weft_executor::dispatch::commit;
use weft_executor::dispatch::core::Core;
use weft_keyspace::{Db, Guard, Import, StagedData, context::Free};
use weft_persist::rdb::file::{Header, Origin};
use weft_process::log_warning;
use weft_replication::action::{LinkId, Load};
use weft_state::server::Server;

/// How far a copy has come, for INFO. Bytes; a total of 0 is not known.
#[derive(Debug, Default)]
pub struct Progress {
    pub total: AtomicU64,
    pub read: AtomicU64,
}

/// What has been received of the present copy.
enum Copy {
    /// It has no name any more: the folder may become another meanwhile, and the process end.
    File(File),
    /// The first bytes of one that is to be loaded as it comes: whether it can be is seen from them. How
    /// many will come.
    Front {
        bytes: Vec<u8>,
        total: Option<u64>,
    },
    Pipe {
        to: PipeIn,
        loader: JoinHandle<Result<Origin, String>>,
        beside: Option<Arc<StagedData>>,
    },
}

pub struct Copies {
    srv: &'static Server,
    present: Option<Copy>,
    /// The old data may not be shown, and clients are told so.
    is_loading: bool,
    /// They are gone, and what is there is part of the copy.
    is_dropped: bool,
}

impl Copies {
    pub fn new(srv: &'static Server) -> Copies {
        Copies { srv, present: None, is_loading: false, is_dropped: false }
    }

    /// A copy of so many bytes begins, if that is known.
    pub fn begin(&mut self, link: LinkId, load: Load, bytes: Option<u64>) {
        let srv = self.srv;
        let progress = &hub(srv).progress;
        progress.total.store(bytes.unwrap_or(0), Ordering::Relaxed);
        progress.read.store(0, Ordering::Relaxed);
        let begun = match load {
            Load::File => self.open_file(),
            Load::Direct => Ok(Copy::Front { bytes: Vec::new(), total: bytes }),
            Load::Beside { serve } => {
                match serve {
                    true => srv.replication.loads_beside.store(true, Ordering::SeqCst),
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
        self.srv.persistence.nameless_file().map(Copy::File).map_err(|e| {
            let why = weft_process::errors::words(&e);
            format!("Opening the temp file needed for PRIMARY <-> REPLICA synchronization: {why}")
        })
    }

    /// Has a thread load what comes through a pipe, while more of it is received.
    fn open_pipe(&self, beside: Option<Arc<StagedData>>) -> Result<Copy, String> {
        let (to, from) = pipe();
        let loader = start_loader(self.srv, from, beside.clone()).map_err(|e| e.to_string())?;
        Ok(Copy::Pipe { to, loader, beside })
    }

    /// Takes bytes of it.
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
            // The loader has ended, which it does before the end only if something is wrong; why is its
            // answer.
            Some(Copy::Pipe { to, .. }) => to.send(bytes).is_err().then(String::new),
        };
        if let Some(mut why) = failed {
            if let Some(Copy::Pipe { to, loader, .. }) = self.present.take_if(|_| why.is_empty()) {
                drop(to);
                why = answer(loader).err().unwrap_or_else(|| "it goes on behind its end".into());
            }
            self.failed(link, &why);
        }
    }

    /// All of it has come.
    pub fn end(&mut self, applier: &mut Applier, link: LinkId, bell: &Bell) {
        let srv = self.srv;
        let Some(copy) = self.present.take() else { return };
        let loaded = match copy {
            Copy::File(file) => self.load_file(applier, link, file),
            Copy::Front { .. } => Err("it ends before it has begun".into()),
            Copy::Pipe { to, loader, beside } => {
                drop(to);
                let loaded = answer(loader);
                let mut beside = beside.and_then(Arc::into_inner);
                if loaded.is_ok() {
                    let mut state = hub(srv).lock();
                    if state.link.of(link).is_some() {
                        state.link.copy = beside.take().map(|beside| (link, beside));
                    }
                }
                if let Some(unwanted) = beside {
                    srv.background.bio.free_copy(unwanted);
                }
                loaded
            }
        };
        match loaded {
            Ok(origin) => {
                let db = origin.stream_db.unwrap_or(0);
                let hub = hub(srv);
                // All of it at once: nobody sees a link with the old data, or while clients are told LOADING.
                let Applier { core, hand, .. } = applier;
                core.begin();
                let guard = hand.world(&mut core.context);
                hub.cut(srv, Some(&guard), |node, now, out| node.loaded(now, link, db, out));
                begin_files_anew(srv, &guard);
                srv.persistence.set_hollow(false);
                self.end_loading();
                tell_replaced(core, guard);
                settle(srv, bell);
            }
            Err(why) => self.failed(link, &why),
        }
    }

    /// Puts a file that is complete in the place of the old data.
    fn load_file(
        &mut self,
        applier: &mut Applier,
        link: LinkId,
        mut file: File,
    ) -> Result<Origin, String> {
        let mut front = Vec::new();
        let told_by = |e: std::io::Error| weft_process::errors::words(&e);
        let bytes = file.stream_position().map_err(told_by)?;
        file.rewind().map_err(told_by)?;
        (&mut file).take(Header::LEN as u64).read_to_end(&mut front).map_err(told_by)?;
        check_front(self.srv, &front)?;
        file.rewind().map_err(told_by)?;
        if !self.drop_old(applier, link, Some(bytes)) {
            return Err("it is not wanted any longer".into());
        }
        answer(start_loader(self.srv, file, None).map_err(|e| weft_process::errors::words(&e))?)
    }

    fn end_loading(&mut self) {
        self.srv.replication.loads_beside.store(false, Ordering::SeqCst);
        self.is_dropped = false;
        if std::mem::take(&mut self.is_loading) {
            self.srv.set_loading(false);
        }
    }

    /// Throws away what there is of a copy, and of the data if the old ones are gone.
    pub fn abandon(&mut self, applier: &mut Applier) {
        match self.present.take() {
            None | Some(Copy::Front { .. } | Copy::File(_)) => {}
            Some(Copy::Pipe { to, loader, beside }) => {
                drop(to);
                let _ = answer(loader);
                if let Some(unwanted) = beside.and_then(Arc::into_inner) {
                    self.srv.background.bio.free_copy(unwanted);
                }
            }
        }
        let was_dropped = self.is_dropped;
        if was_dropped {
            // What clients write here must not come behind data in a file that are none any more.
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
            tell_replaced(core, guard);
        }
    }

    /// The old data go now, unless the attempt was given up: whether they have gone.
    fn drop_old(&mut self, applier: &mut Applier, link: LinkId, bytes: Option<u64>) -> bool {
        let srv = self.srv;
        let goes_on = || hub(srv).lock().link.of(link).is_some();
        let begins = || {
            let begins = goes_on();
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

    /// Drops all data, if that is `wanted` still when the world is stopped. O(all keys), or O(1) if they are
    /// freed in the background. `for_good`: the append-only file, which has the old data until there are others,
    /// begins anew.
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
        core.free_trash();
        core.publish();
        true
    }
}

/// The data are others than those that clients have seen before: watches of keys that have come break, and who
/// waits for keys is served, or told that what it has waited for has gone.
fn tell_replaced(core: &mut Core, mut guard: Guard<'_>) {
    for db in 0..core.srv.ks.databases() {
        Db::new(&guard, &mut core.context, db).notify_filled();
    }
    core.context.set_import(Import::Bystander);
    commit::tell(core, &mut guard, Vec::new());
    drop(guard);
    core.free_trash();
    core.publish();
}

/// The data are others now: the append-only file, if there is one, begins anew.
fn begin_files_anew(srv: &'static Server, guard: &Guard<'_>) {
    if aof(srv).is_on()
        && let Err(why) = weft_durability::aof::start::again(srv, guard)
    {
        log_warning!("The append-only file does not begin anew yet: {why}");
        weft_durability::aof::start::follow_soon(srv, aof(srv).stay_off);
    }
}

/// Whether a file that begins so can be read here.
///
/// # Errors
/// Why not.
fn check_front(srv: &Server, bytes: &[u8]) -> Result<(), String> {
    let front = bytes.first_chunk().ok_or("Unexpected EOF reading RDB file")?;
    let check = load::Rules::new(srv).check;
    let header = Header::parse(*front).and_then(|header| header.dialect(check));
    header.map(drop).map_err(|refusal| {
        log_warning!("{refusal}");
        refusal.to_string()
    })
}

/// What a loader says, and in the log why it failed.
fn told(loaded: Result<Origin, weft_persist::rdb::file::Trouble>) -> Result<Origin, String> {
    loaded.map_err(|trouble| {
        load::tell(&trouble);
        trouble.to_string()
    })
}

/// Has threads load a copy to where clients see it, or beside that. They get less of a CPU than those who serve,
/// this server's or another's: on one machine a primary is not to notice that its replica loads.
fn start_loader(
    srv: &'static Server,
    from: impl Read + Send + 'static,
    beside: Option<Arc<StagedData>>,
) -> std::io::Result<JoinHandle<Result<Origin, String>>> {
    let thread = std::thread::Builder::new().name("weft-load-0".into());
    thread.spawn(move || {
        weft_memory::count_whole_thread(&srv.memory);
        weft_scheduler::yielding::lower_priority();
        let _stack = weft_process::crash::second_stack();
        let place = beside.as_deref().map_or(Place::Keyspace, Place::Beside);
        told(load::load_front(srv, from, true, place).map(|front| front.origin))
    })
}

fn answer(loader: JoinHandle<Result<Origin, String>>) -> Result<Origin, String> {
    loader.join().unwrap_or_else(|_| Err("loading was given up".into()))
}
