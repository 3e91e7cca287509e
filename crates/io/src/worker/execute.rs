//! Executing a batch: each request in order, prefetching for later ones, then sending the replies.

use crate::read;
use crate::worker::input::add;
use crate::worker::{Worker, token};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_admin::commands::logged_line;
use weft_executor::batch::{Batch, Req, Source};
use weft_executor::dispatch::admit::execute;
use weft_executor::dispatch::core::Core;
use weft_executor::dispatch::outcome::{Flow, Suspend};
use weft_executor::dispatch::request::Request;
use weft_keyspace::{Inside, Key, Waiter};
use weft_process::log_verbose;
use weft_replication::action::ConnId;
use weft_replication_driver::hub;
use weft_resp::{Blob, Reply};
use weft_state::args::ArgBuf;
use weft_state::attempt::{Attempt, FIRST};
use weft_state::conn::{Conn, DeferredRequest, Executed};
use weft_state::packed_requests::PackedRequests;
use weft_state::server::Server;
use weft_state::session::ReplyMode;
use weft_table::epoch;

const KILOBYTE: usize = 1024;

/// Distance in requests from the prefetch of a bucket to that of its record, and from there to the
/// execution.
const AHEAD: usize = 8;

/// Bytes of replies after which a connection's remaining requests wait for the next iteration.
const MUCH: usize = 4 << 20;

/// Most requests have no more arguments than this: their slices are kept on the stack.
const FEW: usize = 16;

/// Result of executing one connection's requests.
#[derive(Debug)]
struct Outcome {
    /// Number of requests that are finished.
    executed: usize,
    how: Executed,
    /// The last unit of the effect log that the replies depend on: written by these requests, or by
    /// others whose effects they may have read. 0 if there is none.
    unit: u64,
}

impl Worker {
    /// Executes the batch and sends its replies.
    pub(super) fn flush(&mut self) {
        if self.execution.batch.is_empty() {
            return;
        }
        let mut batch = std::mem::replace(&mut self.execution.batch, Batch::hollow());
        while self.execution.replies.len() < batch.jobs.len() {
            self.execution.replies.push(Reply::default());
        }
        let mut replies = std::mem::take(&mut self.execution.replies);
        let mut outcomes: SmallVec<[Option<Outcome>; 64]> = SmallVec::new();
        self.execution.has_served = true;
        let mut inside = self.enter();
        self.core.begin();
        {
            let pin = epoch::pin();
            prefetch_first(&self.core, &batch, &pin);
            for (job, reply) in replies.iter_mut().enumerate().take(batch.jobs.len()) {
                outcomes.push(self.execute_job(&mut inside, &mut batch, job, reply, &pin));
            }
        }
        self.leave(inside);
        if self.core.srv.statistics.hot_keys.is_watched(self.core.mono_ms) {
            self.sample_key(&batch);
        }
        self.core.stats().event_loop.prefetch_batches.add(u64::from(batch.keyed > 0));
        self.core.stats().event_loop.prefetched.add(batch.keyed as u64);
        epoch::collect();
        self.plan_offload(batch.jobs.len());
        for (job, outcome) in outcomes.drain(..).enumerate() {
            self.finish_job(&mut batch, job, &mut replies[job], outcome);
        }
        self.send_offloaded();
        self.release_withheld();
        for reply in replies.iter_mut().take(batch.jobs.len()) {
            assert!(reply.is_empty(), "a reply was left behind for another client");
            reply.trim();
        }
        replies.append(&mut self.execution.replies);
        self.execution.replies = replies;
        batch.clear();
        self.execution.batch = batch;
    }

    /// Executes the requests of one connection. Returns `None` if the connection was closed.
    fn execute_job(
        &mut self,
        inside: &mut Inside<'static>,
        batch: &mut Batch,
        job: usize,
        reply: &mut Reply,
        pin: &epoch::Guard,
    ) -> Option<Outcome> {
        let index = batch.jobs[job].conn;
        let conn = self.conns.get_mut(index)?;
        // CLIENT KILL from another thread: nothing is executed after its reply.
        if conn.session.shared.killed.load(Ordering::Relaxed) {
            return Some(Outcome { executed: 0, how: Executed::Close, unit: 0 });
        }
        conn.session.note_redirection();
        let before = self.core.context.last_unit();
        let (executed, how) = self.execute_requests(inside, batch, job, reply, pin);
        let after = self.core.context.last_unit();
        Some(Outcome { executed, how, unit: if after == before { 0 } else { after } })
    }

    /// Executes a job's requests. Returns the number executed and the state that the connection
    /// enters.
    #[inline]
    fn execute_requests(
        &mut self,
        inside: &mut Inside<'static>,
        batch: &mut Batch,
        job: usize,
        reply: &mut Reply,
        pin: &epoch::Guard,
    ) -> (usize, Executed) {
        let (index, first, count) =
            (batch.jobs[job].conn, batch.jobs[job].first_req, batch.jobs[job].reqs);
        let conn = &mut self.conns[index];
        let over = |executed, how| (executed, how);
        for n in first..first + count {
            prefetch(&self.core, batch, n, pin);
            reply.proto = conn.session.proto;
            let flow = run_request(&mut self.core, inside, conn, batch, job, n, reply);
            let done = n - first;
            match flow {
                Ok(()) if conn.session.close => return over(done + 1, Executed::Close),
                // Replies count against the client's output limits only once they are delivered,
                // and other connections have waited meanwhile.
                Ok(()) if reply.len() >= MUCH && done + 1 < count => {
                    return over(done + 1, Executed::Again);
                }
                Ok(()) => {}
                Err(Suspend::Busy(busy)) => {
                    let token = token(index, conn.generation);
                    let waiter = Waiter { thread: self.core.id as u32, token };
                    self.core.stats().event_loop.parked.add(1);
                    let parked = inside.keyspace().park(busy, waiter);
                    return over(done, if parked { Executed::Parked } else { Executed::Again });
                }
                Err(Suspend::MailboxFull(thread)) => {
                    let token = token(index, conn.generation);
                    let waiter = Waiter { thread: self.core.id as u32, token };
                    let parked = self.core.srv.threads[thread].crowd.park(waiter);
                    return over(done, if parked { Executed::Parked } else { Executed::Again });
                }
                Err(Suspend::InTransit) => unreachable!("`execute` takes its shards"),
                Err(Suspend::Paused) => return over(done, Executed::Paused),
                // Requests that block or go to the slow lane are done here: they are not kept.
                Err(Suspend::Blocked(waiting)) => {
                    return over(done + 1, Executed::Blocked(waiting));
                }
                Err(Suspend::Slow { has_run }) => {
                    let args = take_args(batch, job, conn, n);
                    let retry =
                        if n == first { batch.jobs[job].attempt.retry.take() } else { None };
                    let attempt = Attempt { retry, tries: 0, has_run };
                    let cancel = self.send_to_slow_lane(index, Arc::new(args), attempt);
                    return over(done + 1, Executed::Slow(cancel));
                }
            }
        }
        let more = batch.jobs[job].more;
        over(count, if more { Executed::More } else { Executed::All })
    }

    /// Sends the replies of one connection and stores its remaining input.
    fn finish_job(
        &mut self,
        batch: &mut Batch,
        job: usize,
        reply: &mut Reply,
        outcome: Option<Outcome>,
    ) {
        let index = batch.jobs[job].conn;
        let (Some(Outcome { executed, mut how, unit }), Some(conn)) =
            (outcome, self.conns.get_mut(index))
        else {
            // The connection was already closed when the batch was planned. If it was retrying a
            // blocked command, the next client in the wait queue gets its chance.
            if let Some(waiting) = batch.jobs[job].attempt.retry.take() {
                self.abandon(&waiting);
            }
            return reply.clear();
        };
        keep_rest(batch, job, conn, executed, &how);
        let j = &mut batch.jobs[job];
        let retry = j.attempt.retry.take();
        let bytes = j.end - j.base + reply.len();
        let error = match how {
            Executed::All | Executed::More => j.error.take(),
            Executed::Parked
            | Executed::Again
            | Executed::Slow(_)
            | Executed::Blocked(_)
            | Executed::Paused
            | Executed::Withheld(_)
            | Executed::Close => None,
        };
        if let Some(error) = error {
            if conn.session.replies.mode == ReplyMode::On {
                reply.error(format!("ERR {error}").as_bytes());
            }
            log_verbose!(
                "{error} from client: {}",
                logged_line(self.core.srv, &conn.session.shared)
            );
            how = Executed::Close;
        }
        // A command postponed by CLIENT PAUSE shows as the client's command, though it has not run.
        let shown = executed + usize::from(matches!(how, Executed::Paused));
        let last = last_command(batch, batch.jobs[job].first_req, shown);
        renew_shared(self.core.srv, conn, self.core.mono_ms, executed, last);
        self.core.stats().load.requests.add(executed as u64);
        let work = (executed + bytes / KILOBYTE) as u64;
        self.upkeep.note_work(conn, work);
        if matches!(how, Executed::Blocked(_) | Executed::Paused) {
            conn.session.shared.activity.blocked.store(true, Ordering::Relaxed);
        }
        if let Executed::Blocked(waiting) = &how {
            self.note_deadline(waiting);
        }
        let unit = self.unit_of_replies(index, unit);
        if unit > 0 && self.withhold(index, unit) {
            how = match how {
                // The connection is not read until its replies are sent.
                Executed::All | Executed::More => Executed::Withheld(unit),
                how @ (Executed::Parked
                | Executed::Again
                | Executed::Slow(_)
                | Executed::Blocked(_)
                | Executed::Paused
                | Executed::Withheld(_)
                | Executed::Close) => how,
            };
        }
        let conn = &mut self.conns[index];
        // Input that was read ahead causes no further event.
        if matches!(how, Executed::All) && !conn.input.ahead.is_empty() {
            how = Executed::More;
        }
        // A client that stays blocked may by now have been woken again for another element.
        let waits_on = matches!(how, Executed::Blocked(_));
        let queue = conn.state.executed(how);
        if let Some(waiting) = retry.filter(|_| !waits_on) {
            self.end_retry(&waiting);
        }
        if queue {
            self.conns.queued.push(index);
        }
        if self.needs_authority(index) && !self.check_authority(index, reply) {
            return;
        }
        self.deliver(index, reply);
    }
}

/// Keeps the unexecuted requests with owned arguments, and the unparsed bytes after them.
fn keep_rest(batch: &mut Batch, job: usize, conn: &mut Conn, executed: usize, how: &Executed) {
    let keeps = match how {
        Executed::Close | Executed::All | Executed::More => false,
        Executed::Parked
        | Executed::Again
        | Executed::Slow(_)
        | Executed::Blocked(_)
        | Executed::Paused
        | Executed::Withheld(_) => true,
    };
    if keeps {
        keep_requests(batch, job, conn, executed, how);
    }
    let j = &batch.jobs[job];
    if j.in_conn {
        conn.input.buf.drain(..j.end);
        read::rebase(conn, j.end);
    }
    if conn.input.protocol_error.is_some() {
        // The remaining bytes may be the middle of a value: they are never parsed.
        conn.input.buf.clear();
    }
    if conn.input.buf.is_empty() {
        conn.input.buf = Vec::new();
    }
}

/// Keeps the requests after the first `executed`, and the protocol error that followed them, if
/// any.
#[cold]
fn keep_requests(batch: &mut Batch, job: usize, conn: &mut Conn, executed: usize, how: &Executed) {
    let (first, reqs) = (batch.jobs[job].first_req, batch.jobs[job].reqs);
    // If no requests are waiting, only the first is kept unpacked. Otherwise all are: they are few,
    // and go before the waiting ones.
    let few =
        if conn.input.kept.is_empty() && conn.input.later.is_empty() { 1 } else { usize::MAX };
    for (at, n) in (first + executed..first + reqs).enumerate() {
        let mut request = if at < few {
            PackedRequests::default()
        } else {
            std::mem::take(&mut conn.input.later)
        };
        put_off(batch, job, conn, n, &mut request);
        match at < few {
            true => {
                request.end();
                conn.input.kept.insert(at, DeferredRequest::new(request));
            }
            false => conn.input.later = request,
        }
    }
    conn.input.later.end();
    conn.input.is_shown = true;
    let j = &mut batch.jobs[job];
    if let Some(front) = conn.input.kept.front_mut()
        && executed == 0
    {
        front.attempt.retry = j.attempt.retry.take();
        front.attempt.has_run = j.attempt.has_run;
        let busy = matches!(how, Executed::Parked | Executed::Again);
        front.attempt.tries = j.attempt.tries + u32::from(busy);
    } else if let Some(front) = conn.input.kept.front_mut() {
        front.attempt.tries = u32::from(matches!(how, Executed::Parked | Executed::Again));
    }
    if let Some(error) = j.error.take() {
        conn.input.protocol_error = Some(error);
    }
}

fn last_command(batch: &Batch, first: usize, executed: usize) -> Option<usize> {
    let last = executed.checked_sub(1)?;
    batch.reqs[first + last].cmd.map(|c| c.number)
}

/// Updates the connection's state that other threads can read.
fn renew_shared(
    srv: &'static Server,
    conn: &mut Conn,
    mono_ms: i64,
    executed: usize,
    last: Option<usize>,
) {
    let shared = &conn.session.shared;
    shared.touch(mono_ms);
    add(&shared.activity.commands, executed as u64);
    shared.activity.db.store(conn.session.db as u32, Ordering::Relaxed);
    if let Some(number) = last {
        shared.activity.last_command.store(number as u32 + 1, Ordering::Relaxed);
    } else {
        said_nothing(srv, conn);
    }
    conn.show_input();
}

/// Input arrived, but nothing was executed. From a replica, bare newlines are a heartbeat.
#[cold]
fn said_nothing(srv: &'static Server, conn: &Conn) {
    if conn.replica.is_some() && conn.input.buf.is_empty() {
        let id = ConnId(conn.session.shared.id);
        hub(srv).step(srv, |node, now, out| node.newline(now, id, out));
    }
}

/// The buffer that a job's spans refer to.
pub(super) fn job_bytes<'a>(batch: &'a Batch, job: usize, conn: &'a Conn) -> &'a [u8] {
    let j = &batch.jobs[job];
    if j.in_conn { &conn.input.buf } else { &batch.arena[j.base..j.end] }
}

/// Packs a request after those in `later`.
fn put_off(batch: &mut Batch, job: usize, conn: &Conn, n: usize, later: &mut PackedRequests) {
    let req = batch.reqs[n];
    match req.source {
        Source::Owned(i) => {
            let args = std::mem::take(&mut batch.owned[i as usize]);
            later.begin(args.len());
            args.into_iter().for_each(|arg| later.arg(arg));
        }
        Source::Spans => {
            let bytes = job_bytes(batch, job, conn);
            let spans = &batch.spans[req.first_span as usize..][..req.spans as usize];
            later.begin(spans.len());
            spans.iter().for_each(|span| later.slice(span.of(bytes)));
        }
    }
}

/// Returns a request's arguments as owned buffers, for the slow lane.
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

/// Builds the argument slices of request `n` and executes it.
#[inline]
fn run_request(
    core: &mut Core,
    inside: &mut Inside<'static>,
    conn: &mut Conn,
    batch: &Batch,
    job: usize,
    n: usize,
    reply: &mut Reply,
) -> Flow {
    let req: &Req = &batch.reqs[n];
    let j = &batch.jobs[job];
    let Conn { input, session, .. } = conn;
    let mut few: [&[u8]; FEW] = [&[]; FEW];
    let mut many: Vec<&[u8]>;
    let mut blobs: SmallVec<[(usize, Blob); 1]> = SmallVec::new();
    let mut bytes_at_most = usize::MAX;
    let args: &[&[u8]] = match req.source {
        Source::Spans => {
            bytes_at_most = j.end - j.base;
            let bytes: &[u8] = if j.in_conn { &input.buf } else { &batch.arena[j.base..j.end] };
            let spans = &batch.spans[req.first_span as usize..][..req.spans as usize];
            if let Some(few) = few.get_mut(..spans.len()) {
                few.iter_mut().zip(spans).for_each(|(arg, span)| *arg = span.of(bytes));
                few
            } else {
                many = spans.iter().map(|span| span.of(bytes)).collect();
                &many
            }
        }
        Source::Owned(i) => {
            many = Vec::new();
            for (at, arg) in batch.owned[i as usize].iter().enumerate() {
                many.push(arg.bytes());
                if let ArgBuf::Blob(blob) = arg {
                    blobs.push((at, blob.clone()));
                }
            }
            &many
        }
    };
    let first_key = req.cmd.map_or(0, |c| c.first_key);
    let has_key = req.lines > 0;
    let key = has_key.then(|| Key { bytes: args[first_key], hash: req.hash, slot: req.slot });
    // Only the first request of a job can be a retry.
    let attempt = if n == j.first_req { &j.attempt } else { &FIRST };
    let blobs = &blobs[..];
    let request = Request { cmd: req.cmd, args, blobs, bytes_at_most, key, attempt };
    execute(core, inside, session, &request, reply)
}

/// Starts the pipeline of prefetches: buckets of the first requests, then their records.
fn prefetch_first(core: &Core, batch: &Batch, pin: &epoch::Guard) {
    let reqs = &batch.reqs[..];
    for req in reqs.get(..2 * AHEAD).unwrap_or(reqs) {
        plan_bucket(core, req, pin);
    }
    for req in reqs.get(..AHEAD).unwrap_or(reqs) {
        plan_record(core, req, pin);
    }
}

/// Called before request `n` is executed: prefetches for later requests.
#[inline]
fn prefetch(core: &Core, batch: &Batch, n: usize, pin: &epoch::Guard) {
    if let Some(req) = batch.reqs.get(n + 2 * AHEAD) {
        plan_bucket(core, req, pin);
    }
    if let Some(req) = batch.reqs.get(n + AHEAD) {
        plan_record(core, req, pin);
    }
}

#[inline]
fn plan_bucket(core: &Core, req: &Req, pin: &epoch::Guard) {
    if req.lines > 0 {
        let key = Key { bytes: &[], hash: req.hash, slot: req.slot };
        core.srv.ks.plan_bucket(&key, usize::from(req.db), pin);
    }
}

#[inline]
fn plan_record(core: &Core, req: &Req, pin: &epoch::Guard) {
    if req.lines > 0 {
        let key = Key { bytes: &[], hash: req.hash, slot: req.slot };
        core.srv.ks.plan_record(&key, usize::from(req.db), usize::from(req.lines), pin);
    }
}
