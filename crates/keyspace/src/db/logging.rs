//! What commands say for the log of effects.
//!
//! A command that has changed something is logged in the words of its client, unless it has said
//! what else is to be repeated ([`Db::log`]), or that nothing is ([`Db::log_nothing`]). Whoever calls
//! the function of a command calls [`Db::log_words`] behind it.

use super::Db;
use crate::keyspace::Key;
use crate::log::unit::{Args, Target};

impl Db<'_> {
    /// Whether what the command does is logged: to be asked before anything is made up for it. A look at a word on the line of a lock that is held.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.guard.is_logged()
    }

    /// Whether the present command has changed a key, and that is logged.
    #[inline]
    pub fn is_changed_for_log(&self) -> bool {
        self.turn.effects.log.touched
    }

    /// Logs a command of these words in the place of the client's; may be called again, for more of
    /// them. Does nothing where nothing is logged.
    pub fn log(&mut self, words: &[&[u8]]) {
        if self.is_logged() {
            self.turn.effects.push_words(self.index, Target::ALL, words);
            self.turn.effects.say_log();
        }
    }

    /// As [`Db::log`], with words that may be shared.
    #[cold]
    pub fn log_args(&mut self, words: &mut Args<'_, '_>) {
        if self.is_logged() {
            self.turn.effects.push_log(self.index, Target::ALL, words);
            self.turn.effects.say_log();
        }
    }

    /// Logs a command of these words for `target` alone, beside whatever the present one logs.
    pub fn log_for(&mut self, target: Target, words: &[&[u8]]) {
        if self.is_logged() {
            self.log_of(target, words);
        }
    }

    /// The present command is not logged, whatever it has changed.
    #[inline]
    pub fn log_nothing(&mut self) {
        if self.is_logged() {
            self.turn.effects.say_log();
        }
    }

    /// The present command is logged in its own words, were it that it has changed nothing.
    #[inline]
    pub fn log_anyway(&mut self) {
        if self.is_logged() {
            self.turn.effects.touch_log();
        }
    }

    /// Logs a command of the keyspace's own, in front of the words of the present one.
    pub(crate) fn log_of(&mut self, target: Target, words: &[&[u8]]) {
        self.turn.effects.push_words(self.index, target, words);
    }

    /// Logs that fields of the hash at `key` are gone, since their time was over; `emptied`: and the
    /// key with the last of them. It is said, too: whoever repeats it may see fields that were removed
    /// here in another way.
    pub(crate) fn log_expired_fields(&mut self, key: &Key<'_>, gone: &[Vec<u8>], emptied: bool) {
        let mut words = vec![&b"HDEL"[..], key.bytes];
        words.extend(gone.iter().map(Vec::as_slice));
        self.log_of(Target::ALL, &words);
        if emptied {
            let word = self.turn.deletions.expiry.word();
            self.log_of(Target::ALL, &[word, key.bytes]);
        }
        // It was no command.
        self.turn.effects.end_unlogged();
    }

    /// Panics, in builds with debug assertions, if the command that has just run, before which `dirty`
    /// changes were counted, counts more of them than are logged: it would be lost.
    #[inline]
    #[cfg_attr(not(debug_assertions), allow(unused_variables, reason = "checked in debug builds"))]
    pub fn check_logged(&self, dirty: u64) {
        #[cfg(debug_assertions)]
        {
            let log = &self.turn.effects.log;
            let counted = self.turn.tally.dirty != dirty;
            assert!(
                !counted || !self.is_logged() || log.touched || log.said,
                "a change is not logged"
            );
        }
    }

    /// After the function of a command has run: logs its `words`, if it has changed anything and said
    /// nothing else.
    #[cold]
    pub fn log_words(&mut self, words: &mut Args<'_, '_>) {
        if self.turn.effects.end_command_of_log() {
            self.turn.effects.push_log(self.index, Target::ALL, words);
        }
    }

    /// As [`Db::log_words`], of words none of which is to be shared.
    #[cold]
    pub fn log_copied_words(&mut self, words: &[&[u8]]) {
        if self.turn.effects.end_command_of_log() {
            self.turn.effects.push_words(self.index, Target::ALL, words);
        }
    }
}
