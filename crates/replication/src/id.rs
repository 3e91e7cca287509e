//! Replication ids and histories, and the decision whether a replica may continue.
//!
//! A *history* is a sequence of bytes, the replication stream, that a primary has written. A random
//! id names it. Two servers with the same id and offset have the same data, which is all that a
//! partial resynchronization needs. A promoted server continues with the data of its predecessor
//! under a new id. It keeps the old id as its *second* id, valid up to the offset at which the two
//! diverge:
//!
//! ```text
//!  id A   1 ........ 1000                  written by the old primary
//!  id B              1001 ........         written by the new one: second id A, valid to 1001
//! ```
//!
//! Offsets count bytes: after `offset` bytes, a replica asks for byte `offset + 1`. So "valid to
//! 1001" accepts a replica with 1000 bytes of A, and refuses one with more.

use std::fmt;
use std::ops::Range;

/// The name of a history: 40 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplicationId([u8; 40]);

impl ReplicationId {
    /// Length of the text in bytes.
    pub const LEN: usize = 40;

    /// Makes an id from 160 random bits.
    #[must_use]
    pub fn from_random(bits: [u8; 20]) -> ReplicationId {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        ReplicationId(std::array::from_fn(|at| {
            let byte = bits[at / 2];
            DIGITS[usize::from(if at % 2 == 0 { byte >> 4 } else { byte & 15 })]
        }))
    }

    /// Parses an id; digits may have either case. O(1).
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<ReplicationId> {
        let digits: [u8; 40] = text.try_into().ok()?;
        digits
            .iter()
            .all(u8::is_ascii_hexdigit)
            .then(|| ReplicationId(digits.map(|digit| digit.to_ascii_lowercase())))
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 40] {
        &self.0
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits are ASCII")
    }
}

impl fmt::Display for ReplicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ReplicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_str()[..8])
    }
}

/// The server's previous history, and the last byte for which replicas may ask under its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Second {
    pub id: ReplicationId,
    /// The greatest byte, counted from 1, with which a replica may continue
    /// (`second_replid_offset`).
    pub valid_to: u64,
}

/// The history of a server's data, and the offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    pub id: ReplicationId,
    /// Bytes of the history that the data include.
    pub offset: u64,
    pub second: Option<Second>,
}

/// The decision about a PSYNC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Continue at this offset.
    Continue { from: u64 },
    /// Send a full copy.
    Full(Why),
}

/// Why a partial resynchronization is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The replica requested a full copy (`?`).
    Wanted,
    /// The requested id is neither of the two.
    OtherHistory,
    /// The request is for the second id, but for a byte after the histories diverged.
    BeyondSecond { valid_to: u64 },
    /// The backlog doesn't have these bytes.
    NotKept,
    /// These bytes don't exist yet.
    Ahead,
}

impl History {
    /// A history that begins at this offset.
    #[must_use]
    pub fn new(id: ReplicationId, offset: u64) -> History {
        History { id, offset, second: None }
    }

    /// Whether a replica may continue with byte `asked`, counted from 1, of `asked_id`. `kept` is
    /// the range of offsets in the backlog.
    #[must_use]
    pub fn psync(&self, asked_id: &[u8], asked: i64, kept: Option<Range<u64>>) -> Verdict {
        if !asked_id.eq_ignore_ascii_case(self.id.as_bytes()) {
            match self.second {
                Some(second) if asked_id.eq_ignore_ascii_case(second.id.as_bytes()) => {
                    if asked > second.valid_to as i64
                        && !crate::planted::is(crate::planted::Fault::SecondIdForever)
                    {
                        return Verdict::Full(Why::BeyondSecond { valid_to: second.valid_to });
                    }
                }
                Some(_) | None if asked_id.first() == Some(&b'?') => {
                    return Verdict::Full(Why::Wanted);
                }
                Some(_) | None => return Verdict::Full(Why::OtherHistory),
            }
        }
        let Some(from) = asked.checked_sub(1).and_then(|from| u64::try_from(from).ok()) else {
            return Verdict::Full(Why::NotKept);
        };
        match kept {
            _ if from > self.offset => Verdict::Full(Why::Ahead),
            Some(kept) if kept.start <= from && from <= kept.end => Verdict::Continue { from },
            Some(_) | None => Verdict::Full(Why::NotKept),
        }
    }

    /// Continues under a new id from this offset: a replica was promoted.
    pub fn shift(&mut self, id: ReplicationId) {
        self.second = Some(Second { id: self.id, valid_to: self.offset + 1 });
        self.id = id;
    }

    /// Starts a new history: no replica can continue, because writes were not kept or the data were replaced.
    pub fn renew(&mut self, id: ReplicationId) {
        (self.id, self.second) = (id, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> ReplicationId {
        ReplicationId::from_random([byte; 20])
    }

    #[test]
    fn ids_are_printed_and_parsed() {
        let text = "00ff0123456789abcdef00ff0123456789abcdef";
        let id = ReplicationId::parse(text.to_uppercase().as_bytes()).expect("an id");
        assert_eq!(id.to_string(), text);
        assert_eq!(super::ReplicationId::from_random([0xab; 20]).to_string(), "ab".repeat(20));
        assert_eq!(ReplicationId::parse(b"00ff"), None);
        assert_eq!(ReplicationId::parse(&[b'g'; 40]), None);
    }

    #[test]
    fn psync_continues_within_the_backlog() {
        let history = History::new(id(1), 100);
        let ask = |asked| history.psync(id(1).as_bytes(), asked, Some(40..100));
        assert_eq!(ask(101), Verdict::Continue { from: 100 });
        assert_eq!(ask(41), Verdict::Continue { from: 40 });
        assert_eq!(ask(40), Verdict::Full(Why::NotKept));
        assert_eq!(ask(102), Verdict::Full(Why::Ahead));
        for wrong in [0, -1, i64::MIN] {
            assert_eq!(ask(wrong), Verdict::Full(Why::NotKept));
        }
        assert_eq!(history.psync(id(1).as_bytes(), 101, None), Verdict::Full(Why::NotKept));
        assert_eq!(history.psync(b"?", -1, Some(0..100)), Verdict::Full(Why::Wanted));
        assert_eq!(
            history.psync(id(2).as_bytes(), 1, Some(0..100)),
            Verdict::Full(Why::OtherHistory)
        );
    }

    #[test]
    fn second_id_is_valid_up_to_the_divergence() {
        let mut history = History::new(id(1), 100);
        history.shift(id(2));
        history.offset = 200;
        let ask = |id: ReplicationId, asked| history.psync(id.as_bytes(), asked, Some(0..200));
        assert_eq!(ask(id(1), 101), Verdict::Continue { from: 100 });
        assert_eq!(ask(id(1), 102), Verdict::Full(Why::BeyondSecond { valid_to: 101 }));
        assert_eq!(ask(id(2), 201), Verdict::Continue { from: 200 });
        let upper = id(2).to_string().to_uppercase();
        assert_eq!(
            history.psync(upper.as_bytes(), 201, Some(0..200)),
            Verdict::Continue { from: 200 }
        );
        history.renew(id(3));
        assert_eq!(
            history.psync(id(1).as_bytes(), 101, Some(0..200)),
            Verdict::Full(Why::OtherHistory)
        );
    }
}
