//! Replies that a connection's socket has not accepted yet.
//!
//! The backlog is a queue of pieces in sending order, each with the number of bytes already sent.
//! Small replies are appended to the last piece; a large one becomes a piece without a copy. So no
//! byte is moved more than once, and memory is freed piece by piece. A reply of a gigabyte takes no
//! long step: copying it, or moving its rest to the front, would block all clients of the thread.

use std::collections::VecDeque;
use weft_memory::size_class::heap;
use weft_resp::Reply;

/// The next reply is appended to a piece up to this size.
const JOIN_MAX: usize = 64 << 10;

/// The initial capacity of a piece that begins with a small reply (bytes).
const MIN_CAPACITY: usize = 256;

/// The queue of unsent replies of one connection.
#[derive(Debug, Default)]
pub struct Backlog {
    pieces: VecDeque<Piece>,
    /// Bytes to send.
    len: usize,
    /// The memory of all pieces, in bytes.
    memory: usize,
}

#[derive(Debug)]
struct Piece {
    reply: Reply,
    sent: usize,
}

impl Piece {
    fn memory(&self) -> usize {
        size_of::<Piece>() + heap(self.reply.capacity()) + self.reply.memory_of_shared()
    }
}

impl Backlog {
    /// Bytes to send.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of pieces.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// The memory in bytes, including values shared with the keyspace. A piece is freed as a whole
    /// when its last byte is sent. O(1).
    pub fn memory(&self) -> usize {
        self.memory
    }

    fn push_piece(&mut self, piece: Piece) {
        self.memory += piece.memory();
        self.pieces.push_back(piece);
    }

    /// Lets `change` modify the last piece, if there is one.
    #[inline]
    fn change_last(&mut self, change: impl FnOnce(&mut Reply)) {
        let Some(last) = self.pieces.back_mut() else { return };
        self.memory -= last.memory();
        change(&mut last.reply);
        self.memory += last.memory();
    }

    /// Takes all of `reply` except its first `sent` bytes, and leaves `reply` empty. A small reply
    /// is copied, so that the caller keeps its buffer for reuse.
    pub fn push(&mut self, reply: &mut Reply, sent: usize) {
        let left = reply.len() - sent;
        self.len += left;
        if left == 0 {
            return reply.clear();
        }
        if left > JOIN_MAX {
            let reply = std::mem::replace(reply, Reply::new(reply.proto));
            return self.push_piece(Piece { reply, sent });
        }
        let mut rest = reply.split_rest(sent);
        match self.last_joins() {
            true => self.change_last(|last| last.append(&mut rest)),
            false => self.push_piece(Piece { reply: rest, sent: 0 }),
        }
    }

    fn last_joins(&self) -> bool {
        self.pieces.back().is_some_and(|last| last.reply.len() <= JOIN_MAX)
    }

    /// Lets `write` append small or shared data.
    #[inline]
    pub fn write(&mut self, write: impl FnOnce(&mut Reply)) {
        self.write_with_room(MIN_CAPACITY, write);
    }

    /// Like [`Backlog::write`]. `room` is the capacity of a new piece in bytes.
    #[inline]
    pub fn write_with_room(&mut self, room: usize, write: impl FnOnce(&mut Reply)) {
        if !self.last_joins() {
            let reply = Reply::with_capacity(room.max(MIN_CAPACITY));
            self.push_piece(Piece { reply, sent: 0 });
        }
        let mut added = 0;
        self.change_last(|last| {
            let before = last.len();
            write(last);
            added = last.len() - before;
        });
        self.len += added;
    }

    /// All bytes to send, if they are contiguous.
    pub fn contiguous(&self) -> Option<&[u8]> {
        if self.pieces.len() != 1 {
            return None;
        }
        let piece = self.pieces.front()?;
        piece.reply.contiguous().map(|bytes| &bytes[piece.sent..])
    }

    /// Appends `later` to this backlog.
    pub fn append(&mut self, mut later: Backlog) {
        self.len += later.len;
        self.memory += later.memory;
        self.pieces.append(&mut later.pieces);
    }

    /// The next slices to send: at most `count`, together at most `bytes` long.
    pub fn front(&self, count: usize, bytes: usize) -> Vec<&[u8]> {
        let Some(piece) = self.pieces.front() else { return Vec::new() };
        let mut slices = piece.reply.slices(piece.sent, count);
        let mut room = bytes;
        for slice in &mut slices {
            *slice = &slice[..slice.len().min(room)];
            room -= slice.len();
        }
        slices.retain(|slice| !slice.is_empty());
        slices
    }

    /// Removes `n` bytes that [`Backlog::front`] has returned: they were sent.
    pub fn sent(&mut self, n: usize) {
        self.len -= n;
        if let Some(piece) = self.pieces.front_mut() {
            piece.sent += n;
            if piece.sent == piece.reply.len() {
                self.memory -= piece.memory();
                self.pieces.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(len: usize, byte: u8) -> Reply {
        let mut reply = Reply::default();
        reply.raw(&vec![byte; len]);
        reply
    }

    fn drain(backlog: &mut Backlog, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while !backlog.is_empty() {
            let part = backlog.front(4, step).concat();
            assert!((1..=step).contains(&part.len()));
            backlog.sent(part.len());
            all.extend(part);
        }
        assert!(backlog.pieces.is_empty());
        all
    }

    #[test]
    fn replies_are_sent_in_order() {
        for step in [1, 7, 5000, 1 << 20] {
            let mut backlog = Backlog::default();
            let mut want = Vec::new();
            let sizes = [
                (10, 3),
                (20, 0),
                (JOIN_MAX + 5, 5),
                (JOIN_MAX, 0),
                (1, 0),
                (3 * JOIN_MAX, 1),
                (2, 2),
            ];
            for (n, (len, sent)) in sizes.into_iter().enumerate() {
                let byte = b'a' + n as u8;
                let mut piece = reply(len, byte);
                backlog.push(&mut piece, sent);
                assert!(piece.is_empty());
                want.extend(vec![byte; len - sent]);
                assert_eq!(backlog.len(), want.len());
            }
            assert!(drain(&mut backlog, step) == want, "{step}");
        }
    }

    #[test]
    fn a_piece_takes_memory_until_it_is_sent() {
        let mut backlog = Backlog::default();
        backlog.push(&mut reply(10 * JOIN_MAX, b'x'), 4 * JOIN_MAX);
        backlog.sent(5 * JOIN_MAX);
        assert_eq!(
            (backlog.len(), backlog.memory()),
            (JOIN_MAX, 10 * JOIN_MAX + size_of::<Piece>())
        );
        // Small replies after it share one piece.
        for n in 0..100 {
            backlog.write(|reply| reply.raw(&vec![b'y'; n]));
            backlog.push(&mut reply(n, b'z'), 0);
        }
        let of_pieces = backlog.pieces.iter().map(Piece::memory).sum::<usize>();
        assert_eq!((backlog.pieces(), backlog.memory()), (2, of_pieces));
        let mut more = Backlog::default();
        more.push(&mut reply(2 * JOIN_MAX, b'x'), 0);
        let with_more = of_pieces + more.memory();
        backlog.append(more);
        assert_eq!(backlog.memory(), with_more);
        drain(&mut backlog, 4096);
        assert_eq!(backlog.memory(), 0);
    }

    #[test]
    fn a_large_reply_is_not_copied() {
        let mut large = reply(10 * JOIN_MAX, b'x');
        let at = large.contiguous().map(|bytes| bytes.as_ptr());
        let mut backlog = Backlog::default();
        backlog.push(&mut large, 0);
        assert_eq!(backlog.front(1, 1).first().map(|slice| slice.as_ptr()), at);
    }
}
