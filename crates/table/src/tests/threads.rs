//! Threads plan without the lock while others change the table's shape under the lock. Alone, this
//! shows that nothing crashes and no key is lost. Under Miri and the thread sanitizer, it also
//! shows that there is no data race and no use after free.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::{Hasher, TestTable, Token, check, key, keys_of, mix};
use crate::epoch;
use crate::table::{KeyHasher, LINES};

const KEYS: u32 = if cfg!(miri) { 350 } else { 20_000 };
const ROUNDS: u32 = if cfg!(miri) { 1 } else { 12 };

fn plan_until(stop: &AtomicBool, tables: &[TestTable], seed: u64) -> u64 {
    let mut n = seed;
    while !stop.load(Ordering::Relaxed) {
        let guard = epoch::pin();
        for table in tables {
            let first = n;
            for n in first..first + 16 {
                table.plan_bucket(Hasher::Good.hash(&key(mix(n) as u32 % KEYS)), &guard);
            }
            for n in first..first + 16 {
                table.plan_record(Hasher::Good.hash(&key(mix(n) as u32 % KEYS)), LINES, &guard);
            }
            // Any value is acceptable: other threads are writing it.
            assert!(table.len() <= KEYS as usize && table.expiring() <= KEYS as usize);
        }
        n += 16;
    }
    n - seed
}

#[test]
fn planners_may_run_while_the_table_changes() {
    let token = Token::default();
    let tables = [TestTable::new(Hasher::Good), TestTable::new(Hasher::Good)];
    let lock = Mutex::new(());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let planners: Vec<_> = (1..=2)
            .map(|seed| {
                scope.spawn({
                    let (stop, tables) = (&stop, &tables);
                    move || plan_until(stop, tables, seed << 40)
                })
            })
            .collect();
        // Two threads change the table in turn, each with its own keys.
        let mutators: Vec<_> = (0..2)
            .map(|own| {
                let (lock, tables, token) = (&lock, &tables, &token);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        mutate(lock, tables, token, own, round);
                    }
                })
            })
            .collect();
        // Stop the planners before propagating a panic; otherwise they would never end.
        let mutated: Vec<_> = mutators.into_iter().map(|thread| thread.join()).collect();
        stop.store(true, Ordering::Relaxed);
        let planned: u64 = planners.into_iter().map(|thread| thread.join().unwrap()).sum();
        mutated.into_iter().for_each(|result| result.unwrap());
        assert!(planned > 0);
    });
    let [mut a, mut b] = tables;
    let (a, mut b) = (a.get_mut(), b.get_mut());
    check(&a);
    check(&b);
    let mut keys = keys_of(&a);
    keys.extend(keys_of(&b));
    keys.sort_unstable();
    let expected: Vec<_> = (0..KEYS).filter(|n| n / 2 % 3 == 0).collect();
    assert_eq!(keys, expected);
    assert_eq!(token.owned(), expected.len());
    // Drop the rest on another thread, as in FLUSHALL ASYNC.
    let detached = b.take();
    thread::spawn(move || drop(detached)).join().unwrap();
    assert_eq!(token.owned(), a.len());
}

/// Inserts all keys of this thread, exchanges the tables, and removes two thirds of the keys.
fn mutate(lock: &Mutex<()>, tables: &[TestTable; 2], token: &Token, own: u32, round: u32) {
    let keys = || (0..KEYS).filter(move |n| n % 2 == own);
    for n in keys() {
        let _held = lock.lock().unwrap();
        // SAFETY: except for planning, both tables are used only under the lock.
        let (mut a, mut b) = unsafe { (tables[0].exclusive(), tables[1].exclusive()) };
        let key = key(n);
        let hash = Hasher::Good.hash(&key);
        if let Some(slot) = a.find_mut(hash, &key) {
            let expiry = slot.record().expiry().map_or(Some(1), |_| None);
            slot.update(|record| record.with_expiry(expiry));
        } else if b.find(hash, &key).is_none() {
            a.insert(hash, token.record(&key, None));
        }
        if n % (KEYS / 4) == own {
            a.swap(&mut b);
        }
    }
    for n in keys().filter(|n| n / 2 % 3 != 0) {
        let _held = lock.lock().unwrap();
        // SAFETY: as above.
        let (mut a, mut b) = unsafe { (tables[0].exclusive(), tables[1].exclusive()) };
        let key = key(n);
        let hash = Hasher::Good.hash(&key);
        let removed = a.remove(hash, &key).or_else(|| b.remove(hash, &key));
        assert!(removed.is_some(), "key {n} was lost in round {round}");
    }
}
