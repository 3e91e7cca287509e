//! The words behind SORT's key.

use crate::ctx::Ctx;
use crate::error::{Error, SYNTAX};
use std::ops::Range;

/// What is answered for an element.
pub enum Get<'a> {
    /// `#`: itself.
    Element,
    /// The value of the key that this makes of it.
    Pattern(&'a [u8]),
}

/// See the module's description.
#[derive(Default)]
pub struct Options<'a> {
    pub descending: bool,
    pub alpha: bool,
    /// BY a pattern without a star: the order stays.
    pub unsorted: bool,
    pub by: Option<&'a [u8]>,
    pub get: Vec<Get<'a>>,
    /// Offset and count.
    limit: Option<(i64, i64)>,
    /// Position of the destination.
    pub store: Option<usize>,
}

impl<'a> Options<'a> {
    /// Whether fields of hashes may be looked up. Those that have expired and were not removed yet are
    /// still there for whoever repeats a log, so it is the result that is logged.
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
                    options.by = Some(pattern);
                    options.unsorted |= !pattern.contains(&b'*');
                    2
                }
                () if ctx.is(i, "get") && left >= 1 => {
                    options.get.push(match ctx.args[i + 1] {
                        b"#" => Get::Element,
                        pattern => Get::Pattern(pattern),
                    });
                    2
                }
                () => return Err(SYNTAX),
            };
        }
        Ok(options)
    }

    /// Which of `len` elements in order are wanted.
    pub fn window(&self, len: usize) -> Range<usize> {
        let Some((offset, count)) = self.limit else { return 0..len };
        let start = usize::try_from(offset).unwrap_or(0).min(len);
        match usize::try_from(count) {
            Ok(count) => start..start.saturating_add(count).min(len),
            Err(_) => start..len,
        }
    }
}
