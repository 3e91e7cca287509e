//! How commands write to the effect log.
//!
//! A command that has changed a key is logged in the words of its client, unless it has logged
//! other words ([`Db::log`]) or nothing ([`Db::log_nothing`]). The caller of a command's function
//! calls [`Db::log_words`] after it.

use super::Db;
use crate::keyspace::Key;
use crate::log::unit::{Args, Target};

impl Db<'_> {
    /// Whether commands are logged. Check it before building words to log; it costs one load from
    /// the cache line of a held lock.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.guard.is_logged()
    }

    /// Whether the current command has changed a key and is logged.
    #[inline]
    pub fn is_changed_for_log(&self) -> bool {
        self.context.effects.log.touched
    }

    /// Logs a command of these words instead of the client's; each further call adds another
    /// command. Does nothing if nothing is logged.
    pub fn log(&mut self, words: &[&[u8]]) {
        if self.is_logged() {
            self.context.effects.push_words(self.index, Target::ALL, words);
            self.context.effects.override_log();
        }
    }

    /// As [`Db::log`], with words that may be shared.
    #[cold]
    pub fn log_args(&mut self, words: &mut Args<'_, '_>) {
        if self.is_logged() {
            self.context.effects.push_log(self.index, Target::ALL, words);
            self.context.effects.override_log();
        }
    }

    /// Logs a command of these words for `target` alone, in addition to the log of the current
    /// command.
    pub fn log_for(&mut self, target: Target, words: &[&[u8]]) {
        if self.is_logged() {
            self.log_before(target, words);
        }
    }

    /// Does not log the current command, whatever it has changed.
    #[inline]
    pub fn log_nothing(&mut self) {
        if self.is_logged() {
            self.context.effects.override_log();
        }
    }

    /// Logs the current command in its own words, even if it has changed nothing.
    #[inline]
    pub fn log_anyway(&mut self) {
        if self.is_logged() {
            self.context.effects.touch_log();
        }
    }

    /// Logs a command of the keyspace, before the words of the current command.
    pub(crate) fn log_before(&mut self, target: Target, words: &[&[u8]]) {
        self.context.effects.push_words(self.index, target, words);
    }

    /// Logs the removal of expired fields from the hash at `key`; with `emptied`, also that of
    /// the key itself. It is logged in words: a server that replays the log may see fields that
    /// were removed here in another way.
    pub(crate) fn log_expired_fields(&mut self, key: &Key<'_>, gone: &[Vec<u8>], emptied: bool) {
        let mut words = vec![&b"HDEL"[..], key.bytes];
        words.extend(gone.iter().map(Vec::as_slice));
        self.log_before(Target::ALL, &words);
        if emptied {
            let word = self.context.deletions.expiry.word();
            self.log_before(Target::ALL, &[word, key.bytes]);
        }
        // No command ran.
        self.context.effects.end_unlogged();
    }

    /// Panics, in builds with debug assertions, if the command that has just run counted changes
    /// but logged nothing: its changes would be lost. `dirty` is the count before the command.
    #[inline]
    #[cfg_attr(not(debug_assertions), allow(unused_variables, reason = "checked in debug builds"))]
    pub fn check_logged(&self, dirty: u64) {
        #[cfg(debug_assertions)]
        {
            let log = &self.context.effects.log;
            let counted = self.context.tally.dirty != dirty;
            assert!(
                !counted || !self.is_logged() || log.touched || log.overridden,
                "a change is not logged"
            );
        }
    }

    /// Call after the function of a command: logs its `words`, if it has changed a key and logged
    /// no other words.
    #[cold]
    pub fn log_words(&mut self, words: &mut Args<'_, '_>) {
        if self.context.effects.end_logged_command() {
            self.context.effects.push_log(self.index, Target::ALL, words);
        }
    }

    /// As [`Db::log_words`], for words that are copied and not shared.
    #[cold]
    pub fn log_copied_words(&mut self, words: &[&[u8]]) {
        if self.context.effects.end_logged_command() {
            self.context.effects.push_words(self.index, Target::ALL, words);
        }
    }
}
