//! A message on its way from its publisher to the subscribers of one thread.
//!
//! ```text
//!  `>` 3\r\n$7\r\nmessage\r\n                       $7\r\nchannel\r\n$5\r\nhello\r\n
//!  `*` 4\r\n$8\r\npmessage\r\n$4\r\nchan*\r\n       (the same)
//!   │  head: of the kind, or of the pattern         tail: once for each message
//!   └─ RESP3 or RESP2
//! ```
//!
//! The publisher encodes the tail once, whatever the number of receivers, patterns and protocols.
//! Heads are made when somebody subscribes. A short tail is copied to each receiver's output, which
//! is cheaper there than a reference to it; a long one is shared.

use std::sync::Arc;
use weft_resp::{Blob, Proto, Reply};

/// Clients by id, in ascending order.
pub type Ids = Arc<Vec<u64>>;

/// Tails of so many bytes and more are not copied.
const SHARE_FROM: usize = 512;

/// What a message costs its thread beside its bytes and its receivers, in bytes.
const FIXED_WEIGHT: usize = 64;
/// What each receiver costs, in bytes.
const RECEIVER_WEIGHT: usize = 16;

/// The head of a message on a channel.
pub const MESSAGE: &[u8] = b"3\r\n$7\r\nmessage\r\n";
/// The head of a message on a shard channel.
pub const SHARD_MESSAGE: &[u8] = b"3\r\n$8\r\nsmessage\r\n";

/// The head of messages that match `pattern`.
pub fn pattern_head(pattern: &[u8]) -> Arc<[u8]> {
    let mut head = Reply::new(Proto::Resp2);
    head.raw(b"4\r\n");
    head.bulk(b"pmessage");
    head.bulk(pattern);
    head.contiguous().unwrap_or_default().into()
}

/// What follows the head.
pub fn tail(channel: &[u8], message: &[u8]) -> Blob {
    let mut tail = Vec::with_capacity(channel.len() + message.len() + 24);
    let mut digits = itoa::Buffer::new();
    for text in [channel, message] {
        tail.push(b'$');
        tail.extend_from_slice(digits.format(text.len()).as_bytes());
        tail.extend_from_slice(b"\r\n");
        tail.extend_from_slice(text);
        tail.extend_from_slice(b"\r\n");
    }
    Arc::new(tail)
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Published {
    tail: Blob,
    /// Those who have named the channel, with the head of its kind.
    direct: Option<(&'static [u8], Ids)>,
    /// Those of each pattern that matches.
    matched: Vec<(Arc<[u8]>, Ids)>,
}

impl Published {
    pub fn new(tail: Blob) -> Self {
        Published { tail, direct: None, matched: Vec::new() }
    }

    pub fn set_direct(&mut self, head: &'static [u8], ids: Ids) {
        self.direct = Some((head, ids));
    }

    pub fn add_matched(&mut self, head: Arc<[u8]>, ids: Ids) {
        self.matched.push((head, ids));
    }

    /// Head and receivers: of the channel, then of the patterns.
    pub fn parts(&self) -> impl Iterator<Item = (Part<'_>, &Ids)> {
        let direct = self.direct.iter().map(|(head, ids)| (*head, ids));
        let all = direct.chain(self.matched.iter().map(|(head, ids)| (&head[..], ids)));
        all.map(|(head, ids)| (Part { head, tail: &self.tail }, ids))
    }

    /// Its part and receivers, if it reaches all by the same way.
    pub fn only(&self) -> Option<(Part<'_>, &Ids)> {
        let mut parts = self.parts();
        parts.next().filter(|_| parts.next().is_none())
    }

    /// Shows what is for this client, in order. O(parts * log(receivers)).
    pub fn for_client(&self, client: u64, mut show: impl FnMut(Part<'_>)) {
        for (part, ids) in self.parts() {
            if ids.binary_search(&client).is_ok() {
                show(part);
            }
        }
    }

    /// How many pushes it is.
    pub fn receivers(&self) -> usize {
        self.parts().map(|(_, ids)| ids.len()).sum()
    }

    /// What it costs the thread that hands it on, and in memory: in bytes.
    pub fn weight(&self) -> usize {
        FIXED_WEIGHT + self.tail.len() + RECEIVER_WEIGHT * self.receivers()
    }
}

/// A push, for as many as are to get it.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    head: &'a [u8],
    tail: &'a Blob,
}

/// The same, for later.
#[derive(Debug)]
pub struct OwnPart {
    head: Box<[u8]>,
    tail: Blob,
}

impl OwnPart {
    pub fn part(&self) -> Part<'_> {
        Part { head: &self.head, tail: &self.tail }
    }
}

impl Part<'_> {
    /// Bytes that are sent.
    pub fn bytes(self) -> usize {
        1 + self.head.len() + self.tail.len()
    }

    /// Whether it is copied to each receiver.
    pub fn is_copied(self) -> bool {
        self.tail.len() < SHARE_FROM
    }

    pub fn to_own(self) -> OwnPart {
        OwnPart { head: self.head.into(), tail: self.tail.clone() }
    }

    /// Appends the push.
    #[inline]
    pub fn write(self, proto: Proto, reply: &mut Reply) {
        match proto {
            Proto::Resp2 => reply.raw(b"*"),
            Proto::Resp3 => reply.raw(b">"),
        }
        reply.raw(self.head);
        reply.raw_shared(self.tail, SHARE_FROM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_protocols_and_both_forms() {
        let mut published = Published::new(tail(b"news", b"hello"));
        published.set_direct(MESSAGE, Arc::new(vec![2, 7]));
        published.add_matched(pattern_head(b"n*"), Arc::new(vec![7]));
        let shown = |client, proto| {
            let mut reply = Reply::new(proto);
            published.for_client(client, |part| part.write(proto, &mut reply));
            String::from_utf8_lossy(reply.contiguous().unwrap()).into_owned()
        };
        let message = "3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n";
        let matched = "4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$5\r\nhello\r\n";
        assert_eq!(shown(2, Proto::Resp2), format!("*{message}"));
        assert_eq!(shown(7, Proto::Resp3), format!(">{message}>{matched}"));
        assert_eq!(shown(3, Proto::Resp3), "");
        assert_eq!(published.receivers(), 3);
    }

    #[test]
    fn long_messages_are_shared() {
        let published = Published::new(tail(b"c", &[b'x'; SHARE_FROM]));
        let mut reply = Reply::default();
        let part = Part { head: MESSAGE, tail: &published.tail };
        part.write(Proto::Resp2, &mut reply);
        part.write(Proto::Resp2, &mut reply);
        assert_eq!(Arc::strong_count(&published.tail), 3);
        assert!(reply.capacity() < SHARE_FROM);
    }
}
