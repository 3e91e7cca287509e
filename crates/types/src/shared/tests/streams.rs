//! Streams: entries are added, deleted and trimmed; consumers of groups read, claim and acknowledge
//! them.

use super::{Draws, Subject, rounds, run_changes};
use crate::stream::groups::{Group, Pending};
use crate::stream::{Keep, Stream, StreamId, Trim, Waste};
use crate::string::Digits;
use crate::{Limits, Record};
use std::collections::BTreeMap;

/// Consumer, time and number of deliveries of a pending entry.
type Delivery = (Vec<u8>, i64, i64);

#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    entries: BTreeMap<StreamId, Vec<Vec<u8>>>,
    groups: BTreeMap<Vec<u8>, GroupModel>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct GroupModel {
    last_id: StreamId,
    consumers: BTreeMap<Vec<u8>, i64>,
    pending: BTreeMap<StreamId, Delivery>,
}

struct Entries {
    record: Record,
    model: Model,
    next: u64,
    time: i64,
    limits: Limits,
}

impl Entries {
    fn new(entries: u64, block: usize) -> Self {
        let record = Stream::default().into_record(b"stream", None, 0);
        let limits = Limits { stream_node_entries: block, ..Limits::default() };
        let mut all = Entries { record, model: Model::default(), next: 1, time: 1, limits };
        (0..entries).for_each(|n| all.append(n));
        all
    }

    fn append(&mut self, n: u64) {
        let id = StreamId::new(self.next / 4, self.next % 4);
        self.next += 1;
        let number = n.to_string().into_bytes();
        let mut pairs = vec![b"field".to_vec(), number.clone()];
        if n.is_multiple_of(5) {
            pairs.extend([number, vec![b'v'; (n % 90) as usize]]);
        }
        let texts: Vec<&[u8]> = pairs.iter().map(|text| &text[..]).collect();
        stream(&mut self.record).log.append(id, &texts, &self.limits).expect("it is small");
        self.model.entries.insert(id, pairs);
    }

    /// A random id that was assigned.
    fn some_id(&self, draws: &mut Draws) -> StreamId {
        let n = 1 + draws.below(self.next as usize) as u64;
        StreamId::new(n / 4, n % 4)
    }
}

fn stream(record: &mut Record) -> &mut Stream {
    Stream::of_mut(record).expect("a stream")
}

fn group_name(draws: &mut Draws) -> Vec<u8> {
    format!("group-{}", draws.below(3)).into_bytes()
}

/// Makes one change to a group and to its model.
fn change_group(
    group: &mut Group,
    model: &mut GroupModel,
    id: StreamId,
    now: i64,
    draws: &mut Draws,
) {
    let name = format!("consumer-{}", draws.below(5)).into_bytes();
    match draws.below(12) {
        0..6 => {
            let (owner, new) = group.create_consumer(&name, now);
            if new {
                model.consumers.insert(name.clone(), now);
            }
            let pending = Pending { owner, delivered_ms: now, deliveries: 1 };
            group.give(id, pending);
            model.pending.insert(id, (name, now, 1));
        }
        6..10 => {
            assert_eq!(group.acknowledge(id), model.pending.remove(&id).is_some());
        }
        10 => {
            group.delivered_again(id, now);
            if let Some((_, time, deliveries)) = model.pending.get_mut(&id) {
                (*time, *deliveries) = (now, *deliveries + 1);
            }
        }
        _ if draws.once_in(4) => {
            group.delete_consumer(&name);
            model.consumers.remove(&name);
            model.pending.retain(|_, (owner, ..)| *owner != name);
        }
        _ => {
            (group.last_id, model.last_id) = (id, id);
            if let Some(owner) = group.find_consumer(&name) {
                group.consumer_mut(owner).seen_ms = now;
                model.consumers.insert(name, now);
            }
        }
    }
}

impl Subject for Entries {
    type Model = Model;

    fn record(&self) -> &Record {
        &self.record
    }

    fn model(&self) -> &Model {
        &self.model
    }

    fn step(&mut self, draws: &mut Draws) {
        self.time += 1;
        let id = self.some_id(draws);
        match draws.below(40) {
            0..14 => self.append(draws.next() % 1000),
            14..17 => {
                let deleted = stream(&mut self.record).log.delete(id);
                assert_eq!(deleted, self.model.entries.remove(&id).is_some());
            }
            17 => {
                let most = self.model.entries.len() - draws.below(1 + self.model.entries.len() / 6);
                let trim =
                    Trim { keep: Keep::Newest(most as u64), approximate: false, limit: None };
                stream(&mut self.record).log.trim(&trim, &mut Waste::default());
                while self.model.entries.len() > most {
                    self.model.entries.pop_first();
                }
            }
            18 => {
                let name = group_name(draws);
                let groups = stream(&mut self.record).groups.get_or_insert_default();
                let known = self.model.groups.remove(&name).is_some();
                assert_eq!(groups.remove(&name).is_some(), known);
                if draws.once_in(2) {
                    assert!(groups.create(&name, Group::new(id, None)));
                    let model = GroupModel { last_id: id, ..GroupModel::default() };
                    self.model.groups.insert(name, model);
                }
            }
            _ => {
                let name = group_name(draws);
                let groups = stream(&mut self.record).groups.get_or_insert_default();
                if groups.get(&name).is_none() {
                    groups.create(&name, Group::new(StreamId::MIN, None));
                }
                let group = groups.get_mut(&name).expect("it was just made");
                let model = self.model.groups.entry(name).or_default();
                for _ in 0..8 {
                    let n = 1 + draws.below(self.next as usize) as u64;
                    let id = StreamId::new(n / 4, n % 4);
                    change_group(group, model, id, self.time, draws);
                }
            }
        }
    }

    fn read(record: &Record) -> Model {
        let text = |value: crate::packed::Value<'_>| value.bytes(&mut Digits::new()).to_vec();
        let stream = Stream::of(record).expect("a stream");
        let mut model = Model::default();
        for entry in stream.log.runs().flatten() {
            let pairs = entry.pairs().flat_map(|(field, value)| [text(field), text(value)]);
            assert!(model.entries.insert(entry.id, pairs.collect()).is_none());
        }
        assert_eq!(stream.log.len(), model.entries.len() as u64);
        let first = model.entries.keys().next().copied().unwrap_or(StreamId::MIN);
        assert_eq!(stream.log.first_id(), first);
        for (name, group) in stream.groups.iter().flat_map(|groups| groups.iter()) {
            let mut seen = GroupModel { last_id: group.last_id, ..GroupModel::default() };
            for (id, p) in group.pending_from(StreamId::MIN) {
                let owner = group.consumer(p.owner).name().to_vec();
                seen.pending.insert(id, (owner, p.delivered_ms, p.deliveries));
            }
            assert_eq!(group.pending_len(), seen.pending.len());
            let mut owned = 0;
            for (owner, consumer) in group.consumers() {
                seen.consumers.insert(consumer.name().to_vec(), consumer.seen_ms);
                owned += group.pending_of(owner, StreamId::MIN).count();
            }
            assert_eq!(owned, seen.pending.len(), "each pending entry has a consumer");
            model.groups.insert(name.to_vec(), seen);
        }
        model
    }
}

#[test]
fn stream_snapshots_are_stable() {
    let cases = [(1, 10, 3), (2, 500, 3), (3, 3000, 10), (4, 20_000, 100)];
    for (seed, entries, block) in cases {
        let mut draws = Draws(seed);
        let entries = if cfg!(miri) { entries.min(40) } else { entries };
        let rounds = rounds(if entries > 10_000 { 20 } else { 100 });
        run_changes(Entries::new(entries, block), &mut draws, rounds, 60);
    }
}

/// Some ten thousand pending entries fill several pages of blocks. Production has millions.
#[test]
#[cfg_attr(miri, ignore = "many entries")]
fn groups_with_many_pending_entries() {
    let mut draws = Draws(9);
    let mut subject = Entries::new(20_000, 100);
    let mut group = Group::new(StreamId::MIN, None);
    let mut model = GroupModel::default();
    let ids: Vec<StreamId> = subject.model.entries.keys().copied().collect();
    for (n, id) in ids.iter().enumerate() {
        let name = format!("consumer-{}", n % 3).into_bytes();
        let (owner, _) = group.create_consumer(&name, 1);
        group.give(*id, Pending { owner, delivered_ms: n as i64, deliveries: 1 });
        model.consumers.insert(name.clone(), 1);
        model.pending.insert(*id, (name, n as i64, 1));
    }
    stream(&mut subject.record).groups.get_or_insert_default().create(b"group-0", group);
    subject.model.groups.insert(b"group-0".to_vec(), model);
    run_changes(subject, &mut draws, 30, 200);
}
