//! The base of the black-box tests; nothing here is linked into the server.
//!
//! A test of a store must be independent of the store. So this crate shares no code with the crates
//! under test: it has its own RESP parser ([`value`]), its own client ([`client`]) that keeps every
//! reply byte for byte, and its own random numbers ([`rng`]). A fault in the server's parser or
//! generator can't hide by being used on both sides.
//!
//! | module | contents |
//! |---|---|
//! | [`value`] | all reply types of RESP2 and RESP3, parsed and printed |
//! | [`client`] | a blocking client over TCP or a Unix socket |
//! | [`cluster`] | clusters over processes, of Weft or Valkey; proxies whose network fails |
//! | [`server`] | starts a server on a free loopback port and ends it with the test |
//! | [`etcd`] | starts etcd, one member or several |
//! | [`locate`] | finds the server under test and the peers it is compared with |
//! | [`process`] | CPU time, memory, descriptors and threads of a process, from `/proc` |
//! | [`disk`] | a simulated disk whose faults a seed determines |
//! | [`faulty`] | a real server on a disk that fails on demand |
//! | [`machines`] | the `/proc` and `/sys` files of simulated machines: sockets, nodes, interfaces,
//! limits |
//! | [`glob`] | patterns in which `*` stands for any text |
//! | [`rng`] | random numbers of a seed |
//! | [`skipped`] | counts the tests that could not run |
//!
//! `weft-testkit-differential` compares the replies of two servers to generated commands.
//! `weft-testkit-concurrent` checks one server under many clients.
//!
//! Functions that a test calls for their effect panic with a full description instead of returning
//! errors: in a test the panic message is the report. Each has a `try_` variant where a failure can
//! be the expected result.

pub mod client;
pub mod cluster;
pub mod disk;
pub mod etcd;
pub mod faulty;
pub mod glob;
pub mod locate;
pub mod machines;
pub mod process;
pub mod rng;
pub mod server;
pub mod skipped;
pub mod value;

pub use client::{Client, Reply};
pub use server::Server;
pub use value::Value;

/// Notes a test that cannot run here; returns true if `peer` is missing.
pub fn skip_without<T>(test: &str, peer: &Option<T>, name: &str) -> bool {
    if peer.is_none() {
        skipped::note(test, &format!("no {name} in PEERS_BIN or PATH"));
    }
    peer.is_none()
}
