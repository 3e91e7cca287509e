//! Names of histories, and who may go on with whom.
//!
//! A *history* is a sequence of bytes, the replication stream, that some primary has written. Its name is
//! a random id. Two servers with the same id and the same offset hold the same data, which is all that a
//! partial resynchronization needs. A server that becomes primary goes on with the data of its
//! predecessor under a new id, and remembers the old one as its *second* id up to the place where the
//! two part:
//!
//! ```text
//!  id A   1 ........ 1000                  written by the old primary
//!  id B              1001 ........         written by the new one: second id A, valid to 1001
//! ```
//!
//! Offsets count bytes: after `offset` bytes, a replica asks for byte `offset + 1`. So "valid to 1001"
//! lets in who has 1000 bytes of A, and nobody who has more.

use std::fmt;
use std::ops::Range;

/// The name of a history: 40 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplicationId([u8; 40]);

impl ReplicationId {
    /// Bytes of the text.
    pub const LEN: usize = 40;

    /// From 160 random bits.
    #[must_use]
    pub fn from_random(bits: [u8; 20]) -> ReplicationId {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        ReplicationId(std::array::from_fn(|at| {
            let byte = bits[at / 2];
            DIGITS[usize::from(if at % 2 == 0 { byte >> 4 } else { byte & 15 })]
        }))
    }

    /// From its text, in digits of either case. O(1).
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

/// The history that a server was part of before, and the last byte that may be asked for under its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Second {
    pub id: ReplicationId,
    /// The greatest byte, counted from 1, with which a replica may continue (`second_replid_offset`).
    pub valid_to: u64,
}

/// Which history a server's data are part of, and how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    pub id: ReplicationId,
    /// Bytes of the history that the data contain.
    pub offset: u64,
    pub second: Option<Second>,
}

/// The answer to PSYNC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on behind this many bytes.
    Continue { from: u64 },
    /// Everything has to be sent.
    Full(Why),
}

/// Why a partial resynchronization is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The replica knows no history (`?`).
    Wanted,
    /// Neither id is the one that was asked for.
    OtherHistory,
    /// The second id is, but the two parted before that byte.
    BeyondSecond { valid_to: u64 },
    /// These bytes are not kept, or not any more.
    NotKept,
    /// Nobody has written these bytes yet.
    Ahead,
}

impl History {
    /// A history that begins here.
    #[must_use]
    pub fn new(id: ReplicationId, offset: u64) -> History {
        History { id, offset, second: None }
    }

    /// Whether a replica may continue with byte `asked`, counted from 1, of `asked_id`, when the
    /// bytes behind `kept.start` up to `kept.end` are kept.
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

    /// The data go on under a new name, from here: a replica has become primary.
    pub fn shift(&mut self, id: ReplicationId) {
        self.second = Some(Second { id: self.id, valid_to: self.offset + 1 });
        self.id = id;
    }

    /// Nobody can continue from what was: writes were not kept, or the data are others now.
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
    fn bytes_that_are_kept_are_continued() {
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
    fn the_second_id_holds_up_to_where_histories_part() {
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
