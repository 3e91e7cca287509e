//! The epoll instance of one thread.

use crate::interest::Interest;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::time::Timespec;
use std::io;

/// The maximum number of ready descriptors taken from the kernel in one call.
const EVENTS: usize = 256;

/// The events that epoll must report.
fn flags(interest: Interest) -> EventFlags {
    let mut flags = EventFlags::empty();
    // RDHUP only while reading: otherwise epoll would report a half-closed peer of an unread
    // connection again and again.
    flags.set(EventFlags::IN | EventFlags::RDHUP, interest.read);
    flags.set(EventFlags::OUT, interest.write);
    flags
}

/// One readiness report.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub token: u64,
    pub read: bool,
    pub write: bool,
    /// The connection is broken in both directions. Reported whatever the interest.
    pub broken: bool,
    /// The peer has closed its sending side.
    pub ended: bool,
}

pub struct Poll {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poll {
    pub fn new() -> io::Result<Self> {
        Ok(Poll { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(EVENTS) })
    }

    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token), flags(interest))?)
    }

    pub fn change(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(token), flags(interest))?)
    }

    pub fn remove(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Sleeps until a descriptor is ready or `timeout_ms` has passed (negative: no timeout).
    pub fn wait(&mut self, timeout_ms: i64, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        self.events.clear();
        let timeout = (timeout_ms >= 0).then(|| Timespec {
            tv_sec: timeout_ms / 1000,
            tv_nsec: (timeout_ms % 1000) * 1_000_000,
        });
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut self.events),
            timeout.as_ref(),
        ) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        ready.extend(self.events.iter().map(|e| {
            let flags = e.flags;
            let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
            Ready {
                token: e.data.u64(),
                read: broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP),
                write: broken || flags.contains(EventFlags::OUT),
                broken,
                ended: flags.contains(EventFlags::RDHUP),
            }
        }));
        Ok(())
    }
}
