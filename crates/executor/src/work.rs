//! Estimates the work of a request before it runs, to decide whether it moves to the slow lane: see
//! docs/design/slow-lane.md.
//!
//! Most commands weigh their work themselves. Two cases are estimated here:
//!
//! * Arguments of megabytes are work for every command that doesn't store them unchanged.
//! * A queued command can't weigh its work before EXEC, since its data depend on the commands before it. So
//!   the work of EXEC is estimated from the arguments of its commands and from the values that their keys have
//!   before the first one runs. The estimate is rather too high than too low.

use crate::dispatch::core::Core;
use crate::transaction;
use smallvec::SmallVec;
use weft_command_spec::{Flags, Group, QueuedWork, Spec};
use weft_commands::string::range::BYTES_PER_ELEMENT;
use weft_commands::{FAST_WORK, bitmap, hyperloglog, queued, stream, string};
use weft_keyspace::{Db, Guard, Record};
use weft_state::args::ArgBuf;
use weft_state::session::Session;
use weft_transfer as transfer;
use weft_types::value;

/// Arguments of a command that count as no work.
const FREE_ARGUMENTS: usize = 4;

/// The cost of accessing a value, in elements: see [`weft_commands::Ctx::weigh`].
type Measure = fn(&Record) -> usize;

/// Whether the long arguments of a request, each with its position and its length in bytes, are too
/// much for an I/O thread. O(long arguments).
pub fn is_bulky(spec: &Spec, long: impl Iterator<Item = (usize, usize)>) -> bool {
    bytes_work(spec, long) > FAST_WORK
}

/// The work of copying, hashing or comparing long arguments.
fn bytes_work(spec: &Spec, long: impl Iterator<Item = (usize, usize)>) -> usize {
    let bytes = long.filter(|(at, _)| !spec.takes_any_length(*at)).map(|(_, len)| len);
    bytes.sum::<usize>() / BYTES_PER_ELEMENT
}

/// Whether the queue is too much work for an I/O thread. `guard` holds all its shards. O(commands +
/// keys).
pub fn is_heavy(core: &mut Core, session: &Session, guard: &Guard<'_>) -> bool {
    // EXEC checks each watched key.
    let mut work = session.watched.as_ref().map_or(0, |watched| watched.watched());
    let mut db = Db::new(guard, &mut core.context, session.db);
    for command in transaction::queue(session) {
        let spec = command.cmd.spec;
        let long = command.args.iter().enumerate().filter_map(|(at, arg)| match arg {
            ArgBuf::Blob(blob) => Some((at, blob.len())),
            ArgBuf::Bytes(_) => None,
        });
        work =
            work.saturating_add(arguments_work(spec, command.args.len()) + bytes_work(spec, long));
        let measure = value_measure(spec, command.args.len());
        let is_of_stream = spec.group == Group::Stream;
        if measure.is_none() && !is_of_stream && !transfer::is_weighed_by_arguments(spec) {
            continue;
        }
        let args: SmallVec<[&[u8]; 16]> = command.args.iter().map(ArgBuf::bytes).collect();
        work = work.saturating_add(transfer::work(spec, &args));
        let kind = spec.special.queued_work;
        let key_work = |record: &Record| match measure {
            Some(measure) => queued::work(kind, &args, record).unwrap_or_else(|| measure(record)),
            None if is_of_stream => stream::work(kind, &args, record),
            None => 0,
        };
        let _ = spec.key_positions(&args, |at| {
            let key = db.key(args[at]);
            // After a queued SELECT, this is a key of the wrong database. The result is only an estimate.
            if db.holds(key.shard()) {
                work = work.saturating_add(db.peek(&key).map_or(0, |record| key_work(&record)));
            }
        });
    }
    work > FAST_WORK
}

/// The work of a command with this number of arguments, without that of its values.
fn arguments_work(spec: &Spec, arguments: usize) -> usize {
    // PFDEBUG and PFSELFTEST visit all registers, or a million elements.
    if spec.group == Group::HyperLogLog && spec.flags.has(Flags::ADMIN) {
        return 2 * FAST_WORK;
    }
    1 + arguments.saturating_sub(FREE_ARGUMENTS)
}

/// Measures the work of a command on the value of each key; `None`: hardly any.
fn value_measure(spec: &Spec, arguments: usize) -> Option<Measure> {
    let kind = spec.special.queued_work;
    let measure: Measure = match spec.group {
        Group::List | Group::Set | Group::SortedSet | Group::Geo | Group::Hash | Group::Generic => {
            if kind == QueuedWork::Encode {
                return Some(transfer::write_work);
            }
            let counts = arguments > 2 && kind == QueuedWork::Counted;
            return (counts || !spec.flags.has(Flags::FAST)).then_some(value::elements);
        }
        Group::HyperLogLog if spec.flags.has(Flags::FAST) => return None,
        Group::HyperLogLog => hyperloglog::work,
        Group::Bitmap | Group::String => match kind {
            QueuedWork::ReadBytes => bitmap::work,
            QueuedWork::ChangeBytes => string::range::change_work,
            QueuedWork::CompareStrings => string::lcs::work,
            // The others access single bits, or share long values without a copy.
            _ => return None,
        },
        // See `stream::work`.
        Group::Stream => return None,
        Group::PubSub
        | Group::Transactions
        | Group::Scripting
        | Group::Connection
        | Group::Server
        | Group::Cluster => return None,
    };
    Some(measure)
}
