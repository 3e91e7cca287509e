//! Tests hashes in both forms, and conversions between them.

use super::*;
use crate::Limits;
use crate::packed::COUNT_MAX;
use crate::packed::record::Packed;
use crate::string::Digits;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Fields with their values and expiries.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

#[derive(Clone, Debug)]
enum Step {
    Set(Vec<u8>, Vec<u8>, Option<i64>),
    Remove(Vec<u8>),
    Expire(Vec<u8>, Option<i64>),
    /// Advances the time.
    Wait(i64),
    /// Removes all expired fields.
    Sweep,
    Duplicate,
}

fn field() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (0..30u32).prop_map(|n| format!("f{n}").into_bytes()),
        2 => (-5..20i64).prop_map(|n| n.to_string().into_bytes()),
        1 => prop::sample::select(&["", "007", "-0", "a rather long field"][..])
            .prop_map(|text| text.as_bytes().to_vec()),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let expiry = || prop_oneof![9 => Just(None), 1 => (0..100i64).prop_map(Some)];
    let value = prop_oneof![field(), prop::collection::vec(any::<u8>(), 0..12)];
    let step = prop_oneof![
        6 => (field(), value, expiry()).prop_map(|(f, v, e)| Step::Set(f, v, e)),
        3 => field().prop_map(Step::Remove),
        1 => (field(), prop::option::of(0..100i64)).prop_map(|(f, e)| Step::Expire(f, e)),
        1 => (0..20i64).prop_map(Step::Wait),
        1 => Just(Step::Sweep),
        1 => Just(Step::Duplicate),
    ];
    prop::collection::vec(step, 1..120)
}

fn old(model: &Model, field: &[u8], now: i64) -> Old {
    match model.get(field) {
        None => Old::Absent,
        Some((_, expiry)) if is_alive(*expiry, now) => Old::Live,
        Some(_) => Old::Expired,
    }
}

/// The live fields according to the model.
fn alive(model: &Model, now: i64) -> Vec<(Vec<u8>, Vec<u8>, Option<i64>)> {
    let live = model.iter().filter(|(_, (_, expiry))| is_alive(*expiry, now));
    live.map(|(f, (v, e))| (f.clone(), v.clone(), *e)).collect()
}

fn listed(pair: Pair<'_>) -> (Vec<u8>, Vec<u8>, Option<i64>) {
    (pair.field.to_vec(), pair.value.to_vec(), pair.expiry)
}

/// Compares all results with the model.
fn check(record: &Record, model: &Model, now: i64) {
    let hash = Hash::of(record, now).expect("a hash");
    assert_eq!(len(record), model.len());
    let live = alive(model, now);
    assert_eq!(hash.live(), live.len());
    let mut seen = Vec::new();
    hash.each(|pair| seen.push(listed(pair)));
    seen.sort();
    assert_eq!(seen, live);
    let (mut scanned, mut looked_at, mut cursor) = (Vec::new(), 0, 0);
    loop {
        let (next, more) = hash.scan(cursor, |pair| scanned.push(listed(pair)));
        (cursor, looked_at) = (next, looked_at + more);
        if cursor == 0 {
            break;
        }
    }
    scanned.sort();
    assert_eq!((scanned, looked_at), (live.clone(), model.len()));
    for (field, (value, expiry)) in model {
        let found = hash.find(field).map(listed);
        let wanted = (field.clone(), value.clone(), *expiry);
        assert_eq!(found, is_alive(*expiry, now).then_some(wanted));
        assert_eq!(hash.get(field).is_some(), is_alive(*expiry, now));
    }
}

fn apply(
    mut record: Record,
    model: &mut Model,
    now: &mut i64,
    step: Step,
    limits: &Limits,
) -> Record {
    match step {
        Step::Set(field, value, expiry) => {
            let expected = old(model, &field, *now);
            let was;
            (record, was) = set(record, &field, &value, expiry, *now, limits);
            assert_eq!(was, expected);
            model.insert(field, (value, expiry));
        }
        Step::Remove(field) => {
            let expected = old(model, &field, *now);
            let was;
            (record, was) = remove(record, &field, *now);
            assert_eq!(was, expected);
            if expected == Old::Live {
                model.remove(&field);
            }
        }
        Step::Expire(field, at) => {
            if let Some(entry) = model.get_mut(&field) {
                entry.1 = at;
                record = expire(record, &field, at);
            }
        }
        Step::Wait(ms) => *now += ms,
        Step::Sweep => {
            let before = model.len();
            model.retain(|_, (_, expiry)| is_alive(*expiry, *now));
            let (mut cursor, mut removed) = (0, 0);
            loop {
                let step;
                (record, step) = expire_some(record, cursor, *now, &mut |_| ());
                assert!(step.removed <= step.examined);
                (cursor, removed) = (step.next, removed + step.removed);
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(removed, before - model.len());
        }
        Step::Duplicate => {
            // Copies omit expired fields, unless there are no others.
            if model.values().any(|(_, expiry)| is_alive(*expiry, *now)) {
                model.retain(|_, (_, expiry)| is_alive(*expiry, *now));
            }
            record = duplicate(&record, b"key", None, 0, *now);
        }
    }
    record
}

proptest! {
    #[test]
    fn matches_a_map_in_both_forms(
        steps in steps(),
        entries in prop::sample::select(&[0usize, 3, 10, 512][..]),
        value in prop::sample::select(&[4usize, 64][..]),
    ) {
        let limits = Limits { hash_entries: entries, hash_value: value, ..Limits::default() };
        let (mut model, mut now) = (Model::new(), 0);
        let mut record = create(b"key", &[], 0, &limits);
        for step in steps {
            record = apply(record, &mut model, &mut now, step, &limits);
            if Form::of_hash(&record) == Form::Packed {
                prop_assert!(model.len() <= entries);
                prop_assert!(model.iter().all(|(f, (v, _))| f.len().max(v.len()) <= value));
            }
        }
        check(&record, &model, now);
        prop_assert_eq!(has_expiring_fields(&record), model.values().any(|(_, expiry)| expiry.is_some()));
    }
}

/// A random sequence, the same in every run.
fn draws(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let x = (seed ^ seed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        x ^ x >> 32
    }
}

fn filled(n: u32, limits: &Limits) -> Record {
    let mut record = create(b"key", &[], 0, limits);
    for i in 0..n {
        record = set(record, format!("f{i}").as_bytes(), b"v", None, 0, limits).0;
    }
    record
}

#[test]
fn random_choices_are_uniform_and_distinct() {
    let limits = Limits { hash_entries: 8, ..Limits::default() };
    let with_expiry = expire(filled(8, &limits), b"f0", Some(1000));
    for record in [filled(8, &limits), filled(12, &limits), with_expiry] {
        let hash = Hash::of(&record, 0).expect("a hash");
        let fields = hash.len();
        let mut draw = draws(7);
        let mut times: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let rounds = 2000 * fields;
        for _ in 0..rounds {
            let pair = hash.random(&mut draw).expect("it is not empty");
            *times.entry(pair.field.to_vec()).or_default() += 1;
        }
        hash.draw(rounds, &mut draw, |pair| {
            *times.entry(pair.field.to_vec()).or_default() += 1;
        });
        for _ in 0..rounds {
            let mut met = Vec::new();
            hash.sample(2, hash.live(), &mut draw, |pair| met.push(pair.field.to_vec()));
            assert!(met.len() == 2 && met[0] != met[1], "{met:?}");
            met.into_iter().for_each(|field| *times.entry(field).or_default() += 1);
        }
        assert_eq!(times.len(), fields);
        for (field, n) in times {
            assert!((7400..8600).contains(&n), "{field:?} came {n} times, 8000 expected");
        }
    }
}

#[test]
fn packed_hash_holds_at_most_its_count_limit() {
    let limits = Limits { hash_entries: usize::MAX, ..Limits::default() };
    let mut record = create(b"key", &[], 0, &limits);
    // Filled from the end, so that searching a field ends at once.
    let most = COUNT_MAX / 2;
    let fields: Vec<Vec<u8>> = (0..=most).map(|n| n.to_string().into_bytes()).collect();
    let mut entries = Vec::new();
    for field in &fields[..most] {
        entries.push(Encoded::of(field));
        entries.push(Encoded::of(b""));
    }
    record = Packed::new(record.key(), None, Kind::HashPacked, 0, &entries).finish();
    assert_eq!((len(&record), Form::of_hash(&record)), (most, Form::Packed));
    let (record, old) = set(record, &fields[most], b"", None, 0, &limits);
    assert_eq!((old, len(&record)), (Old::Absent, most + 1));
    assert_eq!(Form::of_hash(&record), Form::Table);
    let hash = Hash::of(&record, 0).expect("a hash");
    assert_eq!(hash.get(b"17").map(|v| v.bytes(&mut Digits::new()).len()), Some(0));
}

#[test]
fn announced_fields_determine_the_form() {
    let limits = Limits { hash_entries: 2, hash_value: 4, ..Limits::default() };
    let form = |record: &Record| Form::of_hash(record);
    let many: [&[u8]; 6] = [b"a", b"1", b"a", b"2", b"a", b"3"];
    let long: [&[u8]; 2] = [b"a", b"12345"];
    for announced in [&many[..], &long[..]] {
        assert_eq!(form(&create(b"key", announced, 0, &limits)), Form::Table);
        assert_eq!(form(&announce(filled(1, &limits), announced, &limits)), Form::Table);
    }
    assert_eq!(form(&create(b"key", &many[..4], 0, &limits)), Form::Packed);
    assert_eq!(form(&announce(filled(2, &limits), &many[..4], &limits)), Form::Packed);
}
