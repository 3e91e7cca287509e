//! weft-replica: makes one attempt after the other to follow our primary, and does what the machine orders.

use crate::hub;
use crate::now;
use crate::replica::apply::Applier;
use crate::replica::copy::Copies;
use crate::replica::handle::{Bell, Link, settle};
use crate::replica::{Order, client, socket};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::sync::Arc;
use weft_config::Id;
use weft_process::log_debug;
use weft_state::server::Server;

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// Starts the thread, which stays.
///
/// # Errors
/// The system has no thread or descriptor for it.
pub fn start(srv: &'static Server) -> std::io::Result<Arc<Bell>> {
    let bell = Arc::new(Bell::new()?);
    let own = bell.clone();
    std::thread::Builder::new().name("weft-replica".into()).spawn(move || {
        let _stack = weft_process::crash::second_stack();
        weft_scheduler::placement::bind_to(&srv.placement().slow);
        let mut thread = Thread {
            srv,
            bell: own,
            applier: Applier::new(srv),
            copies: Copies::new(srv),
            buf: Vec::with_capacity(CHUNK),
            again: false,
        };
        loop {
            let present = hub(srv).lock().link.present().cloned();
            match present {
                Some(link) => thread.follow(&link),
                None => thread.bell.wait(),
            }
        }
    })?;
    Ok(bell)
}

struct Thread {
    srv: &'static Server,
    bell: Arc<Bell>,
    applier: Applier,
    copies: Copies,
    /// What has come and was not taken.
    buf: Vec<u8>,
    /// That is to be presented again.
    again: bool,
}

impl Thread {
    /// Makes one attempt, to its end.
    fn follow(&mut self, link: &Arc<Link>) {
        self.buf.clear();
        self.again = false;
        self.run(link);
        self.copies.abandon(&mut self.applier);
        // Whatever has ended it: the present attempt is not made again.
        let hub = hub(self.srv);
        if hub.lock().link.of(link.id).is_some() {
            hub.step(self.srv, |node, now, out| node.link_closed(now, link.id, "closed", out));
            self.settle();
        }
    }

    fn run(&mut self, link: &Arc<Link>) {
        let srv = self.srv;
        let hub = hub(srv);
        let source = srv.config().str(Id::BIND_SOURCE_ADDR).into_owned();
        let goes_on = || !link.is_over();
        let ended = |why: &str| {
            hub.step(srv, |node, now, out| node.link_closed(now, link.id, why, out));
        };
        let socket = match socket::connect(&link.host, link.port, &source, &self.bell, &goes_on) {
            Ok(socket) => socket,
            Err(e) => return ended(&weft_process::errors::words(&e)),
        };
        let socket = link.socket.get_or_init(|| socket);
        // Whoever has given it up before did not see the socket.
        if link.is_over() {
            return;
        }
        hub.step(srv, |node, now, out| node.connected(now, link.id, out));
        while self.obey(link) {
            let mut fds =
                [PollFd::new(socket, PollFlags::IN), PollFd::new(&*self.bell, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return ended(&e.to_string()),
            }
            let is_ready = !fds[0].revents().is_empty();
            if !fds[1].revents().is_empty() {
                self.bell.answer();
            }
            if !is_ready {
                continue;
            }
            if self.buf.capacity() - self.buf.len() < CHUNK / 4 {
                self.buf.reserve(CHUNK);
            }
            match rustix::io::read(socket, spare_capacity(&mut self.buf)) {
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

    /// Presents what has come to the machine; whether the attempt goes on.
    fn received(&mut self, link: &Link) -> bool {
        let srv = self.srv;
        let is_empty = || (0..srv.ks.databases()).all(|db| srv.ks.counts(db).0 == 0);
        loop {
            let taken = hub(srv)
                .step(srv, |node, now, out| node.received(now, link.id, &self.buf, &is_empty, out));
            if !self.obey(link) {
                return false;
            }
            self.buf.drain(..taken);
            if !std::mem::take(&mut self.again) || self.buf.is_empty() {
                return true;
            }
        }
    }

    /// Does what is ordered, until nothing is and nothing is pending that may come before; whether the
    /// attempt goes on.
    fn obey(&mut self, link: &Link) -> bool {
        loop {
            let mut state = hub(self.srv).lock();
            if state.link.of(link.id).is_none() {
                return false;
            }
            let order = state.link.orders.pop_front();
            if order.is_none() && state.pending.is_empty() {
                state.node.listens(now(self.srv), link.id);
                return true;
            }
            state.link.waits = order.is_none();
            drop(state);
            match order {
                Some(order) => self.carry_out(link, order),
                None => self.bell.wait(),
            }
        }
    }

    /// Waits until nothing is pending.
    fn settle(&self) {
        settle(self.srv, &self.bell);
    }

    fn carry_out(&mut self, link: &Link, order: Order) {
        match order {
            Order::Begin(load, bytes) => self.copies.begin(link.id, load, bytes),
            Order::Payload(bytes) => self.copies.feed(&mut self.applier, link.id, bytes),
            Order::End => self.copies.end(&mut self.applier, link.id, &self.bell),
            Order::BeginStream(at) => {
                log_debug!("The stream of the primary begins at {}", at.offset);
                self.applier.begin(at, link.client.get().cloned());
            }
            Order::Stream(bytes) => self.applier.apply(link.id, &self.buf[bytes]),
            Order::Read => self.again = true,
        }
    }
}
