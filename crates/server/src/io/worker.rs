//! One I/O thread: its event loop and the connections it owns.
//!
//! ```text
//! wait ─► for each ready connection: read, parse, plan ─┐   until the batch is full
//!         ┌─────────────────────────────────────────────┘
//!         └► enter the gate ─► execute all requests, prefetching ahead ─► leave the gate
//!            ─► write each connection's replies
//! ```
//!
//! Nothing is locked or gated while the thread reads, writes or sleeps.

use crate::dispatch::Core;
use crate::dispatch::execute::{Flow, Request, execute};
use crate::io::batch::{Batch, Req, Source};
use crate::io::conn::{ArgBuf, Conn, Suspended};
use crate::io::listen::Listener;
use crate::io::mailbox::Message;
use crate::io::poll::{Interest, Poll, Ready};
use crate::io::read::{self, Got, Planner};
use crate::io::write::{Sent, send_pending, send_reply};
use crate::server::Server;
use crate::threads::bind;
use crate::threads::placement::Placement;
use slab::Slab;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_keyspace::{Key, Waiter};
use weft_process::log_warning;
use weft_resp::{Blob, Reply};

mod blocked;
mod moving;
mod offload;
mod owning;

pub use offload::{WriteJob, Written};

const KILOBYTE: usize = 1024;

/// Reply buffers that are kept beside those of the present batch.
const POOLED: usize = 256;

/// Tokens from here on are not connections.
const MAILBOX: u64 = u64::MAX;
const LISTENERS: u64 = u64::MAX - 1024;

/// Requests between the prefetch of a bucket, that of its record, and the execution.
const AHEAD: usize = 8;

/// Replies that a client may leave untaken before its requests wait (bytes). Far more than any
/// client needs that sends a pipeline first and reads later.
const BACK_PRESSURE: usize = 256 << 20;

/// See the module's description.
pub struct Worker {
    pub core: Core,
    poll: Poll,
    conns: Slab<Conn>,
    by_client: HashMap<u64, usize>,
    listeners: Vec<Listener>,
    batch: Batch,
    /// Reply buffers of the jobs of a batch, kept for the next one.
    replies: Vec<Reply>,
    /// Replies for other threads to send, and whether more are taken: see [`offload`].
    offloaded: Vec<WriteJob>,
    offloads: bool,
    /// Connections with something to execute that no event will announce.
    queued: Vec<usize>,
    generation: u32,
    next_cron_ms: i64,
    cron: super::cron::Cron,
    /// Where this thread was told to run.
    bound: Arc<Placement>,
    /// Periods of the load so far, and connections that had requests in this one.
    period: u32,
    busy_connections: u64,
    /// Requests of this batch that go to the slow lane, by connection.
    slow_args: Vec<(usize, Vec<ArgBuf>)>,
    /// When the time of which waiting client is over: Unix milliseconds and client, the earliest
    /// first. An entry may outlive its wait.
    deadlines: BinaryHeap<Reverse<(i64, u64)>>,
}

fn token(index: usize, generation: u32) -> u64 {
    u64::from(generation) << 32 | index as u64
}

impl Worker {
    /// Worker `id`; must be called on the thread that will run it.
    pub fn new(id: usize, srv: &'static Server, listeners: Vec<Listener>) -> std::io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(srv.threads[id].mailbox.fd(), MAILBOX, Interest::READ)?;
        for (n, listener) in listeners.iter().enumerate() {
            poll.add(listener.fd(), LISTENERS + n as u64, Interest::READ)?;
        }
        Ok(Worker {
            cron: super::cron::Cron::new(id),
            bound: Arc::default(),
            period: 1,
            busy_connections: 0,
            core: Core::new(id, srv),
            poll,
            conns: Slab::new(),
            by_client: HashMap::new(),
            listeners,
            batch: Batch::default(),
            replies: Vec::new(),
            offloaded: Vec::new(),
            offloads: false,
            queued: Vec::new(),
            generation: 0,
            next_cron_ms: 0,
            deadlines: BinaryHeap::new(),
            slow_args: Vec::new(),
        })
    }

    /// Runs until the server is told to stop.
    pub fn run(&mut self) -> std::io::Result<()> {
        let mut ready: Vec<Ready> = Vec::new();
        self.bound = self.core.srv.placement();
        bind(self.core.srv, self.core.id, &self.bound);
        while !self.core.srv.is_stopping() {
            let timeout = if self.queued.is_empty() { self.until_due() } else { 0 };
            self.poll.wait(timeout, &mut ready)?;
            self.core.stats().turns.add(1);
            // Before a connection is accepted: whether it needs a password, for one.
            self.core.renew_settings();
            for event in &ready {
                self.on_event(*event);
            }
            self.end_waits();
            self.run_queued();
            self.flush();
            self.cron_if_due();
        }
        Ok(())
    }

    /// Milliseconds until something has to be done unasked; negative for never.
    fn until_due(&self) -> i64 {
        if self.has_no_part() {
            return -1;
        }
        let now = self.core.srv.now_ms();
        let cron = (self.next_cron_ms - now).clamp(0, 1000);
        self.until_deadline(now).map_or(cron, |deadline| deadline.min(cron))
    }

    /// Whether this thread is not wanted now, and has nothing left to do.
    fn has_no_part(&self) -> bool {
        let helps = || self.is_divided() && self.core.id < self.core.srv.threads.configured();
        !self.is_active() && self.conns.is_empty() && !helps()
    }

    fn is_active(&self) -> bool {
        self.core.id < self.core.srv.threads.active()
    }

    /// Goes where the thread is to run now, if that has changed.
    fn bind_again(&mut self) {
        let placement = self.core.srv.placement();
        if !Arc::ptr_eq(&placement, &self.bound) {
            bind(self.core.srv, self.core.id, &placement);
            self.bound = placement;
        }
    }

    fn cron_if_due(&mut self) {
        if self.has_no_part() {
            return self.cron.rest(&mut self.core);
        }
        let now = self.core.srv.now_ms();
        if now < self.next_cron_ms && self.next_cron_ms - now <= 1000 {
            return;
        }
        self.next_cron_ms = now + 1000 / self.core.settings.hz.max(1);
        if self.cron.tick(&mut self.core, now, self.busy_connections) {
            self.period = self.period.wrapping_add(1);
            self.busy_connections = 0;
        }
        self.check_clients(now);
        if !self.is_active() {
            self.hand_over();
        }
    }

    /// Closes idle clients and those whose output has been over the soft limit for too long.
    fn check_clients(&mut self, now_ms: i64) {
        let timeout = self.core.settings.timeout_s;
        let overdue: Vec<usize> = self
            .conns
            .iter()
            .filter(|(_, c)| {
                let idle = c.session.shared.idle_seconds(now_ms);
                (timeout > 0 && idle > timeout && !c.session.monitor && c.suspended.is_none())
                    || self.over_output_limit(c, now_ms)
            })
            .map(|(i, _)| i)
            .collect();
        overdue.into_iter().for_each(|i| self.close(i));
    }

    fn on_event(&mut self, event: Ready) {
        if event.token >= LISTENERS {
            // Both may end or begin connections: a batch must not find another one in the slot
            // of one that it has read from.
            self.flush();
            if event.token == MAILBOX {
                return self.on_mail();
            }
            return self.accept((event.token - LISTENERS) as usize);
        }
        let index = event.token as u32 as usize;
        let generation = (event.token >> 32) as u32;
        if self.conns.get(index).is_none_or(|c| c.generation != generation) {
            return;
        }
        if (event.broken || self.conns[index].interest.hangup)
            && event.read
            && !self.conns[index].interest.read
        {
            // Nobody will read the end of it.
            return self.close(index);
        }
        if event.write && self.conns[index].interest.write {
            self.on_writable(index);
        }
        if event.read && self.conns.get(index).is_some_and(|c| c.generation == generation) {
            self.on_readable(index);
        }
    }

    fn on_mail(&mut self) {
        let mailbox = &self.core.srv.threads[self.core.id].mailbox;
        mailbox.acknowledge();
        while let Some(message) = mailbox.take() {
            match message {
                Message::Accepted(accepted) => self.adopt(accepted),
                Message::Unpark { token } => self.resume_token(token, Suspended::Shard),
                Message::Moved(conn) => self.move_in(*conn),
                Message::Shed { to, share } => self.shed(to, share),
                Message::Write { from, jobs } => self.write_for(from, jobs),
                Message::Written { done } => done.into_iter().for_each(|w| self.written(w)),
                Message::Scatter => self.scatter(),
                Message::Kill { client } => self.kill(client),
                Message::Feed { client, bytes } => self.feed(client, &bytes),
                Message::Unpause => self.resume_all(Suspended::Paused),
                Message::Served { client, reply } => self.served(client, reply),
                Message::Retry { client } => self.retry(client),
                Message::Unblocked { client, error } => self.unblocked(client, error),
                Message::SlowDone { client, reply } => self.slow_done(client, reply),
                Message::SlowBlocked { client, waiting } => self.slow_blocked(client, waiting),
                // Whether this thread is active may have changed: its cron sees to that.
                Message::Wake => {
                    self.next_cron_ms = 0;
                    self.bind_again();
                }
                Message::Stop => {}
            }
        }
    }

    // ---- suspension ----

    /// Stops executing a connection's requests, and reading more of them.
    fn suspend(&mut self, index: usize, why: Suspended) {
        self.conns[index].suspended = Some(why);
        self.renew_interest(index);
    }

    fn resume_token(&mut self, token: u64, why: Suspended) {
        let index = token as u32 as usize;
        let generation = (token >> 32) as u32;
        if self.conns.get(index).is_some_and(|c| c.generation == generation) {
            self.resume(index, why);
        }
    }

    fn resume_all(&mut self, why: Suspended) {
        let all: Vec<usize> = self.conns.iter().map(|(i, _)| i).collect();
        all.into_iter().for_each(|i| self.resume(i, why));
    }

    fn resume(&mut self, index: usize, why: Suspended) {
        if self.conns[index].suspended == Some(why) {
            self.conns[index].suspended = None;
            self.renew_interest(index);
            self.enqueue(index);
        }
    }

    fn enqueue(&mut self, index: usize) {
        if !std::mem::replace(&mut self.conns[index].queued, true) {
            self.queued.push(index);
        }
    }

    fn renew_interest(&mut self, index: usize) {
        let conn = &mut self.conns[index];
        let want = Interest {
            read: conn.wants_input(),
            write: conn.pending_output() > 0 && !conn.writing,
            hangup: conn.wants_hangup(),
        };
        if want != conn.interest {
            conn.interest = want;
            let _ = self.poll.change(&conn.fd, token(index, conn.generation), want);
        }
    }

    // ---- reading and planning ----

    fn on_readable(&mut self, index: usize) {
        if self.conns[index].in_batch || self.batch.is_full() {
            self.flush();
        }
        let Some(conn) = self.conns.get_mut(index) else { return };
        if !conn.wants_input() {
            return;
        }
        let planner = Planner {
            ks: &self.core.srv.ks,
            table: &self.core.srv.table,
            max_bulk: self.core.settings.commands.max_string,
        };
        let jobs = self.batch.jobs.len();
        match read::read(conn, index, &mut self.batch, planner) {
            Got::Nothing => {}
            Got::Closed => self.close(index),
            Got::Data(n) => {
                conn.in_batch = self.batch.jobs.len() > jobs;
                let stats = self.core.stats();
                stats.net_in.add(n as u64);
                stats.reads.add(1);
                add(&conn.session.shared.net_in, n as u64);
                if conn.pending_input() > self.core.settings.max_query_buffer {
                    self.query_buffer_overflow(index);
                }
            }
        }
    }

    #[cold]
    fn query_buffer_overflow(&mut self, index: usize) {
        let conn = &self.conns[index];
        log_warning!(
            "Closing client that reached max query buffer length: id={} addr={}",
            conn.session.shared.id,
            conn.session.shared.peer
        );
        self.core.srv.totals.query_limit_disconnections.fetch_add(1, Ordering::Relaxed);
        self.flush();
        self.close(index);
    }

    /// Plans what suspended or limited connections had left.
    fn run_queued(&mut self) {
        for index in std::mem::take(&mut self.queued) {
            let Some(conn) = self.conns.get_mut(index) else { continue };
            conn.queued = false;
            if conn.suspended.is_some() {
                continue;
            }
            if conn.in_batch || self.batch.is_full() {
                self.flush();
            }
            let Some(conn) = self.conns.get_mut(index) else { continue };
            if conn.suspended.is_some() || (conn.inbuf.is_empty() && conn.again.is_empty()) {
                continue;
            }
            let planner = Planner {
                ks: &self.core.srv.ks,
                table: &self.core.srv.table,
                max_bulk: self.core.settings.commands.max_string,
            };
            conn.in_batch = true;
            read::plan_inbuf(conn, index, &mut self.batch, planner);
        }
    }

    // ---- execution ----

    /// Executes the batch and sends its replies.
    fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let mut batch = std::mem::replace(&mut self.batch, Batch::hollow());
        while self.replies.len() < batch.jobs.len() {
            self.replies.push(Reply::default());
        }
        let mut replies = std::mem::take(&mut self.replies);
        let mut outcomes: SmallVec<[Outcome; 64]> = SmallVec::new();
        self.core.enter();
        {
            let pin = weft_table::epoch::pin();
            prefetch_first(&self.core, &batch, &pin);
            for (job, reply) in replies.iter_mut().enumerate().take(batch.jobs.len()) {
                outcomes.push(self.execute_job(&mut batch, job, reply, &pin));
            }
        }
        self.core.leave();
        weft_table::epoch::collect();
        self.plan_offload(batch.jobs.len());
        for (job, reply) in replies.iter_mut().enumerate().take(batch.jobs.len()) {
            self.finish_job(&mut batch, job, reply, outcomes[job]);
        }
        self.send_offloaded();
        for reply in replies.iter_mut().take(batch.jobs.len()) {
            assert!(reply.is_empty(), "a reply was left behind for another client");
            reply.trim();
        }
        replies.append(&mut self.replies);
        self.replies = replies;
        batch.clear();
        self.batch = batch;
    }

    /// Executes the requests of one connection.
    fn execute_job(
        &mut self,
        batch: &mut Batch,
        job: usize,
        reply: &mut Reply,
        pin: &weft_table::epoch::Guard,
    ) -> Outcome {
        let (first, count) = (batch.jobs[job].first_req, batch.jobs[job].reqs);
        // CLIENT KILL on another thread: nothing is executed after its reply.
        if let Some(conn) = self.conns.get_mut(batch.jobs[job].conn)
            && conn.session.shared.killed.load(Ordering::Relaxed)
        {
            conn.session.close = true;
            return Outcome::Done { executed: 0 };
        }
        for n in first..first + count {
            prefetch(&self.core, batch, n, pin);
            let Some(conn) = self.conns.get_mut(batch.jobs[job].conn) else {
                return Outcome::Gone;
            };
            reply.proto = conn.session.proto;
            let flow = run_request(&mut self.core, conn, batch, job, n, reply);
            match flow {
                Flow::Done if conn.session.close => {
                    return Outcome::Done { executed: n + 1 - first };
                }
                Flow::Done => {}
                Flow::Busy(busy) => {
                    let token = token(batch.jobs[job].conn, conn.generation);
                    let waiter = Waiter { thread: self.core.id as u32, token };
                    self.core.stats().parked.add(1);
                    let parked = self.core.srv.ks.park(busy, waiter);
                    let done = n - first;
                    return Outcome::Suspended { done, why: Suspended::Shard, again: !parked };
                }
                Flow::Paused => {
                    let done = n - first;
                    return Outcome::Suspended { done, why: Suspended::Paused, again: false };
                }
                // It is not among those that are kept to be executed again.
                Flow::Blocked => {
                    let done = n + 1 - first;
                    return Outcome::Suspended { done, why: Suspended::Blocked, again: false };
                }
                Flow::Slow => {
                    let conn = &self.conns[batch.jobs[job].conn];
                    let args = take_args(batch, job, conn, n);
                    self.slow_args.push((batch.jobs[job].conn, args));
                    let done = n + 1 - first;
                    return Outcome::Suspended { done, why: Suspended::Slow, again: false };
                }
            }
        }
        Outcome::Done { executed: count }
    }

    /// Sends the replies of one connection and puts away what is left of its input.
    fn finish_job(&mut self, batch: &mut Batch, job: usize, reply: &mut Reply, outcome: Outcome) {
        let j = &batch.jobs[job];
        let (index, first) = (j.conn, j.first_req);
        let Some(conn) = self.conns.get_mut(index) else {
            reply.clear();
            self.slow_args.retain(|(conn, _)| *conn != index);
            return;
        };
        conn.in_batch = false;
        let executed = match outcome {
            Outcome::Gone => 0,
            Outcome::Done { executed } => executed,
            Outcome::Suspended { done, .. } => {
                let mut left = std::collections::VecDeque::new();
                for n in first + done..first + j.reqs {
                    left.push_back(take_args(batch, job, conn, n));
                }
                left.append(&mut conn.again);
                conn.again = left;
                done
            }
        };
        let j = &batch.jobs[job];
        if j.in_conn {
            conn.inbuf.drain(..j.end);
            read::rebase(conn, j.end);
            if conn.inbuf.is_empty() {
                conn.inbuf = Vec::new();
            }
        }
        renew_shared(conn, self.core.turn.now_ms, executed, last_command(batch, first, executed));
        let work = (executed + (j.end - j.base + reply.len()) / KILOBYTE) as u64;
        self.busy_connections += u64::from(conn.note_work(self.period, work));
        let (error, more) = (j.error.clone(), j.more);
        if let Outcome::Suspended { why, again, .. } = outcome {
            self.conns[index].protocol_error = error;
            self.deliver(index, reply);
            return self.after_suspension(index, why, again);
        }
        let error = error.or_else(|| conn.protocol_error.take());
        if let Some(error) = error.filter(|_| !conn.session.close) {
            reply.error(format!("ERR {error}").as_bytes());
            conn.session.close = true;
        }
        self.deliver(index, reply);
        if more && self.conns.contains(index) {
            self.enqueue(index);
        }
    }

    fn after_suspension(&mut self, index: usize, why: Suspended, again: bool) {
        if !self.conns.contains(index) {
            return self.slow_args.retain(|(conn, _)| *conn != index);
        }
        if again {
            return self.enqueue(index);
        }
        match why {
            Suspended::Shard | Suspended::Paused | Suspended::Output => self.suspend(index, why),
            Suspended::Blocked => self.block(index),
            Suspended::Slow => {
                let at = self.slow_args.iter().position(|(conn, _)| *conn == index);
                let (_, args) = self.slow_args.swap_remove(at.expect("kept by execute_job"));
                self.pass_on(index, args);
            }
        }
    }

    // ---- writing ----

    /// Sends `reply` behind whatever waits on the connection; closes it when that was asked.
    fn deliver(&mut self, index: usize, reply: &mut Reply) {
        let now_ms = self.core.turn.now_ms;
        let conn = &mut self.conns[index];
        if !reply.is_empty() {
            if !self.offload(index, reply) {
                let (sent, bytes) = send_reply(&mut self.conns[index], reply);
                self.wrote(index, sent, bytes);
            }
        } else if conn.session.close && conn.pending_output() == 0 {
            return self.close(index);
        }
        let Some(conn) = self.conns.get(index) else { return };
        if self.over_output_limit(conn, now_ms) {
            log_warning!(
                "Client id={} addr={} closed for overcoming of output buffer limits.",
                conn.session.shared.id,
                conn.session.shared.peer
            );
            self.core.srv.totals.output_limit_disconnections.fetch_add(1, Ordering::Relaxed);
            return self.close(index);
        }
        let pending = conn.pending_output();
        if pending > BACK_PRESSURE && conn.suspended.is_none() {
            self.suspend(index, Suspended::Output);
        }
    }

    fn on_writable(&mut self, index: usize) {
        let (sent, bytes) = send_pending(&mut self.conns[index]);
        self.wrote(index, sent, bytes);
        let resume = self.conns.get(index).is_some_and(|c| c.pending_output() < BACK_PRESSURE / 2);
        if resume {
            self.resume(index, Suspended::Output);
        }
    }

    fn wrote(&mut self, index: usize, sent: Sent, bytes: usize) {
        self.core.stats().writes.add(1);
        self.count_sent(index, bytes);
        self.sent(index, sent);
    }

    fn count_sent(&self, index: usize, bytes: usize) {
        self.core.stats().net_out.add(bytes as u64);
        add(&self.conns[index].session.shared.net_out, bytes as u64);
    }

    fn sent(&mut self, index: usize, sent: Sent) {
        let conn = &mut self.conns[index];
        conn.session.shared.output.store(conn.pending_output() as u64, Ordering::Relaxed);
        match sent {
            Sent::Broken => self.close(index),
            Sent::All if conn.session.close => self.close(index),
            Sent::All | Sent::Some => {
                if sent == Sent::All {
                    conn.soft_since.set(None);
                }
                self.renew_interest(index);
            }
        }
    }

    /// Whether the connection's untaken replies are over `client-output-buffer-limit normal`.
    fn over_output_limit(&self, conn: &Conn, now_ms: i64) -> bool {
        let limit = &self.core.settings.output_limits.normal;
        let pending = conn.pending_output() as u64;
        if limit.hard > 0 && pending >= limit.hard {
            return true;
        }
        if limit.soft == 0 || pending < limit.soft {
            conn.soft_since.set(None);
            return false;
        }
        let since = conn.soft_since.get().unwrap_or(now_ms);
        conn.soft_since.set(Some(since));
        now_ms - since > limit.soft_seconds * 1000
    }
}

/// How the requests of one connection went.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Done {
        executed: usize,
    },
    /// After `done` requests; `again`: try at the next turn without waiting for anybody.
    Suspended {
        done: usize,
        why: Suspended,
        again: bool,
    },
    /// The connection was closed meanwhile.
    Gone,
}

fn add(counter: &std::sync::atomic::AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

fn last_command(batch: &Batch, first: usize, executed: usize) -> Option<usize> {
    let last = executed.checked_sub(1)?;
    batch.reqs[first + last].cmd.map(|c| c.number)
}

/// Copies what others may see of a connection.
fn renew_shared(conn: &Conn, now_ms: i64, executed: usize, last: Option<usize>) {
    let shared = &conn.session.shared;
    shared.last_ms.store(now_ms, Ordering::Relaxed);
    add(&shared.commands, executed as u64);
    shared.db.store(conn.session.db as u32, Ordering::Relaxed);
    if let Some(number) = last {
        shared.last_command.store(number as u32 + 1, Ordering::Relaxed);
    }
    shared.query_len.store(conn.pending_input() as u64, Ordering::Relaxed);
    shared.query_room.store(conn.inbuf.capacity() as u64, Ordering::Relaxed);
}

/// The buffer that a job's spans refer to.
fn job_bytes<'a>(batch: &'a Batch, job: usize, conn: &'a Conn) -> &'a [u8] {
    let j = &batch.jobs[job];
    if j.in_conn { &conn.inbuf } else { &batch.arena[j.base..j.end] }
}

/// A request's arguments as ones of their own, for a later turn.
fn take_args(batch: &mut Batch, job: usize, conn: &Conn, n: usize) -> Vec<ArgBuf> {
    let req = batch.reqs[n];
    match req.source {
        Source::Owned(i) => std::mem::take(&mut batch.owned[i as usize]),
        Source::Spans => {
            let bytes = job_bytes(batch, job, conn);
            let spans = &batch.spans[req.first_span as usize..][..req.spans as usize];
            spans.iter().map(|s| ArgBuf::Bytes(s.of(bytes).to_vec())).collect()
        }
    }
}

/// Gives the arguments of request `n` their slices and executes it.
#[inline]
fn run_request(
    core: &mut Core,
    conn: &mut Conn,
    batch: &Batch,
    job: usize,
    n: usize,
    reply: &mut Reply,
) -> Flow {
    let req: &Req = &batch.reqs[n];
    let mut blobs: SmallVec<[(usize, Blob); 1]> = SmallVec::new();
    let Conn { inbuf, session, .. } = conn;
    let mut args: SmallVec<[&[u8]; 16]> = SmallVec::new();
    match req.source {
        Source::Spans => {
            let j = &batch.jobs[job];
            let bytes: &[u8] = if j.in_conn { inbuf } else { &batch.arena[j.base..j.end] };
            let spans = &batch.spans[req.first_span as usize..][..req.spans as usize];
            args.extend(spans.iter().map(|s| s.of(bytes)));
        }
        Source::Owned(i) => {
            for (at, arg) in batch.owned[i as usize].iter().enumerate() {
                args.push(arg.bytes());
                if let ArgBuf::Blob(blob) = arg {
                    blobs.push((at, blob.clone()));
                }
            }
        }
    }
    let first_key = req.cmd.map_or(0, |c| c.first_key);
    let key = req.has_key.then(|| Key { bytes: args[first_key], hash: req.hash, shard: req.shard });
    execute(core, session, &Request { cmd: req.cmd, args: &args, blobs: &blobs, key }, reply)
}

/// Starts the pipeline of prefetches: buckets of the first requests, then their records.
fn prefetch_first(core: &Core, batch: &Batch, pin: &weft_table::epoch::Guard) {
    for req in batch.reqs.iter().take(2 * AHEAD) {
        plan_bucket(core, req, pin);
    }
    for req in batch.reqs.iter().take(AHEAD) {
        plan_record(core, req, pin);
    }
}

/// Before request `n` is executed: prefetches for those that come after it.
#[inline]
fn prefetch(core: &Core, batch: &Batch, n: usize, pin: &weft_table::epoch::Guard) {
    if let Some(req) = batch.reqs.get(n + 2 * AHEAD) {
        plan_bucket(core, req, pin);
    }
    if let Some(req) = batch.reqs.get(n + AHEAD) {
        plan_record(core, req, pin);
    }
}

#[inline]
fn plan_bucket(core: &Core, req: &Req, pin: &weft_table::epoch::Guard) {
    if req.has_key {
        let key = Key { bytes: &[], hash: req.hash, shard: req.shard };
        core.srv.ks.plan_bucket(&key, usize::from(req.db), pin);
    }
}

#[inline]
fn plan_record(core: &Core, req: &Req, pin: &weft_table::epoch::Guard) {
    if req.has_key {
        let key = Key { bytes: &[], hash: req.hash, shard: req.shard };
        core.srv.ks.plan_record(&key, usize::from(req.db), pin);
    }
}
