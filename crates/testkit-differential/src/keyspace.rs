//! Compares the data of two servers, key by key, after a sequence.
//!
//! Replies show only the requested data, so they may never reveal a wrong lifetime or a wrong
//! encoding. So this reads all data at the end.

use std::collections::BTreeMap;
use std::io;

use super::session::Session;
use weft_testkit::client::{Reply, describe};
use weft_testkit::value::Value;

/// The largest difference of remaining lifetimes, in milliseconds.
const LIFETIME_MS: u64 = 5000;

/// All facts about a key that a client can see.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    kind: Value,
    encoding: Value,
    pttl: i64,
    pexpiretime: i64,
    content: Value,
}

/// The first difference between the databases of two servers, described.
///
/// # Errors
/// If a connection fails.
pub fn compare(left: &mut Session, right: &mut Session) -> io::Result<Option<String>> {
    for db in 0..16 {
        let (ours, theirs) = (read_db(left, db)?, read_db(right, db)?);
        let (ours, theirs) = match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => (ours, theirs),
            (Err(what), _) => return Ok(Some(format!("db {db} of {}: {what}", left.name()))),
            (_, Err(what)) => return Ok(Some(format!("db {db} of {}: {what}", right.name()))),
        };
        if let Some(what) = first_difference(&ours, &theirs) {
            return Ok(Some(format!("db {db}: {what} ({} against {})", left.name(), right.name())));
        }
    }
    Ok(None)
}

type Db = BTreeMap<Vec<u8>, Entry>;

fn first_difference(ours: &Db, theirs: &Db) -> Option<String> {
    let missing = |there: &Db, here: &Db| {
        there.keys().find(|key| !here.contains_key(*key)).map(|key| describe(&[key]))
    };
    if let Some(key) = missing(theirs, ours) {
        return Some(format!("key {key} is missing"));
    }
    if let Some(key) = missing(ours, theirs) {
        return Some(format!("key {key} is there but should not be"));
    }
    ours.iter().zip(theirs.values()).find_map(|((key, our), their)| {
        Some(format!("key {}: {}", describe(&[key]), entry(our, their)?))
    })
}

fn entry(our: &Entry, their: &Entry) -> Option<String> {
    let near = |a: i64, b: i64| a == b || (a >= 0 && b >= 0 && a.abs_diff(b) <= LIFETIME_MS);
    if our.kind != their.kind {
        Some(format!("TYPE {} against {}", our.kind, their.kind))
    } else if our.content != their.content {
        Some(format!("holds {} against {}", our.content, their.content))
    } else if our.encoding != their.encoding {
        Some(format!(
            "OBJECT ENCODING {} against {} of {}",
            our.encoding, their.encoding, our.content
        ))
    } else if !near(our.pttl, their.pttl) {
        Some(format!("PTTL {} against {}", our.pttl, their.pttl))
    } else if !near(our.pexpiretime, their.pexpiretime) {
        Some(format!("PEXPIRETIME {} against {}", our.pexpiretime, their.pexpiretime))
    } else {
        None
    }
}

/// All entries of a database, or an inconsistency of the server's replies about them.
fn read_db(session: &mut Session, db: usize) -> io::Result<Result<Db, String>> {
    session.ask(&["SELECT", &db.to_string()])?;
    let keys = session.ask(&["KEYS", "*"])?;
    let Value::Array(keys) = keys.value else {
        return Ok(Err(format!("KEYS * gave {}", keys.value)));
    };
    let mut keys: Vec<Vec<u8>> =
        keys.iter().map(|key| key.bytes().unwrap_or_default().to_vec()).collect();
    keys.sort();
    let scanned = scan_all(session)?;
    if scanned != keys {
        return Ok(Err(format!("SCAN found {} keys, KEYS {}", scanned.len(), keys.len())));
    }
    let mut entries = Db::new();
    for key in keys {
        match read_entry(session, &key)? {
            Ok(entry) => entries.insert(key, entry),
            Err(what) => return Ok(Err(what)),
        };
    }
    Ok(Ok(entries))
}

/// Every key once, by SCAN in small steps.
fn scan_all(session: &mut Session) -> io::Result<Vec<Vec<u8>>> {
    let (mut found, mut cursor) = (Vec::new(), b"0".to_vec());
    loop {
        let reply = session.ask(&[b"SCAN", &cursor[..], b"COUNT", b"3"])?;
        let Value::Array(parts) = reply.value else { return Ok(found) };
        let [Value::Bulk(next), Value::Array(keys)] = &parts[..] else { return Ok(found) };
        found.extend(keys.iter().map(|key| key.bytes().unwrap_or_default().to_vec()));
        cursor.clone_from(next);
        if cursor == b"0" {
            found.sort();
            found.dedup();
            return Ok(found);
        }
    }
}

fn read_entry(session: &mut Session, key: &[u8]) -> io::Result<Result<Entry, String>> {
    let questions: Vec<Vec<&[u8]>> = vec![
        vec![b"TYPE", key],
        vec![b"OBJECT", b"ENCODING", key],
        vec![b"PTTL", key],
        vec![b"PEXPIRETIME", key],
    ];
    let replies = session.ask_all(&questions)?;
    let [kind, encoding, pttl, pexpiretime]: [Reply; 4] =
        replies.try_into().expect("as many replies as questions");
    let (Value::Integer(pttl), Value::Integer(pexpiretime)) = (&pttl.value, &pexpiretime.value)
    else {
        return Ok(Err(format!("PTTL gave {} and PEXPIRETIME {}", pttl.value, pexpiretime.value)));
    };
    let content = read_content(session, &kind.value, key)?;
    Ok(Ok(Entry {
        kind: kind.value,
        encoding: encoding.value,
        pttl: *pttl,
        pexpiretime: *pexpiretime,
        content,
    }))
}

/// The whole value in a canonical order.
fn read_content(session: &mut Session, kind: &Value, key: &[u8]) -> io::Result<Value> {
    let question: Vec<&[u8]> = match kind.bytes().unwrap_or_default() {
        b"list" => vec![b"LRANGE", key, b"0", b"-1"],
        b"hash" => vec![b"HGETALL", key],
        b"set" => vec![b"SMEMBERS", key],
        b"zset" => vec![b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
        b"stream" => vec![b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"],
        _ => vec![b"GET", key],
    };
    let reply = session.ask(&question)?.value;
    Ok(match question[0] {
        b"HGETALL" => super::compare::pairs(reply),
        b"SMEMBERS" => super::compare::unordered(reply),
        b"XINFO" => super::compare::group_times(reply),
        _ => reply,
    })
}
