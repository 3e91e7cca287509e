//! Background freeing: large values and whole tables die on a thread of their own.
//!
//! Freeing a 5-million-key table takes seconds, a 500 MB string an `munmap` that stalls; an I/O
//! thread only hands them over. All else is freed by the thread that removed it, which is cheaper
//! than any hand-over: a string of a megabyte is one call of the allocator, and the memory is
//! where the next value of that thread wants it. What takes long is for the types to say
//! ([`is_long_to_free`]). This holds whoever removes a value: DEL, SET over it, expiry, eviction.
//!
//! Records go over in batches, so that a command which removes many wakes this thread once.
//! How much memory they hold is known while they wait ([`Bio::pending_bytes`]) where eviction
//! asks for it: memory that is about to be free must not have more keys evicted for it.

use crate::holdings::Released;
use crate::server::Server;
use crate::tracking;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use weft_keyspace::{Beside, Record, db::Detached};
use weft_memory::ThreadMemory;
use weft_types::value::{is_long_to_free, memory_about};

/// What is to be freed.
enum Garbage {
    Records(Vec<Record>),
    /// An evicted record, and about how many bytes it has.
    Evicted(Record, usize),
    Tables(Vec<Detached>),
    /// A copy of a primary's data that nobody wants any longer.
    Copy(Beside),
    /// What was remembered for clients that keep what they read.
    Tracked(Vec<tracking::Table>),
    /// What a client has given up.
    State(Released),
}

impl Garbage {
    fn objects(&self) -> u64 {
        match self {
            Garbage::Records(records) => records.len() as u64,
            Garbage::Evicted(..) => 1,
            // They are no values.
            Garbage::Tracked(_) | Garbage::State(_) => 0,
            Garbage::Tables(tables) => tables.iter().map(|t| t.len() as u64).sum(),
            Garbage::Copy(copy) => copy.keys(),
        }
    }
}

/// The way to the freeing thread.
pub struct Bio {
    to: Sender<Garbage>,
    from: Mutex<Option<Receiver<Garbage>>>,
    pending: AtomicU64,
    pending_bytes: AtomicUsize,
    freed: AtomicU64,
}

impl Default for Bio {
    fn default() -> Self {
        let (to, from) = channel();
        Bio {
            to,
            from: Mutex::new(Some(from)),
            pending: AtomicU64::new(0),
            pending_bytes: AtomicUsize::new(0),
            freed: AtomicU64::new(0),
        }
    }
}

impl Bio {
    /// Starts the thread. It ends with the server.
    pub fn start(&self, srv: &'static Server) -> std::io::Result<()> {
        let from = self.from.lock().unwrap_or_else(|p| p.into_inner()).take();
        let Some(from) = from else { return Ok(()) };
        std::thread::Builder::new().name("weft-bio-free".into()).spawn(move || run(&from, srv))?;
        Ok(())
    }

    /// Frees `records`, which take long, in the background.
    pub fn free_long(&self, records: Vec<Record>) {
        self.send(Garbage::Records(records));
    }

    /// Frees an evicted record: in the background if that takes long, but now if more than `most` bytes of evicted records wait already: whoever evicts faster than this
    /// thread frees has to help. Bytes in the background count in [`Bio::pending_bytes`].
    pub fn free_evicted(&self, record: Record, most: usize) {
        if !is_long_to_free(&record) || self.pending_bytes() > most {
            return drop(record);
        }
        let bytes = memory_about(&record);
        self.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.send(Garbage::Evicted(record, bytes));
    }

    /// Frees whole tables in the background.
    pub fn free_tables(&self, tables: Vec<Detached>) {
        if !tables.is_empty() {
            self.send(Garbage::Tables(tables));
        }
    }

    /// Frees a copy that was loaded beside the data.
    pub fn free_copy(&self, copy: Beside) {
        self.send(Garbage::Copy(copy));
    }

    /// Frees what was remembered of keys that were read.
    pub fn free_tracked(&self, tables: Vec<tracking::Table>) {
        self.send(Garbage::Tracked(tables));
    }

    /// Takes apart what a client has given up.
    pub fn take_apart(&self, state: Released) {
        self.send(Garbage::State(state));
    }

    fn send(&self, garbage: Garbage) {
        self.pending.fetch_add(garbage.objects(), Ordering::Relaxed);
        // Without the thread (it ends last) the garbage is freed right here.
        let _ = self.to.send(garbage);
    }

    /// Objects that wait to be freed.
    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    /// About how many bytes the evicted records have that wait to be freed.
    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes.load(Ordering::Relaxed)
    }

    /// Objects that were freed since the start or the last reset.
    pub fn freed(&self) -> u64 {
        self.freed.load(Ordering::Relaxed)
    }

    pub fn reset_stats(&self) {
        self.freed.store(0, Ordering::Relaxed);
    }
}

fn run(from: &Receiver<Garbage>, srv: &Server) {
    let _stack = weft_process::crash::second_stack();
    weft_scheduler::placement::bind_to(&srv.placement().bio);
    let mut memory = ThreadMemory::new();
    while let Ok(garbage) = from.recv() {
        match garbage {
            Garbage::Records(records) => records.into_iter().for_each(|record| {
                drop(record);
                done(srv, &mut memory, 1);
            }),
            Garbage::Evicted(record, bytes) => {
                drop(record);
                done(srv, &mut memory, 1);
                // Not before the memory is seen to be free: else it would look used in between.
                srv.bio.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            Garbage::Tracked(tables) => {
                drop(tables);
                done(srv, &mut memory, 0);
            }
            Garbage::State(state) => {
                state.take_apart(srv);
                done(srv, &mut memory, 0);
            }
            Garbage::Copy(copy) => {
                let objects = copy.keys();
                drop(copy);
                done(srv, &mut memory, objects);
            }
            Garbage::Tables(tables) => tables.into_iter().for_each(|table| {
                let objects = table.len() as u64;
                drop(table);
                done(srv, &mut memory, objects);
            }),
        }
    }
}

fn done(srv: &Server, memory: &mut ThreadMemory, objects: u64) {
    memory.publish(&srv.memory);
    srv.bio.pending.fetch_sub(objects, Ordering::Relaxed);
    srv.bio.freed.fetch_add(objects, Ordering::Relaxed);
}
