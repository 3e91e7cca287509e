//! Writing: one system call per connection and turn, and what slow readers cause.

use rustix::net::{SendFlags, send};
use std::io::IoSlice;
use weft_process::log_warning;
use weft_resp::Reply;
use weft_state::conn::Conn;

/// Pieces given to one `writev`.
const PIECES: usize = 64;
/// Bytes sent to one connection in one turn, so that a client that takes a huge reply quickly
/// does not keep the thread from others.
const BYTES_PER_TURN: usize = 1 << 20;

/// How sending went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Everything is gone.
    All,
    /// The socket is full: wait until it is writable.
    Some,
    /// The peer is gone.
    Broken,
}

/// Sends `reply`, whole in the usual case; what the socket does not take is moved to the
/// connection. Answers the bytes sent.
pub fn send_reply(conn: &mut Conn, reply: &mut Reply) -> (Sent, usize) {
    if conn.output.pending() > 0 || !conn.output.sends() {
        return keep(conn, reply);
    }
    let Some(bytes) = reply.contiguous() else {
        conn.output.backlog.push(reply, 0);
        return send_pending(conn);
    };
    match send(&conn.fd, &bytes[..bytes.len().min(BYTES_PER_TURN)], SendFlags::NOSIGNAL) {
        Ok(n) if n == bytes.len() => {
            reply.clear();
            (Sent::All, n)
        }
        Ok(n) => {
            conn.output.backlog.push(reply, n);
            (Sent::Some, n)
        }
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
            conn.output.backlog.push(reply, 0);
            (Sent::Some, 0)
        }
        Err(_) => {
            // The buffer serves another connection next: nothing may be left in it.
            reply.clear();
            (Sent::Broken, 0)
        }
    }
}

/// A reply that can't be sent now waits; the peer that must not get one is gone.
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

/// Sends what waits on the connection, up to a turn's share.
pub fn send_pending(conn: &mut Conn) -> (Sent, usize) {
    if conn.output.sends() { send_waiting(conn) } else { (Sent::Some, 0) }
}

/// The same, by who knows that it may be sent.
pub fn send_waiting(conn: &mut Conn) -> (Sent, usize) {
    let mut total = 0;
    while conn.output.pending() > 0 {
        if total >= BYTES_PER_TURN {
            return (Sent::Some, total);
        }
        let room = BYTES_PER_TURN - total;
        let sent = match conn.output.backlog.contiguous() {
            Some(bytes) => send(&conn.fd, &bytes[..bytes.len().min(room)], SendFlags::NOSIGNAL),
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

/// Sends up to `room` bytes of what lies in several places.
fn send_pieces(conn: &Conn, room: usize) -> rustix::io::Result<usize> {
    let pieces = conn.output.backlog.front(PIECES, room);
    let slices: Vec<IoSlice<'_>> = pieces.iter().map(|p| IoSlice::new(p)).collect();
    rustix::io::writev(&conn.fd, &slices)
}

/// A command of a replica has answered something, which ends its connection.
#[cold]
pub fn refuse_answer(conn: &Conn) {
    log_warning!(
        "Replica {} sent a command that has an answer, disconnecting it",
        conn.session.shared.origin.peer
    );
}
