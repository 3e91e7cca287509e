//! Keys of executed requests, sampled for the page on the metrics port.
//!
//! Off unless a reader has asked within the last seconds. An I/O thread looks at [`HotKeys::is_watched`] once per batch, not
//! per request. While it is watched, each thread adds at most one key in a millisecond.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

/// How long the threads sample after a reader has asked, in milliseconds.
const WATCHED_MS: i64 = 5_000;
/// The most samples that wait for the reader. Later ones are lost.
const MOST: usize = 16_384;
/// The most bytes kept of a key.
pub const MOST_BYTES: usize = 256;

/// The key of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledKey {
    pub db: u16,
    /// The first bytes of the key, at most [`MOST_BYTES`].
    pub start: Vec<u8>,
    /// The length of the whole key.
    pub len: usize,
}

/// Samples since the reader took them last.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Keys, each with the number of requests that it stands for.
    pub keys: Vec<(SampledKey, u64)>,
    /// The number of requests that all samples stand for, with those that have no key.
    pub requests: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct HotKeys {
    /// Monotonic milliseconds until which threads sample; 0: they never did.
    until_ms: AtomicI64,
    samples: Mutex<Samples>,
}

impl HotKeys {
    /// Whether threads sample now.
    #[inline]
    pub fn is_watched(&self, mono_ms: i64) -> bool {
        mono_ms < self.until_ms.load(Ordering::Relaxed)
    }

    /// Takes the samples, and has threads sample for some more seconds.
    pub fn take(&self, mono_ms: i64) -> Samples {
        self.until_ms.store(mono_ms + WATCHED_MS, Ordering::Relaxed);
        std::mem::take(&mut *self.samples.lock().unwrap_or_else(|p| p.into_inner()))
    }

    /// Adds the key of one request, if it has one; the sample stands for `requests`. Never waits: while another thread
    /// adds a sample, this one is lost.
    pub fn add(&self, requests: u64, db: u16, key: Option<&[u8]>) {
        let Ok(mut samples) = self.samples.try_lock() else { return };
        if samples.keys.len() >= MOST {
            return;
        }
        samples.requests += requests;
        if let Some(key) = key {
            let start = key[..key.len().min(MOST_BYTES)].to_vec();
            samples.keys.push((SampledKey { db, start, len: key.len() }, requests));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_sample_only_while_a_reader_asks() {
        let keys = HotKeys::default();
        assert!(!keys.is_watched(1));
        assert!(keys.take(1_000).keys.is_empty());
        assert!(keys.is_watched(1_000 + WATCHED_MS - 1));
        assert!(!keys.is_watched(1_000 + WATCHED_MS));
    }

    #[test]
    fn samples_are_taken_once_and_bounded() {
        let keys = HotKeys::default();
        keys.add(7, 3, Some(&[b'x'; 1000]));
        keys.add(2, 0, None);
        let taken = keys.take(0);
        assert_eq!((taken.requests, taken.keys.len()), (9, 1));
        let (key, requests) = &taken.keys[0];
        assert_eq!((key.db, key.start.len(), key.len, *requests), (3, MOST_BYTES, 1000, 7));
        for _ in 0..MOST + 5 {
            keys.add(1, 0, Some(b"k"));
        }
        assert_eq!(keys.take(0).keys.len(), MOST);
        assert_eq!(keys.take(0).requests, 0);
    }
}
