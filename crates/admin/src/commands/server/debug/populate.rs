//! DEBUG POPULATE: creates many small keys at once.
//!
//! It runs with the world stopped, as on single-threaded servers.

use crate::commands::server::with_key;
use weft_base::num::parse_i64;
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::core::ConnCx;
use weft_types::string::{self, New};

const NOT_POSITIVE: Error = Error::new("ERR value is out of range, must be positive");

pub fn populate(cx: &mut ConnCx<'_>) -> CmdResult {
    let count = positive(cx.args[2])?;
    let prefix = cx.args.get(3).copied().unwrap_or(b"key");
    let size = match cx.args.get(4) {
        Some(size) => Some(positive(size)? as usize),
        None => None,
    };
    let max = cx.core.settings.commands.max_string;
    if size.is_some_and(|size| size > max) {
        return Err(Error::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)"));
    }
    for n in 0..count {
        let name = [prefix, b":", n.to_string().as_bytes()].concat();
        let mut value = format!("value:{n}").into_bytes();
        if let Some(size) = size.filter(|size| *size > 0) {
            value.resize(size, 0);
        }
        with_key(cx, &name, |db, key| {
            if !db.contains(key) {
                let clock = db.context.access.fresh();
                db.set(key, string::record(key.bytes, New::Bytes(&value), None, clock));
                db.context.tally.dirty += 1;
            }
        });
    }
    cx.reply.ok();
    Ok(())
}

fn positive(arg: &[u8]) -> Result<i64, Error> {
    parse_i64(arg).filter(|n| *n >= 0).ok_or(NOT_POSITIVE)
}
