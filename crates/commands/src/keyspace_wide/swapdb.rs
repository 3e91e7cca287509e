//! SWAPDB: swaps the contents of two databases.
//!
//! From then on, the clients of each database see the keys of the other one.

use crate::ctx::Ctx;
use crate::error::{CmdResult, DB_OUT_OF_RANGE, Error};
use crate::lock::Lock;
use crate::registry::Command;
use weft_base::num;
use weft_command_spec::{Databases, Flags, Group, Spec, Special};

const FIRST: Error = Error::new("ERR invalid first DB index");
const IN_CLUSTER: Error = Error::new("ERR SWAPDB is not allowed in cluster mode");
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
        summary: "Swaps the contents of two databases.",
        complexity: "O(N) for N clients that watch keys of either database or are blocked on them.",
        syntax: "index1:integer index2:integer",
        history: &[],
        tips: &[],
        special: Special::databases(Databases::At(&[1, 2])),
    },
    lock: Lock::World,
    run: swapdb,
    subcommands: &[],
};

fn swapdb(ctx: &mut Ctx<'_>) -> CmdResult {
    if ctx.settings.cluster {
        return Err(IN_CLUSTER);
    }
    let index = |i: usize, error| {
        num::parse_i64(ctx.args[i]).and_then(|n| i32::try_from(n).ok()).ok_or(error)
    };
    // Both must be numbers before either is checked against the number of databases.
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
