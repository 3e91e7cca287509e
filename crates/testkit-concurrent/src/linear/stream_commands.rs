//! Replies and effects of commands on streams.

use super::answer::Answer;
use super::commands::Context;
use super::db::Held;
use super::streams::{Group, name, number, parse};

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
