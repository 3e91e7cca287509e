//! The server with one client at a time: what each operation answers and leaves behind.
//!
//! Only what the histories use, and as plainly as can be, since nothing checks the model but the
//! reader and the agreement of two servers with it.

use super::Op;
use crate::Value;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What an operation got, in a form that does not depend on the protocol's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Nil,
    Int(i64),
    Text(String),
    List(Vec<Answer>),
}

impl Answer {
    /// Of a reply. Errors are texts.
    pub fn of(value: &Value) -> Answer {
        match value {
            Value::Null | Value::NullBulk | Value::NullArray => Answer::Nil,
            Value::Integer(n) => Answer::Int(*n),
            Value::Array(items) | Value::Push(items) => {
                Answer::List(items.iter().map(Answer::of).collect())
            }
            Value::Set(items) => {
                let mut texts: Vec<String> = items.iter().map(Value::text).collect();
                texts.sort();
                Answer::List(texts.into_iter().map(Answer::Text).collect())
            }
            other => Answer::Text(other.text()),
        }
    }
}

/// A value of a key.
#[derive(Debug, Hash)]
enum Held {
    Text(String),
    List(VecDeque<String>),
    Set(BTreeSet<String>),
    Hash(BTreeMap<String, i64>),
    /// Scores and members in order.
    Zset(BTreeSet<(i64, String)>),
}

/// The store, and who watches what. Cheap to clone, since the search does little else.
#[derive(Clone, Debug, Default)]
pub struct State {
    keys: BTreeMap<Arc<str>, Arc<Held>>,
    /// The digests of all keys with their values, xored.
    digest: u128,
    /// By client: the watched keys, and whether one of them has changed.
    watches: BTreeMap<usize, (Arc<BTreeSet<String>>, bool)>,
}

/// A hash of 128 bits in the place of what it is of: a collision is less likely than a fault of
/// the machine.
pub(super) fn digest(of: &impl Hash) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        of.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

impl State {
    /// Whether `op` of `client` answers `answer` now; if so, the state is that after it.
    pub fn step(&mut self, client: usize, op: &Op, answer: &Answer) -> bool {
        match op {
            Op::Command(args) => self.command(args, answer.is_nil()).as_ref() == Some(answer),
            Op::Watch(keys) => {
                let watch = self.watches.entry(client).or_default();
                Arc::make_mut(&mut watch.0).extend(keys.iter().cloned());
                *answer == Answer::Text("OK".into())
            }
            Op::Exec(commands) => {
                let broken = self.watches.remove(&client).is_some_and(|(_, broken)| broken);
                if broken {
                    return answer.is_nil();
                }
                let answers: Option<Vec<Answer>> =
                    commands.iter().map(|args| self.command(args, true)).collect();
                answers.map(Answer::List).as_ref() == Some(answer)
            }
        }
    }

    fn changed(&mut self, key: &str) {
        for (keys, broken) in self.watches.values_mut() {
            *broken |= keys.contains(key);
        }
    }

    fn put(&mut self, key: &str, value: Held) {
        let empty = match &value {
            Held::Text(_) => false,
            Held::List(list) => list.is_empty(),
            Held::Set(set) => set.is_empty(),
            Held::Hash(hash) => hash.is_empty(),
            Held::Zset(zset) => zset.is_empty(),
        };
        if empty {
            self.remove(key);
        } else {
            self.digest ^= digest(&(key, &value));
            if let Some(old) = self.keys.insert(key.into(), Arc::new(value)) {
                self.digest ^= digest(&(key, &*old));
            }
        }
        self.changed(key);
    }

    fn remove(&mut self, key: &str) -> bool {
        let old = self.keys.remove(key);
        if let Some(old) = &old {
            self.digest ^= digest(&(key, &**old));
        }
        old.is_some()
    }

    fn get(&self, key: &str) -> Option<&Held> {
        self.keys.get(key).map(|held| &**held)
    }

    /// Stands for this state among all.
    pub(super) fn digest(&self) -> u128 {
        self.digest ^ digest(&self.watches)
    }

    fn text(&self, key: &str) -> Option<&String> {
        match self.get(key)? {
            Held::Text(text) => Some(text),
            Held::List(_) | Held::Set(_) | Held::Hash(_) | Held::Zset(_) => None,
        }
    }

    fn list(&self, key: &str) -> VecDeque<String> {
        match self.get(key) {
            Some(Held::List(list)) => list.clone(),
            _ => VecDeque::new(),
        }
    }

    fn set(&self, key: &str) -> BTreeSet<String> {
        match self.get(key) {
            Some(Held::Set(set)) => set.clone(),
            _ => BTreeSet::new(),
        }
    }

    fn zset(&self, key: &str) -> BTreeSet<(i64, String)> {
        match self.get(key) {
            Some(Held::Zset(zset)) => zset.clone(),
            _ => BTreeSet::new(),
        }
    }

    fn hash(&self, key: &str) -> BTreeMap<String, i64> {
        match self.get(key) {
            Some(Held::Hash(hash)) => hash.clone(),
            _ => BTreeMap::new(),
        }
    }

    fn pop(&mut self, key: &str, left: bool) -> Option<String> {
        let mut list = self.list(key);
        let popped = if left { list.pop_front() } else { list.pop_back() }?;
        self.put(key, Held::List(list));
        Some(popped)
    }

    fn push(&mut self, key: &str, value: &str, left: bool) -> i64 {
        let mut list = self.list(key);
        if left {
            list.push_front(value.into())
        } else {
            list.push_back(value.into())
        }
        let len = list.len() as i64;
        self.put(key, Held::List(list));
        len
    }

    fn move_element(&mut self, from: &str, to: &str, from_left: bool, to_left: bool) -> Answer {
        match self.pop(from, from_left) {
            None => Answer::Nil,
            Some(value) => {
                self.push(to, &value, to_left);
                Answer::Text(value)
            }
        }
    }

    /// The answer of a command, `None` when it can't be executed now: one that waits, while there
    /// is nothing to be had and its time is not over (`may_give_up`: it is, or it must not wait).
    fn command(&mut self, args: &[String], may_give_up: bool) -> Option<Answer> {
        let text = |t: Option<&String>| t.map_or(Answer::Nil, |t| Answer::Text(t.clone()));
        let ok = || Answer::Text("OK".into());
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        Some(match words[..] {
            ["GET", key] => text(self.text(key)),
            ["SET", key, value] => {
                self.put(key, Held::Text(value.into()));
                ok()
            }
            ["GETSET", key, value] => {
                let old = text(self.text(key));
                self.put(key, Held::Text(value.into()));
                old
            }
            ["DEL", ref keys @ ..] => {
                let mut n = 0;
                for key in keys {
                    if self.remove(key) {
                        self.changed(key);
                        n += 1;
                    }
                }
                Answer::Int(n)
            }
            ["INCRBY", key, by] => {
                let old: i64 = self.text(key).map_or(0, |t| t.parse().expect("a number"));
                let new = old + by.parse::<i64>().expect("a number");
                self.put(key, Held::Text(new.to_string()));
                Answer::Int(new)
            }
            ["MGET", ref keys @ ..] => {
                Answer::List(keys.iter().map(|key| text(self.text(key))).collect())
            }
            ["MSET", ref pairs @ ..] => {
                for pair in pairs.chunks(2) {
                    self.put(pair[0], Held::Text(pair[1].into()));
                }
                ok()
            }
            ["RPUSH", key, value] => Answer::Int(self.push(key, value, false)),
            ["LPUSH", key, value] => Answer::Int(self.push(key, value, true)),
            ["LPOP", key] => text(self.pop(key, true).as_ref()),
            ["RPOP", key] => text(self.pop(key, false).as_ref()),
            ["LRANGE", key, "0", "-1"] => {
                Answer::List(self.list(key).into_iter().map(Answer::Text).collect())
            }
            ["LMOVE", from, to, a, b] => self.move_element(from, to, a == "LEFT", b == "LEFT"),
            ["BLMOVE", from, to, a, b, _] => {
                match self.move_element(from, to, a == "LEFT", b == "LEFT") {
                    Answer::Nil if !may_give_up => return None,
                    answer => answer,
                }
            }
            ["BLPOP", ref keys @ .., _] => {
                match keys.iter().find(|key| self.keys.contains_key(**key)) {
                    Some(key) => {
                        let value = self.pop(key, true).expect("no list is empty");
                        Answer::List(vec![Answer::Text((*key).into()), Answer::Text(value)])
                    }
                    None if may_give_up => Answer::Nil,
                    None => return None,
                }
            }
            ["SADD", key, member] => {
                let mut set = self.set(key);
                let new = set.insert(member.into());
                if new {
                    self.put(key, Held::Set(set));
                }
                Answer::Int(i64::from(new))
            }
            ["SMOVE", from, to, member] => {
                let mut set = self.set(from);
                let had = set.remove(member);
                if had {
                    self.put(from, Held::Set(set));
                    let mut set = self.set(to);
                    set.insert(member.into());
                    self.put(to, Held::Set(set));
                }
                Answer::Int(i64::from(had))
            }
            ["SINTERCARD", "2", a, b] => {
                Answer::Int(self.set(a).intersection(&self.set(b)).count() as i64)
            }
            ["SUNIONSTORE", to, a, b] => {
                let union: BTreeSet<_> = self.set(a).union(&self.set(b)).cloned().collect();
                let len = union.len() as i64;
                self.put(to, Held::Set(union));
                Answer::Int(len)
            }
            ["HINCRBY", key, field, by] => {
                let mut hash = self.hash(key);
                let n = hash.entry(field.into()).or_insert(0);
                *n += by.parse::<i64>().expect("a number");
                let n = *n;
                self.put(key, Held::Hash(hash));
                Answer::Int(n)
            }
            ["HGET", key, field] => {
                self.hash(key).get(field).map_or(Answer::Nil, |n| Answer::Text(n.to_string()))
            }
            ["ZADD", key, score, member] => {
                let mut zset = self.zset(key);
                let before = zset.len();
                zset.retain(|(_, m)| m != member);
                let new = zset.len() == before;
                zset.insert((score.parse().expect("a number"), member.into()));
                self.put(key, Held::Zset(zset));
                Answer::Int(i64::from(new))
            }
            ["ZPOPMIN", key] => {
                let mut zset = self.zset(key);
                match zset.pop_first() {
                    None => Answer::List(Vec::new()),
                    Some((score, member)) => {
                        self.put(key, Held::Zset(zset));
                        Answer::List(vec![Answer::Text(member), Answer::Text(score.to_string())])
                    }
                }
            }
            ["ZCARD", key] => Answer::Int(self.zset(key).len() as i64),
            _ => panic!("the model has no {words:?}"),
        })
    }
}

impl Answer {
    fn is_nil(&self) -> bool {
        *self == Answer::Nil
    }
}
