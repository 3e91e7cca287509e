//! The cost of a snapshot: a write without one, the first and the second write of a key during
//! one, the stop of the world for the cut, the longest hold of a shard, and the walk.
//!
//! `cargo run --release -p weft-keyspace --example snapshot_cost [KEYS]`

use std::time::Instant;
use weft_keyspace::commit::{end_group, seal, settle};
use weft_keyspace::snapshot::{Snapshot, Step};
use weft_keyspace::{Db, ExecContext, Keyspace, Outside, Rng, SlowLaneThread};
use weft_types::string::{New, record};

const NOW: i64 = 1_000_000;

/// Sets every key in a random order. Returns nanoseconds per key.
fn set_all(ks: &Keyspace, keys: u64) -> f64 {
    let (mut context, mut rng) = (ExecContext::new(NOW, 1), Rng::new(keys));
    let mut inside = Outside::new(ks, 0).enter();
    let odd = rng.next() | 1;
    let value = [b'v'; 64];
    let mut name = Vec::new();
    let start = Instant::now();
    for n in 0..keys {
        name.clear();
        name.extend_from_slice(b"key:");
        name.extend_from_slice(&(n.wrapping_mul(odd) & (keys - 1)).to_le_bytes());
        let key = ks.key(&name);
        let guard = inside.guard_one(&mut context, key.shard()).expect("the shard is free");
        Db::new(&guard, &mut context, 0).set(&key, record(&name, New::Bytes(&value), None, 0));
        if !context.effects.is_empty() {
            settle(&guard, &mut context);
            seal(&guard, &mut context);
            end_group(&guard, &mut context);
        }
        guard.release();
        context.free_removed();
    }
    start.elapsed().as_nanos() as f64 / keys as f64
}

fn main() {
    let keys = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1 << 20);
    let keys = u64::next_power_of_two(keys);
    let ks = Keyspace::new(16, 1, Box::new(|_| {}));
    set_all(&ks, keys);
    let clock = || NOW;
    let mut hand = SlowLaneThread::background(&ks, &clock);
    let mut context = ExecContext::new(NOW, 2);
    println!("{keys} keys of 64 bytes");
    for _ in 0..3 {
        println!("SET without a snapshot: {:.0} ns", set_all(&ks, keys));
        let start = Instant::now();
        let begun = Snapshot::begin(&mut hand, &mut context, 0, |_| ());
        let cut = start.elapsed();
        let (snapshot, ()) = begun.expect("the only one");
        println!("cut: {:.0} us", cut.as_secs_f64() * 1e6);
        println!("SET of a key not given yet: {:.0} ns", set_all(&ks, keys));
        println!("SET of one that is kept: {:.0} ns", set_all(&ks, keys));
        println!("kept: {:.0} bytes for each", snapshot.progress().kept_bytes as f64 / keys as f64);
        drop(snapshot);

        let (snapshot, ()) =
            Snapshot::begin(&mut hand, &mut context, 0, |_| ()).expect("the only one");
        let (start, mut longest, mut steps, mut bytes) = (Instant::now(), 0.0f64, 0, 0);
        loop {
            let before = Instant::now();
            let step =
                snapshot.step(&mut hand, &mut context, &mut |image| bytes += image.alloc_size());
            longest = longest.max(before.elapsed().as_secs_f64() * 1e6);
            steps += 1;
            if step == Step::Done {
                break;
            }
        }
        let each = start.elapsed().as_nanos() as f64 / keys as f64;
        println!(
            "walk: {each:.0} ns for each key, {steps} steps, the longest {longest:.0} us, {bytes} bytes"
        );
    }
}
