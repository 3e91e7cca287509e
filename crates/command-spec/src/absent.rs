//! The facts of commands of the reference that this version does not have.
//!
//! Access control lists may name them, so that users can be moved here from the reference.

use crate::flags::Flags;
use crate::group::Group;
use crate::key_spec::{Begin, Find, KeySpec, NOT_A_KEY};
use crate::spec::Spec;
use crate::special::Special;

/// A command that is missing, by its full name.
#[derive(Debug)]
pub struct Absent {
    /// `clusterscan`, `cluster|nodes`.
    pub full_name: &'static str,
    pub spec: Spec,
}

const ADMIN: Flags = Flags::ADMIN.or(Flags::STALE);
const ADMIN_LOADED: Flags = ADMIN.or(Flags::NO_ASYNC_LOADING);

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

const CURSOR: [KeySpec; 1] = [KeySpec {
    flags: &[NOT_A_KEY],
    begin: Begin::Index(1),
    find: Find::Range { last: 0, step: 1, limit: 0 },
    notes: "",
}];

const fn clusterscan() -> Absent {
    let plain = absent("clusterscan", -2, Flags::READONLY);
    let spec = Spec { keys: &CURSOR, acl: &["@keyspace"], ..plain.spec };
    Absent { full_name: "clusterscan", spec }
}

/// All missing commands and subcommands. Their containers are in the command table.
pub static ABSENT: [Absent; 2] = [clusterscan(), absent("cluster|syncslots", -3, ADMIN_LOADED)];
