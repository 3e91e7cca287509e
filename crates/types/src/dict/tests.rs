//! Compares the map with `BTreeMap`, with good hashes and with hashes that an attacker would
//! choose.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};

/// A hash that tests can weaken.
#[derive(Clone, Copy, Debug)]
enum Bad {
    /// A good hash, the same in every run.
    Mixed,
    /// Every key has the same hash.
    Constant,
    /// All hashes begin with the same bits, so splitting rarely helps.
    SamePrefix,
    /// Only four hashes, spread over hash space.
    Few,
    /// The number in the key: hashes are in order.
    Ordered,
}

const BAD: [Bad; 5] = [Bad::Mixed, Bad::Constant, Bad::SamePrefix, Bad::Few, Bad::Ordered];

struct BadHasher(Bad, u64);

impl Hasher for BadHasher {
    fn finish(&self) -> u64 {
        let mut z = self.1.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^= z >> 29;
        match self.0 {
            Bad::Mixed => z,
            Bad::Constant => 0x1234_5678_9abc_def0,
            Bad::SamePrefix => 0xffff_ff00_0000_0000 | z >> 24,
            Bad::Few => z << 62,
            Bad::Ordered => self.1 << 44,
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.1 = self.1.wrapping_mul(10).wrapping_add(u64::from(byte & 0x0f));
        }
    }
}

impl BuildHasher for Bad {
    type Hasher = BadHasher;
    fn build_hasher(&self) -> BadHasher {
        BadHasher(*self, 0)
    }
}

type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

fn key(n: u32) -> Vec<u8> {
    n.to_string().into_bytes()
}

/// A random sequence, the same in every run.
fn draws(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// All entries, by a full scan.
fn scanned<S: BuildHasher>(dict: &Dict<S>) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    let mut cursor = 0;
    loop {
        cursor = dict.scan(cursor, |e| seen.push(e.key.to_vec()));
        if cursor == 0 {
            return seen;
        }
    }
}

/// Compares all results with the model, and checks invariants between the parts.
fn check<S: BuildHasher>(dict: &Dict<S>, model: &Model) {
    assert_eq!(dict.len(), model.len());
    assert_eq!(dict.expiring(), model.values().filter(|v| v.1.is_some()).count());
    for (key, (value, expiry)) in model {
        let wanted = Entry { key, value, expiry: *expiry };
        assert_eq!(dict.get(key), Some(wanted));
    }
    let all: BTreeMap<_, _> =
        dict.iter().map(|e| (e.key.to_vec(), (e.value.to_vec(), e.expiry))).collect();
    assert_eq!(&all, model);
    assert_eq!(dict.iter().count(), model.len());
    let mut keys = scanned(dict);
    keys.sort();
    assert!(keys.iter().eq(model.keys()));
    for page in dict.pages.items() {
        assert!(page.bits() <= PAGE_BITS && page.full_depth() <= dict.deepest);
        for segment in page.items() {
            assert!(segment.count() <= dict.widest);
            segment.check();
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(u32, Vec<u8>, Option<i64>),
    Remove(u32),
    Expire(u32, Option<i64>),
    /// Removes all keys with this remainder.
    Thin(u32),
    /// Inserts consecutive keys.
    Fill(u32, u32, usize),
    Sweep(u64, i64),
    /// Pops this many entries, with this seed.
    Pop(u64, usize),
}

fn expiry() -> impl Strategy<Value = Option<i64>> {
    prop::option::of(0i64..100)
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![Just(0usize), 1usize..20, 100usize..140, 900usize..1200];
    (len, any::<u8>()).prop_map(|(len, byte)| vec![byte; len])
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0u32..600, value(), expiry()).prop_map(|(k, v, e)| Step::Put(k, v, e)),
        4 => (0u32..600).prop_map(Step::Remove),
        2 => (0u32..600, expiry()).prop_map(|(k, e)| Step::Expire(k, e)),
        1 => (0u32..4).prop_map(Step::Thin),
        2 => (0u32..600, 1u32..300, 0usize..60).prop_map(|(k, n, v)| Step::Fill(k, n, v)),
        1 => (any::<u64>(), 0i64..100).prop_map(|(c, t)| Step::Sweep(c, t)),
        1 => (any::<u64>(), 0usize..200).prop_map(|(s, n)| Step::Pop(s, n)),
    ];
    prop::collection::vec(step, 1..80)
}

fn put(dict: &mut Dict<Bad>, model: &mut Model, key: Vec<u8>, value: Vec<u8>, at: Option<i64>) {
    let new = dict.insert(&key, &value, at);
    assert_eq!(new, model.insert(key, (value, at)).is_none());
}

fn apply(dict: &mut Dict<Bad>, model: &mut Model, step: Step) {
    match step {
        Step::Put(k, v, e) => put(dict, model, key(k), v, e),
        Step::Remove(k) => assert_eq!(dict.remove(&key(k)), model.remove(&key(k)).is_some()),
        Step::Expire(k, e) => {
            let old = model.get_mut(&key(k));
            assert_eq!(dict.set_expiry(&key(k), e), old.is_some());
            if let Some(old) = old {
                old.1 = e;
            }
        }
        Step::Thin(rest) => {
            for k in (0..600).filter(|k| k % 4 == rest) {
                assert_eq!(dict.remove(&key(k)), model.remove(&key(k)).is_some());
            }
        }
        Step::Fill(first, n, len) => {
            for k in first..first + n {
                put(dict, model, key(k), vec![b'f'; len], None);
            }
        }
        Step::Pop(seed, n) => {
            let mut draw = draws(seed);
            for _ in 0..n {
                let popped = dict.pop(&mut draw, |e| (e.key.to_vec(), e.value.to_vec(), e.expiry));
                let Some((key, value, expiry)) = popped else {
                    assert!(model.is_empty());
                    break;
                };
                assert_eq!(model.remove(&key), Some((value, expiry)));
            }
        }
        Step::Sweep(from, now) => {
            let mut dead = Vec::new();
            dict.sweep(from, |e| {
                let goes = e.expiry.expect("sweep passes only entries with an expiry") <= now;
                dead.extend(goes.then(|| e.key.to_vec()));
                goes
            });
            for key in dead {
                assert!(model.remove(&key).is_some_and(|v| v.1.is_some_and(|at| at <= now)));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn matches_a_map_with_any_hash(steps in steps(), bad in prop::sample::select(&BAD[..])) {
        let mut dict = Dict::with_hasher(bad);
        let mut model = Model::new();
        for step in steps {
            apply(&mut dict, &mut model, step);
        }
        check(&dict, &model);
        let copy = dict.clone();
        for key in model.keys() {
            assert!(dict.remove(key));
        }
        check(&dict, &Model::new());
        check(&copy, &model);
    }

    /// A scan passes every entry that exists from its beginning to its end, whatever happens to
    /// others.
    #[test]
    #[ignore = "long: cargo xtask test --all"]
    fn scan_passes_every_lasting_entry(
        changes in prop::collection::vec((any::<bool>(), 0u32..40_000, 1u32..3000), 0..40),
        bad in prop::sample::select(&[Bad::Mixed, Bad::Ordered, Bad::Few][..]),
    ) {
        let mut dict = Dict::with_hasher(bad);
        let stays = |k: u32| k.is_multiple_of(50);
        for k in (0..40_000).filter(|k| stays(*k)) {
            dict.insert(&key(k), b"", None);
        }
        let mut seen = HashSet::new();
        let mut cursor = 0;
        let mut changes = changes.into_iter();
        loop {
            cursor = dict.scan(cursor, |e| {
                seen.insert(e.key.to_vec());
            });
            if cursor == 0 {
                break;
            }
            let Some((grow, first, n)) = changes.next() else { continue };
            for k in (first..first + n).filter(|k| !stays(*k)) {
                if grow {
                    dict.insert(&key(k), b"some value", None);
                } else {
                    dict.remove(&key(k));
                }
            }
        }
        for k in (0..40_000).filter(|k| stays(*k)) {
            prop_assert!(seen.contains(&key(k)), "{} is missing", k);
        }
    }

    #[test]
    fn any_number_is_a_valid_cursor(cursor: u64, n in 0u32..2000) {
        let mut dict = Dict::new();
        for k in 0..n {
            dict.insert(&key(k), b"", None);
        }
        let mut at = cursor;
        for _ in 0..2000 {
            at = dict.scan(at, |_| {});
            if at == 0 {
                return Ok(());
            }
        }
        prop_assert!(false, "the scan doesn't end");
    }
}

#[test]
fn large_map_gains_and_loses_pages() {
    let mut dict = Dict::with_hasher(Bad::Mixed);
    let mut model = Model::new();
    for k in 0..150_000 {
        put(&mut dict, &mut model, key(k), Vec::new(), None);
    }
    assert!(dict.pages.items().count() > 1, "several pages expected");
    check(&dict, &model);
    let full = dict.memory();
    assert!(full < 150_000 * 16, "{full} bytes");
    for k in (0..150_000).filter(|k| k % 100 != 0) {
        assert!(dict.remove(&key(k)));
        model.remove(&key(k));
    }
    check(&dict, &model);
    assert_eq!(dict.pages.items().count(), 1, "pages must be joined again");
    assert!(dict.memory() < full / 40, "{} bytes of {full} for a hundredth", dict.memory());
    for k in (0..150_000).step_by(100) {
        assert!(dict.remove(&key(k)));
    }
    assert!(dict.memory() < 1000, "{} bytes when empty", dict.memory());
}

#[test]
fn equal_hashes_use_a_tree_and_small_directories() {
    for bad in [Bad::Constant, Bad::SamePrefix, Bad::Few] {
        let mut dict = Dict::with_hasher(bad);
        let mut model = Model::new();
        for k in 0..6000 {
            put(&mut dict, &mut model, key(k), b"value".to_vec(), Some(i64::from(k)));
        }
        check(&dict, &model);
        let slots: usize = dict.pages.items().map(|p| 1 << p.bits()).sum();
        assert!(slots <= 2 * dict.len(), "{slots} slots with {bad:?}");
        let mut cursor = 0;
        loop {
            cursor = dict.sweep(cursor, |e| e.expiry < Some(5990));
            if cursor == 0 {
                break;
            }
        }
        model.retain(|_, v| v.1 >= Some(5990));
        check(&dict, &model);
    }
}

#[test]
fn entries_growing_in_place_split_their_segment() {
    let mut dict = Dict::with_hasher(Bad::Mixed);
    let mut model = Model::new();
    for len in [1, 1000, 3, 2000, 0] {
        for k in 0..128 {
            put(&mut dict, &mut model, key(k), vec![b'v'; len], None);
        }
        check(&dict, &model);
    }
}

/// Random choices from maps of every shape: one segment, a lopsided map, several pages, a
/// thinned-out map, and one with trees.
#[test]
fn random_entries_are_uniform() {
    let mut thinned = Dict::with_hasher(Bad::Mixed);
    (0..60_000).for_each(|k| assert!(thinned.insert(&key(k), b"", None)));
    (100..60_000).for_each(|k| assert!(thinned.remove(&key(k))));
    let filled = |bad, n, len| {
        let mut dict = Dict::with_hasher(bad);
        (0..n).for_each(|k| assert!(dict.insert(&key(k), &vec![b'v'; len], None)));
        dict
    };
    let mut draw = draws(1);
    for dict in [
        thinned,
        filled(Bad::Mixed, 7, 0),
        filled(Bad::Mixed, 1000, 10),
        filled(Bad::Mixed, 300, 900),
        filled(Bad::Ordered, 700, 3),
        filled(Bad::SamePrefix, 1500, 0),
        filled(Bad::Few, 2000, 0),
    ] {
        let mut times: BTreeMap<Vec<u8>, f64> =
            dict.iter().map(|e| (e.key.to_vec(), 0.0)).collect();
        let expected = 100.0;
        for _ in 0..dict.len() * 100 {
            let entry = dict.random(&mut draw).expect("it is not empty");
            *times.get_mut(entry.key).expect("a key of the map") += 1.0;
        }
        // Pearson's chi-squared: its mean is the degrees of freedom, its variance twice those.
        let chi: f64 = times.values().map(|n| (n - expected).powi(2) / expected).sum();
        let freedom = times.len() as f64 - 1.0;
        assert!((chi - freedom).abs() < 6.0 * (2.0 * freedom).sqrt(), "{chi} for {freedom}");
    }
    assert_eq!(Dict::new().random(&mut draw), None);
}

/// After a walk has passed a page, changing that page copies nothing.
#[test]
#[cfg_attr(miri, ignore = "many entries")]
fn pass_releases_pages() {
    let mut owner = Dict::with_hasher(Bad::Mixed);
    for n in 0..120_000 {
        owner.insert(&key(n), b"value", None);
    }
    let order: Vec<Vec<u8>> = owner.iter().map(|entry| entry.key.to_vec()).collect();
    let mut held = owner.clone();
    // Overwrites a value in place. Returns whether its block had to be copied for that.
    let mut is_copied = |key: &[u8]| {
        let place = |owner: &Dict<Bad>| owner.get(key).map(|entry| entry.value.as_ptr());
        let before = place(&owner);
        owner.insert(key, b"other", None);
        place(&owner) != before
    };
    let (first, last) = (&order[10], &order[order.len() - 10]);
    let mut shown = Vec::new();
    let walk: ControlFlow<()> = held.pass(|entry| {
        assert_eq!(entry.value, b"value");
        shown.push(entry.key.to_vec());
        if shown.len() == order.len() / 2 {
            assert!(!is_copied(first), "its page was released");
            assert!(is_copied(last), "the walk still needs it");
        }
        ControlFlow::Continue(())
    });
    assert!(walk.is_continue() && shown == order);
    check(&held, &Model::new());
    assert_eq!(owner.len(), order.len());
}
