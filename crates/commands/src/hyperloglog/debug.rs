//! PFDEBUG: inspects and changes HyperLogLogs, for tests.
//!
//! PFDEBUG is one command whose first argument names the action. It is not a container: COMMAND
//! lists no subcommands, and the argument may be anything.

use super::{CORRUPTED, view};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, WRONG_TYPE};
use crate::lock::Lock;
use crate::registry::Command;
use weft_base::sixbit::{REGISTERS, is_wide, set_wide};
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_keyspace::Key;
use weft_keyspace::db::Rework;
use weft_types::hyperloglog::{HEADER, Registers, View, decode, to_dense};
use weft_types::string::{Digits, Str, mark_edited, rewrite};

pub const PFDEBUG: Command = Command {
    spec: Spec {
        name: "pfdebug",
        arity: 3,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::ADMIN).or(Flags::SYSTEM),
        keys: &keys::at(2, &["RW", "ACCESS"]),
        acl: &[],
        group: Group::HyperLogLog,
        since: "2.8.9",
        summary: "Shows and changes the encoding of a HyperLogLog, for tests.",
        complexity: "N/A",
        syntax: "subcommand key",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: pfdebug,
    subcommands: &[],
};

const NO_KEY: Error = Error::new("ERR The specified key does not exist");
const NOT_SPARSE: Error = Error::new("ERR HLL encoding is not sparse");
const ON_OR_OFF: Error = Error::new("ERR Argument must be ON or OFF");

/// Bytes of runs written to the reply in the time of one element of a collection.
const DECODED_BYTES_PER_ELEMENT: usize = 2;

fn pfdebug(ctx: &mut Ctx<'_>) -> CmdResult {
    if ctx.is(1, "simd") {
        return simd(ctx);
    }
    let key = ctx.key(2);
    let record = ctx.db.for_write(&key).ok_or(NO_KEY)?;
    let (bytes, registers) = view(&record)?;
    let (len, sparse) = (bytes.len(), matches!(registers, View::Sparse(_)));
    let len = Str::of(&record).map_or(len, Str::len);
    if ctx.is(1, "getreg") {
        ctx.weigh(REGISTERS)?;
    } else if ctx.is(1, "decode") && sparse {
        ctx.weigh(len / DECODED_BYTES_PER_ELEMENT)?;
    }
    // From here on the string counts as edited, whatever the action.
    ctx.db.rework(&key, |record, _| {
        (record.map_or(Rework::Absent, |record| Rework::Same(mark_edited(record))), ())
    });
    if ctx.is(1, "getreg") {
        getreg(ctx, &key, sparse)
    } else if ctx.is(1, "decode") {
        if !sparse {
            return Err(NOT_SPARSE);
        }
        let record = ctx.db.for_write(&key).ok_or(NO_KEY)?;
        let mut room = Digits::new();
        let bytes = Str::of(&record).ok_or(WRONG_TYPE)?.bytes(&mut room);
        ctx.reply.bulk(decode(&bytes[HEADER..]).as_bytes());
        Ok(())
    } else if ctx.is(1, "encoding") {
        ctx.reply.simple(if sparse { "sparse" } else { "dense" });
        Ok(())
    } else if ctx.is(1, "todense") {
        if sparse {
            make_dense(ctx, &key)?;
        }
        ctx.reply.int(i64::from(sparse));
        Ok(())
    } else {
        Err(unknown(ctx.args[1]))
    }
}

/// The reference's message ends at a NUL byte.
fn unknown(word: &[u8]) -> Error {
    let word = word.split(|byte| *byte == 0).next().unwrap_or_default();
    Error::owned([b"ERR Unknown PFDEBUG subcommand '", word, b"'"].concat())
}

/// Enables or disables SIMD, for all clients.
fn simd(ctx: &mut Ctx<'_>) -> CmdResult {
    if ctx.is(2, "on") {
        set_wide(true);
    } else if ctx.is(2, "off") {
        set_wide(false);
    } else {
        return Err(ON_OR_OFF);
    }
    ctx.reply.simple(if is_wide() { "enabled" } else { "disabled" });
    Ok(())
}

/// Replies with all registers. Makes a sparse HyperLogLog dense.
fn getreg(ctx: &mut Ctx<'_>, key: &Key<'_>, sparse: bool) -> CmdResult {
    if sparse {
        make_dense(ctx, key)?;
    }
    let record = ctx.db.for_write(key).ok_or(NO_KEY)?;
    let mut registers = Registers::new();
    registers.raise(view(&record)?.1).map_err(|_| CORRUPTED)?;
    ctx.reply.array(REGISTERS);
    for register in registers.each() {
        ctx.reply.int(i64::from(register));
    }
    Ok(())
}

fn make_dense(ctx: &mut Ctx<'_>, key: &Key<'_>) -> CmdResult {
    let record = ctx.db.for_write(key).ok_or(NO_KEY)?;
    let dense = to_dense(view(&record)?.0).map_err(|_| CORRUPTED)?;
    ctx.db.update(key, |record| rewrite(record, &dense));
    ctx.dirty();
    Ok(())
}
