//! GEOADD: adds places as scores of a sorted set.

use super::request::place;
use crate::ctx::Ctx;
use crate::error::{CmdResult, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use crate::zset::add::{Options, add_elements};
use smallvec::SmallVec;
use weft_command_spec::{Flags, Group, Spec, Special, keys};

pub const GEOADD: Command = Command {
    spec: Spec {
        name: "geoadd",
        arity: -5,
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &keys::one(&["RW", "UPDATE"]),
        acl: &[],
        group: Group::Geo,
        since: "3.2.0",
        summary: "Adds members with their coordinates, or updates their coordinates.",
        complexity: "O(log(N)) for each member, in a set of N.",
        syntax: "key [condition=(nx=NX|xx=XX)]@6.2.0 [change=CH]@6.2.0 \
                 data=(longitude:double latitude:double member)...",
        history: &[("6.2.0", "The options CH, NX and XX.")],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: geoadd,
    subcommands: &[],
};

fn geoadd(ctx: &mut Ctx<'_>) -> CmdResult {
    let mut options = Options::default();
    let mut words = &ctx.args[2..];
    while let [word, rest @ ..] = words {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match () {
            () if is("nx") => options.nx = true,
            () if is("xx") => options.xx = true,
            () if is("ch") => options.ch = true,
            () => break,
        }
        words = rest;
    }
    if words.is_empty() || !words.len().is_multiple_of(3) || (options.nx && options.xx) {
        return Err(SYNTAX);
    }
    let mut elements: SmallVec<[(f64, &[u8]); 4]> = SmallVec::with_capacity(words.len() / 3);
    for triple in words.chunks_exact(3) {
        elements.push((place(triple[0], triple[1])?.score(), triple[2]));
    }
    let added = add_elements(ctx, options, &elements);
    if ctx.is_changed_for_log() {
        log(ctx, ctx.args.len() - words.len(), &elements);
    }
    added
}

/// Logs the computed scores as ZADD, with the options up to argument `options`. Replicas and AOF
/// replay must not recompute the scores: their arithmetic may differ.
#[cold]
fn log(ctx: &mut Ctx<'_>, options: usize, elements: &[(f64, &[u8])]) {
    // Scores are 52-bit integers.
    let scores: Vec<String> = elements.iter().map(|(score, _)| score.to_string()).collect();
    let mut words = vec![&b"ZADD"[..]];
    words.extend_from_slice(&ctx.args[1..options]);
    for (score, (_, member)) in scores.iter().zip(elements) {
        words.extend([score.as_bytes(), member]);
    }
    ctx.log(&words);
}
