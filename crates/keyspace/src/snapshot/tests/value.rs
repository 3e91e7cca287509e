//! Values of all types, for random changes and comparison.

use crate::context::Rng;
use crate::db::{Change, Db, Rework};
use crate::keyspace::Key;
use weft_types::list::{End, List, Waste};
use weft_types::packed::Value;
use weft_types::string::{Digits, New, Str};
use weft_types::{Limits, Record, Type, hash, list, set, string};

/// Small limits, so that few elements make a large collection.
fn limits() -> Limits {
    Limits { hash_entries: 8, set_entries: 8, set_ints: 8, list_size: 6, ..Limits::default() }
}

/// The content of a record as text, equal for equal values.
pub(super) fn describe(record: &Record) -> Vec<u8> {
    let kind = weft_types::Kind::of(record.kind()).type_of();
    let mut parts: Vec<Vec<u8>> = Vec::new();
    match kind {
        Type::String => {
            let text = Str::of(record).expect("a string");
            parts.push(text.bytes(&mut Digits::new()).to_vec());
        }
        Type::List => List::of(record).expect("a list").each_from(0, |value| {
            parts.push(value.to_vec());
            true
        }),
        Type::Set => {
            set::Set::of(record).expect("a set").each(|member| parts.push(member.to_vec()));
            parts.sort();
        }
        Type::Hash => {
            hash::Hash::of(record, i64::MIN).expect("a hash").each(|pair| {
                let text = (pair.field.to_vec(), pair.value.to_vec(), pair.expiry);
                parts.push(format!("{text:?}").into_bytes());
            });
            parts.sort();
        }
        Type::Zset | Type::Stream => unreachable!("the simulation makes none"),
    }
    let mut all = kind.name().as_bytes().to_vec();
    for part in parts {
        all.push(b'|');
        all.extend(part);
    }
    all
}

fn text(rng: &mut Rng) -> Vec<u8> {
    let n = rng.next();
    match n % 8 {
        0 => (n % 1000).to_string().into_bytes(),
        1 => vec![b'a' + (n >> 8) as u8 % 26; string::INLINE_MAX + 1 + (n >> 16) as usize % 3000],
        2 => vec![b'a' + (n >> 8) as u8 % 26; (n >> 16) as usize % 700],
        _ => format!("value:{}", n % 10_000).into_bytes(),
    }
}

/// Changes `key` in one of many ways, or creates it.
pub(super) fn change(db: &mut Db<'_>, key: &Key<'_>, rng: &mut Rng) {
    let now = db.context.now_ms;
    let later =
        |rng: &mut Rng| rng.next().is_multiple_of(3).then(|| now + 1 + (rng.next() % 400) as i64);
    match rng.next() % 14 {
        0..=3 => {
            let (text, expiry) = (text(rng), later(rng));
            db.set(key, string::record(key.bytes, New::Bytes(&text), expiry, 0));
        }
        4 => drop(db.delete(key)),
        5 => drop(db.clear(key)),
        6 => drop(db.set_expiry(key, later(rng))),
        7 => db.alter(key, |old, clock| match old {
            // In place, as INCR does.
            Some(mut old) if string::is_string(&old) => {
                let n = Str::of(&old).and_then(Str::int).unwrap_or(0) + 1;
                match string::overwrite_int(&mut old, n) {
                    true => Change::InPlace,
                    false => Change::Store(string::record_int(key.bytes, n, old.expiry(), clock)),
                }
            }
            Some(_) => Change::Remove,
            None => Change::Store(string::record_int(key.bytes, 1, None, clock)),
        }),
        8 => {
            let text = text(rng);
            db.update(key, |old| match string::is_string(&old) {
                true if old.payload().len() < 9000 => string::append(old, &text),
                _ => old,
            });
        }
        _ => {
            let rng = &mut *rng;
            db.rework(key, |record, clock| (collection(key, record, clock, now, rng), ()));
        }
    }
}

/// Adds an element to a collection or removes one.
fn collection(
    key: &Key<'_>,
    record: Option<Record>,
    clock: u32,
    now: i64,
    rng: &mut Rng,
) -> Rework {
    let limits = limits();
    let member = format!("m{}", rng.next() % 40).into_bytes();
    let adds = !rng.next().is_multiple_of(3);
    let Some(record) = record else {
        return Rework::Changed(match rng.next() % 3 {
            0 => list::create(key.bytes, clock, End::Right, &[&member], &limits),
            1 => {
                let hash = hash::create(key.bytes, &[], clock, &limits);
                hash::set(hash, &member, b"v", None, now, &limits).0
            }
            _ => {
                set::add(
                    set::create(key.bytes, &member, 1, None, clock, &limits),
                    Value::Bytes(&member),
                    &limits,
                )
                .0
            }
        });
    };
    let changed = match weft_types::Kind::of(record.kind()).type_of() {
        Type::List if adds => {
            // Long elements, so that some lists use the large encoding.
            let long = vec![b'e'; (rng.next() % 600) as usize];
            list::push(record, End::Left, &[&member, &long], &limits)
        }
        Type::List => {
            let (end, mut waste) = (End::Right, Waste::default());
            list::pop(record, end, 1, &limits, &mut waste, |_| {})
        }
        Type::Hash if adds => {
            let expiry = rng.next().is_multiple_of(4).then(|| now + 1 + (rng.next() % 300) as i64);
            let value = rng.next().to_string();
            hash::set(record, &member, value.as_bytes(), expiry, now, &limits).0
        }
        Type::Hash => hash::remove(record, &member, now).0,
        Type::Set if adds => set::add(record, Value::Bytes(&member), &limits).0,
        Type::Set => set::remove(record, Value::Bytes(&member)).0,
        Type::String | Type::Zset | Type::Stream => return Rework::Same(record),
    };
    if weft_types::value::elements(&changed) == 0 {
        Rework::Emptied(changed)
    } else {
        Rework::Changed(changed)
    }
}
