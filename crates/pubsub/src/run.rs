//! Consecutive messages to the same receivers: a publisher's batch.
//!
//! Suppose that a thousand subscribers get sixteen messages. Delivered one by one, that is sixteen
//! thousand times looking up a client, checking its state and appending three pieces of text. As a
//! run, it is a thousand times looking up a client and appending one piece, which was encoded once.
//! Each client is sent the same bytes.
//!
//! A thread handles nothing else between the messages of a run, so the order stays the same. A
//! client that has read ahead into the middle of a run gets the other messages one by one.

use crate::message::{Ids, Part, Published};
use smallvec::{SmallVec, smallvec};
use std::cell::OnceCell;
use std::sync::Arc;
use weft_resp::{Proto, Reply};

/// The maximum number of bytes of a run for each client. Output buffer limits are checked between
/// runs.
const MAX_BYTES: usize = 16 << 10;
/// For fewer receivers, encoding a run does not pay.
const MIN_RECEIVERS: usize = 4;

/// Consecutive messages to the same receivers.
#[derive(Debug)]
pub struct Run {
    /// The number of the first message. The others have the next numbers.
    first: u64,
    messages: SmallVec<[Box<Published>; 4]>,
    bytes: usize,
    /// The encoded messages, for each protocol requested so far.
    resp2: OnceCell<Vec<u8>>,
    resp3: OnceCell<Vec<u8>>,
}

impl Run {
    pub fn new(number: u64, message: Box<Published>) -> Self {
        let bytes = message.only().map_or(0, |(part, _)| part.bytes());
        let (resp2, resp3) = (OnceCell::new(), OnceCell::new());
        Run { first: number, messages: smallvec![message], bytes, resp2, resp3 }
    }

    /// Adds the next message, if it belongs to the run.
    ///
    /// # Errors
    /// Returns the message if it has other receivers or would make the run too long.
    pub fn add(&mut self, message: Box<Published>) -> Result<(), Box<Published>> {
        let bytes = match (self.messages[0].only(), message.only()) {
            (Some((before, to)), Some((part, ids))) => {
                let belongs = Arc::ptr_eq(to, ids)
                    && self.needs_authority() == message.needs_authority()
                    && ids.len() >= MIN_RECEIVERS
                    && part.is_copied()
                    && before.is_copied()
                    && self.bytes + part.bytes() <= MAX_BYTES;
                belongs.then(|| part.bytes())
            }
            _ => None,
        };
        let Some(bytes) = bytes else { return Err(message) };
        self.bytes += bytes;
        self.messages.push(message);
        Ok(())
    }

    /// The receivers of all messages, if there are several messages.
    pub fn together(&self) -> Option<&Ids> {
        let (_, ids) = self.messages[0].only()?;
        (self.messages.len() > 1).then_some(ids)
    }

    /// The number of the first message.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Whether this node needs the authority of its lease to deliver the messages.
    pub fn needs_authority(&self) -> bool {
        self.messages[0].needs_authority()
    }

    /// Each message with its number.
    pub fn each(&self) -> impl Iterator<Item = (u64, &Published)> {
        (self.first..).zip(self.messages.iter().map(|message| &**message))
    }

    /// The bytes for a client that has read none of the messages ahead.
    pub fn bytes(&self, proto: Proto) -> &[u8] {
        let encoded = match proto {
            Proto::Resp2 => &self.resp2,
            Proto::Resp3 => &self.resp3,
        };
        encoded.get_or_init(|| {
            let mut all = Reply::with_capacity(self.bytes);
            let parts = self.messages.iter().flat_map(|message| message.parts());
            parts.for_each(|(part, _): (Part<'_>, _)| part.write(proto, &mut all));
            all.contiguous().unwrap_or_default().to_vec()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{MESSAGE, SHARD_MESSAGE, pattern_head, tail};
    use super::*;

    fn to(ids: &Ids, text: &[u8]) -> Box<Published> {
        let mut published = Published::new(tail(b"c", text));
        published.add_direct(MESSAGE, ids);
        Box::new(published)
    }

    #[test]
    fn runs_have_one_set_of_receivers_and_one_part() {
        let (many, others): (Ids, Ids) = (Arc::new(vec![1, 2, 3, 4]), Arc::new(vec![1, 2, 3, 4]));
        let mut run = Run::new(7, to(&many, b"a"));
        assert!(run.together().is_none());
        assert!(run.add(to(&many, b"b")).is_ok());
        assert!(run.add(to(&others, b"b")).is_err());
        let mut both = to(&many, b"b");
        both.add_matched(pattern_head(b"*"), many.clone());
        assert!(run.add(both).is_err());
        assert!(run.add(to(&many, &[b'x'; 4096])).is_err());
        let mut shard = Published::new(tail(b"c", b"d"));
        shard.add_direct(SHARD_MESSAGE, &many);
        assert!(run.add(Box::new(shard)).is_ok());
        let mut bound = Published::bound(tail(b"c", b"d"));
        bound.add_direct(SHARD_MESSAGE, &many);
        assert!(run.add(Box::new(bound)).is_err());
        assert!(run.together().is_some_and(|ids| Arc::ptr_eq(ids, &many)));
        let numbers: Vec<u64> = run.each().map(|(number, _)| number).collect();
        assert_eq!((run.first(), numbers), (7, vec![7, 8, 9]));
        let shown = String::from_utf8_lossy(run.bytes(Proto::Resp3));
        let want = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\na\r\n\
                    >3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nb\r\n\
                    >3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$1\r\nd\r\n";
        assert_eq!(shown, want);
        assert_eq!(run.bytes(Proto::Resp2), want.replace('>', "*").as_bytes());
        assert_eq!(run.bytes, want.len());
    }

    #[test]
    fn few_receivers_and_long_runs() {
        let few: Ids = Arc::new(vec![1, 2, 3]);
        assert!(Run::new(0, to(&few, b"a")).add(to(&few, b"b")).is_err());
        let many: Ids = Arc::new(vec![1, 2, 3, 4]);
        let mut run = Run::new(0, to(&many, &[b'x'; 200]));
        while run.add(to(&many, &[b'x'; 200])).is_ok() {}
        assert!(run.bytes <= MAX_BYTES && run.bytes + 300 > MAX_BYTES);
    }
}
