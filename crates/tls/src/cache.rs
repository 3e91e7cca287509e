//! Sessions that clients may resume, bounded in number and age.
//!
//! The server keeps them, as `tls-session-cache-size` says, and a ticket is only their number. So
//! nothing that a client holds can be resumed after the certificates were renewed.

use rustls::server::StoresServerSessions;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// See the module documentation.
#[derive(Debug)]
pub struct SessionCache {
    /// The number of sessions; 0: no limit.
    size: usize,
    timeout: Duration,
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    by_id: HashMap<Vec<u8>, Vec<u8>>,
    /// All stored sessions, the oldest first. A session that was taken stays here until its time is over.
    by_age: VecDeque<(Instant, Vec<u8>)>,
}

impl SessionCache {
    pub fn new(size: usize, timeout: Duration) -> SessionCache {
        SessionCache { size, timeout, sessions: Mutex::default() }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        let mut sessions = self.sessions.lock().unwrap_or_else(|p| p.into_inner());
        while let Some((stored, _)) = sessions.by_age.front()
            && stored.elapsed() >= self.timeout
        {
            sessions.forget_oldest();
        }
        sessions
    }
}

impl Sessions {
    fn forget_oldest(&mut self) {
        if let Some((_, id)) = self.by_age.pop_front() {
            self.by_id.remove(&id);
        }
    }
}

impl StoresServerSessions for SessionCache {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let mut sessions = self.sessions();
        while self.size > 0 && sessions.by_age.len() >= self.size {
            sessions.forget_oldest();
        }
        sessions.by_age.push_back((Instant::now(), key.clone()));
        sessions.by_id.insert(key, value);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.sessions().by_id.get(key).cloned()
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.sessions().by_id.remove(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_sessions_are_forgotten() {
        let cache = SessionCache::new(2, Duration::from_secs(3600));
        for n in 0..3u8 {
            cache.put(vec![n], vec![n]);
        }
        assert_eq!(cache.get(&[0]), None);
        assert_eq!(cache.take(&[1]), Some(vec![1]));
        assert_eq!(cache.get(&[1]), None);
        assert_eq!(cache.get(&[2]), Some(vec![2]));
        let expired = SessionCache::new(0, Duration::ZERO);
        expired.put(vec![1], vec![1]);
        assert_eq!(expired.get(&[1]), None);
    }
}
