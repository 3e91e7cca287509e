//! Commands of the reference that this version does not have.
//!
//! A client that sends one gets an error that says so, instead of "unknown command". No command is both here and in
//! the command table: tests check this, and that the two together have all commands of the reference.

use weft_commands::Error;

/// The error of unimplemented CLUSTER subcommands.
pub const DISABLED: Error = Error::new("ERR This instance has cluster support disabled");

/// Missing features, with their commands. A subcommand is listed, as `client|tracking`, if its container exists.
const ABSENT: &[(&str, &[&str])] = &[];

/// Commands that return [`DISABLED`], as in the reference without cluster mode.
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

/// Whether a request with these arguments would run a missing command. False: the reference doesn't have it either. No
/// argument of a missing command is a key.
#[cold]
pub fn is_absent(args: &[&[u8]]) -> bool {
    let Some(name) = args.first() else { return false };
    let sub = args.get(1).map(|sub| [*name, b"|", sub].concat());
    command(name).is_some() || sub.is_some_and(|sub| refusal(&sub).is_some())
}

/// The error for a missing command. `None`: the reference doesn't have it either. O(number of names), which is only
/// spent on requests that fail.
#[cold]
pub fn command(name: &[u8]) -> Option<Error> {
    // Only names of subcommands contain a `|`.
    if name.contains(&b'|') { None } else { refusal(name) }
}

/// As [`command`], for a subcommand.
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

/// The names of all missing commands; those of subcommands follow their container and a `|`.
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
    fn missing_commands_are_found() {
        let found = |line: &str| is_absent(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        for line in ["clusterscan", "cluster INFO"] {
            assert!(found(line), "{line}");
        }
        for line in ["cluster nope", "cluster|info", "fcall|x", "nosuch"] {
            assert!(!found(line), "{line}");
        }
    }

    #[test]
    fn rules_may_name_all_missing_commands() {
        let known = weft_command_spec::absent::ABSENT.iter().map(|absent| absent.full_name);
        let mut names: Vec<&str> = names().collect();
        names.sort_unstable();
        assert_eq!(known.collect::<Vec<_>>(), names);
    }

    #[test]
    fn names_match_in_any_case() {
        let error = |name: &str| {
            refusal(name.as_bytes()).map(|e| String::from_utf8_lossy(&e.0).into_owned())
        };
        let expected =
            "ERR 'psync' is not supported by this version, which does not have replication";
        if names().any(|name| name == "psync") {
            assert_eq!(error("PSync").as_deref(), Some(expected));
        }
        assert_eq!(error("nosuch"), None);
    }

    #[test]
    fn command_finds_no_subcommand() {
        for name in names() {
            let (found, is_sub) = (command(name.as_bytes()).is_some(), name.contains('|'));
            assert_ne!(found, is_sub, "{name}");
            if let Some((container, sub)) = name.split_once('|') {
                assert!(subcommand(container, sub.as_bytes()).is_some(), "{name}");
            }
        }
    }
}
