//! Pushes that must follow the reply of a command in the slow lane.
//!
//! They are stored as messages, not as bytes. The command may be a transaction that changes the protocol or the
//! client's subscriptions, so their form and recipients are known only when it is done.

use weft_pubsub::message::{OwnedPart, Part};
use weft_resp::{Proto, Reply};
use weft_tracking::message::Message;

/// A message for one client that is not a reply.
#[derive(Clone, Copy, Debug)]
pub enum Push<'a> {
    /// The client subscribes to the channel.
    Published(Part<'a>),
    /// An invalidation message for this client, or redirected to it.
    Told(&'a Message),
}

impl Push<'_> {
    /// Appends it to the output of a client that uses `proto`. `subscribes`: whether the client has
    /// subscriptions.
    #[inline]
    pub fn write(self, proto: Proto, subscribes: bool, reply: &mut Reply) {
        match self {
            Push::Published(part) => part.write(proto, reply),
            Push::Told(message) => message.write(proto, subscribes, reply),
        }
    }
}

#[derive(Debug)]
enum Held {
    Published(OwnedPart),
    Told(Message),
}

/// Pushes in the order of their arrival.
#[derive(Debug, Default)]
pub struct HeldBack {
    pushes: Vec<Held>,
    bytes: usize,
}

impl HeldBack {
    /// The approximate number of bytes to be sent.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory in bytes, including data shared with other clients. O(1).
    pub fn memory(&self) -> usize {
        self.bytes + self.pushes.capacity() * size_of::<Held>()
    }

    /// Appends a push.
    pub fn keep(&mut self, push: Push<'_>) {
        let (held, bytes) = match push {
            Push::Published(part) => (Held::Published(part.to_own()), part.bytes()),
            Push::Told(message) => (Held::Told(message.clone()), message.weight()),
        };
        self.bytes += bytes;
        self.pushes.push(held);
    }

    /// All pushes, in order.
    pub fn pushes(&self) -> impl Iterator<Item = Push<'_>> {
        self.pushes.iter().map(|held| match held {
            Held::Published(part) => Push::Published(part.part()),
            Held::Told(message) => Push::Told(message),
        })
    }
}
