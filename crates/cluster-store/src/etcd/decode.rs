//! Responses in the JSON of etcd's gateway: bytes in base64, 64-bit numbers as strings, and fields with a default value
//! left out.

use super::reject::Rejection;
use crate::store::{
    Batch, Change, Entry, Lease, LeaseId, Outcome, Revision, Snapshot, Transaction,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::time::Duration;

/// Reads responses about keys under a prefix.
#[derive(Clone, Debug)]
pub struct Decoder {
    prefix: Vec<u8>,
}

/// One message of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The watch has begun.
    Created,
    /// Changes in order of their revisions; empty if etcd reports that there is nothing new.
    Changes(Vec<Batch>),
    /// The end: the changes that were asked for are gone.
    Compacted { oldest: Revision },
    /// The end, for another reason.
    Ended(Rejection),
}

/// A response that isn't etcd's.
pub type Malformed = String;

impl Decoder {
    pub fn new(prefix: &str) -> Decoder {
        Decoder { prefix: prefix.as_bytes().to_vec() }
    }

    pub fn snapshot(&self, value: &Value) -> Result<Snapshot, Malformed> {
        let revision = header_revision(value)?;
        let entries: Result<Vec<Entry>, Malformed> =
            list(value, "kvs")?.iter().map(|entry| self.entry(entry)).collect();
        let mut entries = entries?;
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Snapshot { revision, entries })
    }

    /// The answer to `transaction`.
    pub fn outcome(&self, value: &Value, transaction: &Transaction) -> Result<Outcome, Malformed> {
        let revision = header_revision(value)?;
        if boolean(value, "succeeded")? {
            return Ok(Outcome::Committed { revision });
        }
        let responses = list(value, "responses")?;
        if responses.len() != transaction.compares.len() {
            return Err(format!("{} responses to a transaction", responses.len()));
        }
        let found: Result<Vec<Option<Entry>>, Malformed> =
            responses.iter().map(|response| self.found(response)).collect();
        Ok(Outcome::Mismatch { revision, found: found? })
    }

    fn found(&self, response: &Value) -> Result<Option<Entry>, Malformed> {
        let range = response.get("response_range").ok_or("no response_range")?;
        list(range, "kvs")?.first().map(|entry| self.entry(entry)).transpose()
    }

    fn entry(&self, value: &Value) -> Result<Entry, Malformed> {
        let lease = number(value, "lease")?;
        Ok(Entry {
            key: self.key(value)?,
            value: bytes(value, "value")?,
            created: Revision(number(value, "create_revision")?),
            modified: Revision(number(value, "mod_revision")?),
            lease: (lease != 0).then_some(LeaseId(lease)),
        })
    }

    fn key(&self, value: &Value) -> Result<Vec<u8>, Malformed> {
        let key = bytes(value, "key")?;
        match key.strip_prefix(self.prefix.as_slice()) {
            Some(key) => Ok(key.to_vec()),
            None => Err("a key that was not asked for".to_string()),
        }
    }

    /// Reads a line of the response to a watch.
    pub fn message(&self, line: &[u8]) -> Result<Message, Malformed> {
        let value: Value = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        if let Some(error) = value.get("error") {
            return Ok(Message::Ended(Rejection::of_stream(error)));
        }
        let result = value.get("result").ok_or("neither a result nor an error")?;
        let oldest = number(result, "compact_revision")?;
        if oldest != 0 {
            return Ok(Message::Compacted { oldest: Revision(oldest) });
        }
        if boolean(result, "canceled")? {
            let reason = result.get("cancel_reason").and_then(Value::as_str);
            return Ok(Message::Ended(Rejection::of_cancelled(
                reason.unwrap_or("no reason given"),
            )));
        }
        if boolean(result, "created")? {
            return Ok(Message::Created);
        }
        Ok(Message::Changes(self.batches(list(result, "events")?)?))
    }

    fn batches(&self, events: &[Value]) -> Result<Vec<Batch>, Malformed> {
        let mut batches: Vec<Batch> = Vec::new();
        for event in events {
            let kv = event.get("kv").ok_or("an event without a key")?;
            let revision = Revision(number(kv, "mod_revision")?);
            let change = match event.get("type").map(Value::as_str) {
                None | Some(Some("PUT")) => Change::Put(self.entry(kv)?),
                Some(Some("DELETE")) => Change::Deleted { key: self.key(kv)? },
                Some(_) => return Err("an unknown type of event".to_string()),
            };
            match batches.last_mut() {
                Some(batch) if batch.revision == revision => batch.changes.push(change),
                Some(batch) if batch.revision > revision => {
                    return Err(format!("revision {revision} after {}", batch.revision));
                }
                _ => batches.push(Batch { revision, changes: vec![change] }),
            }
        }
        Ok(batches)
    }
}

/// The answer to a grant.
pub fn lease(value: &Value) -> Result<Lease, Malformed> {
    let id = number(value, "ID")?;
    let ttl = number(value, "TTL")?;
    match id != 0 && ttl != 0 {
        true => Ok(Lease { id: LeaseId(id), ttl: Duration::from_secs(ttl) }),
        false => Err("a lease without a name or a TTL".to_string()),
    }
}

/// The TTL in the answer to a keep-alive; `None` if the lease has ended.
pub fn remaining(value: &Value) -> Result<Option<Duration>, Malformed> {
    let result = value.get("result").ok_or("no result")?;
    let ttl = number(result, "TTL")?;
    Ok((ttl != 0).then(|| Duration::from_secs(ttl)))
}

/// The token in the answer to a login.
pub fn token(value: &Value) -> Result<String, Malformed> {
    let token = value.get("token").and_then(Value::as_str);
    token.map(str::to_string).ok_or_else(|| "no token".to_string())
}

fn header_revision(value: &Value) -> Result<Revision, Malformed> {
    let header = value.get("header").ok_or("no header")?;
    match number(header, "revision")? {
        0 => Err("no revision".to_string()),
        revision => Ok(Revision(revision)),
    }
}

/// A field that may be missing, which means 0.
fn number(value: &Value, field: &str) -> Result<u64, Malformed> {
    let number = match value.get(field) {
        None => Some(0),
        Some(Value::String(text)) => text.parse().ok(),
        Some(other) => other.as_u64(),
    };
    number.ok_or_else(|| format!("{field} is not a number"))
}

fn boolean(value: &Value, field: &str) -> Result<bool, Malformed> {
    match value.get(field) {
        None => Ok(false),
        Some(other) => other.as_bool().ok_or_else(|| format!("{field} is not a boolean")),
    }
}

fn bytes(value: &Value, field: &str) -> Result<Vec<u8>, Malformed> {
    match value.get(field) {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => STANDARD.decode(text).map_err(|e| format!("{field}: {e}")),
        Some(_) => Err(format!("{field} is not a string")),
    }
}

fn list<'a>(value: &'a Value, field: &str) -> Result<&'a [Value], Malformed> {
    match value.get(field) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(format!("{field} is not a list")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn key(key: &str) -> String {
        STANDARD.encode(key)
    }

    #[test]
    fn events_of_one_revision_are_one_batch() {
        let put = |k: &str, revision: u64| json!({ "kv": { "key": key(k), "mod_revision": revision.to_string(), "create_revision": "2" } });
        let delete = json!({ "type": "DELETE", "kv": { "key": key("/w/b"), "mod_revision": "7" } });
        let events = json!({ "result": { "events": [put("/w/a", 7), delete, put("/w/c", 9)] } });
        let message = Decoder::new("/w/").message(events.to_string().as_bytes()).unwrap();
        let Message::Changes(batches) = message else { panic!("{message:?}") };
        assert_eq!(batches.len(), 2);
        assert_eq!(batches[0].changes[1], Change::Deleted { key: b"b".to_vec() });
        assert_eq!(batches[1].revision, Revision(9));
    }

    #[test]
    fn watches_end_for_their_reasons() {
        let of = |text: &str| Decoder::new("/w/").message(text.as_bytes());
        assert_eq!(of(r#"{"result":{"header":{},"created":true}}"#), Ok(Message::Created));
        let compacted = of(r#"{"result":{"canceled":true,"compact_revision":"5"}}"#);
        assert_eq!(compacted, Ok(Message::Compacted { oldest: Revision(5) }));
        let denied =
            r#"{"result":{"created":true,"canceled":true,"cancel_reason":"permission denied"}}"#;
        let Ok(Message::Ended(Rejection::Refused(_))) = of(denied) else {
            panic!("{:?}", of(denied))
        };
        let error = r#"{"error":{"grpc_code":14,"message":"etcdserver: no leader"}}"#;
        assert!(matches!(of(error), Ok(Message::Ended(Rejection::TryElsewhere(_)))));
        assert!(of("").is_err() && of("{}").is_err() && of("[]").is_err());
        let foreign =
            format!(r#"{{"result":{{"events":[{{"kv":{{"key":"{}"}}}}]}}}}"#, key("/x/a"));
        assert!(of(&foreign).is_err());
    }
}
