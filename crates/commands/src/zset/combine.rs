//! Union, intersection and difference of several sorted sets, returned, counted or stored.
//!
//! Inputs may also be sets, whose members have the score 1. All inputs are borrowed together under
//! the command's guard. The result is a vector of elements, sorted once. It is returned or stored
//! after the borrows end, because the destination may be an input.
//!
//! The scores of a member are aggregated in the order of the inputs' sizes, the smallest first: the
//! order affects the last digits of a sum.

use super::range::store_elements;
use super::{element, header};
use crate::ctx::{Ctx, Meter};
use crate::error::{CmdResult, Error, SYNTAX, WRONG_TYPE};
use crate::lock::Lock;
use crate::registry::Command;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::ControlFlow;
use weft_base::num::{parse_f64, parse_i64};
use weft_command_spec::{Begin, Find, Flags, Group, KeySpec, Spec, Special};
use weft_keyspace::{Key, Record};
use weft_types::packed::Value;
use weft_types::set::Set;
use weft_types::string::Digits;
use weft_types::zset::{Span, View};

const READ: KeySpec = KeySpec {
    flags: &["RO", "ACCESS"],
    begin: Begin::Index(1),
    find: Find::KeyNum { num: 0, first: 1, step: 1 },
    notes: "",
};

pub const ZUNION: Command = Command {
    spec: Spec {
        name: "zunion",
        arity: -3,
        flags: Flags::READONLY.or(Flags::MOVABLE_KEYS),
        keys: &[READ],
        acl: &[],
        group: Group::SortedSet,
        since: "6.2.0",
        summary: "Returns the union of sorted sets.",
        complexity: "O(N)+O(M*log(M)) for N elements of all sets and M in the result.",
        syntax: "numkeys:integer key... [WEIGHTS weight:integer...] \
                 [AGGREGATE aggregate=(sum=SUM|min=MIN|max=MAX)] [withscores=WITHSCORES]",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: |ctx| reply_result(ctx, Operation::Union),
    subcommands: &[],
};

pub const ZINTER: Command = Command {
    spec: Spec {
        name: "zinter",
        flags: ZUNION.spec.flags,
        summary: "Returns the intersection of sorted sets.",
        complexity: "O(N*K)+O(M*log(M)) for the smallest of K sets with N elements and M in the \
                     result.",
        special: Special::NONE,
        ..ZUNION.spec
    },
    run: |ctx| reply_result(ctx, Operation::Inter),
    ..ZUNION
};

pub const ZDIFF: Command = Command {
    spec: Spec {
        name: "zdiff",
        flags: ZUNION.spec.flags,
        summary: "Returns the members of the first sorted set that are in none of the others.",
        complexity: "O(N*K)+O(M*log(M)) for K sets, N elements in the first and M in the result.",
        syntax: "numkeys:integer key... [withscores=WITHSCORES]",
        special: Special::NONE,
        ..ZUNION.spec
    },
    run: |ctx| reply_result(ctx, Operation::Diff),
    ..ZUNION
};

pub const ZINTERCARD: Command = Command {
    spec: Spec {
        name: "zintercard",
        flags: ZUNION.spec.flags,
        since: "7.0.0",
        summary: "Counts the members of the intersection of sorted sets.",
        complexity: "O(N*K) for the smallest of K sets with N elements.",
        syntax: "numkeys:integer key... [LIMIT limit:integer]",
        special: Special::NONE,
        ..ZUNION.spec
    },
    run: zintercard,
    ..ZUNION
};

const STORED: [KeySpec; 2] = [
    KeySpec {
        flags: &["OW", "UPDATE"],
        begin: Begin::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: "",
    },
    KeySpec { begin: Begin::Index(2), ..READ },
];

pub const ZUNIONSTORE: Command = Command {
    spec: Spec {
        name: "zunionstore",
        arity: -4,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS),
        keys: &STORED,
        since: "2.0.0",
        summary: "Stores the union of sorted sets in a key.",
        syntax: "destination:key numkeys:integer key... [WEIGHTS weight:integer...] \
                 [AGGREGATE aggregate=(sum=SUM|min=MIN|max=MAX)]",
        special: Special::NONE,
        ..ZUNION.spec
    },
    run: |ctx| store_result(ctx, Operation::Union),
    ..ZUNION
};

pub const ZINTERSTORE: Command = Command {
    spec: Spec {
        name: "zinterstore",
        flags: ZUNIONSTORE.spec.flags,
        summary: "Stores the intersection of sorted sets in a key.",
        complexity: ZINTER.spec.complexity,
        special: Special::NONE,
        ..ZUNIONSTORE.spec
    },
    run: |ctx| store_result(ctx, Operation::Inter),
    ..ZUNION
};

pub const ZDIFFSTORE: Command = Command {
    spec: Spec {
        name: "zdiffstore",
        flags: ZUNIONSTORE.spec.flags,
        since: "6.2.0",
        summary: "Stores in a key the members of the first sorted set that are in none of the others.",
        complexity: ZDIFF.spec.complexity,
        syntax: "destination:key numkeys:integer key...",
        special: Special::NONE,
        ..ZUNIONSTORE.spec
    },
    run: |ctx| store_result(ctx, Operation::Diff),
    ..ZUNION
};

const BAD_WEIGHT: Error = Error::new("ERR weight value is not a float");
const NEGATIVE_LIMIT: Error = Error::new("ERR LIMIT can't be negative");

type Elements = Vec<(Vec<u8>, f64)>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Inter,
    Diff,
}

/// The use of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Answer,
    Count,
    Store,
}

/// The aggregation of the scores of one member.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, score: f64, other: f64) -> f64 {
        match self {
            // The sum of infinities of both signs is NaN, which counts as 0.
            Aggregate::Sum => number(score + other),
            Aggregate::Min if other < score => other,
            Aggregate::Max if other > score => other,
            Aggregate::Min | Aggregate::Max => score,
        }
    }
}

/// The score, or 0 if it is NaN.
fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// An input.
#[derive(Clone, Copy)]
enum Source<'a> {
    Nothing,
    Zset(View<'a>),
    Set(Set<'a>),
}

impl<'a> Source<'a> {
    fn of(record: &'a Record) -> Result<Self, Error> {
        match (View::of(record), Set::of(record)) {
            (Some(view), _) => Ok(Source::Zset(view)),
            (None, Some(set)) => Ok(Source::Set(set)),
            (None, None) => Err(WRONG_TYPE),
        }
    }

    fn len(self) -> usize {
        match self {
            Source::Nothing => 0,
            Source::Zset(view) => view.len(),
            Source::Set(set) => set.len(),
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Source::Nothing => None,
            Source::Zset(view) => view.score(member),
            Source::Set(set) => set.contains(Value::Bytes(member)).then_some(1.0),
        }
    }

    /// Passes elements to `seen` until it breaks.
    fn each(self, mut seen: impl FnMut(&[u8], f64) -> ControlFlow<()>) {
        /// A walk cannot be stopped, so it covers this many elements at a time. The first part is
        /// small.
        const PARTS: [usize; 2] = [16, 256];
        let mut room = Digits::new();
        match self {
            Source::Nothing => {}
            Source::Zset(view) => {
                let mut flow = ControlFlow::Continue(());
                let [mut count, most] = PARTS;
                let mut skip = 0;
                while skip < view.len() && flow.is_continue() {
                    view.walk(Span { skip, count }, false, |member, score| {
                        if flow.is_continue() {
                            flow = seen(member.bytes(&mut room), score);
                        }
                    });
                    skip += count;
                    count = most;
                }
            }
            Source::Set(set) => {
                let _ = set.try_each(|member| seen(member.bytes(&mut room), 1.0));
            }
        }
    }
}

/// The parsed arguments, without the keys.
struct Request {
    operation: Operation,
    /// A weight for each key.
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// 0: no limit.
    limit: usize,
}

impl Request {
    /// Parses the number of keys at `at`. Returns the positions of the keys.
    fn numkeys(ctx: &Ctx<'_>, at: usize, name: &str) -> Result<std::ops::Range<usize>, Error> {
        let count = ctx.int(at)?;
        if count < 1 {
            let text = format!("ERR at least 1 input key is needed for '{name}' command");
            return Err(Error::owned(text));
        }
        let room = ctx.args.len() - at - 1;
        let count = usize::try_from(count).ok().filter(|count| *count <= room).ok_or(SYNTAX)?;
        Ok(at + 1..at + 1 + count)
    }

    /// Parses the options after the `count` keys.
    fn parse(
        operation: Operation,
        count: usize,
        mut words: &[&[u8]],
        purpose: Purpose,
    ) -> Result<Request, Error> {
        let mut request = Request {
            operation,
            weights: vec![1.0; count],
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: 0,
        };
        let weighs = operation != Operation::Diff && purpose != Purpose::Count;
        loop {
            let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            words = match words {
                [] => return Ok(request),
                [word, rest @ ..] if weighs && rest.len() >= count && is(word, "weights") => {
                    let (weights, rest) = rest.split_at(count);
                    for (to, text) in request.weights.iter_mut().zip(weights) {
                        *to = parse_f64(text).ok_or(BAD_WEIGHT)?;
                    }
                    rest
                }
                [word, how, rest @ ..] if weighs && is(word, "aggregate") => {
                    request.aggregate = match () {
                        () if is(how, "sum") => Aggregate::Sum,
                        () if is(how, "min") => Aggregate::Min,
                        () if is(how, "max") => Aggregate::Max,
                        () => return Err(SYNTAX),
                    };
                    rest
                }
                [word, rest @ ..] if purpose == Purpose::Answer && is(word, "withscores") => {
                    request.with_scores = true;
                    rest
                }
                [word, limit, rest @ ..] if purpose == Purpose::Count && is(word, "limit") => {
                    let limit = parse_i64(limit).and_then(|limit| usize::try_from(limit).ok());
                    request.limit = limit.ok_or(NEGATIVE_LIMIT)?;
                    rest
                }
                [..] => return Err(SYNTAX),
            };
        }
    }
}

/// An input and its weight.
#[derive(Clone, Copy)]
struct Input<'a> {
    source: Source<'a>,
    weight: f64,
    /// The index of the key. Equal keys have the index of the first of them.
    key: usize,
}

/// Parses the request whose number of keys is at `at`, and passes its inputs to `compute`.
fn with_inputs<T>(
    ctx: &mut Ctx<'_>,
    at: usize,
    name: &str,
    operation: Operation,
    purpose: Purpose,
    compute: impl FnOnce(&Request, &mut [Input<'_>], &mut Meter) -> T,
) -> Result<(T, Request), Error> {
    let places = Request::numkeys(ctx, at, name)?;
    ctx.weigh_args()?;
    let keys: Vec<Key<'_>> = places.clone().map(|i| ctx.key(i)).collect();
    let words = &ctx.args[places.end..];
    let records = ctx.db.read_all(&keys, |record| Source::of(record).is_ok());
    let mut sources = Vec::with_capacity(keys.len());
    for record in &records {
        sources.push(match record {
            Some(record) => Source::of(record)?,
            None => Source::Nothing,
        });
    }
    let request = Request::parse(operation, keys.len(), words, purpose)?;
    let mut inputs: Vec<Input<'_>> = sources
        .iter()
        .zip(&request.weights)
        .zip(first_indexes(&keys))
        .map(|((source, weight), key)| Input { source: *source, weight: *weight, key })
        .collect();
    if operation != Operation::Diff {
        inputs.sort_by_key(|input| input.source.len());
    }
    let mut meter = match operation {
        Operation::Union => {
            let work = inputs.iter().map(|input| input.source.len()).sum();
            ctx.lane.weigh(work, &mut ctx.pause)?;
            Meter::unlimited()
        }
        // A count may stop at its limit, and the search for a member at any input.
        Operation::Inter | Operation::Diff => {
            let most = inputs[0].source.len().saturating_mul(inputs.len());
            ctx.lane.meter(most, most)
        }
    };
    let result = compute(&request, &mut inputs, &mut meter);
    drop(records);
    meter.check(&mut ctx.pause)?;
    Ok((result, request))
}

/// For each key, the index of the first equal key. O(keys).
fn first_indexes(keys: &[Key<'_>]) -> Vec<usize> {
    /// Up to this many keys, comparing all pairs is faster than hashing.
    const FEW: usize = 8;
    if keys.len() <= FEW {
        let first = |key: &Key<'_>| keys.iter().position(|other| other.bytes == key.bytes);
        return keys.iter().map(|key| first(key).unwrap_or(0)).collect();
    }
    let mut places: HashMap<&[u8], usize, foldhash::fast::RandomState> = HashMap::default();
    keys.iter().enumerate().map(|(at, key)| *places.entry(key.bytes).or_insert(at)).collect()
}

/// The elements of the result, sorted.
fn compute(request: &Request, inputs: &mut [Input<'_>], meter: &mut Meter) -> Elements {
    let mut elements = match request.operation {
        Operation::Union => union(request, inputs),
        Operation::Inter => {
            let mut elements = Elements::new();
            intersection(request, inputs, meter, |member, score| {
                elements.push((member.to_vec(), score));
                ControlFlow::Continue(())
            });
            elements
        }
        Operation::Diff => difference(inputs, meter),
    };
    if meter.is_exhausted() {
        return Elements::new();
    }
    elements.sort_unstable_by(|(a, x), (b, y)| {
        // No score is NaN, and zeros of both signs are equal.
        x.partial_cmp(y).unwrap_or(Ordering::Equal).then_with(|| a.cmp(b))
    });
    elements
}

fn union(request: &Request, inputs: &[Input<'_>]) -> Elements {
    let mut scores: HashMap<Vec<u8>, f64, foldhash::fast::RandomState> = HashMap::default();
    let largest = inputs.last().map_or(0, |input| input.source.len());
    scores.reserve(largest);
    for Input { source, weight, .. } in inputs {
        source.each(|member, score| {
            let score = number(weight * score);
            match scores.get_mut(member) {
                Some(sum) => *sum = request.aggregate.of(*sum, score),
                None => {
                    scores.insert(member.to_vec(), score);
                }
            }
            ControlFlow::Continue(())
        });
    }
    scores.into_iter().collect()
}

/// Passes each member of all inputs to `seen`, until `seen` breaks or `meter` runs out. The first
/// input must be the smallest.
fn intersection(
    request: &Request,
    inputs: &[Input<'_>],
    meter: &mut Meter,
    mut seen: impl FnMut(&[u8], f64) -> ControlFlow<()>,
) {
    let (first, others) = (inputs[0], &inputs[1..]);
    first.source.each(|member, score| {
        let mut sum = number(first.weight * score);
        if !meter.step() {
            return ControlFlow::Break(());
        }
        for other in others {
            if !meter.step() {
                return ControlFlow::Break(());
            }
            let found = match other.key == first.key {
                true => Some(score),
                false => other.source.score(member),
            };
            let Some(score) = found else { return ControlFlow::Continue(()) };
            sum = request.aggregate.of(sum, score * other.weight);
        }
        seen(member, sum)
    });
}

fn difference(inputs: &mut [Input<'_>], meter: &mut Meter) -> Elements {
    let (first, others) = (inputs[0], &mut inputs[1..]);
    let mut elements = Elements::new();
    if others.iter().any(|other| other.key == first.key) {
        return elements;
    }
    // The largest inputs are the most likely to have a member.
    others.sort_by_key(|other| std::cmp::Reverse(other.source.len()));
    first.source.each(|member, score| {
        let is_alone = |other: &Input<'_>| meter.step() && other.source.score(member).is_none();
        if others.iter().all(is_alone) {
            elements.push((member.to_vec(), score));
        }
        if meter.step() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    elements
}

fn reply_result(ctx: &mut Ctx<'_>, operation: Operation) -> CmdResult {
    let name = match operation {
        Operation::Union => ZUNION.spec.name,
        Operation::Inter => ZINTER.spec.name,
        Operation::Diff => ZDIFF.spec.name,
    };
    let (elements, request) = with_inputs(ctx, 1, name, operation, Purpose::Answer, compute)?;
    header(ctx.reply, elements.len(), request.with_scores);
    for (member, score) in &elements {
        element(ctx.reply, Value::Bytes(member), *score, request.with_scores);
    }
    Ok(())
}

fn store_result(ctx: &mut Ctx<'_>, operation: Operation) -> CmdResult {
    let name = match operation {
        Operation::Union => ZUNIONSTORE.spec.name,
        Operation::Inter => ZINTERSTORE.spec.name,
        Operation::Diff => ZDIFFSTORE.spec.name,
    };
    let (elements, _) = with_inputs(ctx, 2, name, operation, Purpose::Store, compute)?;
    let destination = ctx.key(1);
    store_elements(ctx, &destination, &elements, name)
}

fn zintercard(ctx: &mut Ctx<'_>) -> CmdResult {
    let count = |request: &Request, inputs: &mut [Input<'_>], meter: &mut Meter| {
        let mut count = 0;
        intersection(request, inputs, meter, |_, _| {
            count += 1;
            if count == request.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        count
    };
    let name = ZINTERCARD.spec.name;
    let (count, _) = with_inputs(ctx, 1, name, Operation::Inter, Purpose::Count, count)?;
    ctx.reply.int(count as i64);
    Ok(())
}
