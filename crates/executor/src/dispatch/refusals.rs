//! Reasons to refuse or delay a command that several stages check.

use crate::cluster::errors::is_redirect;
use crate::dispatch::absent;
use crate::dispatch::core::Core;
use std::sync::atomic::Ordering;
use weft_command_spec::{Flags, Protection};
use weft_commands::Error;
use weft_config::Id;
use weft_state::attention;
use weft_state::clients::ClientShared;
use weft_state::command_table::Cmd;
use weft_state::pause::PauseMode;
use weft_state::server::Server;
use weft_state::session::Session;

pub const LOADING: Error = Error::new("LOADING Weft is loading the dataset in memory");

pub const UNSAVED: Error = Error::new(
    "MISCONF Weft is configured to save RDB snapshots, but it's currently unable to persist to \
     disk. Commands that may modify the data set are disabled, because this instance is configured \
     to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error \
     option). Please check the Weft logs for details about the RDB error.",
);

pub const OOM: Error = Error::new("OOM command not allowed when used memory > 'maxmemory'.");

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

/// The error of an EXEC that is refused because of `e`. A cluster's client must see a redirect as it is.
pub fn aborted(e: &Error) -> Error {
    if is_redirect(e) {
        return e.clone();
    }
    let why = e.0.strip_prefix(b"ERR ").unwrap_or(&e.0);
    Error::owned([b"EXECABORT Transaction discarded because of: ", why].concat())
}

/// Bytes of a name, and of all arguments together, that an error message shows at most.
pub const SHOWN: usize = 128;

/// The first `room` bytes of `arg`, up to the first NUL: the reference prints C strings.
pub fn head(arg: &[u8], room: usize) -> &[u8] {
    let end = arg.iter().take(room).position(|b| *b == 0).unwrap_or(arg.len().min(room));
    &arg[..end]
}

/// Whether a directive with the values `no`, `yes` and `local` permits something to this client.
pub fn is_permitted(client: &ClientShared, word: &str) -> bool {
    match word {
        "yes" => true,
        "local" => is_local(client),
        _ => false,
    }
}

/// Whether a client is on this machine: connected over a unix socket or the loopback interface.
fn is_local(client: &ClientShared) -> bool {
    let ip =
        || client.origin.peer.parse::<std::net::SocketAddr>().ok().map(|at| at.ip().to_canonical());
    client.origin.unix || ip().is_some_and(|ip| ip.is_loopback())
}

/// Checks a command before it is queued or runs.
///
/// # Errors
/// `enable-debug-command` or `enable-module-command` doesn't permit it to this client.
#[inline]
pub fn check_protection(
    srv: &Server,
    client: &ClientShared,
    protection: Protection,
) -> Result<(), Error> {
    match protection {
        Protection::None => Ok(()),
        Protection::Debug | Protection::Module => check_permission(srv, client, protection),
    }
}

#[cold]
fn check_permission(
    srv: &Server,
    client: &ClientShared,
    protection: Protection,
) -> Result<(), Error> {
    let (id, name) = match protection {
        Protection::None => return Ok(()),
        Protection::Debug => (Id::ENABLE_DEBUG_COMMAND, "DEBUG"),
        Protection::Module => (Id::ENABLE_MODULE_COMMAND, "MODULE"),
    };
    if is_permitted(client, srv.config().word(id)) {
        return Ok(());
    }
    Err(Error::owned(format!(
        "ERR {name} command not allowed. If the {} option is set to \"local\", you can run it from a \
         local connection, otherwise you need to set this option in the configuration file, and then \
         restart the server.",
        id.name()
    )))
}

/// The error of a RESP2 client with subscriptions.
#[cold]
pub fn restricted(full_name: &[u8]) -> Error {
    Error::owned(format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
         allowed in this context",
        String::from_utf8_lossy(full_name)
    ))
}

/// The error of a request for a subcommand that `cmd` does not have.
#[cold]
pub fn unknown_subcommand(srv: &Server, session: &Session, cmd: &Cmd, args: &[&[u8]]) -> Error {
    let name = args[1];
    if let Some(absent) = absent::subcommand(cmd.spec.name, name, srv.is_in_cluster()) {
        if session.is_restricted() {
            let full_name = [cmd.spec.name.as_bytes(), b"|", name].concat();
            return restricted(&full_name.to_ascii_lowercase());
        }
        return absent;
    }
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(head(name, SHOWN));
    text.extend_from_slice(b"'. Try ");
    // A renamed command by the name that the client knows.
    text.extend(args[0].to_ascii_uppercase());
    text.extend_from_slice(b" HELP.");
    Error::owned(text)
}
