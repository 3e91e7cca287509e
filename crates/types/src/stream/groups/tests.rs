//! Compares groups and their maps with plain models.

use super::sorted::Sorted;
use super::{Counts, Group, Groups, Pending};
use crate::stream::StreamId;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn id(n: u64) -> StreamId {
    StreamId { ms: n / 3, seq: n % 3 }
}

/// A time as a value, unlike `()`.
impl super::Timed for i64 {
    fn time_ms(&self) -> i64 {
        *self
    }
}

type Model = BTreeMap<StreamId, i64>;

fn same(sorted: &Sorted<i64>, model: &Model, from: u64, until_ms: i64) {
    sorted.check();
    assert_eq!(sorted.len(), model.len());
    assert_eq!(sorted.first(), model.keys().next().copied());
    assert_eq!(sorted.last(), model.keys().next_back().copied());
    let all = |id: &StreamId, time: &i64| (*id, *time);
    let expected = model.range(id(from)..).map(|(id, time)| all(id, time));
    assert!(sorted.iter_from(id(from)).eq(expected));
    let expected = model.range(id(from)..).filter(|(_, time)| **time <= until_ms);
    assert!(
        sorted
            .iter_old_from(id(from), until_ms, usize::MAX)
            .eq(expected.map(|(id, time)| all(id, time)))
    );
}

#[test]
fn ascending_inserts_fill_blocks() {
    let n = 10_000;
    let mut sorted = Sorted::default();
    for i in 0..n {
        assert_eq!(sorted.insert(id(i), i as i64), None);
    }
    sorted.check();
    assert_eq!(sorted.pieces(), n.div_ceil(128) as usize);
    let each = sorted.memory() / n as usize;
    assert!((24..=27).contains(&each), "{each} bytes for an id and a time");
    for i in 0..n {
        assert_eq!(sorted.remove(id(i)), Some(i as i64));
        assert_eq!(sorted.remove(id(i)), None);
        assert_eq!(sorted.first(), (i + 1 < n).then(|| id(i + 1)));
    }
    assert_eq!((sorted.pieces(), sorted.memory()), (1, 0));
}

/// Few remaining entries do not keep the memory of many.
#[test]
fn sparse_blocks_are_joined() {
    let orders: [Vec<u64>; 2] = [(0..100_000).collect(), (0..100_000).rev().collect()];
    for order in orders {
        let mut sorted = Sorted::default();
        for i in 0..100_000 {
            sorted.insert(id(i), i as i64);
        }
        for i in order {
            if i % 100 != 0 {
                sorted.remove(id(i));
            }
        }
        sorted.check();
        assert_eq!(sorted.len(), 1000);
        assert!(sorted.pieces() < 1000 / 16, "{} blocks", sorted.pieces());
    }
}

#[test]
fn skips_blocks_of_young_values() {
    let mut sorted = Sorted::default();
    for i in 0..128_000 {
        sorted.insert(id(i), i as i64);
    }
    let mut walk = sorted.iter_old_from(id(0), 200, usize::MAX);
    assert_eq!(walk.by_ref().count(), 201);
    assert!(walk.looked_at < 256 + 2000, "{}", walk.looked_at);
}

/// A walk that finds no entry still stops at its limit, both among blocks with only young entries
/// and among entries of which one was old when the block's bound was set.
#[test]
fn walk_without_results_stops_at_its_limit() {
    let mut sorted = Sorted::default();
    for i in 0..128_000 {
        sorted.insert(id(i), 500);
    }
    let looked_at = |sorted: &Sorted<i64>| {
        let mut walk = sorted.iter_old_from(id(0), 200, 300);
        assert_eq!(walk.by_ref().count(), 0);
        walk.looked_at
    };
    assert!(looked_at(&sorted) <= 301);
    for i in 0..128_000 {
        sorted.change(id(i), |time| *time = 100);
        sorted.change(id(i), |time| *time = 500);
    }
    assert!(looked_at(&sorted) <= 301);
    // Blocks count as work, too.
    let found = sorted.iter_old_from(id(0), 500, 300).count();
    assert!((250..=301).contains(&found), "{found}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Phases of growth, in order or not, and of shrinking, from an end or anywhere.
    #[test]
    fn sorted_maps(phases in prop::collection::vec((0..6u8, 1..900u64, any::<u64>()), 1..12)) {
        let mut sorted = Sorted::default();
        let mut model = Model::new();
        for (phase, n, seed) in phases {
            for step in 0..n {
                let any = seed.wrapping_add(step).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
                let nth = |model: &Model| model.keys().nth(any as usize % model.len().max(1)).copied();
                let (first, last) = (sorted.first(), sorted.last());
                let time = (any % 97) as i64;
                match phase {
                    0 => {
                        let next = last.map_or(id(2000), |last| id(last.ms * 3 + last.seq + 1));
                        prop_assert_eq!(sorted.insert(next, time), model.insert(next, time));
                    }
                    1 => prop_assert_eq!(sorted.insert(id(any), time), model.insert(id(any), time)),
                    2..=4 => {
                        let out = [first, last, nth(&model)][usize::from(phase) - 2];
                        let out = out.unwrap_or(id(any));
                        prop_assert_eq!(sorted.remove(out), model.remove(&out));
                    }
                    _ => {
                        let at = nth(&model).unwrap_or(id(any));
                        let there = sorted.change(at, |value| *value = time);
                        prop_assert_eq!(there, model.get_mut(&at).map(|value| *value = time).is_some());
                        prop_assert_eq!(sorted.get(at), model.get(&at).copied());
                    }
                }
            }
            same(&sorted, &model, seed % 5000, (seed % 100) as i64);
        }
        same(&sorted, &model, 0, i64::MAX);
    }

    /// Deliveries, claims, acknowledgements and deletions of consumers.
    #[test]
    fn groups(steps in prop::collection::vec((0..7u8, 0..5u8, 0..400u64, 0..1000i64), 1..1500)) {
        let mut group = Group::new(StreamId::MIN, None);
        let mut model: BTreeMap<StreamId, (u8, i64, i64)> = BTreeMap::new();
        let mut names = std::collections::BTreeSet::new();
        for (step, name, n, time) in steps {
            match step {
                0..4 => {
                    let (owner, new) = group.create_consumer(&[name], time);
                    prop_assert_eq!(new, names.insert(name));
                    let deliveries = (n as i64) << 40;
                    group.give(id(n), Pending { owner, delivered_ms: time, deliveries });
                    model.insert(id(n), (name, time, deliveries));
                }
                4 => prop_assert_eq!(group.acknowledge(id(n)), model.remove(&id(n)).is_some()),
                5 => {
                    group.delivered_again(id(n), time);
                    model.entry(id(n)).and_modify(|entry| *entry = (entry.0, time, entry.2 + 1));
                }
                _ if n < 20 => {
                    let of = model.values().filter(|(owner, ..)| *owner == name).count();
                    prop_assert_eq!(group.delete_consumer(&[name]), of);
                    model.retain(|_, (owner, ..)| *owner != name);
                    names.remove(&name);
                }
                _ => {}
            }
        }
        group.check();
        let plain = |(id, pending): (StreamId, Pending)| {
            let name = group.consumer(pending.owner).name()[0];
            (id, (name, pending.delivered_ms, pending.deliveries))
        };
        let expected = || model.iter().map(|(id, entry)| (*id, *entry));
        prop_assert!(group.pending_from(StreamId::MIN).map(plain).eq(expected()));
        prop_assert_eq!(group.pending_len(), model.len());
        prop_assert_eq!(group.consumers_len(), names.len());
        prop_assert!(group.consumers().map(|(_, c)| c.name()[0]).eq(names.iter().copied()));
        for name in &names {
            let owner = group.find_consumer(&[*name]).expect("it was made");
            let expected = expected().filter(|(_, (of, ..))| of == name);
            prop_assert!(group.pending_of(owner, StreamId::MIN).map(plain).eq(expected));
        }
    }
}

#[test]
fn stores_any_number_of_deliveries() {
    let mut group = Group::new(StreamId::MIN, None);
    let (owner, _) = group.create_consumer(b"c", 5);
    for n in [0, 1, -1, i64::MIN, i64::MAX, 1 << 32, -(1 << 32), 0xffff_ffff] {
        let pending = Pending { owner, delivered_ms: n, deliveries: n };
        group.give(id(1), pending);
        assert_eq!(group.pending(id(1)), Some(pending));
        group.delivered_again(id(1), 7);
        let deliveries = n.wrapping_add(1);
        assert_eq!(group.pending(id(1)), Some(Pending { owner, delivered_ms: 7, deliveries }));
    }
}

#[test]
fn entries_read_is_counted_until_a_deletion() {
    let mut stream = Counts {
        length: 5,
        entries_added: 5,
        last_id: id(5),
        first_id: id(1),
        max_deleted_id: StreamId::MIN,
    };
    let mut group = Group::new(StreamId::MIN, None);
    assert_eq!(group.lag(&stream), Some(5), "known at the beginning of the stream");
    group.advance(id(1), &stream);
    assert_eq!((group.entries_read, group.lag(&stream)), (Some(1), Some(4)));
    group.advance(id(1), &stream);
    assert_eq!(group.entries_read, Some(1), "it was read already");
    stream.length = 4;
    stream.max_deleted_id = id(3);
    assert_eq!(group.lag(&stream), None, "some of the four may be deleted");
    group.advance(id(2), &stream);
    assert_eq!((group.entries_read, group.lag(&stream)), (None, None));
    group.advance(id(4), &stream);
    assert_eq!((group.entries_read, group.lag(&stream)), (None, None));
    group.advance(id(5), &stream);
    assert_eq!((group.entries_read, group.lag(&stream)), (Some(5), Some(0)));
}

/// After unread entries were trimmed, the id of the next read entry restores the count.
#[test]
fn trimmed_unread_entries_are_counted() {
    let stream = Counts {
        length: 2,
        entries_added: 5,
        last_id: id(5),
        first_id: id(4),
        max_deleted_id: StreamId::MIN,
    };
    let mut group = Group::new(id(1), Some(1));
    group.advance(id(4), &stream);
    assert_eq!((group.entries_read, group.lag(&stream)), (Some(4), Some(1)));
    group.advance(id(5), &stream);
    assert_eq!((group.entries_read, group.lag(&stream)), (Some(5), Some(0)));
}

#[test]
fn groups_are_found_and_ordered_by_name() {
    let mut groups = Groups::default();
    assert!(groups.is_empty() && groups.create(b"b", Group::new(id(3), None)));
    assert!(!groups.create(b"b", Group::new(id(4), None)), "the name is taken");
    assert!(groups.create(b"a", Group::new(id(5), Some(1))));
    assert_eq!(groups.get(b"b").map(|group| group.last_id), Some(id(3)));
    assert!(groups.iter().map(|(name, _)| name).eq([&b"a"[..], b"b"]));
    assert!(groups.memory() > 0 && groups.pieces(100) > 2 && groups.len() == 2);
    let group = groups.get_mut(b"a").expect("it is there");
    let (owner, _) = group.create_consumer(b"c", 0);
    for n in 0..100_000 {
        group.give(id(n), Pending { owner, delivered_ms: 0, deliveries: 1 });
    }
    assert!(groups.pieces(500) >= 500);
    let each = groups.memory() / 100_000;
    assert!((52..=56).contains(&each), "{each} bytes for a pending entry");
    assert!(groups.remove(b"a").is_some() && groups.remove(b"a").is_none());
}
