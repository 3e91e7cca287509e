//! Key specifications shared by many commands.

use crate::key_spec::{Begin, Find, KeySpec};

/// One key at argument 1 with these flags.
pub const fn one(flags: &'static [&'static str]) -> [KeySpec; 1] {
    at(1, flags)
}

/// One key at argument `index`.
pub const fn at(index: u16, flags: &'static [&'static str]) -> [KeySpec; 1] {
    let find = Find::Range { last: 0, step: 1, limit: 0 };
    [KeySpec { flags, begin: Begin::Index(index), find, notes: "" }]
}

/// All arguments from 1 on, every `step`-th.
pub const fn all(step: u16, flags: &'static [&'static str]) -> [KeySpec; 1] {
    let find = Find::Range { last: -1, step, limit: 0 };
    [KeySpec { flags, begin: Begin::Index(1), find, notes: "" }]
}
