//! Messages to the subscribers of an I/O thread. Their weight counts against the thread's mailbox.

use crate::attention;
use crate::mailbox::Message;
use crate::push::PushMessage;
use crate::server::Server;
use weft_pubsub::message::Published;
use weft_pubsub::registry::Post;

/// Puts `message` into the mailbox of `thread`, which passes it on to clients. `weight` counts until then.
pub fn put(srv: &Server, thread: usize, weight: usize, message: Message) {
    let place = &srv.threads[thread];
    if place.crowd.add(weight) {
        srv.set_attention(attention::CROWDED, true);
    }
    place.mailbox.put(message);
}

impl Post for Server {
    fn put(&self, thread: usize, published: Published) {
        let weight = published.weight();
        put(self, thread, weight, Message::Push(PushMessage::Published(Box::new(published))));
    }

    fn ring(&self, thread: usize) {
        self.threads[thread].mailbox.ring();
    }

    fn is_crowded(&self, thread: usize) -> bool {
        self.threads[thread].crowd.is_full()
    }
}
