//! What stands between the key of XADD or XTRIM and the rest: how to trim, and the entry's id.
//!
//! Both are read by one loop, in the order of the arguments, since that is the order of the errors.

use super::{INVALID_ID, id};
use crate::ctx::Ctx;
use crate::error::{Error, SYNTAX};
use weft_base::num::parse_i64;
use weft_types::stream::{Keep, Trim, Wanted};

const TWO_STRATEGIES: Error =
    Error::new("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
const NEGATIVE_MAXLEN: Error = Error::new("ERR The MAXLEN argument must be >= 0.");
const NEGATIVE_LIMIT: Error = Error::new("ERR The LIMIT argument must be >= 0.");
const LIMIT_ALONE: Error =
    Error::new("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
const NO_STRATEGY: Error =
    Error::new("ERR syntax error, XTRIM must be called with a trimming strategy");
const EXACT_LIMIT: Error =
    Error::new("ERR syntax error, LIMIT cannot be used without the special ~ option");

/// The arguments of XADD up to the entry's id.
pub(super) struct Add {
    pub(super) trim: Option<Trim>,
    /// Whether the key is made when it is missing: not with NOMKSTREAM.
    pub(super) create: bool,
    pub(super) id: Wanted,
    /// Where the id stands.
    pub(super) at: usize,
}

/// What has been read so far.
struct Options {
    keep: Option<Keep>,
    approximate: bool,
    limit: Option<u64>,
    create: bool,
}

impl Options {
    fn new() -> Self {
        Options { keep: None, approximate: false, limit: None, create: true }
    }

    /// Reads the option at `i`, if one is there; where it ends.
    fn read(&mut self, ctx: &Ctx<'_>, i: usize) -> Result<Option<usize>, Error> {
        let last = ctx.args.len() - 1;
        let (maxlen, minid) = (ctx.is(i, "maxlen"), ctx.is(i, "minid"));
        if i < last && (maxlen || minid) {
            if self.keep.is_some() {
                return Err(TWO_STRATEGIES);
            }
            let sign = if i + 2 <= last { ctx.args[i + 1] } else { b"" };
            self.approximate = sign == b"~";
            let at = i + 1 + usize::from(matches!(sign, b"~" | b"="));
            self.keep = Some(if maxlen {
                let most = ctx.int(at)?;
                Keep::Newest(u64::try_from(most).map_err(|_| NEGATIVE_MAXLEN)?)
            } else {
                Keep::From(id(ctx.args[at])?)
            });
            return Ok(Some(at + 1));
        }
        if i < last && ctx.is(i, "limit") {
            let limit = ctx.int(i + 1)?;
            self.limit = Some(u64::try_from(limit).map_err(|_| NEGATIVE_LIMIT)?);
            return Ok(Some(i + 2));
        }
        Ok(None)
    }

    /// What is to be trimmed, when all is read; `must`: something is.
    fn trim(&self, ctx: &Ctx<'_>, must: bool) -> Result<Option<Trim>, Error> {
        /// Entries of a hundred nodes, when nothing else is said, within these bounds.
        const NODES: usize = 100;
        const MOST: u64 = 1_000_000;
        const UNBOUNDED: u64 = 10_000;
        if self.limit.is_some_and(|limit| limit > 0) && self.keep.is_none() {
            return Err(LIMIT_ALONE);
        }
        if must && self.keep.is_none() {
            return Err(NO_STRATEGY);
        }
        let limit = match (self.limit, self.approximate) {
            (Some(_), false) => return Err(EXACT_LIMIT),
            (Some(limit), true) => limit,
            (None, false) => 0,
            (None, true) => match ctx.settings.limits.stream_node_entries {
                0 => UNBOUNDED,
                entries => MOST.min(entries.saturating_mul(NODES) as u64),
            },
        };
        let limit = (limit > 0).then_some(limit);
        Ok(self.keep.map(|keep| Trim { keep, approximate: self.approximate, limit }))
    }
}

/// Reads the arguments of XADD from the one behind the key to the entry's id.
pub(super) fn add(ctx: &Ctx<'_>) -> Result<Add, Error> {
    let mut options = Options::new();
    let mut i = 2;
    let mut id = None;
    while i < ctx.args.len() {
        // A star is an id, and most often what stands here.
        if ctx.args[i] == b"*" {
            id = Some(Wanted::Any);
            break;
        }
        i = match options.read(ctx, i)? {
            Some(behind) => behind,
            None if ctx.is(i, "nomkstream") => {
                options.create = false;
                i + 1
            }
            None => {
                id = Some(Wanted::parse(ctx.args[i]).ok_or(INVALID_ID)?);
                break;
            }
        };
    }
    let trim = options.trim(ctx, false)?;
    // Without an id there are no fields either, which is what the caller finds wrong.
    Ok(Add { trim, create: options.create, id: id.unwrap_or(Wanted::Any), at: i })
}

/// Reads the arguments of XTRIM behind the key.
pub(super) fn trim(ctx: &Ctx<'_>) -> Result<Trim, Error> {
    let mut options = Options::new();
    let mut i = 2;
    while i < ctx.args.len() {
        i = options.read(ctx, i)?.ok_or(SYNTAX)?;
    }
    options.trim(ctx, true)?.ok_or(NO_STRATEGY)
}

/// How these arguments of XADD or XTRIM trim, as far as that can be told without reading all of them as
/// the command does: for who wants to know how much work it is.
pub(super) fn trim_of(args: &[&[u8]]) -> Option<Trim> {
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    // A field of an entry may have such a name; it stands behind the id.
    let at = args.iter().skip(2).position(|word| is(word, "maxlen") || is(word, "minid"))? + 2;
    let approximate = *args.get(at + 1)? == b"~";
    let sign = matches!(*args.get(at + 1)?, b"~" | b"=");
    let threshold = args.get(at + 1 + usize::from(sign))?;
    let keep = match is(args[at], "maxlen") {
        true => Keep::Newest(parse_i64(threshold).and_then(|n| u64::try_from(n).ok())?),
        false => Keep::From(id(threshold).ok()?),
    };
    Some(Trim { keep, approximate, limit: None })
}
