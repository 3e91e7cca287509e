//! The options of XADD and XTRIM after the key: how to trim, and the entry's id.
//!
//! One loop parses them in the order of the arguments, because the first invalid argument gives the
//! error.

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
    /// Whether to create a missing key; false with NOMKSTREAM.
    pub(super) create: bool,
    pub(super) id: Wanted,
    /// The position of the id.
    pub(super) at: usize,
}

/// The options parsed so far.
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

    /// Parses the option at `i`, if there is one. Returns the position after it.
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

    /// The trim of the parsed options. With `is_required`, a missing strategy is an error.
    fn trim(&self, ctx: &Ctx<'_>, is_required: bool) -> Result<Option<Trim>, Error> {
        /// The default limit: the entries of a hundred nodes, within these bounds.
        const NODES: usize = 100;
        const MOST: u64 = 1_000_000;
        const UNBOUNDED: u64 = 10_000;
        if self.limit.is_some_and(|limit| limit > 0) && self.keep.is_none() {
            return Err(LIMIT_ALONE);
        }
        if is_required && self.keep.is_none() {
            return Err(NO_STRATEGY);
        }
        let limit = match (self.limit, self.approximate) {
            // The reference's log has approximate trims made exact, but keeps their LIMIT.
            (Some(_), false) if ctx.db.context.is_import_source() => 0,
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

/// Parses the arguments of XADD from the first option to the entry's id.
pub(super) fn add(ctx: &Ctx<'_>) -> Result<Add, Error> {
    let mut options = Options::new();
    let mut i = 2;
    let mut id = None;
    while i < ctx.args.len() {
        // A star is always an id, and the most frequent one.
        if ctx.args[i] == b"*" {
            id = Some(Wanted::Any);
            break;
        }
        i = match options.read(ctx, i)? {
            Some(next) => next,
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
    // Without an id there are no fields either, and the caller reports that.
    Ok(Add { trim, create: options.create, id: id.unwrap_or(Wanted::Any), at: i })
}

/// Parses the arguments of XTRIM after the key.
pub(super) fn trim(ctx: &Ctx<'_>) -> Result<Trim, Error> {
    let mut options = Options::new();
    let mut i = 2;
    while i < ctx.args.len() {
        i = options.read(ctx, i)?.ok_or(SYNTAX)?;
    }
    options.trim(ctx, true)?.ok_or(NO_STRATEGY)
}

/// Estimates how these arguments of XADD or XTRIM trim, without parsing them completely, to compute
/// the work.
pub(super) fn estimate_trim(args: &[&[u8]]) -> Option<Trim> {
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    // A field of an entry may have this name, but fields come after the id.
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
