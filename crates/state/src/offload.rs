//! Replies that another thread sends, with `io-threads-do-reads no`.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::sync::Arc;
use weft_resp::Reply;

/// A reply to be sent by another thread.
#[derive(Debug)]
pub struct WriteJob {
    /// Of the connection, on the thread that owns it.
    pub token: u64,
    pub socket: Arc<OwnedFd>,
    pub reply: Reply,
}

/// What became of a [`WriteJob`].
#[derive(Debug)]
pub struct Written {
    pub token: u64,
    pub reply: Reply,
    /// Bytes that were sent; nothing when the peer is gone.
    pub sent: Option<usize>,
}

impl WriteJob {
    /// Sends as much as the socket takes.
    pub fn run(self) -> Written {
        let WriteJob { token, socket, reply } = self;
        let bytes = reply.contiguous().unwrap_or_default();
        let sent = match send(&socket, bytes, SendFlags::NOSIGNAL) {
            Ok(n) => Some(n),
            Err(Errno::AGAIN | Errno::INTR) => Some(0),
            Err(_) => None,
        };
        Written { token, reply, sent }
    }
}
