//! One directive of the configuration: its entry in the table.
//!
//! A [`Directive`] holds everything that is known about `maxmemory` or `bind` in one place: how it
//! is spelled (today and in older files), what values it takes, its default, which clients may
//! change it and when, whether it has an effect in this version, and a paragraph for the reader of
//! `weft.conf`. Parsing, `CONFIG GET`, `SET`, `REWRITE`, every error message
//! and the documented default file are computed from these entries; no other
//! code knows a directive by its name.
//!
//! Entries are in `table/`, one file per section, written with the [`section!`](crate::table)
//! macro, which also gives each of them its [`Id`]: a small number that the server uses as
//! `Id::MAXMEMORY`. Ids are dense and follow the order of the table, so that values live in a plain
//! vector, and they are not stable between versions.

use crate::kind::Kind;
use crate::table;

/// The number of a directive: its place in the table.
///
/// `Id::PORT`, `Id::MAXMEMORY`, ... are defined by the table's sections.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub(crate) u16);

impl Id {
    /// The directive's entry in the table.
    pub fn directive(self) -> &'static Directive {
        table::TABLE[self.index()]
    }

    /// The current spelling of the directive's name.
    pub fn name(self) -> &'static str {
        self.directive().name
    }

    /// The directive spelled `name` (current or older spelling, any case).
    pub fn from_name(name: &[u8]) -> Option<Id> {
        table::lookup(name).map(|found| found.id)
    }

    /// Every directive in the order of the table.
    pub fn all() -> impl Iterator<Item = Id> {
        (0..table::COUNT as u16).map(Id)
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl std::fmt::Debug for Id {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Id({})", self.name())
    }
}

/// One entry of the table.
#[derive(Debug)]
pub struct Directive {
    /// Its number; equal to its place in the table.
    pub id: Id,
    /// Current spelling, lower case.
    pub name: &'static str,
    /// Older or alternative spellings, lower case. `CONFIG GET` with a pattern returns them in
    /// addition to `name`.
    pub aliases: &'static [&'static str],
    /// Which values it takes.
    pub kind: Kind,
    /// The default value, in the form of a file. Statements have none until they are written; for
    /// them this is an example.
    pub default: &'static str,
    /// Which clients may change it, and how it is shown.
    pub flags: Flags,
    /// Whether setting it does something in this version.
    pub status: Status,
    /// A paragraph for `weft.conf`.
    pub doc: &'static str,
}

/// Properties of a directive, as a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags(u16);

impl Flags {
    /// No property.
    pub const NONE: Flags = Flags(0);
    /// Fixed at start: `CONFIG SET` refuses it.
    pub const IMMUTABLE: Flags = Flags(1);
    /// Holds a secret: to be hidden in MONITOR, the command log and the log.
    pub const SENSITIVE: Flags = Flags(1 << 1);
    /// Answered by `CONFIG GET` under its exact name only, not to patterns,
    /// and left out of `weft.conf`.
    pub const HIDDEN: Flags = Flags(1 << 2);
    /// Takes several arguments: a list, or one quoted string of words.
    pub const MULTI: Flags = Flags(1 << 3);
    /// Changed at run time only as `enable-protected-configs` allows.
    pub const PROTECTED: Flags = Flags(1 << 4);
    /// Refused by `CONFIG SET` while a data set is being loaded.
    pub const DENY_LOADING: Flags = Flags(1 << 5);
    /// Of interest in a crash report.
    pub const DEBUG: Flags = Flags(1 << 6);
    /// Applied again by `CONFIG SET` even when the value is the same, because
    /// the file it names may have changed.
    pub const VOLATILE: Flags = Flags(1 << 7);
    /// May stand several times in one file; what it says adds up.
    pub const REPEATABLE: Flags = Flags(1 << 8);

    /// Both sets together.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether every property of `other` is in this set.
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Whether setting a directive does something in this version.
///
/// Files written for other servers must load, so directives are known before the features they
/// belong to. Directives without effect yet say so, in `weft.conf` and, through
/// [`crate::Config::ineffective`], in the log at start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It acts.
    Effective,
    /// The feature named has not arrived: the value is kept and answered.
    NotYet(&'static str),
    /// It belongs to a mechanism that this server does not have, for the
    /// reason given, and will not get an effect.
    Obsolete(&'static str),
}
