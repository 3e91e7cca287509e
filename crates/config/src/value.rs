//! The value of a directive, parsed.
//!
//! A [`Value`] is what the server works with; how it is written belongs to
//! [`Kind`](crate::kind::Kind), which makes values from words and words from
//! values. The richer ones have types of their own here.

/// A parsed value. Which variants a directive can have follows from its kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `yes` or `no`.
    Bool(bool),
    /// A number; also of an octal directive.
    Int(i64),
    /// `auto`, where a number would be allowed as well.
    Auto,
    /// An amount of memory in bytes.
    Bytes(u64),
    /// A share of `maxmemory`, in percent.
    Percent(u8),
    /// A string; empty when unset.
    Text(Vec<u8>),
    /// One word of a fixed list, by its place in the list.
    Word(u8),
    /// Several words of a fixed list, one bit for each place in the list.
    Words(u32),
    /// A list of strings.
    List(Vec<Vec<u8>>),
    /// When to save the data set by itself.
    SavePoints(Vec<SavePoint>),
    /// How much output may wait for a client.
    OutputBufferLimits(OutputBufferLimits),
    /// OOM score adjustments of a primary, of a replica, of a child process.
    OomScores([i32; 3]),
    /// Which keyspace events are published.
    KeyspaceEvents(KeyspaceEvents),
    /// Percentiles, each from 0 to 100.
    Percentiles(Vec<f64>),
    /// The primary to replicate from.
    Primary(Option<Primary>),
    /// The argument lists of a statement, one per line that has it.
    Statements(Vec<Statement>),
}

/// The arguments of one line of a statement such as `rename-command`.
pub type Statement = Vec<Vec<u8>>;

/// Save the data set when `changes` or more keys changed and `seconds` passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Seconds since the last save, at least 1.
    pub seconds: i64,
    /// Changes since the last save, at least 0.
    pub changes: i32,
}

/// Limits on output that waits for a client, for each class of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputBufferLimits {
    /// Ordinary clients, those in MONITOR included.
    pub normal: OutputBufferLimit,
    /// Replicas.
    pub replica: OutputBufferLimit,
    /// Clients subscribed to a channel or pattern.
    pub pubsub: OutputBufferLimit,
}

/// A client is closed when its waiting output is over `hard` bytes, or over
/// `soft` bytes for `soft_seconds` on end. 0 bytes: no such limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OutputBufferLimit {
    /// Bytes; reached once, the client is closed.
    pub hard: u64,
    /// Bytes; the client is closed when it stays over them.
    pub soft: u64,
    /// How long it may stay over `soft`, in seconds, at least 0.
    pub soft_seconds: i64,
}

/// Host and port of a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// Name or address.
    pub host: Vec<u8>,
    /// TCP port.
    pub port: u16,
}

/// A set of keyspace event classes, as `notify-keyspace-events` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct KeyspaceEvents(u32);

impl KeyspaceEvents {
    /// Every class with its letter. `A` stands for the first nine.
    const LETTERS: [u8; 13] = *b"g$lshzxetdnKE";
    const ALIASED: u32 = (1 << 10) - 1;
    const MISS: u32 = 1 << 13;

    /// The set that `letters` names, or `None` for an unknown letter.
    pub fn parse(letters: &[u8]) -> Option<KeyspaceEvents> {
        let mut set = 0;
        for &letter in letters {
            set |= match letter {
                b'A' => Self::ALIASED,
                b'm' => Self::MISS,
                _ => 1 << Self::LETTERS.iter().position(|known| *known == letter)?,
            };
        }
        Some(KeyspaceEvents(set))
    }

    /// Whether the class of `letter` is in the set.
    pub fn contains(self, letter: u8) -> bool {
        KeyspaceEvents::parse(&[letter]).is_some_and(|class| self.0 & class.0 == class.0)
    }

    /// Whether nothing is published.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Letters that [`parse`](Self::parse) reads back to the same set.
    pub fn letters(self) -> String {
        self.spelled(true)
    }

    /// The letters as CONFIG GET answers them: with `A`, the reference leaves
    /// out `n`, and clients compare the text.
    pub fn answer(self) -> String {
        self.spelled(false)
    }

    fn spelled(self, complete: bool) -> String {
        let all = self.0 & Self::ALIASED == Self::ALIASED;
        let mut out = String::from(if all { "A" } else { "" });
        for (bit, letter) in Self::LETTERS.iter().enumerate() {
            let covered = all && (bit < 10 || *letter == b'n' && !complete);
            if self.0 & 1 << bit != 0 && !covered {
                out.push(char::from(*letter));
            }
        }
        if self.0 & Self::MISS != 0 {
            out.push('m');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_as_the_reference_spells_them() {
        for (letters, answer, complete) in [
            ("", "", ""),
            ("KEA", "AKE", "AKE"),
            ("KEg$lshzxetd", "AKE", "AKE"),
            ("Kg$lshzxetdmn", "AKm", "AnKm"),
            ("nEgm", "gnEm", "gnEm"),
        ] {
            let set = KeyspaceEvents::parse(letters.as_bytes()).unwrap();
            assert_eq!(set.answer(), answer);
            assert_eq!(set.letters(), complete);
            assert_eq!(KeyspaceEvents::parse(complete.as_bytes()), Some(set));
        }
        assert_eq!(KeyspaceEvents::parse(b"Kq"), None);
        let set = KeyspaceEvents::parse(b"Kx").unwrap();
        assert!(set.contains(b'K') && set.contains(b'x') && !set.contains(b'E'));
        assert!(!set.contains(b'A') && !set.contains(b'q') && !set.is_empty());
    }
}
