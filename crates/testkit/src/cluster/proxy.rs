//! A TCP proxy whose network fails on demand: it stands between a node and etcd, or before a node.
//!
//! A silent cut keeps connections and bytes, as a network that drops packets does: both arrive after the cut ends,
//! however late.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::server::free_port;

/// The treatment of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Open,
    /// Connections are closed, and new ones, too.
    Refused,
    /// Nothing is forwarded in either direction.
    Silent,
    /// Requests arrive, answers are held.
    AnswersHeld,
    /// Each piece of an answer is forwarded after this time.
    Slow(Duration),
}

struct Shared {
    target: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    link: Link,
    streams: Vec<TcpStream>,
    is_over: bool,
}

/// A proxy on a loopback port. Ends on drop.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Forwards a free port to this port of 127.0.0.1.
    #[track_caller]
    pub fn to(target: u16) -> Proxy {
        Proxy::on(free_port(), target)
    }

    /// Forwards `port` to `target`.
    #[track_caller]
    pub fn on(port: u16, target: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
        let state = State { link: Link::Open, streams: Vec::new(), is_over: false };
        let shared = Arc::new(Shared {
            target: ([127, 0, 0, 1], target).into(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Proxy { port, shared }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes the network, for existing connections, too.
    pub fn set(&self, link: Link) {
        let mut state = self.shared.lock();
        state.link = link;
        if link == Link::Refused {
            state.close();
        }
        self.shared.changed.notify_all();
    }

    /// Closes the connections; new ones are accepted.
    pub fn disconnect(&self) {
        self.shared.lock().close();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_over = true;
        state.close();
        self.shared.changed.notify_all();
        drop(state);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl State {
    fn close(&mut self) {
        for stream in self.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a piece may be forwarded; false if the proxy is over.
    fn wait_for_turn(&self, is_answer: bool) -> bool {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return false;
            }
            match state.link {
                Link::Silent => {}
                Link::AnswersHeld if is_answer => {}
                Link::Slow(delay) if is_answer => {
                    drop(state);
                    thread::sleep(delay);
                    return true;
                }
                _ => return true,
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        let Ok(client) = client else { continue };
        let mut state = shared.lock();
        if state.is_over {
            return;
        }
        if state.link == Link::Refused {
            continue;
        }
        let Ok(own) = client.try_clone() else { continue };
        state.streams.push(own);
        drop(state);
        let shared = Arc::clone(shared);
        thread::spawn(move || connect(client, &shared));
    }
}

/// Connects a client to the target. In a silent cut, the client's connection is open and the target's is not.
fn connect(client: TcpStream, shared: &Arc<Shared>) {
    if !shared.wait_for_turn(false) {
        return;
    }
    let Ok(target) = TcpStream::connect(shared.target) else {
        let _ = client.shutdown(Shutdown::Both);
        return;
    };
    let _ = (client.set_nodelay(true), target.set_nodelay(true));
    let (Ok(client_reader), Ok(target_reader), Ok(own)) =
        (client.try_clone(), target.try_clone(), target.try_clone())
    else {
        return;
    };
    shared.lock().streams.push(own);
    let requests = Arc::clone(shared);
    thread::spawn(move || pump(client_reader, target, &requests, false));
    pump(target_reader, client, shared, true);
}

fn pump(mut from: TcpStream, mut to: TcpStream, shared: &Shared, is_answer: bool) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(n) = from.read(&mut piece)
        && n > 0
        && shared.wait_for_turn(is_answer)
        && to.write_all(&piece[..n]).is_ok()
    {}
    // The end of a connection isn't seen through a silent cut, either.
    shared.wait_for_turn(is_answer);
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A target that answers each byte with itself.
    fn echo() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let mut byte = [0];
                    while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
                });
            }
        });
        port
    }

    fn client(proxy: &Proxy, wait: u64) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(wait))).unwrap();
        stream
    }

    #[test]
    fn silent_cut_delivers_late() {
        let proxy = Proxy::to(echo());
        let mut stream = client(&proxy, 100);
        let mut byte = [0];
        stream.write_all(b"a").unwrap();
        stream.read_exact(&mut byte).unwrap();
        for link in [Link::Silent, Link::AnswersHeld] {
            proxy.set(link);
            stream.write_all(b"b").unwrap();
            assert!(stream.read_exact(&mut byte).is_err());
            proxy.set(Link::Open);
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream.read_exact(&mut byte).unwrap();
            assert_eq!(byte, *b"b");
            stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        }
    }

    #[test]
    fn refused_connections_are_closed() {
        let proxy = Proxy::to(echo());
        let mut old = client(&proxy, 20_000);
        proxy.set(Link::Refused);
        let mut new = client(&proxy, 20_000);
        let mut byte = [0];
        assert!(matches!(old.read(&mut byte), Ok(0) | Err(_)));
        assert!(matches!(new.read(&mut byte), Ok(0) | Err(_)));
        proxy.set(Link::Open);
        let mut new = client(&proxy, 20_000);
        new.write_all(b"c").unwrap();
        new.read_exact(&mut byte).unwrap();
    }
}
