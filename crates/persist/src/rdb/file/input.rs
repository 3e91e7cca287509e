//! The bytes of a file on their way in: a window of them in memory, how far it has come, and the
//! checksum of what was taken.

use crate::rdb::{Crc64, Fault, Source};
use std::io::Read;

/// How much is asked of the reader at least.
const READ: usize = 64 << 10;

/// See the module's description.
pub struct Input<R> {
    from: R,
    /// What was read, of which the first `at` bytes were taken.
    window: Vec<u8>,
    at: usize,
    /// So many of those are in the sum.
    summed: usize,
    sum: Option<Crc64>,
    /// Bytes in front of the window.
    before: u64,
    ended: bool,
}

impl<R: Read> Input<R> {
    pub fn new(from: R) -> Self {
        Input {
            from,
            window: Vec::new(),
            at: 0,
            summed: 0,
            sum: Some(Crc64::default()),
            before: 0,
            ended: false,
        }
    }

    /// Bytes that were taken.
    pub fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// What is there and was not taken.
    pub fn ahead(&self) -> &[u8] {
        &self.window[self.at..]
    }

    /// Whether nothing comes behind [`Input::ahead`].
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Takes `n` bytes, which are there.
    pub fn take(&mut self, n: usize) {
        self.at += n;
        debug_assert!(self.at <= self.window.len());
    }

    /// Sees to it that `n` bytes are there, unless there are no more.
    ///
    /// # Errors
    ///
    /// Those of the reader.
    pub fn want(&mut self, n: usize) -> Result<(), Fault> {
        if self.ahead().len() >= n || self.ended {
            return Ok(());
        }
        self.add_to_sum();
        self.window.drain(..self.at);
        self.before += self.at as u64;
        (self.at, self.summed) = (0, 0);
        let missing = (n - self.window.len()).max(READ) as u64;
        let mut more = (&mut self.from).take(missing);
        let read = more.read_to_end(&mut self.window).map_err(Fault::Io)?;
        self.ended = (read as u64) < missing;
        Ok(())
    }

    fn add_to_sum(&mut self) {
        if let Some(sum) = &mut self.sum {
            sum.update(&self.window[self.summed..self.at]);
        }
        self.summed = self.at;
    }

    /// Computes no checksum from here on.
    pub fn forget_sum(&mut self) {
        self.sum = None;
    }

    /// The checksum of all that was taken, and no more is added; `None` if it was not wanted.
    pub fn end_sum(&mut self) -> Option<u64> {
        self.add_to_sum();
        self.sum.take().map(Crc64::finish)
    }

    /// What comes behind what was taken: bytes that are there, and the reader of more.
    pub fn into_rest(mut self) -> (Vec<u8>, R) {
        self.window.drain(..self.at);
        (self.window, self.from)
    }
}

impl<R: Read> Source for Input<R> {
    fn append(&mut self, mut n: usize, to: &mut Vec<u8>) -> Result<(), Fault> {
        // In pieces: nothing is allocated for bytes that have not come.
        while n > 0 {
            self.want(n.min(16 * READ))?;
            let piece = self.ahead().len().min(n);
            if piece == 0 {
                return Err(Fault::Short);
            }
            to.extend_from_slice(&self.ahead()[..piece]);
            self.take(piece);
            n -= piece;
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        self.want(N)?;
        let bytes = *self.ahead().first_chunk().ok_or(Fault::Short)?;
        self.take(N);
        Ok(bytes)
    }

    fn skip(&mut self, mut n: usize) -> Result<(), Fault> {
        while n > 0 {
            self.want(n.min(16 * READ))?;
            let piece = self.ahead().len().min(n);
            if piece == 0 {
                return Err(Fault::Short);
            }
            self.take(piece);
            n -= piece;
        }
        Ok(())
    }
}
