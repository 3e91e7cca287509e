//! Patterns of keys and of channels.

use weft_base::glob;

/// The access of a command to a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    pub read: bool,
    pub write: bool,
}

impl Access {
    pub const READ: Access = Access { read: true, write: false };
    pub const WRITE: Access = Access { read: false, write: true };
    pub const BOTH: Access = Access { read: true, write: true };

    fn includes(self, other: Access) -> bool {
        (self.read || !other.read) && (self.write || !other.write)
    }
}

/// A pattern of keys, with the access that it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    pattern: Box<[u8]>,
    access: Access,
}

/// The keys that a selector allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    pub all: bool,
    patterns: Vec<KeyPattern>,
}

impl Keys {
    /// Allows all keys or none.
    pub fn set_all(&mut self, all: bool) {
        *self = Keys { all, patterns: Vec::new() };
    }

    /// Adds a pattern, or access to a known one.
    pub fn add(&mut self, pattern: &[u8], access: Access) {
        match self.patterns.iter_mut().find(|known| *known.pattern == *pattern) {
            Some(known) => {
                known.access.read |= access.read;
                known.access.write |= access.write;
            }
            None => self.patterns.push(KeyPattern { pattern: pattern.into(), access }),
        }
    }

    /// O(patterns).
    #[inline]
    pub fn allow(&self, key: &[u8], access: Access) -> bool {
        self.all || self.patterns.iter().any(|p| p.access.includes(access) && p.matches(key))
    }

    /// Whether this access to every key is allowed.
    pub fn allow_every(&self, access: Access) -> bool {
        let is_every = |p: &KeyPattern| p.access.includes(access) && *p.pattern == *b"*";
        self.all || self.patterns.iter().any(is_every)
    }

    /// The rules, separated by spaces.
    pub fn describe(&self) -> Vec<u8> {
        if self.all {
            return b"~*".to_vec();
        }
        let rules: Vec<Vec<u8>> = self.patterns.iter().map(KeyPattern::rule).collect();
        rules.join(&b' ')
    }
}

impl KeyPattern {
    #[inline]
    fn matches(&self, key: &[u8]) -> bool {
        glob::Pattern::new(&self.pattern).matches(key)
    }

    fn rule(&self) -> Vec<u8> {
        let sign: &[u8] = match (self.access.read, self.access.write) {
            (true, false) => b"%R~",
            (false, true) => b"%W~",
            (true, true) | (false, false) => b"~",
        };
        [sign, &self.pattern].concat()
    }
}

/// The channels that a selector allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Channels {
    pub all: bool,
    patterns: Vec<Box<[u8]>>,
}

impl Channels {
    /// Allows all channels or none.
    pub fn set_all(&mut self, all: bool) {
        *self = Channels { all, patterns: Vec::new() };
    }

    pub fn add(&mut self, pattern: &[u8]) {
        if !self.patterns.iter().any(|known| **known == *pattern) {
            self.patterns.push(pattern.into());
        }
    }

    /// A pattern to subscribe to must be one of the patterns, as it stands.
    pub fn allow(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all
            || self.patterns.iter().any(|pattern| match is_pattern {
                true => **pattern == *channel,
                false => glob::matches(pattern, channel, false),
            })
    }

    pub fn patterns(&self) -> impl Iterator<Item = &[u8]> {
        self.patterns.iter().map(|pattern| &**pattern)
    }

    /// The rules, separated by spaces.
    pub fn describe(&self) -> Vec<u8> {
        if self.all {
            return b"&*".to_vec();
        }
        let rules: Vec<Vec<u8>> = self.patterns().map(|p| [b"&", p].concat()).collect();
        rules.join(&b' ')
    }
}

/// Whether a name or pattern has a byte that would break a line of rules: white space or NUL.
pub fn has_invalid_bytes(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b' ' | b'\t'..=b'\r' | 0))
}
