//! Reading: from the socket into the arena, then parsing the bytes into planned requests.
//!
//! A value of [`BIG_BULK`] bytes or more that has not arrived completely gets its own buffer, in
//! which it stays. The bytes read before its length was known are copied there. A connection that
//! sends such values is therefore first read a little ([`PEEK`]). The next read goes straight into
//! the value's buffer and, in the same system call, a little beyond: the line break that ends the
//! value, and pipelined requests after it.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use weft_executor::batch::{Batch, Job, READ_SIZE, Req, Source};
use weft_keyspace::Keyspace;
use weft_net::stream::{RECEIVE_MIN, Stream, TlsStream};
use weft_resp::parser::BIG_BULK;
use weft_resp::{Limits, ProtocolError, Span, Step};
use weft_state::ahead::ReadAhead;
use weft_state::args::ArgBuf;
use weft_state::attempt::Attempt;
use weft_state::command_table::CommandTable;
use weft_state::conn::{BigRead, Conn};
use weft_types::TEXT_MAX;

/// Bytes to read from a connection that is expected to send a large value: the command, the length
/// and little of the value. Also the number of bytes read past the end of such a value.
const PEEK: usize = 2048;

/// Kept requests to plan at a time: each command that leaves the thread puts the requests after it
/// back.
const UNPACKED: usize = 32;

/// Limit of the bytes of these requests; the first is planned whatever its size.
const UNPACKED_BYTES: usize = 64 << 10;

/// The line break after a bulk string.
const LINE_BREAK: &[u8] = b"\r\n";

/// The most bytes of requests, complete or not, in a connection's buffer, whatever
/// `client-query-buffer-limit` says: argument offsets have 32 bits.
const INBUF_MAX: usize = u32::MAX as usize;

/// Result of reading a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    Data(usize),
    Nothing,
    Closed,
}

/// The server state that planning needs.
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

/// Reads once from a client that can't proceed, without parsing. The batch must have room for a
/// read.
pub fn read_ahead(conn: &mut Conn, batch: &mut Batch) -> Got {
    let room = &mut batch.arena[batch.used..][..READ_SIZE];
    let got = outcome(conn.stream.read(room));
    if let Got::Data(n) = got {
        conn.input.ahead.push(&room[..n]);
    }
    got
}

/// Reads once, from the data read ahead or else from the socket, and plans the complete requests.
/// Data goes into the arena if the connection has nothing unparsed, otherwise after its unparsed
/// bytes. Bytes of a large value go straight into the value's buffer.
pub fn read(conn: &mut Conn, index: usize, batch: &mut Batch, planner: Planner<'_>) -> Got {
    if conn.input.big.is_some() {
        return read_big(conn, index, batch, planner);
    }
    let peeks = conn.input.parser.is_after_large() && !conn.stream.is_tls();
    let most = if peeks { PEEK } else { READ_SIZE };
    let (jobs, base) = (batch.jobs.len(), batch.used);
    let was_ahead = !conn.input.ahead.is_empty();
    let got = if conn.input.buf.is_empty() && conn.input.args.is_empty() {
        let room = &mut batch.arena[base..base + most];
        let got = match was_ahead {
            true => Got::Data(conn.input.ahead.read(room)),
            false => outcome(conn.stream.read(room)),
        };
        if let Got::Data(n) = got {
            let job = new_job(conn, index, batch, false);
            plan_arena(conn, job, batch, planner, n);
        }
        got
    } else {
        read_inbuf(conn, index, batch, planner, most)
    };
    // A large value has begun, and more of it is probably available.
    match got {
        Got::Data(n)
            if n == most
                && conn.input.big.is_some()
                && has_nothing_to_do(&batch.jobs[jobs..])
                && was_ahead != conn.input.ahead.is_empty() =>
        {
            batch.jobs.truncate(jobs);
            batch.used = base;
            match read_big(conn, index, batch, planner) {
                Got::Data(more) => Got::Data(n + more),
                Got::Nothing => got,
                Got::Closed => Got::Closed,
            }
        }
        Got::Data(_) | Got::Nothing | Got::Closed => got,
    }
}

fn has_nothing_to_do(jobs: &[Job]) -> bool {
    let bytes = |job: &Job| if job.in_conn { job.end } else { 0 };
    jobs.iter().all(|j| j.reqs == 0 && j.error.is_none() && !j.more && bytes(j) == 0)
}

/// Reads up to `most` bytes and appends them to the connection's buffer.
fn read_inbuf(
    conn: &mut Conn,
    index: usize,
    batch: &mut Batch,
    planner: Planner<'_>,
    most: usize,
) -> Got {
    let most = most.min(INBUF_MAX - conn.input.buf.len());
    if most == 0 {
        return Got::Closed;
    }
    if !conn.input.ahead.is_empty() {
        let n = conn.input.ahead.take(most, |part| conn.input.buf.extend_from_slice(part));
        plan_inbuf(conn, index, batch, planner);
        return Got::Data(n);
    }
    let got = outcome(match &conn.stream {
        Stream::Plain(socket) => append(socket, &mut conn.input.buf, most),
        Stream::Tls(_) if most < RECEIVE_MIN => Err(rustix::io::Errno::NOBUFS),
        Stream::Tls(stream) => {
            stream.receive(most, |plain| conn.input.buf.extend_from_slice(plain))
        }
    });
    if let Got::Data(_) = got {
        plan_inbuf(conn, index, batch, planner);
    }
    got
}

/// Reads up to `most` bytes, and appends them to `buf`.
fn append(socket: &impl AsFd, buf: &mut Vec<u8>, most: usize) -> rustix::io::Result<usize> {
    buf.reserve(most.min(READ_SIZE / 4));
    let spare = buf.spare_capacity_mut();
    let most = most.min(spare.len());
    let (filled, _) = rustix::io::read(socket, &mut spare[..most])?;
    let n = filled.len();
    // SAFETY: the kernel has filled `n` bytes of the spare capacity.
    unsafe { buf.set_len(buf.len() + n) };
    Ok(n)
}

/// Continues to read a large value, and a little beyond it. A complete value becomes an argument,
/// which may complete its request. The bytes after it are planned like any other input.
fn read_big(conn: &mut Conn, index: usize, batch: &mut Batch, planner: Planner<'_>) -> Got {
    let Some(big) = conn.input.big.as_mut() else { return Got::Nothing };
    let need = big.len - big.buf.len();
    let base = batch.used;
    let most = if conn.stream.is_tls() { READ_SIZE } else { PEEK };
    let beyond = &mut batch.arena[base..base + most];
    let got = match conn.input.ahead.is_empty() {
        true => outcome(match &conn.stream {
            Stream::Plain(socket) => read_parts(socket, &mut big.buf, need, beyond),
            Stream::Tls(stream) => receive_parts(stream, &mut big.buf, need, beyond),
        }),
        false => Got::Data(take_parts(&mut conn.input.ahead, &mut big.buf, need, beyond)),
    };
    let Got::Data(n) = got else { return got };
    let beyond = n.saturating_sub(need);
    // The first byte of the line break may have come alone; it then waits in the buffer.
    let left = LINE_BREAK.len() - conn.input.buf.len();
    if beyond < left {
        conn.input.buf.extend_from_slice(&batch.arena[base..base + beyond]);
        return got;
    }
    let broken = batch.arena[base..base + left] == LINE_BREAK[conn.input.buf.len()..];
    let broken = broken && LINE_BREAK.starts_with(&conn.input.buf);
    conn.input.buf = Vec::new();
    batch.used += left;
    let mut job = new_job(conn, index, batch, false);
    let Some(big) = conn.input.big.take().filter(|_| broken) else {
        job.error = Some(ProtocolError::InvalidCrlf);
        batch.jobs.push(job);
        return got;
    };
    conn.input.push_arg(ArgBuf::Blob(Arc::new(big.buf)));
    if conn.input.parser.big_done() {
        let args = std::mem::take(&mut conn.input.args);
        push_owned(conn, batch, planner, &mut job, args);
    }
    // Before authentication the limits may change with each request, but no value is large then.
    plan_arena(conn, job, batch, planner, beyond - left);
    got
}

/// Like [`read_parts`], from a TLS stream: plain text goes from its record into the value.
fn receive_parts(
    stream: &TlsStream,
    value: &mut Vec<u8>,
    need: usize,
    beyond: &mut [u8],
) -> rustix::io::Result<usize> {
    let (mut left, mut filled) = (need, 0);
    stream.receive(need.saturating_add(beyond.len()), |plain| {
        let (inside, after) = plain.split_at(plain.len().min(left));
        value.extend_from_slice(inside);
        left -= inside.len();
        beyond[filled..][..after.len()].copy_from_slice(after);
        filled += after.len();
    })
}

/// Like [`read_parts`], from the data read ahead.
fn take_parts(ahead: &mut ReadAhead, value: &mut Vec<u8>, need: usize, beyond: &mut [u8]) -> usize {
    let n = ahead.take(need, |part| value.extend_from_slice(part));
    if n < need { n } else { n + ahead.read(beyond) }
}

/// Reads up to `need` bytes to the end of `value`, which has spare capacity for them, and then into
/// `beyond`, in one system call. Returns the number of bytes read.
fn read_parts(
    fd: &impl AsRawFd,
    value: &mut Vec<u8>,
    need: usize,
    beyond: &mut [u8],
) -> rustix::io::Result<usize> {
    let spare = &mut value.spare_capacity_mut()[..need];
    let parts = [
        libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: need },
        libc::iovec { iov_base: beyond.as_mut_ptr().cast(), iov_len: beyond.len() },
    ];
    // SAFETY: both parts have these lengths and are borrowed exclusively. The kernel only writes to
    // them, so the first may be uninitialised.
    let n = unsafe { libc::readv(fd.as_raw_fd(), parts.as_ptr(), parts.len() as libc::c_int) };
    let Ok(n) = usize::try_from(n) else {
        let error = std::io::Error::last_os_error();
        return Err(rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO));
    };
    // SAFETY: the kernel fills the first part before the second, so `min(n, need)` bytes of the
    // spare capacity are initialised.
    unsafe { value.set_len(value.len() + n.min(need)) };
    Ok(n)
}

fn new_job(conn: &Conn, index: usize, batch: &Batch, in_conn: bool) -> Job {
    Job {
        conn: index,
        in_conn,
        base: if in_conn { 0 } else { batch.used },
        end: if in_conn { conn.input.buf.len() } else { batch.used },
        first_req: batch.reqs.len(),
        reqs: 0,
        attempt: Attempt::FIRST,
        error: None,
        more: false,
    }
}

/// Plans the `n` bytes read at `batch.used` as `job`, and adds the job to the batch.
fn plan_arena(conn: &mut Conn, mut job: Job, batch: &mut Batch, planner: Planner<'_>, n: usize) {
    job.end = job.base + n;
    let arena = std::mem::take(&mut batch.arena);
    let bytes = &arena[job.base..job.end];
    match plan(conn, bytes, batch, planner, &mut job) {
        Rest::Incomplete { start } => {
            conn.input.buf.extend_from_slice(&bytes[start..]);
            rebase(conn, start);
        }
        Rest::Big { len, at, .. } => begin_big(conn, bytes, at, len, planner, &mut job),
    }
    batch.arena = arena;
    batch.used = job.end;
    batch.jobs.push(job);
}

/// Takes the first of the connection's complete waiting requests.
fn next_waiting(conn: &mut Conn) -> Option<Vec<ArgBuf>> {
    match conn.input.kept.pop_front() {
        Some(mut kept) => kept.request.pop(),
        None => conn.input.later.pop(),
    }
}

/// Plans the waiting requests, then the bytes in the connection's own buffer.
pub fn plan_inbuf(conn: &mut Conn, index: usize, batch: &mut Batch, planner: Planner<'_>) {
    let mut job = new_job(conn, index, batch, true);
    if let Some(first) = conn.input.kept.front_mut() {
        job.attempt = std::mem::replace(&mut first.attempt, Attempt::FIRST);
    }
    let (mut planned, mut bytes) = (0, 0);
    while planned < UNPACKED && bytes < UNPACKED_BYTES {
        let Some(args) = next_waiting(conn) else { break };
        bytes += args.iter().map(|arg| arg.bytes().len()).sum::<usize>();
        push_owned(conn, batch, planner, &mut job, args);
        planned += 1;
    }
    if !conn.input.kept.is_empty() || !conn.input.later.is_empty() {
        (job.end, job.more) = (0, true);
        return batch.jobs.push(job);
    }
    if let Some(error) = conn.input.protocol_error.take() {
        job.error = Some(error);
        return batch.jobs.push(job);
    }
    if conn.input.big.is_some() {
        // Nothing is parsed until the large value is complete.
        job.end = 0;
        batch.jobs.push(job);
        return;
    }
    let mut inbuf = std::mem::take(&mut conn.input.buf);
    // The bytes of complete requests stay until they are executed: see `Worker::finish_job`.
    match plan(conn, &inbuf, batch, planner, &mut job) {
        Rest::Incomplete { start } => job.end = start,
        Rest::Big { start, len, at } => {
            begin_big(conn, &inbuf, at, len, planner, &mut job);
            job.end = start;
            inbuf.truncate(start);
            inbuf.append(&mut conn.input.buf);
        }
    }
    conn.input.buf = inbuf;
    batch.jobs.push(job);
}

/// The state in which parsing stopped, when no more requests were complete.
#[derive(Debug)]
enum Rest {
    /// The bytes from `start` on belong to no complete request.
    Incomplete { start: usize },
    /// The request at `start` has a large value at `at` that has not arrived completely.
    Big { start: usize, len: usize, at: usize },
}

/// Plans the complete requests of `buf`. The spans of an incomplete request stay in
/// `conn.input.spans`, and parsing resumes there. They are moved once, when the request is
/// complete, however many pieces it arrives in.
fn plan(
    conn: &mut Conn,
    buf: &[u8],
    batch: &mut Batch,
    planner: Planner<'_>,
    job: &mut Job,
) -> Rest {
    let limits = Limits {
        max_bulk: planner.max_bulk,
        authenticated: !conn.session.identity.must_log_in,
        ..Limits::default()
    };
    let mut start = 0;
    if conn.input.parser.in_request() {
        match plan_begun(conn, buf, batch, planner, job, &limits) {
            Ok(end) => start = end,
            Err(rest) => return rest,
        }
        // Before authentication the limits may change with each request.
        if conn.session.identity.must_log_in {
            job.more = start < buf.len();
            return Rest::Incomplete { start };
        }
    }
    loop {
        let first_span = batch.spans.len();
        match conn.input.parser.next(buf, &mut batch.spans, &limits) {
            Step::Complete => {
                push_spans(conn, buf, batch, planner, job, first_span);
                start = conn.input.parser.pos;
            }
            Step::Inline(args) => {
                let args = args.into_iter().map(ArgBuf::Bytes).collect();
                push_owned(conn, batch, planner, job, args);
                start = conn.input.parser.pos;
            }
            Step::More => {
                conn.input.spans = batch.spans.split_off(first_span);
                return Rest::Incomplete { start };
            }
            Step::Big { len } => {
                conn.input.spans = batch.spans.split_off(first_span);
                return Rest::Big { start, len, at: conn.input.parser.pos };
            }
            Step::Error(e) => {
                batch.spans.truncate(first_span);
                job.error = Some(e);
                return Rest::Incomplete { start };
            }
        }
        if conn.session.identity.must_log_in {
            job.more = start < buf.len();
            return Rest::Incomplete { start };
        }
    }
}

/// Plans the request that an earlier iteration began, which is at the start of the buffer. Returns
/// its end.
fn plan_begun(
    conn: &mut Conn,
    buf: &[u8],
    batch: &mut Batch,
    planner: Planner<'_>,
    job: &mut Job,
    limits: &Limits,
) -> Result<usize, Rest> {
    let mut spans = std::mem::take(&mut conn.input.spans);
    match conn.input.parser.next(buf, &mut spans, limits) {
        Step::Complete if conn.input.args.is_empty() => {
            let first_span = batch.spans.len();
            batch.spans.append(&mut spans);
            push_spans(conn, buf, batch, planner, job, first_span);
            Ok(conn.input.parser.pos)
        }
        Step::Complete => {
            conn.input.copy_partial_args(buf, &spans);
            let args = std::mem::take(&mut conn.input.args);
            push_owned(conn, batch, planner, job, args);
            Ok(conn.input.parser.pos)
        }
        Step::More => {
            conn.input.spans = spans;
            Err(Rest::Incomplete { start: 0 })
        }
        Step::Big { len } => {
            conn.input.spans = spans;
            Err(Rest::Big { start: 0, len, at: conn.input.parser.pos })
        }
        Step::Error(e) => {
            job.error = Some(e);
            Err(Rest::Incomplete { start: 0 })
        }
        Step::Inline(_) => unreachable!("an inline request is a single line"),
    }
}

/// Adjusts offsets after the first `start` bytes of the buffer were removed.
pub fn rebase(conn: &mut Conn, start: usize) {
    if start > 0 {
        conn.input.parser.pos -= start;
        conn.input.spans.iter_mut().for_each(|s| s.start -= start as u32);
    }
}

/// Starts a value of `len` bytes at `at` of `bytes`: gives it its own buffer, and makes the
/// arguments before it owned. If the command can't accept such a length, or memory is short, the
/// value is refused before it is read, like one above `proto-max-bulk-len`.
fn begin_big(
    conn: &mut Conn,
    bytes: &[u8],
    at: usize,
    len: usize,
    planner: Planner<'_>,
    job: &mut Job,
) {
    debug_assert!(len >= BIG_BULK);
    let spans = std::mem::take(&mut conn.input.spans);
    conn.input.copy_partial_args(bytes, &spans);
    // Reserve the whole length at once: untouched pages cost nothing until they are filled.
    let mut buf = Vec::new();
    if !may_be_that_long(&conn.input.args, len, planner.table)
        || buf.try_reserve_exact(len).is_err()
    {
        job.error = Some(ProtocolError::InvalidBulkLength);
        return;
    }
    // The first byte of the line break may already be here.
    let here = &bytes[at..];
    let (value, beyond) = here.split_at(here.len().min(len));
    buf.extend_from_slice(value);
    conn.input.buf = beyond.to_vec();
    conn.input.big = Some(BigRead { buf, len });
}

/// Whether the argument after `args` may be `len` bytes long.
fn may_be_that_long(args: &[ArgBuf], len: usize, table: &CommandTable) -> bool {
    len <= TEXT_MAX
        || args
            .first()
            .and_then(|name| table.find(name.bytes()))
            .is_some_and(|cmd| cmd.spec.takes_any_length(args.len()))
}

#[inline]
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
        slot: 0,
        lines: 0,
        db: conn.session.db as u16,
    };
    resolve(&mut req, planner, spans, arg);
    batch.keyed += usize::from(req.lines > 0);
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
        slot: 0,
        lines: 0,
        db: conn.session.db as u16,
    };
    resolve(&mut req, planner, args.len(), |i| args[i].bytes());
    batch.owned.push(args);
    batch.keyed += usize::from(req.lines > 0);
    batch.reqs.push(req);
    job.reqs += 1;
}

/// Looks up the subcommand and hashes the first key.
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
        req.slot = key.slot;
        req.lines = cmd.lines;
    }
}
