//! Sending requests: they are built, patched and written at once; in an open loop when they are
//! due.

use std::io;

use rustix::event::epoll;
use rustix::net::sockopt;
use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

use super::conn::{Conn, Flight, GREETING, Phase};
use super::{Failure, Worker};
use crate::skipper::Types;
use crate::verify::Check;

/// The most bytes of requests that are prepared in advance.
const PREPARED_BYTES: usize = 4 << 20;

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

    /// Sends due requests of an open loop over free connections.
    #[inline]
    pub(super) fn dispatch(&mut self, now: u64) -> Result<(), Failure> {
        let Some(schedule) = &self.schedule else { return Ok(()) };
        if self.is_over {
            return Ok(());
        }
        let mut next = schedule.next_due();
        if now >= self.end_ns && self.cannot_catch_up(next) {
            return Ok(());
        }
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
            // All requests due before the end were sent.
            self.is_over = true;
            return Ok(());
        }
        self.arm(next, now)
    }

    /// At the end of the time: whether the remaining requests would take longer than the one batch
    /// that each connection may still send. Then all of them stay unsent, and are counted.
    /// Otherwise the time limit would hold only with a fast server.
    fn cannot_catch_up(&mut self, next: u64) -> bool {
        let Some(schedule) = &mut self.schedule else { return false };
        let left = if next < self.end_ns { schedule.due(self.end_ns - 1) } else { 0 };
        if left <= (self.conns.len() * self.plan.pipeline) as u64 {
            return false;
        }
        self.tally.unsent += left;
        self.is_over = true;
        true
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

    /// Sends up to `count` templates, fewer if few are left; none ends the sending.
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
            && self.plan.test.kinds[0].variants[0].bytes().len() * count <= PREPARED_BYTES;
        if plain { self.send_prepared(i, count, now) } else { self.send_built(i, count, now) }
    }

    /// Requests of one kind, in a closed loop: only the digits change.
    fn send_prepared(&mut self, i: usize, count: usize, now: u64) -> Result<(), Failure> {
        let kind = &self.plan.test.kinds[0];
        let template = &kind.variants[0];
        let len = template.bytes().len();
        while self.laid_count < count {
            self.prepared.extend_from_slice(template.bytes());
            self.laid_count += 1;
        }
        if template.varies() {
            let drawer = &mut self.drawer;
            for copy in self.prepared[..count * len].chunks_exact_mut(len) {
                template.patch(copy, |group| drawer.draw(group));
            }
        }
        let left = template.replies() * count as u32;
        let flight =
            Flight { due_ns: now, left, kind: 0, counted: self.begun, expect: kind.expect };
        self.open += u64::from(left);
        self.conns[i].depart(flight);
        let prepared = std::mem::take(&mut self.prepared);
        let written = self.write(i, &prepared[..count * len]);
        self.prepared = prepared;
        written
    }

    /// Requests of several kinds or sizes, or with facts to note about each.
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

    /// Appends a request of a random kind and notes its sending.
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
                // A node that lost all its slots gets requests that it redirects.
                let slot = slots.get(drawer.below(slots.len())).copied().unwrap_or(0);
                template.patch_tags(&mut batch[at..], cluster.tag(slot));
            }
            // Several commands in one template can't be sent again one by one.
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
        // A request due in the warm-up belongs to it, unless it was taken from the requests to
        // count.
        let counted = self.begun && (due_ns >= self.begin_ns || self.plan.requests.is_some());
        let left = template.replies();
        self.open += u64::from(left);
        conn.depart(Flight { due_ns, left, kind: chosen as u16, counted, expect: kind.expect });
    }

    /// Writes a batch; bytes that the socket doesn't take are stored with the connection.
    fn write(&mut self, i: usize, bytes: &[u8]) -> Result<(), Failure> {
        let conn = &mut self.conns[i];
        let taken = if conn.phase != Phase::Open || !conn.unsent.is_empty() {
            0
        } else {
            written(conn.stream.send(bytes))?
        };
        conn.unsent.extend_from_slice(&bytes[taken..]);
        self.settle(i)
    }

    /// Continues writing, or the setup of a connection.
    pub(super) fn on_writable(&mut self, i: usize) -> Result<(), Failure> {
        let conn = &mut self.conns[i];
        match conn.phase {
            Phase::Connecting => {
                if let Ok(Err(e)) | Err(e) = sockopt::socket_error(&conn.stream) {
                    return Err(format!("Could not connect to server: {}", io::Error::from(e)));
                }
                conn.phase = Phase::Handshake;
                if conn.stream.is_handshaking() {
                    // The client speaks first.
                    written(conn.stream.send(&[]))?;
                }
                return self.on_progress(i);
            }
            Phase::Handshake | Phase::Open => {
                conn.sent += written(conn.stream.send(&conn.unsent[conn.sent..]))?;
            }
        }
        if conn.sent == conn.unsent.len() {
            conn.unsent.clear();
            conn.sent = 0;
        }
        self.settle(i)
    }

    /// Begins on a connection when it has been established, handshake included.
    pub(super) fn on_progress(&mut self, i: usize) -> Result<(), Failure> {
        let conn = &mut self.conns[i];
        let is_ready = conn.phase == Phase::Handshake && !conn.stream.is_handshaking();
        if is_ready {
            conn.phase = Phase::Open;
        }
        self.settle(i)?;
        if !is_ready {
            return Ok(());
        }
        // The time of a handshake is not part of the first latency.
        let now = self.now();
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

    /// Registers a connection for output while it waits for that, and no longer.
    #[inline]
    pub(super) fn settle(&mut self, i: usize) -> Result<(), Failure> {
        let conn = &mut self.conns[i];
        let wanted = conn.wants_output();
        if wanted == conn.watched {
            return Ok(());
        }
        conn.watched = wanted;
        let data = epoll::EventData::new_u64(i as u64);
        epoll::modify(&self.epoll, &conn.stream, data, interest(wanted))
            .map_err(|e| format!("Error: epoll: {e}"))
    }

    /// Registers a connection.
    pub(super) fn watch(&self, conn: &mut Conn, i: usize) -> rustix::io::Result<()> {
        conn.watched = conn.wants_output();
        let data = epoll::EventData::new_u64(i as u64);
        epoll::add(&self.epoll, &conn.stream, data, interest(conn.watched))
    }
}

fn interest(output: bool) -> epoll::EventFlags {
    if output { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN }
}

/// The number of written bytes, which may be 0 for now.
#[inline]
fn written(sent: io::Result<usize>) -> Result<usize, Failure> {
    match sent {
        Ok(taken) => Ok(taken),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
        Err(e) => Err(format!("Error writing to the server: {e}")),
    }
}

/// A random index, by weight.
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
