//! MIGRATE: moves keys to another server.
//!
//! The command holds the keys' shards from before the first read until the other server has
//! replied. So no client sees a key on both servers or on neither, and no write is lost. The
//! reference guarantees the same, but blocks all its clients meanwhile. Here only clients that need
//! one of these shards wait, parked, while their threads serve other clients. A thread of the slow
//! lane waits for the other server, never a thread that serves clients.
//!
//! Each call opens a new connection and closes it. Every step on it (connect, write, read) ends
//! after the timeout and fails the command.
//!
//! Two servers that migrate keys of one shard to each other at the same time block each other until
//! one times out.

mod link;
mod request;

use crate::migrate::request::Request;
use crate::payload;
use std::io::ErrorKind;
use weft_command_spec::{Begin, Find, Flags, GetKeys, Group, KeySpec, Secrets, Spec, Special};
use weft_commands::{CmdResult, Command, Ctx, Error, Lock};
use weft_keyspace::Classes;
use weft_types::string::Digits;

pub use link::{Link, encrypt_links};
pub use request::keys;

const FLAGS: &[&str] = &["RW", "ACCESS", "DELETE"];

pub const MIGRATE: Command = Command {
    spec: Spec {
        name: "migrate",
        arity: -6,
        flags: Flags::WRITE.or(Flags::MOVABLE_KEYS).or(Flags::WAITS_FOR_SERVER),
        keys: &[
            KeySpec {
                flags: FLAGS,
                begin: Begin::Index(3),
                find: Find::Range { last: 0, step: 1, limit: 0 },
                notes: "",
            },
            KeySpec {
                flags: &["RW", "ACCESS", "DELETE", "INCOMPLETE"],
                begin: Begin::Keyword { word: "KEYS", start: -2 },
                find: Find::Range { last: -1, step: 1, limit: 0 },
                notes: "",
            },
        ],
        acl: &["@dangerous"],
        group: Group::Generic,
        since: "2.6.0",
        summary: "Moves keys to another server.",
        complexity: "O(N) for values of N bytes sent to the other server.",
        syntax: "host port:integer key-selector=(key|empty-string=\"\") destination-db:integer \
                 timeout:integer [copy=COPY]@3.0.0 [replace=REPLACE]@3.0.0 \
                 [authentication=(AUTH auth<password>@4.0.7|AUTH2 auth2=(username password)@6.0.0)] \
                 [KEYS keys:key...<key>@3.0.6]",
        history: &[
            ("3.0.0", "The options COPY and REPLACE."),
            ("3.0.6", "The option KEYS."),
            ("4.0.7", "The option AUTH."),
            ("6.0.0", "The option AUTH2."),
        ],
        tips: &["nondeterministic_output"],
        special: Special { secrets: Secrets::Migrate, ..Special::get_keys(GetKeys::Migrate) },
    },
    lock: Lock::Named(|args| Some(keys(args).unwrap_or_default())),
    run: migrate,
    subcommands: &[],
};

const NO_CONNECTION: Error = Error::new("IOERR error or timeout connecting to the client");
const NOT_WRITTEN: Error = Error::new("IOERR error or timeout writing to target instance");
const NOT_READ: Error = Error::new("IOERR error or timeout reading to target instance");

/// The number of keys sent before their replies are read. Unread replies would fill both socket
/// buffers, and the servers would deadlock.
const WINDOW: usize = 256;

fn migrate(ctx: &mut Ctx<'_>) -> CmdResult {
    let request = Request::parse(ctx.args)?;
    let exists = |at: &usize| {
        let key = ctx.key(*at);
        ctx.db.read(&key).is_some()
    };
    let found: Vec<usize> = request.keys.iter().copied().filter(exists).collect();
    if found.is_empty() {
        ctx.reply.simple("NOKEY");
        return Ok(());
    }
    // Even a small transfer may take as long as the timeout.
    ctx.weigh(usize::MAX)?;
    let mut deleted = vec![&b"DEL"[..]];
    let result = send_all(ctx, &request, &found, &mut deleted);
    // Keys that the other server has taken are deleted here, even if a later step failed.
    if deleted.len() > 1 {
        ctx.log(&deleted);
    }
    result
}

/// Sends the keys at these arguments, and deletes the keys that the other server took. Adds their
/// names to `deleted`.
fn send_all<'a>(
    ctx: &mut Ctx<'a>,
    request: &Request<'_>,
    found: &[usize],
    deleted: &mut Vec<&'a [u8]>,
) -> CmdResult {
    let mut link = match Link::open(request.host, request.port, request.timeout) {
        Ok(link) => link,
        // The reference detects this only when it writes.
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => return Err(NOT_WRITTEN),
        Err(_) => return Err(NO_CONNECTION),
    };
    let mut taken = Vec::new();
    let ended = send_in_windows(ctx, &mut link, request, found, &mut taken);
    // Only after all were sent: a key may be named twice.
    for at in taken.into_iter().filter(|_| !request.copy) {
        let key = ctx.key(at);
        if ctx.db.delete(&key) {
            ctx.notify(Classes::GENERIC, "del", &key);
            deleted.push(ctx.args[at]);
        }
        ctx.dirty();
    }
    ended?;
    ctx.reply.ok();
    Ok(())
}

/// Sends these keys to the other server and adds those that it took to `taken`. The error is the
/// first error reply, or a connection error.
fn send_in_windows(
    ctx: &mut Ctx<'_>,
    link: &mut Link,
    request: &Request<'_>,
    keys: &[usize],
    taken: &mut Vec<usize>,
) -> CmdResult {
    let (mut refused, mut misdirected) = (None, false);
    let mut greeting = request.greeting();
    for keys in keys.chunks(WINDOW) {
        let greetings = std::mem::take(&mut greeting);
        send(ctx, link, request, &greetings, keys).map_err(|_| NOT_WRITTEN)?;
        for _ in &greetings {
            note_error(&mut refused, link.answer().map_err(|_| NOT_READ)?);
        }
        // After an error reply to AUTH or SELECT, the keys went to the wrong place and stay here.
        // The error for one key says nothing about the others: a key whose own reply is OK exists
        // there and must be deleted here.
        misdirected |= refused.is_some() && !greetings.is_empty();
        for at in keys {
            let Ok(answer) = link.answer() else {
                return Err(refused.unwrap_or(NOT_READ));
            };
            if !note_error(&mut refused, answer) && !misdirected {
                taken.push(*at);
            }
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Sends the greeting requests, then each of these keys, which must exist.
fn send(
    ctx: &mut Ctx<'_>,
    link: &mut Link,
    request: &Request<'_>,
    greetings: &[Vec<&[u8]>],
    keys: &[usize],
) -> std::io::Result<()> {
    greetings.iter().try_for_each(|words| link.send(words))?;
    for at in keys {
        let (key, now) = (ctx.key(*at), ctx.now_ms());
        let Some(record) = ctx.db.peek(&key) else { continue };
        let ttl = record.expiry().map_or(0, |at| at.saturating_sub(now).max(1));
        let (payload, mut digits) = (payload(&record), Digits::new());
        let ttl = digits.format(ttl).as_bytes();
        // The other node imports the slot, and this one owns it until the last key has gone.
        let name: &[u8] = if ctx.settings.cluster { b"RESTORE-ASKING" } else { b"RESTORE" };
        let words: [&[u8]; 5] = [name, key.bytes, ttl, &payload, b"REPLACE"];
        link.send(&words[..if request.replace { 5 } else { 4 }])?;
    }
    link.flush()
}

/// Records the first error. Returns whether this reply is an error.
fn note_error(refused: &mut Option<Error>, answer: Vec<u8>) -> bool {
    let Some(why) = answer.strip_prefix(b"-") else { return false };
    let text = || [b"ERR Target instance replied with error: ", why].concat();
    refused.get_or_insert_with(|| Error::owned(text()));
    true
}
