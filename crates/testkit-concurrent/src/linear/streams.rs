//! A stream with consumer groups, as simple as possible.
//!
//! Entries get their ids as `7-*`: the first part is given, so the second one is a count, which
//! depends only on earlier commands. Each entry has one field, `f`.

use super::answer::Answer;
use std::collections::BTreeMap;

/// The first part of every id.
const MS: u64 = 7;

/// Entries by the second part of their ids.
#[derive(Clone, Debug, Default, Hash)]
pub struct Stream {
    pub(super) entries: BTreeMap<u64, String>,
    /// The sequence number of the next id.
    next: u64,
    pub(super) groups: BTreeMap<String, Group>,
}

#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Group {
    /// Earlier entries have been delivered.
    next: u64,
    /// Delivered and not acknowledged, with their consumers.
    pub(super) pending: BTreeMap<u64, String>,
}

pub(super) fn name(id: u64) -> Answer {
    Answer::Text(format!("{MS}-{id}"))
}

pub(super) fn parse(id: &str) -> u64 {
    let (ms, seq) = id.split_once('-').unwrap_or_else(|| panic!("{id} is not an id"));
    assert_eq!(ms.parse(), Ok(MS), "{id}");
    seq.parse().unwrap_or_else(|_| panic!("{id} is not an id"))
}

pub(super) fn number(word: &str) -> usize {
    word.parse().unwrap_or_else(|_| panic!("{word:?} is not a number"))
}

impl Stream {
    fn entry(&self, id: u64) -> Answer {
        let fields = match self.entries.get(&id) {
            Some(value) => {
                Answer::List(vec![Answer::Text("f".into()), Answer::Text(value.clone())])
            }
            None => Answer::Nil,
        };
        Answer::List(vec![name(id), fields])
    }

    pub(super) fn listed(&self, ids: impl IntoIterator<Item = u64>) -> Answer {
        Answer::list(ids.into_iter().map(|id| self.entry(id)).collect())
    }

    pub(super) fn add(&mut self, most: usize, value: &str) -> Answer {
        let id = self.next;
        self.next += 1;
        self.entries.insert(id, value.into());
        while self.entries.len() > most {
            self.entries.pop_first();
        }
        name(id)
    }

    /// Delivers new entries of the group, which must exist, to `consumer`.
    pub(super) fn deliver(&mut self, group: &str, consumer: &str, most: usize) -> Vec<u64> {
        let group = self.groups.get_mut(group).expect("the caller has checked");
        let ids: Vec<u64> =
            self.entries.range(group.next..).take(most).map(|(id, _)| *id).collect();
        group.next = ids.last().map_or(group.next, |last| last + 1);
        group.pending.extend(ids.iter().map(|id| (*id, consumer.to_string())));
        ids
    }
}

impl Group {
    pub(super) fn summary(&self) -> Answer {
        let (Some((first, _)), Some((last, _))) =
            (self.pending.first_key_value(), self.pending.last_key_value())
        else {
            return Answer::List(vec![Answer::Int(0), Answer::Nil, Answer::Nil, Answer::Nil]);
        };
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for consumer in self.pending.values() {
            *counts.entry(consumer).or_default() += 1;
        }
        let of_each = |(consumer, count): (&str, usize)| {
            Answer::List(vec![Answer::Text(consumer.into()), Answer::Text(count.to_string())])
        };
        let counts = Answer::List(counts.into_iter().map(of_each).collect());
        Answer::List(vec![
            Answer::Int(self.pending.len() as i64),
            name(*first),
            name(*last),
            counts,
        ])
    }
}
