//! SETBIT and GETBIT: set or read a single bit.

use super::offset;
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error};
use crate::lock::Lock;
use crate::registry::Command;
use crate::string::range::BYTES_PER_ELEMENT;
use crate::string::string;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_keyspace::Classes;
use weft_keyspace::db::Rework;
use weft_types::RecordMut;
use weft_types::string::{
    Digits, PIECED_FROM, edit_in_place, edit_text, edit_work, record_filled, record_text,
};

pub const SETBIT: Command = Command {
    spec: Spec {
        name: "setbit",
        arity: 4,
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &keys::one(&["RW", "ACCESS", "UPDATE"]),
        acl: &[],
        group: Group::Bitmap,
        since: "2.2.0",
        summary: "Sets a bit of a key's value and returns its old value. The value grows if necessary.",
        complexity: "O(1), plus O(N) when the value grows by N bytes.",
        syntax: "key offset:integer value:integer",
        history: &[],
        tips: &[],
        special: Special::queued_work(QueuedWork::ChangeBytes),
    },
    lock: Lock::Keys,
    run: setbit,
    subcommands: &[],
};

pub const GETBIT: Command = Command {
    spec: Spec {
        name: "getbit",
        arity: 3,
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &keys::one(&["RO", "ACCESS"]),
        summary: "Returns a bit of a key's value.",
        complexity: "O(1)",
        syntax: "key offset:integer",
        special: Special::NONE,
        ..SETBIT.spec
    },
    run: getbit,
    ..SETBIT
};

const BAD_BIT: Error = Error::new("ERR bit is not an integer or out of range");

/// The byte of a bit, and the mask of the bit in it.
fn bit_position(at: usize) -> (usize, u8) {
    (at / 8, 0x80 >> (at % 8))
}

fn setbit(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let (byte, mask) = bit_position(offset(ctx, 2, None)?);
    let on = match ctx.args[3] {
        b"0" => false,
        b"1" => true,
        _ => return Err(BAD_BIT),
    };
    let (lane, pause) = (ctx.lane, &mut ctx.pause);
    let mut refused = Ok(());
    // Returns the old bit. Marks the value as edited, which OBJECT ENCODING shows, even if the bit
    // does not change.
    let switch = |bytes: &mut [u8]| {
        let was = bytes[byte] & mask != 0;
        if was != on {
            bytes[byte] ^= mask;
        }
        was
    };
    let amend = |old: &mut RecordMut<'_>| {
        let was = edit_in_place(old, byte + 1, switch)?;
        Some((was != on, (was, was != on)))
    };
    let (was, changed) = ctx.db.amend(&key, amend, |old, clock| {
        let Some(old) = old else {
            let written = if on { mask } else { 0 };
            let new = if byte < PIECED_FROM {
                record_filled(key.bytes, byte + 1, clock, |bytes| bytes[byte] = written)
            } else {
                let empty = record_text(key.bytes, b"", None, clock);
                edit_text(empty, byte + 1, |mut text| text.write(byte, &[written]))
            };
            return (Rework::Changed(new), (false, true));
        };
        let len = string(&old).map(|text| text.len());
        let work = edit_work(&old, byte + 1) / BYTES_PER_ELEMENT;
        let len = match len.and_then(|len| lane.weigh(work, pause).map(|()| len)) {
            Ok(len) => len,
            Err(e) => {
                refused = Err(e);
                return (Rework::Same(old), (false, false));
            }
        };
        let mut was = false;
        let new = edit_text(old, byte + 1, |mut text| {
            let old = text.byte(byte);
            was = old & mask != 0;
            if was != on {
                text.write(byte, &[old ^ mask]);
            }
        });
        let changed = was != on || byte >= len;
        let rework = if changed { Rework::Changed(new) } else { Rework::Same(new) };
        (rework, (was, changed))
    });
    refused?;
    if changed {
        ctx.notify(Classes::STRING, "setbit", &key);
        ctx.dirty();
    }
    ctx.reply.int(i64::from(was));
    Ok(())
}

fn getbit(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let (byte, mask) = bit_position(offset(ctx, 2, None)?);
    let is_set = match ctx.db.read(&key) {
        None => false,
        Some(record) => {
            let mut room = Digits::new();
            string(&record)?.text(&mut room).get(byte).is_some_and(|b| b & mask != 0)
        }
    };
    ctx.reply.int(i64::from(is_set));
    Ok(())
}
