//! A client that keeps what it has read, until it is told that it is no longer so.
//!
//! ```text
//!  GET s1 → 7      kept                              CLIENT TRACKING ON
//!  GET s1          not asked: PING ... PONG, and what was told before it is heeded
//!                  still kept: 7 is the answer, at a moment between PING and PONG
//! ```
//!
//! Whoever changes a key has told its readers before anybody can see the change, and what they were told
//! stands in front of the answer of any later command. So if nothing was told by the PONG, what is kept
//! was true when the PING was executed, and the history may have it as the answer of a read. A server
//! that forgets to tell somebody makes a history that can't be explained.
//!
//! How a client wants to be told depends on its number: of what it reads, of all keys, of what others
//! have done, or not at all.

use super::answer::Answer;
use super::commands::is_read;
use crate::{Client, Value};
use std::collections::HashMap;

/// Of what a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// Keys that it has read.
    Reads,
    /// All keys.
    All,
    /// Keys that it has read and others have changed.
    Others,
}

/// What one connection has kept.
#[derive(Debug)]
pub struct Cache {
    told: Told,
    /// Keys may expire whose letter stands here: they are not kept, since they go before anybody tells.
    mortal: &'static str,
    kept: HashMap<Vec<String>, Answer>,
}

impl Cache {
    /// Of client `number`, which may have none. `expiry`: there are commands that give keys a lifetime.
    pub fn of_client(number: usize, expiry: bool) -> Option<Cache> {
        let told = match number % 4 {
            0 => Told::Reads,
            1 => Told::All,
            2 => Told::Others,
            _ => return None,
        };
        Some(Cache { told, mortal: if expiry { "xel" } else { "" }, kept: HashMap::new() })
    }

    /// Has the server tell the client, on a new connection.
    pub fn begin(&mut self, client: &mut Client) {
        self.kept.clear();
        client.hello(3);
        let mut args = vec!["CLIENT", "TRACKING", "ON"];
        match self.told {
            Told::Reads => {}
            Told::All => args.push("BCAST"),
            Told::Others => args.push("NOLOOP"),
        }
        client.ok(&args);
    }

    /// What is kept as the answer of a command.
    pub fn get(&self, args: &[String]) -> Option<Answer> {
        self.kept.get(args).cloned()
    }

    /// The client is about to do this itself, and may not be told of it.
    pub fn will_do(&mut self, args: &[String]) {
        if !is_read(args) {
            self.kept.retain(|read, _| keys(read).iter().all(|key| !args.contains(key)));
        }
    }

    /// Keeps what a command was answered.
    pub fn keep(&mut self, args: &[String], answer: &Answer) {
        let keeps = |key: &String| !key.starts_with(|letter| self.mortal.contains(letter));
        let keys = keys(args);
        if !keys.is_empty() && keys.iter().all(keeps) && !matches!(answer, Answer::Error(_)) {
            self.kept.insert(args.to_vec(), answer.clone());
        }
    }

    /// Heeds what the server has told.
    pub fn heed(&mut self, pushes: &[Value]) {
        for push in pushes {
            match push.items() {
                [word, Value::Array(gone)] if word.text() == "invalidate" => {
                    let gone: Vec<String> = gone.iter().map(Value::text).collect();
                    self.kept.retain(|read, _| keys(read).iter().all(|key| !gone.contains(key)));
                }
                [word, _] if word.text() == "invalidate" => self.kept.clear(),
                _ => panic!("pushed: {push}"),
            }
        }
    }
}

/// The keys of a command that may be kept: one that reads, and names all the keys that it is about.
fn keys(args: &[String]) -> &[String] {
    match args[0].as_str() {
        "GET" | "LRANGE" | "SCARD" | "ZCARD" | "XLEN" | "XRANGE" => &args[1..2],
        "MGET" => &args[1..],
        "SINTERCARD" => &args[2..],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(String::from).collect()
    }

    fn invalidate(keys: &[&str]) -> Value {
        let keys = keys.iter().map(|key| Value::Bulk(key.as_bytes().to_vec())).collect();
        Value::Push(vec![Value::Bulk(b"invalidate".to_vec()), Value::Array(keys)])
    }

    #[test]
    fn what_is_kept_until_it_is_told() {
        let mut cache = Cache::of_client(0, true).expect("it has one");
        for line in ["GET s1", "MGET s1 s2", "GET s3", "GET x1", "LRANGE l1 0 -1", "PTTL s1"] {
            cache.keep(&words(line), &Answer::Nil);
        }
        let is_kept = |cache: &Cache, line: &str| cache.get(&words(line)).is_some();
        assert!(!is_kept(&cache, "GET x1") && !is_kept(&cache, "PTTL s1"), "they may expire");
        assert!(!is_kept(&cache, "LRANGE l1 0 -1"));
        cache.heed(&[invalidate(&["s1", "s9"])]);
        assert!(!is_kept(&cache, "GET s1") && !is_kept(&cache, "MGET s1 s2"));
        assert!(is_kept(&cache, "GET s3"));
        cache.will_do(&words("RENAME s4 s3"));
        assert!(!is_kept(&cache, "GET s3"));
        cache.keep(&words("GET s2"), &Answer::Nil);
        cache.heed(&[Value::Push(vec![Value::Bulk(b"invalidate".to_vec()), Value::Null])]);
        assert!(!is_kept(&cache, "GET s2"));
    }
}
