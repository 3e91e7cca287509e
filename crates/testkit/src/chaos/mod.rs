//! Everything at once, and then: is the server as it was?
//!
//! Many connections send every command there is, right and wrong, and leave in every way there
//! is: in the middle of a request, with their writing side closed, without ever reading. Others
//! kill, pause and unblock them, turn the configuration up and down under them, take the server's
//! memory and descriptors away, and make a replica or a primary of it. What each reply says is not looked at (the differential
//! tests do that); what must hold is:
//!
//! * every request that was sent whole is answered, or its connection is closed;
//! * what comes is RESP;
//! * once all is lifted, nothing is left: clients, waits, memory, and no crash is in the log.
//!
//! | module | what it is |
//! |---|---|
//! | [`requests`] | what is sent |
//! | [`client`] | the ways to use a connection |
//! | [`disturb`] | what is done to all of them |
//! | [`roles`] | another server that is its replica or its primary |
//! | [`after`] | lifting it all, and looking at what is left |
//!
//! Threads draw from streams of one seed, so a run can be repeated as far as the server's own
//! timing allows.

pub mod after;
pub mod client;
pub mod disturb;
pub mod requests;
pub mod roles;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Server;
use crate::rng::Rng;
use client::{Life, Pending};
use disturb::Descriptors;
use requests::Source;

/// How much to do.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub time: Duration,
    /// Connections at the same time.
    pub connections: usize,
    /// Threads that disturb them.
    pub disturbers: usize,
    /// Words of requests that are not sent, see [`Source::new`].
    pub without: Vec<String>,
}

/// What was done, to see that something was.
#[derive(Debug, Default)]
pub struct Tally {
    pub connections: AtomicU64,
    pub requests: AtomicU64,
    pub replies: AtomicU64,
    pub errors: AtomicU64,
    /// Connections that the server closed or refused.
    pub closed: AtomicU64,
    pub disturbances: AtomicU64,
}

impl Tally {
    fn count(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// `name=value` of each.
    pub fn describe(&self) -> String {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        format!(
            "connections={} requests={} replies={} errors={} closed={} disturbances={}",
            of(&self.connections),
            of(&self.requests),
            of(&self.replies),
            of(&self.errors),
            of(&self.closed),
            of(&self.disturbances),
        )
    }
}

/// Runs it all. `other` is a server that nobody else uses, for replication. The answer are connections with requests that were not answered yet.
///
/// # Panics
/// When something comes that is no RESP.
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
