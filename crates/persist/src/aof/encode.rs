//! The file format: encodes units of the log.
//!
//! ```text
//! #TS:1795357161                                   on a new second, if enabled
//! #REPL:9fd3...:1042:0                             position in a replication history
//! #CRC:6f1c93b2d6a05e11:000000000087               batch: checksum and length of the body
//! *1 $5 MULTI                                      a unit of several commands
//! *2 $6 SELECT $1 3                                when the database changes
//! *3 $3 SET $1 a $1 b
//! *3 $3 SET $1 c $1 d
//! *1 $4 EXEC
//! ```
//!
//! Other servers skip lines that begin with `#`. Weft reads the length and checksum of a *batch*
//! from its head. So it doesn't load a batch that is torn or has a hole where a page never reached
//! the disk, not even a hole inside a value, which nothing else would detect. The head precedes the
//! batch, because another server may append after the last batch. Time stamps are between batches,
//! so truncating a file at one keeps batches whole.
//!
//! If zeros are written ahead (see `appender`), the head has a third field:
//!
//! ```text
//! #CRC:6f1c93b2d6a05e11:000000000087:00000001f3c0  durable length of the file when this was written
//! ```
//!
//! A missing page in that range reads as zeros, whatever follows it. The heads after it show
//! whether the page was ever durable: if none of them covers it, none of its data was acknowledged
//! (see `tail`).
//!
//! A *position* says that the data up to it equal a replication history at an offset. It is valid
//! only at the end of the file: later offsets can't be derived from it, because the history has
//! bytes that no file contains (pings, queries to replicas).

use crate::rdb::crc64;
use weft_resp::{Command, FirstSelect, UnitEncoder};

/// Size in bytes at which a batch ends. A reader keeps a whole batch in memory.
const FULL: usize = 128 << 10;

/// Bytes of a batch's head: `#CRC:`, 16 digits, `:`, 12 digits, line end.
const HEAD: usize = 5 + 16 + 1 + 12 + 2;
/// The same with the durable length: `:` and 12 more hexadecimal digits.
pub(super) const LONG_HEAD: usize = HEAD + 1 + 12;
/// Prefix of a head.
pub(super) const CRC: &[u8] = b"#CRC:";

/// The optional annotations of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotations {
    pub timestamps: bool,
    pub checksums: bool,
}

/// A position in a replication history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The ID of the history: 40 hexadecimal digits.
    pub id: [u8; 40],
    /// Bytes of the history that the data include.
    pub offset: u64,
    /// The database that the history has selected there.
    pub db: u32,
}

/// Encodes units, and tracks the state that the file has established.
#[derive(Debug)]
pub struct Encoder {
    annotations: Annotations,
    units: UnitEncoder,
    /// The Unix second of the last time stamp.
    second: i64,
    /// Start and end of the open batch's head.
    head: Option<(usize, usize)>,
    /// Durable length of the file, if heads include it.
    safe: Option<u64>,
    /// The last item, apart from annotations, is a batch whose head has the durable length.
    has_durable_length: bool,
}

impl Encoder {
    /// Returns an encoder for a file that is empty or whose end is unknown.
    #[must_use]
    pub fn new(annotations: Annotations) -> Encoder {
        Encoder {
            annotations,
            units: UnitEncoder::new(FirstSelect::AfterMulti),
            second: 0,
            head: None,
            safe: None,
            has_durable_length: false,
        }
    }

    /// Begins a new file.
    pub fn begin_file(&mut self) {
        debug_assert!(self.head.is_none(), "the last file has ended");
        self.units.forget_db();
        (self.second, self.has_durable_length) = (0, false);
    }

    /// Changes the annotations from the next batch on.
    pub fn annotate(&mut self, annotations: Annotations, out: &mut [u8]) {
        self.seal(out);
        self.annotations = annotations;
    }

    /// Sets the durable length that heads include from now on, or `None` for none. Must not be
    /// called while a batch is open. The caller updates it as more becomes durable.
    pub fn set_durable_length(&mut self, safe: Option<u64>) {
        debug_assert!(self.head.is_none() || safe == self.safe, "a batch has begun");
        self.safe = safe;
    }

    /// Whether a reader of the file expects zeros here: the head of the last batch has the durable
    /// length, and only annotations follow it.
    #[must_use]
    pub fn expects_zeros(&self) -> bool {
        self.has_durable_length
    }

    /// Appends a unit that was committed at `unix_ms`. Several commands become a transaction.
    /// O(bytes). The caller must call [`Encoder::seal`] before it uses `out`.
    pub fn unit<C: Command>(&mut self, unix_ms: i64, commands: &[C], out: &mut Vec<u8>) {
        if commands.is_empty() {
            return;
        }
        self.note_time(unix_ms.div_euclid(1000), out);
        self.begin(out);
        self.units.unit(commands, out);
        if self.head.is_some_and(|(head, _)| out.len() - head >= FULL) {
            self.seal(out);
        }
    }

    fn note_time(&mut self, second: i64, out: &mut Vec<u8>) {
        if self.annotations.timestamps && second > self.second {
            self.seal(out);
            self.second = second;
            out.extend(format!("#TS:{second}\r\n").bytes());
        }
    }

    /// Appends a position: everything appended so far brings the data to that position.
    pub fn position(&mut self, position: &Position, out: &mut Vec<u8>) {
        self.seal(out);
        out.extend(b"#REPL:");
        out.extend(position.id);
        out.extend(format!(":{}:{}\r\n", position.offset, position.db).bytes());
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        self.has_durable_length = self.annotations.checksums && self.safe.is_some();
        if self.annotations.checksums && self.head.is_none() {
            let (start, length) = (out.len(), if self.safe.is_some() { LONG_HEAD } else { HEAD });
            self.head = Some((start, start + length));
            out.resize(start + length, 0);
        }
    }

    /// Ends the open batch. O(bytes of the batch).
    pub fn seal(&mut self, out: &mut [u8]) {
        if let Some((start, end)) = self.head.take() {
            let (head, batch) = out[start..].split_at_mut(end - start);
            let (sum, length) = (crc64(batch), batch.len());
            let text = match self.safe {
                None => format!("#CRC:{sum:016x}:{length:012}\r\n"),
                Some(safe) => format!("#CRC:{sum:016x}:{length:012}:{safe:012x}\r\n"),
            };
            head.copy_from_slice(text.as_bytes());
        }
    }
}

/// The decoded head of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Checksum and length of the batch's body.
    pub sum: u64,
    pub length: u64,
    /// Durable length of the file when the batch was written.
    pub safe: Option<u64>,
}

/// Parses a line as the head of a batch.
pub(super) fn parse_head(line: &[u8]) -> Option<Head> {
    let rest = line.strip_prefix(CRC)?.strip_suffix(b"\r\n")?;
    let text = std::str::from_utf8(rest).ok()?;
    let (sum, rest) = text.split_once(':')?;
    let (length, safe) = rest.split_once(':').map_or((rest, None), |(n, safe)| (n, Some(safe)));
    if sum.len() != 16 || length.len() != 12 || safe.is_some_and(|safe| safe.len() != 12) {
        return None;
    }
    let safe = safe.map(|safe| u64::from_str_radix(safe, 16)).transpose().ok()?;
    let sum = u64::from_str_radix(sum, 16).ok()?;
    Some(Head { sum, length: length.parse().ok()?, safe })
}

/// Parses a line as a time stamp; returns its second.
pub(super) fn parse_time(line: &[u8]) -> Option<i64> {
    let digits = line.strip_prefix(b"#TS:")?.strip_suffix(b"\r\n")?;
    weft_base::num::parse_i64(digits)
}

/// Parses a line as a position.
pub(super) fn parse_position(line: &[u8]) -> Option<Position> {
    let rest = line.strip_prefix(b"#REPL:")?.strip_suffix(b"\r\n")?;
    let (id, numbers) = rest.split_at_checked(40)?;
    let mut numbers = numbers.strip_prefix(b":")?.split(|byte| *byte == b':');
    let mut number = || weft_base::num::parse_i64(numbers.next()?);
    let (offset, db) = (number()?.try_into().ok()?, number()?.try_into().ok()?);
    let is_position = numbers.next().is_none() && id.iter().all(u8::is_ascii_hexdigit);
    is_position.then_some(Position { id: id.try_into().ok()?, offset, db })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Annotations = Annotations { timestamps: false, checksums: false };

    fn ping(db: usize) -> (usize, &'static [u8]) {
        (db, b"*1\r\n$4\r\nPING\r\n")
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).replace("\r\n", " ")
    }

    #[test]
    fn time_stamps_are_between_batches() {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(Annotations { timestamps: true, checksums: true });
        for ms in [1999, 1000, 2000] {
            encoder.unit(ms, &[ping(0)], &mut out);
        }
        encoder.annotate(PLAIN, &mut out);
        encoder.unit(9000, &[ping(0)], &mut out);
        let text = text(&out);
        let kinds: Vec<&str> =
            text.split(' ').filter(|w| w.starts_with(['#', 'P'])).map(|w| &w[..4]).collect();
        assert_eq!(kinds, ["#TS:", "#CRC", "PING", "PING", "#TS:", "#CRC", "PING", "PING"]);
        assert!(text.starts_with("#TS:1 #CRC:"));
    }

    #[test]
    fn heads_have_length_and_checksum() {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(Annotations { timestamps: false, checksums: true });
        encoder.unit(1, &[ping(0)], &mut out);
        encoder.seal(&mut out);
        let (head, batch) = out.split_at(HEAD);
        let expected = Head { sum: crc64(batch), length: batch.len() as u64, safe: None };
        assert_eq!(parse_head(head), Some(expected));
        let sum = "0".repeat(16);
        for wrong in ["", "00:1", "000000000000000g:000000000001", &format!("{sum}:{sum}")] {
            assert_eq!(parse_head(format!("#CRC:{wrong}\r\n").as_bytes()), None);
        }
        out.clear();
        encoder.set_durable_length(Some(0x1f3c0));
        encoder.unit(1, &[ping(0)], &mut out);
        encoder.seal(&mut out);
        let (head, batch) = out.split_at(LONG_HEAD);
        let expected = Head { sum: crc64(batch), length: batch.len() as u64, safe: Some(0x1f3c0) };
        assert_eq!(parse_head(head), Some(expected));
        assert_eq!(parse_head(&[&head[..LONG_HEAD - 3], b"\r\n"].concat()), None);
        assert_eq!(parse_time(b"#TS:77\r\n"), Some(77));
        assert_eq!(parse_time(b"#TS:77\n"), None);
    }

    #[test]
    fn positions_are_between_batches_and_are_parsed() {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(Annotations { timestamps: false, checksums: true });
        let position = Position { id: [b'a'; 40], offset: 7 << 32, db: 3 };
        encoder.unit(1, &[ping(0)], &mut out);
        encoder.position(&position, &mut out);
        encoder.unit(1, &[ping(0)], &mut out);
        encoder.seal(&mut out);
        assert_eq!(out.windows(5).filter(|w| w == b"#CRC:").count(), 2);
        let at = out.windows(6).position(|w| w == b"#REPL:").expect("it is there");
        let line = out[at..].split_inclusive(|byte| *byte == b'\n').next().expect("a line");
        assert_eq!(parse_position(line), Some(position));
        let id = "a".repeat(40);
        for wrong in ["1:-1:0", "1:0", "1:0:0", "1:2:4294967296", "g:2:0", "1:2:0:0"] {
            let (first, rest) = wrong.split_once(':').expect("two parts");
            let line =
                format!("#REPL:{}{}:{rest}\r\n", &id[1..], if first == "g" { "g" } else { "a" });
            let is_right = wrong == "1:0:0";
            assert_eq!(parse_position(line.as_bytes()).is_some(), is_right, "{line}");
        }
    }

    #[test]
    fn long_batches_are_split() {
        let bytes = vec![b'x'; FULL / 2];
        let mut out = Vec::new();
        let mut encoder = Encoder::new(Annotations { timestamps: false, checksums: true });
        for _ in 0..6 {
            encoder.unit(1, &[(0, &bytes[..])], &mut out);
        }
        assert_eq!(out.windows(5).filter(|w| w == b"#CRC:").count(), 3);
    }

    #[test]
    fn encoder_tracks_whether_zeros_may_follow() {
        let mut out = Vec::new();
        let noted = Annotations { timestamps: false, checksums: true };
        let mut encoder = Encoder::new(noted);
        let position = Position { id: [b'a'; 40], offset: 7, db: 3 };
        encoder.set_durable_length(Some(0));
        encoder.position(&position, &mut out);
        assert!(!encoder.expects_zeros());
        encoder.unit(1, &[ping(0)], &mut out);
        encoder.position(&position, &mut out);
        assert!(encoder.expects_zeros());
        encoder.begin_file();
        assert!(!encoder.expects_zeros());
        encoder.unit(1, &[ping(0)], &mut out);
        encoder.seal(&mut out);
        encoder.annotate(PLAIN, &mut out);
        assert!(encoder.expects_zeros());
        encoder.unit(1, &[ping(0)], &mut out);
        encoder.annotate(noted, &mut out);
        assert!(!encoder.expects_zeros());
        encoder.set_durable_length(None);
        encoder.unit(1, &[ping(0)], &mut out);
        assert!(!encoder.expects_zeros());
    }
}
