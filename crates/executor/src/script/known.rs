//! The scripts that a thread has compiled.

use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use weft_script::Script;
use weft_script::engine::Sha;

/// Scripts that a thread keeps compiled at most. It forgets all when there are more.
const MOST: usize = 1024;

/// Scripts that are kept between two searches for those that the server no longer has.
const KEPT_BETWEEN_SEARCHES: usize = 64;

/// The scripts that a thread has compiled. The server's cache owns them: SCRIPT FLUSH frees their texts at once.
#[derive(Debug, Default)]
pub(super) struct KnownScripts {
    scripts: HashMap<Sha, Weak<Script>, RandomState>,
    /// The cache's count of flushes at the last search.
    flushes: u64,
}

/// The result of a lookup.
#[derive(Debug)]
pub(super) enum Known {
    Script(Arc<Script>),
    /// The server no longer has it. The thread doesn't know it any more, either.
    Gone,
    No,
}

fn live(script: &Weak<Script>) -> Option<Arc<Script>> {
    script.upgrade().filter(|script| script.is_live())
}

impl KnownScripts {
    /// Expected O(1).
    pub fn find(&mut self, sha: &Sha) -> Known {
        let Some(known) = self.scripts.get(sha) else { return Known::No };
        if let Some(script) = live(known) {
            return Known::Script(script);
        }
        self.scripts.remove(sha);
        Known::Gone
    }

    /// Adds a script. Returns others that the thread must forget: all, or those that the server no longer has. `flushes`:
    /// the cache's count.
    pub fn keep(&mut self, script: &Arc<Script>, flushes: u64) -> Vec<Sha> {
        let is_flushed = std::mem::replace(&mut self.flushes, flushes) != flushes;
        let forgotten = if self.scripts.len() >= MOST {
            self.take_others(&script.sha)
        } else if is_flushed || (self.scripts.len() + 1).is_multiple_of(KEPT_BETWEEN_SEARCHES) {
            let gone = self.scripts.extract_if(|_, script| live(script).is_none());
            gone.map(|(sha, _)| sha).filter(|sha| *sha != script.sha).collect()
        } else {
            Vec::new()
        };
        self.scripts.insert(script.sha, Arc::downgrade(script));
        forgotten
    }

    /// Removes all, and returns those but `sha`.
    pub fn take_others(&mut self, sha: &Sha) -> Vec<Sha> {
        self.scripts.drain().map(|(other, _)| other).filter(|other| other != sha).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_script::cache::Cache;
    use weft_script::sha_of;

    fn add(cache: &Cache, n: usize) -> Arc<Script> {
        let body = format!("return {n}");
        let script = Script::new(sha_of(body.as_bytes()), body.as_bytes()).expect("a script");
        cache.add(script, true)
    }

    #[test]
    fn flushed_scripts_are_forgotten_with_the_next_new_one() {
        let (cache, mut known) = (Cache::default(), KnownScripts::default());
        for n in 0..10 {
            assert!(known.keep(&add(&cache, n), cache.flushes()).is_empty());
        }
        let first = sha_of(b"return 0");
        assert!(matches!(known.find(&first), Known::Script(script) if script.sha == first));
        drop(cache.flush());
        assert!(matches!(known.find(&first), Known::Gone));
        assert!(matches!(known.find(&first), Known::No));
        assert_eq!(known.keep(&add(&cache, 10), cache.flushes()).len(), 9);
        assert!(known.keep(&add(&cache, 11), cache.flushes()).is_empty());
        assert_eq!(known.scripts.len(), 2);
    }

    #[test]
    fn evicted_scripts_are_forgotten_now_and_then() {
        let (cache, mut known) = (Cache::default(), KnownScripts::default());
        let mut forgotten = 0;
        for n in 0..2000 {
            let body = format!("return {n}");
            let script = Script::new(sha_of(body.as_bytes()), body.as_bytes()).expect("a script");
            forgotten += known.keep(&cache.add(script, false), cache.flushes()).len();
            assert_eq!(known.scripts.len() + forgotten, n + 1);
        }
        let most = weft_script::cache::MOST_EVALUATED + KEPT_BETWEEN_SEARCHES;
        assert!(known.scripts.len() <= most, "{}", known.scripts.len());
    }

    #[test]
    fn a_thread_with_too_many_scripts_forgets_all() {
        let (cache, mut known) = (Cache::default(), KnownScripts::default());
        for n in 0..MOST {
            assert!(known.keep(&add(&cache, n), cache.flushes()).is_empty());
        }
        assert_eq!(known.keep(&add(&cache, MOST), cache.flushes()).len(), MOST);
        assert_eq!(known.scripts.len(), 1);
    }
}
