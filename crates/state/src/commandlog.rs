//! The command log: the latest commands that were slow, or had large requests or replies.
//!
//! Three ring buffers, each under a mutex. Only commands that cross a threshold lock them. Long arguments and long
//! argument lists are truncated when stored, in the notation that clients know from SLOWLOG.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

/// The most arguments stored in an entry, including the note about the rest.
const MAX_ARGS: usize = 32;
/// The most bytes stored of an argument.
const MAX_ARG: usize = 128;

/// The criterion of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    Slow,
    LargeRequest,
    LargeReply,
}

impl LogKind {
    pub const ALL: [LogKind; 3] = [LogKind::Slow, LogKind::LargeRequest, LogKind::LargeReply];

    /// The name of the log in COMMANDLOG.
    pub fn name(self) -> &'static str {
        match self {
            LogKind::Slow => "slow",
            LogKind::LargeRequest => "large-request",
            LogKind::LargeReply => "large-reply",
        }
    }

    fn index(self) -> usize {
        match self {
            LogKind::Slow => 0,
            LogKind::LargeRequest => 1,
            LogKind::LargeReply => 2,
        }
    }
}

/// One logged command.
#[derive(Clone, Debug)]
pub struct LogEntry {
    pub id: i64,
    /// Unix time in seconds.
    pub time_s: i64,
    /// Microseconds, or bytes of the request or reply.
    pub value: i64,
    pub args: Vec<Vec<u8>>,
    pub peer: String,
    pub name: Vec<u8>,
}

#[derive(Debug, Default)]
struct Ring {
    next_id: i64,
    entries: VecDeque<LogEntry>,
    max: usize,
}

/// All three logs.
#[derive(Debug, Default)]
pub struct CommandLog([Mutex<Ring>; 3]);

impl CommandLog {
    fn ring(&self, kind: LogKind) -> MutexGuard<'_, Ring> {
        self.0[kind.index()].lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Sets how many entries a log keeps (`commandlog-*-max-len`).
    pub fn set_max(&self, kind: LogKind, max: usize) {
        let mut ring = self.ring(kind);
        ring.max = max;
        ring.entries.truncate(max);
    }

    /// Logs a command, and assigns its id.
    pub fn push(&self, kind: LogKind, mut entry: LogEntry) {
        let mut ring = self.ring(kind);
        entry.id = ring.next_id;
        ring.next_id += 1;
        ring.entries.push_front(entry);
        let max = ring.max;
        ring.entries.truncate(max);
    }

    /// An empty log that keeps as many entries.
    pub fn emptied(&self) -> CommandLog {
        CommandLog(
            LogKind::ALL
                .map(|kind| Mutex::new(Ring { max: self.ring(kind).max, ..Ring::default() })),
        )
    }

    /// Adds the entries of another log, and assigns their ids anew.
    pub fn append(&self, other: CommandLog) {
        for kind in LogKind::ALL {
            let Ring { next_id, entries, .. } = std::mem::take(&mut *other.ring(kind));
            let mut ring = self.ring(kind);
            let first = ring.next_id;
            for entry in entries.into_iter().rev() {
                ring.entries.push_front(LogEntry { id: first + entry.id, ..entry });
            }
            ring.next_id += next_id;
            let max = ring.max;
            ring.entries.truncate(max);
        }
    }

    /// The latest `count` entries, newest first.
    pub fn latest(&self, kind: LogKind, count: usize) -> Vec<LogEntry> {
        self.ring(kind).entries.iter().take(count).cloned().collect()
    }

    pub fn len(&self, kind: LogKind) -> usize {
        self.ring(kind).entries.len()
    }

    pub fn clear(&self, kind: LogKind) {
        self.ring(kind).entries.clear();
    }

    /// The approximate memory of a log (bytes).
    pub fn memory(&self, kind: LogKind) -> usize {
        let ring = self.ring(kind);
        let arg = |a: &Vec<u8>| a.capacity() + size_of::<Vec<u8>>();
        ring.entries
            .iter()
            .map(|e| {
                let strings = e.peer.len() + e.name.capacity();
                size_of::<LogEntry>() + e.args.iter().map(arg).sum::<usize>() + strings
            })
            .sum()
    }
}

/// The arguments, truncated for the log.
pub fn cut_args(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if args.len() > MAX_ARGS { MAX_ARGS - 1 } else { args.len() };
    let mut out: Vec<Vec<u8>> = args[..kept].iter().map(|a| cut_arg(a)).collect();
    if kept < args.len() {
        out.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    out
}

/// A client's name, truncated: else a name of megabytes would take memory for as long as its entry exists.
pub fn cut_name(name: &[u8]) -> Vec<u8> {
    cut_arg(name)
}

fn cut_arg(arg: &[u8]) -> Vec<u8> {
    if arg.len() <= MAX_ARG {
        return arg.to_vec();
    }
    let mut cut = arg[..MAX_ARG].to_vec();
    cut.extend_from_slice(format!("... ({} more bytes)", arg.len() - MAX_ARG).as_bytes());
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: i64) -> LogEntry {
        let (args, peer, name) = (Vec::new(), String::new(), Vec::new());
        LogEntry { id: 0, time_s: 0, value, args, peer, name }
    }

    /// The ids and values of a log, newest first.
    fn shown(log: &CommandLog) -> Vec<(i64, i64)> {
        log.latest(LogKind::Slow, usize::MAX).iter().map(|e| (e.id, e.value)).collect()
    }

    #[test]
    fn appended_entries_get_the_next_ids() {
        let log = CommandLog::default();
        log.set_max(LogKind::Slow, 3);
        log.push(LogKind::Slow, entry(10));
        let kept = log.emptied();
        (11..15).for_each(|value| kept.push(LogKind::Slow, entry(value)));
        log.push(LogKind::Slow, entry(20));
        log.append(kept);
        assert_eq!(shown(&log), [(5, 14), (4, 13), (3, 12)]);
        log.push(LogKind::Slow, entry(30));
        assert_eq!(shown(&log)[0], (6, 30));
        assert_eq!(log.len(LogKind::LargeReply), 0);
    }
}
