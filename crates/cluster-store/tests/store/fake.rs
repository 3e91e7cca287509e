//! Endpoints that fail in the middle of a request: what a caller may conclude, and that nothing is sent twice.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weft_cluster_store::etcd::Options;
use weft_cluster_store::store::{LeaseId, Operation, Outcome, Revision, Transaction};
use weft_cluster_store::{Address, Error, Etcd, Store};

const TIMEOUT: Duration = Duration::from_secs(20);

/// An endpoint that reads requests and answers each with the same bytes, then closes.
struct Fake {
    port: u16,
    requests: Arc<AtomicUsize>,
}

impl Fake {
    fn new(answer: &'static str) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = requests.clone();
        // Ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                if read_request(&mut BufReader::new(&stream)).is_some() {
                    counter.fetch_add(1, Ordering::SeqCst);
                    let _ = stream.write_all(answer.as_bytes());
                }
            }
        });
        Fake { port, requests }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn read_request(stream: &mut impl BufRead) -> Option<()> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    stream.read_exact(&mut vec![0; length]).ok()
}

fn store(ports: &[u16]) -> Etcd {
    let endpoints: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let address = format!("etcd://{}/weft", endpoints.join(","));
    Etcd::new(&Options::new(Address::parse(&address).expect("an address"))).expect("a client")
}

/// A port on which nothing listens.
fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}

fn put() -> Transaction {
    let put = Operation::Put { key: b"k".to_vec(), value: vec![], lease: None };
    Transaction { compares: vec![], operations: vec![put] }
}

const COMMITTED: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 45\r\n\r\n\
                         {\"header\":{\"revision\":\"7\"},\"succeeded\":true}\n";

#[test]
fn transaction_without_answer_is_sent_once() {
    let (silent, good) = (Fake::new(""), Fake::new(COMMITTED));
    let store = store(&[silent.port, good.port]);
    let result = store.transact(&put(), TIMEOUT);
    assert!(matches!(result, Err(Error::Unknown(_))), "{result:?}");
    assert_eq!((silent.requests(), good.requests()), (1, 0));
    // After doubt, the next call starts elsewhere.
    let result = store.transact(&put(), TIMEOUT);
    assert_eq!(result, Ok(Outcome::Committed { revision: Revision(7) }));
    assert_eq!((silent.requests(), good.requests()), (1, 1));
}

#[test]
fn transaction_passes_by_endpoints_that_are_not_reached() {
    let good = Fake::new(COMMITTED);
    let store = store(&[closed_port(), closed_port(), good.port]);
    let result = store.transact(&put(), TIMEOUT);
    assert_eq!(result, Ok(Outcome::Committed { revision: Revision(7) }));
}

#[test]
fn reads_and_keep_alives_try_every_endpoint() {
    let fakes = [Fake::new(""), Fake::new("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{")];
    let store = store(&[fakes[0].port, fakes[1].port]);
    let result = store.read(b"", TIMEOUT);
    assert!(matches!(result, Err(Error::Unavailable(_))), "{result:?}");
    assert_eq!((fakes[0].requests(), fakes[1].requests()), (1, 1));
    let result = store.keep_alive(LeaseId(1), TIMEOUT);
    assert!(matches!(result, Err(Error::Unknown(_))), "{result:?}");
    assert_eq!((fakes[0].requests(), fakes[1].requests()), (2, 2));
}

#[test]
fn server_that_is_no_etcd_is_named() {
    let fake =
        Fake::new("HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    let result = store(&[fake.port]).transact(&put(), TIMEOUT);
    let Err(Error::NotDone(why)) = result else { panic!("{result:?}") };
    assert!(why.contains("is this an etcd"), "{why}");
    let fake = Fake::new("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok");
    let result = store(&[fake.port]).transact(&put(), TIMEOUT);
    assert!(matches!(result, Err(Error::Unknown(_))), "{result:?}");
}

#[test]
fn nothing_listens_and_nothing_is_done() {
    let store = store(&[closed_port()]);
    assert!(matches!(store.transact(&put(), TIMEOUT), Err(Error::Unavailable(_))));
    assert!(matches!(store.grant(TIMEOUT, TIMEOUT), Err(Error::Unavailable(_))));
    assert!(matches!(store.revoke(LeaseId(1), TIMEOUT), Err(Error::Unavailable(_))));
    let watch = store.watch(b"", Revision(1), TIMEOUT).map(|_| ());
    assert!(matches!(watch, Err(Error::Unavailable(_))), "{watch:?}");
}
