//! The input of a file: a window of its bytes, the offset, and the checksum of the consumed bytes.

use crate::rdb::{Crc64, Fault, Source};
use std::io::Read;

/// Minimum size of a read in bytes.
const READ: usize = 64 << 10;

/// A buffered reader with offset and checksum.
pub struct Input<R> {
    from: R,
    /// Bytes read; the first `at` are consumed.
    window: Vec<u8>,
    at: usize,
    /// How many of the consumed bytes the checksum includes.
    summed: usize,
    sum: Option<Crc64>,
    /// Offset of the window in the file.
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

    /// Number of bytes consumed.
    pub fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// Bytes read and not consumed yet.
    pub fn ahead(&self) -> &[u8] {
        &self.window[self.at..]
    }

    /// Whether the file ends after [`Input::ahead`].
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Consumes `n` bytes, which must be in the window.
    pub fn take(&mut self, n: usize) {
        self.at += n;
        debug_assert!(self.at <= self.window.len());
    }

    /// Reads until `n` bytes are in the window, or the file ends.
    ///
    /// # Errors
    ///
    /// Read errors.
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

    /// Ends the checksum and returns it; `None` if it was disabled.
    pub fn end_sum(&mut self) -> Option<u64> {
        self.add_to_sum();
        self.sum.take().map(Crc64::finish)
    }

    /// The unconsumed bytes, and the reader of the rest.
    pub fn into_rest(mut self) -> (Vec<u8>, R) {
        self.window.drain(..self.at);
        (self.window, self.from)
    }
}

impl<R: Read> Source for Input<R> {
    fn append(&mut self, mut n: usize, to: &mut Vec<u8>) -> Result<(), Fault> {
        // In pieces, so that a false length doesn't allocate memory for bytes that never arrive.
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
