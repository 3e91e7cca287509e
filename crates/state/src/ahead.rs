//! Input that was read from the socket while the client was blocked or paused.
//!
//! The server keeps reading from such a client, as Valkey does, because a hang-up arrives after all that the
//! client has sent. The bytes wait here unparsed. When the client continues, they are read from here as if from
//! its socket, in the same portions, so a pipeline of any length is planned in small parts.
//! `client-query-buffer-limit` bounds them.

use std::collections::VecDeque;

/// Up to this many bytes, new input is appended to the last piece.
const PIECE: usize = 64 << 10;

/// Unparsed bytes in pieces, in order.
#[derive(Debug, Default)]
pub struct ReadAhead {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that have been taken.
    at: usize,
    len: usize,
    memory: usize,
}

impl ReadAhead {
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that have not been taken.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Memory in bytes. O(1).
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Appends bytes from the socket.
    pub fn push(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        match self.pieces.back_mut() {
            Some(last) if last.len() + bytes.len() <= PIECE => {
                self.memory -= last.capacity();
                last.extend_from_slice(bytes);
                self.memory += last.capacity();
            }
            Some(_) | None => {
                self.memory += bytes.len();
                self.pieces.push_back(bytes.to_vec());
            }
        }
    }

    /// Takes the first bytes, at most `most`, and passes them to `put` in order. Returns their number.
    pub fn take(&mut self, most: usize, mut put: impl FnMut(&[u8])) -> usize {
        let mut taken = 0;
        while taken < most
            && let Some(piece) = self.pieces.front()
        {
            let part = &piece[self.at..][..(piece.len() - self.at).min(most - taken)];
            put(part);
            taken += part.len();
            self.at += part.len();
            if self.at == piece.len() {
                self.memory -= piece.capacity();
                self.pieces.pop_front();
                self.at = 0;
            }
        }
        self.len -= taken;
        taken
    }

    /// Takes as many bytes as `into` has space for. Returns their number.
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let mut at = 0;
        self.take(into.len(), |part| {
            into[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_order_in_portions_of_any_size() {
        for (pushed, taken) in [(1, 7), (1000, 1), (PIECE, PIECE / 3), (3 * PIECE, PIECE + 1)] {
            let mut ahead = ReadAhead::default();
            let all: Vec<u8> = (0..5 * pushed).map(|n| (n % 251) as u8).collect();
            all.chunks(pushed).for_each(|part| ahead.push(part));
            assert_eq!(ahead.len(), all.len());
            assert!(ahead.memory() >= all.len() && ahead.memory() <= 2 * all.len() + 64);
            let mut got = Vec::new();
            while !ahead.is_empty() {
                let mut into = vec![0; taken];
                let n = ahead.read(&mut into);
                assert_eq!(n, taken.min(all.len() - got.len()));
                got.extend_from_slice(&into[..n]);
                assert_eq!(ahead.len(), all.len() - got.len());
            }
            assert!(got == all, "pieces of {pushed} taken by {taken}");
            assert_eq!(ahead.memory(), 0);
        }
    }
}
