//! The shared parts of HSCAN, SSCAN and ZSCAN: options, work per call, reply.
//!
//! A command of the family checks in the order in which the reference reports errors: [`cursor`],
//! the key (an empty reply if it is absent, an error for another type), [`Options::parse`]. A
//! packed value is returned whole with cursor 0. A large value is scanned by [`Options::scan`],
//! which takes as many steps as COUNT asks for. Matching elements go into a [`ScanReply`], which
//! writes the reply.
//!
//! COUNT counts the elements examined, not the elements returned. So a call takes bounded time,
//! however few elements match.

use crate::error::{Error, NOT_AN_INTEGER, SYNTAX};
use weft_base::glob::Pattern;
use weft_base::num;
use weft_resp::{Proto, Reply};
use weft_types::Type;

const INVALID_CURSOR: Error = Error::new("ERR invalid cursor");
pub(crate) const NOVALUES: Error = Error::new("ERR NOVALUES option can only be used in HSCAN");
pub(crate) const NOSCORES: Error = Error::new("ERR NOSCORES option can only be used in ZSCAN");

/// Elements examined per call when COUNT is not given.
pub(crate) const DEFAULT_COUNT: u64 = 10;
/// Steps of a scan per element of COUNT: a step over a sparse table may find nothing.
pub(crate) const STEPS_PER_COUNT: u64 = 10;

/// A client's cursor: any 64-bit number is valid.
pub(crate) fn cursor(text: &[u8]) -> Result<u64, Error> {
    num::parse_u64_loose(text).ok_or(INVALID_CURSOR)
}

/// The value of COUNT.
pub(crate) fn count(text: &[u8]) -> Result<u64, Error> {
    let count = num::parse_i64(text).ok_or(NOT_AN_INTEGER)?;
    u64::try_from(count).ok().filter(|n| *n > 0).ok_or(SYNTAX)
}

/// The value of MATCH. A lone star also matches the empty text, which the glob language does not.
pub(crate) fn pattern(text: &[u8]) -> Option<Pattern<'_>> {
    Some(text).filter(|pattern| *pattern != b"*").map(Pattern::new)
}

/// The options of a scan over a key's value.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    count: u64,
    pattern: Option<Pattern<'a>>,
    /// NOVALUES or NOSCORES was given: the reply has only fields or members.
    pub(crate) names_only: bool,
}

impl<'a> Options<'a> {
    /// Parses the options after the cursor, in a scan over a value of this type.
    pub(crate) fn parse(mut rest: &[&'a [u8]], of: Type) -> Result<Options<'a>, Error> {
        let mut options = Options { count: DEFAULT_COUNT, pattern: None, names_only: false };
        loop {
            rest = match rest {
                [] => return Ok(options),
                [word, value, rest @ ..] if word.eq_ignore_ascii_case(b"count") => {
                    options.count = count(value)?;
                    rest
                }
                [word, value, rest @ ..] if word.eq_ignore_ascii_case(b"match") => {
                    options.pattern = pattern(value);
                    rest
                }
                [word, rest @ ..] if word.eq_ignore_ascii_case(b"novalues") => {
                    options.names_only = (of == Type::Hash).then_some(true).ok_or(NOVALUES)?;
                    rest
                }
                [word, rest @ ..] if word.eq_ignore_ascii_case(b"noscores") => {
                    options.names_only = (of == Type::Zset).then_some(true).ok_or(NOSCORES)?;
                    rest
                }
                [..] => return Err(SYNTAX),
            };
        }
    }

    /// Whether a field or member matches MATCH.
    #[inline]
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| pattern.matches(name))
    }

    /// About how many of `elements` a call examines, for [`weigh`](crate::Ctx::weigh).
    pub(crate) fn work(&self, elements: usize) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX).min(elements)
    }

    /// Takes steps from `cursor` until COUNT elements were examined or the scan ends. Returns the
    /// next cursor. `step` takes a cursor and returns the next one (0 at the end) and the number of
    /// elements it examined.
    pub(crate) fn scan(&self, mut cursor: u64, mut step: impl FnMut(u64) -> (u64, usize)) -> u64 {
        let mut total = 0;
        for _ in 0..self.count.saturating_mul(STEPS_PER_COUNT) {
            let (next, examined) = step(cursor);
            cursor = next;
            total += examined as u64;
            if cursor == 0 || total >= self.count {
                break;
            }
        }
        cursor
    }
}

/// The COUNT in a request's options, or the default; `None` if it is not a valid number.
pub(crate) fn requested_count(options: &[&[u8]]) -> Option<usize> {
    let given = options.windows(2).rfind(|pair| pair[0].eq_ignore_ascii_case(b"count"));
    let count = given.map_or(Ok(DEFAULT_COUNT), |pair| count(pair[1])).ok()?;
    usize::try_from(count).ok()
}

/// The elements that one call of a scan returns.
pub(crate) struct ScanReply {
    texts: Reply,
    count: usize,
}

impl ScanReply {
    pub(crate) fn new(proto: Proto) -> Self {
        // Room for the elements of a call with the default COUNT, so that the buffer does not grow
        // step by step.
        const ROOM: usize = 1024;
        let mut texts = Reply::with_capacity(ROOM);
        texts.proto = proto;
        ScanReply { texts, count: 0 }
    }

    /// Adds a member, a field or a value.
    #[inline]
    pub(crate) fn push(&mut self, text: &[u8]) {
        self.texts.bulk(text);
        self.count += 1;
    }

    /// Writes the reply: the cursor of the next call and the elements found.
    pub(crate) fn write_to(mut self, reply: &mut Reply, next: u64) {
        reply.array(2);
        reply.bulk(itoa::Buffer::new().format(next).as_bytes());
        reply.array(self.count);
        reply.append(&mut self.texts);
    }
}
