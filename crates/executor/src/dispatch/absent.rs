//! Commands of the reference that this version does not have.
//!
//! Who sends one should learn that it is known and missing, and not look for a typing error. What
//! is here is in no other table: a command that arrives is taken off this list, and tests see to it
//! that nothing is on it that is there, nor anything missing that the reference has.

use weft_commands::Error;

/// Of CLUSTER, whatever the subcommand.
pub const DISABLED: Error = Error::new("ERR This instance has cluster support disabled");

/// What is missing, and the commands that belong to it. A subcommand is listed, as
/// `client|tracking`, where its container is there.
const ABSENT: &[(&str, &[&str])] = &[
    ("access control lists", &["acl"]),
    ("modules", &["module|load", "module|loadex", "module|unload"]),
    (
        "scripts and functions",
        &["eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro", "function", "script"],
    ),
];

/// Commands that, here as in the reference without cluster mode, have nothing to say.
const CLUSTER: &[&str] = &[
    "clusterscan",
    "cluster|addslots",
    "cluster|addslotsrange",
    "cluster|bumpepoch",
    "cluster|cancelslotmigrations",
    "cluster|count-failure-reports",
    "cluster|countkeysinslot",
    "cluster|delslots",
    "cluster|delslotsrange",
    "cluster|failover",
    "cluster|flushslot",
    "cluster|flushslots",
    "cluster|forget",
    "cluster|getkeysinslot",
    "cluster|getslotmigrations",
    "cluster|info",
    "cluster|links",
    "cluster|meet",
    "cluster|migrateslots",
    "cluster|myid",
    "cluster|myshardid",
    "cluster|nodes",
    "cluster|replicas",
    "cluster|replicate",
    "cluster|reset",
    "cluster|saveconfig",
    "cluster|set-config-epoch",
    "cluster|setslot",
    "cluster|shards",
    "cluster|slaves",
    "cluster|slot-stats",
    "cluster|slots",
    "cluster|syncslots",
];

/// Commands whose keys stand behind their count.
const SCRIPTS: &[&str] = &["eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro"];

/// Of containers that are missing as a whole: their subcommands.
const SUBCOMMANDS: &[(&str, &[&str])] = &[
    (
        "acl",
        &[
            "cat", "deluser", "dryrun", "genpass", "getuser", "help", "list", "load", "log",
            "save", "setuser", "users", "whoami",
        ],
    ),
    ("function", &["delete", "dump", "flush", "help", "kill", "list", "load", "restore", "stats"]),
    ("script", &["debug", "exists", "flush", "help", "kill", "load", "show"]),
];

/// What is known of the arguments of a missing command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// None of them is a key.
    Keyless,
    /// The script or its name, a count of keys, the keys, and others.
    Script { writes: bool },
}

/// What is known of the command that a request with these arguments would run, if the reference has it.
#[cold]
pub fn find(args: &[&[u8]]) -> Option<Absent> {
    let name = *args.first()?;
    let is = |known: &&str, name: &[u8]| known.as_bytes().eq_ignore_ascii_case(name);
    if let Some(script) = SCRIPTS.iter().find(|known| is(known, name)) {
        return Some(Absent::Script { writes: !script.ends_with("_ro") });
    }
    let is_there = match (SUBCOMMANDS.iter().find(|(known, _)| is(known, name)), args.get(1)) {
        (Some((_, subs)), Some(sub)) => subs.iter().any(|known| is(known, sub)),
        (Some(_), None) => true,
        (None, sub) => {
            let sub = sub.map(|sub| [name, b"|", sub].concat());
            command(name).is_some() || sub.is_some_and(|sub| refusal(&sub).is_some())
        }
    };
    is_there.then_some(Absent::Keyless)
}

/// What to answer to a command, if it is one of the reference's. O(number of names), for a request
/// that is refused anyway.
#[cold]
pub fn command(name: &[u8]) -> Option<Error> {
    // Subcommands have names with that in this list, and nowhere else.
    if name.contains(&b'|') { None } else { refusal(name) }
}

/// The same for a subcommand.
#[cold]
pub fn subcommand(container: &str, name: &[u8]) -> Option<Error> {
    refusal(&[container.as_bytes(), b"|", name].concat())
}

fn refusal(name: &[u8]) -> Option<Error> {
    let is = |known: &&str| known.as_bytes().eq_ignore_ascii_case(name);
    if CLUSTER.iter().any(is) {
        return Some(DISABLED);
    }
    let (feature, known) = ABSENT
        .iter()
        .find_map(|(feature, names)| Some((feature, names.iter().find(|known| is(known))?)))?;
    Some(Error::owned(format!(
        "ERR '{known}' is not supported by this version, which does not have {feature}"
    )))
}

/// All commands that are listed as missing; a subcommand after its container and a `|`.
pub fn names() -> impl Iterator<Item = &'static str> {
    ABSENT.iter().flat_map(|(_, names)| names.iter()).chain(CLUSTER).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_in_order() {
        let features: Vec<String> = ABSENT.iter().map(|(f, _)| f.to_lowercase()).collect();
        assert!(features.is_sorted(), "{features:?}");
        for names in ABSENT.iter().map(|(_, names)| names).chain([&CLUSTER]) {
            assert!(names.is_sorted() && !names.is_empty(), "{names:?}");
        }
    }

    #[test]
    fn missing_commands_tell_whether_they_have_keys() {
        let found = |line: &str| find(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        assert_eq!(found("Eval s 0"), Some(Absent::Script { writes: true }));
        assert_eq!(found("FCALL_RO f 0"), Some(Absent::Script { writes: false }));
        for line in ["acl", "ACL List", "script load x", "cluster INFO", "module load"] {
            assert_eq!(found(line), Some(Absent::Keyless), "{line}");
        }
        for line in ["acl nope", "cluster nope", "acl|list", "eval|x", "nosuch"] {
            assert_eq!(found(line), None, "{line}");
        }
        // Containers of which nothing is there, and no others.
        for (container, _) in SUBCOMMANDS {
            assert!(names().any(|name| name == *container), "{container}");
        }
        assert!(SCRIPTS.iter().all(|script| names().any(|name| name == *script)));
    }

    #[test]
    fn names_in_any_case() {
        let told = |name: &str| {
            refusal(name.as_bytes()).map(|e| String::from_utf8_lossy(&e.0).into_owned())
        };
        let expected =
            "ERR 'psync' is not supported by this version, which does not have replication";
        if names().any(|name| name == "psync") {
            assert_eq!(told("PSync").as_deref(), Some(expected));
        }
        assert_eq!(told("nosuch"), None);
    }

    #[test]
    fn a_subcommand_is_no_command() {
        for name in names() {
            let (found, is_sub) = (command(name.as_bytes()).is_some(), name.contains('|'));
            assert_ne!(found, is_sub, "{name}");
            if let Some((container, sub)) = name.split_once('|') {
                assert!(subcommand(container, sub.as_bytes()).is_some(), "{name}");
            }
        }
    }
}
