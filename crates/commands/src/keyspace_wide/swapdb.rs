//! SWAPDB: exchanges the contents of two databases.
//!
//! The clients of either database see the keys of the other one from then on.

use crate::ctx::Ctx;
use crate::error::{CmdResult, DB_OUT_OF_RANGE, Error};
use crate::registry::Command;
use crate::spec::{Flags, Group, Lock, Spec};
use weft_base::num;

const FIRST: Error = Error::new("ERR invalid first DB index");
const SECOND: Error = Error::new("ERR invalid second DB index");

pub const SWAPDB: Command = Command {
    spec: Spec {
        name: "swapdb",
        arity: 3,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &[],
        acl: &["@keyspace", "@dangerous"],
        group: Group::Server,
        since: "4.0.0",
        summary: "Exchanges the contents of two databases.",
        complexity: "O(N) for N clients that watch keys of either database or wait for them.",
        syntax: "index1:integer index2:integer",
        history: &[],
        tips: &[],
    },
    lock: Lock::World,
    run: swapdb,
    subcommands: &[],
};

fn swapdb(ctx: &mut Ctx<'_>) -> CmdResult {
    let index = |i: usize, error| {
        num::parse_i64(ctx.args[i]).and_then(|n| i32::try_from(n).ok()).ok_or(error)
    };
    // That both are numbers comes before that there are such databases.
    let (first, second) = (index(1, FIRST)?, index(2, SECOND)?);
    let databases = ctx.db.keyspace().databases();
    let known = |n: i32| usize::try_from(n).ok().filter(|n| *n < databases).ok_or(DB_OUT_OF_RANGE);
    let (first, second) = (known(first)?, known(second)?);
    ctx.db.other(first).swap_with(second);
    ctx.db.log_anyway();
    ctx.dirty();
    ctx.reply.ok();
    Ok(())
}
