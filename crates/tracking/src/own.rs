//! A session's view of its own client's tracking: whether the keys that it reads now are tracked.
//!
//! CLIENT CACHING applies to the next command, or to the transaction that it begins. Valkey resets
//! it at the end of a command. Here it is reset at the beginning of the next one, so the end
//! of a command needs no check.

use crate::tracker::{Mode, Receiver, Tracker};
use std::sync::Arc;
use weft_command_spec::Flags;

/// The tracking state of a session.
#[derive(Debug)]
pub struct Own<C> {
    pub tracker: Arc<Tracker<C>>,
    /// CLIENT CACHING was called and still applies.
    caching: bool,
    /// A command other than CLIENT has begun since.
    command_began: bool,
}

impl<C> Clone for Own<C> {
    fn clone(&self) -> Self {
        let Own { tracker, caching, command_began } = self;
        Own { tracker: tracker.clone(), caching: *caching, command_began: *command_began }
    }
}

impl<C: Receiver> Own<C> {
    pub fn new(tracker: Arc<Tracker<C>>) -> Self {
        Own { tracker, caching: false, command_began: false }
    }

    /// Called when a command begins. `is_client_command` is set for CLIENT and its subcommands;
    /// `in_transaction` for commands of a transaction, also while it is queued.
    pub fn begin(&mut self, is_client_command: bool, in_transaction: bool) {
        if self.command_began && !in_transaction {
            self.caching = false;
        }
        self.command_began = !is_client_command;
    }

    /// Sets CLIENT CACHING for the next command.
    pub fn set_caching(&mut self) {
        (self.caching, self.command_began) = (true, false);
    }

    /// Ends CLIENT CACHING after the current command.
    pub fn spend(&mut self) {
        self.command_began = true;
    }

    pub fn is_caching(&self) -> bool {
        self.caching
    }

    /// The tracker that must be recorded as a reader for the keys of a command with these flags, if
    /// any.
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
