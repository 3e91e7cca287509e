//! What a session knows of its own client's tracking: whether what it reads now is remembered.
//!
//! CLIENT CACHING is about the next command, or the transaction that it begins. The reference forgets
//! it at the end of a command; here that is found at the beginning of the next one, so that the end of
//! commands need not look for it.

use crate::tracker::{Mode, Receiver, Tracker};
use std::sync::Arc;
use weft_commands::Flags;

/// See the module.
#[derive(Debug)]
pub struct Own<C> {
    pub tracker: Arc<Tracker<C>>,
    /// CLIENT CACHING was called.
    caching: bool,
    /// For a command that has begun, which is not one of CLIENT's.
    spent: bool,
}

impl<C> Clone for Own<C> {
    fn clone(&self) -> Self {
        let Own { tracker, caching, spent } = self;
        Own { tracker: tracker.clone(), caching: *caching, spent: *spent }
    }
}

impl<C: Receiver> Own<C> {
    pub fn new(tracker: Arc<Tracker<C>>) -> Self {
        Own { tracker, caching: false, spent: false }
    }

    /// A command begins (one of CLIENT's: `is_client_command`), outside of a transaction or in one that is being put together.
    pub fn begin(&mut self, is_client_command: bool, in_transaction: bool) {
        if self.spent && !in_transaction {
            self.caching = false;
        }
        self.spent = !is_client_command;
    }

    /// CLIENT CACHING is for the next command.
    pub fn set_caching(&mut self) {
        (self.caching, self.spent) = (true, false);
    }

    /// It is no more for what comes behind the present command.
    pub fn spend(&mut self) {
        self.spent = true;
    }

    pub fn is_caching(&self) -> bool {
        self.caching
    }

    /// The reader that is to be remembered for the keys of a command with these flags, if any is.
    pub fn reader(&self, flags: Flags) -> Option<&Arc<Tracker<C>>> {
        let mode = self.tracker.mode();
        let reads = flags.has(Flags::READONLY) && !flags.has(Flags::PUBSUB);
        let wanted = match (mode.has(Mode::OPTIN), mode.has(Mode::OPTOUT)) {
            (true, _) => self.caching,
            (false, true) => !self.caching,
            (false, false) => true,
        };
        let is = reads && wanted && mode.has(Mode::ON) && !mode.has(Mode::BCAST);
        is.then_some(&self.tracker)
    }
}
