//! Many clients with random requests and disturbances, then a check that the server's state is
//! restored.
//!
//! Many connections send every command, valid and invalid. They leave in every way: in the middle of a request, with
//! their writing side closed, without ever reading. Other clients kill, pause and unblock them, change directives,
//! restrict the server's memory and descriptors, and make it a replica or a primary. The content of replies is not checked (the
//! differential tests do that). These statements must hold:
//!
//! * every complete request is answered, or its connection is closed;
//! * all received bytes are RESP;
//! * after the end of all disturbances no clients, waits or memory are left, and no crash is in the
//!   log.
//!
//! | module | contents |
//! |---|---|
//! | [`requests`] | the requests |
//! | [`client`] | the ways to use and leave a connection |
//! | [`disturb`] | disturbances of all clients |
//! | [`roles`] | another server as replica or primary |
//! | [`tally`] | counters; [`info`]: numbers of INFO |
//! | [`after`] | restoring the server, and the checks |
//!
//! Threads draw from streams of one seed, so a run can be repeated as far as the server's own
//! timing allows.

pub mod after;
pub mod client;
pub mod disturb;
pub mod info;
pub mod requests;
pub mod roles;
pub mod tally;

use std::time::{Duration, Instant};

use client::{Life, Pending};
use disturb::Descriptors;
use requests::Source;
use weft_testkit::Server;
use weft_testkit::rng::Rng;

pub use tally::Tally;

/// The size of a run.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub time: Duration,
    /// Concurrent connections.
    pub connections: usize,
    /// Threads that disturb them.
    pub disturbers: usize,
    /// Words of requests to leave out, see [`Source::new`].
    pub without: Vec<String>,
}

/// Runs all clients and disturbances. `other` is a server without other clients, for replication. Returns connections
/// with requests that were not answered yet.
///
/// # Panics
/// If a server sends bytes that are not RESP.
pub fn run(server: &Server, other: &Server, options: &Options, tally: &Tally) -> Vec<Pending> {
    let source = Source::new(&mut server.client(), &options.without);
    let descriptors = Descriptors::of(server);
    let until = Instant::now() + options.time;
    let rng = |number: usize| Rng::new(options.seed.wrapping_mul(10_000) + number as u64);
    std::thread::scope(|scope| {
        let lives: Vec<_> = (0..options.connections)
            .map(|n| {
                let source = &source;
                let life = Life { server, source, rng: rng(n), tally, until, pending: None };
                scope.spawn(move || life.live())
            })
            .collect();
        for n in 0..options.disturbers {
            let rng = rng(options.connections + n);
            scope.spawn(move || disturb::disturb(server, other, descriptors, rng, tally, until));
        }
        lives.into_iter().filter_map(|life| life.join().expect("no client fails")).collect()
    })
}
