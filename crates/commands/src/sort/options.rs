//! The options of SORT, after the key.

use crate::ctx::Ctx;
use crate::error::{Error, SYNTAX};
use std::ops::Range;
use weft_base::slot;

const BY_LEAVES_SLOT: Error = Error::new(
    "ERR BY option of SORT denied in Cluster mode when keys formed by the pattern may be in \
     different slots.",
);
const GET_LEAVES_SLOT: Error = Error::new(
    "ERR GET option of SORT denied in Cluster mode when keys formed by the pattern may be in \
     different slots.",
);

/// A value to return for each element.
pub enum Get<'a> {
    /// `#`: the element itself.
    Element,
    /// The value of the key that this pattern gives for the element.
    Pattern(&'a [u8]),
}

#[derive(Default)]
pub struct Options<'a> {
    pub descending: bool,
    pub alpha: bool,
    /// BY with a pattern without a star: keep the order of the elements.
    pub unsorted: bool,
    pub by: Option<&'a [u8]>,
    pub get: Vec<Get<'a>>,
    /// Offset and count.
    limit: Option<(i64, i64)>,
    /// The argument position of the destination.
    pub store: Option<usize>,
}

/// Whether the keys that `pattern` names may be in another slot than the sorted key, which a cluster doesn't allow.
fn leaves_slot(ctx: &Ctx<'_>, pattern: &[u8]) -> bool {
    ctx.settings.cluster && slot::pattern_slot(pattern) != Some(slot::key_slot(ctx.args[1]))
}

impl<'a> Options<'a> {
    /// Whether the sort may read fields of hashes. Fields that have expired here may still exist on
    /// replicas and in a replay, so the result is logged instead of the command.
    pub fn reads_fields(&self) -> bool {
        let has_arrow = |pattern: &[u8]| pattern.windows(2).any(|w| w == b"->");
        let gets = self.get.iter().any(|get| match get {
            Get::Element => false,
            Get::Pattern(pattern) => has_arrow(pattern),
        });
        gets || self.by.is_some_and(has_arrow)
    }

    pub fn parse(ctx: &Ctx<'a>, may_store: bool) -> Result<Options<'a>, Error> {
        let mut options = Options::default();
        let mut i = 2;
        while i < ctx.args.len() {
            let left = ctx.args.len() - i - 1;
            i += match () {
                () if ctx.is(i, "asc") => {
                    options.descending = false;
                    1
                }
                () if ctx.is(i, "desc") => {
                    options.descending = true;
                    1
                }
                () if ctx.is(i, "alpha") => {
                    options.alpha = true;
                    1
                }
                () if ctx.is(i, "limit") && left >= 2 => {
                    options.limit = Some((ctx.int(i + 1)?, ctx.int(i + 2)?));
                    3
                }
                () if may_store && ctx.is(i, "store") && left >= 1 => {
                    options.store = Some(i + 1);
                    2
                }
                () if ctx.is(i, "by") && left >= 1 => {
                    let pattern = ctx.args[i + 1];
                    if pattern.contains(&b'*') && leaves_slot(ctx, pattern) {
                        return Err(BY_LEAVES_SLOT);
                    }
                    options.by = Some(pattern);
                    options.unsorted |= !pattern.contains(&b'*');
                    2
                }
                () if ctx.is(i, "get") && left >= 1 => {
                    options.get.push(match ctx.args[i + 1] {
                        b"#" => Get::Element,
                        pattern if leaves_slot(ctx, pattern) => return Err(GET_LEAVES_SLOT),
                        pattern => Get::Pattern(pattern),
                    });
                    2
                }
                () => return Err(SYNTAX),
            };
        }
        Ok(options)
    }

    /// The positions of the wanted elements among `len` sorted ones.
    pub fn window(&self, len: usize) -> Range<usize> {
        let Some((offset, count)) = self.limit else { return 0..len };
        let start = usize::try_from(offset).unwrap_or(0).min(len);
        match usize::try_from(count) {
            Ok(count) => start..start.saturating_add(count).min(len),
            Err(_) => start..len,
        }
    }
}
