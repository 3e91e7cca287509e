//! Values in transit between servers: DUMP, RESTORE, MIGRATE.
//!
//! These commands work on keys like those of `weft-commands`. They have their own crate because
//! `weft-commands` and the crate of the value format do not depend on each other.
//!
//! DUMP writes the oldest format that can represent the value. Every server from Redis 4 and all of
//! Valkey reads it, unless the value needs a later feature. So the version in the footer is as old
//! as possible. The reference always writes its own version. See `docs/design/rdb-values.md`.

mod dump;
pub mod functions;
pub mod migrate;
mod restore;
#[cfg(test)]
mod tests;

use weft_command_spec::{Flags, QueuedWork, Spec};
use weft_commands::Command;
use weft_persist::rdb::{self, Form};
use weft_types::{Record, value};

pub const COMMANDS: &[&Command] =
    &[&dump::DUMP, &migrate::MIGRATE, &restore::RESTORE, &restore::RESTORE_ASKING];

/// The oldest supported version of the format, which all servers read.
const OLDEST: Form = Form { version: 9, compress: true };

/// Bytes compressed or decoded in the time of one element (see
/// [`FAST_WORK`](weft_commands::FAST_WORK)).
const BYTES_PER_ELEMENT: usize = 16;

/// The approximate work of encoding the value of `record`, in elements.
pub fn write_work(record: &Record) -> usize {
    value::elements(record).max(value::memory_about(record) / BYTES_PER_ELEMENT)
}

/// The approximate work of decoding a payload of this many bytes, in elements.
fn read_work(payload: usize) -> usize {
    payload / BYTES_PER_ELEMENT
}

/// Whether [`work`] finds any work in the arguments of the command.
pub fn is_weighed_by_arguments(spec: &Spec) -> bool {
    spec.flags.has(Flags::WAITS_FOR_SERVER) || spec.special.queued_work == QueuedWork::Decode
}

/// The approximate work of a command by its arguments alone, whatever the keys hold.
pub fn work(spec: &Spec, args: &[&[u8]]) -> usize {
    if spec.flags.has(Flags::WAITS_FOR_SERVER) {
        return usize::MAX;
    }
    match spec.special.queued_work {
        QueuedWork::Decode => args.get(3).map_or(0, |payload| read_work(payload.len())),
        _ => 0,
    }
}

/// The payload of the value of `record`. O(bytes).
pub fn payload(record: &Record) -> Vec<u8> {
    payload_in(record, OLDEST)
}

/// The same without compression, which costs more CPU time than the rest of a transfer.
pub fn uncompressed_payload(record: &Record) -> Vec<u8> {
    payload_in(record, Form { compress: false, ..OLDEST })
}

fn payload_in(record: &Record, form: Form) -> Vec<u8> {
    // A version, a checksum and the length of a small value.
    const ENDS: usize = 32;
    let mut payload = Vec::with_capacity(record.payload().len() + ENDS);
    let code = rdb::encode(record, form, &mut payload).expect("writing to a vector can't fail");
    rdb::seal(&mut payload, code);
    payload
}
