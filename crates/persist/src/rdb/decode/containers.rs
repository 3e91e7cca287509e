//! Hashes and sorted sets whose elements are encoded in one string.

use super::{Decoder, EMPTY, EXPIRY, Each, listpack, zipmap};
use crate::rdb::{Fault, Source, read};
use weft_types::packed::Value;
use weft_types::string::Digits;
use weft_types::{Record, hash, zset};

const UNPAIRED: Fault = Fault::Corrupt("an unpaired element");

impl<S: Source> Decoder<'_, S> {
    pub(super) fn hash_of(mut self, each: Each) -> Result<Record, Fault> {
        let mut hash = hash::Load::packed(0, self.target.limits);
        add_pairs(&mut hash, self.element()?, each)?;
        self.finish_hash(hash)
    }

    pub(super) fn hash_of_zipmap(mut self) -> Result<Record, Fault> {
        let mut hash = hash::Load::new(0, self.target.limits);
        add_pairs(&mut hash, self.element()?, zipmap::each)?;
        self.finish_hash(hash)
    }

    /// Fields with value and expiry, of Redis; an expiry of 0 means none.
    pub(super) fn hash_listpack_ex(mut self) -> Result<Record, Fault> {
        let _least = read::signed(self.from)?;
        let mut hash = hash::Load::new(0, self.target.limits);
        let (mut waiting, mut some) = ((None, None), false);
        listpack::each(self.element()?, &mut |value| {
            waiting = match waiting {
                (None, _) => (Some(value), None),
                (field, None) => (field, Some(value)),
                (Some(field), Some(of)) => {
                    let expiry = match value {
                        Value::Int(0) => None,
                        Value::Int(at @ 1..) => Some(at),
                        Value::Int(_) | Value::Bytes(_) => return Err(EXPIRY),
                    };
                    let (mut f, mut v) = (Digits::new(), Digits::new());
                    hash.add(field.bytes(&mut f), of.bytes(&mut v), expiry);
                    some = true;
                    (None, None)
                }
            };
            Ok(())
        })?;
        match waiting {
            (Some(_), _) => Err(UNPAIRED),
            (None, _) if !some => Err(EMPTY),
            (None, _) => self.finish_hash(hash),
        }
    }

    pub(super) fn zset_of(mut self, each: Each) -> Result<Record, Fault> {
        let mut zset = zset::Load::packed(self.target.limits);
        pairs(self.element()?, each, |member, of| {
            let score = match of {
                Value::Int(n) => n as f64,
                Value::Bytes(text) => read::score(text)?,
            };
            zset.add(member.bytes(&mut Digits::new()), score);
            Ok(())
        })?;
        self.finish_zset(zset)
    }
}

fn add_pairs(hash: &mut hash::Load<'_>, container: &[u8], each: Each) -> Result<(), Fault> {
    pairs(container, each, |field, value| {
        let (mut f, mut v) = (Digits::new(), Digits::new());
        hash.add(field.bytes(&mut f), value.bytes(&mut v), None);
        Ok(())
    })
}

/// Passes the entries of a container to `seen` in pairs; an empty container is an error.
fn pairs<'a>(
    container: &'a [u8],
    each: Each,
    mut seen: impl FnMut(Value<'a>, Value<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let (mut first, mut some) = (None, false);
    each(container, &mut |value| match first.take() {
        None => {
            first = Some(value);
            Ok(())
        }
        Some(first) => {
            some = true;
            seen(first, value)
        }
    })?;
    match first {
        Some(_) => Err(UNPAIRED),
        None if !some => Err(EMPTY),
        None => Ok(()),
    }
}
