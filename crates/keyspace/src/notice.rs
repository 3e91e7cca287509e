//! Notices: changes of keys as keyspace notifications.
//!
//! ```text
//!  command: notify(Classes::STRING, "set", key) ─┐
//!  Db: "new", "keymiss", "expired", "evicted" ───┼─► Effects, if the class is wanted
//!  sweeps: "hexpired", "del" ────────────────────┘        │
//!  commit, before the shards are released:  hand_over ─► the keyspace's listener
//! ```
//!
//! A notice is not an [`Effect`](crate::effect::Effect): one change can send several notices (a
//! string set with a lifetime sends `set` and `expire`) or none, and some notices report no
//! change (`keymiss`). So commands send them where they make the change, and clients receive them
//! in that order. The keyspace sends notices of its own changes itself.
//!
//! The wanted classes are a word next to the pending effects, taken from the configuration at the
//! start of an iteration. Usually no class is wanted, and then a notice costs one load of that
//! word.

use std::fmt;

/// A set of classes of events, and of the two kinds of channels on which they are published.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Classes(u32);

impl Classes {
    /// No class.
    pub const NONE: Classes = Classes(0);
    /// `g`: commands on keys of any type.
    pub const GENERIC: Classes = Classes(1);
    /// `$`
    pub const STRING: Classes = Classes(1 << 1);
    /// `l`
    pub const LIST: Classes = Classes(1 << 2);
    /// `s`
    pub const SET: Classes = Classes(1 << 3);
    /// `h`
    pub const HASH: Classes = Classes(1 << 4);
    /// `z`
    pub const ZSET: Classes = Classes(1 << 5);
    /// `x`: a key has expired, or a sweep has removed expired fields of a hash.
    pub const EXPIRED: Classes = Classes(1 << 6);
    /// `e`: a key was evicted.
    pub const EVICTED: Classes = Classes(1 << 7);
    /// `t`
    pub const STREAM: Classes = Classes(1 << 8);
    /// `n`: a key was created.
    pub const NEW: Classes = Classes(1 << 9);
    /// `m`: a read of a key that does not exist.
    pub const MISS: Classes = Classes(1 << 10);
    /// `K`: publish on a channel of the key.
    pub const BY_KEY: Classes = Classes(1 << 11);
    /// `E`: publish on a channel of the event.
    pub const BY_EVENT: Classes = Classes(1 << 12);

    /// Each class with its letter in `notify-keyspace-events`.
    pub const LETTERS: [(u8, Classes); 13] = [
        (b'g', Classes::GENERIC),
        (b'$', Classes::STRING),
        (b'l', Classes::LIST),
        (b's', Classes::SET),
        (b'h', Classes::HASH),
        (b'z', Classes::ZSET),
        (b'x', Classes::EXPIRED),
        (b'e', Classes::EVICTED),
        (b't', Classes::STREAM),
        (b'n', Classes::NEW),
        (b'm', Classes::MISS),
        (b'K', Classes::BY_KEY),
        (b'E', Classes::BY_EVENT),
    ];

    /// The classes whose letters `is_wanted`; empty if no channel is among them.
    pub fn wanted(is_wanted: impl Fn(u8) -> bool) -> Classes {
        let wanted = Self::LETTERS.iter().filter(|(letter, _)| is_wanted(*letter));
        let all = wanted.fold(Classes::NONE, |all, (_, class)| all.or(*class));
        if all.has(Classes::BY_KEY.or(Classes::BY_EVENT)) { all } else { Classes::NONE }
    }

    pub const fn or(self, other: Classes) -> Classes {
        Classes(self.0 | other.0)
    }

    /// Whether the two have a class in common.
    #[inline]
    pub const fn has(self, other: Classes) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the set is empty.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = Self::LETTERS.iter().filter(|(_, class)| self.has(*class));
        let letters: String = letters.map(|(letter, _)| char::from(*letter)).collect();
        write!(f, "Classes({letters})")
    }
}

/// One event of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub db: usize,
    /// The single class that it belongs to.
    pub class: Classes,
    pub event: &'static str,
    pub key: Box<[u8]>,
}

/// Gets the notices of a group in the order of its changes, while its shards are still held: it
/// must not block. The classes are the wanted ones.
pub type Listener = Box<dyn Fn(Classes, &[Notice]) + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_unique_bit_and_letter() {
        for (n, (letter, class)) in Classes::LETTERS.iter().enumerate() {
            for (other_letter, other) in &Classes::LETTERS[..n] {
                assert!(letter != other_letter && !class.has(*other));
            }
            assert_eq!(format!("{class:?}"), format!("Classes({})", char::from(*letter)));
        }
    }

    #[test]
    fn without_a_channel_nothing_is_wanted() {
        let of = |letters: &str| Classes::wanted(|letter| letters.as_bytes().contains(&letter));
        assert!(of("").is_none() && of("g$lshzxetnm").is_none());
        let set = of("Kx");
        assert!(set.has(Classes::BY_KEY) && set.has(Classes::EXPIRED));
        assert!(!set.has(Classes::BY_EVENT) && !set.has(Classes::GENERIC));
        assert!(of("Em").has(Classes::MISS));
    }
}
