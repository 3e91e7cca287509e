//! COMMAND INFO: the facts that clients and proxies need to route a command.

use crate::commands::introspection::named;
use std::sync::OnceLock;
use weft_command_spec::{Begin, Find, Flags, KeySpec};
use weft_commands::CmdResult;
use weft_executor::dispatch::core::ConnCx;
use weft_resp::{Blob, Proto, Reply};
use weft_state::command_table::{Cmd, CommandTable};

/// COMMAND without a subcommand. Clients send it when they connect. The reply is long and never
/// changes, so it is built once for each protocol.
pub fn all(cx: &mut ConnCx<'_>) -> CmdResult {
    static ANSWERS: [OnceLock<Blob>; 2] = [const { OnceLock::new() }; 2];
    let proto = cx.reply.proto;
    let answer = match proto {
        Proto::Resp2 => &ANSWERS[0],
        Proto::Resp3 => &ANSWERS[1],
    };
    let made = answer.get_or_init(|| {
        let mut reply = Reply::new(proto);
        answer_in(&mut reply, &cx.srv().table, &[]);
        Blob::new(reply.slices(0, usize::MAX).concat())
    });
    // Bytes from which on the reply is shared instead of copied.
    const SHARED: usize = 16 << 10;
    cx.reply.raw_shared(made, SHARED);
    Ok(())
}

pub fn info(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.weigh_args()?;
    let table = &cx.srv().table;
    answer_in(cx.reply, table, &cx.args[2..]);
    Ok(())
}

fn answer_in(reply: &mut Reply, table: &CommandTable, names: &[&[u8]]) {
    let found: Vec<_> = named(table, names).collect();
    reply.array(found.len());
    for cmd in found {
        match cmd {
            Some(cmd) => describe(reply, cmd),
            None => reply.null(),
        }
    }
}

fn describe(reply: &mut Reply, cmd: &Cmd) {
    let spec = cmd.spec;
    reply.array(10);
    reply.bulk(cmd.full_name.as_bytes());
    reply.int(i64::from(spec.arity));
    let flags = Flags::ALL.iter().filter(|(flag, _)| spec.flags.has(*flag));
    let flags: Vec<&str> = flags.map(|(_, name)| *name).collect();
    words(reply, &flags);
    let (first, last, step) = weft_command_spec::legacy_range(spec.keys);
    [first, last, step].iter().for_each(|n| reply.int(*n));
    words(reply, &spec.categories(!cmd.subcommands.is_empty()));
    reply.set(spec.tips.len());
    spec.tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(spec.keys.len());
    spec.keys.iter().for_each(|key| key_spec(reply, key));
    reply.array(cmd.subcommands.len());
    cmd.subcommands.iter().for_each(|sub| describe(reply, sub));
}

/// A set of status replies.
fn words(reply: &mut Reply, words: &[&str]) {
    reply.set(words.len());
    words.iter().for_each(|word| reply.simple(word));
}

/// The words of a key specification: the access (RO, RW, OW, RM) in upper case, its purpose in
/// lower case.
pub fn key_flags_reply(reply: &mut Reply, flags: &[&str]) {
    reply.set(flags.len());
    for flag in flags {
        match flag.len() {
            2 => reply.simple(flag),
            _ => reply.simple(&flag.to_ascii_lowercase()),
        }
    }
}

fn key_spec(reply: &mut Reply, key: &KeySpec) {
    reply.map(3 + usize::from(!key.notes.is_empty()));
    if !key.notes.is_empty() {
        reply.bulk(b"notes");
        reply.bulk(key.notes.as_bytes());
    }
    reply.bulk(b"flags");
    key_flags_reply(reply, key.flags);
    reply.bulk(b"begin_search");
    begin_search(reply, key.begin);
    reply.bulk(b"find_keys");
    find_keys(reply, key.find);
}

fn begin_search(reply: &mut Reply, begin: Begin) {
    match begin {
        Begin::Index(index) => {
            typed(reply, "index", 1);
            field(reply, "index", i64::from(index));
        }
        Begin::Keyword { word, start } => {
            typed(reply, "keyword", 2);
            reply.bulk(b"keyword");
            reply.bulk(word.as_bytes());
            field(reply, "startfrom", i64::from(start));
        }
        Begin::Unknown => typed(reply, "unknown", 0),
    }
}

fn find_keys(reply: &mut Reply, find: Find) {
    match find {
        Find::Range { last, step, limit } => {
            typed(reply, "range", 3);
            field(reply, "lastkey", i64::from(last));
            field(reply, "keystep", i64::from(step));
            field(reply, "limit", i64::from(limit));
        }
        Find::KeyNum { num, first, step } => {
            typed(reply, "keynum", 3);
            field(reply, "keynumidx", i64::from(num));
            field(reply, "firstkey", i64::from(first));
            field(reply, "keystep", i64::from(step));
        }
        Find::Unknown => typed(reply, "unknown", 0),
    }
}

/// Starts a map with a type and `fields` fields of its specification.
fn typed(reply: &mut Reply, kind: &str, fields: usize) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(fields);
}

fn field(reply: &mut Reply, name: &str, value: i64) {
    reply.bulk(name.as_bytes());
    reply.int(value);
}
