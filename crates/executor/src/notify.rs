//! Keyspace notifications: publishes the events of keys.
//!
//! ```text
//!  SET k v EX 9   in database 0      __keyspace@0__:k         set        on a channel of the key
//!                                    __keyevent@0__:set       k          on a channel of the event
//!                                    __keyspace@0__:k         expire
//!                                    __keyevent@0__:expire    k
//! ```
//!
//! The notices come from [`weft_keyspace::notice`], one group at a time, while the shards of their keys are held. So
//! all subscribers get the events of one key in order, and those of a transaction without other events in between.

use crate::pubsub::publish;
use weft_keyspace::Classes;
use weft_keyspace::notice::Notice;
use weft_state::server::Server;

/// Publishes `notices` on the kinds of channels that are in `wanted`.
pub fn publish_notices(srv: &Server, wanted: Classes, notices: &[Notice]) {
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

/// Sets `channel` to the name of the channel of this kind for `what` in database `db`.
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
    fn channel_names_match_valkey() {
        let mut channel = b"previous".to_vec();
        name(&mut channel, "keyspace", 0, b"a\xffb");
        assert_eq!(channel, b"__keyspace@0__:a\xffb");
        name(&mut channel, "keyevent", 15, b"set");
        assert_eq!(channel, b"__keyevent@15__:set");
    }
}
