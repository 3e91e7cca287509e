//! Replies and effects of commands, one client at a time.
//!
//! Only commands of the histories, and as simple as possible: nothing checks the model but its
//! readers and its agreement with servers. Expired keys are removed before a command gets here; see
//! [`State::step`](super::State::step).

use super::answer::Answer;
use super::db::{Db, Held};
use super::time::{Deadline, Life, Moment};
use std::collections::BTreeSet;

/// The database of a command, and its observations.
pub struct Context<'a> {
    pub db: &'a mut Db,
    pub moment: Moment,
    /// Changed keys, for clients that watch them.
    pub changed: Vec<String>,
    /// Whether a command that waits may return empty.
    pub may_give_up: bool,
    /// The server's reply; commands with more than one valid reply read it.
    pub answer: Option<&'a Answer>,
}

/// `a..b` among the words of a command stands for the numbers from a to b, as words.
pub fn expand(words: &[String]) -> Vec<String> {
    let mut all = Vec::with_capacity(words.len());
    for word in words {
        match word.split_once("..").map(|(a, b)| (a.parse::<i64>(), b.parse::<i64>())) {
            Some((Ok(a), Ok(b))) => all.extend((a..b).map(|n| n.to_string())),
            _ => all.push(word.clone()),
        }
    }
    all
}

/// Whether a command never changes anything.
pub fn is_read(words: &[String]) -> bool {
    match words[0].as_str() {
        "EVALSHA_RO" | "GET" | "MGET" | "LRANGE" | "SINTERCARD" | "HGET" | "HMGET" | "ZCARD"
        | "PTTL" | "KEYS" | "DBSIZE" | "SCARD" | "XLEN" | "XRANGE" | "XPENDING" => true,
        "SORT" => !words.iter().any(|word| word == "STORE"),
        _ => false,
    }
}

/// The timeout of a blocking command, in milliseconds.
pub fn timeout_ms(words: &[String]) -> Option<u64> {
    match words[0].as_str() {
        "BLPOP" | "BLMOVE" => {
            let seconds: f64 = words.last()?.parse().ok()?;
            Some((seconds * 1000.0) as u64)
        }
        "XREADGROUP" => {
            let at = words.iter().position(|word| word == "BLOCK")?;
            words.get(at + 1)?.parse().ok()
        }
        _ => None,
    }
}

fn number(word: &str) -> i64 {
    word.parse().unwrap_or_else(|_| panic!("{word:?} is not a number"))
}

impl Context<'_> {
    fn put(&mut self, key: &str, held: Held) {
        self.db.put(key, held);
        self.changed.push(key.into());
    }

    pub(super) fn change(&mut self, key: &str, held: Held) {
        self.db.change(key, held);
        self.changed.push(key.into());
    }

    fn pop(&mut self, key: &str, left: bool) -> Option<String> {
        let mut list = self.db.list(key);
        let popped = if left { list.pop_front() } else { list.pop_back() }?;
        self.change(key, Held::List(list));
        Some(popped)
    }

    fn push(&mut self, key: &str, values: &[&str], left: bool) -> i64 {
        let mut list = self.db.list(key);
        for value in values {
            match left {
                true => list.push_front((*value).into()),
                false => list.push_back((*value).into()),
            }
        }
        let len = list.len() as i64;
        self.change(key, Held::List(list));
        len
    }

    fn move_element(&mut self, from: &str, to: &str, a: &str, b: &str) -> Answer {
        if from == to {
            // The only element of a list may be moved within it: the list stays, with its deadline.
            let mut list = self.db.list(from);
            let popped = if a == "LEFT" { list.pop_front() } else { list.pop_back() };
            let Some(value) = popped else { return Answer::Nil };
            match b {
                "LEFT" => list.push_front(value.clone()),
                _ => list.push_back(value.clone()),
            }
            self.change(from, Held::List(list));
            return Answer::Text(value);
        }
        match self.pop(from, a == "LEFT") {
            None => Answer::Nil,
            Some(value) => {
                self.push(to, &[&value], b == "LEFT");
                Answer::Text(value)
            }
        }
    }

    /// The reply of a command. `None`: it can't be executed now with the recorded reply, since it
    /// waits without data, or the reply doesn't match the state.
    pub fn run(&mut self, args: &[String]) -> Option<Answer> {
        let args = expand(args);
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        match words[0] {
            "GET" | "SET" | "GETSET" | "INCRBY" | "MGET" | "MSET" => self.strings(&words),
            "RPUSH" | "LPUSH" | "LPOP" | "RPOP" | "LRANGE" | "LMOVE" | "BLMOVE" | "BLPOP" => {
                self.lists(&words)
            }
            "HINCRBY" | "HGET" | "HSET" | "HDEL" | "HPEXPIRE" => Some(self.hashes(&words)),
            "ZADD" | "ZPOPMIN" | "ZCARD" => Some(self.zsets(&words)),
            "SORT" | "SADD" | "SREM" | "SMOVE" | "SCARD" | "SINTERCARD" | "SUNIONSTORE" => {
                Some(self.sets(&words))
            }
            name if name.starts_with('X') => self.streams(&words),
            _ => self.keys(&words),
        }
    }

    fn strings(&mut self, words: &[&str]) -> Option<Answer> {
        Some(match *words {
            ["GET", key] => Answer::text(self.db.text(key)),
            ["SET", key, value] => {
                self.put(key, Held::Text(value.into()));
                Answer::ok()
            }
            ["SET", key, value, "PX", ms] => {
                self.put(key, Held::Text(value.into()));
                self.db.set_deadline(key, Some(Deadline::after(self.moment, number(ms))));
                Answer::ok()
            }
            ["GETSET", key, value] => {
                let old = Answer::text(self.db.text(key));
                self.put(key, Held::Text(value.into()));
                old
            }
            ["INCRBY", key, by] => {
                let new = self.db.text(key).map_or(0, |t| number(&t)) + number(by);
                self.change(key, Held::Text(new.to_string()));
                Answer::Int(new)
            }
            ["MGET", ref keys @ ..] => {
                Answer::list(keys.iter().map(|key| Answer::text(self.db.text(key))).collect())
            }
            ["MSET", ref pairs @ ..] => {
                for pair in pairs.chunks(2) {
                    self.put(pair[0], Held::Text(pair[1].into()));
                }
                Answer::ok()
            }
            _ => panic!("the model has no {words:?}"),
        })
    }

    fn lists(&mut self, words: &[&str]) -> Option<Answer> {
        Some(match *words {
            ["RPUSH", key, ref values @ ..] => Answer::Int(self.push(key, values, false)),
            ["LPUSH", key, ref values @ ..] => Answer::Int(self.push(key, values, true)),
            ["LPOP", key] => Answer::text(self.pop(key, true)),
            ["RPOP", key] => Answer::text(self.pop(key, false)),
            ["LRANGE", key, "0", "-1"] => Answer::texts(self.db.list(key)),
            ["LMOVE", from, to, a, b] => self.move_element(from, to, a, b),
            ["BLMOVE", from, to, a, b, _] => match self.move_element(from, to, a, b) {
                Answer::Nil if !self.may_give_up => return None,
                answer => answer,
            },
            ["BLPOP", ref keys @ .., _] => match keys.iter().find(|key| self.db.has(key)) {
                Some(key) => {
                    let value = self.pop(key, true)?;
                    Answer::List(vec![Answer::Text((*key).into()), Answer::Text(value)])
                }
                None if self.may_give_up => Answer::Nil,
                None => return None,
            },
            _ => panic!("the model has no {words:?}"),
        })
    }

    fn hashes(&mut self, words: &[&str]) -> Answer {
        let key = words[1];
        let mut hash = self.db.hash(key);
        match *words {
            ["HINCRBY", _, field, by] => {
                // The deadline of the field stays.
                let entry = hash.entry(field.into()).or_insert((0, None));
                entry.0 += number(by);
                let n = entry.0;
                self.change(key, Held::Hash(hash));
                Answer::Int(n)
            }
            ["HGET", _, field] => Answer::text(hash.get(field).map(|(n, _)| n.to_string())),
            ["HSET", _, field, value] => {
                let old = hash.insert(field.into(), (number(value), None));
                self.change(key, Held::Hash(hash));
                Answer::Int(i64::from(old.is_none()))
            }
            ["HDEL", _, field] => {
                let had = hash.remove(field).is_some();
                if had {
                    self.change(key, Held::Hash(hash));
                }
                Answer::Int(i64::from(had))
            }
            ["HPEXPIRE", _, ms, "FIELDS", "1", field] => {
                let Some(entry) = hash.get_mut(field) else {
                    return Answer::List(vec![Answer::Int(-2)]);
                };
                entry.1 = Some(Deadline::after(self.moment, number(ms)));
                self.change(key, Held::Hash(hash));
                Answer::List(vec![Answer::Int(1)])
            }
            _ => panic!("the model has no {words:?}"),
        }
    }

    fn zsets(&mut self, words: &[&str]) -> Answer {
        let mut zset = self.db.zset(words[1]);
        match *words {
            ["ZADD", key, score, member] => {
                let before = zset.len();
                zset.retain(|(_, m)| m != member);
                let new = zset.len() == before;
                zset.insert((number(score), member.into()));
                self.change(key, Held::Zset(zset));
                Answer::Int(i64::from(new))
            }
            ["ZPOPMIN", key] => match zset.pop_first() {
                None => Answer::List(Vec::new()),
                Some((score, member)) => {
                    self.change(key, Held::Zset(zset));
                    Answer::List(vec![Answer::Text(member), Answer::Text(score.to_string())])
                }
            },
            ["ZCARD", _] => Answer::Int(zset.len() as i64),
            _ => panic!("the model has no {words:?}"),
        }
    }

    fn sets(&mut self, words: &[&str]) -> Answer {
        match *words {
            ["SADD", key, ref members @ ..] => {
                let mut set = self.db.set(key);
                let before = set.len();
                set.extend(members.iter().map(|m| number(m)));
                let new = set.len() - before;
                if new > 0 {
                    self.change(key, Held::Set(set));
                }
                Answer::Int(new as i64)
            }
            ["SREM", key, member] => {
                let mut set = self.db.set(key);
                let had = set.remove(&number(member));
                if had {
                    self.change(key, Held::Set(set));
                }
                Answer::Int(i64::from(had))
            }
            ["SMOVE", from, to, member] => {
                let mut set = self.db.set(from);
                let had = set.remove(&number(member));
                if had && from != to {
                    self.change(from, Held::Set(set));
                    let mut set = self.db.set(to);
                    set.insert(number(member));
                    self.change(to, Held::Set(set));
                }
                Answer::Int(i64::from(had))
            }
            ["SCARD", key] => Answer::Int(self.db.set(key).len() as i64),
            ["SINTERCARD", "2", a, b] => {
                Answer::Int(self.db.set(a).intersection(&self.db.set(b)).count() as i64)
            }
            ["SUNIONSTORE", to, a, b] => {
                let union: BTreeSet<i64> = &self.db.set(a) | &self.db.set(b);
                let len = union.len() as i64;
                self.put(to, Held::Set(union));
                Answer::Int(len)
            }
            ["SORT", key] => Answer::texts(self.db.set(key).iter().map(i64::to_string)),
            ["SORT", key, "STORE", to] => {
                let sorted = self.db.set(key).iter().map(i64::to_string).collect();
                let len = self.db.set(key).len() as i64;
                self.put(to, Held::List(sorted));
                Answer::Int(len)
            }
            _ => panic!("the model has no {words:?}"),
        }
    }

    fn keys(&mut self, words: &[&str]) -> Option<Answer> {
        Some(match *words {
            ["DEL", ref keys @ ..] => {
                let mut n = 0;
                for key in keys {
                    if self.db.remove(key) {
                        self.changed.push((*key).into());
                        n += 1;
                    }
                }
                Answer::Int(n)
            }
            ["RENAME", from, to] => {
                let Some(held) = self.db.shared(from) else {
                    return Some(Answer::Error("ERR no such key".into()));
                };
                if from == to {
                    return Some(Answer::ok());
                }
                let deadline = self.db.deadline(from);
                self.db.remove(from);
                self.db.put_until(to, held, deadline);
                self.changed.extend([from.into(), to.into()]);
                Answer::ok()
            }
            ["COPY", from, to, "REPLACE"] if from == to => {
                Answer::Error("ERR source and destination objects are the same".into())
            }
            ["COPY", from, to, "REPLACE"] => match self.db.shared(from) {
                None => Answer::Int(0),
                Some(held) => {
                    self.db.put_until(to, held, self.db.deadline(from));
                    self.changed.push(to.into());
                    Answer::Int(1)
                }
            },
            ["PEXPIRE" | "PEXPIREAT", key, ms] => {
                let there = self.db.has(key);
                if there {
                    let mut span = self.moment;
                    if words[0] == "PEXPIREAT" {
                        // Counted from the call, by the client.
                        span.latest = span.earliest;
                    }
                    self.db.set_deadline(key, Some(Deadline::after(span, number(ms))));
                    self.changed.push(key.into());
                }
                Answer::Int(i64::from(there))
            }
            ["PERSIST", key] => {
                let had = self.db.deadline(key).is_some();
                if had {
                    self.db.set_deadline(key, None);
                    self.changed.push(key.into());
                }
                Answer::Int(i64::from(had))
            }
            ["PTTL", key] => return self.pttl(key),
            ["DBSIZE"] => return self.dbsize(),
            ["KEYS", _] => return self.names(),
            ["FILL", count] => {
                self.db.filler = number(count) as usize;
                Answer::ok()
            }
            ["FLUSHALL"] => {
                self.changed.extend(self.db.names().map(String::from));
                *self.db = Db::default();
                Answer::ok()
            }
            _ => panic!("the model has no {words:?}"),
        })
    }

    fn pttl(&self, key: &str) -> Option<Answer> {
        if !self.db.has(key) {
            return Some(Answer::Int(-2));
        }
        match (self.db.deadline(key), self.answer) {
            (None, _) => Some(Answer::Int(-1)),
            // The recorded reply is unknown, so any value fits.
            (Some(_), None) => Some(Answer::Nil),
            (Some(deadline), Some(Answer::Int(ms)))
                if *ms >= 0 && deadline.may_leave(self.moment, *ms) =>
            {
                Some(Answer::Int(*ms))
            }
            (Some(_), Some(_)) => None,
        }
    }

    /// Expired keys count until they are removed.
    fn dbsize(&self) -> Option<Answer> {
        let may_be_gone = |key: &&str| {
            let life = self.db.deadline(key).map_or(Life::Lives, |d| d.at(self.moment));
            life != Life::Lives || self.db.has_mortal_fields(key)
        };
        let most = self.db.len() + self.db.filler;
        let most_counted = most + self.db.expired_keys();
        let least = most - self.db.names().filter(may_be_gone).count();
        match self.answer {
            None => Some(Answer::Nil),
            Some(Answer::Int(n)) if (least as i64..=most_counted as i64).contains(n) => {
                Some(Answer::Int(*n))
            }
            Some(_) => None,
        }
    }

    /// All names. A missing one has expired now, if it can have. A hash whose fields have all
    /// expired may be shown or not.
    fn names(&mut self) -> Option<Answer> {
        let Some(answer) = self.answer else { return Some(Answer::Nil) };
        let Answer::List(items) = answer else { return None };
        let mut shown = BTreeSet::new();
        for item in items {
            let Answer::Text(name) = item else { return None };
            if !shown.insert(name.as_str()) {
                return None;
            }
        }
        let names: Vec<String> = self.db.names().map(String::from).collect();
        for name in names {
            let life = self.db.deadline(&name).map_or(Life::Lives, |d| d.at(self.moment));
            match (shown.remove(name.as_str()), life) {
                (true, Life::Over) => return None,
                (true, Life::Lives | Life::Open) => {}
                (false, Life::Lives) if self.db.has_mortal_fields(&name) => {}
                (false, Life::Lives) => return None,
                (false, Life::Open | Life::Over) => {
                    self.db.hide(&name);
                    self.changed.push(name);
                }
            }
        }
        shown.retain(|name| !self.db.may_be_named(name));
        shown.is_empty().then(|| answer.clone())
    }
}
