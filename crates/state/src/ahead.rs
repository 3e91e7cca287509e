//! Input that was read from the socket while the client could not go on: it is blocked, or paused.
//!
//! Such a client is read from, as in the reference, since its hang-up comes behind all that it has sent. The bytes wait
//! here unparsed. When the client goes on they are read from here as if from its socket, in the same portions, so a
//! pipeline of any length is planned a little at a time. `client-query-buffer-limit` bounds them.

use std::collections::VecDeque;

/// Bytes of a piece that is joined by what follows.
const PIECE: usize = 64 << 10;

/// See the module.
#[derive(Debug, Default)]
pub struct ReadAhead {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that are taken.
    at: usize,
    len: usize,
    memory: usize,
}

impl ReadAhead {
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that are not taken.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory. O(1).
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Appends what was read.
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

    /// Takes the first bytes, at most `most`, and hands them to `put` in order; how many.
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

    /// Takes as many bytes as `into` has room for; how many.
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
