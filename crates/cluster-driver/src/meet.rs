//! MEET: finds the node at an address, and merges both clusters.
//!
//! The store has the addresses that nodes announce. A node that announces another one is asked for its id.
//! A thread of its own does it, since the other node may not answer.

use crate::{Driver, Shared, spawn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_cluster::NodeId;
use weft_cluster::node::NodeRequest;
use weft_config::Id;
use weft_state::waiting::Waiting;
use weft_transfer::migrate::Link;

impl Driver {
    /// Meets the node at an address, for a client that is blocked meanwhile.
    pub fn meet(&'static self, address: (IpAddr, u16), waiting: Arc<Waiting>) {
        let for_thread = waiting.clone();
        let started = spawn("weft-meet", move || {
            let driver: Shared = self;
            match driver.find(address) {
                Ok(id) => driver.request(vec![NodeRequest::Meet(id)], for_thread),
                Err(text) => driver.reply(&for_thread, Err(text)),
            }
        });
        if started.is_err() {
            self.reply(&waiting, Err("ERR Can't start a thread".to_string()));
        }
    }

    /// The id of the node at an address, which must be in the store of this node.
    fn find(&self, (ip, port): (IpAddr, u16)) -> Result<NodeId, String> {
        let timeout = Duration::from_millis(self.machine().node().timeout());
        let at = SocketAddr::new(ip, port);
        if let [id] = self.machine().node().at_address(&ip.to_string(), port)[..] {
            return Ok(id);
        }
        let id = self
            .ask_for_id(at, timeout)
            .map_err(|e| format!("ERR Can't ask the node at {at} for its id: {e}"))?;
        let since = Instant::now();
        while !self.machine().node().knows(id) {
            if since.elapsed() > timeout {
                return Err(format!(
                    "ERR The node at {at} is not in the store of this node: all nodes of a cluster need the same \
                     'cluster-store'"
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(id)
    }

    /// Asks over TLS with `tls-cluster`: then the port is one for TLS, as in Valkey.
    fn ask_for_id(&self, at: SocketAddr, timeout: Duration) -> io::Result<NodeId> {
        let (user, password) = {
            let config = self.srv.config();
            let text = |id| config.str(id).into_owned();
            (text(Id::PRIMARYUSER), text(Id::PRIMARYAUTH))
        };
        let mut link = Link::open(at.ip().to_string().as_bytes(), at.port(), timeout)?;
        if !password.is_empty() {
            match user.is_empty() {
                true => ask(&mut link, &[b"AUTH", password.as_bytes()])?,
                false => ask(&mut link, &[b"AUTH", user.as_bytes(), password.as_bytes()])?,
            };
        }
        let id = ask(&mut link, &[b"CLUSTER", b"MYID"])?;
        NodeId::parse(&id).ok_or_else(|| io::Error::other("it has no id"))
    }
}

/// The reply to a command: a simple or bulk string.
fn ask(link: &mut Link, words: &[&[u8]]) -> io::Result<Vec<u8>> {
    link.send(words)?;
    link.flush()?;
    let line = link.answer()?;
    match line.split_at_checked(1) {
        Some((b"+", text)) => Ok(text.to_vec()),
        Some((b"$", _)) => link.answer(),
        Some((b"-", text)) => Err(io::Error::other(String::from_utf8_lossy(text).into_owned())),
        _ => Err(io::Error::other("not a reply of a node")),
    }
}
