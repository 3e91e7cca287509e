//! RESTORE: creates a key from a payload of DUMP, of this or another server.
//!
//! The payload is checked and decoded before the key changes. An invalid payload changes nothing.

use crate::read_work;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_commands::{CmdResult, Command, Ctx, Error, Lane, Lock, error};
use weft_keyspace::Classes;
use weft_keyspace::log::unit::Arg;
use weft_persist::rdb::{self, Fault, Opened, Slice, Target};
use weft_process::log_verbose;

pub const RESTORE: Command = Command {
    spec: Spec {
        name: "restore",
        arity: -4,
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &keys::one(&["OW", "UPDATE"]),
        acl: &["@dangerous"],
        group: Group::Generic,
        since: "2.6.0",
        summary: "Creates a key from a payload that DUMP has returned.",
        complexity: "O(N) for a value of N bytes; O(N*log(N)) for a sorted set of N elements.",
        syntax: "key ttl:integer serialized-value [replace=REPLACE]@3.0.0 [absttl=ABSTTL]@5.0.0 \
                 [IDLETIME seconds:integer]@5.0.0 [FREQ frequency:integer]@5.0.0",
        history: &[
            ("3.0.0", "The option REPLACE."),
            ("5.0.0", "The option ABSTTL."),
            ("5.0.0", "The options IDLETIME and FREQ."),
        ],
        tips: &[],
        special: Special::queued_work(QueuedWork::Decode),
    },
    lock: Lock::Keys,
    run: restore,
    subcommands: &[],
};

/// The RESTORE that one cluster node sends to another while a slot migrates.
pub const RESTORE_ASKING: Command = Command {
    spec: Spec {
        name: "restore-asking",
        flags: RESTORE.spec.flags.or(Flags::ASKING).or(Flags::SYSTEM),
        acl: &["@keyspace", "@dangerous"],
        group: Group::Server,
        since: "3.0.0",
        summary: "A RESTORE between the nodes of a cluster.",
        special: Special::queued_work(QueuedWork::Decode),
        ..RESTORE.spec
    },
    ..RESTORE
};

const BUSY: Error = Error::new("BUSYKEY Target key name already exists.");
const BAD_TTL: Error = Error::new("ERR Invalid TTL value, must be >= 0");
const BAD_IDLE: Error = Error::new("ERR Invalid IDLETIME value, must be >= 0");
const BAD_FREQ: Error = Error::new("ERR Invalid FREQ value, must be >= 0 and <= 255");
const BAD_FOOTER: Error = Error::new("ERR DUMP payload version or checksum are wrong");
const BAD_VALUE: Error = Error::new("ERR Bad data format");

/// The maximum size of a payload's decompressed strings in the fast lane. For larger ones, the
/// length of the payload does not bound the work.
const FAST_PLAIN: usize = 32 << 10;

#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    idle_seconds: Option<u64>,
    frequency: Option<u8>,
}

impl Options {
    fn parse(ctx: &Ctx<'_>) -> Result<Options, Error> {
        let mut options = Options::default();
        let mut i = 4;
        while i < ctx.args.len() {
            let more = i + 1 < ctx.args.len();
            if ctx.is(i, "replace") {
                options.replace = true;
            } else if ctx.is(i, "absttl") {
                options.absolute = true;
            } else if ctx.is(i, "idletime") && more && options.frequency.is_none() {
                let seconds = u64::try_from(ctx.int(i + 1)?).map_err(|_| BAD_IDLE)?;
                options.idle_seconds = Some(seconds);
                i += 1;
            } else if ctx.is(i, "freq") && more && options.idle_seconds.is_none() {
                let count = u8::try_from(ctx.int(i + 1)?).map_err(|_| BAD_FREQ)?;
                options.frequency = Some(count);
                i += 1;
            } else {
                return Err(error::SYNTAX);
            }
            i += 1;
        }
        Ok(options)
    }
}

/// Logs RESTORE with an absolute time.
fn log_until(ctx: &mut Ctx<'_>, at: i64) {
    if ctx.is_logged() {
        let at = at.to_string();
        let mut words: Vec<Arg<'_>> = (0..ctx.args.len()).map(|i| ctx.arg(i)).collect();
        words[2] = Arg::Bytes(at.as_bytes());
        words.push(Arg::Bytes(b"ABSTTL"));
        ctx.log_args(&words);
    }
}

fn restore(ctx: &mut Ctx<'_>) -> CmdResult {
    let options = Options::parse(ctx)?;
    let key = ctx.key(1);
    if !options.replace && ctx.db.for_write(&key).is_some() {
        return Err(BUSY);
    }
    let expiry = match (ctx.int(2)?, options.absolute) {
        (..=-1, _) => return Err(BAD_TTL),
        (0, _) => None,
        (at, true) => Some(at),
        // As in the reference, a time that overflows counts as already expired.
        (ttl, false) => Some(ctx.now_ms().wrapping_add(ttl)),
    };
    ctx.weigh(read_work(ctx.args[3].len()))?;
    let Opened { value, dialect } = rdb::open(ctx.args[3]).ok_or(BAD_FOOTER)?;
    let clock = ctx.db.context.access.clock_of(options.idle_seconds, options.frequency);
    let target = Target {
        key: key.bytes,
        expiry,
        clock,
        limits: &ctx.settings.limits,
        plain_most: if ctx.lane == Lane::Fast { FAST_PLAIN } else { usize::MAX },
    };
    let record = match rdb::decode(&mut Slice(value), dialect, &target) {
        Ok(record) => record,
        Err(Fault::Long) => return ctx.weigh(usize::MAX),
        Err(
            fault @ (Fault::Short
            | Fault::Corrupt(_)
            | Fault::Empty
            | Fault::Code(_)
            | Fault::Io(_)),
        ) => {
            // The reference's test suite waits for the end of this message.
            log_verbose!("Internal error in RDB reading: {fault}: integrity check failed");
            return Err(BAD_VALUE);
        }
    };
    if expiry.is_some_and(|at| at <= ctx.past_ms()) {
        ctx.db.context.discard(record);
        // Without REPLACE the key does not exist here.
        if ctx.db.clear(&key) {
            ctx.notify(Classes::GENERIC, "del", &key);
            ctx.log_expired(&key);
            ctx.dirty();
        }
    } else {
        ctx.db.put(&key, record);
        ctx.notify(Classes::GENERIC, "restore", &key);
        if let (Some(at), false) = (expiry, options.absolute) {
            log_until(ctx, at);
        }
        ctx.dirty();
    }
    ctx.reply.ok();
    Ok(())
}
