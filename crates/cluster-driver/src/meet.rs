//! MEET: finds the node at an address, and merges both clusters.
//!
//! The store has the addresses that nodes announce. A node that announces another one is asked for its id.
//! A thread of its own does it, since the other node may not answer.

use crate::{Driver, Shared, spawn};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_cluster::NodeId;
use weft_cluster::node::NodeRequest;
use weft_config::Id;
use weft_state::waiting::Waiting;

/// The longest answer to read.
const MAX_LINE: u64 = 1024;

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

    fn ask_for_id(&self, at: SocketAddr, timeout: Duration) -> io::Result<NodeId> {
        let stream = TcpStream::connect_timeout(&at, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let (user, password) = {
            let config = self.srv.config();
            let text = |id| config.str(id).into_owned();
            (text(Id::PRIMARYUSER), text(Id::PRIMARYAUTH))
        };
        let mut link = Link { from: BufReader::new(stream) };
        if !password.is_empty() {
            let words: &[&str] = match user.is_empty() {
                true => &["AUTH", &password],
                false => &["AUTH", &user, &password],
            };
            link.ask(words)?;
        }
        let id = link.ask(&["CLUSTER", "MYID"])?;
        NodeId::parse(id.as_bytes()).ok_or_else(|| io::Error::other("it has no id"))
    }
}

/// A connection to another node.
struct Link {
    from: BufReader<TcpStream>,
}

impl Link {
    /// The reply to a command: a simple or bulk string.
    fn ask(&mut self, words: &[&str]) -> io::Result<String> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.from.get_mut().write_all(request.as_bytes())?;
        let line = self.line()?;
        match line.split_at_checked(1) {
            Some(("+", text)) => Ok(text.to_string()),
            Some(("$", _)) => self.line(),
            Some(("-", text)) => Err(io::Error::other(text.to_string())),
            _ => Err(io::Error::other("not a reply of a node")),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        io::Read::take(&mut self.from, MAX_LINE).read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_string()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
