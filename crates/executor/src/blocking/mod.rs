//! Clients that are blocked on keys: BLPOP and similar commands.
//!
//! ```text
//!  client's thread                       any thread
//!  BLPOP k finds no data
//!  ─► enters k's wait queue (k's shard held)
//!  ─► suspends the connection            RPUSH k  (k's shard held)
//!                                        ─► k was created: takes the next client in k's wait queue
//!                                        ─► runs BLPOP for that client   serve.rs
//!  sends the reply  ◄──── Served ────────
//!  resumes the connection
//! ```
//!
//! The client is served before the shard is released, so no other command can take the element. Clients are served
//! in the order in which they blocked. The client's own thread runs the command (*retry*) if it needs a shard that
//! the serving thread can't take (BLMOVE into another shard), or if two of its keys were created at the same time:
//! see [`weft_keyspace::wait`].
//!
//! For entering and leaving wait queues, see [`weft_keyspace::wait_queue`].

pub mod serve;

use std::sync::Arc;
use weft_keyspace::wait::{Claim, Unclaim};
use weft_resp::Reply;
use weft_state::authority::NO_TERM;
use weft_state::mailbox::Message;
use weft_state::server::Server;
use weft_state::waiting::WaitMessage;
use weft_state::waiting::Waiting;

/// Removes a client, whose wait is over, from all its wait queues. Very many are left in the background; until then,
/// other threads skip the client.
pub fn leave(srv: &'static Server, waiting: &Arc<Waiting>) {
    waiting.charge.release();
    srv.clients.blocked.forget_client(waiting);
    let waiting = waiting.clone();
    srv.process
        .background
        .bio
        .release(waiting.awaited.keys.len(), move || srv.clients.blocked.leave(&srv.ks, &waiting));
}

/// Ends the wait of a client without a reply. If the client was about to retry, the next clients in its wait queues
/// retry instead.
pub fn abandon(srv: &'static Server, waiting: &Arc<Waiting>) {
    let had_turn = waiting.state.quit();
    leave(srv, waiting);
    if had_turn {
        srv.clients.blocked.pass_turn(waiting, |next| send_retry(srv, next));
    }
}

/// Makes clients retry after sweeps have removed their keys: consumers of a group then find that the group is gone.
/// Needs no shard. O(clients in the wait queues).
pub fn retry_after_removal(srv: &'static Server, keys: &[(usize, Box<[u8]>)]) {
    for (db, key) in keys {
        let shard = srv.ks.key(key).shard();
        let name = (shard, *db, &key[..]);
        let minds = |w: &Arc<Waiting>| w.minds(None) && !w.state.is_over();
        let mut passed = 0;
        while let Some((number, waiting)) = srv.clients.blocked.first_after(passed, name, minds) {
            passed = number;
            match waiting.state.claim() {
                // The thread that serves the client checks all its keys again.
                Claim::Over | Claim::Theirs | Claim::Owners => {}
                Claim::Ours => hand_over(srv, &waiting, true),
            }
        }
    }
}

/// A claimed client that has left all its wait queues, and its reply.
pub struct Served {
    pub waiting: Arc<Waiting>,
    pub reply: Reply,
    /// The term of the node's authority before it was served.
    pub term: u64,
}

impl Served {
    /// Sends the reply to the client. `unit`: the unit of the log that has the effects of its command.
    pub fn send_reply(self, srv: &'static Server, unit: u64) {
        let Served { waiting, reply, term } = self;
        waiting.state.finish();
        let thread = waiting.thread;
        srv.threads[thread].mailbox.send(Message::Wait(WaitMessage::Served {
            waiting,
            reply,
            unit,
            term,
        }));
    }
}

/// Ends the wait of a client with a reply, such as that of a timeout.
pub fn answer(srv: &'static Server, waiting: &Arc<Waiting>, write: impl FnOnce(&mut Reply)) {
    leave(srv, waiting);
    let mut reply = Reply::new(waiting.context.proto);
    write(&mut reply);
    let (waiting_too, term) = (waiting.clone(), NO_TERM);
    let message = Message::Wait(WaitMessage::Served { waiting: waiting_too, reply, unit: 0, term });
    srv.threads[waiting.thread].mailbox.send(message);
}

/// Releases the claim on a client that was not served. `must_retry`: its own thread must run the command.
pub fn hand_over(srv: &'static Server, waiting: &Arc<Waiting>, must_retry: bool) {
    match waiting.state.unclaim(must_retry) {
        Unclaim::Waits => srv.clients.blocked.remove_if_over(&srv.ks, waiting),
        Unclaim::Retry => send_retry(srv, waiting),
    }
}

/// Makes the client's own thread run its command again.
pub fn send_retry(srv: &'static Server, waiting: &Arc<Waiting>) {
    let message = Message::Wait(WaitMessage::Retry { waiting: waiting.clone() });
    srv.threads[waiting.thread].mailbox.send(message);
}
