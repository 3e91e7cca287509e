//! KEYS: all keys that match a pattern.

use crate::ctx::Ctx;
use crate::error::{self, CmdResult};
use crate::lock::Lock;
use crate::registry::Command;
use std::sync::atomic::Ordering;
use weft_base::glob::Pattern;
use weft_command_spec::{Flags, Group, Spec, Special};

pub const KEYS: Command = Command {
    spec: Spec {
        name: "keys",
        arity: 2,
        flags: Flags::READONLY,
        keys: &[],
        acl: &["@dangerous"],
        group: Group::Generic,
        since: "1.0.0",
        summary: "Lists all keys that match a pattern.",
        complexity: "O(N) for N keys in the database, with patterns and keys of ordinary length.",
        syntax: "pattern",
        history: &[],
        tips: &["request_policy:all_shards", "nondeterministic_output_order"],
        special: Special::NONE,
    },
    lock: Lock::Names,
    run: keys,
    subcommands: &[],
};

fn keys(ctx: &mut Ctx<'_>) -> CmdResult {
    let pattern = ctx.args[1];
    // A lone star also matches the empty key, which the glob language does not.
    let every = pattern == b"*";
    let pattern = Pattern::new(pattern);
    ctx.weigh(ctx.db.len())?;
    let list = ctx.reply.array_deferred();
    let mut found = 0;
    let cancel = ctx.db.context.cancel.clone();
    let is_complete = ctx.db.each_name(|name| {
        if every || pattern.matches(name) {
            ctx.reply.bulk(name);
            found += 1;
        }
        !cancel.as_ref().is_some_and(|c| c.load(Ordering::Relaxed))
    });
    ctx.reply.finish(list, found);
    if is_complete { Ok(()) } else { Err(error::BUSY_SCRIPT) }
}
