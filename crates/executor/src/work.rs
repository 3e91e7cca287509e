//! Whether a request has so much to do that it leaves its I/O thread, where the command itself is not
//! asked: see docs/design/slow-lane.md.
//!
//! Arguments of megabytes are work for every command that does not keep them as they are, before it has
//! looked at anything. And a queued command can't be asked, since it would run on what those in front
//! of it have made. So the work of EXEC is guessed, rather too large than too small, from the arguments
//! of its commands and from the values that their keys hold before the first one runs.

use crate::dispatch::core::Core;
use crate::transaction;
use smallvec::SmallVec;
use weft_commands::spec::{Group, Spec};
use weft_commands::string::range::BYTES_PER_ELEMENT;
use weft_commands::{FAST_WORK, Flags, bitmap, hyperloglog, queued, stream, string};
use weft_keyspace::{Db, Guard, Record};
use weft_state::args::ArgBuf;
use weft_state::session::Session;
use weft_transfer as transfer;
use weft_types::value;

/// Arguments that are part of what any command takes.
const PLAIN: usize = 4;

/// Commands that look at one element, unless a number behind the key says at how many.
const COUNTING: [&str; 5] = ["lpop", "rpop", "spop", "zpopmax", "zpopmin"];

/// What looking at a value may cost, in elements: see [`weft_commands::Ctx::weigh`].
type Measure = fn(&Record) -> usize;

/// Whether the long arguments of a request, each with its position and its length in bytes, are too
/// much for an I/O thread. O(long arguments).
pub fn is_bulky(spec: &Spec, long: impl Iterator<Item = (usize, usize)>) -> bool {
    of_bytes(spec, long) > FAST_WORK
}

/// What it takes to copy, hash or compare long arguments.
fn of_bytes(spec: &Spec, long: impl Iterator<Item = (usize, usize)>) -> usize {
    let bytes = long.filter(|(at, _)| !spec.takes_any_length(*at)).map(|(_, len)| len);
    bytes.sum::<usize>() / BYTES_PER_ELEMENT
}

/// Whether the queue is too much for an I/O thread. `guard` holds all of its shards. O(commands and
/// their keys).
pub fn is_heavy(core: &mut Core, session: &Session, guard: &Guard<'_>) -> bool {
    // Each of them is looked at.
    let mut work = session.watched.as_ref().map_or(0, |watched| watched.watched());
    let mut db = Db::new(guard, &mut core.context, session.db);
    for command in transaction::queue(session) {
        let spec = command.cmd.spec;
        let long = command.args.iter().enumerate().filter_map(|(at, arg)| match arg {
            ArgBuf::Blob(blob) => Some((at, blob.len())),
            ArgBuf::Bytes(_) => None,
        });
        work = work.saturating_add(of_arguments(spec, command.args.len()) + of_bytes(spec, long));
        let measure = of_value(spec, command.args.len());
        let transfers = transfer::is_one(spec.name);
        let is_of_stream = spec.group == Group::Stream;
        if measure.is_none() && !transfers && !is_of_stream {
            continue;
        }
        let args: SmallVec<[&[u8]; 16]> = command.args.iter().map(ArgBuf::bytes).collect();
        if transfers {
            work = work.saturating_add(transfer::work(spec.name, &args));
        }
        let of_key = |record: &Record| match measure {
            Some(measure) => {
                queued::work(spec.name, &args, record).unwrap_or_else(|| measure(record))
            }
            None if is_of_stream => stream::work(spec.name, &args, record),
            None => 0,
        };
        let _ = spec.key_positions(&args, |at| {
            let key = db.key(args[at]);
            // After a SELECT, the keys of another database: a guess, which is all this is.
            if db.holds(key.shard) {
                work = work.saturating_add(db.peek(&key).map_or(0, |record| of_key(&record)));
            }
        });
    }
    work > FAST_WORK
}

/// What a command costs that has so many arguments, whatever its keys hold.
fn of_arguments(spec: &Spec, arguments: usize) -> usize {
    // For tests of HyperLogLogs: over all registers, or a million elements.
    if spec.group == Group::HyperLogLog && spec.flags.has(Flags::ADMIN) {
        return 2 * FAST_WORK;
    }
    1 + arguments.saturating_sub(PLAIN)
}

/// What a command may do about the value of each of its keys; `None`: next to nothing.
fn of_value(spec: &Spec, arguments: usize) -> Option<Measure> {
    let measure: Measure = match spec.group {
        Group::List | Group::Set | Group::SortedSet | Group::Geo | Group::Hash | Group::Generic => {
            if spec.name == "dump" {
                return Some(transfer::write_work);
            }
            let counts = arguments > 2 && COUNTING.contains(&spec.name);
            return (counts || !spec.flags.has(Flags::FAST)).then_some(value::elements);
        }
        Group::HyperLogLog if spec.flags.has(Flags::FAST) => return None,
        Group::HyperLogLog => hyperloglog::work,
        Group::Bitmap | Group::String => match spec.name {
            "bitcount" | "bitop" | "bitpos" | "getrange" | "substr" => bitmap::work,
            "append" | "bitfield" | "setbit" | "setrange" => string::range::change_work,
            "lcs" => string::lcs::work,
            // The others go to their bits, or share what is long.
            _ => return None,
        },
        // They are asked one by one.
        Group::Stream => return None,
        Group::PubSub
        | Group::Transactions
        | Group::Connection
        | Group::Server
        | Group::Cluster => return None,
    };
    Some(measure)
}
