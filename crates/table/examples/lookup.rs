//! Measures the time of a lookup, and the memory that the table adds per key.
//!
//! ```text
//! cargo run --profile quick -p weft-table --example lookup [keys]
//! ```
//!
//! Random 16-byte keys with 64-byte payloads are looked up in random order:
//! one after the other, then planned 16 at a time as a pipelined batch would
//! be. Prints nanoseconds of processor time per operation, hashing included.

use std::hint::black_box;
use std::time::Instant;

use weft_table::{KeyHasher, Owner, Record, Table, epoch};

struct Plain;

impl Owner for Plain {
    unsafe fn drop_payload(_kind: u8, _payload: &mut [u8]) {}
}

#[derive(Clone, Copy)]
struct Fold;

impl KeyHasher for Fold {
    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        let mut hasher = foldhash::quality::FixedState::with_seed(7).build_hasher();
        hasher.write(key);
        hasher.finish()
    }
}

type Keys = Table<Plain, Fold>;

/// xorshift64*: good enough for drawing keys.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

/// The i-th key: 16 bytes that look random.
fn key(i: u64) -> [u8; 16] {
    let mut rng = Rng(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&rng.next().to_le_bytes());
    key[8..].copy_from_slice(&i.to_le_bytes());
    key
}

/// CPU time of this thread, where Linux reports it, so that a busy machine affects the figures
/// less; else wall time.
fn cpu_time(start: Instant) -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let on_cpu = schedstat.as_deref().and_then(|line| line.split(' ').next());
    match on_cpu.and_then(|ns| ns.parse().ok()) {
        Some(ns) => ns,
        None => u64::try_from(start.elapsed().as_nanos()).expect("less than 500 years"),
    }
}

fn per_op(operations: usize, run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    let before = cpu_time(start);
    run();
    (cpu_time(start) - before) as f64 / operations as f64
}

const BATCH: usize = 16;

fn one_by_one(table: &mut Keys, wanted: &[[u8; 16]]) -> usize {
    let table = table.get_mut();
    let hasher = table.hasher();
    wanted.iter().filter(|key| touch(table.find(hasher.hash(*key), *key))).count()
}

fn planned(table: &mut Keys, wanted: &[[u8; 16]]) -> usize {
    let hasher = table.hasher();
    let mut found = 0;
    for batch in wanted.chunks_exact(BATCH) {
        let mut hashes = [0; BATCH];
        let guard = epoch::pin();
        for (hash, key) in hashes.iter_mut().zip(batch) {
            *hash = hasher.hash(key);
            table.plan_bucket(*hash, &guard);
        }
        for hash in hashes {
            table.plan_record(hash, weft_table::LINES, &guard);
        }
        drop(guard);
        let table = table.get_mut();
        for (hash, key) in hashes.iter().zip(batch) {
            found += usize::from(touch(table.find(*hash, key)));
        }
    }
    found
}

/// Reads from the payload, as a command would.
fn touch(record: Option<weft_table::RecordRef<'_, Plain>>) -> bool {
    match record {
        Some(record) => {
            black_box(record.payload()[63]);
            true
        }
        None => false,
    }
}

fn main() {
    let keys: usize = std::env::args()
        .nth(1)
        .map_or(1_000_000, |n| n.parse().expect("the argument is a number of keys"));
    let mut table = Keys::new(Fold);
    let mut report_at = 100_000;
    let payload = [7; 64];
    println!("      keys   bytes/key    depth  segments  fill  at home");
    let insert = per_op(keys, || {
        for i in 0..keys {
            let key = key(i as u64);
            let mut table = table.get_mut();
            let hash = table.hasher().hash(&key);
            table.insert(hash, Record::from_bytes(&key, None, 0, 0, &payload));
            if i + 1 == report_at || i + 1 == keys {
                report_at += report_at / 8;
                let stats = table.stats();
                println!(
                    "{:>10}  {:>10.2}  {:>7}  {:>8}  {:>3}%  {:>6.2}%",
                    stats.len,
                    stats.memory as f64 / stats.len as f64,
                    stats.depth,
                    stats.segments,
                    100 * stats.len / stats.capacity,
                    100.0 * stats.displaced[0] as f64 / stats.len as f64,
                );
            }
        }
    });
    let mut rng = Rng(42);
    let operations = 2_000_000 / BATCH * BATCH;
    let present: Vec<_> = (0..operations).map(|_| key(rng.below(keys) as u64)).collect();
    let absent: Vec<_> = (0..operations).map(|_| key((keys + rng.below(keys)) as u64)).collect();
    println!("insert:              {insert:>6.1} ns");
    for (name, wanted, expected) in [("present", &present, operations), ("absent", &absent, 0)] {
        for round in 1..=2 {
            let plain = per_op(operations, || {
                assert_eq!(one_by_one(&mut table, wanted), expected);
            });
            let batched = per_op(operations, || {
                assert_eq!(planned(&mut table, wanted), expected);
            });
            println!(
                "find {name}, round {round}: {plain:>6.1} ns one by one, \
                 {batched:>6.1} ns planned by {BATCH}"
            );
        }
    }
    let removal = per_op(keys, || {
        let mut table = table.get_mut();
        for i in 0..keys {
            let key = key(i as u64);
            let hash = table.hasher().hash(&key);
            assert!(table.remove(hash, &key).is_some());
        }
    });
    println!("remove:              {removal:>6.1} ns");
    assert_eq!(table.memory_usage(), 0);
}
