//! Reasons to refuse or delay a command that several stages check.

use crate::dispatch::core::Core;
use std::sync::atomic::Ordering;
use weft_command_spec::Flags;
use weft_commands::Error;
use weft_state::attention;
use weft_state::pause::PauseMode;

pub const LOADING: Error = Error::new("LOADING Weft is loading the dataset in memory");

pub const READ_ONLY: Error = Error::new("READONLY You can't write against a read only replica.");

/// Whether this server is a read-only replica, and the flags are those of a write.
pub fn is_refused_write(core: &Core, flags: Flags) -> bool {
    let attention = core.srv.attention.load(Ordering::Relaxed);
    attention & attention::REPLICA != 0
        && core.settings.replica.is_read_only
        && flags.has(Flags::WRITE)
}

/// Checks a command again after it has waited for its shards: the server may have become a replica since, or have
/// begun to load a full sync.
///
/// `loads`: the command may run while a full sync is loaded.
///
/// # Errors
/// The command must not run.
pub fn admit_again(core: &Core, flags: Flags, loads: bool) -> Result<(), Error> {
    let attention = core.srv.attention.load(Ordering::Relaxed);
    if attention & attention::REPLICA == 0 {
        return Ok(());
    }
    if is_refused_write(core, flags) {
        return Err(READ_ONLY);
    }
    if attention & attention::LOADING != 0 && !loads {
        return Err(LOADING);
    }
    Ok(())
}

/// The flags of commands that a pause of writes delays.
const CHANGES: Flags = Flags::WRITE.or(Flags::MAY_REPLICATE).or(Flags::REPLICATES_UNFLAGGED);

/// Whether CLIENT PAUSE delays a command with these flags.
pub fn is_paused(core: &Core, flags: Flags) -> bool {
    if !core.srv.is_paused() {
        return false;
    }
    match core.srv.clients.pause.in_force(core.srv.mono_ms()) {
        None => false,
        Some((PauseMode::All, _)) => true,
        Some((PauseMode::Write, _)) => flags.has(CHANGES),
    }
}

/// The error of an EXEC that is refused because of `e`.
pub fn aborted(e: &Error) -> Error {
    let why = e.0.strip_prefix(b"ERR ").unwrap_or(&e.0);
    Error::owned([b"EXECABORT Transaction discarded because of: ", why].concat())
}
