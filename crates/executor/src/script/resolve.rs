//! Before a script or a function runs: its arguments, its text, and whether the server's state allows it.

use super::code::Code;
use crate::cluster::errors::NO_CLUSTER;
use crate::dispatch::core::Core;
use crate::dispatch::refusals::{OOM, READ_ONLY};
use crate::eviction;
use std::sync::atomic::Ordering;
use weft_command_spec::{ScriptBy, ScriptCommand};
use weft_commands::{Error, error};
use weft_keyspace::Key;
use weft_script::engine::Sha;
use weft_script::{ScriptFlags, flags_of};
use weft_state::attention;

const UNKNOWN: Error = Error::new("NOSCRIPT No matching script.");
const NO_FUNCTION: Error = Error::new("ERR Function not found");
const BAD_COUNT: Error = Error::new("ERR Bad number of keys provided");
const TOO_MANY_KEYS: Error = Error::new("ERR Number of keys can't be greater than number of args");
const NEGATIVE_KEYS: Error = Error::new("ERR Number of keys can't be negative");
const STALE: Error =
    Error::new("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.");
const WRITES: Error =
    Error::new("ERR Can not execute a script with write flag using *_ro command.");
const FEW_REPLICAS: Error = Error::new("NOREPLICAS Not enough good replicas to write.");
/// A script command that may run.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub code: Code,
    pub keys: &'a [&'a [u8]],
    pub args: &'a [&'a [u8]],
    /// The first of the keys.
    pub first_key: Option<Key<'a>>,
    /// The script must not write.
    pub only_reads: bool,
    /// In cluster mode, it may access keys of several slots.
    pub crosses_slots: bool,
    /// More memory is in use than `maxmemory` allows: the script must not use more.
    pub is_out_of_memory: bool,
}

/// Why a script command can't run.
#[derive(Debug)]
pub struct Refusal {
    pub error: Error,
    /// The server's state forbids it. MONITOR doesn't show such a command, as on the reference.
    pub is_by_state: bool,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal { error, is_by_state: false }
    }
}

impl Refusal {
    fn by_state(error: Error) -> Refusal {
        Refusal { error, is_by_state: true }
    }
}

/// Reads the arguments of a script command and finds its script.
///
/// # Errors
/// The arguments are wrong, there is no such script, it doesn't compile, or the server's state forbids it.
pub fn resolve<'a>(
    core: &mut Core,
    words: &'a [&'a [u8]],
    command: ScriptCommand,
) -> Result<Call<'a>, Refusal> {
    if command.by == ScriptBy::Function {
        return resolve_function(core, words, command);
    }
    if command.by == ScriptBy::Hash && words[1].len() != size_of::<Sha>() {
        return Err(UNKNOWN.into());
    }
    let (keys, args) = keys_and_args(words, error::NOT_AN_INTEGER)?;
    let srv = core.srv;
    let scripts = core.scripts.get_or_insert_default();
    let script = match command.by {
        ScriptBy::Hash => scripts.by_hash(srv, words[1]).ok_or(UNKNOWN)?,
        ScriptBy::Text | ScriptBy::Function => {
            scripts.by_text(srv, words[1], false).map_err(Error::owned)?
        }
    };
    let is_out_of_memory = is_out_of_memory(core);
    if let Some(flags) = script.flags {
        check_mode(core, flags)?;
        check_state(core, flags, is_out_of_memory && !flags.allow_oom)
            .map_err(Refusal::by_state)?;
        if command.only_reads && !flags.no_writes {
            return Err(WRITES.into());
        }
    }
    let only_reads = command.only_reads || script.flags.is_some_and(|flags| flags.no_writes);
    let is_out_of_memory = is_out_of_memory && !script.flags.is_some_and(|flags| flags.allow_oom);
    let first_key = keys.first().map(|key| srv.ks.key(key));
    let crosses_slots = script.flags.is_none_or(|flags| flags.allow_cross_slot_keys);
    let code = Code::Script(script);
    Ok(Call { code, keys, args, first_key, only_reads, crosses_slots, is_out_of_memory })
}

/// Arguments of a request.
type Words<'a> = &'a [&'a [u8]];

/// The keys and the other arguments, after their count. `not_a_number`: the error of a count that is no integer.
fn keys_and_args<'a>(
    words: &'a [&'a [u8]],
    not_a_number: Error,
) -> Result<(Words<'a>, Words<'a>), Error> {
    let count = weft_base::num::parse_i64(words[2]).ok_or(not_a_number)?;
    let rest = &words[3..];
    if count > rest.len() as i64 {
        return Err(TOO_MANY_KEYS);
    }
    let count = usize::try_from(count).map_err(|_| NEGATIVE_KEYS)?;
    Ok(rest.split_at(count))
}

/// As [`resolve`], for FCALL. The server's state comes first, as for a command with the flags of the function.
fn resolve_function<'a>(
    core: &mut Core,
    words: &'a [&'a [u8]],
    command: ScriptCommand,
) -> Result<Call<'a>, Refusal> {
    let srv = core.srv;
    let scripts = core.scripts.get_or_insert_default();
    let found = scripts.function(srv, words[1]).ok_or(NO_FUNCTION)?;
    let flags = found.function().flags;
    check_mode(core, flags)?;
    let is_out_of_memory = is_out_of_memory(core) && !flags.allow_oom;
    check_state(core, flags, is_out_of_memory).map_err(Refusal::by_state)?;
    let (keys, args) = keys_and_args(words, BAD_COUNT)?;
    if command.only_reads && !flags.no_writes {
        return Err(WRITES.into());
    }
    let only_reads = flags.no_writes;
    let first_key = keys.first().map(|key| srv.ks.key(key));
    let crosses_slots = flags.allow_cross_slot_keys;
    let code = Code::Function(found);
    Ok(Call { code, keys, args, first_key, only_reads, crosses_slots, is_out_of_memory })
}

/// Checks a script or a function of a transaction, before it is queued. Returns whether it declares that it only reads.
///
/// # Errors
/// The server's state forbids it.
pub fn check_queued(
    core: &mut Core,
    words: &[&[u8]],
    command: ScriptCommand,
) -> Result<bool, Error> {
    let Some(flags) = declared_flags(core, words, command) else { return Ok(command.only_reads) };
    check_state(core, flags, is_out_of_memory(core) && !flags.allow_oom)?;
    Ok(command.only_reads || flags.no_writes)
}

/// Whether a script or a function declares that it only reads. False if it doesn't exist.
pub fn only_reads(core: &mut Core, words: &[&[u8]], command: ScriptCommand) -> bool {
    command.only_reads || declared_flags(core, words, command).is_some_and(|flags| flags.no_writes)
}

/// Whether a script or a function declares its flags, and not that it only reads.
pub fn declares_writes(core: &mut Core, words: &[&[u8]], command: ScriptCommand) -> bool {
    declared_flags(core, words, command).is_some_and(|flags| !flags.no_writes)
}

fn declared_flags(core: &mut Core, words: &[&[u8]], command: ScriptCommand) -> Option<ScriptFlags> {
    let (srv, scripts) = (core.srv, &mut core.scripts);
    match command.by {
        ScriptBy::Text => flags_of(words[1]).ok().flatten(),
        ScriptBy::Hash => scripts.get_or_insert_default().by_hash(srv, words[1])?.flags,
        ScriptBy::Function => {
            let found = scripts.get_or_insert_default().function(srv, words[1])?;
            Some(found.function().flags)
        }
    }
}

/// Whether a script with these flags may run in cluster mode, if the server is.
fn check_mode(core: &Core, flags: ScriptFlags) -> Result<(), Error> {
    match flags.no_cluster && core.srv.nodes.cluster.is_enabled() {
        true => Err(NO_CLUSTER),
        false => Ok(()),
    }
}

/// Whether the server's state allows a function or a script with these flags: as for a command with the flags that follow
/// from them.
fn check_state(core: &Core, flags: ScriptFlags, is_out_of_memory: bool) -> Result<(), Error> {
    let attention = core.srv.attention.load(Ordering::Relaxed);
    if !flags.no_writes {
        if is_out_of_memory {
            return Err(OOM);
        }
        if let Some(e) = refusal_of_disk(core) {
            return Err(e);
        }
        if attention & attention::FEW_REPLICAS != 0 {
            return Err(FEW_REPLICAS);
        }
        if attention & attention::REPLICA != 0 && core.settings.replica.is_read_only {
            return Err(READ_ONLY);
        }
    }
    if is_stale(core, flags) { Err(STALE) } else { Ok(()) }
}

/// Whether this server is a replica without a link to its primary, and a script with these flags must not run there.
fn is_stale(core: &Core, flags: ScriptFlags) -> bool {
    core.srv.attention.load(Ordering::Relaxed) & attention::REPLICA != 0
        && !flags.allow_stale
        && !core.settings.replica.serves_stale
        && !core.srv.nodes.replication.is_linked.load(Ordering::Relaxed)
}

fn is_out_of_memory(core: &Core) -> bool {
    let attention = core.srv.attention.load(Ordering::Relaxed);
    let ignores = attention & attention::REPLICA != 0 && core.settings.replica.ignores_maxmemory;
    attention & attention::MAXMEMORY != 0 && !ignores && !eviction::has_room(core)
}

/// The error of writes while the server can't persist its data.
pub(super) fn refusal_of_disk(core: &Core) -> Option<Error> {
    let attention = core.srv.attention.load(Ordering::Relaxed);
    if attention & attention::AOF_FAILING != 0
        && let Some(refusal) = core.srv.links.journal.refusal()
    {
        return Some(Error::owned(refusal));
    }
    (attention & attention::UNSAVED != 0).then_some(crate::dispatch::refusals::UNSAVED)
}
