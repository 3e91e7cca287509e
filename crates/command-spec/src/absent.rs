//! The facts of commands of the reference that this version does not have.
//!
//! Access control lists may name them, so that users can be moved here from the reference.

use crate::flags::Flags;
use crate::group::Group;
use crate::spec::Spec;
use crate::special::Special;

/// A command that is missing, by its full name.
#[derive(Debug)]
pub struct Absent {
    /// `cluster|syncslots`.
    pub full_name: &'static str,
    pub spec: Spec,
}

/// A row of [`ABSENT`].
#[allow(dead_code, reason = "at present no command is missing")]
const fn absent(full_name: &'static str, arity: i16, flags: Flags) -> Absent {
    let spec = Spec {
        // No container is missing whose subcommands are here.
        name: full_name,
        arity,
        flags,
        keys: &[],
        acl: &[],
        group: Group::Cluster,
        since: "",
        summary: "",
        complexity: "",
        syntax: "",
        history: &[],
        tips: &[],
        special: Special::NONE,
    };
    Absent { full_name, spec }
}

/// All missing commands and subcommands. Their containers are in the command table.
pub static ABSENT: [Absent; 0] = [];
