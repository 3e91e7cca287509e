//! RENAME and RENAMENX: change the key of a value.
//!
//! The value keeps its type, encoding, expiry and access clock; only the record's key changes. The
//! command holds both shards, so no client ever sees both keys or neither.

use crate::ctx::Ctx;
use crate::error::{CmdResult, NO_SUCH_KEY};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Begin, Find, Flags, Group, KeySpec, Spec, Special};
use weft_keyspace::{Classes, Key, Record};
use weft_types::string;

const fn key(index: u16, flags: &'static [&'static str]) -> KeySpec {
    let find = Find::Range { last: 0, step: 1, limit: 0 };
    KeySpec { flags, begin: Begin::Index(index), find, notes: "" }
}

pub const RENAME: Command = Command {
    spec: Spec {
        name: "rename",
        arity: 3,
        flags: Flags::WRITE,
        keys: &[key(1, &["RW", "ACCESS", "DELETE"]), key(2, &["OW", "UPDATE"])],
        acl: &[],
        group: Group::Generic,
        since: "1.0.0",
        summary: "Renames a key and replaces any key that has the new name.",
        complexity: "O(1)",
        syntax: "key newkey:key",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: rename,
    subcommands: &[],
};

pub const RENAMENX: Command = Command {
    spec: Spec {
        name: "renamenx",
        arity: 3,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &[key(1, &["RW", "ACCESS", "DELETE"]), key(2, &["OW", "INSERT"])],
        acl: &[],
        group: Group::Generic,
        since: "1.0.0",
        summary: "Renames a key unless the new name exists.",
        complexity: "O(1)",
        syntax: "key newkey:key",
        history: &[("3.2.0", "Equal names are no longer an error.")],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: renamenx,
    subcommands: &[],
};

fn rename(ctx: &mut Ctx<'_>) -> CmdResult {
    let (from, to) = (ctx.key(1), ctx.key(2));
    if ctx.db.for_write(&from).is_none() {
        return Err(NO_SUCH_KEY);
    }
    if from.bytes != to.bytes
        && let Some(record) = ctx.db.remove(&from)
    {
        store_under(ctx, record, &from, &to);
    }
    ctx.reply.ok();
    Ok(())
}

/// Stores the record of `from` under the key `to`.
fn store_under(ctx: &mut Ctx<'_>, record: Record, from: &Key<'_>, to: &Key<'_>) {
    ctx.db.put(to, string::refit(record.with_key(to.bytes)));
    ctx.notify(Classes::GENERIC, "rename_from", from);
    ctx.notify(Classes::GENERIC, "rename_to", to);
    ctx.dirty();
}

fn renamenx(ctx: &mut Ctx<'_>) -> CmdResult {
    let (from, to) = (ctx.key(1), ctx.key(2));
    if ctx.db.for_write(&from).is_none() {
        return Err(NO_SUCH_KEY);
    }
    // Equal names count as taken.
    if ctx.db.for_write(&to).is_some() {
        ctx.reply.int(0);
        return Ok(());
    }
    if let Some(record) = ctx.db.remove(&from) {
        store_under(ctx, record, &from, &to);
    }
    ctx.reply.int(1);
    Ok(())
}
