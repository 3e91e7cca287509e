//! Tests of the whole type, most against an ordered map.

use super::*;
use crate::Limits;
use crate::string::Digits;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn limits(bytes: usize, entries: usize) -> Limits {
    Limits { stream_node_bytes: bytes, stream_node_entries: entries, ..Limits::default() }
}

fn flat(pairs: &Pairs) -> Vec<&[u8]> {
    pairs.iter().flat_map(|(field, value)| [&field[..], value]).collect()
}

fn shown(entry: &Entry<'_>) -> (StreamId, Pairs) {
    let text = |value: crate::packed::Value<'_>| value.bytes(&mut Digits::new()).to_vec();
    let pairs: Pairs = entry.pairs().map(|(field, value)| (text(field), text(value))).collect();
    assert_eq!(pairs.len(), entry.len());
    (entry.id, pairs)
}

fn all(log: &Log) -> Vec<(StreamId, Pairs)> {
    log.range(StreamId::MIN, StreamId::MAX).map(|entry| shown(&entry)).collect()
}

fn pair(field: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
    (field.as_bytes().to_vec(), value.as_bytes().to_vec())
}

/// A log of `n` entries `1-0`, `2-0` ... with two fields.
fn log_of(n: u64, limits: &Limits) -> Log {
    let mut log = Log::default();
    for i in 1..=n {
        let text = i.to_string();
        let pairs = [&b"name"[..], b"some name", b"number", text.as_bytes()];
        log.append(StreamId::new(i, 0), &pairs, limits).expect("it is small");
    }
    log
}

fn trim(keep: Keep, approximate: bool, limit: Option<u64>) -> Trim {
    Trim { keep, approximate, limit }
}

#[test]
fn blocks_end_by_entries_and_by_bytes() {
    assert_eq!(log_of(1000, &limits(0, 100)).blocks(), 10);
    assert_eq!(log_of(1000, &limits(0, 1)).blocks(), 1000);
    assert_eq!(log_of(1000, &limits(0, 0)).blocks(), 1);
    assert_eq!(log_of(100, &limits(1, 0)).blocks(), 100, "one entry always fits");
    let log = log_of(3000, &limits(4096, 0));
    // 14 bytes for the values, 8 or 9 for the rest of an entry; the last entry doesn't fill 4096
    // exactly.
    assert!((15..20).contains(&log.blocks()), "{}", log.blocks());
    log.check();
    assert_eq!(all(&log).len(), 3000);
}

#[test]
fn reads_back_entries_of_all_kinds() {
    let long = vec![b'x'; 5000];
    let entries: Vec<(StreamId, Pairs)> = vec![
        (StreamId::new(5, 7), vec![pair("a", "1"), pair("b", "-17")]),
        (StreamId::new(5, 8), vec![pair("a", ""), pair("b", "text")]),
        (StreamId::new(5, u64::MAX), vec![pair("b", "1"), pair("a", "2")]),
        (StreamId::new(6, 0), vec![pair("a", "9223372036854775807")]),
        (StreamId::new(6, 1), vec![(long.clone(), long.clone()), pair("", "")]),
        (StreamId::new(90_000, 3), vec![pair("a", "007"), (b"b".to_vec(), vec![b'v'; 130])]),
        (StreamId::new(u64::MAX, 0), vec![pair("a", "x"), pair("b", "y")]),
        (StreamId::MAX, vec![pair("7", "8")]),
    ];
    let mut log = Log::default();
    for (id, pairs) in &entries {
        log.append(*id, &flat(pairs), &limits(0, 0)).expect("none is too large");
    }
    log.check();
    assert_eq!(log.blocks(), 1);
    assert_eq!(all(&log), entries);
    for (n, (id, pairs)) in entries.iter().enumerate() {
        assert_eq!(log.get(*id).map(|entry| shown(&entry)), Some((*id, pairs.clone())));
        let from: Vec<StreamId> = log.range(*id, StreamId::MAX).map(|entry| entry.id).collect();
        assert_eq!(from.len(), entries.len() - n);
        let back: Vec<StreamId> = log.range_back(StreamId::MIN, *id).map(|e| e.id).collect();
        assert_eq!(back.len(), n + 1);
    }
    assert!(log.get(StreamId::new(5, 9)).is_none() && !log.contains(StreamId::new(6, 2)));
    assert!(log.range(StreamId::MAX, StreamId::MIN).next().is_none());
}

#[test]
fn deleted_entries_count_for_the_block_size() {
    let limits = limits(0, 10);
    let mut log = log_of(25, &limits);
    for n in 21..25 {
        assert!(log.delete(StreamId::new(n, 0)));
    }
    assert!(!log.delete(StreamId::new(24, 0)));
    for n in 26..=30 {
        log.append(StreamId::new(n, 0), &[b"f", b"v"], &limits).expect("small");
    }
    assert_eq!(log.blocks(), 3, "deleted entries still take room");
    log.append(StreamId::new(31, 0), &[b"f", b"v"], &limits).expect("small");
    assert_eq!((log.blocks(), log.len()), (4, 27));
    // The last entry of a block was deleted, and its id still marks the end of the block.
    assert!(log.delete(StreamId::new(10, 0)));
    let mut waste = Waste::default();
    assert_eq!(log.trim(&trim(Keep::From(StreamId::new(10, 0)), true, None), &mut waste), 0);
    assert_eq!(log.trim(&trim(Keep::From(StreamId::new(10, 0)), false, None), &mut waste), 9);
    assert_eq!((log.blocks(), log.first_id()), (4, StreamId::new(11, 0)));
    assert_eq!(log.trim(&trim(Keep::From(StreamId::new(10, 1)), true, None), &mut waste), 0);
    assert_eq!(log.blocks(), 3, "an empty block is removed");
    log.check();
}

#[test]
fn trims_whole_blocks_or_exactly() {
    let limits = limits(0, 10);
    let mut waste = Waste::default();
    let mut log = log_of(100, &limits);
    assert_eq!(log.trim(&trim(Keep::Newest(85), true, None), &mut waste), 10);
    assert_eq!(log.trim(&trim(Keep::Newest(85), false, None), &mut waste), 5);
    assert_eq!(log.trim(&trim(Keep::Newest(85), false, None), &mut waste), 0);
    assert_eq!((log.len(), log.first_id()), (85, StreamId::new(16, 0)));
    log.check();
    assert_eq!(log.trim(&trim(Keep::Newest(0), true, Some(14)), &mut waste), 5);
    assert_eq!(log.trim(&trim(Keep::Newest(0), true, Some(30)), &mut waste), 30);
    assert_eq!(log.trim(&trim(Keep::From(StreamId::new(75, 0)), true, None), &mut waste), 20);
    assert_eq!(log.trim(&trim(Keep::From(StreamId::new(75, 0)), false, None), &mut waste), 4);
    log.check();
    assert!(waste.into_record().is_none(), "few blocks are freed at once");
    let mut waste = Waste::default();
    assert_eq!(log.trim(&trim(Keep::Newest(0), false, None), &mut waste), 26);
    assert_eq!((log.blocks(), log.first_id(), log.last_entry_id()), (0, StreamId::MIN, None));
    assert_eq!((log.last_id, log.entries_added), (StreamId::new(100, 0), 100));

    let mut log = log_of(500, &limits);
    let mut waste = Waste::default();
    assert_eq!(log.trim(&trim(Keep::Newest(3), false, None), &mut waste), 497);
    let record = waste.into_record().expect("many blocks");
    assert!(crate::value::pieces(&record, usize::MAX) > 40);
}

#[test]
fn ids_may_restart_in_an_empty_stream() {
    let limits = limits(0, 10);
    let mut log = log_of(5, &limits);
    log.delete(StreamId::new(5, 0));
    let mut waste = Waste::default();
    // Leaves a block without entries, which began at 1-0 and ended at 5-0.
    assert_eq!(log.trim(&trim(Keep::From(StreamId::new(5, 0)), false, None), &mut waste), 4);
    assert_eq!((log.blocks(), log.len()), (1, 0));
    log.last_id = StreamId::MIN;
    log.append(StreamId::new(0, 1), &[b"f", b"v"], &limits).expect("small");
    log.append(StreamId::new(7, 0), &[b"f", b"v"], &limits).expect("small");
    log.check();
    assert_eq!(log.first_id(), StreamId::new(0, 1));
}

#[test]
fn small_and_large_streams_take_little_memory() {
    let small = Stream { log: log_of(10, &Limits::default()), groups: None };
    let record = small.into_record(b"key:000000000001", None, 0);
    assert!(memory(&record, 0) < 1000, "{}", memory(&record, 0));
    let large = Stream { log: log_of(100_000, &Limits::default()), groups: None };
    let record = large.into_record(b"k", None, 0);
    // "some name" and a number of 3 bytes, and about 6 for the rest.
    let each = memory(&record, 0) as f64 / 100_000.0;
    assert!(each < 21.0, "{each}");
    let about = memory(&record, 5) as f64 / 100_000.0;
    assert!((each - about).abs() < 4.0, "{each} {about}");
}

#[test]
fn copy_is_independent() {
    let stream = Stream { log: log_of(300, &Limits::default()), groups: None };
    let record = stream.into_record(b"k", Some(9), 3);
    let mut copy = crate::value::duplicate(&record, b"other", None, 1, 0);
    let log = &mut Stream::of_mut(&mut copy).expect("a stream").log;
    assert!(log.delete(StreamId::new(7, 0)));
    assert_eq!((len(&copy), len(&record)), (299, 300));
    assert_eq!((copy.key(), copy.expiry(), copy.clock()), (&b"other"[..], None, 1));
    assert!(crate::value::is_long_to_free(
        &Stream { log: log_of(50_000, &Limits::default()), groups: None }.into_record(b"", None, 0)
    ));
}

#[test]
fn work_is_proportional_to_the_reply() {
    let log = log_of(100_000, &Limits::default());
    let work = |from, to, count| {
        let forward = log.range_work(from, to, count, false, 2000);
        let backward = log.range_work(from, to, count, true, 2000);
        assert!(forward.abs_diff(backward) <= 1500, "{forward} {backward}");
        forward
    };
    let (first, last) = (StreamId::MIN, StreamId::MAX);
    assert!((20..50).contains(&work(first, last, 10)));
    assert!(work(first, last, u64::MAX) > 2000);
    assert!(work(StreamId::new(500, 0), StreamId::new(520, 0), u64::MAX) < 1000);
    assert_eq!(work(first, last, 0), 0);
    assert!(log.trim_work(&trim(Keep::Newest(0), false, None)) > 2000);
    assert!(log.trim_work(&trim(Keep::Newest(99_990), true, None)) < 20);
    assert!(log.trim_work(&trim(Keep::From(StreamId::new(90_000, 0)), true, None)) > 2000);
}

/// A change of a stream.
#[derive(Clone, Debug)]
enum Op {
    /// An id this far after the last one, with some of a few fields, and values of this length.
    Append {
        ms: u64,
        seq: u64,
        fields: Vec<u8>,
        len: usize,
    },
    /// Deletes the entry at this index, or an unknown id if there is none.
    Delete(usize),
    Trim {
        newest: Option<u64>,
        from: usize,
        approximate: bool,
        limit: Option<u64>,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let append = (0..4u64, 0..4u64, prop::collection::vec(0..3u8, 1..4), 0..70usize)
        .prop_map(|(ms, seq, fields, len)| Op::Append { ms, seq, fields, len });
    let trim = (prop::option::of(0..60u64), 0..80usize, any::<bool>(), prop::option::of(1..40u64))
        .prop_map(|(newest, from, approximate, limit)| Op::Trim {
            newest,
            from,
            approximate,
            limit,
        });
    prop_oneof![8 => append, 4 => (0..80usize).prop_map(Op::Delete), 1 => trim]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn matches_an_ordered_map(
        ops in prop::collection::vec(op(), 1..400),
        bytes in prop::sample::select(vec![0usize, 1, 100, 400, 4096]),
        entries in prop::sample::select(vec![0usize, 1, 3, 10, 100]),
    ) {
        let limits = limits(bytes, entries);
        let mut log = Log::default();
        let mut model: BTreeMap<StreamId, Pairs> = BTreeMap::new();
        for op in ops {
            match op {
                Op::Append { ms, seq, fields, len } => {
                    let last = log.last_id;
                    let id = StreamId::new(last.ms + ms, if ms == 0 { last.seq + 1 + seq } else { seq });
                    let pairs: Pairs = fields
                        .iter()
                        .map(|f| (vec![b'a' + f], vec![b'0' + f; len]))
                        .collect();
                    prop_assert!(log.append(id, &flat(&pairs), &limits).is_ok());
                    model.insert(id, pairs);
                }
                Op::Delete(at) => {
                    let id = model.keys().nth(at).copied();
                    let missing = StreamId::new(log.last_id.ms / 2, 1 << 40);
                    prop_assert!(!log.delete(missing));
                    if let Some(id) = id {
                        prop_assert!(log.delete(id));
                        prop_assert!(!log.contains(id));
                        model.remove(&id);
                    }
                }
                Op::Trim { newest, from, approximate, limit } => {
                    let from = model.keys().nth(from).copied().unwrap_or(log.last_id);
                    let keep = newest.map_or(Keep::From(from), Keep::Newest);
                    let mut waste = Waste::default();
                    let gone = log.trim(&trim(keep, approximate, limit), &mut waste) as usize;
                    let wanted = match keep {
                        Keep::Newest(most) => model.len().saturating_sub(most as usize),
                        Keep::From(id) => model.range(..id).count(),
                    };
                    prop_assert!(gone <= wanted);
                    prop_assert!(approximate || limit.is_some() || gone == wanted);
                    prop_assert!(limit.is_none_or(|limit| !approximate || gone as u64 <= limit));
                    for _ in 0..gone {
                        model.pop_first();
                    }
                }
            }
            prop_assert_eq!(log.len() as usize, model.len());
            prop_assert_eq!(log.first_id(), model.keys().next().copied().unwrap_or_default());
            prop_assert_eq!(log.last_entry_id(), model.keys().next_back().copied());
        }
        log.check();
        let expected: Vec<(StreamId, Pairs)> = model.clone().into_iter().collect();
        prop_assert_eq!(all(&log), expected);
        let (low, high) = (StreamId::new(3, 1), StreamId::new(log.last_id.ms / 2, 2));
        if low <= high {
            let ids = model.range(low..=high).map(|(id, _)| *id);
            prop_assert!(log.range(low, high).map(|entry| entry.id).eq(ids.clone()));
            prop_assert!(log.range_back(low, high).map(|entry| entry.id).eq(ids.rev()));
        }
    }
}
