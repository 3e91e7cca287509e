//! Invalidation messages to clients that cache values.
//!
//! ```text
//!  RESP3, the client or its redirect target  >2 invalidate [key ...]
//!  RESP2, a subscribed redirect target       *3 message __redis__:invalidate [key ...]
//!  RESP2 otherwise                           nothing: the client could not distinguish it from a reply
//! ```
//!
//! The thread of the receiving client selects the form when it writes the message. Only there the
//! protocol and the subscriptions can't change meanwhile. The keys are encoded once for all
//! receivers.

use std::sync::Arc;
use weft_resp::{Blob, Proto, Reply};

/// Arrays of at least this many bytes are shared, not copied to each client's output.
const SHARE_FROM: usize = 512;

/// The fixed cost of a message for its thread, in bytes.
const FIXED_WEIGHT: usize = 64;

/// The channel for invalidations to RESP2 subscribers.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// The contents of a message.
#[derive(Clone, Debug)]
pub enum News {
    /// These keys have changed: an encoded array.
    Keys(Blob),
    /// All cached values are invalid.
    All,
    /// The redirect target with this client id is gone.
    Broken(u64),
}

impl News {
    /// The message that these keys have changed.
    pub fn of<'k>(keys: impl ExactSizeIterator<Item = &'k [u8]>) -> News {
        let mut digits = itoa::Buffer::new();
        let mut array = Vec::with_capacity(64);
        array.push(b'*');
        array.extend_from_slice(digits.format(keys.len()).as_bytes());
        array.extend_from_slice(b"\r\n");
        for key in keys {
            array.push(b'$');
            array.extend_from_slice(digits.format(key.len()).as_bytes());
            array.extend_from_slice(b"\r\n");
            array.extend_from_slice(key);
            array.extend_from_slice(b"\r\n");
        }
        News::Keys(Arc::new(array))
    }

    /// Addresses the message to the client that has read the keys, or to its redirect target.
    pub fn to(&self, redirected: bool) -> Message {
        Message { news: self.clone(), redirected }
    }
}

/// A message to one client.
#[derive(Clone, Debug)]
pub struct Message {
    news: News,
    /// The receiver is a redirect target.
    redirected: bool,
}

impl Message {
    /// The cost of delivering the message and of its memory, in bytes. All receivers share the
    /// memory of the keys.
    pub fn weight(&self) -> usize {
        FIXED_WEIGHT
            + match &self.news {
                News::Keys(array) => array.len().min(SHARE_FROM),
                News::All | News::Broken(_) => 0,
            }
    }

    /// Appends the message to the output of a client with protocol `proto`. `subscribes` says
    /// whether the client is subscribed to any channel.
    pub fn write(&self, proto: Proto, subscribes: bool, reply: &mut Reply) {
        let told_by_channel = proto == Proto::Resp2 && self.redirected && subscribes;
        match (&self.news, proto) {
            (News::Broken(id), Proto::Resp3) => {
                reply.raw(b">2\r\n");
                reply.bulk(b"tracking-redir-broken");
                reply.int(*id as i64);
            }
            (News::Keys(_) | News::All, Proto::Resp3) => {
                reply.raw(b">2\r\n");
                reply.bulk(b"invalidate");
                self.write_keys(reply, b"_\r\n");
            }
            (News::Keys(_) | News::All, Proto::Resp2) if told_by_channel => {
                reply.raw(b"*3\r\n");
                reply.bulk(b"message");
                reply.bulk(CHANNEL);
                self.write_keys(reply, b"$-1\r\n");
            }
            (News::Broken(_) | News::Keys(_) | News::All, Proto::Resp2) => {}
        }
    }

    fn write_keys(&self, reply: &mut Reply, null: &[u8]) {
        match &self.news {
            News::Keys(array) => reply.raw_shared(array, SHARE_FROM),
            News::All | News::Broken(_) => reply.raw(null),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(message: &Message, proto: Proto, subscribes: bool) -> String {
        let mut reply = Reply::new(proto);
        message.write(proto, subscribes, &mut reply);
        String::from_utf8_lossy(reply.contiguous().unwrap()).replace("\r\n", "|")
    }

    #[test]
    fn forms_depend_on_protocol_and_redirection() {
        let keys = News::of([&b"a"[..], b"key"].into_iter());
        let (own, others) = (keys.to(false), keys.to(true));
        let pushed = ">2|$10|invalidate|*2|$1|a|$3|key|";
        assert_eq!(shown(&own, Proto::Resp3, false), pushed);
        assert_eq!(shown(&others, Proto::Resp3, true), pushed);
        assert_eq!(shown(&own, Proto::Resp2, true), "");
        assert_eq!(shown(&others, Proto::Resp2, false), "");
        let heard = "*3|$7|message|$20|__redis__:invalidate|*2|$1|a|$3|key|";
        assert_eq!(shown(&others, Proto::Resp2, true), heard);
    }

    #[test]
    fn invalidate_all_and_broken_redirection() {
        let all = News::All.to(true);
        assert_eq!(shown(&all, Proto::Resp3, false), ">2|$10|invalidate|_|");
        assert_eq!(shown(&all, Proto::Resp2, true), "*3|$7|message|$20|__redis__:invalidate|$-1|");
        let broken = News::Broken(7).to(false);
        assert_eq!(shown(&broken, Proto::Resp3, false), ">2|$21|tracking-redir-broken|:7|");
        assert_eq!(shown(&broken, Proto::Resp2, true), "");
    }
}
