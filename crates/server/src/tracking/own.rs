//! What a session knows of its own client's tracking: whether what it reads now is remembered.
//!
//! CLIENT CACHING is about the next command, or the transaction that it begins. The reference forgets
//! it at the end of a command; here that is found at the beginning of the next one, so that the end of
//! commands need not look for it.

use super::tracker::{Mode, Tracker};
use crate::dispatch::Cmd;
use std::sync::Arc;
use weft_commands::Flags;
use weft_keyspace::stale::NOBODY;

/// See the module.
#[derive(Clone, Debug)]
pub struct Own {
    pub tracker: Arc<Tracker>,
    /// CLIENT CACHING was called.
    caching: bool,
    /// For a command that has begun, which is not one of CLIENT's.
    spent: bool,
}

impl Own {
    pub fn new(tracker: Arc<Tracker>) -> Own {
        Own { tracker, caching: false, spent: false }
    }

    /// A command begins, outside of a transaction or in one that is being put together.
    pub fn begin(&mut self, cmd: Option<&Cmd>, in_transaction: bool) {
        if self.spent && !in_transaction {
            self.caching = false;
        }
        self.spent = !cmd.is_some_and(|cmd| cmd.full_name.starts_with("client|"));
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

    /// The reader that is to be remembered for the keys of `cmd`, if any is.
    pub fn reader(&self, cmd: &Cmd) -> Option<&Arc<Tracker>> {
        let flags = cmd.spec.flags;
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

    /// Its client, if that one does not want to be told of what it does itself.
    pub fn client(&self) -> u64 {
        if self.tracker.mode().has(Mode::NOLOOP) { self.tracker.client } else { NOBODY }
    }
}
