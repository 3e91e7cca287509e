//! Requests in the JSON of etcd's gateway: bytes in base64, 64-bit numbers as strings.

use crate::store::{Compare, LeaseId, Operation, Revision, Transaction};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::time::Duration;

/// Writes requests for keys under a prefix.
#[derive(Clone, Debug)]
pub struct Encoder {
    prefix: Vec<u8>,
}

impl Encoder {
    pub fn new(prefix: &str) -> Encoder {
        Encoder { prefix: prefix.as_bytes().to_vec() }
    }

    fn full_key(&self, key: &[u8]) -> Vec<u8> {
        [self.prefix.as_slice(), key].concat()
    }

    fn key(&self, key: &[u8]) -> String {
        STANDARD.encode(self.full_key(key))
    }

    /// The key, and the first key after all that start with it.
    fn range(&self, prefix: &[u8]) -> (String, String) {
        let start = self.full_key(prefix);
        (STANDARD.encode(&start), STANDARD.encode(range_end(&start)))
    }

    pub fn read(&self, prefix: &[u8]) -> Value {
        let (key, end) = self.range(prefix);
        json!({ "key": key, "range_end": end })
    }

    /// If a comparison fails, etcd reads the compared keys instead.
    pub fn transact(&self, transaction: &Transaction) -> Value {
        let compares: Vec<Value> = transaction.compares.iter().map(|c| self.compare(c)).collect();
        let success: Vec<Value> =
            transaction.operations.iter().map(|o| self.operation(o)).collect();
        let read =
            |compare: &Compare| json!({ "request_range": { "key": self.key(compare.key()) } });
        let failure: Vec<Value> = transaction.compares.iter().map(read).collect();
        json!({ "compare": compares, "success": success, "failure": failure })
    }

    fn compare(&self, compare: &Compare) -> Value {
        let key = self.key(compare.key());
        match compare {
            Compare::Value { value, .. } => {
                json!({ "key": key, "target": "VALUE", "result": "EQUAL", "value": STANDARD.encode(value) })
            }
            Compare::Modified { revision, .. } => {
                json!({ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision.0.to_string() })
            }
            // A key that doesn't exist has the creation revision 0.
            Compare::Exists { .. } => {
                json!({ "key": key, "target": "CREATE", "result": "GREATER", "create_revision": "0" })
            }
            Compare::Absent { .. } => {
                json!({ "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0" })
            }
        }
    }

    fn operation(&self, operation: &Operation) -> Value {
        match operation {
            Operation::Put { key, value, lease } => json!({ "request_put": {
                "key": self.key(key),
                "value": STANDARD.encode(value),
                "lease": lease.unwrap_or(LeaseId(0)).0.to_string(),
            } }),
            Operation::Delete { key } => {
                json!({ "request_delete_range": { "key": self.key(key) } })
            }
        }
    }

    pub fn watch(&self, prefix: &[u8], from: Revision) -> Value {
        let (key, end) = self.range(prefix);
        json!({ "create_request": {
            "key": key,
            "range_end": end,
            "start_revision": from.0.to_string(),
        } })
    }
}

pub fn grant(ttl: Duration) -> Value {
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    json!({ "TTL": seconds.max(1).to_string() })
}

pub fn lease(lease: LeaseId) -> Value {
    json!({ "ID": lease.0.to_string() })
}

pub fn authenticate(user: &str, password: &str) -> Value {
    json!({ "name": user, "password": password })
}

/// The first key after all keys that start with `prefix`, which isn't empty.
fn range_end(prefix: &[u8]) -> Vec<u8> {
    let Some(last) = prefix.iter().rposition(|byte| *byte != u8::MAX) else {
        // etcd's word for "to the last key".
        return vec![0];
    };
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_ends_after_the_prefix() {
        assert_eq!(range_end(b"/weft/"), b"/weft0");
        assert_eq!(range_end(b"a\xff\xff"), b"b");
        assert_eq!(range_end(b"\xff"), [0]);
    }

    #[test]
    fn leases_are_rounded_up_to_whole_seconds() {
        assert_eq!(grant(Duration::from_millis(1500)), json!({ "TTL": "2" }));
        assert_eq!(grant(Duration::ZERO), json!({ "TTL": "1" }));
    }

    #[test]
    fn keys_get_the_prefix() {
        let encoder = Encoder::new("/w/");
        let range =
            json!({ "key": STANDARD.encode("/w/n/"), "range_end": STANDARD.encode("/w/n0") });
        assert_eq!(encoder.read(b"n/"), range);
    }
}
