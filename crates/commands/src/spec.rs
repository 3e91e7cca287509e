//! The static description of a command.
//!
//! One [`Spec`] yields COMMAND INFO / DOCS / COUNT / LIST / GETKEYS, the arity check, the lock
//! plan, the ACL categories and the coverage check of the differential tests.

/// Properties of a command, as COMMAND INFO names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u32);

macro_rules! flags {
    ($($name:ident = $bit:literal $text:literal $(#[$doc:meta])*;)*) => {
        impl Flags {
            $($(#[$doc])* pub const $name: Flags = Flags(1 << $bit);)*
            /// Every flag with the name that COMMAND INFO gives it, in its order.
            pub const ALL: &'static [(Flags, &'static str)] = &[$((Flags::$name, $text)),*];
        }
    };
}

flags! {
    WRITE = 0 "write";
    READONLY = 1 "readonly";
    DENYOOM = 2 "denyoom";
    ADMIN = 4 "admin";
    PUBSUB = 5 "pubsub";
    NOSCRIPT = 6 "noscript";
    BLOCKING = 8 "blocking";
    LOADING = 9 "loading";
    STALE = 10 "stale";
    SKIP_MONITOR = 11 "skip_monitor";
    SKIP_COMMANDLOG = 12 "skip_commandlog";
    ASKING = 13 "asking";
    FAST = 14 "fast";
    NO_AUTH = 15 "no_auth";
    MAY_REPLICATE = 16 "may_replicate";
    NO_MANDATORY_KEYS = 18 "no_mandatory_keys";
    NO_ASYNC_LOADING = 22 "no_async_loading";
    NO_MULTI = 23 "no_multi";
    MOVABLE_KEYS = 24 "movablekeys";
    ALLOW_BUSY = 25 "allow_busy";
}

impl Flags {
    pub const NONE: Flags = Flags(0);

    /// Replicated although COMMAND INFO does not say so: PFCOUNT, PUBLISH and SPUBLISH.
    pub const REPLICATES_UNFLAGGED: Flags = Flags(1 << 31);

    pub const fn or(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
}

/// The group of COMMAND DOCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    String,
    Generic,
    List,
    Set,
    SortedSet,
    Geo,
    Hash,
    /// Strings as bit arrays.
    Bitmap,
    HyperLogLog,
    Stream,
    PubSub,
    Transactions,
    Scripting,
    Connection,
    Server,
    Cluster,
}

impl Group {
    pub fn name(self) -> &'static str {
        match self {
            Group::String => "string",
            Group::Generic => "generic",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Geo => "geo",
            Group::Hash => "hash",
            Group::Bitmap => "bitmap",
            Group::HyperLogLog => "hyperloglog",
            Group::Stream => "stream",
            Group::PubSub => "pubsub",
            Group::Transactions => "transactions",
            Group::Scripting => "scripting",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Cluster => "cluster",
        }
    }
}

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

/// The locks that a command needs.
#[derive(Clone, Copy, Debug)]
pub enum Lock {
    /// The shards of the command's keys.
    Keys,
    /// All shards: the world is stopped.
    World,
    /// All shards that the slow lane does not hold, and the key counts of the others.
    Rest,
    /// The names of all keys at one moment: a stopped world in the fast lane, a cut in the slow
    /// lane.
    Names,
    /// The shards of the keys at the positions that the function returns. All shards if it returns
    /// `None`, because the arguments do not determine the keys.
    Named(fn(&[&[u8]]) -> Option<Vec<usize>>),
    /// The shards from the one in SCAN's cursor on, until they have enough keys.
    ScanRange,
}

/// The description of a command or subcommand.
#[derive(Debug)]
pub struct Spec {
    /// In lower case. A subcommand has its own word here; its full name is `parent|name`.
    pub name: &'static str,
    /// Number of arguments, name included; negative: at least that many.
    pub arity: i16,
    pub flags: Flags,
    pub keys: &'static [KeySpec],
    /// ACL categories, with `@`, in addition to those that the flags and the group imply.
    pub acl: &'static [&'static str],
    pub group: Group,
    pub since: &'static str,
    pub summary: &'static str,
    pub complexity: &'static str,
    /// The arguments in the notation of `docs/design/command-syntax.md`, from which COMMAND
    /// DOCS is made: `key value [NX|XX] [EX seconds|PX milliseconds]`.
    pub syntax: &'static str,
    /// Pairs of version and change, as COMMAND DOCS lists them.
    pub history: &'static [(&'static str, &'static str)],
    /// Command tips, as COMMAND INFO lists them.
    pub tips: &'static [&'static str],
}

impl Spec {
    /// Whether a request of `argc` arguments, name included, matches the arity.
    #[inline]
    pub fn fits(&self, argc: usize) -> bool {
        let arity = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { argc >= arity } else { argc == arity }
    }

    /// The positions of the keys among `args`, in order. `None` if the arguments do not determine
    /// them (the key count is not a number or exceeds the arguments). The command then has no keys
    /// and returns its own error.
    pub fn key_positions(&self, args: &[&[u8]], mut found: impl FnMut(usize)) -> Option<()> {
        self.keys.iter().try_for_each(|spec| spec.positions(args, &mut found))
    }
}

impl Spec {
    /// Whether the argument at `at` may be longer than [`weft_types::TEXT_MAX`]. Only values of
    /// string commands may: names and elements of collections have 32-bit lengths.
    pub fn takes_any_length(&self, at: usize) -> bool {
        self.group == Group::String && !self.keys.iter().any(|spec| spec.may_be_at(at))
    }
}

impl KeySpec {
    /// Whether any request could have a key at `at`.
    fn may_be_at(&self, at: usize) -> bool {
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

    /// As [`Spec::key_positions`], for this specification alone.
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

/// Key specifications shared by many commands.
pub mod keys {
    use super::{Begin, Find, KeySpec};

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
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_values_of_strings_have_any_length() {
        let places = |name: &str| -> Vec<usize> {
            let spec = crate::REGISTRY.iter().copied().flatten().map(|c| &c.spec);
            let spec = spec.into_iter().find(|spec| spec.name == name).expect("a command");
            (1..6).filter(|at| spec.takes_any_length(*at)).collect()
        };
        assert_eq!(places("set"), [2, 3, 4, 5]);
        assert_eq!(places("append"), [2, 3, 4, 5]);
        assert_eq!(places("mset"), [2, 4]);
        assert_eq!(places("msetex"), [1, 3, 5]);
        assert_eq!(places("mget"), [0; 0]);
        for name in ["rpush", "sadd", "hset", "zadd", "rename", "sort", "type"] {
            assert_eq!(places(name), [0; 0], "{name}");
        }
    }
}
