//! ACL DRYRUN: checks a command as if a user had sent it.

use weft_acl::Request;
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::core::ConnCx;

pub fn dry_run(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.weigh_args()?;
    let (access, args) = (&cx.srv().access, &cx.args[3..]);
    let users = access.users();
    let user = users.get(cx.args[2]).ok_or_else(|| not_found("User", cx.args[2]))?;
    let catalog = &access.catalog;
    let found = catalog.number_of(args).and_then(|n| Some((n, catalog.spec(n)?)));
    let (command, spec) = found.ok_or_else(|| not_found("Command", args[0]))?;
    let name = catalog.full_name(command);
    if !spec.fits(args.len()) {
        let text = format!("ERR wrong number of arguments for '{name}' command");
        return Err(Error::owned(text));
    }
    match user.check(catalog, &Request { command, args, database: cx.session.db }) {
        Ok(()) => cx.reply.ok(),
        Err(denied) => cx.reply.bulk(&denied.text(&user.name, name, args)),
    }
    Ok(())
}

fn not_found(what: &str, name: &[u8]) -> Error {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Error::owned([b"ERR ", what.as_bytes(), b" '", name, b"' not found"].concat())
}
