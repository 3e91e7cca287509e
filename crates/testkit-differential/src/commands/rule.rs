//! A line of the tables.

use crate::compare::Compare;

/// One line of a table.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its frequency, relative to its group.
    pub weight: u32,
    /// The command or script.
    pub syntax: &'static str,
    /// The comparison of the reply, if the rule is a single command. The commands of a script are
    /// compared by their own rules.
    pub compare: Compare,
    /// Whether some of its commands are made invalid.
    pub mutable: bool,
    /// Whether it is left out if one of the servers lacks one of its commands or subcommands.
    pub optional: bool,
}

/// A rule for commands that are made invalid now and then.
pub const fn rule(weight: u32, syntax: &'static str, compare: Compare) -> Rule {
    Rule { weight, syntax, compare, mutable: true, optional: false }
}

/// A rule that is never made invalid, because an invalid form could have another effect.
pub const fn fixed(weight: u32, syntax: &'static str, compare: Compare) -> Rule {
    Rule { weight, syntax, compare, mutable: false, optional: false }
}

/// A rule for commands that both servers must have.
pub const fn optional(weight: u32, syntax: &'static str, compare: Compare) -> Rule {
    Rule { weight, syntax, compare, mutable: true, optional: true }
}

/// An optional rule that is never made invalid.
pub const fn optional_fixed(weight: u32, syntax: &'static str, compare: Compare) -> Rule {
    Rule { weight, syntax, compare, mutable: false, optional: true }
}
