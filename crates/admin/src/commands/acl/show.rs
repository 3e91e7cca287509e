//! ACL LIST, USERS, GETUSER, WHOAMI and CAT.

use weft_acl::{Selector, User};
use weft_command_spec::CATEGORIES;
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::core::ConnCx;
use weft_resp::Reply;

pub fn list(cx: &mut ConnCx<'_>) -> CmdResult {
    let users = cx.srv().access.users();
    cx.reply.array(users.iter().len());
    users.iter().for_each(|user| cx.reply.bulk(&user.line()));
    Ok(())
}

pub fn users(cx: &mut ConnCx<'_>) -> CmdResult {
    let users = cx.srv().access.users();
    cx.reply.array(users.iter().len());
    users.iter().for_each(|user| cx.reply.bulk(&user.name));
    Ok(())
}

pub fn whoami(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.reply.bulk(&cx.session.identity.user.name);
    Ok(())
}

pub fn getuser(cx: &mut ConnCx<'_>) -> CmdResult {
    match cx.srv().access.users().get(cx.args[2]) {
        Some(user) => describe(cx.reply, user),
        None => cx.reply.null(),
    }
    Ok(())
}

fn describe(reply: &mut Reply, user: &User) {
    reply.map(7);
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().iter().for_each(|password| reply.bulk(password.hex().as_bytes()));
    describe_selector(reply, user.root());
    reply.bulk(b"selectors");
    reply.array(user.selectors().len());
    for selector in user.selectors() {
        reply.map(4);
        describe_selector(reply, selector);
    }
}

fn describe_selector(reply: &mut Reply, selector: &Selector) {
    reply.bulk(b"commands");
    reply.bulk(selector.commands_text().as_bytes());
    reply.bulk(b"keys");
    reply.bulk(&selector.keys_text());
    reply.bulk(b"channels");
    reply.bulk(&selector.channels_text());
    reply.bulk(b"databases");
    reply.bulk(selector.databases_text().as_bytes());
}

pub fn cat(cx: &mut ConnCx<'_>) -> CmdResult {
    match *cx.args {
        [_, _] => {
            cx.reply.array(CATEGORIES.len());
            CATEGORIES.iter().for_each(|name| cx.reply.bulk(&name.as_bytes()[1..]));
        }
        [_, _, name] => {
            let names = cx.srv().access.catalog.names_in(name).ok_or_else(|| unknown(name))?;
            cx.reply.array(names.len());
            names.iter().for_each(|name| cx.reply.bulk(name.as_bytes()));
        }
        _ => return Err(crate::commands::acl::too_many(cx)),
    }
    Ok(())
}

fn unknown(category: &[u8]) -> Error {
    // The reference prints a C string.
    let shown = category.iter().take(128).take_while(|byte| **byte != 0);
    let mut text = b"ERR Unknown category '".to_vec();
    text.extend(shown);
    text.push(b'\'');
    Error::owned(text)
}
