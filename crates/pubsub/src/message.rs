//! A message from a publisher to the subscribers of one thread.
//!
//! ```text
//!  `>` 3\r\n$7\r\nmessage\r\n                       $7\r\nchannel\r\n$5\r\nhello\r\n
//!  `*` 4\r\n$8\r\npmessage\r\n$4\r\nchan*\r\n       (the same)
//!   │  head: of the kind, or of the pattern         tail: once for each message
//!   └─ RESP3 or RESP2
//! ```
//!
//! The publisher encodes the tail once, whatever the number of receivers, patterns and protocols.
//! Heads are encoded when a client subscribes. A short tail is copied to each receiver's output,
//! which is cheaper than a reference; a long one is shared.

use std::sync::Arc;
use weft_resp::{Blob, Proto, Reply};

/// Client ids in ascending order.
pub type Ids = Arc<Vec<u64>>;

/// Tails of at least this many bytes are shared, not copied.
const SHARE_FROM: usize = 512;

/// The fixed cost of a message for its thread, in bytes.
const FIXED_WEIGHT: usize = 64;
/// The cost of each receiver, in bytes.
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

/// The part of a message after the head.
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

/// A message and its receivers on one thread.
#[derive(Clone, Debug)]
pub struct Published {
    tail: Blob,
    needs_authority: bool,
    /// The subscribers of the channel itself, with the head for its kind.
    direct: Option<(&'static [u8], Ids)>,
    /// The subscribers of each matching pattern, with the pattern's head.
    matched: Vec<(Arc<[u8]>, Ids)>,
}

impl Published {
    pub fn new(tail: Blob) -> Self {
        Published { tail, needs_authority: false, direct: None, matched: Vec::new() }
    }

    /// A message that may be delivered only while this node has the authority of its lease.
    pub fn bound(tail: Blob) -> Self {
        Published { needs_authority: true, ..Published::new(tail) }
    }

    /// Adds receivers of the message as one of the channel. A client that is already among them gets it once.
    pub fn add_direct(&mut self, head: &'static [u8], ids: &Ids) {
        let Some((_, all)) = &mut self.direct else {
            self.direct = Some((head, ids.clone()));
            return;
        };
        let new: Vec<u64> =
            ids.iter().filter(|id| all.binary_search(id).is_err()).copied().collect();
        if !new.is_empty() {
            let all = Arc::make_mut(all);
            all.extend(new);
            all.sort_unstable();
        }
    }

    pub fn add_matched(&mut self, head: Arc<[u8]>, ids: Ids) {
        self.matched.push((head, ids));
    }

    /// Parts with their receivers: the channel's first, then the patterns'.
    pub fn parts(&self) -> impl Iterator<Item = (Part<'_>, &Ids)> {
        let direct = self.direct.iter().map(|(head, ids)| (*head, ids));
        let all = direct.chain(self.matched.iter().map(|(head, ids)| (&head[..], ids)));
        all.map(|(head, ids)| (Part { head, tail: &self.tail }, ids))
    }

    /// Whether this node needs the authority of its lease to deliver it.
    pub fn needs_authority(&self) -> bool {
        self.needs_authority
    }

    /// The only part and its receivers, if there is exactly one.
    pub fn only(&self) -> Option<(Part<'_>, &Ids)> {
        let mut parts = self.parts();
        parts.next().filter(|_| parts.next().is_none())
    }

    /// Passes the parts for this client to `show`, in order. O(parts * log(receivers)).
    pub fn for_client(&self, client: u64, mut show: impl FnMut(Part<'_>)) {
        for (part, ids) in self.parts() {
            if ids.binary_search(&client).is_ok() {
                show(part);
            }
        }
    }

    /// The number of pushes.
    pub fn receivers(&self) -> usize {
        self.parts().map(|(_, ids)| ids.len()).sum()
    }

    /// The cost of delivering the message and of its memory, in bytes.
    pub fn weight(&self) -> usize {
        FIXED_WEIGHT + self.tail.len() + RECEIVER_WEIGHT * self.receivers()
    }
}

/// A push that can be written to any number of clients.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    head: &'a [u8],
    tail: &'a Blob,
}

/// An owned [`Part`].
#[derive(Debug)]
pub struct OwnedPart {
    head: Box<[u8]>,
    tail: Blob,
}

impl OwnedPart {
    pub fn part(&self) -> Part<'_> {
        Part { head: &self.head, tail: &self.tail }
    }
}

impl Part<'_> {
    /// The number of bytes sent.
    pub fn bytes(self) -> usize {
        1 + self.head.len() + self.tail.len()
    }

    /// Whether the tail is copied to each receiver.
    pub fn is_copied(self) -> bool {
        self.tail.len() < SHARE_FROM
    }

    pub fn to_own(self) -> OwnedPart {
        OwnedPart { head: self.head.into(), tail: self.tail.clone() }
    }

    /// Appends the push to `reply`.
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
        published.add_direct(MESSAGE, &Arc::new(vec![2, 7]));
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

    #[test]
    fn receiver_of_several_names_gets_a_direct_message_once() {
        let mut published = Published::new(tail(b"news", b"hello"));
        let shared = Arc::new(vec![3, 7]);
        published.add_direct(MESSAGE, &shared);
        published.add_direct(MESSAGE, &Arc::new(vec![3]));
        assert!(published.only().is_some_and(|(_, ids)| Arc::ptr_eq(ids, &shared)));
        published.add_direct(MESSAGE, &Arc::new(vec![1, 7, 9]));
        let ids = published.only().map(|(_, ids)| ids.to_vec());
        assert_eq!((ids, &shared[..]), (Some(vec![1, 3, 7, 9]), &[3, 7][..]));
    }
}
