//! HSCAN: iterates over a hash in small steps driven by the client.
//!
//! A packed hash is returned whole. A large one uses the cursor of its table (see
//! `weft_types::dict`) and gives the same guarantee: a field that exists during the whole scan is
//! returned at least once.

use super::hash;
use crate::collection_scan::{Options, ScanReply, cursor};
use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_types::Type;
use weft_types::string::Digits;

pub const HSCAN: Command = Command {
    spec: Spec {
        name: "hscan",
        arity: -3,
        flags: Flags::READONLY,
        keys: &keys::one(&["RO", "ACCESS"]),
        acl: &[],
        group: Group::Hash,
        since: "2.8.0",
        summary: "Iterates over the fields of a hash.",
        complexity: "O(COUNT) for a call, O(N) for a complete scan of N fields.",
        syntax: "key cursor:integer [MATCH pattern] [COUNT count:integer] [novalues=NOVALUES]",
        history: &[],
        tips: &["nondeterministic_output"],
        special: Special::queued_work(QueuedWork::ScanCount),
    },
    lock: Lock::Keys,
    run: hscan,
    subcommands: &[],
};

fn hscan(ctx: &mut Ctx<'_>) -> CmdResult {
    let (key, now) = (ctx.key(1), ctx.over_ms());
    let cursor = cursor(ctx.args[2])?;
    let mut found = ScanReply::new(ctx.reply.proto);
    let Some(record) = ctx.db.read(&key) else {
        found.write_to(ctx.reply, 0);
        return Ok(());
    };
    let hash = hash(&record, now)?;
    let options = Options::parse(&ctx.args[3..], Type::Hash)?;
    let work = if hash.is_large() { options.work(hash.len()) } else { hash.len() };
    ctx.lane.weigh(work, &mut ctx.pause)?;
    let next = options.scan(cursor, |cursor| {
        hash.scan(cursor, |pair| {
            let (mut field, mut value) = (Digits::new(), Digits::new());
            let field = pair.field.bytes(&mut field);
            if options.matches(field) {
                found.push(field);
                if !options.names_only {
                    found.push(pair.value.bytes(&mut value));
                }
            }
        })
    });
    found.write_to(ctx.reply, next);
    Ok(())
}
