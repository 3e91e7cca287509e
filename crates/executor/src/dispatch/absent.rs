//! Commands of the reference that this version does not have: [`weft_command_spec::absent`].
//!
//! All are commands of the cluster. Without cluster mode, a client that sends one gets the error of the reference. No
//! command is both there and in the command table: tests check this, and that the two together have all commands of
//! the reference.

use weft_command_spec::absent::ABSENT;
use weft_commands::Error;

/// The error of unimplemented CLUSTER subcommands.
pub const DISABLED: Error = Error::new("ERR This instance has cluster support disabled");
/// The error of the same commands in cluster mode.
const MISSING: Error = Error::new("ERR This version of Weft does not have this command");

/// Whether a request with these arguments would run a missing command. False: the reference doesn't have it either. No
/// argument of a missing command is a key.
#[cold]
pub fn is_absent(args: &[&[u8]]) -> bool {
    let Some(name) = args.first() else { return false };
    let sub = args.get(1).map(|sub| [*name, b"|", sub].concat());
    command(name, false).is_some() || sub.is_some_and(|sub| refusal(&sub, false).is_some())
}

/// The error for a missing command. `None`: the reference doesn't have it either. O(number of names), which is only
/// spent on requests that fail.
#[cold]
pub fn command(name: &[u8], in_cluster: bool) -> Option<Error> {
    // Only names of subcommands contain a `|`.
    if name.contains(&b'|') { None } else { refusal(name, in_cluster) }
}

/// As [`command`], for a subcommand.
#[cold]
pub fn subcommand(container: &str, name: &[u8], in_cluster: bool) -> Option<Error> {
    refusal(&[container.as_bytes(), b"|", name].concat(), in_cluster)
}

fn refusal(name: &[u8], in_cluster: bool) -> Option<Error> {
    let error = if in_cluster { MISSING } else { DISABLED };
    names().any(|known| known.as_bytes().eq_ignore_ascii_case(name)).then_some(error)
}

/// The names of all missing commands; those of subcommands follow their container and a `|`.
pub fn names() -> impl Iterator<Item = &'static str> {
    ABSENT.iter().map(|absent| absent.full_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order() {
        assert!(names().is_sorted());
    }

    #[test]
    fn missing_commands_are_found() {
        let found = |line: &str| is_absent(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        for line in [
            "cluster syncslots",
            "clusterscan",
            "cluster nope",
            "cluster|syncslots",
            "fcall|x",
            "nosuch",
        ] {
            assert!(!found(line), "{line}");
        }
    }

    #[test]
    fn names_match_in_any_case() {
        assert_eq!(refusal(b"Cluster|SYNCSLOTS", false), None);
        assert_eq!(refusal(b"nosuch", false), None);
    }

    #[test]
    fn command_finds_no_subcommand() {
        for name in names() {
            let (found, is_sub) = (command(name.as_bytes(), false).is_some(), name.contains('|'));
            assert_ne!(found, is_sub, "{name}");
            if let Some((container, sub)) = name.split_once('|') {
                assert!(subcommand(container, sub.as_bytes(), false).is_some(), "{name}");
            }
        }
    }
}
