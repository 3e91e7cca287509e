//! Estimates the work of commands on a stream for EXEC. EXEC can't run the commands to find out:
//! each one works on the results of the previous ones.

use super::options::estimate_trim;
use weft_base::num::parse_i64;
use weft_command_spec::QueuedWork;
use weft_types::Record;
use weft_types::stream::Stream;

/// The approximate work of a command of this kind on the value of `record`, in elements and without its
/// arguments. Rather too much than too little. O(log n + groups).
pub fn work(kind: QueuedWork, args: &[&[u8]], record: &Record) -> usize {
    let Some(stream) = Stream::of(record) else { return 1 };
    let log = &stream.log;
    match kind {
        QueuedWork::Constant => 1,
        QueuedWork::StreamTrim => estimate_trim(args).map_or(1, |trim| log.trim_work(&trim)),
        QueuedWork::StreamIds => args.len().saturating_mul(log.look_up_work()),
        QueuedWork::StreamAutoclaim => autoclaim_work(args, stream),
        _ => all_entries_work(stream),
    }
}

/// All entries, and all pending entries of all groups.
fn all_entries_work(stream: &Stream) -> usize {
    let entries = usize::try_from(stream.log.len()).unwrap_or(usize::MAX);
    let groups = stream.groups.iter().flat_map(|groups| groups.iter());
    groups.fold(entries, |all, (_, group)| {
        all.saturating_add(1 + group.pending_len() + group.consumers_len())
    })
}

/// XAUTOCLAIM examines this many pending entries per requested one, if there are enough.
fn autoclaim_work(args: &[&[u8]], stream: &Stream) -> usize {
    const DEFAULT_COUNT: i64 = 100;
    const EXAMINED_PER_ENTRY: usize = 10;
    let named = args.iter().position(|word| word.eq_ignore_ascii_case(b"count"));
    let count = named.and_then(|at| parse_i64(args.get(at + 1)?)).unwrap_or(DEFAULT_COUNT);
    let examined = usize::try_from(count).unwrap_or(0).saturating_mul(EXAMINED_PER_ENTRY);
    let Some(group) = stream.groups.as_ref().and_then(|groups| groups.get(args.get(2)?)) else {
        return 1;
    };
    examined.min(group.pending_len()).saturating_mul(stream.log.look_up_work())
}
