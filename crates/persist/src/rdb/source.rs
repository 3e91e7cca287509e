//! The input of the decoder: memory or a reader.
//!
//! A claimed length is not trusted: no memory is allocated for bytes that have not arrived.

use super::Fault;
use std::io::{ErrorKind, Read};

/// A sequence of bytes.
pub trait Source {
    /// Appends the next `n` bytes to `to`.
    ///
    /// # Errors
    ///
    /// There are fewer bytes, or the source failed. The content of `to` is unspecified then.
    fn append(&mut self, n: usize, to: &mut Vec<u8>) -> Result<(), Fault>;

    /// Returns the next `N` bytes.
    ///
    /// # Errors
    ///
    /// As [`Source::append`].
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault>;

    /// Skips the next `n` bytes.
    ///
    /// # Errors
    ///
    /// As [`Source::append`].
    fn skip(&mut self, n: usize) -> Result<(), Fault>;
}

/// Bytes in memory.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a>(pub &'a [u8]);

impl Source for Slice<'_> {
    fn append(&mut self, n: usize, to: &mut Vec<u8>) -> Result<(), Fault> {
        let (bytes, rest) = self.0.split_at_checked(n).ok_or(Fault::Short)?;
        self.0 = rest;
        to.reserve_exact(n);
        to.extend_from_slice(bytes);
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Fault::Short)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn skip(&mut self, n: usize) -> Result<(), Fault> {
        self.0 = self.0.get(n..).ok_or(Fault::Short)?;
        Ok(())
    }
}

/// The bytes of a reader, which should be buffered.
#[derive(Debug)]
pub struct Reader<R>(pub R);

/// Maximum allocation for bytes that have not arrived, in bytes.
const AHEAD: usize = 1 << 20;

impl<R: Read> Source for Reader<R> {
    fn append(&mut self, n: usize, to: &mut Vec<u8>) -> Result<(), Fault> {
        let mut left = n;
        while left > 0 {
            let piece = left.min(AHEAD);
            let at = to.len();
            to.resize(at + piece, 0);
            self.0.read_exact(&mut to[at..]).map_err(fault)?;
            left -= piece;
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).map_err(fault)?;
        Ok(bytes)
    }

    fn skip(&mut self, n: usize) -> Result<(), Fault> {
        let skipped = std::io::copy(&mut (&mut self.0).take(n as u64), &mut std::io::sink());
        match skipped.map_err(Fault::Io)? {
            all if all == n as u64 => Ok(()),
            _ => Err(Fault::Short),
        }
    }
}

fn fault(e: std::io::Error) -> Fault {
    match e.kind() {
        ErrorKind::UnexpectedEof => Fault::Short,
        _ => Fault::Io(e),
    }
}
