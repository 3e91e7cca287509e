//! The options that SET, GETEX and MSETEX share: the condition and the lifetime.
//!
//! Each command accepts a subset of the options. They are parsed in two passes, because clients can
//! see the order of the errors. The first pass checks the words; anything unexpected is a syntax
//! error. The second pass converts the time, which may be malformed or out of range. A word may be
//! repeated, and so may a time with the same word (the last one counts). Two different conditions
//! or two different lifetimes are an error.

use crate::error::{Error, NOT_AN_INTEGER, SYNTAX};
use weft_base::num;

/// The command whose options are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionsFor {
    Set,
    GetEx,
    MSetEx,
}

/// The condition for setting a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Condition<'a> {
    #[default]
    Always,
    /// NX
    Absent,
    /// XX
    Present,
    /// IFEQ
    Equals(&'a [u8]),
}

/// The effect on a key's expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// No option was given: SET removes the expiry, GETEX keeps it.
    #[default]
    Unspecified,
    /// KEEPTTL
    Keep,
    /// PERSIST
    Persist,
    /// EX, PX, EXAT, PXAT: Unix time in milliseconds, possibly in the past.
    Until(i64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Options<'a> {
    pub condition: Condition<'a>,
    /// GET: return the old value.
    pub get: bool,
    pub lifetime: Lifetime,
}

/// The unit and base of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// EX
    Seconds,
    /// PX
    Millis,
    /// EXAT
    UnixSeconds,
    /// PXAT
    UnixMillis,
}

impl Unit {
    pub(super) fn of(word: &[u8]) -> Option<Unit> {
        [
            (&b"EX"[..], Unit::Seconds),
            (b"PX", Unit::Millis),
            (b"EXAT", Unit::UnixSeconds),
            (b"PXAT", Unit::UnixMillis),
        ]
        .into_iter()
        .find_map(|(name, unit)| word.eq_ignore_ascii_case(name).then_some(unit))
    }
}

/// The Unix time in milliseconds of `text` in `unit`. `now` is in Unix milliseconds. `command`
/// appears in the error for a time that is not positive or overflows 64 bits.
pub(super) fn expiry(text: &[u8], unit: Unit, now: i64, command: &str) -> Result<i64, Error> {
    let n = num::parse_i64(text).ok_or(NOT_AN_INTEGER)?;
    let at = match unit {
        _ if n <= 0 => None,
        Unit::Seconds => n.checked_mul(1000).and_then(|ms| ms.checked_add(now)),
        Unit::Millis => n.checked_add(now),
        Unit::UnixSeconds => n.checked_mul(1000),
        Unit::UnixMillis => Some(n),
    };
    at.ok_or_else(|| Error::owned(format!("ERR invalid expire time in '{command}' command")))
}

/// A parsed lifetime option, its time not yet converted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LifetimeOption<'a> {
    Nothing,
    Keep,
    Persist,
    Until(Unit, &'a [u8]),
}

impl<'a> Options<'a> {
    /// Parses the options `words` of a command executed at `now` (Unix milliseconds).
    pub fn parse(words: &[&'a [u8]], options_for: OptionsFor, now: i64) -> Result<Self, Error> {
        let mut options = Options::default();
        let mut lifetime_option = LifetimeOption::Nothing;
        let mut rest = words.iter().copied();
        while let Some(word) = rest.next() {
            if let Some(unit) = Unit::of(word) {
                let text = rest.next().ok_or(SYNTAX)?;
                match lifetime_option {
                    LifetimeOption::Nothing => {}
                    LifetimeOption::Until(before, _) if before == unit => {}
                    LifetimeOption::Until(..) | LifetimeOption::Keep | LifetimeOption::Persist => {
                        return Err(SYNTAX);
                    }
                }
                lifetime_option = LifetimeOption::Until(unit, text);
            } else if let Some(lifetime) = lifetime_word(word, options_for) {
                if lifetime_option != LifetimeOption::Nothing && lifetime_option != lifetime {
                    return Err(SYNTAX);
                }
                lifetime_option = lifetime;
            } else if options_for == OptionsFor::Set && word.eq_ignore_ascii_case(b"GET") {
                options.get = true;
            } else {
                let condition = condition_word(word, options_for, &mut rest)?;
                let repeated = condition == options.condition
                    && !matches!(options.condition, Condition::Equals(_));
                if options.condition != Condition::Always && !repeated {
                    return Err(SYNTAX);
                }
                options.condition = condition;
            }
        }
        options.lifetime = match lifetime_option {
            LifetimeOption::Nothing => Lifetime::Unspecified,
            LifetimeOption::Keep => Lifetime::Keep,
            LifetimeOption::Persist => Lifetime::Persist,
            LifetimeOption::Until(unit, text) => {
                Lifetime::Until(expiry(text, unit, now, options_for.name())?)
            }
        };
        Ok(options)
    }
}

fn lifetime_word(word: &[u8], options_for: OptionsFor) -> Option<LifetimeOption<'static>> {
    match options_for {
        OptionsFor::Set | OptionsFor::MSetEx => {
            word.eq_ignore_ascii_case(b"KEEPTTL").then_some(LifetimeOption::Keep)
        }
        OptionsFor::GetEx => {
            word.eq_ignore_ascii_case(b"PERSIST").then_some(LifetimeOption::Persist)
        }
    }
}

fn condition_word<'a>(
    word: &[u8],
    options_for: OptionsFor,
    rest: &mut impl Iterator<Item = &'a [u8]>,
) -> Result<Condition<'a>, Error> {
    if options_for == OptionsFor::GetEx {
        Err(SYNTAX)
    } else if word.eq_ignore_ascii_case(b"NX") {
        Ok(Condition::Absent)
    } else if word.eq_ignore_ascii_case(b"XX") {
        Ok(Condition::Present)
    } else if options_for == OptionsFor::Set && word.eq_ignore_ascii_case(b"IFEQ") {
        rest.next().map(Condition::Equals).ok_or(SYNTAX)
    } else {
        Err(SYNTAX)
    }
}

impl OptionsFor {
    fn name(self) -> &'static str {
        match self {
            OptionsFor::Set => "set",
            OptionsFor::GetEx => "getex",
            OptionsFor::MSetEx => "msetex",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;

    fn parse(text: &str, options_for: OptionsFor) -> Result<Options<'_>, Error> {
        let words: Vec<&[u8]> = text.split_whitespace().map(str::as_bytes).collect();
        Options::parse(&words, options_for, NOW)
    }

    #[test]
    fn each_command_accepts_its_options() {
        use OptionsFor::{GetEx, MSetEx, Set};
        let plain = Options::default();
        let with = |condition, get, lifetime| Options { condition, get, lifetime };
        let until = |at| Options { lifetime: Lifetime::Until(at), ..plain };
        let cases = [
            ("", Set, plain),
            ("nx", Set, with(Condition::Absent, false, Lifetime::Unspecified)),
            ("NX NX GET get", Set, with(Condition::Absent, true, Lifetime::Unspecified)),
            ("XX KEEPTTL keepttl", MSetEx, with(Condition::Present, false, Lifetime::Keep)),
            ("IFEQ NX GET", Set, with(Condition::Equals(b"NX"), true, Lifetime::Unspecified)),
            (
                "IFEQ EX EX 5",
                Set,
                with(Condition::Equals(b"EX"), false, Lifetime::Until(1_005_000)),
            ),
            ("PERSIST persist", GetEx, with(Condition::Always, false, Lifetime::Persist)),
            ("EX 1 EX 2", Set, until(1_002_000)),
            ("px 7", GetEx, until(1_000_007)),
            ("EXAT 3", GetEx, until(3000)),
            ("PXAT 3", MSetEx, until(3)),
            ("PXAT 9223372036854775807", Set, until(i64::MAX)),
            ("EXAT 9223372036854775", Set, until(9_223_372_036_854_775_000)),
            ("PX 9223372036853775807", Set, until(i64::MAX)),
        ];
        for (text, options_for, want) in cases {
            assert_eq!(parse(text, options_for), Ok(want), "{text}");
        }
    }

    #[test]
    fn syntax_errors_come_first() {
        use OptionsFor::{GetEx, MSetEx, Set};
        for (text, options_for) in [
            ("NX XX", Set),
            ("XX NX", MSetEx),
            ("IFEQ a IFEQ a", Set),
            ("NX IFEQ a", Set),
            ("IFEQ a XX", Set),
            ("IFEQ", Set),
            ("IFEQ a", MSetEx),
            ("GET", MSetEx),
            ("GET", GetEx),
            ("NX", GetEx),
            ("KEEPTTL", GetEx),
            ("PERSIST", Set),
            ("PERSIST", MSetEx),
            ("PERSIST EX 1", GetEx),
            ("EX 1 PX 1", Set),
            ("EX 1 KEEPTTL", Set),
            ("KEEPTTL PXAT 1", Set),
            ("EX", Set),
            ("EX abc nonsense", Set),
            ("EX 0 nonsense", GetEx),
        ] {
            assert_eq!(parse(text, options_for), Err(SYNTAX), "{text}");
        }
    }

    #[test]
    fn invalid_times_are_errors() {
        for text in ["EX abc", "PX 1.5", "EXAT 01", "NX PXAT 9223372036854775808"] {
            assert_eq!(parse(text, OptionsFor::Set), Err(NOT_AN_INTEGER), "{text}");
        }
        for text in [
            "EX 0",
            "PX -1",
            "EXAT 0",
            "PXAT -5",
            "EX 9223372036854775",
            "EXAT 9223372036854776",
            "PX 9223372036853775808",
        ] {
            let error = parse(text, OptionsFor::MSetEx).unwrap_err();
            assert_eq!(error.0, &b"ERR invalid expire time in 'msetex' command"[..], "{text}");
        }
    }
}
