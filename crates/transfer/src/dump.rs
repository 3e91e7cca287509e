//! DUMP: the value of a key as bytes for RESTORE.

use crate::{payload, write_work};
use std::sync::Arc;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_commands::{CmdResult, Command, Ctx, Lock};

pub const DUMP: Command = Command {
    spec: Spec {
        name: "dump",
        arity: 2,
        flags: Flags::READONLY,
        keys: &keys::one(&["RO", "ACCESS"]),
        acl: &[],
        group: Group::Generic,
        since: "2.6.0",
        summary: "Returns the value of a key as bytes that RESTORE accepts.",
        complexity: "O(N) for a value of N bytes.",
        syntax: "key",
        history: &[],
        tips: &["nondeterministic_output"],
        special: Special::queued_work(QueuedWork::Encode),
    },
    lock: Lock::Keys,
    run: dump,
    subcommands: &[],
};

/// Payloads of at least this many bytes are not copied into the reply.
const SHARE_FROM: usize = 16 << 10;

fn dump(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let work = ctx.db.peek(&key).map_or(0, |record| write_work(&record));
    ctx.weigh(work)?;
    match ctx.db.read(&key).map(|record| payload(&record)) {
        None => ctx.reply.null(),
        Some(payload) if payload.len() < SHARE_FROM => ctx.reply.bulk(&payload),
        Some(payload) => ctx.reply.bulk_shared(&Arc::new(payload)),
    }
    Ok(())
}
