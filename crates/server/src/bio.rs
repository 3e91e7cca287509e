//! Background freeing: large values and whole tables die on a thread of their own.
//!
//! Freeing a 5-million-key table takes seconds, a 500 MB string an `munmap` that stalls; an I/O
//! thread only hands them over. Small records are freed by the thread that removed them, which
//! is cheaper than any hand-over.

use crate::memory::ThreadMemory;
use crate::server::Server;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use weft_keyspace::{Record, db::Detached};
use weft_types::{string, value};

/// A string of at least this many bytes is freed in the background.
const LARGE: usize = 64 * 1024;

/// A collection of at least this many elements is freed in the background.
const MANY: usize = 64;

fn is_large(record: &Record) -> bool {
    value::elements(record) >= MANY || string::is_string(record) && string::memory(record) >= LARGE
}

/// What is to be freed.
enum Garbage {
    Record(Record),
    Tables(Vec<Detached>),
}

impl Garbage {
    fn objects(&self) -> u64 {
        match self {
            Garbage::Record(_) => 1,
            Garbage::Tables(tables) => tables.iter().map(|t| t.len() as u64).sum(),
        }
    }
}

/// The way to the freeing thread.
pub struct Bio {
    to: Sender<Garbage>,
    from: Mutex<Option<Receiver<Garbage>>>,
    pending: AtomicU64,
    freed: AtomicU64,
}

impl Default for Bio {
    fn default() -> Self {
        let (to, from) = channel();
        let from = Mutex::new(Some(from));
        Bio { to, from, pending: AtomicU64::new(0), freed: AtomicU64::new(0) }
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

    /// Frees `records`: small ones now, large ones in the background.
    pub fn free_records(&self, records: Vec<Record>) {
        for record in records {
            if is_large(&record) {
                self.send(Garbage::Record(record));
            }
        }
    }

    /// Frees whole tables in the background.
    pub fn free_tables(&self, tables: Vec<Detached>) {
        if !tables.is_empty() {
            self.send(Garbage::Tables(tables));
        }
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

    /// Objects that were freed since the start or the last reset.
    pub fn freed(&self) -> u64 {
        self.freed.load(Ordering::Relaxed)
    }

    pub fn reset_stats(&self) {
        self.freed.store(0, Ordering::Relaxed);
    }
}

fn run(from: &Receiver<Garbage>, srv: &Server) {
    let _stack = crate::start::second_stack();
    crate::threads::bind_to(&srv.placement().bio);
    let mut memory = ThreadMemory::new();
    while let Ok(garbage) = from.recv() {
        match garbage {
            Garbage::Record(record) => {
                drop(record);
                done(srv, &mut memory, 1);
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
