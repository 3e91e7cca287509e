//! Compares the table with `std::collections::HashMap`, with good and bad hashes.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{
    Hasher, PLAIN, TestTable, Token, check, is_marked, key, keys_of, marked, number, rng, shown,
    which,
};
use crate::record::Record;
use crate::scan::{Verdict, Which};
use crate::table::KeyHasher;

#[derive(Clone, Debug)]
enum Step {
    /// Inserts or replaces this many consecutive keys, starting at this one.
    Put(u32, u32, Option<i64>),
    /// Removes this many consecutive keys, starting at this one.
    Remove(u32, u32),
    /// Changes the expiry of this many consecutive keys, through `update`.
    Expire(u32, u32, Option<i64>),
    /// Removes by a sweep all keys with this remainder modulo 3.
    Sweep(u32, Which),
    /// Takes all records out.
    Take,
    /// Exchanges the contents with another table.
    Swap,
}

const KEYS: u32 = if cfg!(miri) { 360 } else { 6000 };

fn step() -> impl Strategy<Value = Step> {
    let range = || (0..KEYS, 1..KEYS / 2);
    prop_oneof![
        6 => (range(), any::<Option<i64>>()).prop_map(|((a, n), at)| Step::Put(a, n, at)),
        5 => range().prop_map(|(a, n)| Step::Remove(a, n)),
        3 => (range(), any::<Option<i64>>()).prop_map(|((a, n), at)| Step::Expire(a, n, at)),
        2 => (0..3u32, which()).prop_map(|(rest, which)| Step::Sweep(rest, which)),
        1 => Just(Step::Take),
        1 => Just(Step::Swap),
    ]
}

fn hasher() -> impl Strategy<Value = Hasher> {
    prop_oneof![
        3 => Just(Hasher::Good),
        1 => Just(Hasher::FewHomes),
        1 => Just(Hasher::ZeroHome),
        1 => Just(Hasher::Deep),
        1 => Just(Hasher::Grouped),
    ]
}

/// A table and its expected contents: key and expiry.
struct Pair {
    table: TestTable,
    model: HashMap<u32, Option<i64>>,
    token: Token,
}

impl Pair {
    fn new(hasher: Hasher) -> Pair {
        Pair { table: TestTable::new(hasher), model: HashMap::new(), token: Token::default() }
    }

    fn put(&mut self, n: u32, expiry: Option<i64>) {
        let key = key(n);
        let hash = self.table.hasher().hash(&key);
        let record = self.token.record(&key, expiry);
        let old = self.table.get_mut().replace_or_insert(hash, record);
        let expected = self.model.insert(n, expiry);
        assert_eq!(old.map(|old| old.expiry()), expected);
    }

    fn remove(&mut self, n: u32) {
        let key = key(n);
        let hash = self.table.hasher().hash(&key);
        let old = self.table.get_mut().remove(hash, &key);
        assert_eq!(old.map(|old| old.expiry()), self.model.remove(&n));
    }

    fn expire(&mut self, n: u32, expiry: Option<i64>) {
        let key = key(n);
        let hash = self.table.hasher().hash(&key);
        let mut table = self.table.get_mut();
        let slot = table.find_mut(hash, &key);
        assert_eq!(slot.is_some(), self.model.contains_key(&n));
        if let Some(slot) = slot {
            let record = slot.update(|record| marked(record.with_expiry(expiry)));
            assert_eq!(record.expiry(), expiry);
            self.model.insert(n, expiry);
        }
    }

    fn sweep(&mut self, rest: u32, which: Which) {
        let mut table = self.table.get_mut();
        let mut removed = Vec::new();
        let mut cursor = 0;
        loop {
            cursor = table.sweep(
                cursor,
                10,
                which,
                |record| {
                    let expiry = record.expiry();
                    let n = number(record.into_ref());
                    assert!(shown(which, n, expiry));
                    if n % 3 == rest { Verdict::Remove } else { Verdict::Keep }
                },
                |record| removed.push(u32::from_le_bytes(record.key().try_into().unwrap())),
            );
            check(&table);
            if cursor == 0 {
                break;
            }
        }
        for n in removed {
            assert!(self.model.remove(&n).is_some(), "removed twice or never inserted");
        }
        let left =
            self.model.iter().find(|&(&n, &expiry)| n % 3 == rest && shown(which, n, expiry));
        assert_eq!(left, None, "the sweep missed a record");
    }

    fn verify(&mut self) {
        let hasher = self.table.hasher();
        let table = self.table.get_mut();
        check(&table);
        assert_eq!(table.len(), self.model.len());
        assert_eq!(table.expiring(), self.model.values().flatten().count());
        let marked = self.model.iter().filter(|&(&n, &expiry)| is_marked(n, expiry)).count();
        assert_eq!(table.marked(), marked);
        let mut keys: Vec<_> = self.model.keys().copied().collect();
        keys.sort_unstable();
        assert_eq!(keys_of(&table), keys);
        for n in 0..KEYS * 3 / 2 {
            let key = key(n);
            let found = table.find(hasher.hash(&key), &key);
            assert_eq!(found.map(|record| record.expiry()), self.model.get(&n).copied());
        }
        assert_eq!(self.token.owned(), self.model.len());
        self.verify_random(keys.len());
    }

    fn verify_random(&mut self, len: usize) {
        let table = self.table.get_mut();
        let mut rng = rng(1);
        for n in [1, 5, 40] {
            let mut sample = Vec::new();
            table.sample(n, &mut rng, |record| sample.push(number(record)));
            assert!(sample.len() <= n && sample.len() <= len);
            assert!(sample.iter().all(|n| self.model.contains_key(n)));
            sample.sort_unstable();
            sample.dedup_by(|a, b| a == b);
            let distinct = sample.len();
            sample.dedup();
            assert_eq!(sample.len(), distinct);
            let picked = table.random(&mut rng).map(number);
            assert_eq!(picked.is_some(), len > 0);
            assert!(picked.is_none_or(|n| self.model.contains_key(&n)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 60 },
        failure_persistence: None,
        max_shrink_iters: 300,
        ..ProptestConfig::default()
    })]

    #[test]
    fn table_matches_a_hash_map(
        hasher in hasher(),
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 5 } else { 14 }),
    ) {
        let mut pair = Pair::new(hasher);
        let mut other = Pair::new(hasher);
        for step in steps {
            match step {
                Step::Put(from, n, expiry) => {
                    for n in from..from + n {
                        pair.put(n, expiry.filter(|_| n % 4 != 0));
                    }
                }
                Step::Remove(from, n) => (from..from + n).for_each(|n| pair.remove(n)),
                Step::Expire(from, n, expiry) => {
                    (from..from + n).for_each(|n| pair.expire(n, expiry));
                }
                Step::Sweep(rest, which) => pair.sweep(rest, which),
                Step::Take => {
                    let detached = pair.table.get_mut().take();
                    prop_assert_eq!(detached.len(), pair.model.len());
                    prop_assert_eq!(pair.token.owned(), pair.model.len());
                    pair.model.clear();
                    prop_assert_eq!(pair.table.memory_usage(), 0);
                }
                Step::Swap => {
                    pair.table.get_mut().swap(&mut other.table.get_mut());
                    std::mem::swap(&mut pair.model, &mut other.model);
                    std::mem::swap(&mut pair.token, &mut other.token);
                }
            }
            pair.verify();
        }
        other.verify();
        let Pair { table, token, .. } = pair;
        drop(table);
        prop_assert_eq!(token.owned(), 0, "dropped with the table");
    }
}

#[test]
fn emptied_table_has_no_memory() {
    // Under Miri one hasher must suffice.
    let hashers = [Hasher::Deep, Hasher::Good, Hasher::FewHomes, Hasher::ZeroHome];
    for hasher in hashers.into_iter().take(if cfg!(miri) { 1 } else { 4 }) {
        let mut pair = Pair::new(hasher);
        assert_eq!(pair.table.memory_usage(), 0);
        (0..KEYS).for_each(|n| pair.put(n, None));
        pair.verify();
        let mut bytes = pair.table.memory_usage();
        for n in 0..KEYS {
            pair.remove(n);
            if n % (KEYS / 8) == 0 {
                check(&pair.table.get_mut());
                assert!(pair.table.memory_usage() <= bytes);
                bytes = pair.table.memory_usage();
            }
        }
        assert_eq!(pair.table.memory_usage(), 0);
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many keys")]
fn overhead_is_bounded_at_all_sizes() {
    let mut pair = Pair::new(Hasher::Good);
    for n in 0..KEYS * 10 {
        pair.put(n, None);
        let len = n as usize + 1;
        if len >= 200 {
            let bytes = pair.table.memory_usage();
            assert!(bytes <= 14 * len, "{bytes} bytes for {len} keys");
            assert!(bytes >= 9 * len, "{bytes} bytes for {len} keys");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many keys")]
fn shrunk_table_takes_the_memory_of_a_small_one() {
    let mut pair = Pair::new(Hasher::Good);
    (0..60_000).for_each(|n| pair.put(n, None));
    for (from, to) in [(200, 60_000), (20, 200)] {
        (from..to).for_each(|n| pair.remove(n));
        // Segments are at least a quarter full: 48 bytes for a key, with headers. Each also has a
        // share of four words of directory per segment.
        let bytes = pair.table.memory_usage();
        assert!(bytes <= 48 * from as usize + 512, "{bytes} bytes for {from} keys");
        pair.verify();
    }
}

#[test]
fn random_picks_are_nearly_uniform() {
    let mut pair = Pair::new(Hasher::Good);
    let len = if cfg!(miri) { 12 } else { 2000 };
    (0..len).for_each(|n| pair.put(n, None));
    let table = pair.table.get_mut();
    let mut rng = rng(9);
    let mut picked = vec![0u32; len as usize];
    let rounds = 100;
    for _ in 0..rounds * len {
        picked[number(table.random(&mut rng).unwrap()) as usize] += 1;
    }
    // Ten standard deviations for each, plus a few percent of bias.
    assert!(picked.iter().all(|&n| n > 5 && n < 230), "{picked:?}");
}

#[test]
fn sample_has_the_requested_number_of_distinct_records() {
    let mut pair = Pair::new(Hasher::Good);
    let sizes: &[u32] = if cfg!(miri) { &[1, 9, 40] } else { &[1, 5, 9, 100, 900] };
    for &len in sizes {
        (0..len)
            .filter(|n| !pair.model.contains_key(n))
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|n| pair.put(n, None));
        let table = pair.table.get_mut();
        let mut rng = rng(u64::from(len));
        for n in [0, 1, 5, 16, 10_000] {
            let mut sample = Vec::new();
            table.sample(n, &mut rng, |record| sample.push(number(record)));
            assert_eq!(sample.len(), n.min(len as usize));
            sample.sort_unstable();
            sample.dedup();
            assert_eq!(sample.len(), n.min(len as usize));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many keys")]
fn stats_add_up() {
    let mut pair = Pair::new(Hasher::FewHomes);
    (0..500).for_each(|n| pair.put(n, (n % 2 == 0).then_some(1)));
    let table = pair.table.get_mut();
    let stats = table.stats();
    assert_eq!((stats.len, stats.expiring), (500, 250));
    assert_eq!(stats.displaced.iter().sum::<usize>(), 500);
    assert!(stats.displaced[1] > 0, "five home buckets cannot hold 500 entries");
    assert!(stats.capacity >= 500 && stats.segments >= 2);
    assert_eq!(stats.memory, table.memory_usage());
    assert!(stats.to_string().contains("records: 500 (250 with expiry)"));
}

#[test]
fn slot_reads_and_changes_its_record() {
    let mut pair = Pair::new(Hasher::Good);
    pair.put(1, Some(10));
    let key = key(1);
    let hash = Hasher::Good.hash(&key);
    let mut table = pair.table.get_mut();
    let mut slot = table.find_mut(hash, &key).unwrap();
    assert_eq!(slot.record().expiry(), Some(10));
    assert!(slot.record_mut().set_expiry_in_place(20));
    assert_eq!(slot.into_record_mut().into_ref().expiry(), Some(20));
    let plain = Record::from_bytes(&key, None, PLAIN, 3, b"plain");
    let old = table.find_mut(hash, &key).unwrap().replace(plain);
    assert_eq!(old.expiry(), Some(20));
    assert_eq!(table.expiring(), 0);
    assert_eq!(table.find(hash, &key).unwrap().payload(), b"plain");
    check(&table);
}
