//! weft-replica: follows the primary, one attempt after another, and executes the machine's
//! commands.

use crate::hub;
use crate::now;
use crate::replica::apply::Applier;
use crate::replica::copy::Copies;
use crate::replica::handle::{Link, WakeFlag, settle};
use crate::replica::socket::Options;
use crate::replica::{LinkCommand, client, socket};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::sync::Arc;
use weft_config::Id;
use weft_net::stream::Stream;
use weft_process::log_debug;
use weft_state::server::Server;

/// Bytes per read.
const CHUNK: usize = 256 << 10;

/// Starts the thread. It runs until the process ends.
///
/// # Errors
/// The system can't create a thread or descriptor.
pub fn start(srv: &'static Server) -> std::io::Result<Arc<WakeFlag>> {
    let wake_flag = Arc::new(WakeFlag::new()?);
    let own = wake_flag.clone();
    std::thread::Builder::new().name("weft-replica".into()).spawn(move || {
        let _stack = weft_process::crash::second_stack();
        weft_scheduler::placement::bind_to(&srv.placement().slow);
        let mut thread = Thread {
            srv,
            wake_flag: own,
            applier: Applier::new(srv),
            copies: Copies::new(srv),
            buf: Vec::with_capacity(CHUNK),
            again: false,
        };
        loop {
            let present = hub(srv).lock().link.present().cloned();
            match present {
                Some(link) => thread.follow(&link),
                None => thread.wake_flag.wait(),
            }
        }
    })?;
    Ok(wake_flag)
}

struct Thread {
    srv: &'static Server,
    wake_flag: Arc<WakeFlag>,
    applier: Applier,
    copies: Copies,
    /// Received bytes that were not consumed.
    buf: Vec<u8>,
    /// Present the bytes in `buf` again.
    again: bool,
}

impl Thread {
    /// Runs one attempt to its end.
    fn follow(&mut self, link: &Arc<Link>) {
        self.buf.clear();
        self.again = false;
        self.run(link);
        self.copies.abandon(&mut self.applier);
        // Whatever ended it, the same attempt is not repeated.
        let hub = hub(self.srv);
        if hub.lock().link.of(link.id).is_some() {
            hub.step(self.srv, |node, now, out| node.link_closed(now, link.id, "closed", out));
            self.settle();
        }
    }

    fn run(&mut self, link: &Arc<Link>) {
        let srv = self.srv;
        let hub = hub(srv);
        let config = srv.config();
        let options = Options {
            source: config.str(Id::BIND_SOURCE_ADDR).into_owned(),
            tls: srv.process.tls.contexts().filter(|_| config.bool(Id::TLS_REPLICATION)),
        };
        drop(config);
        let is_current = || !link.is_over();
        let ended = |why: &str| {
            hub.step(srv, |node, now, out| node.link_closed(now, link.id, why, out));
        };
        let socket =
            match socket::connect(&link.host, link.port, &options, &self.wake_flag, &is_current) {
                Ok(socket) => socket,
                Err(e) => return ended(&weft_process::errors::words(&e)),
            };
        let socket = link.socket.get_or_init(|| socket);
        // A caller that ended the attempt earlier could not shut the socket down.
        if link.is_over() {
            return;
        }
        hub.step(srv, |node, now, out| node.connected(now, link.id, out));
        while self.execute_commands(link) {
            let mut fds =
                [PollFd::new(socket, PollFlags::IN), PollFd::new(&*self.wake_flag, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return ended(&e.to_string()),
            }
            let is_ready = !fds[0].revents().is_empty();
            if !fds[1].revents().is_empty() {
                self.wake_flag.clear();
            }
            if !is_ready {
                continue;
            }
            if self.buf.capacity() - self.buf.len() < CHUNK / 4 {
                self.buf.reserve(CHUNK);
            }
            let read = match socket {
                Stream::Plain(socket) => rustix::io::read(socket, spare_capacity(&mut self.buf)),
                Stream::Tls(stream) => {
                    stream.receive(CHUNK, |plain| self.buf.extend_from_slice(plain))
                }
            };
            match read {
                Ok(0) => return ended("Connection closed by the primary"),
                Ok(bytes) => {
                    client::heard(self.srv, link, bytes);
                    if !self.received(link) {
                        return;
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(e) => return ended(&e.to_string()),
            }
        }
    }

    /// Presents the received bytes to the machine. Returns whether the attempt continues.
    fn received(&mut self, link: &Link) -> bool {
        let srv = self.srv;
        let is_empty = || (0..srv.ks.databases()).all(|db| srv.ks.counts(db).0 == 0);
        loop {
            let taken = hub(srv)
                .step(srv, |node, now, out| node.received(now, link.id, &self.buf, &is_empty, out));
            if !self.execute_commands(link) {
                return false;
            }
            self.buf.drain(..taken);
            if !std::mem::take(&mut self.again) || self.buf.is_empty() {
                return true;
            }
        }
    }

    /// Executes commands until none is left and no action is pending. Returns whether the attempt
    /// continues.
    fn execute_commands(&mut self, link: &Link) -> bool {
        loop {
            let mut state = hub(self.srv).lock();
            if state.link.of(link.id).is_none() {
                return false;
            }
            let order = state.link.orders.pop_front();
            if order.is_none() && state.pending.is_empty() {
                state.node.mark_reading(now(self.srv), link.id);
                return true;
            }
            state.link.waits = order.is_none();
            drop(state);
            match order {
                Some(order) => self.execute(link, order),
                None => self.wake_flag.wait(),
            }
        }
    }

    /// Waits until no action is pending.
    fn settle(&self) {
        settle(self.srv, &self.wake_flag);
    }

    fn execute(&mut self, link: &Link, order: LinkCommand) {
        match order {
            LinkCommand::Begin(load, bytes) => self.copies.begin(link.id, load, bytes),
            LinkCommand::Payload(bytes) => self.copies.feed(&mut self.applier, link.id, bytes),
            LinkCommand::End => self.copies.end(&mut self.applier, link.id, &self.wake_flag),
            LinkCommand::BeginStream(at) => {
                log_debug!("The stream of the primary begins at {}", at.offset);
                self.applier.begin(at, link.client.get().cloned());
            }
            LinkCommand::Stream(bytes) => self.applier.apply(link.id, &self.buf[bytes]),
            LinkCommand::Read => self.again = true,
        }
    }
}
