//! Keys built from elements: `weight_*` and `user_*->age`.

use crate::ctx::Ctx;
use crate::error::Error;
use crate::string::range::BYTES_PER_ELEMENT;
use weft_types::hash::Hash;
use weft_types::string::{Digits, Str};

/// The value of the key that `pattern` gives for `element`: the element replaces the first star.
/// With `->field` after the star, that field of a hash. `None` if there is no such value.
///
/// # Errors
///
/// The copy of a long value must run in the slow lane.
pub fn look_up(
    ctx: &mut Ctx<'_>,
    pattern: &[u8],
    element: &[u8],
) -> Result<Option<Vec<u8>>, Error> {
    let Some(star) = pattern.iter().position(|b| *b == b'*') else { return Ok(None) };
    let (prefix, suffix) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = suffix.windows(2).position(|w| w == b"->");
    // An arrow at the very end is part of the name.
    let (suffix, field) = match arrow {
        Some(at) if at + 2 < suffix.len() => (&suffix[..at], Some(&suffix[at + 2..])),
        Some(_) | None => (suffix, None),
    };
    let name = [prefix, element, suffix].concat();
    let key = ctx.db.key(&name);
    let now = ctx.over_ms();
    let Some(record) = ctx.db.read(&key) else { return Ok(None) };
    let mut room = Digits::new();
    Ok(match (field, Str::of(&record)) {
        (None, Some(text)) => {
            ctx.lane.weigh(text.len() / BYTES_PER_ELEMENT, &mut ctx.pause)?;
            Some(text.bytes(&mut room).into_owned())
        }
        (None, None) => None,
        (Some(field), _) => Hash::of(&record, now).and_then(|hash| Some(hash.get(field)?.to_vec())),
    })
}
