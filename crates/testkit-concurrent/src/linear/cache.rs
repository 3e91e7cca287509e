//! A client that caches the values that it reads, until an invalidation arrives.
//!
//! ```text
//!  GET s1 → 7      cached                            CLIENT TRACKING ON
//!  GET s1          not sent: PING ... PONG, and invalidations before it are applied
//!                  still cached: 7 is the result, at a time between PING and PONG
//! ```
//!
//! A thread that changes a key notifies the key's readers before any client can see the change. Their
//! messages precede the reply of any later command. So if no invalidation arrived before the PONG, the
//! cached value was current when the PING was executed, and the history may record it as the result of a
//! read. A server that omits a notification makes a history that can't be explained.
//!
//! A client's tracking mode depends on its number: keys that it reads, all keys, changes by other
//! clients, or none.

use super::answer::Answer;
use super::commands::is_read;
use std::collections::HashMap;
use weft_testkit::{Client, Value};

/// The changes of which a client is notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tracked {
    /// Of keys that it has read.
    Reads,
    /// Of all keys.
    All,
    /// Of keys that it has read, by other clients.
    Others,
}

/// The cached values of one connection.
#[derive(Debug)]
pub struct Cache {
    tracked: Tracked,
    /// First letters of the keys that may expire. They are not cached, since a key expires before the
    /// server notifies its readers.
    mortal: &'static str,
    replies: HashMap<Vec<String>, Answer>,
}

impl Cache {
    /// The cache of client `number`, which may have none. `expiry`: some commands set a lifetime.
    pub fn of_client(number: usize, expiry: bool) -> Option<Cache> {
        let tracked = match number % 4 {
            0 => Tracked::Reads,
            1 => Tracked::All,
            2 => Tracked::Others,
            _ => return None,
        };
        Some(Cache { tracked, mortal: if expiry { "xel" } else { "" }, replies: HashMap::new() })
    }

    /// Enables tracking on a new connection.
    pub fn enable_tracking(&mut self, client: &mut Client) {
        self.replies.clear();
        client.hello(3);
        let mut args = vec!["CLIENT", "TRACKING", "ON"];
        match self.tracked {
            Tracked::Reads => {}
            Tracked::All => args.push("BCAST"),
            Tracked::Others => args.push("NOLOOP"),
        }
        client.ok(&args);
    }

    /// The cached reply of a command.
    pub fn get(&self, args: &[String]) -> Option<Answer> {
        self.replies.get(args).cloned()
    }

    /// The client is about to execute this command itself, and may not be notified of its own
    /// change.
    pub fn invalidate_own_changes(&mut self, args: &[String]) {
        if !is_read(args) {
            self.replies.retain(|read, _| keys(read).iter().all(|key| !args.contains(key)));
        }
    }

    /// Caches the reply of a command.
    pub fn insert(&mut self, args: &[String], answer: &Answer) {
        let may_cache = |key: &String| !key.starts_with(|letter| self.mortal.contains(letter));
        let keys = keys(args);
        if !keys.is_empty() && keys.iter().all(may_cache) && !matches!(answer, Answer::Error(_)) {
            self.replies.insert(args.to_vec(), answer.clone());
        }
    }

    /// Drops the cached values that these invalidations name.
    pub fn apply_invalidations(&mut self, pushes: &[Value]) {
        for push in pushes {
            match push.items() {
                [word, Value::Array(gone)] if word.text() == "invalidate" => {
                    let gone: Vec<String> = gone.iter().map(Value::text).collect();
                    self.replies.retain(|read, _| keys(read).iter().all(|key| !gone.contains(key)));
                }
                [word, _] if word.text() == "invalidate" => self.replies.clear(),
                _ => panic!("pushed: {push}"),
            }
        }
    }
}

/// The keys of a command whose reply may be cached: one that only reads, and names all keys that it
/// reads.
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
    fn values_are_cached_until_an_invalidation() {
        let mut cache = Cache::of_client(0, true).expect("it has one");
        for line in ["GET s1", "MGET s1 s2", "GET s3", "GET x1", "LRANGE l1 0 -1", "PTTL s1"] {
            cache.insert(&words(line), &Answer::Nil);
        }
        let is_kept = |cache: &Cache, line: &str| cache.get(&words(line)).is_some();
        assert!(!is_kept(&cache, "GET x1") && !is_kept(&cache, "PTTL s1"), "they may expire");
        assert!(!is_kept(&cache, "LRANGE l1 0 -1"));
        cache.apply_invalidations(&[invalidate(&["s1", "s9"])]);
        assert!(!is_kept(&cache, "GET s1") && !is_kept(&cache, "MGET s1 s2"));
        assert!(is_kept(&cache, "GET s3"));
        cache.invalidate_own_changes(&words("RENAME s4 s3"));
        assert!(!is_kept(&cache, "GET s3"));
        cache.insert(&words("GET s2"), &Answer::Nil);
        cache.apply_invalidations(&[Value::Push(vec![
            Value::Bulk(b"invalidate".to_vec()),
            Value::Null,
        ])]);
        assert!(!is_kept(&cache, "GET s2"));
    }
}
