//! ZCARD, ZSCORE, ZMSCORE, ZRANK, ZREVRANK, ZCOUNT, ZLEXCOUNT: read a sorted set.

use super::{double, ends, zset};
use crate::ctx::Ctx;
use crate::error::{CmdResult, SYNTAX, wrong_arity};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_types::zset::Range;

pub const ZCARD: Command = Command {
    spec: Spec {
        name: "zcard",
        arity: 2,
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &keys::one(&["RO"]),
        acl: &[],
        group: Group::SortedSet,
        since: "1.2.0",
        summary: "Returns the number of members of a sorted set.",
        complexity: "O(1)",
        syntax: "key",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: zcard,
    subcommands: &[],
};

pub const ZSCORE: Command = Command {
    spec: Spec {
        name: "zscore",
        arity: 3,
        flags: ZCARD.spec.flags,
        keys: &keys::one(&["RO", "ACCESS"]),
        summary: "Returns the score of a member of a sorted set.",
        syntax: "key member",
        special: Special::NONE,
        ..ZCARD.spec
    },
    run: zscore,
    ..ZCARD
};

pub const ZMSCORE: Command = Command {
    spec: Spec {
        name: "zmscore",
        arity: -3,
        flags: ZSCORE.spec.flags,
        since: "6.2.0",
        summary: "Returns the scores of members of a sorted set.",
        complexity: "O(N) for N members.",
        syntax: "key member...",
        special: Special::NONE,
        ..ZSCORE.spec
    },
    run: zmscore,
    ..ZCARD
};

pub const ZRANK: Command = Command {
    spec: Spec {
        name: "zrank",
        arity: -3,
        flags: ZSCORE.spec.flags,
        since: "2.0.0",
        summary: "Returns the rank of a member of a sorted set, by ascending score.",
        complexity: "O(log(N)) in a set of N members.",
        syntax: "key member [withscore=WITHSCORE]",
        history: &[("7.2.0", "The option WITHSCORE.")],
        special: Special::NONE,
        ..ZSCORE.spec
    },
    run: |ctx| rank(ctx, false),
    ..ZCARD
};

pub const ZREVRANK: Command = Command {
    spec: Spec {
        name: "zrevrank",
        flags: ZRANK.spec.flags,
        summary: "Returns the rank of a member of a sorted set, by descending score.",
        special: Special::NONE,
        ..ZRANK.spec
    },
    run: |ctx| rank(ctx, true),
    ..ZCARD
};

pub const ZCOUNT: Command = Command {
    spec: Spec {
        name: "zcount",
        arity: 4,
        flags: ZSCORE.spec.flags,
        since: "2.0.0",
        summary: "Counts the members of a sorted set whose scores are in a range.",
        complexity: "O(log(N)) in a set of N members.",
        syntax: "key min:double max:double",
        special: Special::NONE,
        ..ZSCORE.spec
    },
    run: |ctx| {
        let range = ends::scores(ctx.args[2], ctx.args[3])?;
        count(ctx, &range)
    },
    ..ZCARD
};

pub const ZLEXCOUNT: Command = Command {
    spec: Spec {
        name: "zlexcount",
        flags: ZCOUNT.spec.flags,
        since: "2.8.9",
        summary: "Counts the members between two strings in a sorted set with equal scores.",
        syntax: "key min max",
        special: Special::NONE,
        ..ZCOUNT.spec
    },
    run: |ctx| {
        let range = ends::members(ctx.args[2], ctx.args[3])?;
        count(ctx, &range)
    },
    ..ZCARD
};

fn zcard(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let len = match ctx.db.read(&key) {
        Some(record) => zset(&record)?.len(),
        None => 0,
    };
    ctx.reply.int(len as i64);
    Ok(())
}

fn zscore(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let score = match ctx.db.read(&key) {
        Some(record) => zset(&record)?.score(ctx.args[2]),
        None => None,
    };
    match score {
        Some(score) => double(ctx.reply, score),
        None => ctx.reply.null(),
    }
    Ok(())
}

fn zmscore(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let members = &ctx.args[2..];
    ctx.weigh(members.len())?;
    let record = ctx.db.read(&key);
    let set = match &record {
        Some(record) => Some(zset(record)?),
        None => None,
    };
    ctx.reply.array(members.len());
    for member in members {
        match set.and_then(|set| set.score(member)) {
            Some(score) => double(ctx.reply, score),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

fn rank(ctx: &mut Ctx<'_>, reverse: bool) -> CmdResult {
    let with_score = match ctx.args[3..] {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"withscore") => true,
        [_] => return Err(SYNTAX),
        [..] => return Err(wrong_arity(if reverse { "zrevrank" } else { "zrank" })),
    };
    let key = ctx.key(1);
    let found = match ctx.db.read(&key) {
        Some(record) => {
            let set = zset(&record)?;
            let found = set.rank(ctx.args[2]);
            found.map(|(rank, score)| (if reverse { set.len() - 1 - rank } else { rank }, score))
        }
        None => None,
    };
    match found {
        Some((rank, score)) if with_score => {
            ctx.reply.array(2);
            ctx.reply.int(rank as i64);
            double(ctx.reply, score);
        }
        Some((rank, _)) => ctx.reply.int(rank as i64),
        None if with_score => ctx.reply.null_array(),
        None => ctx.reply.null(),
    }
    Ok(())
}

fn count(ctx: &mut Ctx<'_>, range: &Range<'_>) -> CmdResult {
    let key = ctx.key(1);
    let count = match ctx.db.read(&key) {
        Some(record) => zset(&record)?.count(range),
        None => 0,
    };
    ctx.reply.int(count as i64);
    Ok(())
}
