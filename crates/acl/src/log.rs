//! ACL LOG: refused requests and failed logins.

use std::collections::VecDeque;

/// Events that differ only in time count as one entry if they are no further apart than this (milliseconds).
const GROUPING_MS: i64 = 60_000;

/// How many of the newest entries are compared with an event.
const COMPARED: usize = 10;

/// Why a client was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogReason {
    Command,
    Key,
    Channel,
    Auth,
    Database,
    /// A certificate that names no user.
    Certificate,
}

impl LogReason {
    /// The word of ACL LOG.
    pub fn word(self) -> &'static str {
        match self {
            LogReason::Command => "command",
            LogReason::Key => "key",
            LogReason::Channel => "channel",
            LogReason::Auth => "auth",
            LogReason::Database => "database",
            LogReason::Certificate => "tls-cert",
        }
    }
}

/// Where the request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    TopLevel,
    Multi,
    Script,
}

impl Context {
    /// The word of ACL LOG.
    pub fn word(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Script => "lua",
        }
    }
}

/// A refusal to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub reason: LogReason,
    pub context: Context,
    /// The command, key, channel or database.
    pub object: Vec<u8>,
    pub user: Vec<u8>,
    /// The line of CLIENT LIST, without the line's end.
    pub client: Vec<u8>,
    /// Unix time (milliseconds).
    pub now: i64,
}

/// Equal events within a minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    pub count: u64,
    pub id: u64,
    /// Unix time of the first event (milliseconds).
    pub created: i64,
    /// The last event.
    pub last: Event,
}

/// The refusals, the newest first.
#[derive(Debug, Default)]
pub struct Log {
    entries: VecDeque<LogEntry>,
    next_id: u64,
}

impl Log {
    /// Records an event; keeps `max_len` entries. O(1).
    pub fn add(&mut self, event: Event, max_len: usize) {
        let same = |known: &LogEntry| known.last.is_same(&event);
        match self.entries.iter().take(COMPARED).position(same) {
            Some(at) => {
                let Some(mut entry) = self.entries.remove(at) else { return };
                entry.count += 1;
                entry.last = event;
                self.entries.push_front(entry);
            }
            None => {
                let (id, created) = (self.next_id, event.now);
                self.next_id += 1;
                self.entries.push_front(LogEntry { count: 1, id, created, last: event });
                self.entries.truncate(max_len);
            }
        }
    }

    /// The entries, the newest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &LogEntry> {
        self.entries.iter()
    }

    /// Forgets all entries. Their ids are not used again.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

impl Event {
    fn is_same(&self, other: &Event) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && (self.now - other.now).abs() <= GROUPING_MS
            && self.object == other.object
            && self.user == other.user
    }
}
