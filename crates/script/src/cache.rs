//! The scripts of EVAL and SCRIPT LOAD, by their hashes.
//!
//! Threads keep what they have found ([`Script::is_live`]: whether it is still valid), so a lookup here is rare.

use crate::engine::Sha;
use crate::script::Script;
use sha1::{Digest, Sha1};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Scripts of EVAL that are kept at most. Scripts of SCRIPT LOAD are kept in addition.
pub const MOST_EVALUATED: usize = 500;

/// The hash of a script's text. O(bytes).
pub fn sha_of(body: &[u8]) -> Sha {
    let mut hex = [0; 40];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(Sha1::digest(body)) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    Sha(hex)
}

/// The scripts of a server.
#[derive(Debug, Default)]
pub struct Cache {
    scripts: RwLock<HashMap<Sha, Arc<Script>>>,
    /// Scripts of EVAL among them. Changed under the lock for writing only.
    evaluated: AtomicUsize,
    /// Counts lookups, to order them.
    clock: AtomicU64,
    evicted: AtomicU64,
    /// Restarts of scripts that are no longer here.
    restarts: AtomicU64,
}

/// Numbers for INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub scripts: usize,
    pub bytes: usize,
    pub evicted: u64,
    /// Runs that were undone and began again.
    pub restarts: u64,
}

impl Cache {
    fn read(&self) -> RwLockReadGuard<'_, HashMap<Sha, Arc<Script>>> {
        self.scripts.read().unwrap_or_else(|p| p.into_inner())
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Sha, Arc<Script>>> {
        self.scripts.write().unwrap_or_else(|p| p.into_inner())
    }

    fn touch(&self, script: &Script) {
        script.used.store(self.clock.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The script with this hash. Expected O(1).
    pub fn find(&self, sha: &Sha) -> Option<Arc<Script>> {
        let found = self.read().get(sha).cloned()?;
        self.touch(&found);
        Some(found)
    }

    pub fn has(&self, sha: &Sha) -> bool {
        self.read().contains_key(sha)
    }

    /// Adds a script that compiles, unless one with its hash is here; returns the one that is here then. `is_kept`: it
    /// comes from SCRIPT LOAD. Expected O(1); O(scripts) if it evicts one.
    pub fn add(&self, script: Script, is_kept: bool) -> Arc<Script> {
        let mut scripts = self.write();
        let sha = script.sha;
        let added = || {
            self.evaluated.fetch_add(1, Ordering::Relaxed);
            Arc::new(script)
        };
        let script = scripts.entry(sha).or_insert_with(added).clone();
        if is_kept && !script.is_kept.swap(true, Ordering::Relaxed) {
            self.evaluated.fetch_sub(1, Ordering::Relaxed);
        }
        script.is_live.store(true, Ordering::Release);
        if self.evaluated.load(Ordering::Relaxed) > MOST_EVALUATED {
            self.touch_recent(&scripts);
        }
        // After the others: the script that was just added must not be the one to evict.
        self.touch(&script);
        self.evict(&mut scripts);
        script
    }

    /// Touches the scripts that threads have used without a lookup here.
    fn touch_recent(&self, scripts: &HashMap<Sha, Arc<Script>>) {
        for script in scripts.values() {
            if script.is_recent.load(Ordering::Relaxed) {
                script.is_recent.store(false, Ordering::Relaxed);
                self.touch(script);
            }
        }
    }

    /// Removes the script of EVAL that was used least recently, if there are too many.
    fn evict(&self, scripts: &mut HashMap<Sha, Arc<Script>>) {
        if self.evaluated.load(Ordering::Relaxed) <= MOST_EVALUATED {
            return;
        }
        let evaluated = scripts.values().filter(|script| !script.is_kept.load(Ordering::Relaxed));
        let oldest = evaluated.min_by_key(|script| script.used.load(Ordering::Relaxed));
        if let Some(sha) = oldest.map(|script| script.sha) {
            self.evaluated.fetch_sub(1, Ordering::Relaxed);
            self.forget(scripts.remove(&sha));
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn forget(&self, script: Option<Arc<Script>>) {
        if let Some(script) = script {
            script.is_live.store(false, Ordering::Release);
            self.restarts.fetch_add(script.history.restarts(), Ordering::Relaxed);
        }
    }

    /// Removes all scripts, and returns them: dropping them takes O(n).
    pub fn flush(&self) -> Vec<Arc<Script>> {
        let mut scripts = self.write();
        let scripts = {
            self.evaluated.store(0, Ordering::Relaxed);
            std::mem::take(&mut *scripts)
        };
        let all: Vec<_> = scripts.into_values().collect();
        all.iter().for_each(|script| self.forget(Some(script.clone())));
        all
    }

    /// O(scripts).
    pub fn totals(&self) -> Totals {
        let scripts = self.read();
        let restarts = scripts.values().map(|script| script.history.restarts()).sum::<u64>();
        Totals {
            scripts: scripts.len(),
            bytes: scripts.values().map(|script| script.memory()).sum(),
            evicted: self.evicted.load(Ordering::Relaxed),
            restarts: self.restarts.load(Ordering::Relaxed) + restarts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(n: usize) -> Script {
        let body = format!("return {n}");
        Script::new(sha_of(body.as_bytes()), body.as_bytes()).expect("a script")
    }

    #[test]
    fn the_hash_is_that_of_sha1sum() {
        assert_eq!(&sha_of(b"a").0, b"86f7e437faa5a7fce15d1ddcb9eaeaea377667b8");
    }

    #[test]
    fn the_least_recently_used_script_is_evicted() {
        let cache = Cache::default();
        let kept = cache.add(script(0), true);
        let first = cache.add(script(1), false);
        for n in 2..=MOST_EVALUATED {
            cache.add(script(n), false);
        }
        assert!(cache.find(&first.sha).is_some());
        assert_eq!(cache.totals().evicted, 0);
        let second = cache.find(&script(2).sha).expect("not evicted yet");
        cache.find(&first.sha);
        for n in 0..3 {
            cache.add(script(1000 + n), false);
        }
        assert_eq!(cache.totals().evicted, 3);
        assert!(first.is_live() && kept.is_live());
        assert!(second.is_live(), "it was used after the others");
        assert!(!cache.has(&script(3).sha));
        let all = cache.flush();
        assert_eq!(all.len(), MOST_EVALUATED + 1);
        assert!(!first.is_live() && cache.find(&first.sha).is_none());
    }

    /// Regression: only lookups counted as uses, and threads look a script up once.
    #[test]
    fn script_that_threads_use_is_not_evicted() {
        let cache = Cache::default();
        let hot = cache.add(script(0), false);
        for n in 1..3 * MOST_EVALUATED {
            let added = cache.add(script(n), false);
            assert!(added.is_live());
            hot.note_use();
        }
        assert!(hot.is_live());
        let all: Vec<_> = cache.read().values().cloned().collect();
        all.iter().for_each(|script| script.note_use());
        assert!(cache.add(script(5000), false).is_live());
    }
}
