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
mod waiting;

pub use waiting::Waiting;

use crate::server::Server;
use std::sync::Arc;

/// Everybody who waits.
pub type Lines = weft_keyspace::lines::Lines<Waiting>;

/// Takes a client out of all its lines: its wait is over. Where those are very many another thread does it, and
/// until then everybody passes over it.
pub fn leave(srv: &'static Server, waiting: &Arc<Waiting>) {
    waiting.charge.release();
    srv.lines.forget_client(waiting);
    let waiting = waiting.clone();
    srv.bio.release(waiting.keys.len(), move || srv.lines.leave(&srv.ks, &waiting));
}
