//! COPY: stores a copy of a key's value under another key.
//!
//! The copy keeps the encoding, which clients can see, and the expiry. Its access clock starts
//! anew. A long string is shared until one of the two keys changes. Expired fields of a hash that
//! are not yet removed are not copied.

use super::{SAME_OBJECT, database};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Begin, Databases, Find, Flags, Group, KeySpec, Spec, Special};
use weft_keyspace::Classes;
use weft_types::value::{duplicate, duplicate_work};

const fn key(index: u16, flags: &'static [&'static str]) -> KeySpec {
    let find = Find::Range { last: 0, step: 1, limit: 0 };
    KeySpec { flags, begin: Begin::Index(index), find, notes: "" }
}

pub const COPY: Command = Command {
    spec: Spec {
        name: "copy",
        arity: -3,
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &[key(1, &["RO", "ACCESS"]), key(2, &["OW", "UPDATE"])],
        acl: &[],
        group: Group::Generic,
        since: "6.2.0",
        summary: "Copies the value of a key to another key.",
        complexity: "O(N) for a collection of N elements, O(1) for a string.",
        syntax: "source:key destination:key [DB destination-db:integer] [replace=REPLACE]",
        history: &[],
        tips: &[],
        special: Special::databases(Databases::AfterDb),
    },
    lock: Lock::Keys,
    run: copy,
    subcommands: &[],
};

struct Options {
    target: usize,
    replace: bool,
}

impl Options {
    fn parse(ctx: &Ctx<'_>) -> Result<Options, Error> {
        let mut options = Options { target: ctx.db.index(), replace: false };
        let mut i = 3;
        while i < ctx.args.len() {
            if ctx.is(i, "replace") {
                options.replace = true;
                i += 1;
            } else if ctx.is(i, "db") && i + 1 < ctx.args.len() {
                options.target = database(ctx, i + 1)?;
                i += 2;
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }
}

fn copy(ctx: &mut Ctx<'_>) -> CmdResult {
    let Options { target, replace } = Options::parse(ctx)?;
    let (from, to) = (ctx.key(1), ctx.key(2));
    if target == ctx.db.index() && from.bytes == to.bytes {
        return Err(SAME_OBJECT);
    }
    let (clock, now) = (ctx.db.context.access.fresh(), ctx.over_ms());
    // The work is weighed only if a copy will be made.
    if let Some(work) = ctx.db.peek(&from).map(|record| duplicate_work(&record)) {
        let taken = !replace && ctx.db.other(target).peek(&to).is_some();
        if !taken {
            ctx.weigh(work)?;
        }
    }
    if ctx.db.read(&from).is_some() && ctx.db.other(target).for_write(&to).is_some() && !replace {
        ctx.reply.int(0);
        return Ok(());
    }
    let record = ctx.db.peek(&from);
    let copied = record.map(|record| duplicate(&record, to.bytes, record.expiry(), clock, now));
    let stored = copied.is_some();
    if let Some(record) = copied {
        let mut db = ctx.db.other(target);
        db.put(&to, record);
        db.notify(Classes::GENERIC, "copy_to", &to);
        ctx.dirty();
    }
    ctx.reply.int(i64::from(stored));
    Ok(())
}
