//! DEL and UNLINK: remove keys.
//!
//! Both do the same. The records are freed like all others ([`ExecContext::discard`]), the large ones in
//! the background, whatever `lazyfree-lazy-user-del` says. No thread that serves clients frees a
//! large value.
//!
//! [`ExecContext::discard`]: weft_keyspace::ExecContext::discard

use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_keyspace::Classes;

pub const DEL: Command = Command {
    spec: Spec {
        name: "del",
        arity: -2,
        flags: Flags::WRITE,
        keys: &keys::all(1, &["RM", "DELETE"]),
        acl: &[],
        group: Group::Generic,
        since: "1.0.0",
        summary: "Removes keys.",
        complexity: "O(N) for N keys, however large their values are.",
        syntax: "key...",
        history: &[],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: unlink,
    subcommands: &[],
};

pub const UNLINK: Command = Command {
    spec: Spec {
        name: "unlink",
        arity: -2,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &keys::all(1, &["RM", "DELETE"]),
        acl: &[],
        group: Group::Generic,
        since: "4.0.0",
        summary: "Removes keys and frees their values in the background.",
        complexity: "O(N) for N keys, however large their values are.",
        syntax: "key...",
        history: &[],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: unlink,
    subcommands: &[],
};

fn unlink(ctx: &mut Ctx<'_>) -> CmdResult {
    remove_keys(ctx, |ctx, i| {
        let key = ctx.key(i);
        let removed = ctx.db.delete(&key);
        if removed {
            ctx.notify(Classes::GENERIC, "del", &key);
        }
        removed
    })
}

/// Removes the key of every argument and replies with the number removed. A key named twice counts
/// once.
fn remove_keys<'a>(ctx: &mut Ctx<'a>, remove: impl Fn(&mut Ctx<'a>, usize) -> bool) -> CmdResult {
    ctx.weigh_args()?;
    let removed = (1..ctx.args.len()).filter(|i| remove(ctx, *i)).count();
    ctx.db.context.tally.dirty += removed as u64;
    ctx.reply.int(removed as i64);
    Ok(())
}
