//! SSCAN: iterates over a set in small steps driven by the client.
//!
//! A packed set is returned whole. A large one uses the cursor of its table (see
//! `weft_types::dict`) and gives the same guarantee: a member that exists during the whole scan is
//! returned at least once.

use super::set;
use crate::collection_scan::{Options, ScanReply, cursor};
use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_types::Type;
use weft_types::set::Set;
use weft_types::string::Digits;

pub const SSCAN: Command = Command {
    spec: Spec {
        name: "sscan",
        arity: -3,
        flags: Flags::READONLY,
        keys: &keys::one(&["RO", "ACCESS"]),
        acl: &[],
        group: Group::Set,
        since: "2.8.0",
        summary: "Iterates over the members of a set.",
        complexity: "O(COUNT) for a call, O(N) for a complete scan of N members.",
        syntax: "key cursor:integer [MATCH pattern] [COUNT count:integer]",
        history: &[],
        tips: &["nondeterministic_output"],
        special: Special::queued_work(QueuedWork::ScanCount),
    },
    lock: Lock::Keys,
    run: sscan,
    subcommands: &[],
};

fn sscan(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let cursor = cursor(ctx.args[2])?;
    let mut found = ScanReply::new(ctx.reply.proto);
    let Some(record) = ctx.db.read(&key) else {
        found.write_to(ctx.reply, 0);
        return Ok(());
    };
    let set = set(&record)?;
    let options = Options::parse(&ctx.args[3..], Type::Set)?;
    let work = match set {
        Set::Ints(_) | Set::Packed { .. } => set.len(),
        Set::Table(table) => options.work(table.len()),
    };
    ctx.lane.weigh(work, &mut ctx.pause)?;
    let mut room = Digits::new();
    let next = options.scan(cursor, |cursor| {
        let mut examined = 0;
        let next = set.scan(cursor, |member| {
            examined += 1;
            let member = member.bytes(&mut room);
            if options.matches(member) {
                found.push(member);
            }
        });
        (next, examined)
    });
    found.write_to(ctx.reply, next);
    Ok(())
}
