//! DEBUG OBJECT, SDSLEN, HTSTATS and STRUCTSIZE: the storage of values.

use crate::commands::server::with_key;
use weft_base::num::parse_i64;
use weft_commands::{CmdResult, Error, error};
use weft_executor::dispatch::core::ConnCx;
use weft_keyspace::{Db, Record, SHARDS};
use weft_process::log_notice;
use weft_table::Stats;
use weft_types::string::{self, Str};
use weft_types::{Kind, Type, value};

const NOT_A_STRING: Error = Error::new("ERR Not an sds encoded string.");
const NOT_A_TABLE: Error =
    Error::new("ERR The value stored at the specified key is not represented using an hash table");
const NO_SUCH_DB: Error = Error::new("ERR Out of range database");

/// Runs `look` on the record of the key at argument 2.
fn with_record<T>(
    cx: &mut ConnCx<'_>,
    look: impl FnOnce(&Record) -> Result<T, Error>,
) -> Result<T, Error> {
    let name = cx.args[2];
    with_key(cx, name, |db, key| match db.peek(key) {
        Some(record) => look(&record),
        None => Err(error::NO_SUCH_KEY),
    })
}

pub fn object(cx: &mut ConnCx<'_>) -> CmdResult {
    let fast = cx.args.len() > 3 && cx.is(3, "fast");
    let access = cx.core.context.access;
    let text = with_record(cx, |record| {
        let length = match fast {
            true => String::new(),
            false => format!(" serializedlength:{}", serialized_len(record)),
        };
        Ok(format!(
            "Value at:{:p} refcount:1 encoding:{}{length} lru:{} lru_seconds_idle:{}",
            record.payload().as_ptr(),
            value::encoding_name(record),
            record.clock(),
            access.idle_seconds(record.clock()),
        ))
    })?;
    cx.reply.simple(&text);
    Ok(())
}

pub fn listpack(cx: &mut ConnCx<'_>) -> CmdResult {
    log_shape(cx, "listpack", "ERR Not a listpack encoded object.")
}

pub fn quicklist(cx: &mut ConnCx<'_>) -> CmdResult {
    log_shape(cx, "quicklist", "ERR Not a quicklist encoded object.")
}

/// Logs the shape of a value of this encoding, without its content.
fn log_shape(cx: &mut ConnCx<'_>, encoding: &str, other: &'static str) -> CmdResult {
    let (elements, bytes) = with_record(cx, |record| match value::encoding_name(record) {
        name if name == encoding => Ok((value::elements(record), value::memory(record, 0))),
        _ => Err(Error::new(other)),
    })?;
    log_notice!("DEBUG {encoding}: {elements} elements in {bytes} bytes");
    let name = [&encoding[..1].to_uppercase(), &encoding[1..]].concat();
    cx.reply.simple(&format!("{name} structure written to the log"));
    Ok(())
}

/// The value's bytes in an uncompressed snapshot.
fn serialized_len(record: &Record) -> usize {
    match Kind::of(record.kind()).type_of() {
        Type::String => match Str::of(record) {
            Some(string) => serialized_string(string),
            None => 0,
        },
        // A length, and about the memory of the elements.
        Type::List | Type::Set | Type::Zset | Type::Hash | Type::Stream => {
            let memory = value::memory(record, 0);
            memory.saturating_sub(record.alloc_size() - record.payload().len())
        }
    }
}

fn serialized_string(string: Str<'_>) -> usize {
    const INT_8: std::ops::RangeInclusive<i64> = -(1 << 7)..=(1 << 7) - 1;
    const INT_16: std::ops::RangeInclusive<i64> = -(1 << 15)..=(1 << 15) - 1;
    const INT_32: std::ops::RangeInclusive<i64> = -(1 << 31)..=(1 << 31) - 1;
    match string.int() {
        Some(n) if INT_8.contains(&n) => return 2,
        Some(n) if INT_16.contains(&n) => return 3,
        Some(n) if INT_32.contains(&n) => return 5,
        Some(_) | None => {}
    }
    let len = string.len();
    let head = match len {
        0..64 => 1,
        64..16384 => 2,
        _ => 5,
    };
    head + len
}

pub fn string_lengths(cx: &mut ConnCx<'_>) -> CmdResult {
    let text = with_record(cx, |record| {
        let len = match Str::of(record) {
            None | Some(Str::Int(_)) => return Err(NOT_A_STRING),
            Some(text @ (Str::Bytes(_) | Str::Blob(_) | Str::Pieces(_))) => text.len(),
        };
        let outside = string::memory(record) - record.alloc_size();
        let spare = outside.saturating_sub(len);
        Ok(format!(
            "key_sds_len:{} key_sds_avail:0 obj_alloc:{} val_sds_len:{len} val_sds_avail:{spare} \
             val_alloc:{outside}",
            record.key().len(),
            record.alloc_size(),
        ))
    })?;
    cx.reply.simple(&text);
    Ok(())
}

pub fn tables(cx: &mut ConnCx<'_>) -> CmdResult {
    let index = parse_i64(cx.args[2]).ok_or(error::NOT_AN_INTEGER)?;
    let databases = cx.srv().ks.databases();
    let index = usize::try_from(index).ok().filter(|n| *n < databases).ok_or(NO_SUCH_DB)?;
    let mut db = Db::new(cx.guard(), &mut cx.core.context, index);
    let shapes: Vec<Stats> = (0..SHARDS as u16).map(|shard| db.table_stats(shard)).collect();
    let mut text = String::from("[Dictionary HT]\n");
    text.push_str(&format!(" shards: {SHARDS}\n{}", sum(&shapes)));
    if cx.args.len() > 3 && cx.is(3, "full") {
        for (shard, stats) in shapes.iter().enumerate().filter(|(_, stats)| stats.len > 0) {
            text.push_str(&format!("shard {shard}:\n{stats}"));
        }
    }
    // Expiries are part of the records: there is no second table.
    let expiring: usize = shapes.iter().map(|s| s.expiring).sum();
    text.push_str(&format!("[Expires HT]\n number of entries: {expiring}\n"));
    cx.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn sum(shapes: &[Stats]) -> Stats {
    shapes.iter().fold(Stats::default(), |mut sum, one| {
        sum.len += one.len;
        sum.expiring += one.expiring;
        sum.segments += one.segments;
        sum.depth = sum.depth.max(one.depth);
        sum.capacity += one.capacity;
        sum.memory += one.memory;
        sum.displaced.iter_mut().zip(one.displaced).for_each(|(to, n)| *to += n);
        sum
    })
}

/// Tables inside a value differ from the keyspace's, and have no such statistics.
pub fn table_of_key(cx: &mut ConnCx<'_>) -> CmdResult {
    with_record(cx, |record| match Kind::of(record.kind()).type_of() {
        Type::String | Type::List | Type::Set | Type::Zset | Type::Hash | Type::Stream => {
            Err(NOT_A_TABLE)
        }
    })
}

pub fn sizes(cx: &mut ConnCx<'_>) -> CmdResult {
    let text = format!(
        "bits:{} record_pointer:{} table:{} session:{} client:{} connection:{} ",
        usize::BITS,
        size_of::<Record>(),
        size_of::<weft_keyspace::Table>(),
        size_of::<weft_state::session::Session>(),
        size_of::<weft_state::clients::ClientShared>(),
        size_of::<weft_state::conn::Conn>(),
    );
    cx.reply.bulk(text.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialized_len_matches_snapshot() {
        for (text, len) in [
            ("1", 2),
            ("-128", 2),
            ("128", 3),
            ("40000", 5),
            ("3000000000", 11),
            ("hello", 6),
            ("", 1),
        ] {
            assert_eq!(serialized_string(Str::Bytes(text.as_bytes())), len, "{text}");
        }
        assert_eq!(serialized_string(Str::Int(7)), 2);
        assert_eq!(serialized_string(Str::Blob(&[b'x'; 20_000])), 20_005);
    }
}
