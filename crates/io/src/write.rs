//! Writing: one system call per connection and iteration, and handling of slow readers.

use weft_process::log_warning;
use weft_resp::Reply;
use weft_state::conn::Conn;

/// Maximum number of slices in one `writev`.
const PIECES: usize = 64;
/// Maximum bytes sent to one connection per iteration, so that a client that quickly reads a huge
/// reply doesn't starve others.
const BYTES_PER_TURN: usize = 1 << 20;

/// Result of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// All output was sent.
    All,
    /// The socket is full: wait until it is writable.
    Some,
    /// The connection is broken.
    Broken,
}

/// Sends `reply`, usually in one call; the part that the socket doesn't take moves to the
/// connection's backlog. Returns the bytes sent.
pub fn send_reply(conn: &mut Conn, reply: &mut Reply) -> (Sent, usize) {
    if conn.output.pending() > 0 || !conn.output.sends() {
        return keep(conn, reply);
    }
    let Some(bytes) = reply.contiguous() else {
        conn.output.backlog.push(reply, 0);
        return send_pending(conn);
    };
    match conn.stream.send(&bytes[..bytes.len().min(BYTES_PER_TURN)]) {
        Ok(n) if n == bytes.len() => {
            reply.clear();
            (Sent::All, n)
        }
        Ok(n) => {
            conn.output.backlog.push(reply, n);
            // The socket is full. A TLS stream has only encrypted a part of a large reply.
            if conn.stream.is_tls() && !conn.stream.has_unsent() {
                let (sent, more) = send_pending(conn);
                return (sent, n + more);
            }
            (Sent::Some, n)
        }
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
            conn.output.backlog.push(reply, 0);
            (Sent::Some, 0)
        }
        Err(_) => {
            // The buffer is reused for another connection, so it must be empty.
            reply.clear();
            (Sent::Broken, 0)
        }
    }
}

/// Queues a reply that can't be sent now. A replica must not get replies, so its connection counts
/// as broken.
#[cold]
fn keep(conn: &mut Conn, reply: &mut Reply) -> (Sent, usize) {
    if conn.replica.is_some() {
        refuse_answer(conn);
        reply.clear();
        return (Sent::Broken, 0);
    }
    conn.output.backlog.push(reply, 0);
    (Sent::Some, 0)
}

/// Sends the connection's queued output, up to the limit per iteration.
pub fn send_pending(conn: &mut Conn) -> (Sent, usize) {
    if conn.output.sends() { send_waiting(conn) } else { (Sent::Some, 0) }
}

/// Like [`send_pending`], for callers that know that the connection may send.
pub fn send_waiting(conn: &mut Conn) -> (Sent, usize) {
    let mut total = 0;
    match conn.stream.flush() {
        Ok(()) => {}
        Err(rustix::io::Errno::AGAIN) => return (Sent::Some, total),
        Err(_) => return (Sent::Broken, total),
    }
    while conn.output.pending() > 0 {
        if total >= BYTES_PER_TURN {
            return (Sent::Some, total);
        }
        let room = BYTES_PER_TURN - total;
        let sent = match conn.output.backlog.contiguous() {
            Some(bytes) => conn.stream.send(&bytes[..bytes.len().min(room)]),
            None => send_pieces(conn, room),
        };
        match sent {
            Ok(n) => {
                conn.output.backlog.sent(n);
                total += n;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return (Sent::Some, total),
            Err(_) => return (Sent::Broken, total),
        }
    }
    (Sent::All, total)
}

/// Sends up to `room` bytes of output that isn't contiguous.
fn send_pieces(conn: &Conn, room: usize) -> rustix::io::Result<usize> {
    let pieces = conn.output.backlog.front(PIECES, room);
    conn.stream.send_pieces(&pieces)
}

/// Logs that a replica's command has a reply, which ends the connection.
#[cold]
pub fn refuse_answer(conn: &Conn) {
    log_warning!(
        "Replica {} sent a command that has an answer, disconnecting it",
        conn.session.shared.origin.peer
    );
}
