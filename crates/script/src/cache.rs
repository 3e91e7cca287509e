//! The scripts of EVAL and SCRIPT LOAD, by their hashes.
//!
//! Threads keep what they have found ([`Script::is_live`]: whether it is still valid), so a lookup here is rare.

use crate::engine::Sha;
use crate::script::Script;
use sha1::{Digest, Sha1};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
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
    scripts: RwLock<Scripts>,
    /// Counts lookups, to order them.
    clock: AtomicU64,
    evicted: AtomicU64,
    flushes: AtomicU64,
    /// Restarts of scripts that are no longer here.
    restarts: AtomicU64,
}

#[derive(Debug, Default)]
struct Scripts {
    all: HashMap<Sha, Arc<Script>>,
    /// The scripts of EVAL among them: at most [`MOST_EVALUATED`] and one.
    evaluated: HashMap<Sha, Arc<Script>>,
    /// Scripts that were compared to find one to evict.
    #[cfg(test)]
    compared: usize,
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
    fn read(&self) -> RwLockReadGuard<'_, Scripts> {
        self.scripts.read().unwrap_or_else(|p| p.into_inner())
    }

    fn write(&self) -> RwLockWriteGuard<'_, Scripts> {
        self.scripts.write().unwrap_or_else(|p| p.into_inner())
    }

    fn touch(&self, script: &Script) {
        script.used.store(self.clock.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The script with this hash. Expected O(1).
    pub fn find(&self, sha: &Sha) -> Option<Arc<Script>> {
        let found = self.read().all.get(sha).cloned()?;
        self.touch(&found);
        Some(found)
    }

    pub fn has(&self, sha: &Sha) -> bool {
        self.read().all.contains_key(sha)
    }

    /// Changes with each [`Cache::flush`].
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// Adds a script that compiles, unless one with its hash is here; returns the one that is here then. `is_kept`: it
    /// comes from SCRIPT LOAD. Expected O(1); O([`MOST_EVALUATED`]) if it evicts one.
    pub fn add(&self, script: Script, is_kept: bool) -> Arc<Script> {
        let mut scripts = self.write();
        let sha = script.sha;
        let script = match scripts.all.get(&sha) {
            Some(present) => present.clone(),
            None => {
                let script = Arc::new(script);
                scripts.all.insert(sha, script.clone());
                scripts.evaluated.insert(sha, script.clone());
                script
            }
        };
        if is_kept {
            scripts.evaluated.remove(&sha);
        }
        script.is_live.store(true, Ordering::Release);
        if scripts.evaluated.len() > MOST_EVALUATED {
            self.touch_recent(&scripts.evaluated);
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
    fn evict(&self, scripts: &mut Scripts) {
        if scripts.evaluated.len() <= MOST_EVALUATED {
            return;
        }
        #[cfg(test)]
        {
            scripts.compared += scripts.evaluated.len();
        }
        let used = |script: &&Arc<Script>| script.used.load(Ordering::Relaxed);
        let Some(sha) = scripts.evaluated.values().min_by_key(used).map(|script| script.sha) else {
            return;
        };
        scripts.evaluated.remove(&sha);
        if let Some(script) = scripts.all.remove(&sha) {
            self.forget(&script);
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn forget(&self, script: &Script) {
        script.is_live.store(false, Ordering::Release);
        self.restarts.fetch_add(script.history.restarts(), Ordering::Relaxed);
    }

    /// Removes all scripts, and returns them: dropping them takes O(n).
    pub fn flush(&self) -> Vec<Arc<Script>> {
        let mut scripts = self.write();
        let Scripts { all, evaluated, .. } = std::mem::take(&mut *scripts);
        drop(evaluated);
        let all: Vec<_> = all.into_values().collect();
        all.iter().for_each(|script| self.forget(script));
        self.flushes.fetch_add(1, Ordering::Release);
        all
    }

    /// O(scripts).
    pub fn totals(&self) -> Totals {
        let scripts = &self.read().all;
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
    /// SCRIPT LOAD compares no scripts, however many there are. EVAL compares those of EVAL only.
    #[test]
    fn loaded_scripts_are_not_compared() {
        let cache = Cache::default();
        (0..MOST_EVALUATED).for_each(|n| drop(cache.add(script(n), false)));
        (1000..6000).for_each(|n| drop(cache.add(script(n), true)));
        assert_eq!(cache.read().compared, 0);
        cache.add(script(0), true);
        cache.add(script(6000), false);
        assert_eq!((cache.read().compared, cache.totals().evicted), (0, 0));
        cache.add(script(6001), false);
        assert_eq!((cache.read().compared, cache.totals().evicted), (MOST_EVALUATED + 1, 1));
        assert!(cache.has(&script(0).sha) && !cache.has(&script(1).sha));
    }

    /// Only the cache and running calls own texts, so that they are freed with them.
    #[test]
    fn flush_frees_the_scripts() {
        let cache = Cache::default();
        let seen: Vec<_> = [(1, true), (2, false)]
            .map(|(n, is_kept)| Arc::downgrade(&cache.add(script(n), is_kept)))
            .into();
        let flushes = cache.flushes();
        drop(cache.flush());
        assert!(seen.iter().all(|script| script.upgrade().is_none()));
        assert_ne!(cache.flushes(), flushes);
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
        let all: Vec<_> = cache.read().all.values().cloned().collect();
        all.iter().for_each(|script| script.note_use());
        assert!(cache.add(script(5000), false).is_live());
    }
}
