//! A pipe from the link's thread to a loader, with a limited number of queued pieces.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Maximum number of queued pieces; each is the result of one read of the socket.
const AHEAD: usize = 16;

/// The write end. Dropping it signals the end of the data.
pub type PipeIn = SyncSender<Vec<u8>>;

/// The read end.
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
    fn pieces_are_read_in_order() {
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
