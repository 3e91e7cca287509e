//! AUTH: checks a client's password, and makes the client act as the user.

use crate::commands::connection::{HANDSHAKE, plain};
use weft_acl::DEFAULT_USER;
use weft_command_spec::{Secrets, Spec, Special};
use weft_commands::{CmdResult, Error, error};
use weft_executor::access;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_state::access::{Identity, show_user};
use weft_state::command_table::NOTHING;
use weft_state::server::Server;
use weft_state::session::Session;

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
        [_, _] if cx.srv().access.users().default_user().nopass => return Err(NO_PASSWORD),
        [_, password] => authenticate(cx, DEFAULT_USER, password)?,
        [_, user, password] => authenticate(cx, user, password)?,
        _ => return Err(error::SYNTAX),
    }
    cx.reply.ok();
    Ok(())
}

/// Authenticates the session as `user`. On failure, the session keeps its state.
pub fn authenticate(cx: &mut ConnCx<'_>, user: &[u8], password: &[u8]) -> CmdResult {
    let users = cx.srv().access.users();
    let is_right = users.get(user).is_some_and(|user| user.accepts_password(password));
    let Some(identity) = cx.srv().access.identify(user).filter(|_| is_right) else {
        access::note_failed_login(cx, user);
        return Err(WRONG_PASS);
    };
    let srv = cx.srv();
    log_in(srv, cx.session, identity);
    Ok(())
}

/// Logs a session in as `user` without a password, because its certificate names that user. Returns
/// whether there is such a user, and it is enabled.
pub fn log_in_as(srv: &Server, session: &mut Session, user: &[u8]) -> bool {
    let Some(identity) = srv.access.identify(user).filter(|identity| identity.user.enabled) else {
        return false;
    };
    log_in(srv, session, identity);
    true
}

fn log_in(srv: &Server, session: &mut Session, identity: Identity) {
    srv.clients.unauthenticated.remove(session.shared.id);
    show_user(&session.shared, &identity);
    session.identity = identity;
}
