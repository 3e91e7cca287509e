//! Compares sets with `BTreeSet`, their forms with the directives, and probabilities by
//! chi-squared.

use super::*;
use crate::Limits;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A random sequence, the same in every run.
fn draws(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let x = (seed ^ seed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        x ^ x >> 32
    }
}

fn limits(ints: usize, entries: usize, value: usize) -> Limits {
    Limits { set_ints: ints, set_entries: entries, set_value: value, ..Limits::default() }
}

fn members(record: &Record) -> BTreeSet<Vec<u8>> {
    let set = Set::of(record).expect("a set");
    let mut all = BTreeSet::new();
    set.each(|m| assert!(all.insert(m.to_vec()), "{m:?} twice"));
    assert_eq!(all.len(), set.len());
    all
}

fn with(members: &[&str], limits: &Limits) -> Record {
    let (first, rest) = members.split_first().expect("one at least");
    let start = create(b"key", first.as_bytes(), 1, None, 0, limits);
    rest.iter().fold(start, |record, m| add(record, Value::Bytes(m.as_bytes()), limits).0)
}

fn encoding(record: &Record) -> &'static str {
    Kind::of(record.kind()).encoding_name()
}

#[test]
fn form_depends_on_the_members() {
    let limits = limits(3, 4, 5);
    let of = |members: &[&str]| encoding(&with(members, &limits));
    assert_eq!(of(&["1", "-2", "70000"]), "intset");
    assert_eq!(of(&["1", "2", "3", "4"]), "hashtable", "an integer too many");
    assert_eq!(of(&["1", "2", "3", "a"]), "listpack");
    assert_eq!(of(&["a", "1", "2", "3"]), "listpack");
    assert_eq!(of(&["a", "1", "2", "3", "4"]), "hashtable", "a member too many");
    assert_eq!(of(&["a", "abcdef"]), "hashtable", "a member too long");
    assert_eq!(of(&["1", "abcdef"]), "hashtable", "a member too long after integers");
    assert_eq!(of(&["123456", "a"]), "hashtable", "an integer too long to be packed");
    assert_eq!(of(&["-12345", "1", "a"]), "hashtable", "the smallest counts too");
    assert_eq!(of(&["abcdef"]), "hashtable");
    assert_eq!(of(&["01"]), "listpack", "not the canonical form of an integer");
}

#[test]
fn announced_members_determine_the_form() {
    let limits = limits(3, 4, 5);
    let created = |first: &[u8], n| encoding(&create(b"key", first, n, None, 0, &limits));
    assert_eq!(created(b"1", 3), "intset");
    assert_eq!(created(b"1", 4), "listpack");
    assert_eq!(created(b"1", 5), "hashtable");
    assert_eq!(created(b"a", 4), "listpack");
    assert_eq!(created(b"a", 5), "hashtable");
    let announced = |first: &str, n| encoding(&announce(with(&[first], &limits), n, &limits));
    assert_eq!(announced("1", 3), "intset");
    assert_eq!(announced("1", 4), "hashtable");
    assert_eq!(announced("a", 4), "listpack");
    assert_eq!(announced("a", 5), "hashtable");
}

#[test]
fn few_integers_settle_as_integers() {
    let strict = limits(3, 2, 5);
    for (members, after) in
        [(&["a", "3", "-7", "500000"][..], "intset"), (&["a", "1", "2", "3", "4"], "hashtable")]
    {
        let record = remove(with(members, &strict), Value::Bytes(b"a")).0;
        let before = self::members(&record);
        let record = convert_to_ints(record, &strict);
        assert_eq!(encoding(&record), after);
        assert_eq!(self::members(&record), before);
    }
}

#[test]
fn keeps_integers_of_every_width_in_order() {
    let limits = Limits::default();
    let mut record = create(b"key", b"5", 1, Some(77), 3, &limits);
    let mut model = BTreeSet::from([5]);
    for bits in [0, 7, 14, 15, 16, 30, 31, 32, 62] {
        for n in [1i64 << bits, -(1 << bits), (1 << bits) - 1, i64::MIN, i64::MAX] {
            let new;
            (record, new) = add(record, Value::Int(n), &limits);
            assert_eq!(new, model.insert(n));
            let Some(Set::Ints(ints)) = Set::of(&record) else { panic!("no integers") };
            assert!(ints.iter().eq(model.iter().copied()));
            assert!(ints.contains(n) && !ints.contains(6));
        }
    }
    assert_eq!((record.key(), record.expiry(), record.clock()), (&b"key"[..], Some(77), 3));
}

#[test]
fn copies_have_the_same_members_and_form() {
    let limits = limits(3, 4, 5);
    for names in [&["1", "2"][..], &["a", "1"], &["a", "b", "c", "d", "e"]] {
        let record = with(names, &limits);
        let copy = duplicate(&record, b"copy", Some(5), 9);
        assert_eq!((copy.key(), copy.expiry(), copy.clock()), (&b"copy"[..], Some(5), 9));
        assert_eq!((encoding(&copy), members(&copy)), (encoding(&record), members(&record)));
        let changed = add(copy, Value::Bytes(b"new"), &limits).0;
        assert_eq!(members(&changed).len(), members(&record).len() + 1);
    }
}

#[test]
fn memory_includes_the_table() {
    let strict = limits(0, 0, 0);
    let small = with(&["1", "2", "3"], &Limits::default());
    assert_eq!(memory(&small, 5), small.alloc_size());
    let mut large = with(&["a"], &strict);
    let empty = memory(&large, 5);
    for n in 0..10_000 {
        large = add(large, Value::Int(n), &strict).0;
    }
    let each = (memory(&large, 5) - empty) / 10_000;
    assert!((7..20).contains(&each), "{each} bytes for a member");
}

/// Counts how often each set of members is chosen, and compares with equal probabilities.
fn equally(mut choose: impl FnMut() -> BTreeSet<Vec<u8>>, subsets: usize) {
    let mut times = std::collections::BTreeMap::new();
    let rounds = subsets * 200;
    for _ in 0..rounds {
        *times.entry(choose()).or_insert(0.0) += 1.0;
    }
    assert_eq!(times.len(), subsets);
    // Pearson's chi-squared: its mean is the degrees of freedom, its variance twice those.
    let chi: f64 = times.values().map(|n: &f64| (n - 200.0).powi(2) / 200.0).sum();
    let freedom = subsets as f64 - 1.0;
    assert!((chi - freedom).abs() < 6.0 * (2.0 * freedom).sqrt(), "{chi} for {freedom}");
}

#[test]
fn random_members_and_subsets_are_uniform() {
    let mut draw = draws(7);
    let names = ["1", "2", "3", "4", "5", "6"];
    let texts = ["1", "b", "c", "4", "e", "f"];
    for (names, limits) in
        [(names, Limits::default()), (texts, Limits::default()), (texts, limits(0, 0, 0))]
    {
        let record = with(&names, &limits);
        let set = Set::of(&record).expect("a set");
        let one = |member: Option<Value<'_>>| BTreeSet::from([member.expect("one").to_vec()]);
        equally(|| one(set.random(&mut draw)), 6);
        for (k, subsets) in [(1, 6), (2, 15), (3, 20), (5, 6)] {
            equally(
                || {
                    let mut seen = BTreeSet::new();
                    set.sample(k, &mut draw, |m| assert!(seen.insert(m.to_vec())));
                    seen
                },
                subsets,
            );
            let copy = || duplicate(&record, b"key", None, 0);
            let check = |rest: Record, seen: &BTreeSet<Vec<u8>>| {
                assert_eq!(seen.len(), k);
                let all: BTreeSet<_> = members(&rest).union(seen).cloned().collect();
                assert_eq!((len(&rest), all), (6 - k, members(&record)));
            };
            let mut popped = || {
                let mut seen = BTreeSet::new();
                let rest = pop_many(copy(), k, &mut draw, |m| {
                    seen.insert(m.to_vec());
                });
                check(rest, &seen);
                seen
            };
            equally(&mut popped, subsets);
            let mut split = || {
                let mut seen = BTreeSet::new();
                let rest = split_most(&record, 6 - k, &limits, &mut draw, |m| {
                    seen.insert(m.to_vec());
                });
                check(rest, &seen);
                seen
            };
            equally(&mut split, subsets);
        }
        let mut popped = || {
            let mut seen = BTreeSet::new();
            let copy = duplicate(&record, b"key", None, 0);
            let rest = pop(copy, &mut draw, |m| {
                seen.insert(m.to_vec());
            });
            assert_eq!(len(&rest), 5);
            seen
        };
        equally(&mut popped, 6);
        let mut times = 0;
        set.draw(100, &mut draw, |m| {
            assert!(set.contains(m));
            times += 1;
        });
        assert_eq!(times, 100);
    }
}

#[test]
fn split_most_makes_a_table_small() {
    let limits = Limits::default();
    let names: Vec<String> = (0..1000).map(|n| format!("m{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let record = with(&names, &limits);
    assert_eq!(encoding(&record), "hashtable");
    for (kept, after) in [(1, "listpack"), (128, "listpack"), (129, "hashtable")] {
        let mut seen = 0;
        let rest = split_most(&record, kept, &limits, &mut draws(1), |_| seen += 1);
        assert_eq!((len(&rest), seen, encoding(&rest)), (kept, 1000 - kept, after));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn matches_a_set(
        steps in prop::collection::vec((0u8..10, "([0-9]{1,6}|-?[0-9]{1,2}|[a-d]{1,3})"), 1..200),
        ints in 0usize..40, entries in 0usize..40, value in 0usize..6, seed: u64,
    ) {
        let limits = limits(ints, entries, value);
        let mut draw = draws(seed);
        let mut record = with(&["0"], &limits);
        let mut model = BTreeSet::from([b"0".to_vec()]);
        for (step, text) in steps {
            let member = Value::Bytes(text.as_bytes());
            let was_there = Set::of(&record).expect("a set").contains(member);
            prop_assert_eq!(was_there, model.contains(text.as_bytes()));
            if step < 6 {
                let new;
                (record, new) = add(record, member, &limits);
                prop_assert_eq!(new, model.insert(text.into_bytes()));
            } else if step < 9 || model.is_empty() {
                let gone;
                (record, gone) = remove(record, member);
                prop_assert_eq!(gone, model.remove(text.as_bytes()));
            } else {
                record = pop(record, &mut draw, |m| assert!(model.remove(&m.to_vec())));
            }
        }
        prop_assert_eq!(&members(&record), &model);
        let mut scanned = BTreeSet::new();
        let mut cursor = 0;
        loop {
            let set = Set::of(&record).expect("a set");
            cursor = set.scan(cursor, |m| { scanned.insert(m.to_vec()); });
            if cursor == 0 {
                break;
            }
        }
        prop_assert_eq!(&scanned, &model);
    }
}
