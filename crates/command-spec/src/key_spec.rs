//! Key specifications: which arguments of a command are keys.

/// Where the search for keys begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this argument (the command's name is argument 0).
    Index(u16),
    /// After this word, searched from argument `start` (negative: backwards from the end).
    Keyword {
        word: &'static str,
        start: i16,
    },
    Unknown,
}

/// Which arguments after the beginning are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// Every `step`-th up to `last` (relative to the beginning; negative: from the end of the
    /// arguments, -1 being the last one). With `last` -1, `limit` 2 or more means the first
    /// 1/`limit` of the remaining arguments.
    Range {
        last: i16,
        step: u16,
        limit: u16,
    },
    /// The number of keys is at `num`, the keys are from `first` on (both relative).
    KeyNum {
        num: u16,
        first: u16,
        step: u16,
    },
    Unknown,
}

/// A word of [`KeySpec::flags`]: the arguments are not keys, but channels that hash to a slot.
pub const NOT_A_KEY: &str = "not_key";

/// How one group of a command's arguments names keys, as in COMMAND INFO's key
/// specifications. `flags` are its words ("RW", "ACCESS", "UPDATE" ...).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    pub flags: &'static [&'static str],
    pub begin: Begin,
    pub find: Find,
    pub notes: &'static str,
}

impl KeySpec {
    /// Whether any request could have a key at `at`.
    pub(crate) fn may_be_at(&self, at: usize) -> bool {
        let start = match self.begin {
            Begin::Index(i) => usize::from(i),
            Begin::Keyword { .. } | Begin::Unknown => return true,
        };
        let (first, last, step) = match self.find {
            Find::Range { last, step, .. } => {
                let last = usize::try_from(last).map_or(usize::MAX, |last| start + last);
                (start, last, step)
            }
            Find::KeyNum { first, step, .. } => (start + usize::from(first), usize::MAX, step),
            Find::Unknown => return true,
        };
        (first..=last).contains(&at) && (at - first).is_multiple_of(usize::from(step.max(1)))
    }

    /// As [`Spec::key_positions`](crate::Spec::key_positions), for this specification alone.
    pub fn positions(&self, args: &[&[u8]], found: impl FnMut(usize)) -> Option<()> {
        let start = match self.begin {
            Begin::Index(i) => usize::from(i),
            Begin::Keyword { word, start } => match keyword(args, word, start) {
                Some(at) => at + 1,
                None => return Some(()),
            },
            Begin::Unknown => return Some(()),
        };
        if start >= args.len() {
            return Some(());
        }
        match self.find {
            Find::Range { last, step, limit } => {
                let last = match last {
                    0.. => start + last as usize,
                    -1 if limit >= 2 => start + (args.len() - start) / usize::from(limit) - 1,
                    _ => (args.len() as i64 + i64::from(last)) as usize,
                };
                let last = last.min(args.len() - 1);
                (start..=last).step_by(usize::from(step.max(1))).for_each(found);
            }
            Find::KeyNum { num, first, step } => {
                let count = weft_base::num::parse_i64(args.get(start + usize::from(num))?)?;
                let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
                let step = usize::from(step.max(1));
                let first = start + usize::from(first);
                if count.checked_mul(step)?.checked_add(first)? > args.len() + step - 1 {
                    return None;
                }
                (0..count).map(|n| first + n * step).for_each(found);
            }
            Find::Unknown => {}
        }
        Some(())
    }
}

fn keyword(args: &[&[u8]], word: &str, start: i16) -> Option<usize> {
    let is_word = |i: &usize| args[*i].eq_ignore_ascii_case(word.as_bytes());
    if start >= 0 {
        (start as usize..args.len()).find(is_word)
    } else {
        let from = args.len().checked_sub(start.unsigned_abs() as usize)?;
        (1..=from).rev().find(is_word)
    }
}

/// A key whose position does not depend on the arguments.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedKey {
    /// Its position. At least 1.
    pub at: usize,
    /// In requests of up to this many arguments, the name included, it is the only key.
    pub only_key_up_to: usize,
}

/// The first key of a command with these specifications, if its position is fixed.
pub(crate) fn fixed_key(keys: &[KeySpec]) -> Option<FixedKey> {
    let (first, rest) = keys.split_first()?;
    let (Begin::Index(at), Find::Range { last, step, limit }) = (first.begin, first.find) else {
        return None;
    };
    // A channel: cluster clients use its position to choose a node.
    if first.flags.contains(&NOT_A_KEY) {
        return None;
    }
    let only_key_up_to = if rest.is_empty() { only_key_up_to(at, last, step, limit) } else { 0 };
    Some(FixedKey { at: usize::from(at), only_key_up_to })
}

/// The number of arguments up to which the key at `first` is the only one of a range of keys.
fn only_key_up_to(first: u16, last: i16, step: u16, limit: u16) -> usize {
    match usize::try_from(-i32::from(last)) {
        Ok(0) => usize::MAX,
        // `last` counts from the end of the arguments: the next key would be at `first + step`.
        Ok(from_end) if limit < 2 => usize::from(first) + usize::from(step) + from_end - 1,
        Ok(_) | Err(_) => 0,
    }
}

/// First key, last key and step, in the form used before key specifications existed. The one range
/// covers all specifications that are plain ranges at a fixed place, as far as they are contiguous.
pub fn legacy_range(keys: &[KeySpec]) -> (i64, i64, i64) {
    let absolute = |first: u16, last: i16| match last {
        0.. => i64::from(first) + i64::from(last),
        _ => i64::from(last),
    };
    if let [KeySpec { begin: Begin::Index(first), find: Find::Range { last, step, .. }, .. }] = keys
    {
        return (i64::from(*first), absolute(*first, *last), i64::from(*step));
    }
    let mut range: Option<(i64, i64)> = None;
    for key in keys {
        let (Begin::Index(first), Find::Range { last, step: 1, .. }) = (key.begin, key.find) else {
            continue;
        };
        let last = absolute(first, last);
        let first = i64::from(first);
        match range {
            None => range = Some((first, last)),
            Some((start, end)) if end == first - 1 => range = Some((start, last)),
            Some(_) => {}
        }
    }
    range.map_or((0, 0, 0), |(first, last)| (first, last, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    #[test]
    fn legacy_range_covers_contiguous_specs() {
        let far = Find::Range { last: -1, step: 1, limit: 0 };
        let key = |index, find| KeySpec { flags: &[], begin: Begin::Index(index), find, notes: "" };
        let plain = Find::Range { last: 0, step: 1, limit: 0 };
        assert_eq!(legacy_range(&[]), (0, 0, 0));
        assert_eq!(legacy_range(&keys::one(&[])), (1, 1, 1));
        assert_eq!(legacy_range(&keys::all(2, &[])), (1, -1, 2));
        assert_eq!(legacy_range(&[key(1, plain), key(2, plain)]), (1, 2, 1));
        assert_eq!(legacy_range(&[key(2, plain), key(3, far)]), (2, -1, 1));
        let counted = Find::KeyNum { num: 0, first: 1, step: 1 };
        assert_eq!(legacy_range(&[key(1, counted)]), (0, 0, 0));
        assert_eq!(legacy_range(&[key(1, plain), key(2, counted)]), (1, 1, 1));
    }
}
