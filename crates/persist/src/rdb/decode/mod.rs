//! Decodes bytes from any source into a record.
//!
//! The decoder trusts no input. Guarantees for arbitrary bytes:
//!
//! * The bytes are a valid value by all rules of the format and of its type, or they are refused:
//!   lengths, counts, backward lengths, end marks. Members, fields and elements of a set are
//!   unique. Every score is a number. Only a stream may be empty.
//! * The decoder doesn't panic, and its memory is bounded by a multiple of the bytes read.
//! * The record is complete, and the keyspace was not accessed.
//!
//! The reference doesn't require an order of sorted sets or the shortest encoding of listpack
//! entries. So the decoder accepts any order and encoding, and sorts the elements.

mod containers;
mod intset;
mod listpack;
mod stream;
mod ziplist;
mod zipmap;

use super::{Code, Dialect, Fault, Source, read};
use weft_types::packed::{Collected, TwoWay, Value};
use weft_types::string::{self, Blob, INLINE_MAX, New};
use weft_types::{Limits, Record, TEXT_MAX, hash, list, set, zset};

const EMPTY: Fault = Fault::Empty;
const DUPLICATE: Fault = Fault::Corrupt("a duplicate element");
const NOT_A_NUMBER: Fault = Fault::Corrupt("a score that is not a number");
const EXPIRY: Fault = Fault::Corrupt("an invalid expiry");

/// Properties of the record apart from its value.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub key: &'a [u8],
    /// Unix milliseconds.
    pub expiry: Option<i64>,
    /// As [`Record::clock`].
    pub clock: u32,
    /// Limits that choose the encoding.
    pub limits: &'a Limits,
    /// The total length of all decompressed strings in bytes at which decoding fails with
    /// [`Fault::Long`].
    pub plain_most: usize,
}

/// Reads a type code and a body. See the module documentation. O(bytes), times the logarithm of the
/// number of elements for large sorted sets.
///
/// # Errors
///
/// The bytes are not a valid value.
pub fn decode<S: Source>(
    from: &mut S,
    dialect: Dialect,
    target: &Target<'_>,
) -> Result<Record, Fault> {
    let [byte] = from.array()?;
    let code = Code::of(byte, dialect).ok_or(Fault::Code(byte))?;
    decode_body(code, from, target)
}

/// Reads a body whose type code is known already, as in files, where the key is between the two.
/// Otherwise like [`decode()`]. After [`Fault::Empty`] the whole body has been read.
///
/// # Errors
///
/// The bytes are not a valid value.
pub fn decode_body<S: Source>(
    code: Code,
    from: &mut S,
    target: &Target<'_>,
) -> Result<Record, Fault> {
    let decoder = Decoder { from, target, text: Vec::new(), plain_left: target.plain_most };
    match code {
        Code::String => decoder.string(),
        Code::List => decoder.list(),
        Code::ListZiplist => decoder.list_of_ziplist(),
        Code::Quicklist => decoder.quicklist(),
        Code::Quicklist2 => decoder.quicklist2(),
        Code::Stream | Code::Stream2 | Code::Stream3 => decoder.stream(code),
        Code::Set => decoder.set(),
        Code::SetInts => decoder.intset(),
        Code::SetListpack => decoder.set_of_listpack(),
        Code::Zset => decoder.zset(read::double),
        Code::ZsetText => decoder.zset(read::double_as_text),
        Code::ZsetZiplist => decoder.zset_of(ziplist::each),
        Code::ZsetListpack => decoder.zset_of(listpack::each),
        Code::Hash => decoder.hash(),
        Code::HashZipmap => decoder.hash_of_zipmap(),
        Code::HashZiplist => decoder.hash_of(ziplist::each),
        Code::HashListpack => decoder.hash_of(listpack::each),
        Code::HashExpiring => decoder.hash_expiring(),
        Code::HashMetadata => decoder.hash_metadata(),
        Code::HashListpackEx => decoder.hash_listpack_ex(),
    }
}

/// Decodes one value.
struct Decoder<'d, S> {
    from: &'d mut S,
    target: &'d Target<'d>,
    /// The last string.
    text: Vec<u8>,
    plain_left: usize,
}

impl<S: Source> Decoder<'_, S> {
    /// Reads the next string, an element of a collection.
    fn element(&mut self) -> Result<&[u8], Fault> {
        self.next()?;
        Ok(&self.text)
    }

    fn next(&mut self) -> Result<(), Fault> {
        read::string(self.from, &mut self.text, &mut self.plain_left)?;
        match self.text.len() <= TEXT_MAX {
            true => Ok(()),
            false => Err(Fault::Corrupt("an element is too long")),
        }
    }

    /// Reads the number of elements; zero is an error.
    fn count(&mut self) -> Result<usize, Fault> {
        match read::count(self.from)? {
            0 => Err(EMPTY),
            n => Ok(n),
        }
    }

    fn string(mut self) -> Result<Record, Fault> {
        read::string(self.from, &mut self.text, &mut self.plain_left)?;
        let Target { key, expiry, clock, .. } = *self.target;
        let value = match self.text.len() <= INLINE_MAX {
            true => New::Bytes(&self.text),
            false => New::Blob(Blob::new(self.text)),
        };
        Ok(string::record(key, value, expiry, clock))
    }

    fn list(mut self) -> Result<Record, Fault> {
        let mut list = list::Load::new(self.target.limits);
        for _ in 0..self.count()? {
            list.push(self.element()?);
        }
        self.finish_list(list, true)
    }

    fn list_of_ziplist(mut self) -> Result<Record, Fault> {
        let mut list = list::Load::new(self.target.limits);
        ziplist::each(self.element()?, &mut |value| {
            list.push(value.bytes(&mut string::Digits::new()));
            Ok(())
        })?;
        self.finish_list(list, false)
    }

    fn quicklist(mut self) -> Result<Record, Fault> {
        let mut list = list::Load::new(self.target.limits);
        for _ in 0..self.count()? {
            list.node(collected(self.element()?, ziplist::each)?);
        }
        self.finish_list(list, true)
    }

    fn quicklist2(mut self) -> Result<Record, Fault> {
        let mut list = list::Load::new(self.target.limits);
        for _ in 0..self.count()? {
            match read::len(self.from)? {
                1 => match self.element()? {
                    [] => return Err(Fault::Corrupt("an empty element in a separate node")),
                    text => list.alone(text),
                },
                2 => list.node(collected(self.element()?, listpack::each)?),
                _ => return Err(Fault::Corrupt("an unknown kind of node")),
            }
        }
        self.finish_list(list, true)
    }

    fn finish_list(&self, list: list::Load, settle: bool) -> Result<Record, Fault> {
        if list.is_empty() {
            return Err(EMPTY);
        }
        let Target { key, expiry, clock, limits, .. } = *self.target;
        Ok(list.finish(key, expiry, clock, limits, settle))
    }

    fn set(mut self) -> Result<Record, Fault> {
        let count = self.count()?;
        let mut set = set::Load::new(count, self.target.limits);
        for _ in 0..count {
            set.add(Value::Bytes(self.element()?));
        }
        self.finish_set(set)
    }

    fn intset(mut self) -> Result<Record, Fault> {
        let limits = self.target.limits;
        let ints = intset::read(self.element()?)?;
        let mut set = set::Load::new(ints.len(), limits);
        ints.for_each(|n| set.add(Value::Int(n)));
        self.finish_set(set)
    }

    fn set_of_listpack(mut self) -> Result<Record, Fault> {
        let mut set = set::Load::packed(1, self.target.limits);
        let mut some = false;
        listpack::each(self.element()?, &mut |member| {
            some = true;
            set.add(member);
            Ok(())
        })?;
        if some { self.finish_set(set) } else { Err(EMPTY) }
    }

    fn finish_set(&self, set: set::Load<'_>) -> Result<Record, Fault> {
        let Target { key, expiry, clock, .. } = *self.target;
        set.finish(key, expiry, clock).ok_or(DUPLICATE)
    }

    fn zset(mut self, score: impl Fn(&mut S) -> Result<f64, Fault>) -> Result<Record, Fault> {
        let mut zset = zset::Load::new(self.target.limits);
        for _ in 0..self.count()? {
            self.next()?;
            let score = score(self.from)?;
            if score.is_nan() {
                return Err(NOT_A_NUMBER);
            }
            zset.add(&self.text, score);
        }
        self.finish_zset(zset)
    }

    fn finish_zset(&self, zset: zset::Load) -> Result<Record, Fault> {
        let Target { key, expiry, clock, .. } = *self.target;
        zset.finish(key, expiry, clock).ok_or(DUPLICATE)
    }

    fn hash(mut self) -> Result<Record, Fault> {
        let count = self.count()?;
        let mut hash = hash::Load::new(count, self.target.limits);
        let mut field = Vec::new();
        for _ in 0..count {
            self.next()?;
            std::mem::swap(&mut field, &mut self.text);
            hash.add(&field, self.element()?, None);
        }
        self.finish_hash(hash)
    }

    /// Fields with their expiry, in Valkey's format.
    fn hash_expiring(mut self) -> Result<Record, Fault> {
        let mut hash = hash::Load::large(self.target.limits);
        let mut field = Vec::new();
        for _ in 0..self.count()? {
            self.next()?;
            std::mem::swap(&mut field, &mut self.text);
            self.next()?;
            let expiry = match read::signed(self.from)? {
                -1 => None,
                at @ 0.. => Some(at),
                _ => return Err(EXPIRY),
            };
            hash.add(&field, &self.text, expiry);
        }
        self.finish_hash(hash)
    }

    /// Fields with their expiry, in Redis's format: the offset from the earliest expiry of the
    /// hash, plus 1; 0 means none.
    fn hash_metadata(mut self) -> Result<Record, Fault> {
        let least = read::signed(self.from)?;
        let mut hash = hash::Load::new(0, self.target.limits);
        let mut field = Vec::new();
        for _ in 0..self.count()? {
            let expiry = match read::len(self.from)? {
                0 => None,
                more => Some(expiry_after(least, more - 1)?),
            };
            self.next()?;
            std::mem::swap(&mut field, &mut self.text);
            hash.add(&field, self.element()?, expiry);
        }
        self.finish_hash(hash)
    }

    fn finish_hash(&self, hash: hash::Load<'_>) -> Result<Record, Fault> {
        let Target { key, expiry, clock, .. } = *self.target;
        hash.finish(key, expiry, clock).ok_or(DUPLICATE)
    }
}

/// The time `more` milliseconds after the earliest expiry of a hash.
fn expiry_after(least: i64, more: u64) -> Result<i64, Fault> {
    let at = if least >= 0 { least.checked_add_unsigned(more) } else { None };
    at.ok_or(EXPIRY)
}

/// Passes each entry of a container to a function.
type Each =
    for<'a> fn(&'a [u8], &mut dyn FnMut(Value<'a>) -> Result<(), Fault>) -> Result<(), Fault>;

/// Collects the entries of a container into a list node.
fn collected(container: &[u8], each: Each) -> Result<Collected<TwoWay>, Fault> {
    let mut all = Collected::default();
    each(container, &mut |value| {
        all.push(value);
        Ok(())
    })?;
    Ok(all)
}
