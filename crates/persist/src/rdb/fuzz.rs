//! Body of the fuzz target: the input is a value.
//!
//! The first byte selects the dialect, the rest is type code and body. A decoded value is encoded
//! in every form, and decoding it must return the same value.

use super::{Dialect, Form, Slice, Target, decode, encode};
use std::io::Cursor;
use weft_types::hash::Hash;
use weft_types::list::List;
use weft_types::set::Set;
use weft_types::stream::{Stream, StreamId};
use weft_types::string::{Digits, Str};
use weft_types::zset::View;
use weft_types::{Kind, Limits, Record, Type, value};

/// Maximum bytes of memory per input byte: compression by a factor of ninety, then some twenty
/// bytes for an element of two.
const MEMORY: usize = 1200;

/// Memory that the smallest values may take, in bytes.
const LEAST: usize = 4 << 10;

/// Runs `data`.
///
/// # Panics
///
/// A guarantee of [`decode()`] is violated.
pub fn run(data: &[u8]) {
    let [who, value @ ..] = data else { return };
    let dialect = [Dialect::Common, Dialect::Redis, Dialect::Valkey][usize::from(who % 3)];
    let limits = Limits::default();
    let target =
        Target { key: b"key", expiry: None, clock: 0, limits: &limits, plain_most: usize::MAX };
    let streamed = decode(&mut super::Reader(Cursor::new(value)), dialect, &target);
    let Ok(record) = decode(&mut Slice(value), dialect, &target) else {
        assert!(streamed.is_err(), "a reader gives what memory gives");
        return;
    };
    let content = content(&record);
    assert_eq!(self::content(&streamed.expect("as from memory")), content);
    let memory = value::memory(&record, 0);
    assert!(memory <= LEAST + MEMORY * value.len(), "{memory} bytes of {}", value.len());
    for version in [9, 10, 11, 80] {
        for compress in [false, true] {
            let mut bytes = Vec::new();
            encode(&record, Form { version, compress }, &mut bytes).expect("memory");
            let again = decode(&mut Slice(&bytes), Dialect::Valkey, &target);
            let again = again.unwrap_or_else(|e| panic!("version {version}: {e}"));
            assert_eq!(self::content(&again), content, "version {version}");
        }
    }
}

/// The content of a value, independent of its encoding.
#[must_use]
pub fn content(record: &Record) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let kind = Kind::of(record.kind()).type_of();
    match kind {
        Type::String => {
            let text = Str::of(record).expect("a string");
            all.push(text.bytes(&mut Digits::new()).to_vec());
        }
        Type::List => List::of(record).expect("a list").each_from(0, |element| {
            all.push(element.to_vec());
            true
        }),
        Type::Set => Set::of(record).expect("a set").each(|member| all.push(member.to_vec())),
        Type::Zset => View::of(record).expect("a sorted set").for_each(|member, score| {
            // The sign of zero is not part of a score.
            all.push([&(score + 0.0).to_le_bytes()[..], &member.to_vec()].concat());
        }),
        Type::Stream => all.push(format!("{:?}", describe_stream(record)).into_bytes()),
        Type::Hash => Hash::of(record, i64::MIN).expect("a hash").each(|pair| {
            let (field, value) = (pair.field.to_vec(), pair.value.to_vec());
            let expiry = format!(" {} {:?} ", field.len(), pair.expiry).into_bytes();
            all.push([field, expiry, value].concat());
        }),
    }
    match kind {
        Type::Set | Type::Hash => all.sort_unstable(),
        Type::String | Type::List | Type::Zset | Type::Stream => {}
    }
    all.push(kind.name().as_bytes().to_vec());
    all
}

/// The content of a stream, as lines.
fn describe_stream(record: &Record) -> Vec<String> {
    let Stream { log, groups } = Stream::of(record).expect("a stream");
    let mut lines: Vec<String> = log
        .range(StreamId::MIN, StreamId::MAX)
        .map(|entry| {
            let pairs: Vec<_> = entry.pairs().map(|(f, v)| (f.to_vec(), v.to_vec())).collect();
            format!("{:?} {pairs:?}", entry.id)
        })
        .collect();
    lines.push(format!("{:?} {:?} {}", log.last_id, log.max_deleted_id, log.entries_added));
    for (name, group) in groups.iter().flat_map(|groups| groups.iter()) {
        lines.push(format!("{name:?} {:?} {:?}", group.last_id, group.entries_read));
        for (owner, consumer) in group.consumers() {
            let (seen, active) = (consumer.seen_ms, consumer.active_ms);
            lines.push(format!("{:?} {seen} {active:?}", consumer.name()));
            let pending = group.pending_of(owner, StreamId::MIN);
            lines.extend(
                pending.map(|(id, p)| format!("{id:?} {} {}", p.delivered_ms, p.deliveries)),
            );
        }
    }
    lines
}
