//! Messages that follow each other to the same receivers: a publisher's batch.
//!
//! A thousand subscribers get sixteen messages. One after the other, that is sixteen thousand times finding a client,
//! looking how it is and appending three pieces of text. As a run it is a thousand times finding a client and
//! appending one piece, which was put together once. What each client is sent is the same.
//!
//! Nothing else is handled between the messages of a run, so a run is worth no more than the order of its messages:
//! a client that has looked ahead into the middle of it gets the rest one by one.

use crate::message::{Ids, Part, Published};
use smallvec::{SmallVec, smallvec};
use std::cell::OnceCell;
use std::sync::Arc;
use weft_resp::{Proto, Reply};

/// Runs have so many bytes for each client, at most: what it takes is looked at between two of them.
const MOST_BYTES: usize = 16 << 10;
/// For fewer receivers putting it together does not pay.
const FEWEST_RECEIVERS: usize = 4;

/// See the module.
#[derive(Debug)]
pub struct Run {
    /// The number of the first message; the others have those behind it.
    first: u64,
    messages: SmallVec<[Box<Published>; 4]>,
    bytes: usize,
    /// All messages, for each protocol that was asked for.
    resp2: OnceCell<Vec<u8>>,
    resp3: OnceCell<Vec<u8>>,
}

impl Run {
    pub fn new(number: u64, message: Box<Published>) -> Self {
        let bytes = message.only().map_or(0, |(part, _)| part.bytes());
        let (resp2, resp3) = (OnceCell::new(), OnceCell::new());
        Run { first: number, messages: smallvec![message], bytes, resp2, resp3 }
    }

    /// Adds the message that comes next, unless it begins another run.
    ///
    /// # Errors
    /// The message, which goes to others or is too long.
    pub fn add(&mut self, message: Box<Published>) -> Result<(), Box<Published>> {
        let bytes = match (self.messages[0].only(), message.only()) {
            (Some((before, to)), Some((part, ids))) => {
                let belongs = Arc::ptr_eq(to, ids)
                    && ids.len() >= FEWEST_RECEIVERS
                    && part.is_copied()
                    && before.is_copied()
                    && self.bytes + part.bytes() <= MOST_BYTES;
                belongs.then(|| part.bytes())
            }
            _ => None,
        };
        let Some(bytes) = bytes else { return Err(message) };
        self.bytes += bytes;
        self.messages.push(message);
        Ok(())
    }

    /// The receivers of all messages, where there are several.
    pub fn together(&self) -> Option<&Ids> {
        let (_, ids) = self.messages[0].only()?;
        (self.messages.len() > 1).then_some(ids)
    }

    /// The number of the first message.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Each message, with its number.
    pub fn each(&self) -> impl Iterator<Item = (u64, &Published)> {
        (self.first..).zip(self.messages.iter().map(|message| &**message))
    }

    /// What a client that has seen none of them is sent, where there are several.
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
        published.set_direct(MESSAGE, ids.clone());
        Box::new(published)
    }

    #[test]
    fn only_what_goes_to_the_same_receivers_by_one_way() {
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
        shard.set_direct(SHARD_MESSAGE, many.clone());
        assert!(run.add(Box::new(shard)).is_ok());
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
        assert!(run.bytes <= MOST_BYTES && run.bytes + 300 > MOST_BYTES);
    }
}
