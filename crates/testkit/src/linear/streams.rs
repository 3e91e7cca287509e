//! A stream with consumer groups, as simple as possible.
//!
//! Entries get their ids as `7-*`: the first part is given, so the second one is a count, which
//! depends only on earlier commands. Each entry has one field, `f`.

use super::answer::Answer;
use super::commands::Context;
use super::db::Held;
use std::collections::BTreeMap;

/// The first part of every id.
const MS: u64 = 7;

/// Entries by the second part of their ids.
#[derive(Clone, Debug, Default, Hash)]
pub struct Stream {
    entries: BTreeMap<u64, String>,
    /// The sequence number of the next id.
    next: u64,
    groups: BTreeMap<String, Group>,
}

#[derive(Clone, Debug, Default, Hash)]
struct Group {
    /// Earlier entries have been delivered.
    next: u64,
    /// Delivered and not acknowledged, with their consumers.
    pending: BTreeMap<u64, String>,
}

fn name(id: u64) -> Answer {
    Answer::Text(format!("{MS}-{id}"))
}

fn parse(id: &str) -> u64 {
    let (ms, seq) = id.split_once('-').unwrap_or_else(|| panic!("{id} is not an id"));
    assert_eq!(ms.parse(), Ok(MS), "{id}");
    seq.parse().unwrap_or_else(|_| panic!("{id} is not an id"))
}

fn number(word: &str) -> usize {
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

    fn listed(&self, ids: impl IntoIterator<Item = u64>) -> Answer {
        Answer::list(ids.into_iter().map(|id| self.entry(id)).collect())
    }

    fn add(&mut self, most: usize, value: &str) -> Answer {
        let id = self.next;
        self.next += 1;
        self.entries.insert(id, value.into());
        while self.entries.len() > most {
            self.entries.pop_first();
        }
        name(id)
    }

    /// Delivers new entries of the group, which must exist, to `consumer`.
    fn deliver(&mut self, group: &str, consumer: &str, most: usize) -> Vec<u64> {
        let group = self.groups.get_mut(group).expect("the caller has checked");
        let ids: Vec<u64> =
            self.entries.range(group.next..).take(most).map(|(id, _)| *id).collect();
        group.next = ids.last().map_or(group.next, |last| last + 1);
        group.pending.extend(ids.iter().map(|id| (*id, consumer.to_string())));
        ids
    }
}

impl Group {
    fn summary(&self) -> Answer {
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

impl Context<'_> {
    fn no_group(key: &str, group: &str, tail: &str) -> Answer {
        Answer::Error(format!("NOGROUP No such key '{key}' or consumer group '{group}'{tail}"))
    }

    /// The reply of a command on a stream; `None`: it waits, and its timeout is not over.
    pub(super) fn streams(&mut self, words: &[&str]) -> Option<Answer> {
        Some(match *words {
            ["XADD", key, "MAXLEN", most, "7-*", "f", value] => {
                let mut stream = self.db.stream(key).unwrap_or_default();
                let id = stream.add(number(most), value);
                self.change(key, Held::Stream(stream));
                id
            }
            ["XDEL", key, id] => {
                let Some(mut stream) = self.db.stream(key) else { return Some(Answer::Int(0)) };
                let had = stream.entries.remove(&parse(id)).is_some();
                self.change(key, Held::Stream(stream));
                Answer::Int(i64::from(had))
            }
            ["XLEN", key] => {
                Answer::Int(self.db.stream(key).map_or(0, |stream| stream.entries.len()) as i64)
            }
            ["XRANGE", key, "-", "+"] => {
                let stream = self.db.stream(key).unwrap_or_default();
                stream.listed(stream.entries.keys().copied())
            }
            ["XREADGROUP", "GROUP", group, consumer, "COUNT", most, ref rest @ ..] => {
                return self.read_group(group, consumer, number(most), rest);
            }
            _ => self.groups(words),
        })
    }

    fn read_group(
        &mut self,
        group: &str,
        consumer: &str,
        most: usize,
        rest: &[&str],
    ) -> Option<Answer> {
        let (&[key, from], waits) = (match rest {
            ["STREAMS", names @ ..] => (names, false),
            ["BLOCK", _, "STREAMS", names @ ..] => (names, true),
            _ => panic!("the model has no XREADGROUP {rest:?}"),
        }) else {
            panic!("one stream at a time: {rest:?}")
        };
        let stream = self.db.stream(key).filter(|stream| stream.groups.contains_key(group));
        let Some(mut stream) = stream else {
            return Some(Self::no_group(key, group, " in XREADGROUP with GROUP option"));
        };
        let ids = match from {
            "0" => {
                let pending = &stream.groups[group].pending;
                let own = pending.iter().filter(|(_, owner)| *owner == consumer);
                own.take(most).map(|(id, _)| *id).collect()
            }
            _ => stream.deliver(group, consumer, most),
        };
        if from == ">" && ids.is_empty() {
            return (!waits || self.may_give_up).then_some(Answer::Nil);
        }
        let found = stream.listed(ids);
        if from == ">" {
            self.change(key, Held::Stream(stream));
        }
        Some(Answer::List(vec![Answer::List(vec![Answer::Text(key.into()), found])]))
    }

    fn groups(&mut self, words: &[&str]) -> Answer {
        let (key, group) = match *words {
            ["XGROUP", _, key, group, ..] | [_, key, group, ..] => (key, group),
            _ => panic!("the model has no {words:?}"),
        };
        let there = self.db.stream(key);
        if let ["XGROUP", "CREATE", _, _, "0", "MKSTREAM"] = *words {
            let mut stream = there.unwrap_or_default();
            if stream.groups.contains_key(group) {
                return Answer::Error("BUSYGROUP Consumer Group name already exists".into());
            }
            stream.groups.insert(group.into(), Group::default());
            self.change(key, Held::Stream(stream));
            return Answer::ok();
        }
        let Some(mut stream) = there.filter(|stream| stream.groups.contains_key(group)) else {
            return match words[0] {
                "XACK" => Answer::Int(0),
                _ => Self::no_group(key, group, ""),
            };
        };
        let pending = &mut stream.groups.get_mut(group).expect("the group exists").pending;
        let answer = match *words {
            ["XACK", _, _, ref ids @ ..] => {
                let known = ids.iter().filter(|id| pending.remove(&parse(id)).is_some());
                Answer::Int(known.count() as i64)
            }
            ["XPENDING", _, _] => return stream.groups[group].summary(),
            ["XCLAIM", _, _, consumer, "0", ref ids @ .., "JUSTID"] => {
                let mut claimed = Vec::new();
                for id in ids.iter().map(|id| parse(id)) {
                    if !stream.entries.contains_key(&id) {
                        // A claim removes a deleted entry for all consumers.
                        pending.remove(&id);
                    } else if let Some(owner) = pending.get_mut(&id) {
                        *owner = consumer.to_string();
                        claimed.push(name(id));
                    }
                }
                Answer::List(claimed)
            }
            _ => panic!("the model has no {words:?}"),
        };
        self.change(key, Held::Stream(stream));
        answer
    }
}
