//! ACL LOAD and SAVE, and the users at the start: the configuration file or the ACL file defines them, not both.

use crate::commands::acl::change::reply_unless_suspended;
use crate::commands::acl::policy;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::Path;
use weft_acl::{DEFAULT_USER, Users, file, has_invalid_bytes};
use weft_commands::{CmdResult, Error};
use weft_config::{Config, Disk, Files, Id};
use weft_executor::access::change::{change_users, finish_change};
use weft_executor::dispatch::core::ConnCx;
use weft_process::errors::words;
use weft_process::{log_notice, log_warning};
use weft_state::server::Server;

const NO_FILE: Error = Error::new(
    "ERR This instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
     command and then issue a CONFIG REWRITE (assuming you have a configuration file set) in order to store users \
     in the configuration.",
);
const NOT_SAVED: Error = Error::new(
    "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
);
const BOTH: &str = "Configuring Weft with users defined in the configuration file and at the same setting an ACL \
                    file path is invalid. This setup is very likely to lead to configuration errors and security \
                    holes, please define either an ACL file or declare users directly in your configuration file, \
                    but not both.";

/// The path of the ACL file.
fn path(srv: &Server) -> Result<String, Error> {
    match srv.config().str(Id::ACLFILE) {
        path if path.is_empty() => Err(NO_FILE),
        path => Ok(path.to_string()),
    }
}

pub fn load(cx: &mut ConnCx<'_>) -> CmdResult {
    if finish_change(cx).is_some() {
        cx.reply.ok();
        return Ok(());
    }
    let srv = cx.srv();
    let path = path(srv)?;
    change_users(cx, |before| {
        let users = read(srv, &path).map_err(|e| Error::owned([b"ERR ", &e[..]].concat()))?;
        Ok((users.keeping(before), 0))
    })?;
    reply_unless_suspended(cx, |cx| cx.reply.ok());
    Ok(())
}

/// The users of the ACL file.
fn read(srv: &Server, path: &str) -> Result<Users, Vec<u8>> {
    let text = std::fs::read(path).map_err(|e| {
        format!("Error loading ACLs, opening file '{path}': {}", words(&e)).into_bytes()
    })?;
    file::parse(policy(srv), path, &text)
}

pub fn save(cx: &mut ConnCx<'_>) -> CmdResult {
    let path = path(cx.srv())?;
    let text = file::write(&cx.srv().access.users());
    Disk.replace(Path::new(&path), &text).map_err(|e| {
        log_warning!("Writing ACL file for ACL SAVE: {}", words(&e));
        NOT_SAVED
    })?;
    cx.reply.ok();
    Ok(())
}

/// Puts the users of the configuration into force. Called once, before the first client.
///
/// # Errors
/// Why the server must not start, for the log and the terminal. The rules are not in it: they may be passwords.
pub fn load_at_start(srv: &Server, config: &Config) -> Result<(), String> {
    let (lines, path) = (config.statements(Id::USER), config.str(Id::ACLFILE));
    if !lines.is_empty() && !path.is_empty() {
        return Err(BOTH.into());
    }
    let mut users = srv.access.users();
    let mut names = BTreeSet::new();
    for words in lines {
        users = with_line(srv, &users, &mut names, words)
            .map_err(|e| format!("{e}\nCritical error while loading ACLs. Exiting."))?;
    }
    if !path.is_empty() {
        users = read(srv, &path).map_err(|e| {
            format!("Aborting Weft startup because of ACL errors: {}", String::from_utf8_lossy(&e))
        })?;
    }
    let Ok(_before) = srv.access.change(|_| Ok::<_, Infallible>(users));
    Ok(())
}

/// The users after a line `user NAME RULES` of the configuration file. `names` are the users of earlier lines.
fn with_line<'a>(
    srv: &Server,
    users: &Users,
    names: &mut BTreeSet<&'a [u8]>,
    words: &'a [Vec<u8>],
) -> Result<Users, String> {
    let [name, rules @ ..] = words else { return Ok(users.clone()) };
    let shown = String::from_utf8_lossy(name);
    if has_invalid_bytes(name) {
        return Err("Spaces not allowed in ACL usernames".into());
    }
    if !names.insert(name) {
        return Err(format!(
            "Error in user declaration '{shown}': Duplicate user found. A user can only be defined once in config \
             files"
        ));
    }
    // The default user exists before its line.
    let reset = (**name == *DEFAULT_USER).then_some(&b"reset"[..]);
    let rules: Vec<&[u8]> = reset.into_iter().chain(rules.iter().map(|rule| &rule[..])).collect();
    let users = users
        .set(policy(srv), name, &rules)
        .map_err(|e| format!("Error in user declaration '{shown}': {}", e.reason()))?;
    if users.get(name).is_some_and(|user| !user.enabled) {
        log_notice!(
            "The user '{shown}' is disabled (there is no 'on' modifier in the user description). Make sure this is \
             not a configuration error."
        );
    }
    Ok(users)
}
