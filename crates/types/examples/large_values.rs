//! Measures large values: bytes per element, instructions and time of a write, time of a snapshot.
//!
//! ```text
//!  cargo run --release -p weft-types --example large_values -- TYPE ELEMENTS WRITES [share]
//!
//!  valgrind --tool=callgrind --toggle-collect='*::writes' target/release/examples/large_values ...
//! ```
//!
//! TYPE is list, set, hash, zset or stream. With `share`, a snapshot is taken before the writes and
//! dropped after them. Without it, this measures writes without a snapshot.
//! `docs/design/shared-values.md` has figures.

use std::hint::black_box;
use std::time::Instant;
use weft_types::list::{self, End};
use weft_types::packed::Value;
use weft_types::stream::{Keep, Stream, StreamId, Trim, Waste};
use weft_types::zset::{Edit, build};
use weft_types::{Limits, Record, Shared, hash, set};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn allocated() -> usize {
    tikv_jemalloc_ctl::epoch::advance().expect("statistics are compiled in");
    tikv_jemalloc_ctl::stats::allocated::read().expect("statistics are compiled in")
}

fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

/// A text of 19 bytes.
fn text(n: u64) -> [u8; 19] {
    let mut text = *b"element:00000000000";
    let mut n = n;
    for digit in text[8..].iter_mut().rev() {
        *digit = b'0' + (n % 10) as u8;
        n /= 10;
    }
    text
}

/// Writes to a value. `n` numbers the writes, `draw` is random, and there are `elements` to choose
/// from.
fn write(record: Record, what: &str, n: u64, draw: u64, elements: u64) -> Record {
    let limits = Limits::default();
    let name = text(draw % (2 * elements));
    match what {
        "list" => {
            let end = if n.is_multiple_of(2) { End::Left } else { End::Right };
            let record = list::push(record, end, &[&name], &limits);
            list::pop(record, end, 1, &limits, &mut list::Waste::default(), |_| {})
        }
        "set" if draw >> 60 < 8 => set::add(record, Value::Bytes(&name), &limits).0,
        "set" => set::remove(record, Value::Bytes(&name)).0,
        "hash" => hash::set(record, &name, &text(draw), None, 0, &limits).0,
        "zset" => {
            let mut edit = Edit::of(record).expect("a sorted set");
            edit.change(&name, &limits, |_| Some((draw >> 40) as f64));
            edit.finish()
        }
        "stream" => append(record, elements + n, elements),
        _ => panic!("list, set, hash, zset or stream"),
    }
}

fn append(mut record: Record, n: u64, most: u64) -> Record {
    let stream = Stream::of_mut(&mut record).expect("a stream");
    let pairs = [&b"field"[..], &text(n)];
    let added = stream.log.append(StreamId::new(n + 1, 0), &pairs, &Limits::default());
    added.expect("it is small");
    let trim = Trim { keep: Keep::Newest(most), approximate: true, limit: None };
    stream.log.trim(&trim, &mut Waste::default());
    record
}

fn make(what: &str, elements: u64) -> Record {
    let limits = Limits { zset_entries: 0, hash_entries: 0, ..Limits::default() };
    match what {
        "list" => (0..elements)
            .fold(list::create(b"key", 0, End::Right, &[], &limits), |record, n| {
                list::push(record, End::Right, &[&text(n)], &limits)
            }),
        "set" => (0..elements)
            .fold(set::create(b"key", b"x", usize::MAX, None, 0, &limits), |record, n| {
                set::add(record, Value::Bytes(&text(2 * n)), &limits).0
            }),
        "hash" => (0..elements).fold(hash::create(b"key", &[], 0, &limits), |record, n| {
            hash::set(record, &text(2 * n), &text(n), None, 0, &limits).0
        }),
        "zset" => {
            let mut edit = Edit::of(build(b"key", None, 0, &[(text(0), 0.0)], &limits));
            let edit = edit.as_mut().expect("a sorted set");
            let mut seed = 1;
            for n in 0..elements {
                edit.change(&text(2 * n), &limits, |_| Some((next(&mut seed) >> 40) as f64));
            }
            std::mem::replace(edit, Edit::new(b"", None, 0)).finish()
        }
        "stream" => (0..elements)
            .fold(Stream::default().into_record(b"key", None, 0), |record, n| {
                append(record, n, u64::MAX)
            }),
        _ => panic!("list, set, hash, zset or stream"),
    }
}

#[inline(never)]
fn writes(mut record: Record, what: &str, writes: u64, elements: u64) -> Record {
    let mut seed = 77;
    for n in 0..writes {
        record = write(record, what, n, next(&mut seed), elements);
    }
    record
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [what, elements, count] = [1, 2, 3].map(|n| words.get(n).expect("TYPE ELEMENTS WRITES"));
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let (elements, count) = (number(elements), number(count));
    let before = allocated();
    let record = make(what, elements);
    let bytes = (allocated() - before) as f64;
    println!("{what}: {:.2} bytes for each of {elements}", bytes / elements as f64);
    let start = Instant::now();
    let shared = words.get(4).map(|_| Shared::of(&record));
    if shared.is_some() {
        println!("shared in {:.1} us", start.elapsed().as_secs_f64() * 1e6);
    }
    let before = allocated() as f64;
    let start = Instant::now();
    let record = black_box(writes(record, what, count, elements));
    println!("{:.1} ns for a write", start.elapsed().as_secs_f64() * 1e9 / count as f64);
    println!("{:+.2} MB meanwhile", (allocated() as f64 - before) / 1e6);
    drop((shared, record));
}
