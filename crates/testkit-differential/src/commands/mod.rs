//! The tables: the tested commands, their frequencies, and the comparisons of their replies.
//!
//! One line adds a command. The notation is that of [`grammar`](crate::grammar); the weight
//! is relative to the other lines of the same group.

mod bits;
mod connection;
mod dump;
mod generic;
mod geo;
mod hashes;
mod hyperloglogs;
mod large_strings;
mod lists;
mod pubsub;
mod rule;
mod scripts;
mod server;
mod sets;
mod sorted_sets;
mod stream_groups;
mod streams;
mod strings;
mod transactions;
mod types;

use std::collections::HashMap;

use crate::compare::Compare;
use crate::grammar::{self, Node, Part};

pub use connection::PASSWORD;
pub use rule::Rule;
pub use server::BASELINE;

/// A family of commands, as COMMAND DOCS groups them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// GET, SET, APPEND, ...
    Strings,
    /// Commands of both groups on strings of hundreds of kilobytes.
    LargeStrings,
    /// SETBIT, BITOP, BITFIELD, ...
    Bits,
    /// DEL, EXPIRE, RENAME, SCAN, ...
    Generic,
    /// LPUSH, LMOVE, ...
    Lists,
    /// HSET, HEXPIRE, ...
    Hashes,
    /// SADD, SINTER, ...
    Sets,
    /// ZADD, ZRANGE, ...
    SortedSets,
    /// GEOADD, GEOSEARCH, ...
    Geo,
    /// PFADD, PFCOUNT, ...
    HyperLogLogs,
    /// XADD, XREAD, ...
    Streams,
    /// XREADGROUP, XACK, XPENDING, ... with all commands that change a stream.
    StreamGroups,
    /// PUBLISH, PUBSUB: for a client that is not subscribed itself.
    PubSub,
    /// DUMP, RESTORE, MIGRATE.
    Dump,
    /// MULTI, EXEC, WATCH, with commands of all kinds inside.
    Transactions,
    /// EVAL, EVALSHA, SCRIPT.
    Scripts,
    /// CLIENT, HELLO, PING, ...
    Connection,
    /// COMMAND, CONFIG, FLUSHALL, ...
    Server,
    /// Enough commands of other types to give keys the wrong type.
    Types,
}

impl Group {
    /// All groups.
    pub const ALL: [Group; 19] = [
        Group::Strings,
        Group::LargeStrings,
        Group::Bits,
        Group::Generic,
        Group::Lists,
        Group::Hashes,
        Group::Sets,
        Group::SortedSets,
        Group::Geo,
        Group::HyperLogLogs,
        // First, since its comparison of XINFO STREAM holds for both.
        Group::StreamGroups,
        Group::Streams,
        Group::PubSub,
        Group::Dump,
        Group::Transactions,
        Group::Scripts,
        Group::Connection,
        Group::Server,
        Group::Types,
    ];

    /// The lines of this group.
    pub fn rules(self) -> &'static [Rule] {
        match self {
            Group::Strings => strings::RULES,
            Group::LargeStrings => large_strings::RULES,
            Group::Bits => bits::RULES,
            Group::Generic => generic::RULES,
            Group::Lists => lists::RULES,
            Group::Hashes => hashes::RULES,
            Group::Sets => sets::RULES,
            Group::SortedSets => sorted_sets::RULES,
            Group::Geo => geo::RULES,
            Group::HyperLogLogs => hyperloglogs::RULES,
            Group::Streams => streams::RULES,
            Group::StreamGroups => stream_groups::RULES,
            Group::PubSub => pubsub::RULES,
            Group::Dump => dump::RULES,
            Group::Transactions => transactions::RULES,
            Group::Scripts => scripts::RULES,
            Group::Connection => connection::RULES,
            Group::Server => server::RULES,
            Group::Types => types::RULES,
        }
    }
}

/// A rule with its syntax parsed.
#[derive(Clone, Debug)]
pub struct ParsedRule {
    /// The line of the table.
    pub rule: Rule,
    /// Its syntax.
    pub parts: Vec<Part>,
}

impl ParsedRule {
    /// The names of its commands: `GET`, and `CLIENT|INFO` if the second word is fixed too. Empty
    /// for a random word.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.parts.iter().filter_map(|part| match part {
            Part::Sync | Part::Sleep | Part::Closes => None,
            Part::Command { nodes, .. } => Some(name(nodes)),
        })
    }
}

fn name(nodes: &[Node]) -> String {
    match nodes {
        [Node::Word(first), Node::Word(second), ..] => {
            format!("{first}|{second}").to_ascii_uppercase()
        }
        [Node::Word(first), ..] => first.to_ascii_uppercase(),
        // A random word is no command's name.
        _ => String::new(),
    }
}

/// The rules of some groups.
pub fn parse(groups: &[Group]) -> Vec<ParsedRule> {
    let rules = groups.iter().flat_map(|group| group.rules());
    rules.map(|rule| ParsedRule { rule: *rule, parts: grammar::parse(rule.syntax) }).collect()
}

/// Comparisons by command name, over all groups.
pub struct Comparisons(HashMap<String, Compare>);

impl Comparisons {
    /// From the single-command rules of all groups; the first rule of a name counts.
    pub fn new() -> Comparisons {
        let mut by_name = HashMap::new();
        for parsed in parse(&Group::ALL) {
            if let [Part::Command { nodes, .. }] = &parsed.parts[..] {
                by_name.entry(name(nodes)).or_insert(parsed.rule.compare);
            }
        }
        Comparisons(by_name)
    }

    /// The comparison of the replies to this command.
    pub fn of(&self, args: &[Vec<u8>]) -> Compare {
        let word =
            |i: usize| args.get(i).map(|arg| String::from_utf8_lossy(arg).to_ascii_uppercase());
        let (Some(first), second) = (word(0), word(1)) else { return Compare::Exact };
        let both = second.and_then(|second| self.0.get(&format!("{first}|{second}")));
        both.or_else(|| self.0.get(&first)).copied().unwrap_or(Compare::Exact)
    }
}

impl Default for Comparisons {
    fn default() -> Self {
        Comparisons::new()
    }
}

/// The tests of commands that have more than one valid reply.
const REPLICAS: &str = "is about replicas: see `replication_commands` of weft-tests";
const PRIMARY: &str = "replicates from another server: see `replication_clients` of weft-tests";
const SESSIONS: &str = "in sessions of several clients: see `crate::sessions`";

/// Commands that no rule sends, with the reason. `weft-tests` checks that every command of the
/// server is either here or in a rule.
pub const EXEMPT: &[(&str, &str)] = &[
    ("BGREWRITEAOF", "writes files: see `aof` of weft-tests"),
    ("BGSAVE", "its duration decides the next replies: see `snapshots` of weft-tests"),
    ("FAILOVER", REPLICAS),
    ("MONITOR", "turns the connection into a stream without replies"),
    ("PSUBSCRIBE", SESSIONS),
    ("PSYNC", REPLICAS),
    ("PUNSUBSCRIBE", SESSIONS),
    ("REPLCONF", REPLICAS),
    ("ROLE", REPLICAS),
    ("REPLICAOF", PRIMARY),
    ("SHUTDOWN", "ends the servers"),
    ("SLAVEOF", PRIMARY),
    ("SSUBSCRIBE", SESSIONS),
    ("SUBSCRIBE", SESSIONS),
    ("SUNSUBSCRIBE", SESSIONS),
    ("SYNC", REPLICAS),
    ("UNSUBSCRIBE", SESSIONS),
    ("WAIT", REPLICAS),
    ("WAITAOF", "waits for a disk: see `aof` of weft-tests"),
];

/// Whether a rule has this command, or a subcommand of it.
///
/// `command` is a name as in COMMAND LIST: `get`, `client|info`.
pub fn covers(command: &str) -> bool {
    let wanted = command.to_ascii_uppercase();
    let exempt = EXEMPT.iter().any(|(name, _)| *name == wanted);
    exempt
        || parse(&Group::ALL).iter().any(|rule| {
            rule.names().any(|name| name == wanted || name.split('|').next() == Some(&wanted))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tables_parse_and_every_line_can_come_up() {
        for rule in parse(&Group::ALL) {
            assert!(rule.rule.weight > 0, "{}", rule.rule.syntax);
            assert!(rule.names().count() > 0, "{}", rule.rule.syntax);
        }
    }

    #[test]
    fn comparisons_are_found_by_subcommand_then_by_command() {
        let comparisons = Comparisons::new();
        let of = |words: &str| {
            comparisons.of(&words.split(' ').map(|w| w.as_bytes().to_vec()).collect::<Vec<_>>())
        };
        assert!(matches!(of("ttl k"), Compare::Near(_)));
        assert!(matches!(of("oBject idletime k"), Compare::Near(_)));
        assert!(matches!(of("object encoding k"), Compare::Exact));
        assert!(matches!(of("nonsense"), Compare::Exact));
    }

    #[test]
    fn coverage_includes_subcommands() {
        assert!(covers("get") && covers("client") && covers("client|info") && covers("monitor"));
        assert!(!covers("client|nonsense") && !covers("nonsense"));
    }
}
