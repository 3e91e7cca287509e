//! TYPE: the type of a key's value.

use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_types::Kind;

pub const TYPE: Command = Command {
    spec: Spec {
        name: "type",
        arity: 2,
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &keys::one(&["RO"]),
        acl: &[],
        group: Group::Generic,
        since: "1.0.0",
        summary: "Returns the type of a key's value.",
        complexity: "O(1)",
        syntax: "key",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: type_of,
    subcommands: &[],
};

fn type_of(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let name = match ctx.db.inspect(&key) {
        Some(record) => Kind::of(record.kind()).type_of().name(),
        None => "none",
    };
    ctx.reply.simple(name);
    Ok(())
}
