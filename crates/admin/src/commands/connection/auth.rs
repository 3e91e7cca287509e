//! AUTH: checks a client's password.
//!
//! There is one user, `default`. Its password is `requirepass`; without it, any password is
//! accepted.

use crate::commands::connection::{HANDSHAKE, plain};
use std::sync::atomic::Ordering;
use weft_command_spec::{Secrets, Spec, Special};
use weft_commands::{CmdResult, Error, error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_state::command_table::NOTHING;
use weft_state::server::Server;
use weft_state::session::Session;

/// The user of every connection.
pub const DEFAULT_USER: &str = "default";

const WRONG_PASS: Error =
    Error::new("WRONGPASS invalid username-password pair or user is disabled.");
const NO_PASSWORD: Error = Error::new(
    "ERR AUTH <password> called without any password configured for the default user. Are you \
     sure your configuration is correct?",
);

pub const AUTH: ServerCommand = ServerCommand {
    spec: Spec {
        complexity: "O(N) where N is the number of the user's passwords",
        history: &[("6.0.0", "Takes a user name before the password.")],
        special: Special::secrets(Secrets::AllArguments),
        ..plain(
            "auth",
            -2,
            HANDSHAKE,
            "1.0.0",
            "Authenticates the connection.",
            "[username]@6.0.0 password",
            auth,
        )
        .spec
    },
    needs: NOTHING,
    run: auth,
    subcommands: &[],
};

fn auth(cx: &mut ConnCx<'_>) -> CmdResult {
    match cx.args {
        [_, _] if cx.srv().settings().auth.password.is_empty() => return Err(NO_PASSWORD),
        [_, password] => authenticate(cx, DEFAULT_USER.as_bytes(), password)?,
        [_, user, password] => authenticate(cx, user, password)?,
        _ => return Err(error::SYNTAX),
    }
    cx.reply.ok();
    Ok(())
}

/// Authenticates the session as `user`. On failure, the session keeps its state.
pub fn authenticate(cx: &mut ConnCx<'_>, user: &[u8], password: &[u8]) -> CmdResult {
    // Not the thread's cached settings: CONFIG SET may be in the same batch.
    let settings = cx.srv().settings();
    let wanted = &settings.auth.password;
    let known = wanted.is_empty() || same_bytes(wanted, password);
    if user != DEFAULT_USER.as_bytes() || !known {
        cx.srv().statistics.totals.acl_denied_auth.fetch_add(1, Ordering::Relaxed);
        return Err(WRONG_PASS);
    }
    let srv = cx.srv();
    log_in_as(srv, cx.session, user);
    Ok(())
}

/// Logs a session in as `user` without a password, because its certificate names that user. Returns
/// whether there is such a user. Users of ACL are looked up here.
pub fn log_in_as(srv: &Server, session: &mut Session, user: &[u8]) -> bool {
    if user != DEFAULT_USER.as_bytes() {
        return false;
    }
    if !session.authenticated {
        srv.clients.unauthenticated.remove(session.shared.id);
    }
    session.authenticated = true;
    session.shared.options.authenticated.store(true, Ordering::Relaxed);
    true
}

/// Compares in a time that does not depend on where the two differ.
fn same_bytes(secret: &[u8], given: &[u8]) -> bool {
    let mut differences = secret.len() ^ given.len();
    for (i, byte) in given.iter().enumerate() {
        // An empty secret never gets here. The index only has to stay within the secret.
        differences |= usize::from(secret[i % secret.len()] ^ byte);
    }
    std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::same_bytes;

    #[test]
    fn same_bytes_accepts_only_equal_passwords() {
        assert!(same_bytes(b"secret", b"secret"));
        for other in [&b""[..], b"s", b"secres", b"Secret", b"secretsecret", b"secret\0"] {
            assert!(!same_bytes(b"secret", other), "{other:?}");
        }
    }
}
