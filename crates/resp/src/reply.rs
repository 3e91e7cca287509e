//! The reply writer: RESP2 and RESP3 from the same calls.
//!
//! A command says what it answers (a map, a double, a null ...), and the writer gives it the
//! shape of the protocol version that the client chose with HELLO. Replies are appended to one
//! byte vector; a value of [`SHARE_FROM`] bytes or more is not copied but held by reference, so
//! that reading a 100 MB string costs a reference count. [`Reply::slices`] gives the pieces in
//! order for `writev`.

use std::ops::Range;
use std::sync::Arc;

/// A large immutable byte string that replies and the keyspace can share.
pub type Blob = Arc<Vec<u8>>;

/// Values from this many bytes on are sent from where they are stored.
pub const SHARE_FROM: usize = 16 * 1024;

/// An empty buffer of more than this is freed by [`Reply::trim`] (bytes).
const KEEP: usize = 32 * 1024;

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Proto {
    #[default]
    Resp2,
    Resp3,
}

/// A growing sequence of replies.
#[derive(Debug, Default)]
pub struct Reply {
    buf: Vec<u8>,
    shared: Vec<Part>,
    shared_len: usize,
    pub proto: Proto,
}

/// A shared value, or a part of it.
#[derive(Debug)]
struct Part {
    /// It is sent before the byte of the buffer at this position.
    at: usize,
    blob: Blob,
    range: Range<usize>,
}

impl Part {
    fn bytes(&self) -> &[u8] {
        &self.blob[self.range.clone()]
    }
}

/// A place in a reply sequence to which it can be cut back.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    buf: usize,
    shared: usize,
}

/// A length that is not known until the elements are written: see [`Reply::array_deferred`].
#[must_use = "finish it with Reply::finish"]
#[derive(Debug)]
pub struct Deferred {
    at: usize,
    kind: u8,
}

/// The headers of short bulk strings; the last byte of each is its length.
static SHORT_HEADS: [[u8; 8]; 100] = {
    let mut heads = [[0; 8]; 100];
    let mut n = 0;
    while n < heads.len() {
        let ones = b'0' + (n % 10) as u8;
        heads[n] = if n < 10 {
            [b'$', ones, b'\r', b'\n', 0, 0, 0, 4]
        } else {
            [b'$', b'0' + (n / 10) as u8, ones, b'\r', b'\n', 0, 0, 5]
        };
        n += 1;
    }
    heads
};

impl Reply {
    pub fn new(proto: Proto) -> Self {
        Reply { proto, ..Reply::default() }
    }

    /// An empty one with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Reply { buf: Vec::with_capacity(bytes), ..Reply::default() }
    }

    /// Bytes to send, shared values included.
    pub fn len(&self) -> usize {
        self.buf.len() + self.shared_len
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory held by the buffer itself.
    pub fn capacity(&self) -> usize {
        self.buf.capacity()
    }

    /// Bytes of memory outside the buffer: the parts of shared values in this reply, and their
    /// list. O(1).
    pub fn memory_of_shared(&self) -> usize {
        self.shared_len + self.shared.capacity() * size_of::<Part>()
    }

    pub fn is_resp3(&self) -> bool {
        self.proto == Proto::Resp3
    }

    pub fn mark(&self) -> Mark {
        Mark { buf: self.buf.len(), shared: self.shared.len() }
    }

    /// Drops everything written since `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        self.buf.truncate(mark.buf);
        self.shared_len -= self.shared.drain(mark.shared..).map(|p| p.range.len()).sum::<usize>();
    }

    /// The first byte written since `mark`, which distinguishes an error (`-`) from other replies.
    pub fn first_byte_since(&self, mark: Mark) -> Option<u8> {
        self.buf.get(mark.buf).copied()
    }

    /// Bytes written since `mark`, shared values included.
    #[inline]
    pub fn len_since(&self, mark: Mark) -> usize {
        if self.shared.is_empty() {
            return self.buf.len() - mark.buf;
        }
        let shared: usize = self.shared[mark.shared..].iter().map(|p| p.range.len()).sum();
        self.buf.len() - mark.buf + shared
    }

    /// Inline bytes written since `mark` (shared values are not among them).
    pub fn bytes_since(&self, mark: Mark) -> &[u8] {
        &self.buf[mark.buf..]
    }

    pub fn clear(&mut self) {
        self.buf.clear();
        self.shared.clear();
        self.shared_len = 0;
    }

    /// Everything as contiguous bytes when nothing is shared: the usual case.
    pub fn contiguous(&self) -> Option<&[u8]> {
        self.shared.is_empty().then_some(&self.buf[..])
    }

    /// The pieces in sending order, after skipping `skip` bytes, at most `max` of them.
    pub fn slices(&self, mut skip: usize, max: usize) -> Vec<&[u8]> {
        let mut out = Vec::new();
        let mut from = 0;
        for part in &self.shared {
            // Not looked at in memory before it is its turn: a value may be in thousands of parts.
            if part.at - from + part.range.len() <= skip {
                skip -= part.at - from + part.range.len();
            } else {
                for piece in [&self.buf[from..part.at], part.bytes()] {
                    let cut = skip.min(piece.len());
                    skip -= cut;
                    if piece.len() > cut && out.len() < max {
                        out.push(&piece[cut..]);
                    }
                }
            }
            from = part.at;
            if out.len() >= max {
                return out;
            }
        }
        let rest = self.buf.get(from + skip..).unwrap_or_default();
        if !rest.is_empty() && out.len() < max {
            out.push(rest);
        }
        out
    }

    /// Moves everything of `other` to the end of this one, leaving `other` empty.
    pub fn append(&mut self, other: &mut Reply) {
        let base = self.buf.len();
        self.buf.append(&mut other.buf);
        self.shared.extend(other.shared.drain(..).map(|part| Part { at: part.at + base, ..part }));
        self.shared_len += std::mem::take(&mut other.shared_len);
    }

    /// Takes the part from `skip` on out of `self` into a new sequence, leaving `self` empty.
    pub fn split_rest(&mut self, skip: usize) -> Reply {
        let mut rest = Reply::new(self.proto);
        if self.shared.is_empty() {
            rest.buf.extend_from_slice(&self.buf[skip..]);
            self.buf.clear();
        } else {
            rest.buf = std::mem::take(&mut self.buf);
            rest.shared = std::mem::take(&mut self.shared);
            rest.shared_len = std::mem::take(&mut self.shared_len);
            rest.drop_front(skip);
        }
        rest
    }

    /// Frees a large buffer, so that one huge reply does not hold memory for ever.
    pub fn trim(&mut self) {
        if self.is_empty() && self.buf.capacity() > KEEP {
            self.buf = Vec::new();
        }
    }

    /// Forgets the first `n` bytes: they were sent.
    pub fn drop_front(&mut self, mut n: usize) {
        if self.shared.is_empty() {
            self.buf.drain(..n);
            return;
        }
        let mut inline = 0;
        let mut blobs = 0;
        for part in &mut self.shared {
            let run = (part.at - inline).min(n);
            inline += run;
            n -= run;
            if n == 0 {
                break;
            }
            let sent = n.min(part.range.len());
            part.range.start += sent;
            self.shared_len -= sent;
            n -= sent;
            if !part.range.is_empty() {
                break;
            }
            blobs += 1;
        }
        inline += n;
        self.shared.drain(..blobs);
        self.shared.iter_mut().for_each(|part| part.at -= inline);
        self.buf.drain(..inline);
    }

    // ---- the types ----

    /// Bytes that are already in the protocol's form.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// Bytes that are already in the protocol's form and that others send too: shared when they are
    /// `from` or more, else copied.
    #[inline]
    pub fn raw_shared(&mut self, bytes: &Blob, from: usize) {
        if bytes.len() < from {
            return self.raw(bytes);
        }
        self.share(bytes, 0..bytes.len());
    }

    /// A part of a value, as it is, to be sent from where it is stored.
    fn share(&mut self, blob: &Blob, range: Range<usize>) {
        self.shared_len += range.len();
        self.shared.push(Part { at: self.buf.len(), blob: blob.clone(), range });
    }

    /// A bulk string of `len` bytes that lies in several places: a copy of it.
    pub fn bulk_slices<'b>(&mut self, len: usize, slices: impl Iterator<Item = &'b [u8]>) {
        self.buf.reserve(len + 24);
        self.header(b'$', len as i64);
        slices.for_each(|slice| self.raw(slice));
        self.raw(b"\r\n");
    }

    /// A bulk string of `len` bytes in parts: `each` shows them, in order.
    pub fn bulk_parts(
        &mut self,
        len: usize,
        each: impl FnOnce(&mut dyn FnMut(&Blob, Range<usize>)),
    ) {
        self.header(b'$', len as i64);
        let before = self.len();
        each(&mut |blob, range| match range.len() < SHARE_FROM {
            true => self.raw(&blob[range]),
            false => self.share(blob, range),
        });
        debug_assert_eq!(self.len() - before, len, "the parts are the whole");
        self.raw(b"\r\n");
    }

    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error: `text` starts with its code ("ERR ...", "WRONGTYPE ..."). Line breaks in it
    /// become spaces, since they would end the reply.
    pub fn error(&mut self, text: &[u8]) {
        let end = text.iter().rposition(|b| !matches!(b, b'\r' | b'\n')).map_or(0, |at| at + 1);
        self.buf.push(b'-');
        self.buf
            .extend(text[..end].iter().map(|b| if matches!(b, b'\r' | b'\n') { b' ' } else { *b }));
        self.raw(b"\r\n");
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.buf.push(kind);
        self.raw(text);
        self.raw(b"\r\n");
    }

    #[inline]
    fn header(&mut self, kind: u8, n: i64) {
        if (0..10).contains(&n) {
            self.raw(&[kind, b'0' + n as u8, b'\r', b'\n']);
        } else {
            let mut digits = itoa::Buffer::new();
            let digits = digits.format(n).as_bytes();
            let mut head = [0u8; 24];
            head[0] = kind;
            head[1..=digits.len()].copy_from_slice(digits);
            head[digits.len() + 1..digits.len() + 3].copy_from_slice(b"\r\n");
            self.raw(&head[..digits.len() + 3]);
        }
    }

    #[inline]
    pub fn int(&mut self, n: i64) {
        self.header(b':', n);
    }

    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.buf.reserve(bytes.len() + 24);
        if let Some(head) = SHORT_HEADS.get(bytes.len()) {
            let end = self.buf.len() + usize::from(head[7]);
            // All eight bytes, since a copy of a fixed length is one instruction.
            self.raw(head);
            self.buf.truncate(end);
        } else {
            self.header(b'$', bytes.len() as i64);
        }
        self.raw(bytes);
        self.raw(b"\r\n");
    }

    /// A bulk string that shares `blob` when it is large enough for that to pay.
    pub fn bulk_shared(&mut self, blob: &Blob) {
        if blob.len() < SHARE_FROM {
            return self.bulk(blob);
        }
        self.header(b'$', blob.len() as i64);
        self.share(blob, 0..blob.len());
        self.raw(b"\r\n");
    }

    /// An integer in the form of a bulk string.
    pub fn bulk_int(&mut self, n: i64) {
        self.bulk(itoa::Buffer::new().format(n).as_bytes());
    }

    /// Null instead of a string or any single value.
    #[inline]
    pub fn null(&mut self) {
        match self.proto {
            Proto::Resp2 => self.raw(b"$-1\r\n"),
            Proto::Resp3 => self.raw(b"_\r\n"),
        }
    }

    /// Null instead of an array.
    pub fn null_array(&mut self) {
        match self.proto {
            Proto::Resp2 => self.raw(b"*-1\r\n"),
            Proto::Resp3 => self.raw(b"_\r\n"),
        }
    }

    #[inline]
    pub fn array(&mut self, n: usize) {
        self.header(b'*', n as i64);
    }

    /// A map of `n` pairs; in RESP2 an array of `2n`.
    pub fn map(&mut self, n: usize) {
        match self.proto {
            Proto::Resp2 => self.header(b'*', 2 * n as i64),
            Proto::Resp3 => self.header(b'%', n as i64),
        }
    }

    pub fn set(&mut self, n: usize) {
        self.header(if self.is_resp3() { b'~' } else { b'*' }, n as i64);
    }

    /// An out-of-band message; in RESP2 an array.
    pub fn push(&mut self, n: usize) {
        self.header(if self.is_resp3() { b'>' } else { b'*' }, n as i64);
    }

    /// Attributes of the next reply; RESP3 only (nothing must be written in RESP2).
    pub fn attribute(&mut self, n: usize) {
        debug_assert!(self.is_resp3());
        self.header(b'|', n as i64);
    }

    /// A boolean; in RESP2 the integers 1 and 0.
    pub fn boolean(&mut self, b: bool) {
        match (self.proto, b) {
            (Proto::Resp2, true) => self.raw(b":1\r\n"),
            (Proto::Resp2, false) => self.raw(b":0\r\n"),
            (Proto::Resp3, true) => self.raw(b"#t\r\n"),
            (Proto::Resp3, false) => self.raw(b"#f\r\n"),
        }
    }

    /// A double, formatted by the caller; in RESP2 a bulk string.
    pub fn double(&mut self, text: &str) {
        match self.proto {
            Proto::Resp2 => self.bulk(text.as_bytes()),
            Proto::Resp3 => self.line(b',', text.as_bytes()),
        }
    }

    /// A number of any size in decimal; in RESP2 a bulk string.
    pub fn big_number(&mut self, text: &str) {
        match self.proto {
            Proto::Resp2 => self.bulk(text.as_bytes()),
            Proto::Resp3 => self.line(b'(', text.as_bytes()),
        }
    }

    /// Text with a three-letter format (`txt`, `mkd`); in RESP2 a bulk string.
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        debug_assert_eq!(format.len(), 3);
        match self.proto {
            Proto::Resp2 => self.bulk(text),
            Proto::Resp3 => {
                self.header(b'=', text.len() as i64 + 4);
                self.raw(format.as_bytes());
                self.raw(b":");
                self.raw(text);
                self.raw(b"\r\n");
            }
        }
    }

    /// Starts an array whose length [`Reply::finish`] sets later.
    pub fn array_deferred(&mut self) -> Deferred {
        Deferred { at: self.buf.len(), kind: b'*' }
    }

    /// Starts a map whose number of pairs [`Reply::finish`] sets later.
    pub fn map_deferred(&mut self) -> Deferred {
        Deferred { at: self.buf.len(), kind: b'%' }
    }

    /// Starts a set whose length [`Reply::finish`] sets later.
    pub fn set_deferred(&mut self) -> Deferred {
        Deferred { at: self.buf.len(), kind: b'~' }
    }

    /// Puts the header before the elements written since `deferred` was taken. Moves those bytes
    /// once.
    pub fn finish(&mut self, deferred: Deferred, n: usize) {
        let mut head = Reply::new(self.proto);
        match deferred.kind {
            b'%' => head.map(n),
            b'~' => head.set(n),
            _ => head.array(n),
        }
        let grown = head.buf.len();
        let behind = self.shared.iter_mut().filter(|part| part.at > deferred.at);
        behind.for_each(|part| part.at += grown);
        self.buf.splice(deferred.at..deferred.at, head.buf);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(r: &Reply, skip: usize) -> Vec<u8> {
        r.slices(skip, usize::MAX).concat()
    }

    #[test]
    fn both_protocols() {
        for (proto, want) in [
            (
                Proto::Resp2,
                &b"*4\r\n$1\r\na\r\n:1\r\n$-1\r\n*-1\r\n$3\r\n1.5\r\n:0\r\n$2\r\nhi\r\n*2\r\n"[..],
            ),
            (
                Proto::Resp3,
                &b"%2\r\n$1\r\na\r\n:1\r\n_\r\n_\r\n,1.5\r\n#f\r\n=6\r\ntxt:hi\r\n~2\r\n"[..],
            ),
        ] {
            let mut r = Reply::new(proto);
            r.map(2);
            r.bulk(b"a");
            r.int(1);
            r.null();
            r.null_array();
            r.double("1.5");
            r.boolean(false);
            r.verbatim("txt", b"hi");
            r.set(2);
            assert_eq!(r.contiguous(), Some(want));
        }
    }

    #[test]
    fn errors_stay_on_one_line() {
        let mut r = Reply::default();
        r.error(b"ERR a\r\nb");
        assert_eq!(r.contiguous(), Some(&b"-ERR a  b\r\n"[..]));
    }

    #[test]
    fn shared_values_keep_their_place() {
        let blob: Blob = Arc::new(vec![b'x'; SHARE_FROM]);
        let mut r = Reply::default();
        r.ok();
        let list = r.array_deferred();
        r.bulk_shared(&blob);
        r.bulk_shared(&blob);
        r.int(-12);
        r.finish(list, 3);
        let head = format!("${SHARE_FROM}\r\n").into_bytes();
        let want =
            [&b"+OK\r\n*3\r\n"[..], &head, &blob, b"\r\n", &head, &blob, b"\r\n:-12\r\n"].concat();
        assert_eq!(r.len(), want.len());
        for skip in [0, 1, 5, 9, 12, 100, head.len() + 9 + SHARE_FROM, want.len() - 1] {
            assert!(flat(&r, skip) == want[skip..], "{skip}");
        }
        let mut front = Reply::default();
        front.ok();
        front.append(&mut r);
        assert!(r.is_empty());
        for n in [3, 2, 10, 20000, 5] {
            front.drop_front(n);
        }
        assert!(flat(&front, 0) == want[20015..]);
        assert_eq!(front.len(), want.len() - 20015);
    }

    #[test]
    fn a_value_in_parts_is_one_string() {
        let blob: Blob = Arc::new((0..3 * SHARE_FROM).map(|n| n as u8).collect());
        let ranges = [5..SHARE_FROM + 5, 7..9, SHARE_FROM..3 * SHARE_FROM, 0..SHARE_FROM];
        let bytes: Vec<u8> = ranges.iter().flat_map(|r| blob[r.clone()].to_vec()).collect();
        let mut r = Reply::default();
        let list = r.array_deferred();
        r.bulk_parts(bytes.len(), |part| {
            ranges.iter().for_each(|range| part(&blob, range.clone()))
        });
        r.ok();
        r.finish(list, 2);
        assert_eq!(Arc::strong_count(&blob), 4, "a short part is copied");
        let head = format!("*2\r\n${}\r\n", bytes.len()).into_bytes();
        let want = [&head[..], &bytes, b"\r\n+OK\r\n"].concat();
        for skip in (0..want.len()).step_by(999).chain([head.len() - 1, head.len(), want.len()]) {
            assert!(flat(&r, skip) == want[skip..], "{skip}");
            let two = r.slices(skip, 2).concat();
            assert!(want[skip..].starts_with(&two) && two.is_empty() == (skip == want.len()));
        }
        let mut gone = 0;
        for n in [1, head.len(), 100, SHARE_FROM, 2 * SHARE_FROM] {
            r.drop_front(n);
            gone += n;
            assert!(flat(&r, 0) == want[gone..] && r.len() == want.len() - gone);
        }
    }

    #[test]
    fn encoded_value_is_shared_when_that_pays() {
        let bytes: Blob = Arc::new(b"+12345\r\n".to_vec());
        let mut r = Reply::default();
        r.raw_shared(&bytes, 9);
        assert_eq!(Arc::strong_count(&bytes), 1);
        r.raw_shared(&bytes, 8);
        r.ok();
        assert_eq!(Arc::strong_count(&bytes), 2);
        assert_eq!(flat(&r, 0), b"+12345\r\n+12345\r\n+OK\r\n");
        assert_eq!(r.len(), 21);
    }

    #[test]
    fn truncate_forgets_shared_values() {
        let blob: Blob = Arc::new(vec![b'x'; SHARE_FROM]);
        let mut r = Reply::default();
        r.ok();
        let mark = r.mark();
        r.bulk_shared(&blob);
        assert_eq!(r.first_byte_since(mark), Some(b'$'));
        r.truncate(mark);
        assert_eq!((r.len(), flat(&r, 0)), (5, b"+OK\r\n".to_vec()));
    }
}
