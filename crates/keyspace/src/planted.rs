//! Faults, to show that the history checker finds them. Only a build with the feature `planted` has them. The extension
//! of the program's name chooses one.

use crate::guard::Guard;
use std::cell::Cell;
use std::sync::OnceLock;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `race`: other commands run between the commands of EXEC.
    Race,
    /// `stale`: a client is recorded as a reader of a key too late.
    Stale,
    /// `undo`: a script that starts over restores all records but one.
    Undo,
    /// `release`: undeclared shards are released after each command.
    Release,
    /// `left-out`: a script that holds all shards after its last restart doesn't hold one of those it has waited for.
    LeftOut,
}

/// Whether this server has the fault.
#[inline(always)]
pub fn is(fault: Fault) -> bool {
    cfg!(feature = "planted") && *chosen() == Some(fault)
}

fn chosen() -> &'static Option<Fault> {
    static CHOSEN: OnceLock<Option<Fault>> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let program = std::env::current_exe().unwrap_or_default();
        match program.extension()?.to_str()? {
            "race" => Some(Fault::Race),
            "stale" => Some(Fault::Stale),
            "undo" => Some(Fault::Undo),
            "release" => Some(Fault::Release),
            "left-out" => Some(Fault::LeftOut),
            _ => None,
        }
    })
}

thread_local! {
    static LEFT_OUT: Cell<Option<u16>> = const { Cell::new(None) };
}

/// The script that this thread runs next has waited for `shard`.
#[inline(always)]
pub fn leave_out(shard: impl FnOnce() -> Option<u16>) {
    if is(Fault::LeftOut) {
        LEFT_OUT.set(shard());
    }
}

impl Guard<'_> {
    /// After a command of a script that used `shard`: releases the shard for a moment, if a fault says so. It is held
    /// again when the next command runs, so that memory stays safe. This can't deadlock: threads wait here for locks
    /// that others have taken since, and a waiting thread takes none.
    #[inline(always)]
    pub fn let_others_in(&self, shard: u16, is_declared: bool, may_restart: bool) {
        let is_planted = match may_restart {
            true => is(Fault::Release) && !is_declared,
            false => is(Fault::LeftOut) && LEFT_OUT.get() == Some(shard),
        };
        if is_planted && !self.is_world() {
            self.release_for_a_moment(shard);
        }
    }

    #[cold]
    fn release_for_a_moment(&self, shard: u16) {
        self.keyspace().release(shard);
        // Long enough to wake a client that waits for the shard.
        std::thread::sleep(std::time::Duration::from_millis(1));
        while !self.keyspace().locks[usize::from(shard)].try_lock() {
            std::thread::yield_now();
        }
    }
}
