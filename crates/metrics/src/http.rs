//! The thread `weft-metrics`: an HTTP server on one thread.
//!
//! Its limits keep hostile clients from using up memory or descriptors, or from keeping others out:
//!
//! | limit | |
//! |---|---|
//! | a request line with its headers | [`MOST_BYTES`], [`MOST_HEADERS`]; then 431 |
//! | the time of a connection, from the accept to the last byte of its response | [`PATIENCE`] |
//! | connections at one time | [`MOST_CONNECTIONS`]: a new one takes the place of the oldest |
//! | requests of a connection | one: no client holds a place between two scrapes |
//!
//! A request is executed at once, without waiting for anything.

use crate::routes::{self, Body};
use crate::sample::Sampler;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, LocalSet};

/// The least that hyper takes.
const MOST_BYTES: usize = 8 << 10;
const MOST_HEADERS: usize = 64;
pub const MOST_CONNECTIONS: usize = 32;
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause after accept(2) has failed: no descriptor is left, which a retry doesn't change.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until the process ends.
///
/// # Errors
/// The kernel gives no descriptors for the event loop.
pub fn serve(sockets: Vec<std::net::TcpListener>, sampler: Sampler) -> io::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async {
        let shared = Rc::new(Shared { sampler: RefCell::new(sampler), open: RefCell::default() });
        let mut accepting = Vec::new();
        for socket in sockets {
            let listener = TcpListener::from_std(socket)?;
            accepting.push(tokio::task::spawn_local(accept(listener, shared.clone())));
        }
        for task in accepting {
            let _ = task.await;
        }
        Ok(())
    })
}

struct Shared {
    sampler: RefCell<Sampler>,
    /// Connections that may be open, the oldest first.
    open: RefCell<VecDeque<JoinHandle<()>>>,
}

async fn accept(listener: TcpListener, shared: Rc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => shared.open(stream, peer),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

impl Shared {
    fn open(self: &Rc<Shared>, stream: TcpStream, peer: SocketAddr) {
        let mut open = self.open.borrow_mut();
        open.retain(|task| !task.is_finished());
        if open.len() == MOST_CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let connection = tokio::time::timeout(PATIENCE, converse(stream, peer, self.clone()));
        open.push_back(tokio::task::spawn_local(async move {
            let _ = connection.await;
        }));
    }

    fn respond(&self, request: &Request<Incoming>, peer: SocketAddr) -> Response<Body> {
        let mut sampler = self.sampler.borrow_mut();
        let (method, path) = (request.method(), request.uri().path());
        let response = routes::respond(&mut sampler, method, path, request.headers(), peer);
        sampler.publish();
        response
    }
}

/// One request and its response.
async fn converse(stream: TcpStream, peer: SocketAddr, shared: Rc<Shared>) {
    let service = service_fn(|request: Request<Incoming>| {
        let response = shared.respond(&request, peer);
        async move { Ok::<_, Infallible>(response) }
    });
    // Errors are those of the client.
    let _ = http1::Builder::new()
        .keep_alive(false)
        .half_close(true)
        .header_read_timeout(None)
        .max_buf_size(MOST_BYTES)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
