//! The link to the primary as other threads see it: its client, and the wake flag of its thread.

use crate::hub;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use weft_net::stream::Stream;
use weft_replication::action::LinkId;
use weft_state::clients::ClientShared;
use weft_state::server::Server;

/// One attempt to follow a primary.
pub struct Link {
    pub id: LinkId,
    pub host: String,
    pub port: u16,
    pub(super) socket: OnceLock<Stream>,
    /// Set when the stream begins.
    pub client: OnceLock<Arc<ClientShared>>,
    pub(super) is_over: AtomicBool,
}

impl Link {
    pub fn new(id: LinkId, host: String, port: u16) -> Link {
        let (socket, client) = (OnceLock::new(), OnceLock::new());
        Link { id, host, port, socket, client, is_over: AtomicBool::new(false) }
    }

    /// Sends a few bytes without blocking, or closes the connection: a full socket means that the
    /// primary doesn't read.
    pub fn send(&self, bytes: &[u8]) {
        let Some(socket) = self.socket.get() else { return };
        let sent = loop {
            match socket.send(bytes) {
                Err(Errno::INTR) => {}
                sent => break sent,
            }
        };
        if !sent.is_ok_and(|sent| sent == bytes.len()) || socket.has_unsent() {
            self.close();
        }
        if let Some(client) = self.client.get() {
            client.activity.net_out.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
    }

    /// The connection, once it is established.
    pub fn socket(&self) -> Option<&Stream> {
        self.socket.get()
    }

    /// Shuts the connection down, which the thread sees.
    pub fn close(&self) {
        if let Some(socket) = self.socket.get() {
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    /// Ends the attempt.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.close();
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

/// Wakes the thread from its poll.
pub struct WakeFlag(OwnedFd);

impl WakeFlag {
    pub(super) fn new() -> std::io::Result<WakeFlag> {
        Ok(WakeFlag(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub fn set(&self) {
        // Fails only if the counter is full, and then the descriptor is readable.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }

    /// Sleeps until `Bell::ring`.
    pub(super) fn wait(&self) {
        let _ = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None);
        self.clear();
    }
}

impl AsFd for WakeFlag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until no action is pending. Called by the link's thread, which `wake_flag` wakes.
pub fn settle(srv: &'static Server, wake_flag: &WakeFlag) {
    loop {
        let mut state = hub(srv).lock();
        if state.pending.is_empty() {
            return;
        }
        state.link.waits = true;
        drop(state);
        wake_flag.wait();
    }
}
