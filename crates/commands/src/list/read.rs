//! LLEN, LINDEX, LRANGE, LPOS: read a list.

use super::{list, range, write_element};
use crate::ctx::{Ctx, Meter};
use crate::error::{CmdResult, Error, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_types::list::List;
use weft_types::packed::Value;
use weft_types::string::Digits;

pub const LRANGE: Command = Command {
    spec: Spec {
        name: "lrange",
        arity: 4,
        flags: Flags::READONLY,
        keys: &keys::one(&["RO", "ACCESS"]),
        acl: &[],
        group: Group::List,
        since: "1.0.0",
        summary: "Returns a range of the elements of a list.",
        complexity: "O(S+N) for N elements at a distance of S, counted in chunks, from an end.",
        syntax: "key start:integer stop:integer",
        history: &[],
        tips: &[],
        special: Special::queued_work(QueuedWork::ListRange),
    },
    lock: Lock::Keys,
    run: lrange,
    subcommands: &[],
};

pub const LINDEX: Command = Command {
    spec: Spec {
        name: "lindex",
        arity: 3,
        flags: LRANGE.spec.flags,
        summary: "Returns the element at an index of a list.",
        complexity: "O(S) for a distance of S, counted in chunks, from the nearer end.",
        syntax: "key index:integer",
        special: Special::queued_work(QueuedWork::ListIndex),
        ..LRANGE.spec
    },
    run: lindex,
    ..LRANGE
};

pub const LLEN: Command = Command {
    spec: Spec {
        name: "llen",
        arity: 2,
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &keys::one(&["RO"]),
        summary: "Returns the length of a list.",
        complexity: "O(1)",
        syntax: "key",
        special: Special::NONE,
        ..LRANGE.spec
    },
    run: llen,
    ..LRANGE
};

pub const LPOS: Command = Command {
    spec: Spec {
        name: "lpos",
        arity: -3,
        flags: LRANGE.spec.flags,
        since: "6.0.6",
        summary: "Returns the indexes of elements equal to a value.",
        complexity: "O(N) for N elements; less with MAXLEN, or when enough are found early.",
        syntax: "key element [RANK rank:integer] [COUNT num-matches:integer] [MAXLEN len:integer]",
        special: Special::NONE,
        ..LRANGE.spec
    },
    run: lpos,
    ..LRANGE
};

fn llen(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let len = match ctx.db.read(&key) {
        Some(record) => list(&record)?.len(),
        None => 0,
    };
    ctx.reply.int(len as i64);
    Ok(())
}

fn lindex(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let Some(record) = ctx.db.read(&key) else {
        ctx.reply.null();
        return Ok(());
    };
    let list = list(&record)?;
    let index = weft_base::num::parse_i64(ctx.args[2]).ok_or(crate::error::NOT_AN_INTEGER)?;
    let index = if index < 0 { index.saturating_add(list.len() as i64) } else { index };
    let Some(index) = usize::try_from(index).ok().filter(|index| *index < list.len()) else {
        ctx.reply.null();
        return Ok(());
    };
    ctx.lane.weigh(list.distance_work(index), &mut ctx.pause)?;
    list.get(index, |value| write_element(ctx.reply, value));
    Ok(())
}

fn lrange(ctx: &mut Ctx<'_>) -> CmdResult {
    let (start, stop) = (ctx.int(2)?, ctx.int(3)?);
    let key = ctx.key(1);
    let cut = match ctx.db.read(&key) {
        Some(record) => {
            let list = list(&record)?;
            range(start, stop, list.len())
                .map(|(start, count)| (start, count, list.range_work(start, count)))
        }
        None => None,
    };
    let Some((start, count, work)) = cut else {
        ctx.reply.array(0);
        return Ok(());
    };
    ctx.weigh(work)?;
    ctx.reply.array(count);
    if let Some(record) = ctx.db.peek(&key) {
        let mut left = count;
        list(&record)?.each_from(start, |value| {
            write_element(ctx.reply, value);
            left -= 1;
            left > 0
        });
    }
    Ok(())
}

const RANK_ZERO: Error = Error::new(
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
     negative to start from the end of the list",
);
const COUNT: Error = Error::new("ERR COUNT can't be negative");
const MAXLEN: Error = Error::new("ERR MAXLEN can't be negative");

/// The search of an LPOS.
struct Search<'a> {
    text: &'a [u8],
    /// Search from the tail.
    back: bool,
    /// Matches to skip.
    skip: u64,
    /// The maximum number of matches to return, 0: all; `None`: one, returned as an integer instead
    /// of an array.
    count: Option<usize>,
    /// The maximum number of elements to examine, 0: all.
    most: usize,
}

impl<'a> Search<'a> {
    fn parse(ctx: &Ctx<'a>) -> Result<Search<'a>, Error> {
        let text = ctx.args[2];
        let mut search = Search { text, back: false, skip: 0, count: None, most: 0 };
        let natural = |i, e| ctx.int(i).ok().and_then(|n| usize::try_from(n).ok()).ok_or(e);
        let mut i = 3;
        while i < ctx.args.len() {
            if i + 1 == ctx.args.len() {
                return Err(SYNTAX);
            }
            if ctx.is(i, "rank") {
                let rank = ctx.int(i + 1)?;
                if rank == i64::MIN {
                    return Err(super::NOT_NEGATABLE);
                }
                search.back = rank < 0;
                search.skip = rank.unsigned_abs().checked_sub(1).ok_or(RANK_ZERO)?;
            } else if ctx.is(i, "count") {
                search.count = Some(natural(i + 1, COUNT)?);
            } else if ctx.is(i, "maxlen") {
                search.most = natural(i + 1, MAXLEN)?;
            } else {
                return Err(SYNTAX);
            }
            i += 2;
        }
        Ok(search)
    }

    /// Passes the indexes of the matches in `list` to `found`, until it returns `false` or `meter`
    /// runs out.
    fn run(&self, list: List<'_>, meter: &mut Meter, mut found: impl FnMut(usize) -> bool) {
        let len = list.len();
        let mut left = if self.most == 0 { len } else { self.most };
        let (mut n, mut skip) = (0, self.skip);
        let look = |value: Value<'_>| {
            if !meter.step() {
                return false;
            }
            let place = if self.back { len - 1 - n } else { n };
            n += 1;
            left -= 1;
            let continues = match value.bytes(&mut Digits::new()) == self.text {
                true if skip == 0 => found(place),
                true => {
                    skip -= 1;
                    true
                }
                false => true,
            };
            continues && left > 0
        };
        match self.back {
            false => list.each_from(0, look),
            true => list.each_back_from(0, look),
        }
    }
}

fn lpos(ctx: &mut Ctx<'_>) -> CmdResult {
    let search = Search::parse(ctx)?;
    let key = ctx.key(1);
    let mut places = Vec::new();
    let wanted = match search.count {
        None => 1,
        Some(0) => usize::MAX,
        Some(n) => n,
    };
    if let Some(record) = ctx.db.read(&key) {
        let list = list(&record)?;
        let most = if search.most == 0 { list.len() } else { search.most.min(list.len()) };
        let mut meter = ctx.lane.meter(most, list.search_work(most));
        search.run(list, &mut meter, |place| {
            places.push(place);
            places.len() < wanted
        });
        meter.check(&mut ctx.pause)?;
    }
    match (search.count, places.first()) {
        (None, Some(place)) => ctx.reply.int(*place as i64),
        (None, None) => ctx.reply.null(),
        (Some(_), _) => {
            ctx.reply.array(places.len());
            places.iter().for_each(|place| ctx.reply.int(*place as i64));
        }
    }
    Ok(())
}
