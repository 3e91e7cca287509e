//! The TCP sockets that `bind`, `port` and `tls-port` name, at the start and when CONFIG SET changes them.
//!
//! Sockets that stay are not reopened, so no client in their accept queue is lost. If a new socket can't be
//! opened, the configuration keeps its old value, and the old sockets continue to listen. Old sockets that
//! conflict with a new one (`*` with `127.0.0.1`) only *pause*, which releases their address. The first
//! I/O thread accepts connections; it is notified after the change.

use crate::conn::ConnectionMessage;
use crate::mailbox::Message;
use crate::threads::pool::Pool;
use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard};
use weft_config::{Config, Id};
use weft_net::listen::Listener;
use weft_process::log_warning;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wish {
    address: String,
    port: u16,
    is_tls: bool,
    /// The address may be missing on this machine.
    optional: bool,
}

impl Wish {
    fn is_same_socket(&self, other: &Wish) -> bool {
        (&self.address, self.port, self.is_tls) == (&other.address, other.port, other.is_tls)
    }
}

/// A socket that could not be opened.
#[derive(Debug)]
pub struct Failed {
    wish: Wish,
    pub error: io::Error,
}

impl Failed {
    /// The port, and its transport as Valkey names it.
    pub fn port(&self) -> (u16, &'static str) {
        (self.wish.port, if self.wish.is_tls { "tls" } else { "tcp" })
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wish { address, port, .. } = &self.wish;
        let error = weft_process::errors::words(&self.error);
        write!(out, "Could not create server TCP listening socket {address}:{port}: bind: {error}")
    }
}

/// The sockets in use, each with its configured address.
#[derive(Debug, Default)]
pub struct Listening(Mutex<Vec<(Wish, Listener)>>);

impl Listening {
    fn now(&self) -> MutexGuard<'_, Vec<(Wish, Listener)>> {
        self.0.lock().unwrap_or_else(|p| p.into_inner())
    }
}

/// The addresses on both ports. Without `bind` addresses, or with port 0, there are none.
fn wishes(config: &Config) -> Vec<Wish> {
    let ports = [(Id::PORT, false), (Id::TLS_PORT, true)];
    let ports = ports.map(|(port, is_tls)| (config.int(port) as u16, is_tls));
    let open = ports.into_iter().filter(|(port, _)| *port != 0);
    let addresses = config.list(Id::BIND);
    open.flat_map(|(port, is_tls)| addresses.iter().map(move |a| wish(a, port, is_tls))).collect()
}

fn wish(address: &[u8], port: u16, is_tls: bool) -> Wish {
    let text = String::from_utf8_lossy(address);
    let (address, optional) = match text.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (&*text, false),
    };
    Wish { address: address.into(), port, is_tls, optional }
}

/// Opens the sockets of `metrics-bind` and `metrics-port`; none with port 0.
///
/// # Errors
/// The first socket that can't be opened.
pub fn for_metrics(config: &Config) -> Result<Vec<Listener>, Failed> {
    let port = config.int(Id::METRICS_PORT) as u16;
    if port == 0 {
        return Ok(Vec::new());
    }
    let wished = config.list(Id::METRICS_BIND).iter().map(|address| wish(address, port, false));
    let open = open(wished.collect(), &[], config.int(Id::TCP_BACKLOG) as i32)?;
    Ok(open.into_iter().map(|(_, listener)| listener).collect())
}

/// Opens the addresses `wished`; reuses sockets of `kept`.
fn open(
    wished: Vec<Wish>,
    kept: &[(Wish, Listener)],
    backlog: i32,
) -> Result<Vec<(Wish, Listener)>, Failed> {
    let mut open: Vec<(Wish, Listener)> = Vec::new();
    for wish in wished {
        let same = |(other, _): &&(Wish, Listener)| other.is_same_socket(&wish);
        let taken = open.iter().any(|pair| same(&pair));
        let listener = match kept.iter().find(same).filter(|_| !taken) {
            Some((_, listener)) => Ok(listener.clone()),
            None => Listener::tcp(&wish.address, wish.port, wish.is_tls, backlog),
        };
        match listener {
            Ok(listener) => open.push((wish, listener)),
            Err(e) if wish.optional && is_unavailable(&e) => {}
            Err(error) => return Err(Failed { wish, error }),
        }
    }
    Ok(open)
}

fn is_unavailable(e: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(e.kind(), ErrorKind::AddrNotAvailable | ErrorKind::Unsupported)
}

/// Opens the sockets at the start of the server.
///
/// # Errors
/// The first socket that can't be opened.
pub fn begin(listening: &Listening, config: &Config) -> Result<Vec<Listener>, Failed> {
    let open = open(wishes(config), &[], config.int(Id::TCP_BACKLOG) as i32)?;
    let listeners = open.iter().map(|(_, listener)| listener.clone()).collect();
    *listening.now() = open;
    Ok(listeners)
}

/// Changes the sockets to match `config`. On an error, which is also logged, nothing has changed.
///
/// # Errors
/// The first socket that can't be opened.
pub fn change(listening: &Listening, threads: &Pool, config: &Config) -> Result<(), Failed> {
    let mut now = listening.now();
    let (wished, backlog) = (wishes(config), config.int(Id::TCP_BACKLOG) as i32);
    let (kept, old): (Vec<_>, Vec<_>) = now
        .iter()
        .cloned()
        .partition(|(wish, _)| wished.iter().any(|new| new.is_same_socket(wish)));
    let opened = match open(wished.clone(), &kept, backlog) {
        Err(Failed { error, .. }) if error.kind() == io::ErrorKind::AddrInUse => {
            // An old socket may hold the address.
            old.iter().for_each(|(_, listener)| listener.pause());
            let again = open(wished, &kept, backlog);
            if again.is_err() {
                old.iter().for_each(|(_, listener)| listener.go_on(backlog));
            }
            again
        }
        opened => opened,
    };
    let opened = opened.inspect_err(|failed| log_warning!("Warning: {failed}"))?;
    // From now on the old sockets accept no client, even if the first thread is busy for a while.
    old.iter().for_each(|(_, listener)| listener.pause());
    let listeners = opened.iter().map(|(_, listener)| listener.clone()).collect();
    *now = opened;
    threads[0].mailbox.send(Message::Connection(ConnectionMessage::Listen { listeners }));
    Ok(())
}
