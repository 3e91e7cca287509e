//! Pushes that come behind the reply of a command which runs in the slow lane.
//!
//! They are kept as they came, not as bytes: the command may be a transaction that changes the protocol,
//! or what the client listens to, and who gets them is known when it is back.

use weft_pubsub::message::{OwnedPart, Part};
use weft_resp::{Proto, Reply};
use weft_tracking::message::Message;

/// Something for one client that is no reply.
#[derive(Clone, Copy, Debug)]
pub enum Push<'a> {
    /// It listens to the channel.
    Published(Part<'a>),
    /// Of values that it, or another one, keeps.
    Told(&'a Message),
}

impl Push<'_> {
    /// Appends it to the output of a client that speaks `proto` and possibly listens to something.
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

/// See the module.
#[derive(Debug, Default)]
pub struct HeldBack {
    pushes: Vec<Held>,
    bytes: usize,
}

impl HeldBack {
    /// Bytes that will be sent, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory, what others share included. O(1).
    pub fn memory(&self) -> usize {
        self.bytes + self.pushes.capacity() * size_of::<Held>()
    }

    /// Keeps one more.
    pub fn keep(&mut self, push: Push<'_>) {
        let (held, bytes) = match push {
            Push::Published(part) => (Held::Published(part.to_own()), part.bytes()),
            Push::Told(message) => (Held::Told(message.clone()), message.weight()),
        };
        self.bytes += bytes;
        self.pushes.push(held);
    }

    /// All of them, in order.
    pub fn pushes(&self) -> impl Iterator<Item = Push<'_>> {
        self.pushes.iter().map(|held| match held {
            Held::Published(part) => Push::Published(part.part()),
            Held::Told(message) => Push::Told(message),
        })
    }
}
