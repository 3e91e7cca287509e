//! A real etcd: the contract, members that fail, users and certificates.

mod contract;
mod members;
mod secure;

use std::time::Duration;
use weft_cluster_store::etcd::Options;
use weft_cluster_store::store::{Operation, Transaction};
use weft_cluster_store::{Address, Error, Etcd, Store};
use weft_testkit::etcd::Etcd as Server;

pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Starts etcd, or notes that the test can't run.
fn start(members: usize) -> Option<Server> {
    skip_without(Server::start(members))
}

fn skip_without(server: Option<Server>) -> Option<Server> {
    if server.is_none() {
        weft_testkit::skipped::note_here("no etcd in ETCD_BIN, PEERS_BIN or PATH");
    }
    server
}

fn options(scheme: &str, server: &Server, prefix: &str) -> Options {
    let address = format!("{scheme}://{}/{prefix}", server.endpoints());
    Options::new(Address::parse(&address).expect("an address"))
}

fn client(server: &Server, prefix: &str) -> Etcd {
    Etcd::new(&options("etcd", server, prefix)).expect("a client")
}

fn put(key: &str) -> Transaction {
    let put = Operation::Put { key: key.into(), value: b"value".to_vec(), lease: None };
    Transaction { compares: vec![], operations: vec![put] }
}

/// Repeats a call until the store can execute it.
#[track_caller]
fn when_available<T>(server: &Server, call: impl Fn() -> Result<T, Error>) -> T {
    let result = std::cell::OnceCell::new();
    server.wait_until("the store is available", || match call() {
        Ok(value) => result.set(value).is_ok(),
        Err(Error::Unavailable(_) | Error::Unknown(_)) => false,
        Err(e) => panic!("{e}"),
    });
    result.into_inner().expect("the call succeeded")
}

fn keys(store: &dyn Store) -> Result<usize, Error> {
    store.read(b"", TIMEOUT).map(|snapshot| snapshot.entries.len())
}
