//! Replies that another thread sends, with `io-threads-do-reads no`.

use rustix::io::Errno;
use weft_net::stream::Stream;
use weft_resp::Reply;

/// A reply that another thread sends.
#[derive(Debug)]
pub struct WriteJob {
    /// The connection's token on the thread that owns it.
    pub token: u64,
    pub socket: Stream,
    pub reply: Reply,
}

/// The result of a [`WriteJob`].
#[derive(Debug)]
pub struct Written {
    pub token: u64,
    pub reply: Reply,
    /// Bytes sent; `None` if the connection is broken.
    pub sent: Option<usize>,
}

/// A message of `io-threads-do-reads no`.
#[derive(Debug)]
pub enum OffloadMessage {
    /// Send these replies, and report the results to thread `from`.
    Write { from: usize, jobs: Vec<WriteJob> },
    /// Another thread has sent replies.
    Written { done: Vec<Written> },
}

impl WriteJob {
    /// Sends as much as the socket accepts.
    pub fn run(self) -> Written {
        let WriteJob { token, socket, reply } = self;
        let bytes = reply.contiguous().unwrap_or_default();
        let sent = match socket.send(bytes) {
            Ok(n) => Some(n),
            Err(Errno::AGAIN | Errno::INTR) => Some(0),
            Err(_) => None,
        };
        Written { token, reply, sent }
    }
}
