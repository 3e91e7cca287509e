//! GEOPOS, GEODIST and GEOHASH: read places.

use super::{cell::Place, member_place, shape, unit, write_coordinates, write_distance};
use crate::ctx::Ctx;
use crate::error::{CmdResult, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use crate::zset::zset;
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_resp::Reply;

pub const GEOPOS: Command = Command {
    spec: Spec {
        name: "geopos",
        arity: -2,
        flags: Flags::READONLY,
        keys: &keys::one(&["RO", "ACCESS"]),
        acl: &[],
        group: Group::Geo,
        since: "3.2.0",
        summary: "Returns the longitude and latitude of members.",
        complexity: "O(1) for each member.",
        syntax: "key [member...]",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: |ctx| each(ctx, Reply::null_array, write_coordinates),
    subcommands: &[],
};

pub const GEOHASH: Command = Command {
    spec: Spec {
        name: "geohash",
        flags: Flags::READONLY,
        summary: "Returns the places of members as Geohash strings.",
        special: Special::NONE,
        ..GEOPOS.spec
    },
    run: |ctx| each(ctx, Reply::null, |reply, place| reply.bulk(&place.geohash())),
    ..GEOPOS
};

pub const GEODIST: Command = Command {
    spec: Spec {
        name: "geodist",
        arity: -4,
        flags: Flags::READONLY,
        summary: "Returns the distance between two members.",
        complexity: "O(1)",
        syntax: "key member1 member2 [unit=(m=M|km=KM|ft=FT|mi=MI)]",
        special: Special::NONE,
        ..GEOPOS.spec
    },
    run: geodist,
    ..GEOPOS
};

/// Replies with `answer` for each member's place, or with `missing`.
fn each(
    ctx: &mut Ctx<'_>,
    missing: fn(&mut Reply),
    answer: impl Fn(&mut Reply, Place),
) -> CmdResult {
    let members = &ctx.args[2..];
    ctx.weigh(members.len())?;
    let key = ctx.key(1);
    let record = ctx.db.read(&key);
    let set = match &record {
        Some(record) => Some(zset(record)?),
        None => None,
    };
    ctx.reply.array(members.len());
    for member in members {
        match set.and_then(|set| member_place(set, member)) {
            Some(place) => answer(ctx.reply, place),
            None => missing(ctx.reply),
        }
    }
    Ok(())
}

fn geodist(ctx: &mut Ctx<'_>) -> CmdResult {
    let metres = match ctx.args[4..] {
        [] => 1.0,
        [name] => unit(name)?,
        [..] => return Err(SYNTAX),
    };
    let key = ctx.key(1);
    let found = match ctx.db.read(&key) {
        Some(record) => {
            let set = zset(&record)?;
            member_place(set, ctx.args[2]).zip(member_place(set, ctx.args[3]))
        }
        None => None,
    };
    match found {
        Some((a, b)) => write_distance(ctx.reply, shape::distance(a, b) / metres),
        None => ctx.reply.null(),
    }
    Ok(())
}
