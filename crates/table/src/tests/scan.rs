//! Tests the guarantee of scans and sweeps while the table changes its shape.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::{Hasher, TestTable, Token, check, key, number, shown, which};
use crate::groups::group_of;
use crate::scan::{CURSOR_END, Verdict, Which};
use crate::table::KeyHasher;

/// Keys from here on are added and removed during a scan; lower ones stay.
const PASSING: u32 = 1_000_000;

/// The expiry of a key in these tests.
fn expiry_of(n: u32) -> Option<i64> {
    n.is_multiple_of(2).then_some(5)
}

fn insert(table: &mut TestTable, token: &Token, n: u32) {
    let key = key(n);
    let hash = table.hasher().hash(&key);
    table.get_mut().replace_or_insert(hash, token.record(&key, expiry_of(n)));
}

fn remove(table: &mut TestTable, n: u32) {
    let key = key(n);
    let hash = table.hasher().hash(&key);
    table.get_mut().remove(hash, &key);
}

#[test]
fn scan_of_an_unchanging_table_returns_each_record_once() {
    let token = Token::default();
    let sizes: &[u32] = if cfg!(miri) { &[0, 1, 9, 40] } else { &[0, 1, 8, 9, 100, 330, 5000] };
    for hasher in [Hasher::Good, Hasher::FewHomes, Hasher::ZeroHome, Hasher::Deep, Hasher::Grouped]
    {
        for &len in sizes {
            let mut table = TestTable::new(hasher);
            (0..len).for_each(|n| insert(&mut table, &token, n));
            let mut seen = HashMap::new();
            let mut cursor = 0;
            let mut steps = 0;
            loop {
                let table = table.get_mut();
                let next =
                    table.scan(cursor, |record| *seen.entry(number(record)).or_insert(0) += 1);
                steps += 1;
                assert!(next == 0 || next > cursor && next < CURSOR_END);
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(seen.len(), len as usize);
            assert!(seen.values().all(|&times| times == 1));
            if len <= 8 {
                assert_eq!(steps, 1, "a table of one bucket is scanned in one step");
            }
        }
    }
}

#[test]
fn invalid_cursors_are_harmless() {
    let token = Token::default();
    let mut table = TestTable::new(Hasher::Good);
    let len = if cfg!(miri) { 40 } else { 5000 };
    (0..len).for_each(|n| insert(&mut table, &token, n));
    let mut table = table.get_mut();
    for cursor in [CURSOR_END, CURSOR_END + 1, u64::MAX, 1 << 63] {
        assert_eq!(table.scan(cursor, |_| panic!("nothing there")), 0);
    }
    for cursor in [1 << 32, 1 << 40, u64::MAX] {
        let next = table.sweep(cursor, 1, Which::All, |_| panic!("nothing"), |_| panic!("nothing"));
        assert_eq!(next, 0);
    }
    let mut rng = super::rng(3);
    for _ in 0..100 {
        let cursor = rng() % CURSOR_END;
        let next = table.scan(cursor, |_| ());
        assert!(next == 0 || next > cursor);
    }
}

/// The changes between two steps: how many keys are added, then how many are removed.
type Churn = (u32, u32);

fn churn() -> impl Strategy<Value = Vec<Churn>> {
    let most = if cfg!(miri) { 150u32 } else { 1500 };
    let calm = (0..4u32, 0..4u32);
    prop::collection::vec(
        prop_oneof![4 => calm, 1 => (0..most, Just(0u32)), 1 => (Just(0u32), 0..most)],
        1..60,
    )
}

/// The most changing keys at a time; with more, a scan might never end.
const CROWD: u32 = 6000;

/// Changing keys, as a queue.
#[derive(Default)]
struct Passing {
    first: u32,
    next: u32,
}

impl Passing {
    fn step(&mut self, table: &mut TestTable, token: &Token, (come, go): Churn) {
        let present = self.next - self.first;
        let (come, go) = if present + come > CROWD { (go, come) } else { (come, go) };
        for _ in 0..come {
            insert(table, token, PASSING + self.next);
            self.next += 1;
        }
        for _ in 0..go.min(self.next - self.first) {
            remove(table, PASSING + self.first);
            self.first += 1;
        }
        check(&table.get_mut());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 40 },
        failure_persistence: None,
        max_shrink_iters: 300,
        ..ProptestConfig::default()
    })]

    #[test]
    #[ignore = "long: cargo xtask test --all"]
    fn scan_returns_lasting_keys_while_others_change(
        hasher in prop::sample::select(vec![Hasher::Good, Hasher::FewHomes, Hasher::Deep, Hasher::Grouped]),
        staying in 0..if cfg!(miri) { 60u32 } else { 1200 },
        first in 0..if cfg!(miri) { 200u32 } else { 3000 },
        churns in churn(),
    ) {
        let token = Token::default();
        let mut table = TestTable::new(hasher);
        let mut passing = Passing::default();
        (0..staying).for_each(|n| insert(&mut table, &token, n));
        passing.step(&mut table, &token, (first, 0));
        let mut seen = HashSet::new();
        let mut cursor = 0;
        for &churn in churns.iter().cycle() {
            // Several steps, so that changes happen at all stages of a scan.
            for _ in 0..11 {
                cursor = table.get_mut().scan(cursor, |record| {
                    seen.insert(number(record));
                });
                if cursor == 0 {
                    break;
                }
            }
            if cursor == 0 {
                break;
            }
            passing.step(&mut table, &token, churn);
        }
        prop_assert_eq!((0..staying).find(|n| !seen.contains(n)), None);
    }

    #[test]
    fn scan_of_a_group_returns_its_lasting_keys_while_others_change(
        staying in 0..if cfg!(miri) { 60u32 } else { 1200 },
        first in 0..if cfg!(miri) { 200u32 } else { 3000 },
        churns in churn(),
        group in prop::sample::select(vec![0, 1, 37, 63]),
    ) {
        let token = Token::default();
        let mut table = TestTable::new(Hasher::Grouped);
        let mut passing = Passing::default();
        (0..staying).for_each(|n| insert(&mut table, &token, n));
        passing.step(&mut table, &token, (first, 0));
        let belongs = |n: u32| group_of(Hasher::Grouped.hash(&key(n))) == group;
        let mut seen = HashMap::new();
        let mut cursor = 0;
        for (round, &churn) in churns.iter().cycle().enumerate() {
            cursor = table.get_mut().scan_group(group, cursor, |record| {
                *seen.entry(number(record)).or_insert(0) += 1;
            });
            if cursor == 0 {
                break;
            }
            // Several steps, so that changes happen at all stages of a scan.
            if round % 5 == 0 {
                passing.step(&mut table, &token, churn);
            }
        }
        prop_assert_eq!((0..staying).find(|&n| belongs(n) && !seen.contains_key(&n)), None);
        prop_assert_eq!(seen.keys().find(|&&n| !belongs(n)), None);
        // Of an unchanging table, it returns each once.
        let (mut seen, mut cursor) = (0, 0);
        loop {
            cursor = table.get_mut().scan_group(group, cursor, |_| seen += 1);
            if cursor == 0 {
                break;
            }
        }
        prop_assert_eq!(seen, table.group_len(group));
    }

    #[test]
    fn sweep_passes_lasting_keys_while_others_change(
        staying in 0..if cfg!(miri) { 60u32 } else { 1200 },
        first in 0..if cfg!(miri) { 200u32 } else { 3000 },
        which in which(),
        churns in churn(),
    ) {
        let token = Token::default();
        let mut table = TestTable::new(Hasher::Good);
        let mut passing = Passing::default();
        (0..staying).for_each(|n| insert(&mut table, &token, n));
        passing.step(&mut table, &token, (first, 0));
        let mut seen = HashSet::new();
        let mut cursor = 0;
        for &churn in churns.iter().cycle() {
            // The sweep itself removes some of the changing keys.
            cursor = table.get_mut().sweep(cursor, 1, which, |record| {
                let n = number(record.into_ref());
                seen.insert(n);
                if n >= PASSING && n.is_multiple_of(5) { Verdict::Remove } else { Verdict::Keep }
            }, drop);
            check(&table.get_mut());
            if cursor == 0 {
                break;
            }
            passing.step(&mut table, &token, churn);
        }
        let missed = (0..staying).find(|&n| !seen.contains(&n) && shown(which, n, expiry_of(n)));
        prop_assert_eq!(missed, None);
        prop_assert!(seen.iter().all(|&n| shown(which, n, expiry_of(n))));
    }
}
