//! From the thread of the link to a loader: bytes in pieces, of which a few may wait.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Pieces that may wait; each is what was read from the socket at once.
const AHEAD: usize = 16;

/// The end at which pieces go in. When it is dropped the other end sees the end of the data.
pub type PipeIn = SyncSender<Vec<u8>>;

/// The end at which they are read.
pub struct PipeOut {
    from: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
}

pub fn pipe() -> (PipeIn, PipeOut) {
    let (to, from) = sync_channel(AHEAD);
    (to, PipeOut { from, piece: Vec::new(), at: 0 })
}

impl Read for PipeOut {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            match self.from.recv() {
                Ok(piece) => (self.piece, self.at) = (piece, 0),
                Err(_) => return Ok(0),
            }
        }
        let n = out.len().min(self.piece.len() - self.at);
        out[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_out_as_they_went_in() {
        let (to, mut from) = pipe();
        for piece in [&b"one"[..], b"", b"two", b"3"] {
            to.send(piece.to_vec()).expect("there is room");
        }
        drop(to);
        let mut text = String::new();
        from.read_to_string(&mut text).expect("a pipe does not fail");
        assert_eq!(text, "onetwo3");
    }
}
