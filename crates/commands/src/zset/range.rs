//! ZRANGE with all its options, the five older commands that each do a part of it, and ZRANGESTORE.
//!
//! The older commands are ZRANGE with some options fixed by the name: the kind of range ([`By`])
//! and the direction. Fixed options are not accepted as words.

use super::{element, ends, header, zset};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, NOT_AN_INTEGER, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use weft_base::num::parse_i64;
use weft_command_spec::{Begin, Find, Flags, Group, KeySpec, QueuedWork, Spec, Special, keys};
use weft_keyspace::Classes;
use weft_types::Limits;
use weft_types::string::Digits;
use weft_types::zset::{Range, Span, View, build};

pub const ZRANGE: Command = Command {
    spec: Spec {
        name: "zrange",
        arity: -4,
        flags: Flags::READONLY,
        keys: &keys::one(&["RO", "ACCESS"]),
        acl: &[],
        group: Group::SortedSet,
        since: "1.2.0",
        summary: "Returns a range of a sorted set by rank, by score or by member.",
        complexity: "O(log(N)+M) for M of N members.",
        syntax: "key start stop [sortby=(byscore=BYSCORE|bylex=BYLEX)]@6.2.0 [rev=REV]@6.2.0 \
                 [LIMIT limit=(offset:integer count:integer)]@6.2.0 [withscores=WITHSCORES]",
        history: &[("6.2.0", "The options REV, BYSCORE, BYLEX and LIMIT.")],
        tips: &[],
        special: Special::queued_work(QueuedWork::RankRange),
    },
    lock: Lock::Keys,
    run: |ctx| reply_range(ctx, Options::default()),
    subcommands: &[],
};

pub const ZREVRANGE: Command = Command {
    spec: Spec {
        name: "zrevrange",
        flags: ZRANGE.spec.flags,
        summary: "Returns a range of a sorted set by rank, in reverse order.",
        syntax: "key start:integer stop:integer [withscores=WITHSCORES]",
        history: &[],
        special: Special::queued_work(QueuedWork::RankRange),
        ..ZRANGE.spec
    },
    run: |ctx| reply_range(ctx, Options::fixed(By::Rank, true)),
    ..ZRANGE
};

pub const ZRANGEBYSCORE: Command = Command {
    spec: Spec {
        name: "zrangebyscore",
        flags: ZRANGE.spec.flags,
        since: "1.0.5",
        summary: "Returns the members of a sorted set with scores in a range.",
        syntax: "key min:double max:double [withscores=WITHSCORES]@2.0.0 \
                 [LIMIT limit=(offset:integer count:integer)]",
        history: &[("2.0.0", "The option WITHSCORES.")],
        special: Special::NONE,
        ..ZRANGE.spec
    },
    run: |ctx| reply_range(ctx, Options::fixed(By::Score, false)),
    ..ZRANGE
};

pub const ZREVRANGEBYSCORE: Command = Command {
    spec: Spec {
        name: "zrevrangebyscore",
        flags: ZRANGE.spec.flags,
        since: "2.2.0",
        summary: "Returns the members of a sorted set with scores in a range, in reverse order.",
        syntax: "key max:double min:double [withscores=WITHSCORES] \
                 [LIMIT limit=(offset:integer count:integer)]",
        history: &[("2.1.6", "Either end can be exclusive.")],
        special: Special::NONE,
        ..ZRANGE.spec
    },
    run: |ctx| reply_range(ctx, Options::fixed(By::Score, true)),
    ..ZRANGE
};

pub const ZRANGEBYLEX: Command = Command {
    spec: Spec {
        name: "zrangebylex",
        flags: ZRANGE.spec.flags,
        since: "2.8.9",
        summary: "Returns the members between two strings in a sorted set with equal scores.",
        syntax: "key min max [LIMIT limit=(offset:integer count:integer)]",
        history: &[],
        special: Special::NONE,
        ..ZRANGE.spec
    },
    run: |ctx| reply_range(ctx, Options::fixed(By::Lex, false)),
    ..ZRANGE
};

pub const ZREVRANGEBYLEX: Command = Command {
    spec: Spec {
        name: "zrevrangebylex",
        flags: ZRANGEBYLEX.spec.flags,
        summary: "Returns the members between two strings in a sorted set with equal scores, in reverse order.",
        syntax: "key max min [LIMIT limit=(offset:integer count:integer)]",
        special: Special::NONE,
        ..ZRANGEBYLEX.spec
    },
    run: |ctx| reply_range(ctx, Options::fixed(By::Lex, true)),
    ..ZRANGE
};

pub const ZRANGESTORE: Command = Command {
    spec: Spec {
        name: "zrangestore",
        arity: -5,
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &[
            KeySpec {
                flags: &["OW", "UPDATE"],
                begin: Begin::Index(1),
                find: Find::Range { last: 0, step: 1, limit: 0 },
                notes: "",
            },
            KeySpec {
                flags: &["RO", "ACCESS"],
                begin: Begin::Index(2),
                find: Find::Range { last: 0, step: 1, limit: 0 },
                notes: "",
            },
        ],
        since: "6.2.0",
        summary: "Stores a range of a sorted set in a key.",
        complexity: "O(log(N)+M) for M of N members.",
        syntax: "dst:key src:key min max [sortby=(byscore=BYSCORE|bylex=BYLEX)] [rev=REV] \
                 [LIMIT limit=(offset:integer count:integer)]",
        history: &[],
        special: Special::NONE,
        ..ZRANGE.spec
    },
    run: store_range,
    ..ZRANGE
};

const LIMIT_BY_RANK: Error = Error::new(
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
);
const SCORES_BY_LEX: Error =
    Error::new("ERR syntax error, WITHSCORES not supported in combination with BYLEX");

/// The kind of range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

#[derive(Clone, Copy, Default)]
struct Options {
    /// `None` until given; the default is ranks.
    by: Option<By>,
    /// `None` until given; the default is forward.
    reverse: Option<bool>,
    with_scores: bool,
    offset: i64,
    /// -1: no limit.
    limit: Option<i64>,
}

impl Options {
    fn fixed(by: By, reverse: bool) -> Options {
        Options { by: Some(by), reverse: Some(reverse), ..Options::default() }
    }

    fn parse(mut self, mut words: &[&[u8]], store: bool) -> Result<Options, Error> {
        loop {
            let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            words = match words {
                [] => break,
                [word, rest @ ..] if !store && is(word, "withscores") => {
                    self.with_scores = true;
                    rest
                }
                [word, offset, limit, rest @ ..] if is(word, "limit") => {
                    self.offset = parse_i64(offset).ok_or(NOT_AN_INTEGER)?;
                    self.limit = Some(parse_i64(limit).ok_or(NOT_AN_INTEGER)?);
                    rest
                }
                // REV or BY can't be given twice.
                [word, rest @ ..] if self.reverse.is_none() && is(word, "rev") => {
                    self.reverse = Some(true);
                    rest
                }
                [word, rest @ ..] if self.by.is_none() && is(word, "bylex") => {
                    self.by = Some(By::Lex);
                    rest
                }
                [word, rest @ ..] if self.by.is_none() && is(word, "byscore") => {
                    self.by = Some(By::Score);
                    rest
                }
                [..] => return Err(SYNTAX),
            };
        }
        let by = self.by.unwrap_or(By::Rank);
        if by == By::Rank && self.limit.is_some_and(|limit| limit != -1) {
            return Err(LIMIT_BY_RANK);
        }
        if by == By::Lex && self.with_scores {
            return Err(SCORES_BY_LEX);
        }
        Ok(self)
    }
}

/// The requested elements.
enum Requested<'a> {
    Ranks(i64, i64),
    Range(Range<'a>, i64, Option<usize>),
}

/// A request for a range.
struct Request<'a> {
    requested: Requested<'a>,
    reverse: bool,
    with_scores: bool,
}

impl<'a> Request<'a> {
    /// Parses the two ends and the options after them.
    fn parse(args: &[&'a [u8]], fixed: Options, store: bool) -> Result<Self, Error> {
        let options = fixed.parse(&args[2..], store)?;
        let reverse = options.reverse.unwrap_or(false);
        let (low, high) = if reverse { (args[1], args[0]) } else { (args[0], args[1]) };
        let limit = options.limit.and_then(|limit| usize::try_from(limit).ok());
        let requested = match options.by.unwrap_or(By::Rank) {
            By::Rank => {
                let rank = |text| parse_i64(text).ok_or(NOT_AN_INTEGER);
                Requested::Ranks(rank(args[0])?, rank(args[1])?)
            }
            By::Score => Requested::Range(ends::scores(low, high)?, options.offset, limit),
            By::Lex => Requested::Range(ends::members(low, high)?, options.offset, limit),
        };
        Ok(Request { requested, reverse, with_scores: options.with_scores })
    }

    /// The requested elements of `set`.
    fn span(&self, set: View<'_>) -> Span {
        match &self.requested {
            Requested::Ranks(start, stop) => {
                let ranks = ends::ranks(*start, *stop, set.len());
                Span { skip: ranks.start, count: ranks.len() }
            }
            Requested::Range(range, offset, limit) => {
                let too_far = matches!(range, Range::Score { .. })
                    && usize::try_from(*offset).is_ok_and(|offset| offset >= set.len());
                match too_far && *offset > 0 {
                    true => Span::NOTHING,
                    false => set.select(range, self.reverse, *offset, *limit),
                }
            }
        }
    }
}

fn reply_range(ctx: &mut Ctx<'_>, fixed: Options) -> CmdResult {
    let request = Request::parse(&ctx.args[2..], fixed, false)?;
    let key = ctx.key(1);
    let Some(record) = ctx.db.read(&key) else {
        ctx.reply.array(0);
        return Ok(());
    };
    let set = zset(&record)?;
    let span = request.span(set);
    ctx.lane.weigh(span.count, &mut ctx.pause)?;
    let reply = &mut *ctx.reply;
    header(reply, span.count, request.with_scores);
    set.walk(span, request.reverse, |member, score| {
        element(reply, member, score, request.with_scores);
    });
    Ok(())
}

fn store_range(ctx: &mut Ctx<'_>) -> CmdResult {
    let request = Request::parse(&ctx.args[3..], Options::default(), true)?;
    let (destination, source) = (ctx.key(1), ctx.key(2));
    let mut elements: Vec<(Vec<u8>, f64)> = Vec::new();
    if let Some(record) = ctx.db.read(&source) {
        let set = zset(&record)?;
        let span = request.span(set);
        ctx.lane.weigh(span.count, &mut ctx.pause)?;
        elements.reserve_exact(span.count);
        let mut room = Digits::new();
        set.walk(span, request.reverse, |member, score| {
            elements.push((member.bytes(&mut room).to_vec(), score));
        });
    }
    drop_zero_signs(&request, &mut elements, &ctx.settings.limits);
    if request.reverse {
        elements.reverse();
    }
    store_elements(ctx, &destination, &elements, ZRANGESTORE.spec.name)
}

/// Removes the sign of negative zeros where the reference does. The reference loses the sign of
/// scores that pass through a listpack. It adds the elements, in walk order, to a set that starts
/// as a listpack until it must grow, unless the known number of elements is too large for one.
fn drop_zero_signs(request: &Request<'_>, elements: &mut [(Vec<u8>, f64)], limits: &Limits) {
    let packable = match request.requested {
        Requested::Ranks(..) if elements.len() > limits.zset_entries => 0,
        Requested::Ranks(..) | Requested::Range(..) => limits.zset_entries,
    };
    let fit = |element: &&mut (Vec<u8>, f64)| element.0.len() <= limits.zset_value;
    for (_, score) in elements.iter_mut().take(packable).take_while(fit) {
        if *score == 0.0 {
            *score = 0.0;
        }
    }
}

/// Stores sorted elements under a key, notifies of `event`, and replies with their number. Removes
/// the key if there are no elements.
pub(crate) fn store_elements<M: AsRef<[u8]>>(
    ctx: &mut Ctx<'_>,
    destination: &weft_keyspace::Key<'_>,
    elements: &[(M, f64)],
    event: &'static str,
) -> CmdResult {
    if elements.is_empty() {
        if ctx.db.clear(destination) {
            ctx.notify(Classes::GENERIC, "del", destination);
            ctx.dirty();
        }
    } else {
        let clock = ctx.db.context.access.fresh();
        let record = build(destination.bytes, None, clock, elements, &ctx.settings.limits);
        ctx.db.set(destination, record);
        ctx.notify(Classes::ZSET, event, destination);
        ctx.dirty();
    }
    ctx.reply.int(elements.len() as i64);
    Ok(())
}
