//! Clients that wait for a key: BLPOP and its kin.
//!
//! ```text
//!  client's thread                       any thread
//!  BLPOP k finds nothing
//!  ─► stands in k's line (k's shard held)
//!  ─► the connection is suspended        RPUSH k  (k's shard held)
//!                                        ─► k came to be: who stands in its line?
//!                                        ─► runs the client's BLPOP in its place   serve.rs
//!  reply is sent  ◄────── Served ────────
//!  connection goes on
//! ```
//!
//! The client is served before the shard is released, so nobody can take the element away, and
//! those who wait are served in the order in which they came. A command that needs a shard that
//! the maker of the key can't get (BLMOVE into another shard) is handed to the client's own thread
//! (*retry*), as is one of which two keys came to be at once; see [`weft_keyspace::wait`].
//!
//! How lines are entered and left: [`weft_keyspace::lines`].

pub mod serve;

use std::sync::Arc;
use weft_keyspace::wait::{Claim, Unclaim};
use weft_resp::Reply;
use weft_state::mailbox::Message;
use weft_state::server::Server;
use weft_state::waiting::Waiting;

/// Takes a client out of all its lines: its wait is over. Where those are very many another thread does it, and
/// until then everybody passes over it.
pub fn leave(srv: &'static Server, waiting: &Arc<Waiting>) {
    waiting.charge.release();
    srv.clients.blocked.forget_client(waiting);
    let waiting = waiting.clone();
    srv.background
        .bio
        .release(waiting.awaited.keys.len(), move || srv.clients.blocked.leave(&srv.ks, &waiting));
}

/// A client that stands in line will not be served any more. If it was its turn, it is that of those
/// behind it.
pub fn abandon(srv: &'static Server, waiting: &Arc<Waiting>) {
    let had_turn = waiting.state.quit();
    leave(srv, waiting);
    if had_turn {
        srv.clients.blocked.pass_turn(waiting, |next| tell_to_try(srv, next));
    }
}

/// Keys have gone by themselves: those who wait for them as consumers of a group are told to try
/// again, and find that it has gone. Needs no shard. O(clients in the lines).
pub fn rouse(srv: &'static Server, keys: &[(usize, Box<[u8]>)]) {
    for (db, key) in keys {
        let shard = srv.ks.key(key).shard;
        let name = (shard, *db, &key[..]);
        let minds = |w: &Arc<Waiting>| w.minds(None) && !w.state.is_over();
        let mut passed = 0;
        while let Some((number, waiting)) = srv.clients.blocked.first_after(passed, name, minds) {
            passed = number;
            match waiting.state.claim() {
                // Whoever is at it has been told.
                Claim::Over | Claim::Theirs | Claim::Owners => {}
                Claim::Ours => hand_over(srv, &waiting, true),
            }
        }
    }
}

/// A client that is claimed and out of all lines, and what it is to be told.
pub struct Served {
    pub waiting: Arc<Waiting>,
    pub reply: Reply,
}

impl Served {
    /// Tells the client, and that what it got is in the log in `unit`.
    pub fn tell(self, srv: &'static Server, unit: u64) {
        let Served { waiting, reply } = self;
        waiting.state.finish();
        let thread = waiting.thread;
        srv.threads[thread].mailbox.send(Message::Served { waiting, reply, unit });
    }
}

/// Answers a client that has given up waiting, for whatever it waited.
pub fn answer(srv: &'static Server, waiting: &Arc<Waiting>, write: impl FnOnce(&mut Reply)) {
    leave(srv, waiting);
    let mut reply = Reply::new(waiting.context.proto);
    write(&mut reply);
    let message = Message::Served { waiting: waiting.clone(), reply, unit: 0 };
    srv.threads[waiting.thread].mailbox.send(message);
}

/// Gives a claimed client up again.
pub fn hand_over(srv: &'static Server, waiting: &Arc<Waiting>, hand_over: bool) {
    match waiting.state.unclaim(hand_over) {
        Unclaim::Waits => srv.clients.blocked.remove_if_over(&srv.ks, waiting),
        Unclaim::Retry => tell_to_try(srv, waiting),
    }
}

pub fn tell_to_try(srv: &'static Server, waiting: &Arc<Waiting>) {
    let message = Message::Retry { waiting: waiting.clone() };
    srv.threads[waiting.thread].mailbox.send(message);
}
