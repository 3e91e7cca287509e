//! Background freeing: a thread frees large values and whole tables.
//!
//! Freeing a table of 5 million keys takes seconds; freeing a 500 MB string is an `munmap` that stalls. An I/O
//! thread only sends them here. The thread that removed a value frees all others, which is cheaper than to send
//! them: a string of a megabyte is one call of the allocator, and the memory is where that thread's next value
//! needs it. The types decide which values take long ([`is_long_to_free`]). The rule is the same for DEL, SET
//! over a value, expiry and eviction.
//!
//! Records are sent in batches, so a command that removes many wakes this thread once. [`Bio::pending_bytes`]
//! counts the memory of evicted records that wait. Eviction subtracts it: memory that is about to be free must
//! not cause more evictions.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use weft_base::cpulist::CpuSet;
use weft_commands::FAST_WORK;
use weft_keyspace::{Record, StagedData, db::Detached};
use weft_memory::{Memory, ThreadMemory};
use weft_types::value::{is_long_to_free, memory_about};

/// Objects to be freed.
enum DeferredFree {
    Records(Vec<Record>),
    /// An evicted record and its approximate memory in bytes.
    Evicted(Record, usize),
    Tables(Vec<Detached>),
    /// A copy of a primary's data that is not needed any longer.
    Copy(StagedData),
    /// State that a client has released, or that was kept for clients.
    State(Box<dyn FnOnce() + Send>),
}

impl DeferredFree {
    fn objects(&self) -> u64 {
        match self {
            DeferredFree::Records(records) => records.len() as u64,
            DeferredFree::Evicted(..) => 1,
            // INFO counts values only.
            DeferredFree::State(_) => 0,
            DeferredFree::Tables(tables) => tables.iter().map(|t| t.len() as u64).sum(),
            DeferredFree::Copy(copy) => copy.keys(),
        }
    }
}

/// The queue to the freeing thread, and its counters.
pub struct Bio {
    to: Sender<DeferredFree>,
    from: Mutex<Option<Receiver<DeferredFree>>>,
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
    /// Starts the thread on `cpus` (an empty set: any CPU). The thread runs until the process ends, and
    /// publishes its allocation balance in `memory`.
    ///
    /// # Errors
    /// The kernel's error if it can't create a thread.
    pub fn start(&'static self, memory: &'static Memory, cpus: CpuSet) -> std::io::Result<()> {
        let from = self.from.lock().unwrap_or_else(|p| p.into_inner()).take();
        let Some(from) = from else { return Ok(()) };
        std::thread::Builder::new()
            .name("weft-bio-free".into())
            .spawn(move || run(self, &from, memory, &cpus))?;
        Ok(())
    }

    /// Frees `records`, which take long to free, in the background.
    pub fn free_long(&self, records: Vec<Record>) {
        self.send(DeferredFree::Records(records));
    }

    /// Frees an evicted record: in the background if that takes long, else on the calling thread. If more than
    /// `most` bytes of evicted records already wait, the calling thread frees the record too, so that eviction
    /// can't outpace the freeing thread. Bytes in the background count in [`Bio::pending_bytes`].
    pub fn free_evicted(&self, record: Record, most: usize) {
        if !is_long_to_free(&record) || self.pending_bytes() > most {
            return drop(record);
        }
        let bytes = memory_about(&record);
        self.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.send(DeferredFree::Evicted(record, bytes));
    }

    /// Frees whole tables in the background.
    pub fn free_tables(&self, tables: Vec<Detached>) {
        if !tables.is_empty() {
            self.send(DeferredFree::Tables(tables));
        }
    }

    /// Frees a separately loaded copy of a primary's data.
    pub fn free_copy(&self, copy: StagedData) {
        self.send(DeferredFree::Copy(copy));
    }

    /// Runs `free` in the background.
    pub fn free_in_background(&self, free: impl FnOnce() + Send + 'static) {
        self.send(DeferredFree::State(Box::new(free)));
    }

    /// Frees state of `elements` elements that a client has released: small state at once, large state in the
    /// background. `free` removes entries from shared state (wait queues, channels, prefixes) in small steps,
    /// each under its own lock. So the two ways differ in memory and counters only.
    #[inline]
    pub fn release(&self, elements: usize, free: impl FnOnce() + Send + 'static) {
        if elements > FAST_WORK {
            return self.free_in_background(free);
        }
        free();
    }

    fn send(&self, garbage: DeferredFree) {
        self.pending.fetch_add(garbage.objects(), Ordering::Relaxed);
        // Once the thread has stopped (it stops last), the garbage is freed here.
        let _ = self.to.send(garbage);
    }

    /// Objects that wait to be freed.
    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    /// The approximate memory of evicted records that wait to be freed (bytes).
    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes.load(Ordering::Relaxed)
    }

    /// Objects freed since the start or the last reset.
    pub fn freed(&self) -> u64 {
        self.freed.load(Ordering::Relaxed)
    }

    pub fn reset_stats(&self) {
        self.freed.store(0, Ordering::Relaxed);
    }
}

fn run(bio: &Bio, from: &Receiver<DeferredFree>, used: &Memory, cpus: &CpuSet) {
    let _stack = weft_process::crash::second_stack();
    weft_scheduler::placement::bind_to(cpus);
    let mut memory = ThreadMemory::new();
    let mut done = |objects: u64| {
        memory.publish(used);
        bio.pending.fetch_sub(objects, Ordering::Relaxed);
        bio.freed.fetch_add(objects, Ordering::Relaxed);
    };
    while let Ok(garbage) = from.recv() {
        match garbage {
            DeferredFree::Records(records) => records.into_iter().for_each(|record| {
                drop(record);
                done(1);
            }),
            DeferredFree::Evicted(record, bytes) => {
                drop(record);
                done(1);
                // Only after `publish`: else the memory would count as used and no longer as pending.
                bio.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            DeferredFree::State(free) => {
                free();
                done(0);
            }
            DeferredFree::Copy(copy) => {
                let objects = copy.keys();
                drop(copy);
                done(objects);
            }
            DeferredFree::Tables(tables) => tables.into_iter().for_each(|table| {
                let objects = table.len() as u64;
                drop(table);
                done(objects);
            }),
        }
    }
}
