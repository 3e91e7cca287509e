//! Keys that are made from elements: `weight_*` and `user_*->age`.

use crate::ctx::Ctx;
use weft_types::hash::Hash;
use weft_types::string::{Digits, Str};

/// The value of the key that `pattern` makes of `element`: its first star is replaced. With
/// `->field` behind the star, that field of a hash. `None` when there is no such value.
pub fn look_up(ctx: &mut Ctx<'_>, pattern: &[u8], element: &[u8]) -> Option<Vec<u8>> {
    let star = pattern.iter().position(|b| *b == b'*')?;
    let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = behind.windows(2).position(|w| w == b"->");
    // An arrow at the very end is part of the name.
    let (behind, field) = match arrow {
        Some(at) if at + 2 < behind.len() => (&behind[..at], Some(&behind[at + 2..])),
        Some(_) | None => (behind, None),
    };
    let name = [before, element, behind].concat();
    let key = ctx.db.key(&name);
    let now = ctx.over_ms();
    let record = ctx.db.read(&key)?;
    match field {
        None => Some(Str::of(&record)?.bytes(&mut Digits::new()).to_vec()),
        Some(field) => Some(Hash::of(&record, now)?.get(field)?.to_vec()),
    }
}
