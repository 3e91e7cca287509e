//! DEBUG DIGEST and DIGEST-VALUE: hashes that are equal on servers with equal data.
//!
//! The scheme is the reference's, so that a server can be compared with it. A digest is 20 bytes
//! that hashes are added to, in one of two ways: *unordered*, by XOR with the SHA-1 of the data, so
//! that the order of additions does not matter; and *ordered*, by taking the SHA-1 of that result,
//! so that it does.
//!
//! ```text
//! value    = ordered(type) content [unordered("!!expire!!")]
//! content  = ordered(string), or unordered(member) for every member of a set,
//!            or unordered(ordered(member) ordered(score)) for every one of a sorted set
//! key      = ordered(key) value
//! database = ordered(number), then unordered(key) for every key; one after the other
//! ```

use sha1::{Digest as _, Sha1};
use weft_base::num_format::fmt_f64_shortest;
use weft_commands::CmdResult;
use weft_executor::dispatch::core::ConnCx;
use weft_keyspace::{Db, Record};
use weft_types::hash::Hash;
use weft_types::list::List;
use weft_types::set::Set;
use weft_types::stream::{Stream, StreamId};
use weft_types::string::{Digits, Str};
use weft_types::zset::View;
use weft_types::{Kind, Type};

#[derive(Clone, Copy, Default)]
struct Digest([u8; 20]);

impl Digest {
    fn unordered(&mut self, bytes: &[u8]) {
        self.unordered_hash(Sha1::digest(bytes).into());
    }

    fn unordered_hash(&mut self, hash: [u8; 20]) {
        self.0.iter_mut().zip(hash).for_each(|(to, byte)| *to ^= byte);
    }

    fn ordered(&mut self, bytes: &[u8]) {
        self.ordered_hash(Sha1::digest(bytes).into());
    }

    fn ordered_hash(&mut self, hash: [u8; 20]) {
        self.unordered_hash(hash);
        self.0 = Sha1::digest(self.0).into();
    }

    fn value(&mut self, record: &Record, now_ms: i64) {
        let kind = Kind::of(record.kind()).type_of();
        self.ordered(&type_number(kind).to_be_bytes());
        match kind {
            Type::String => {
                if let Some(string) = Str::of(record) {
                    let mut sha = Sha1::new();
                    string.text(&mut Digits::new()).all().for_each(|slice| sha.update(slice));
                    self.ordered_hash(sha.finalize().into());
                }
            }
            Type::List => {
                if let Some(list) = List::of(record) {
                    list.each_from(0, |value| {
                        self.ordered(value.bytes(&mut Digits::new()));
                        true
                    });
                }
            }
            Type::Set => {
                if let Some(set) = Set::of(record) {
                    set.each(|member| self.unordered(member.bytes(&mut Digits::new())));
                }
            }
            Type::Zset => self.zset(record),
            Type::Hash => {
                if let Some(hash) = Hash::of(record, now_ms) {
                    hash.each(|pair| {
                        let mut field = Digest::default();
                        field.ordered(pair.field.bytes(&mut Digits::new()));
                        field.ordered(pair.value.bytes(&mut Digits::new()));
                        self.unordered(&field.0);
                    });
                }
            }
            Type::Stream => self.stream(record),
        }
        if record.expiry().is_some() {
            self.unordered(b"!!expire!!");
        }
    }

    /// Elements in any order, each member with its score.
    fn zset(&mut self, record: &Record) {
        let Some(set) = View::of(record) else { return };
        set.for_each(|member, score| {
            let mut element = Digest::default();
            element.ordered(member.bytes(&mut Digits::new()));
            element.ordered(&fmt_f64_shortest(score));
            self.unordered(&element.0);
        });
    }

    /// Entries in order: each id as `ms.seq`, then the fields with their values.
    fn stream(&mut self, record: &Record) {
        let Some(stream) = Stream::of(record) else { return };
        for entry in stream.log.range(StreamId::MIN, StreamId::MAX) {
            self.ordered(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
            for (field, value) in entry.pairs() {
                self.ordered(field.bytes(&mut Digits::new()));
                self.ordered(value.bytes(&mut Digits::new()));
            }
        }
    }

    fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The number of a type in the reference.
fn type_number(kind: Type) -> u32 {
    match kind {
        Type::String => 0,
        Type::List => 1,
        Type::Set => 2,
        Type::Zset => 3,
        Type::Hash => 4,
        Type::Stream => 6,
    }
}

/// Stops the world while it hashes all keys.
pub fn all(cx: &mut ConnCx<'_>) -> CmdResult {
    let guard = cx.guard();
    let mut digest = Digest::default();
    let now_ms = cx.core.context.now_ms;
    for index in 0..guard.keyspace().databases() {
        let mut db = Db::new(guard, &mut cx.core.context, index);
        if !db.is_empty() {
            digest.ordered(&(index as u32).to_be_bytes());
            db.for_each(|record| digest.unordered(&of_key(&record, now_ms).0));
        }
    }
    cx.reply.simple(&digest.hex());
    Ok(())
}

fn of_key(record: &Record, now_ms: i64) -> Digest {
    let mut digest = Digest::default();
    digest.ordered(record.key());
    digest.value(record, now_ms);
    digest
}

pub fn values(cx: &mut ConnCx<'_>) -> CmdResult {
    let names = &cx.args[2..];
    cx.reply.array(names.len());
    for name in names {
        let digest = crate::commands::server::with_key(cx, name, |db, key| {
            let mut digest = Digest::default();
            let now_ms = db.context.now_ms;
            if let Some(record) = db.peek(key) {
                digest.value(&record, now_ms);
            }
            digest
        });
        cx.reply.simple(&digest.hex());
    }
    Ok(())
}
