//! How requests leave: put together, patched, written at once; in an open loop when they are due.

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{SendFlags, send, sockopt};
use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

use super::conn::{Conn, Flight, GREETING};
use super::{Failure, Worker};
use crate::skipper::Types;
use crate::verify::Check;

/// Most bytes of requests that are laid out ahead.
const LAID: usize = 4 << 20;

impl Worker {
    /// A connection has nothing in flight.
    #[inline]
    pub(super) fn on_free(&mut self, i: usize, now: u64) -> Result<(), Failure> {
        if self.schedule.is_some() {
            self.free.push_back(i);
            return Ok(());
        }
        if self.is_over || now >= self.end_ns {
            self.is_over = true;
            return Ok(());
        }
        self.send_batch(i, self.plan.pipeline, now)
    }

    /// Sends what is due, in an open loop, over connections that are free.
    #[inline]
    pub(super) fn dispatch(&mut self, now: u64) -> Result<(), Failure> {
        let Some(schedule) = &self.schedule else { return Ok(()) };
        if self.is_over {
            return Ok(());
        }
        let mut next = schedule.next_due();
        while next <= now && next < self.end_ns {
            let Some(i) = self.free.pop_front() else { return Ok(()) };
            let due = self.schedule.as_ref().map_or(0, |schedule| schedule.due(now));
            let each = due.div_ceil(self.free.len() as u64 + 1).max(1);
            let count = each.min(self.plan.pipeline as u64) as usize;
            self.send_batch(i, count, now)?;
            if self.is_over {
                return Ok(());
            }
            next = self.schedule.as_ref().map_or(u64::MAX, |schedule| schedule.next_due());
        }
        if next >= self.end_ns {
            // what was due before the end has been sent
            self.is_over = true;
            return Ok(());
        }
        self.arm(next, now)
    }

    /// Wakes this thread when the next request is due.
    fn arm(&mut self, next: u64, now: u64) -> Result<(), Failure> {
        let Some((timer, armed)) = &mut self.timer else { return Ok(()) };
        if *armed == next || self.free.is_empty() {
            return Ok(());
        }
        *armed = next;
        let wait = next.saturating_sub(now).max(1);
        let it_value = Timespec {
            tv_sec: (wait / 1_000_000_000) as i64,
            tv_nsec: (wait % 1_000_000_000) as i64,
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = Itimerspec { it_interval, it_value };
        timerfd_settime(&*timer, TimerfdTimerFlags::empty(), &setting)
            .map(|_| ())
            .map_err(|e| format!("Error: timer: {e}"))
    }

    /// Sends up to `count` templates, fewer when few are left; none ends the sending.
    fn send_batch(&mut self, i: usize, count: usize, now: u64) -> Result<(), Failure> {
        let kinds = &self.plan.test.kinds;
        let single = kinds.len() == 1 && kinds[0].variants.len() == 1;
        let replies = u64::from(kinds[0].variants[0].replies());
        let count = if self.begun {
            let taken = self.quota.take(count as u64 * replies, &self.shared);
            taken.div_ceil(replies) as usize
        } else {
            count
        };
        if count == 0 {
            self.is_over = true;
            return Ok(());
        }
        let plain = single
            && self.schedule.is_none()
            && self.plan.cluster.is_none()
            && !self.plan.verify
            && self.plan.test.kinds[0].variants[0].bytes().len() * count <= LAID;
        if plain { self.send_laid(i, count, now) } else { self.send_built(i, count, now) }
    }

    /// Requests of one kind, in a closed loop: only the digits change.
    fn send_laid(&mut self, i: usize, count: usize, now: u64) -> Result<(), Failure> {
        let kind = &self.plan.test.kinds[0];
        let template = &kind.variants[0];
        let len = template.bytes().len();
        while self.laid_count < count {
            self.laid.extend_from_slice(template.bytes());
            self.laid_count += 1;
        }
        if template.varies() {
            let drawer = &mut self.drawer;
            for copy in self.laid[..count * len].chunks_exact_mut(len) {
                template.patch(copy, |group| drawer.draw(group));
            }
        }
        let left = template.replies() * count as u32;
        let flight =
            Flight { due_ns: now, left, kind: 0, counted: self.begun, expect: kind.expect };
        self.open += u64::from(left);
        self.conns[i].depart(flight);
        let laid = std::mem::take(&mut self.laid);
        let written = self.write(i, &laid[..count * len]);
        self.laid = laid;
        written
    }

    /// Requests of several kinds or sizes, or with things to note about each.
    fn send_built(&mut self, i: usize, count: usize, now: u64) -> Result<(), Failure> {
        let mut batch = std::mem::take(&mut self.batch);
        batch.clear();
        for _ in 0..count {
            self.build(i, now, &mut batch);
        }
        let written = self.write(i, &batch);
        self.batch = batch;
        written
    }

    /// Appends a request of a random kind and notes its departure.
    fn build(&mut self, i: usize, now: u64, batch: &mut Vec<u8>) {
        let test = &self.plan.test;
        let chosen = choose(&test.weights, &mut self.drawer);
        let kind = &test.kinds[chosen];
        let template = &kind.variants[self.drawer.below(kind.variants.len())];
        let at = batch.len();
        batch.extend_from_slice(template.bytes());
        let (drawer, conn) = (&mut self.drawer, &mut self.conns[i]);
        let note_keys = self.plan.verify && kind.check == Check::OfKeys;
        template.patch(&mut batch[at..], |group| {
            let number = drawer.draw(group);
            if note_keys {
                conn.keys.push_back(number);
            }
            number
        });
        if let Some(cluster) = &self.plan.cluster {
            if template.is_tagged() {
                let nodes = cluster.nodes();
                let slots = nodes.get(conn.node).map_or(&[][..], |node| &node.slots);
                // a node that lost all its slots gets requests that it redirects
                let slot = slots.get(drawer.below(slots.len())).copied().unwrap_or(0);
                template.patch_tags(&mut batch[at..], cluster.tag(slot));
            }
            // several commands in one template can't be sent again one by one
            let copies = template.replies();
            let request = if copies == 1 { batch[at..].to_vec() } else { Vec::new() };
            conn.requests.extend(std::iter::repeat_n(request, copies as usize));
        }
        let due_ns = match &mut self.schedule {
            None => now,
            Some(schedule) => {
                let due = schedule.next_due();
                (0..template.replies()).for_each(|_| schedule.advance());
                due
            }
        };
        // what was due in the warm-up belongs to it, unless it was taken from the requests to count
        let counted = self.begun && (due_ns >= self.begin_ns || self.plan.requests.is_some());
        let left = template.replies();
        self.open += u64::from(left);
        conn.depart(Flight { due_ns, left, kind: chosen as u16, counted, expect: kind.expect });
    }

    /// Writes a batch; what the socket does not take waits with the connection.
    fn write(&mut self, i: usize, bytes: &[u8]) -> Result<(), Failure> {
        let conn = &mut self.conns[i];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let taken = if conn.connecting || !conn.unsent.is_empty() {
            0
        } else {
            match send(&conn.socket, bytes, flags) {
                Ok(taken) => taken,
                Err(Errno::AGAIN | Errno::INTR) => 0,
                Err(e) => return Err(write_error(conn, e)),
            }
        };
        if taken < bytes.len() {
            let watched = !conn.unsent.is_empty() || conn.connecting;
            conn.unsent.extend_from_slice(&bytes[taken..]);
            if !watched {
                self.watch_output(i, true)?;
            }
        }
        Ok(())
    }

    /// Goes on writing, or begins on a connection that was just established.
    pub(super) fn on_writable(&mut self, i: usize, now: u64) -> Result<(), Failure> {
        if self.conns[i].connecting {
            return self.on_connected(i, now);
        }
        let conn = &mut self.conns[i];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match send(&conn.socket, &conn.unsent[conn.sent..], flags) {
            Ok(taken) => conn.sent += taken,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(e) => return Err(write_error(conn, e)),
        }
        if conn.sent == conn.unsent.len() {
            conn.unsent.clear();
            conn.sent = 0;
            self.watch_output(i, false)?;
        }
        Ok(())
    }

    fn on_connected(&mut self, i: usize, now: u64) -> Result<(), Failure> {
        let conn = &mut self.conns[i];
        if let Ok(Err(e)) | Err(e) = sockopt::socket_error(&conn.socket) {
            return Err(format!("Could not connect to server: {}", std::io::Error::from(e)));
        }
        conn.connecting = false;
        self.watch_output(i, false)?;
        let (bytes, left) = self.plan.greeting.clone();
        if left > 0 {
            let (kind, expect) = (GREETING, Types::ANY);
            let greeting = Flight { due_ns: now, left, kind, counted: false, expect };
            self.conns[i].depart(greeting);
            self.open += u64::from(left);
            self.write(i, &bytes)?;
        }
        self.on_free(i, now)
    }

    pub(super) fn watch_output(&self, i: usize, output: bool) -> Result<(), Failure> {
        let data = epoll::EventData::new_u64(i as u64);
        epoll::modify(&self.epoll, &self.conns[i].socket, data, interest(output))
            .map_err(|e| format!("Error: epoll: {e}"))
    }

    pub(super) fn watch(&self, conn: &Conn, i: usize, output: bool) -> rustix::io::Result<()> {
        let data = epoll::EventData::new_u64(i as u64);
        epoll::add(&self.epoll, &conn.socket, data, interest(output))
    }
}

fn interest(output: bool) -> epoll::EventFlags {
    if output { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN }
}

fn write_error(conn: &Conn, e: Errno) -> Failure {
    let e = sockopt::socket_error(&conn.socket).ok().and_then(Result::err).unwrap_or(e);
    format!("Error writing to the server: {}", std::io::Error::from(e))
}

/// An index, by weight.
#[inline]
fn choose(weights: &[u32], drawer: &mut crate::keys::Drawer) -> usize {
    if weights.len() == 1 {
        return 0;
    }
    let total: usize = weights.iter().map(|weight| *weight as usize).sum();
    let mut rest = drawer.below(total);
    for (i, weight) in weights.iter().enumerate() {
        let weight = *weight as usize;
        if rest < weight {
            return i;
        }
        rest -= weight;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Counters, Drawer, KeyDistribution};

    #[test]
    fn choices_follow_the_weights() {
        let mut drawer = Drawer::new(KeyDistribution::Uniform, 1, 1, Counters::default());
        let mut counts = [0; 3];
        for _ in 0..100_000 {
            counts[choose(&[7, 2, 1], &mut drawer)] += 1;
        }
        for (count, want) in counts.iter().zip([70_000.0, 20_000.0, 10_000.0]) {
            assert!((f64::from(*count) - want).abs() < 1000.0, "{counts:?}");
        }
    }
}
