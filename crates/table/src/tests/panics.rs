//! The table stays consistent when closures and hashers panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Counted, FUSE, Hasher, TestTable, Token, Touchy, check, key, keys_of, number};
use crate::scan::{Verdict, Which};
use crate::segment::{MAX_BUCKETS, limit};
use crate::table::{KeyHasher, Table};

fn fails(f: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(f)).is_err(), "this must panic");
}

fn table_of(len: u32, token: &Token) -> TestTable {
    let mut table = TestTable::new(Hasher::Good);
    for n in 0..len {
        let key = key(n);
        table.get_mut().insert(Hasher::Good.hash(&key), token.record(&key, Some(1)));
    }
    table
}

#[test]
fn panicking_update_only_loses_its_entry() {
    let token = Token::default();
    let mut table = table_of(50, &token);
    let mut table = table.get_mut();
    let key = key(7);
    let hash = Hasher::Good.hash(&key);
    fails(|| {
        let slot = table.find_mut(hash, &key).unwrap();
        let _ = slot.update(|_| panic!("no"));
    });
    check(&table);
    assert!(table.find(hash, &key).is_none());
    assert_eq!((table.len(), table.expiring(), token.owned()), (49, 49, 49));
    table.insert(hash, token.record(&key, None));
    check(&table);
    assert_eq!((table.len(), table.expiring(), token.owned()), (50, 49, 50));
}

#[test]
fn panicking_sweep_stops_between_two_records() {
    let token = Token::default();
    let len = 100;
    let mut table = table_of(len, &token);
    let mut table = table.get_mut();
    let mut shown = 0;
    fails(|| {
        let _ = table.sweep(
            0,
            1000,
            Which::Expiring,
            |_| {
                shown += 1;
                assert!(shown <= 60, "enough");
                Verdict::Remove
            },
            drop,
        );
    });
    check(&table);
    assert_eq!((table.len(), token.owned()), (40, 40));
    fails(|| {
        let _ = table.sweep(0, 1000, Which::Expiring, |_| Verdict::Remove, |_| panic!("no"));
    });
    check(&table);
    assert_eq!((table.len(), token.owned()), (39, 39));
    assert_eq!(keys_of(&table).len(), 39);
}

#[test]
fn panicking_walks_change_nothing() {
    let token = Token::default();
    let mut table = table_of(30, &token);
    let table = table.get_mut();
    fails(|| table.for_each(|_| panic!("no")));
    fails(|| table.sample(5, &mut super::rng(1), |_| panic!("no")));
    fails(|| {
        let mut cursor = 0;
        loop {
            cursor = table.scan(cursor, |record| assert_ne!(number(record), 13));
        }
    });
    check(&table);
    assert_eq!(table.len(), 30);
}

#[test]
fn hasher_panicking_in_a_split_changes_nothing() {
    let token = Token::default();
    let mut table = Table::<Counted, Touchy>::new(Touchy);
    let full = limit(MAX_BUCKETS) as u32;
    let insert = |table: &mut Table<Counted, Touchy>, n: u32| {
        let key = key(n);
        // Not through the table's hasher, which only splits call.
        table.get_mut().insert(Hasher::Good.hash(&key), token.record(&key, None));
    };
    (0..full).for_each(|n| insert(&mut table, n));
    assert_eq!(table.get_mut().stats().segments, 1);
    FUSE.set(Some(100));
    fails(|| insert(&mut table, full));
    FUSE.set(None);
    check(&table.get_mut());
    assert_eq!((table.len(), token.owned()), (full as usize, full as usize));
    insert(&mut table, full);
    check(&table.get_mut());
    assert_eq!(table.get_mut().stats().segments, 2);
    assert_eq!(table.len(), full as usize + 1);
}
