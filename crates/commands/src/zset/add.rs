//! ZADD and ZINCRBY: add elements or change their scores.
//!
//! ZINCRBY is ZADD with INCR, including its errors: `ZINCRBY key NX 1` returns the error of ZADD.

use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, NOT_A_FLOAT, SYNTAX, WRONG_TYPE};
use crate::lock::Lock;
use crate::registry::Command;
use smallvec::SmallVec;
use weft_base::num::parse_f64;
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_keyspace::db::Rework;
use weft_keyspace::{Classes, Record};
use weft_types::Limits;
use weft_types::zset::{Edit, Outcome};

pub const ZADD: Command = Command {
    spec: Spec {
        name: "zadd",
        arity: -4,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
        keys: &keys::one(&["RW", "UPDATE"]),
        acl: &[],
        group: Group::SortedSet,
        since: "1.2.0",
        summary: "Adds members with scores to a sorted set, or updates their scores.",
        complexity: "O(log(N)) for each member, in a set of N.",
        syntax: "key [condition=(nx=NX|xx=XX)]@3.0.2 [comparison=(gt=GT|lt=LT)]@6.2.0 \
                 [change=CH]@3.0.2 [increment=INCR]@3.0.2 data=(score:double member)...",
        history: &[
            ("2.4.0", "Accepts several members."),
            ("3.0.2", "The options XX, NX, CH and INCR."),
            ("6.2.0", "The options GT and LT."),
        ],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: |ctx| add(ctx, false),
    subcommands: &[],
};

pub const ZINCRBY: Command = Command {
    spec: Spec {
        name: "zincrby",
        arity: 4,
        flags: ZADD.spec.flags,
        keys: &keys::one(&["RW", "ACCESS", "UPDATE"]),
        summary: "Adds a number to the score of a member; a missing member counts as 0.",
        complexity: "O(log(N)) in a set of N members.",
        syntax: "key increment:integer member",
        history: &[],
        special: Special::NONE,
        ..ZADD.spec
    },
    run: |ctx| add(ctx, true),
    ..ZADD
};

const NX_AND_XX: Error = Error::new("ERR XX and NX options at the same time are not compatible");
const NX_AND_GT: Error =
    Error::new("ERR GT, LT, and/or NX options at the same time are not compatible");
const INCR_SINGLE: Error = Error::new("ERR INCR option supports a single increment-element pair");
const NOT_A_NUMBER: Error = Error::new("ERR resulting score is not a number (NaN)");

#[derive(Clone, Copy, Default)]
pub(crate) struct Options {
    pub(crate) nx: bool,
    pub(crate) xx: bool,
    gt: bool,
    lt: bool,
    pub(crate) ch: bool,
    incr: bool,
}

impl Options {
    /// Parses the options after the key. Returns the arguments after them.
    #[inline]
    fn parse<'s, 'a>(mut args: &'s [&'a [u8]], incr: bool) -> (Options, &'s [&'a [u8]]) {
        let mut options = Options { incr, ..Options::default() };
        while let [word, rest @ ..] = args {
            // A longer word is a score.
            let mut upper = [0; 4];
            let Some(room) = upper.get_mut(..word.len()) else { break };
            room.copy_from_slice(word);
            upper.make_ascii_uppercase();
            match &upper[..word.len()] {
                b"NX" => options.nx = true,
                b"XX" => options.xx = true,
                b"GT" => options.gt = true,
                b"LT" => options.lt = true,
                b"CH" => options.ch = true,
                b"INCR" => options.incr = true,
                _ => break,
            }
            args = rest;
        }
        (options, args)
    }

    fn check(self, pairs: usize) -> CmdResult {
        if self.nx && self.xx {
            return Err(NX_AND_XX);
        }
        if (self.nx && (self.gt || self.lt)) || (self.gt && self.lt) {
            return Err(NX_AND_GT);
        }
        if self.incr && pairs > 1 {
            return Err(INCR_SINGLE);
        }
        Ok(())
    }
}

/// The effect on the elements.
#[derive(Default)]
struct Tally {
    added: usize,
    updated: usize,
    /// The new score of the last element, unless a condition prevented the change.
    score: Option<f64>,
    /// Whether an increment gave NaN.
    nan: bool,
}

impl Tally {
    /// Changes the score of one element as the options demand.
    #[inline]
    fn apply(&mut self, edit: &mut Edit, member: &[u8], score: f64, o: Options, limits: &Limits) {
        let outcome = edit.change(member, limits, |old| {
            let new = match old {
                None if o.xx => None,
                None => Some(score),
                Some(_) if o.nx => None,
                Some(old) => {
                    let new = if o.incr { old + score } else { score };
                    self.nan |= new.is_nan();
                    let refused = (o.lt && new >= old) || (o.gt && new <= old);
                    (!refused && !new.is_nan()).then_some(new)
                }
            };
            self.score = new;
            new
        });
        match outcome {
            Outcome::Same => {}
            Outcome::Added => self.added += 1,
            Outcome::Updated => self.updated += 1,
        }
    }
}

fn add(ctx: &mut Ctx<'_>, incr: bool) -> CmdResult {
    let (options, pairs) = Options::parse(&ctx.args[2..], incr);
    if pairs.is_empty() || pairs.len() % 2 != 0 {
        return Err(SYNTAX);
    }
    options.check(pairs.len() / 2)?;
    // All scores are parsed before the first is applied: the command applies all of them or none.
    let mut elements: SmallVec<[(f64, &[u8]); 4]> = SmallVec::with_capacity(pairs.len() / 2);
    for pair in pairs.chunks_exact(2) {
        elements.push((parse_f64(pair[0]).ok_or(NOT_A_FLOAT)?, pair[1]));
    }
    add_elements(ctx, options, &elements)
}

/// Adds `elements` (at least one) to the set at argument 1 and replies like ZADD.
pub(crate) fn add_elements(
    ctx: &mut Ctx<'_>,
    options: Options,
    elements: &[(f64, &[u8])],
) -> CmdResult {
    ctx.weigh(elements.len())?;
    let key = ctx.key(1);
    let limits = &ctx.settings.limits;
    let tally = ctx.db.rework(&key, |record, clock| {
        let edit = match record {
            None if options.xx => return (Rework::Absent, Ok(Tally::default())),
            None => Ok(Edit::new(key.bytes, None, clock)),
            Some(record) => Edit::of(record),
        };
        match edit {
            Ok(edit) => {
                let (rework, tally) = apply(edit, elements, options, limits);
                (rework, Ok(tally))
            }
            Err(other) => (Rework::Same(other), Err(WRONG_TYPE)),
        }
    })?;
    if tally.added + tally.updated > 0 {
        ctx.notify(Classes::ZSET, if options.incr { "zincr" } else { "zadd" }, &key);
    }
    ctx.db.context.tally.dirty += (tally.added + tally.updated) as u64;
    match tally {
        Tally { nan: true, .. } => return Err(NOT_A_NUMBER),
        Tally { score: Some(score), .. } if options.incr => super::double(ctx.reply, score),
        Tally { score: None, .. } if options.incr => ctx.reply.null(),
        Tally { added, updated, .. } => {
            ctx.reply.int((if options.ch { added + updated } else { added }) as i64);
        }
    }
    Ok(())
}

#[inline]
fn apply(
    mut edit: Edit,
    elements: &[(f64, &[u8])],
    options: Options,
    limits: &Limits,
) -> (Rework, Tally) {
    let longest = elements.iter().map(|(_, member)| member.len()).max().unwrap_or(0);
    edit.announce(elements.len(), longest, limits);
    let mut tally = Tally::default();
    for (score, member) in elements {
        tally.apply(&mut edit, member, *score, options, limits);
    }
    let record: Record = edit.finish();
    let changed = tally.added + tally.updated > 0;
    (if changed { Rework::Changed(record) } else { Rework::Same(record) }, tally)
}
