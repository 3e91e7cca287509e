//! COMMAND GETKEYS and GETKEYSANDFLAGS: find the keys of a request without executing it.

use crate::commands::introspection::info::key_flags_reply;
use weft_command_spec::{Begin, Flags, GetKeys, KeySpec, NOT_A_KEY, key_options};
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::absent;
use weft_executor::dispatch::core::ConnCx;
use weft_state::command_table::Cmd;

const NO_COMMAND: Error = Error::new("ERR Invalid command specified");
const NO_KEYS: Error = Error::new("ERR The command has no key arguments");
const BAD_COUNT: Error = Error::new("ERR Invalid number of arguments specified for command");
const BAD_ARGUMENTS: Error = Error::new("ERR Invalid arguments specified for command");

/// A key specification with this word describes the maximum that the command may do to the key.
const VARIABLE: &str = "VARIABLE_FLAGS";

/// A key among the arguments, and the words for the command's access to it.
struct Found<'a> {
    key: &'a [u8],
    flags: Vec<&'static str>,
}

pub fn keys(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.weigh_args()?;
    let found = find(cx)?;
    cx.reply.array(found.len());
    found.iter().for_each(|f| cx.reply.bulk(f.key));
    Ok(())
}

pub fn keys_and_flags(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.weigh_args()?;
    let found = find(cx)?;
    cx.reply.array(found.len());
    for f in found {
        cx.reply.array(2);
        cx.reply.bulk(f.key);
        key_flags_reply(cx.reply, &f.flags);
    }
    Ok(())
}

fn find<'a>(cx: &ConnCx<'a>) -> Result<Vec<Found<'a>>, Error> {
    let args = &cx.args[2..];
    let Some(cmd) = command_of(cx, args) else {
        // No missing command has keys.
        return Err(if absent::is_absent(args) { NO_KEYS } else { NO_COMMAND });
    };
    let specs = || cmd.spec.keys.iter().filter(|spec| !spec.flags.contains(&NOT_A_KEY));
    if specs().next().is_none() {
        return Err(NO_KEYS);
    }
    if !cmd.spec.fits(args.len()) {
        return Err(BAD_COUNT);
    }
    let mut found = Vec::new();
    let rule = cmd.spec.special.get_keys;
    for spec in specs() {
        // If two words name a destination, the last one counts. The code below finds it.
        if rule == GetKeys::GeoStore && matches!(spec.begin, Begin::Keyword { .. }) {
            continue;
        }
        // Where a command may omit these keys, as PFMERGE may, the reference reports an error.
        if matches!(spec.begin, Begin::Index(start) if usize::from(start) >= args.len()) {
            return Err(BAD_ARGUMENTS);
        }
        let flags = key_flags(cmd, spec, args);
        if rule == GetKeys::Migrate {
            // Which of its specifications applies depends on whether the key is empty.
            let keys = key_options::migrate_keys(args).ok_or(BAD_ARGUMENTS)?;
            found.extend(keys.map(|at| Found { key: args[at], flags: flags.clone() }));
            break;
        }
        let each = |at: usize| found.push(Found { key: args[at], flags: flags.clone() });
        let positions = spec.positions(args, each);
        // An invalid count of a script's keys names no keys.
        if positions.is_none() && !cmd.spec.flags.has(Flags::NO_MANDATORY_KEYS) {
            return Err(BAD_ARGUMENTS);
        }
    }
    // No key specification can describe the place of this key.
    let destination = match rule {
        GetKeys::Sort => key_options::sort_destination(args),
        GetKeys::GeoStore => key_options::geo_destination(args),
        GetKeys::BySpecs | GetKeys::Migrate | GetKeys::Set | GetKeys::Bitfield => None,
    };
    if let Some(at) = destination {
        found.push(Found { key: args[at], flags: vec!["OW", "UPDATE"] });
    }
    Ok(found)
}

/// The command or subcommand that a request with these arguments would run.
fn command_of(cx: &ConnCx<'_>, args: &[&[u8]]) -> Option<&'static Cmd> {
    let cmd = cx.srv().table.find(args[0])?;
    match args.get(1) {
        Some(name) if !cmd.subcommands.is_empty() => cmd.subcommand(name),
        _ => Some(cmd),
    }
}

fn key_flags(cmd: &Cmd, spec: &KeySpec, args: &[&[u8]]) -> Vec<&'static str> {
    match cmd.spec.special.get_keys {
        // The old value is read only on request.
        GetKeys::Set if key_options::set_reads(args) => vec!["RW", "ACCESS", "UPDATE"],
        GetKeys::Set => vec!["OW", "UPDATE"],
        GetKeys::Bitfield if key_options::bitfield_only_reads(args) => vec!["RO", "ACCESS"],
        _ => spec.flags.iter().copied().filter(|flag| *flag != VARIABLE).collect(),
    }
}
