//! Requests that wait for a later iteration, packed into about as many bytes as the client sent.
//!
//! A client may pipeline thousands of requests, or one with thousands of arguments, after a request that blocks
//! or goes to the slow lane. As separate arguments they would take many times the bytes that the client sent.
//! Planning all of them again after each command that leaves the thread would take quadratic time. So they are
//! packed, and each iteration unpacks only some.
//!
//! ```text
//!  request   the number of arguments, then each argument
//!  argument  length, bytes; for a large value only its mark: the value is in `large`
//!  number    one byte below 254, or 254 and four bytes
//! ```

use crate::args::ArgBuf;
use std::collections::VecDeque;
use weft_resp::Blob;

const LARGE: u8 = 255;
const LONG: u8 = 254;

/// Requests in order. The packed bytes of unpacked requests are freed together with those of the last request.
#[derive(Debug, Default)]
pub struct PackedRequests {
    packed: Vec<u8>,
    at: usize,
    large: VecDeque<Blob>,
    large_bytes: usize,
}

impl PackedRequests {
    pub fn is_empty(&self) -> bool {
        self.at == self.packed.len()
    }

    /// A queue with one request.
    pub fn of(args: Vec<ArgBuf>) -> Self {
        let mut later = PackedRequests::default();
        later.begin(args.len());
        args.into_iter().for_each(|arg| later.arg(arg));
        later.end();
        later
    }

    /// Bytes that have not been unpacked.
    pub fn bytes(&self) -> usize {
        self.packed.len() - self.at + self.large_bytes
    }

    /// Memory in bytes. O(1).
    pub fn memory(&self) -> usize {
        self.packed.capacity() + self.large.capacity() * size_of::<Blob>() + self.large_bytes
    }

    /// Begins a request of `args` arguments. The caller appends them with [`PackedRequests::slice`] or [`PackedRequests::arg`].
    pub fn begin(&mut self, args: usize) {
        self.number(args);
    }

    /// Appends an argument, copied.
    pub fn slice(&mut self, arg: &[u8]) {
        self.number(arg.len());
        self.packed.extend_from_slice(arg);
    }

    /// Appends an argument. A large value is not copied.
    pub fn arg(&mut self, arg: ArgBuf) {
        match arg {
            ArgBuf::Bytes(bytes) => self.slice(&bytes),
            ArgBuf::Blob(blob) => {
                self.packed.push(LARGE);
                self.large_bytes += blob.len();
                self.large.push_back(blob);
            }
        }
    }

    /// Frees unused capacity, when no request follows for now.
    pub fn end(&mut self) {
        self.packed.shrink_to_fit();
    }

    /// Removes and returns the first request.
    pub fn pop(&mut self) -> Option<Vec<ArgBuf>> {
        if self.is_empty() {
            return None;
        }
        let args = self.take_number();
        let args = (0..args).map(|_| self.take_arg()).collect();
        if self.is_empty() {
            *self = PackedRequests::default();
        }
        Some(args)
    }

    fn number(&mut self, n: usize) {
        match u8::try_from(n) {
            Ok(n) if n < LONG => self.packed.push(n),
            _ => {
                self.packed.push(LONG);
                // Arguments that were read into a buffer are shorter than 4 GB: see `INBUF_MAX`.
                self.packed.extend_from_slice(&(n as u32).to_le_bytes());
            }
        }
    }

    fn take_number(&mut self) -> usize {
        let first = self.packed[self.at];
        self.at += 1;
        if first != LONG {
            return usize::from(first);
        }
        let number = self.packed[self.at..].first_chunk().copied().map(u32::from_le_bytes);
        self.at += size_of::<u32>();
        number.expect("a number is packed completely") as usize
    }

    fn take_arg(&mut self) -> ArgBuf {
        if self.packed[self.at] == LARGE {
            self.at += 1;
            let blob = self.large.pop_front().expect("each mark has a large value");
            self.large_bytes -= blob.len();
            return ArgBuf::Blob(blob);
        }
        let len = self.take_number();
        let bytes = self.packed[self.at..self.at + len].to_vec();
        self.at += len;
        ArgBuf::Bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Argument `i` of request `n`, with lengths around the limits between the forms of a number.
    fn arg(n: usize, i: usize) -> ArgBuf {
        let len = match [0, 1, 253, 254, 255, 256, 70_000].get(n) {
            Some(len) => *len,
            None => i,
        };
        match i % 7 {
            6 => ArgBuf::Blob(Arc::new(vec![n as u8; len])),
            _ => ArgBuf::Bytes(vec![n as u8; len]),
        }
    }

    #[test]
    fn packed_requests_are_unpacked_unchanged() {
        let mut later = PackedRequests::default();
        assert!(later.pop().is_none());
        for round in 0..3 {
            for n in 0..300_usize {
                later.begin(n);
                for i in 0..n {
                    match arg(n, i) {
                        ArgBuf::Bytes(bytes) if i % 2 == 0 => later.slice(&bytes),
                        other => later.arg(other),
                    }
                }
            }
            later.end();
            assert!(later.memory() >= later.bytes());
            for n in 0..300_usize {
                assert!(!later.is_empty(), "{round} {n}");
                let args = later.pop().expect("every packed request");
                assert_eq!(args.len(), n);
                for (i, got) in args.iter().enumerate() {
                    let sent = arg(n, i);
                    assert_eq!(got.bytes(), sent.bytes());
                    assert_eq!(matches!(got, ArgBuf::Blob(_)), matches!(sent, ArgBuf::Blob(_)));
                }
            }
            assert_eq!((later.is_empty(), later.bytes(), later.memory()), (true, 0, 0));
        }
    }

    #[test]
    fn small_requests_take_little_memory() {
        let mut later = PackedRequests::default();
        for _ in 0..32_000 {
            later.begin(1);
            later.slice(b"a");
        }
        later.end();
        assert_eq!((later.bytes(), later.memory()), (96_000, 96_000));
    }
}
