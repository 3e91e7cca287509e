//! Reading: from the socket into the arena, and from bytes to planned requests.

use crate::dispatch::table::CommandTable;
use crate::io::batch::{Batch, Job, READ_SIZE, Req, Source};
use crate::io::conn::{ArgBuf, BigRead, Conn};
use std::sync::Arc;
use weft_keyspace::Keyspace;
use weft_resp::parser::BIG_BULK;
use weft_resp::{Limits, ProtocolError, Span, Step};

/// What reading a connection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    Data(usize),
    Nothing,
    Closed,
}

/// What planning needs to know of the server.
#[derive(Clone, Copy, Debug)]
pub struct Planner<'a> {
    pub ks: &'a Keyspace,
    pub table: &'a CommandTable,
    pub max_bulk: usize,
}

fn outcome(result: rustix::io::Result<usize>) -> Got {
    match result {
        Ok(0) => Got::Closed,
        Ok(n) => Got::Data(n),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Got::Nothing,
        Err(_) => Got::Closed,
    }
}

/// Reads what is there, once: into the arena when the connection has nothing unparsed, else
/// behind what it has; a large value straight into its place. Plans the complete requests.
pub fn read(conn: &mut Conn, index: usize, batch: &mut Batch, planner: Planner<'_>) -> Got {
    if conn.big.is_some() {
        return read_big(conn, index, batch, planner);
    }
    if conn.inbuf.is_empty() && conn.args.is_empty() {
        let base = batch.used;
        let room = base..base + READ_SIZE;
        let got = outcome(rustix::io::read(&conn.fd, &mut batch.arena[room]));
        if let Got::Data(n) = got {
            plan_arena(conn, index, batch, planner, n);
        }
        return got;
    }
    conn.inbuf.reserve(READ_SIZE / 4);
    let got = outcome(rustix::io::read(&conn.fd, rustix::buffer::spare_capacity(&mut conn.inbuf)));
    if let Got::Data(_) = got {
        plan_inbuf(conn, index, batch, planner);
    }
    got
}

fn read_big(conn: &mut Conn, index: usize, batch: &mut Batch, planner: Planner<'_>) -> Got {
    let Some(big) = conn.big.as_mut() else { return Got::Nothing };
    let need = big.len + 2 - big.buf.len();
    let spare = &mut big.buf.spare_capacity_mut()[..need];
    let got = match rustix::io::read(&conn.fd, spare) {
        Ok((filled, _)) => {
            let n = filled.len();
            // SAFETY: the kernel has filled `n` bytes of the spare capacity.
            unsafe { big.buf.set_len(big.buf.len() + n) };
            if n == 0 { Got::Closed } else { Got::Data(n) }
        }
        Err(e) => outcome(Err(e)),
    };
    if let Got::Data(_) = got {
        finish_big(conn, index, batch, planner);
    }
    got
}

/// When the large value is complete, it becomes an argument, and its request possibly complete.
fn finish_big(conn: &mut Conn, index: usize, batch: &mut Batch, planner: Planner<'_>) {
    let Some(mut big) = conn.big.take_if(|big| big.buf.len() == big.len + 2) else { return };
    if !big.buf.ends_with(b"\r\n") {
        let mut job = new_job(conn, index, batch, true);
        job.error = Some(ProtocolError::InvalidCrlf);
        batch.jobs.push(job);
        return;
    }
    big.buf.truncate(big.len);
    big.buf.shrink_to_fit();
    conn.args.push(ArgBuf::Blob(Arc::new(big.buf)));
    if conn.parser.big_done() {
        let args = std::mem::take(&mut conn.args);
        let mut job = new_job(conn, index, batch, true);
        push_owned(conn, batch, planner, &mut job, args);
        batch.jobs.push(job);
    }
}

fn new_job(conn: &Conn, index: usize, batch: &Batch, in_conn: bool) -> Job {
    Job {
        conn: index,
        in_conn,
        base: if in_conn { 0 } else { batch.used },
        end: if in_conn { conn.inbuf.len() } else { batch.used },
        first_req: batch.reqs.len(),
        reqs: 0,
        error: None,
        more: false,
    }
}

/// Plans the `n` bytes that were read behind `batch.used`.
fn plan_arena(conn: &mut Conn, index: usize, batch: &mut Batch, planner: Planner<'_>, n: usize) {
    let mut job = new_job(conn, index, batch, false);
    job.end = job.base + n;
    let arena = std::mem::take(&mut batch.arena);
    let bytes = &arena[job.base..job.end];
    let rest = plan(conn, bytes, batch, planner, &mut job);
    keep_rest(conn, bytes, rest, batch);
    batch.arena = arena;
    batch.used = job.end;
    batch.jobs.push(job);
}

/// Plans what the connection's own buffer holds.
pub fn plan_inbuf(conn: &mut Conn, index: usize, batch: &mut Batch, planner: Planner<'_>) {
    let mut job = new_job(conn, index, batch, true);
    while let Some(args) = conn.again.pop_front() {
        push_owned(conn, batch, planner, &mut job, args);
    }
    let inbuf = std::mem::take(&mut conn.inbuf);
    let rest = plan(conn, &inbuf, batch, planner, &mut job);
    match rest {
        // The bytes stay until the requests in them are executed: see `Worker::finish_job`.
        Rest::Incomplete { start } => job.end = start,
        Rest::Big { start, len, at } => {
            let spans = batch.spans.split_off(batch.spans.len() - conn.spans.len());
            conn.own_partial(&inbuf, &spans);
            begin_big(conn, &inbuf[at..], len);
            job.end = start;
            conn.spans.clear();
            conn.inbuf = inbuf;
            conn.inbuf.truncate(start);
            batch.jobs.push(job);
            return;
        }
    }
    conn.inbuf = inbuf;
    batch.jobs.push(job);
}

/// What was left when no more requests were complete.
#[derive(Debug)]
enum Rest {
    /// From `start` on the bytes belong to no complete request.
    Incomplete { start: usize },
    /// The request from `start` on has a large value at `at` of which not all has arrived.
    Big { start: usize, len: usize, at: usize },
}

/// Plans complete requests of `buf` until it is used up. The spans of an incomplete one are
/// left at the end of `batch.spans` only for [`Rest::Big`], counted by `conn.spans`.
fn plan(
    conn: &mut Conn,
    buf: &[u8],
    batch: &mut Batch,
    planner: Planner<'_>,
    job: &mut Job,
) -> Rest {
    let limits = Limits {
        max_bulk: planner.max_bulk,
        authenticated: conn.session.authenticated,
        ..Limits::default()
    };
    // A request that was begun in an earlier turn starts the buffer.
    let mut start = 0;
    let mut first_span = batch.spans.len();
    batch.spans.append(&mut conn.spans);
    loop {
        match conn.parser.next(buf, &mut batch.spans, &limits) {
            Step::Complete => {
                if conn.args.is_empty() {
                    push_spans(conn, buf, batch, planner, job, first_span);
                } else {
                    let spans = batch.spans.split_off(first_span);
                    conn.own_partial(buf, &spans);
                    let args = std::mem::take(&mut conn.args);
                    push_owned(conn, batch, planner, job, args);
                }
                start = conn.parser.pos;
                first_span = batch.spans.len();
            }
            Step::Inline(args) => {
                let args = args.into_iter().map(ArgBuf::Bytes).collect();
                push_owned(conn, batch, planner, job, args);
                start = conn.parser.pos;
            }
            Step::More => {
                conn.spans.extend(batch.spans.drain(first_span..));
                return Rest::Incomplete { start };
            }
            Step::Big { len } => {
                conn.spans.extend_from_slice(&batch.spans[first_span..]);
                return Rest::Big { start, len, at: conn.parser.pos };
            }
            Step::Error(e) => {
                batch.spans.truncate(first_span);
                job.error = Some(e);
                return Rest::Incomplete { start };
            }
        }
        // Before authentication the limits may change with every request.
        if !conn.session.authenticated {
            job.more = start < buf.len();
            return Rest::Incomplete { start };
        }
    }
}

/// Moves the tail of the arena's bytes that is no complete request to the connection.
fn keep_rest(conn: &mut Conn, bytes: &[u8], rest: Rest, batch: &mut Batch) {
    match rest {
        Rest::Incomplete { start } => {
            if start < bytes.len() {
                conn.inbuf.extend_from_slice(&bytes[start..]);
            }
            rebase(conn, start);
        }
        Rest::Big { len, at, .. } => {
            let spans = batch.spans.split_off(batch.spans.len() - conn.spans.len());
            conn.own_partial(bytes, &spans);
            conn.spans.clear();
            begin_big(conn, &bytes[at..], len);
        }
    }
}

/// The buffer now starts where `start` was.
pub fn rebase(conn: &mut Conn, start: usize) {
    conn.parser.pos -= start;
    conn.spans.iter_mut().for_each(|s| s.start -= start as u32);
}

fn begin_big(conn: &mut Conn, first: &[u8], len: usize) {
    debug_assert!(len >= BIG_BULK);
    // The whole value's room at once: untouched pages cost nothing until they are filled.
    let mut buf = Vec::with_capacity(len + 2);
    buf.extend_from_slice(first);
    conn.big = Some(BigRead { buf, len });
}

fn push_spans(
    conn: &Conn,
    buf: &[u8],
    batch: &mut Batch,
    planner: Planner<'_>,
    job: &mut Job,
    first_span: usize,
) {
    let spans = batch.spans.len() - first_span;
    if spans == 0 {
        // An empty request (`*0`) has no reply.
        return;
    }
    let arg = |i: usize| -> &[u8] {
        let span: Span = batch.spans[first_span + i];
        span.of(buf)
    };
    let mut req = Req {
        cmd: planner.table.find(arg(0)),
        source: Source::Spans,
        first_span: first_span as u32,
        spans: spans as u32,
        hash: 0,
        shard: 0,
        has_key: false,
        db: conn.session.db as u16,
    };
    resolve(&mut req, planner, spans, arg);
    batch.reqs.push(req);
    job.reqs += 1;
}

fn push_owned(
    conn: &Conn,
    batch: &mut Batch,
    planner: Planner<'_>,
    job: &mut Job,
    args: Vec<ArgBuf>,
) {
    if args.is_empty() {
        return;
    }
    let mut req = Req {
        cmd: planner.table.find(args[0].bytes()),
        source: Source::Owned(batch.owned.len() as u32),
        first_span: 0,
        spans: 0,
        hash: 0,
        shard: 0,
        has_key: false,
        db: conn.session.db as u16,
    };
    resolve(&mut req, planner, args.len(), |i| args[i].bytes());
    batch.owned.push(args);
    batch.reqs.push(req);
    job.reqs += 1;
}

/// Finds the subcommand and hashes the first key.
#[inline]
fn resolve<'a>(req: &mut Req, planner: Planner<'_>, argc: usize, arg: impl Fn(usize) -> &'a [u8]) {
    let Some(mut cmd) = req.cmd else { return };
    if !cmd.subcommands.is_empty()
        && argc > 1
        && let Some(sub) = cmd.subcommand(arg(1))
    {
        cmd = sub;
        req.cmd = Some(sub);
    }
    if cmd.first_key != 0 && cmd.first_key < argc {
        let key = planner.ks.key(arg(cmd.first_key));
        req.hash = key.hash;
        req.shard = key.shard;
        req.has_key = true;
    }
}
