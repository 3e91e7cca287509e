//! CLIENT ID, GETNAME, SETNAME, SETINFO: a client's id, name and library.

use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::core::ConnCx;
use weft_state::clients::ClientShared;

const BAD_NAME: Error =
    Error::new("ERR Client names cannot contain spaces, newlines or special characters.");

/// Names appear in the lines of CLIENT LIST, so they must not break a line or a field.
fn is_printable(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_graphic)
}

/// Whether a client may have this name.
pub fn check_name(name: &[u8]) -> CmdResult {
    is_printable(name).then_some(()).ok_or(BAD_NAME)
}

/// Sets a name that was checked; an empty name removes it.
pub fn set_name(client: &ClientShared, name: &[u8]) {
    client.change_names(|names| names.name = name.to_vec());
}

pub fn id(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.reply.int(cx.session.shared.id as i64);
    Ok(())
}

pub fn getname(cx: &mut ConnCx<'_>) -> CmdResult {
    let reply = &mut *cx.reply;
    cx.session.shared.with_names(|names| match names.name.as_slice() {
        [] => reply.null(),
        name => reply.bulk(name),
    });
    Ok(())
}

pub fn setname(cx: &mut ConnCx<'_>) -> CmdResult {
    check_name(cx.args[2])?;
    set_name(&cx.session.shared, cx.args[2]);
    cx.reply.ok();
    Ok(())
}

pub fn setinfo(cx: &mut ConnCx<'_>) -> CmdResult {
    let (option, value) = (cx.args[2], cx.args[3]);
    let is_name = cx.is(2, "lib-name");
    if !is_name && !cx.is(2, "lib-ver") {
        return Err(Error::owned([b"ERR Unrecognized option '", option, b"'"].concat()));
    }
    if !is_printable(value) {
        let why = b" cannot contain spaces, newlines or special characters.";
        return Err(Error::owned([b"ERR ", option, &why[..]].concat()));
    }
    cx.session.shared.change_names(|names| match is_name {
        true => names.lib_name = value.to_vec(),
        false => names.lib_version = value.to_vec(),
    });
    cx.reply.ok();
    Ok(())
}
