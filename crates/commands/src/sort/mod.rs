//! SORT and SORT_RO: return or store the elements of a list, set or sorted set in sorted order.
//!
//! With BY and GET, the sort keys and the reply come from other keys, whose names are built from
//! the elements. These names are known only after the elements are read. So such a sort holds the
//! whole keyspace, like a transaction on all keys. Other sorts hold only their own keys.
//!
//! | file | contents |
//! |---|---|
//! | [`options`] | the options after the key |
//! | [`pattern`] | keys built from elements |
//! | this file | elements, order, answer |

mod options;
mod pattern;
/// A text as a number to sort by. As in C, the text ends at a NUL.
fn number(text: &[u8]) -> Option<f64> {
    num::parse_f64(text.split(|byte| *byte == 0).next().unwrap_or_default())
}

#[cfg(test)]
mod tests;

use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, WRONG_TYPE};
use crate::lock::Lock;
use crate::registry::Command;
use options::{Get, Options};
use std::cmp::Ordering;
use std::ops::{ControlFlow, Range};
use weft_base::num;
use weft_command_spec::{Begin, Find, Flags, GetKeys, Group, KeySpec, Spec, Special};
use weft_keyspace::{Classes, Record};
use weft_types::list::{self, End, List};
use weft_types::set::Set;
use weft_types::zset::{Span, View};
use weft_types::{Kind, TEXT_MAX, Type};

/// The commands of this group.
pub const COMMANDS: &[&Command] = &[&SORT, &SORT_RO];

const fn unknown(flags: &'static [&'static str], notes: &'static str) -> KeySpec {
    KeySpec { flags, begin: Begin::Unknown, find: Find::Unknown, notes }
}

const KEY: KeySpec = KeySpec {
    flags: &["RO", "ACCESS"],
    begin: Begin::Index(1),
    find: Find::Range { last: 0, step: 1, limit: 0 },
    notes: "",
};
const BY_OR_GET: KeySpec = unknown(
    &["RO", "ACCESS"],
    "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from \
     the content of the key we sort",
);
const STORE: KeySpec = unknown(
    &["OW", "UPDATE"],
    "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear \
     anywhere in the argument array",
);

const SORT: Command = Command {
    spec: Spec {
        name: "sort",
        arity: -2,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS),
        keys: &[KEY, BY_OR_GET, STORE],
        acl: &["@set", "@sortedset", "@list", "@dangerous"],
        group: Group::Generic,
        since: "1.0.0",
        summary: "Sorts the elements of a list, set or sorted set and returns or stores them.",
        complexity: "O(N+M*log(M)) for N elements of which M are returned.",
        syntax: "key [BY by-pattern:pattern#1<pattern>] [LIMIT limit=(offset:integer count:integer)] \
                 [GET get-pattern:pattern...+#1<pattern>] [order=(asc=ASC|desc=DESC)] [sorting=ALPHA] \
                 [STORE destination:key#2]",
        history: &[],
        tips: &[],
        special: Special::get_keys(GetKeys::Sort),
    },
    lock: Lock::Named(keys),
    run: |ctx| sort(ctx, true),
    subcommands: &[],
};

const SORT_RO: Command = Command {
    spec: Spec {
        name: "sort_ro",
        flags: Flags::READONLY.or(Flags::MOVABLE_KEYS),
        keys: &[KEY, BY_OR_GET],
        since: "7.0.0",
        summary: "Sorts the elements of a list, set or sorted set and returns them.",
        syntax: "key [BY by-pattern:pattern#1<pattern>] [LIMIT limit=(offset:integer count:integer)] \
                 [GET get-pattern:pattern...+#1<pattern>] [order=(asc=ASC|desc=DESC)] [sorting=ALPHA]",
        special: Special::NONE,
        ..SORT.spec
    },
    run: |ctx| sort(ctx, false),
    ..SORT
};

const TOO_LONG: Error = Error::new("ERR an element can't be as long as this string");
const NOT_NUMBERS: Error = Error::new("ERR One or more scores can't be converted into double");

/// The positions of the keys to hold; `None`: hold all keys.
fn keys(args: &[&[u8]]) -> Option<Vec<usize>> {
    let mut keys = vec![1];
    for (i, pair) in args.windows(2).enumerate().skip(2) {
        let is = |word: &str| pair[0].eq_ignore_ascii_case(word.as_bytes());
        if (is("by") || is("get")) && pair[1].contains(&b'*') {
            return None;
        }
        if is("store") {
            keys.push(i + 1);
        }
    }
    Some(keys)
}

/// Whether a command has the options of SORT, which name keys by patterns.
pub fn has_patterns(spec: &Spec) -> bool {
    spec.keys.contains(&BY_OR_GET)
}

/// Checks the options of SORT for a user that may not read every key: they must not name keys by patterns. Other errors are
/// left to the command.
///
/// # Errors
/// The first pattern before another error.
pub fn check_patterns(args: &[&[u8]]) -> CmdResult {
    const BY: Error =
        Error::new("ERR BY option of SORT denied due to insufficient ACL permissions.");
    const GET: Error =
        Error::new("ERR GET option of SORT denied due to insufficient ACL permissions.");
    let mut rest = args.get(2..).unwrap_or_default();
    while let [word, after @ ..] = rest {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        rest = match after {
            [pattern, ..] if is("by") && pattern.contains(&b'*') => return Err(BY),
            [_, ..] if is("get") => return Err(GET),
            [offset, count, after @ ..]
                if is("limit") && [offset, count].iter().all(|n| num::parse_i64(n).is_some()) =>
            {
                after
            }
            [_, after @ ..] if is("by") || is("store") => after,
            after if is("asc") || is("desc") || is("alpha") => after,
            _ => return Ok(()),
        };
    }
    Ok(())
}

/// An element and its sort key.
struct Item {
    element: Vec<u8>,
    score: f64,
    /// With ALPHA: the text to sort by, if it exists.
    by: Option<Vec<u8>>,
}

fn sort(ctx: &mut Ctx<'_>, may_store: bool) -> CmdResult {
    let mut options = Options::parse(ctx, may_store)?;
    let key = ctx.key(1);
    let kind = ctx.db.read(&key).map(|record| Kind::of(record.kind()).type_of());
    match kind {
        None | Some(Type::List | Type::Set | Type::Zset) => {}
        Some(Type::String | Type::Hash | Type::Stream) => return Err(WRONG_TYPE),
    }
    if options.unsorted && kind == Some(Type::Set) && options.store.is_some() {
        // A stored result must not depend on the order of a set in memory.
        (options.unsorted, options.alpha, options.by) = (false, true, None);
    }
    let len = ctx.db.peek(&key).map_or(0, |record| weft_types::value::elements(&record));
    let picked = options.window(len);
    // Lists and sorted sets have an order of their own, which DESC reverses.
    let reversed = options.unsorted && options.descending && kind != Some(Type::Set);
    let wanted = match (options.unsorted, reversed) {
        (false, _) => 0..len,
        (true, false) => picked.clone(),
        (true, true) => len - picked.end..len - picked.start,
    };
    let reach_work = ctx.db.peek(&key).map_or(0, |record| work_to_reach(&record, wanted.start));
    // Sorting an element costs about as much as returning ten.
    ctx.weigh(wanted.len().saturating_mul(5).saturating_add(reach_work))?;
    let elements = ctx.db.peek(&key).map_or(Vec::new(), |record| elements(&record, wanted));
    let mut items = load(ctx, elements, &options)?;
    if reversed {
        items.reverse();
    }
    let items = match options.unsorted {
        true => &items[..],
        false => {
            order(&mut items, &options);
            &items[picked]
        }
    };
    match options.store {
        Some(at) => store_values(ctx, items, &options, at),
        None => reply_values(ctx, items, &options),
    }
}

/// The work of reaching the element at `start`. A set must be walked from its beginning.
fn work_to_reach(record: &Record, start: usize) -> usize {
    match Kind::of(record.kind()).type_of() {
        Type::List => List::of(record).map_or(0, |list| list.distance_work(start)),
        Type::Set => start,
        Type::Zset | Type::String | Type::Hash | Type::Stream => 0,
    }
}

/// The `wanted` elements of a record, in the order of its type.
fn elements(record: &Record, wanted: Range<usize>) -> Vec<Vec<u8>> {
    let mut elements = Vec::with_capacity(wanted.len());
    if wanted.is_empty() {
        return elements;
    }
    match Kind::of(record.kind()).type_of() {
        Type::List => {
            if let Some(list) = List::of(record) {
                list.each_from(wanted.start, |value| {
                    elements.push(value.to_vec());
                    elements.len() < wanted.len()
                });
            }
        }
        Type::Set => {
            let mut place = 0;
            let _ = Set::of(record).map(|set| {
                set.try_each(|member| {
                    if place >= wanted.start {
                        elements.push(member.to_vec());
                    }
                    place += 1;
                    if place < wanted.end {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                })
            });
        }
        Type::Zset => {
            if let Some(zset) = View::of(record) {
                let span = Span { skip: wanted.start, count: wanted.len() };
                zset.walk(span, false, |member, _| elements.push(member.to_vec()));
            }
        }
        Type::String | Type::Hash | Type::Stream => {}
    }
    elements
}

/// Loads the sort key of each element.
fn load(
    ctx: &mut Ctx<'_>,
    elements: Vec<Vec<u8>>,
    options: &Options<'_>,
) -> Result<Vec<Item>, Error> {
    let mut items = Vec::with_capacity(elements.len());
    let mut all_numbers = true;
    for element in elements {
        let mut item = Item { element, score: 0.0, by: None };
        if !options.unsorted {
            let by = match options.by {
                Some(pattern) => pattern::look_up(ctx, pattern, &item.element)?,
                None => Some(item.element.clone()),
            };
            match by {
                Some(by) if options.alpha => item.by = Some(by),
                Some(by) => match number(&by) {
                    Some(score) => item.score = score,
                    None => all_numbers = false,
                },
                None => {}
            }
        }
        items.push(item);
    }
    match all_numbers {
        true => Ok(items),
        false => Err(NOT_NUMBERS),
    }
}

fn order(items: &mut [Item], options: &Options<'_>) {
    items.sort_by(|a, b| {
        let order = if options.alpha {
            // A missing value sorts before all others.
            a.by.cmp(&b.by)
        } else {
            let scores = a.score.partial_cmp(&b.score).unwrap_or(Ordering::Equal);
            scores.then_with(|| a.element.cmp(&b.element))
        };
        if options.descending { order.reverse() } else { order }
    });
}

/// Passes each value to return for `item` to `seen`, in order.
fn values(
    ctx: &mut Ctx<'_>,
    item: &Item,
    options: &Options<'_>,
    mut seen: impl FnMut(&mut Ctx<'_>, Option<&[u8]>),
) -> CmdResult {
    if options.get.is_empty() {
        seen(ctx, Some(&item.element));
    }
    for get in &options.get {
        match get {
            Get::Element => seen(ctx, Some(&item.element)),
            Get::Pattern(pattern) => {
                let value = pattern::look_up(ctx, pattern, &item.element)?;
                seen(ctx, value.as_deref());
            }
        }
    }
    Ok(())
}

fn reply_values(ctx: &mut Ctx<'_>, items: &[Item], options: &Options<'_>) -> CmdResult {
    ctx.reply.array(items.len() * options.get.len().max(1));
    for item in items {
        values(ctx, item, options, |ctx, value| match value {
            Some(value) => ctx.reply.bulk(value),
            None => ctx.reply.null(),
        })?;
    }
    Ok(())
}

fn store_values(ctx: &mut Ctx<'_>, items: &[Item], options: &Options<'_>, at: usize) -> CmdResult {
    let mut stored: Vec<Vec<u8>> = Vec::new();
    for item in items {
        values(ctx, item, options, |_, value| stored.push(value.unwrap_or_default().to_vec()))?;
    }
    if stored.iter().any(|text| text.len() > TEXT_MAX) {
        return Err(TOO_LONG);
    }
    let key = ctx.key(at);
    if stored.is_empty() {
        if ctx.db.clear(&key) {
            ctx.notify(Classes::GENERIC, "del", &key);
            ctx.dirty();
        }
        if options.reads_fields() && ctx.is_changed_for_log() {
            ctx.log(&[b"DEL", key.bytes]);
        }
    } else {
        let values: Vec<&[u8]> = stored.iter().map(|v| &v[..]).collect();
        let clock = ctx.db.context.access.fresh();
        let limits = &ctx.settings.limits;
        let record = list::create(key.bytes, clock, End::Right, &values, limits);
        ctx.db.set(&key, record);
        ctx.notify(Classes::LIST, "sortstore", &key);
        ctx.db.context.tally.dirty += stored.len() as u64;
        if options.reads_fields() && ctx.is_logged() {
            ctx.log(&[b"DEL", key.bytes]);
            ctx.log(&[&[b"RPUSH", key.bytes], &values[..]].concat());
        }
    }
    ctx.reply.int(stored.len() as i64);
    Ok(())
}
