//! Measures calls to a real etcd, one after another, and the CPU time of both sides.
//!
//! The figures of `docs/design/cluster-store.md`: `ETCD_BIN=... cargo run --release -p weft-cluster-store --example round_trips`.

use std::time::{Duration, Instant};
use weft_cluster_store::etcd::Options;
use weft_cluster_store::store::{Compare, Operation, Outcome, Revision, Transaction};
use weft_cluster_store::{Address, Error, Etcd, Store};
use weft_testkit::process::Process;

const TIMEOUT: Duration = Duration::from_secs(20);
const CALLS: u32 = 2000;

fn main() {
    let Some(server) = weft_testkit::etcd::Etcd::start(1) else {
        println!("no etcd in ETCD_BIN, PEERS_BIN or PATH");
        return;
    };
    let address = format!("etcd://{}/weft", server.endpoints());
    let options = Options::new(Address::parse(&address).expect("an address"));
    let store = Etcd::new(&options).expect("a client");
    let etcd = Process(server.pid(0).expect("it runs"));
    let measure = |name: &str, mut call: Box<dyn FnMut() + '_>| {
        call();
        let own = Process(std::process::id());
        let (own_before, etcd_before) = (own.cpu().total(), etcd.cpu().total());
        let begun = Instant::now();
        (0..CALLS).for_each(|_| call());
        let seconds = begun.elapsed().as_secs_f64();
        let each = |cpu: f64| cpu * 1e6 / f64::from(CALLS);
        println!(
            "{name:12} {:8.0} a second {:8.0} us CPU here {:8.0} us CPU in etcd",
            f64::from(CALLS) / seconds,
            each(own.cpu().total() - own_before),
            each(etcd.cpu().total() - etcd_before),
        );
    };
    let mut modified = put(&store, None).expect("a put");
    measure("transaction", Box::new(|| modified = put(&store, Some(modified)).expect("a put")));
    measure("read", Box::new(|| drop(store.read(b"", TIMEOUT).expect("a read"))));
    let lease = store.grant(Duration::from_secs(600), TIMEOUT).expect("a lease");
    measure("keep-alive", Box::new(|| assert!(store.keep_alive(lease.id, TIMEOUT).is_ok())));
    let mut watch = store.watch(b"", modified.next(), TIMEOUT).expect("a watch");
    measure(
        "put + watch",
        Box::new(|| {
            modified = put(&store, Some(modified)).expect("a put");
            let batch = watch.next(TIMEOUT).expect("a watch").expect("a batch");
            assert_eq!(batch.revision, modified);
        }),
    );
}

/// Puts 300 bytes, if no other client has put them since `modified`.
fn put(store: &Etcd, modified: Option<Revision>) -> Result<Revision, Error> {
    let key = b"node".to_vec();
    let compare = modified.map(|revision| Compare::Modified { key: key.clone(), revision });
    let put = Operation::Put { key, value: vec![b'x'; 300], lease: None };
    let transaction = Transaction { compares: Vec::from_iter(compare), operations: vec![put] };
    match store.transact(&transaction, TIMEOUT)? {
        Outcome::Committed { revision } => Ok(revision),
        Outcome::Mismatch { found, .. } => panic!("another client: {found:?}"),
    }
}
