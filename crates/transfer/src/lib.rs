//! Values on their way between servers: DUMP, RESTORE, MIGRATE.
//!
//! These are commands on keys like those of `weft-commands`; they stand here because that crate and
//! the one that knows the format of values do not know each other.
//!
//! DUMP writes the form that every server reads, from Redis 4 and all of Valkey on, unless a value
//! has something that only later ones know; so the version in its footer is as old as may be, where
//! the reference always writes its own. See `docs/design/rdb-values.md`.

mod dump;
pub mod migrate;
mod restore;
#[cfg(test)]
mod tests;

use weft_commands::Command;
use weft_persist::rdb::{self, Form};
use weft_types::{Record, value};

pub const COMMANDS: &[&Command] =
    &[&dump::DUMP, &migrate::MIGRATE, &restore::RESTORE, &restore::RESTORE_ASKING];

/// For readers from this version of the format on: what all read.
const OLDEST: Form = Form { version: 9, compress: true };

/// Bytes that are compressed or decoded in the time of one element (see
/// [`FAST_WORK`](weft_commands::FAST_WORK)).
const BYTES_OF_WORK: usize = 16;

/// About how much work it is to write the value of `record`, in elements.
pub fn write_work(record: &Record) -> usize {
    value::elements(record).max(value::memory_about(record) / BYTES_OF_WORK)
}

/// About how much work it is to read a payload of so many bytes, in elements.
fn read_work(payload: usize) -> usize {
    payload / BYTES_OF_WORK
}

/// Whether a command of this name waits for another server while it holds its shards.
pub fn waits_outside(name: &str) -> bool {
    name == "migrate"
}

/// Whether [`work`] knows of a command of this name.
pub fn is_one(name: &str) -> bool {
    matches!(name, "restore" | "restore-asking") || waits_outside(name)
}

/// About how much work a command of this name is by its arguments alone, whatever the keys hold.
pub fn work(name: &str, args: &[&[u8]]) -> usize {
    match name {
        "restore" | "restore-asking" => args.get(3).map_or(0, |payload| read_work(payload.len())),
        _ if waits_outside(name) => usize::MAX,
        _ => 0,
    }
}

/// The payload of the value of `record`. O(bytes).
fn payload(record: &Record) -> Vec<u8> {
    let mut payload = Vec::new();
    let code = rdb::encode(record, OLDEST, &mut payload).expect("a vector takes everything");
    rdb::seal(&mut payload, code);
    payload
}
