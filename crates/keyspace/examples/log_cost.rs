//! The cost of the effect log alone: CPU time of a SET without a reader, and with one, two and
//! four readers that discard everything; and CPU time of the readers.
//!
//! `cargo run --release -p weft-keyspace --example log_cost [WRITES]`

use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use weft_keyspace::commit::seal;
use weft_keyspace::log::{LogReader, Target};
use weft_keyspace::{Db, ExecContext, Guard, Keyspace, Outside, Rng};
use weft_types::string::{New, record};

const NOW: i64 = 1_000_000;
const KEYS: u64 = 1 << 16;
/// Writes of one iteration of an I/O thread.
const BATCH: u64 = 256;

/// CPU time of the calling thread in nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sets keys in a random order and logs each in a client's words. Returns nanoseconds per key.
fn write(ks: &Keyspace, writes: u64) -> f64 {
    let (mut context, mut rng) = (ExecContext::new(NOW, 1), Rng::new(writes));
    let mut outside = Outside::new(ks, 0);
    let value = [b'v'; 64];
    let start = cpu_ns();
    for _ in 0..writes.div_ceil(BATCH) {
        let mut inside = outside.enter();
        for _ in 0..BATCH {
            let name = format!("key:{:012}", rng.next() % KEYS);
            let key = ks.key(name.as_bytes());
            let guard = inside.guard_one(&mut context, key.shard()).expect("the only thread");
            let mut db = Db::new(&guard, &mut context, 0);
            db.set(&key, record(name.as_bytes(), New::Bytes(&value), None, 0));
            if guard.is_logged() {
                db.log_copied_words(&[b"SET", name.as_bytes(), &value]);
                seal(&guard, &mut context);
            }
            guard.release();
            context.free_removed();
        }
        outside = inside.leave();
        context.ring(ks.log());
    }
    (cpu_ns() - start) as f64 / writes as f64
}

/// Reads until the log ends. Returns CPU time in nanoseconds, units and bytes.
fn discard(mut reader: LogReader) -> (u64, u64, u64) {
    let (mut units, mut bytes) = (0, 0);
    while !reader.is_over() {
        while let Some(unit) = reader.next() {
            units += 1;
            bytes += unit.len() as u64;
        }
        if reader.may_sleep() {
            std::thread::park();
        }
    }
    (cpu_ns(), units, bytes)
}

/// Calls `act` with the world stopped.
fn with_world<T>(ks: &Keyspace, act: impl FnOnce(&Guard<'_>) -> T) -> T {
    let mut context = ExecContext::new(NOW, 2);
    let mut inside = Outside::new(ks, 0).enter();
    let guard = inside.world(&mut context).expect("nothing else runs");
    act(&guard)
}

fn main() {
    let writes = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(4_000_000);
    let ks = Keyspace::new(1, 1, Box::new(|_| {}));
    write(&ks, writes / 4);
    println!("{writes} writes of 64 bytes to {KEYS} keys; CPU time in nanoseconds");
    println!("| readers | of the writer, for each | of each reader, for each |");
    println!("|---|---|---|");
    for readers in [0, 1, 2, 4, 0, 1] {
        let mut ends = Vec::new();
        let mut threads = Vec::new();
        for _ in 0..readers {
            let (send, receive) = std::sync::mpsc::channel::<LogReader>();
            let thread = std::thread::spawn(move || discard(receive.recv().expect("it is sent")));
            let reading = thread.thread().clone();
            let wake = Arc::new(move || reading.unpark());
            let reader = with_world(&ks, |guard| guard.begin_log(Target::ALL, wake));
            let reader = reader.expect("there is room");
            ends.push(reader.id());
            send.send(reader).expect("it waits");
            threads.push(thread);
        }
        let of_writer = write(&ks, writes);
        ends.iter().for_each(|id| with_world(&ks, |guard| guard.end_log(id)));
        let mut of_readers = Vec::new();
        for thread in threads {
            let (ns, units, bytes) = thread.join().expect("it does not panic");
            assert!(units >= writes && bytes > writes * 64, "everything was read");
            of_readers.push(format!("{:.0}", ns as f64 / units as f64));
        }
        println!("| {readers} | {of_writer:.0} | {} |", of_readers.join(", "));
    }
}
