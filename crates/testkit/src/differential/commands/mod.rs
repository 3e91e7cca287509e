//! The tables: which commands are tested, how often, and how their replies are compared.
//!
//! One line adds a command. The notation is that of [`grammar`](super::grammar); the weight
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
mod server;
mod sets;
mod sorted_sets;
mod stream_groups;
mod streams;
mod strings;
mod transactions;
mod types;

use std::collections::HashMap;

use super::compare::Compare;
use super::grammar::{self, Node, Part};

pub use connection::PASSWORD;
pub use server::BASELINE;

/// One line of a table.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// How often, relative to its group.
    pub weight: u32,
    /// What to send.
    pub syntax: &'static str,
    /// How to compare the reply, when the rule is a single command. The commands of a
    /// script are compared as the rules of their own say.
    pub compare: Compare,
    /// Whether it is sometimes made wrong.
    pub mutable: bool,
    /// Whether it is left out where one of the servers lacks a command or subcommand of it.
    pub optional: bool,
}

const fn rule(weight: u32, syntax: &'static str, compare: Compare) -> Rule {
    Rule { weight, syntax, compare, mutable: true, optional: false }
}

/// A rule that is never made wrong, because a wrong form could do something else.
const fn fixed(weight: u32, syntax: &'static str, compare: Compare) -> Rule {
    Rule { weight, syntax, compare, mutable: false, optional: false }
}

/// A rule that applies where both servers have the command.
const fn optional(weight: u32, syntax: &'static str, compare: Compare) -> Rule {
    Rule { weight, syntax, compare, mutable: true, optional: true }
}

/// Both of these.
const fn optional_fixed(weight: u32, syntax: &'static str, compare: Compare) -> Rule {
    Rule { weight, syntax, compare, mutable: false, optional: true }
}

/// A family of commands, as COMMAND DOCS groups them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// GET, SET, APPEND, ...
    Strings,
    /// Commands of both kinds on strings of hundreds of kilobytes.
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
    /// XREADGROUP, XACK, XPENDING, ... with all that changes a stream.
    StreamGroups,
    /// PUBLISH, PUBSUB: those that a client sends which does not listen itself.
    PubSub,
    /// DUMP, RESTORE, MIGRATE.
    Dump,
    /// MULTI, EXEC, WATCH, with commands of all kinds inside.
    Transactions,
    /// CLIENT, HELLO, PING, ...
    Connection,
    /// COMMAND, CONFIG, FLUSHALL, ...
    Server,
    /// Just enough of the other types that keys can have the wrong one.
    Types,
}

impl Group {
    /// All of them.
    pub const ALL: [Group; 18] = [
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
    /// The names of the commands in it: `GET`, and `CLIENT|INFO` where the second word is
    /// fixed too. Empty for a random one.
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
        // a random word: no command's name
        _ => String::new(),
    }
}

/// The rules of some groups.
pub fn parse(groups: &[Group]) -> Vec<ParsedRule> {
    let rules = groups.iter().flat_map(|group| group.rules());
    rules.map(|rule| ParsedRule { rule: *rule, parts: grammar::parse(rule.syntax) }).collect()
}

/// How to compare by command name, over all groups.
pub struct Comparisons(HashMap<String, Compare>);

impl Comparisons {
    /// From the single-command rules of all groups; of several for one name the first counts.
    pub fn new() -> Comparisons {
        let mut by_name = HashMap::new();
        for parsed in parse(&Group::ALL) {
            if let [Part::Command { nodes, .. }] = &parsed.parts[..] {
                by_name.entry(name(nodes)).or_insert(parsed.rule.compare);
            }
        }
        Comparisons(by_name)
    }

    /// How to compare the replies to this command.
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

/// Where commands are compared that have more answers than one.
const REPLICAS: &str = "is about replicas: see `replication_commands` of weft-tests";
const PRIMARY: &str = "follows another server: see `replication_clients` of weft-tests";
const SESSIONS: &str = "in sessions of several clients: see `crate::sessions`";

/// Commands that no rule sends, with the reason. `weft-tests` checks that every command of
/// the server is either here or in a rule.
pub const EXEMPT: &[(&str, &str)] = &[
    ("BGREWRITEAOF", "writes files: see `aof` of weft-tests"),
    ("BGSAVE", "how long it takes decides what is answered next: see `snapshots` of weft-tests"),
    ("FAILOVER", REPLICAS),
    ("MONITOR", "turns the connection into a stream that has no replies to compare"),
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

/// Whether a command, or a container by any of its subcommands, is in a rule.
///
/// `command` is a name as COMMAND LIST prints it: `get`, `client|info`.
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
    fn coverage_knows_subcommands() {
        assert!(covers("get") && covers("client") && covers("client|info") && covers("monitor"));
        assert!(!covers("client|nonsense") && !covers("nonsense"));
    }
}
