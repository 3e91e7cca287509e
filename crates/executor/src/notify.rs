//! Keyspace notifications: what happens to keys, published for those who subscribe to it.
//!
//! ```text
//!  SET k v EX 9   in database 0      __keyspace@0__:k         set        on a channel of the key
//!                                    __keyevent@0__:set       k          on a channel of the event
//!                                    __keyspace@0__:k         expire
//!                                    __keyevent@0__:expire    k
//! ```
//!
//! What there is to say comes from [`weft_keyspace::notice`], a group of it at a time, while the
//! shards of those keys are held: so all subscribers hear of one key in the order in which things
//! have happened to it, and of what a transaction has done without anything in between.

use crate::pubsub::publish;
use weft_keyspace::Classes;
use weft_keyspace::notice::Notice;
use weft_state::server::Server;

/// Publishes what `notices` tell, on the channels that are `wanted`.
pub fn tell(srv: &Server, wanted: Classes, notices: &[Notice]) {
    let mut channel = Vec::new();
    for Notice { db, event, key, .. } in notices {
        let event = event.as_bytes();
        if wanted.has(Classes::BY_KEY) {
            name(&mut channel, "keyspace", *db, key);
            publish(srv, &channel, event);
        }
        if wanted.has(Classes::BY_EVENT) {
            name(&mut channel, "keyevent", *db, event);
            publish(srv, &channel, key);
        }
    }
}

/// Makes `channel` the one of this kind for `what` in database `db`.
fn name(channel: &mut Vec<u8>, kind: &str, db: usize, what: &[u8]) {
    channel.clear();
    channel.extend_from_slice(b"__");
    channel.extend_from_slice(kind.as_bytes());
    channel.push(b'@');
    channel.extend_from_slice(itoa::Buffer::new().format(db).as_bytes());
    channel.extend_from_slice(b"__:");
    channel.extend_from_slice(what);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_have_the_names_that_clients_know() {
        let mut channel = b"of before".to_vec();
        name(&mut channel, "keyspace", 0, b"a\xffb");
        assert_eq!(channel, b"__keyspace@0__:a\xffb");
        name(&mut channel, "keyevent", 15, b"set");
        assert_eq!(channel, b"__keyevent@15__:set");
    }
}
