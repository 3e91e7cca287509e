//! What a client is told of the values that it keeps.
//!
//! ```text
//!  RESP3, itself or where it redirects to     >2 invalidate [key ...]
//!  RESP2, a subscriber to which it redirects  *3 message __redis__:invalidate [key ...]
//!  RESP2 otherwise                            nothing: it could not be told from a reply
//! ```
//!
//! Which of these it is, is found when the message is written, by the thread of the client that gets
//! it: only there protocol and subscriptions can't change meanwhile. The keys are encoded once for all
//! who get the message.

use std::sync::Arc;
use weft_resp::{Blob, Proto, Reply};

/// Arrays of so many bytes and more are not copied to each client's output.
const SHARE_FROM: usize = 512;

/// What a message costs its thread beside its bytes, in bytes.
const FIXED_WEIGHT: usize = 64;

/// The channel on which subscribers in RESP2 hear of it.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// What has happened.
#[derive(Clone, Debug)]
pub enum News {
    /// These keys have changed: an array of them, encoded.
    Keys(Blob),
    /// Nothing is true any more.
    All,
    /// The client of this number, to which invalidations were to go, is gone.
    Broken(u64),
}

impl News {
    /// That one or more keys have changed.
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

    /// As a message to the client that has read the keys, or to the one that it redirects to.
    pub fn to(&self, redirected: bool) -> Message {
        Message { news: self.clone(), redirected }
    }
}

/// What is on its way to one client.
#[derive(Clone, Debug)]
pub struct Message {
    news: News,
    /// Another client has read the keys.
    redirected: bool,
}

impl Message {
    /// What it costs the thread that hands it on, and in memory: in bytes. The keys are in memory once
    /// for all who are told.
    pub fn weight(&self) -> usize {
        FIXED_WEIGHT
            + match &self.news {
                News::Keys(array) => array.len().min(SHARE_FROM),
                News::All | News::Broken(_) => 0,
            }
    }

    /// Appends the message to the output of a client that speaks `proto` and possibly subscribes to
    /// some channel: whatever channel that is.
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
    fn who_gets_what_in_which_form() {
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
    fn everything_and_nothing() {
        let all = News::All.to(true);
        assert_eq!(shown(&all, Proto::Resp3, false), ">2|$10|invalidate|_|");
        assert_eq!(shown(&all, Proto::Resp2, true), "*3|$7|message|$20|__redis__:invalidate|$-1|");
        let broken = News::Broken(7).to(false);
        assert_eq!(shown(&broken, Proto::Resp3, false), ">2|$21|tracking-redir-broken|:7|");
        assert_eq!(shown(&broken, Proto::Resp2, true), "");
    }
}
