//! ACL SETUSER and DELUSER.

use crate::commands::acl::policy;
use weft_acl::{DEFAULT_USER, has_invalid_bytes};
use weft_commands::{CmdResult, Error};
use weft_executor::access::change::{change_users, finish_change};
use weft_executor::dispatch::core::ConnCx;

const BAD_NAME: Error = Error::new("ERR Usernames can't contain spaces or null characters");
const KEEPS_DEFAULT: Error = Error::new("ERR The 'default' user cannot be removed");

pub fn setuser(cx: &mut ConnCx<'_>) -> CmdResult {
    if finish_change(cx).is_some() {
        cx.reply.ok();
        return Ok(());
    }
    let (srv, name, rules) = (cx.srv(), cx.args[2], &cx.args[3..]);
    if has_invalid_bytes(name) {
        return Err(BAD_NAME);
    }
    change_users(cx, |users| {
        let users = users.set(policy(srv), name, rules);
        users.map(|users| (users, 0)).map_err(|e| Error::owned([b"ERR ", &e.text()[..]].concat()))
    })?;
    reply_unless_suspended(cx, |cx| cx.reply.ok());
    Ok(())
}

pub fn deluser(cx: &mut ConnCx<'_>) -> CmdResult {
    if let Some(deleted) = finish_change(cx) {
        cx.reply.int(deleted as i64);
        return Ok(());
    }
    let names = &cx.args[2..];
    if names.contains(&DEFAULT_USER) {
        return Err(KEEPS_DEFAULT);
    }
    let mut deleted = 0;
    change_users(cx, |users| {
        let mut users = users.clone();
        for name in names {
            if let Some(others) = users.delete(name) {
                users = others;
                deleted += 1;
            }
        }
        Ok::<_, Error>((users, deleted))
    })?;
    reply_unless_suspended(cx, |cx| cx.reply.int(deleted as i64));
    Ok(())
}

/// Replies now, unless the command must wait for commands that run under the old rights.
pub fn reply_unless_suspended(cx: &mut ConnCx<'_>, reply: impl FnOnce(&mut ConnCx<'_>)) {
    if cx.suspend.is_none() {
        reply(cx);
    }
}
