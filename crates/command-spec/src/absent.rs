//! The facts of commands of the reference that this version does not have.
//!
//! Access control lists may name them, so that users can be moved here from the reference.

use crate::flags::Flags;
use crate::group::Group;
use crate::key_spec::{Begin, Find, KeySpec, NOT_A_KEY};
use crate::spec::Spec;
use crate::special::{Databases, Special};

/// A command that is missing, by its full name.
#[derive(Debug)]
pub struct Absent {
    /// `clusterscan`, `cluster|nodes`.
    pub full_name: &'static str,
    pub spec: Spec,
}

const ADMIN: Flags = Flags::ADMIN.or(Flags::STALE);
const ADMIN_LOADED: Flags = ADMIN.or(Flags::NO_ASYNC_LOADING);
const ANYTIME: Flags = Flags::LOADING.or(Flags::STALE);

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

/// It works on all databases.
const fn on_all_databases(absent: Absent, acl: &'static [&'static str]) -> Absent {
    let special = Special::databases(Databases::All);
    let Absent { full_name, spec: Spec { arity, flags, .. } } = absent;
    let plain = self::absent(full_name, arity, flags);
    Absent { full_name, spec: Spec { acl, special, ..plain.spec } }
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
pub static ABSENT: [Absent; 33] = [
    clusterscan(),
    absent("cluster|addslots", -3, ADMIN_LOADED),
    absent("cluster|addslotsrange", -4, ADMIN_LOADED),
    absent("cluster|bumpepoch", 2, ADMIN_LOADED),
    on_all_databases(absent("cluster|cancelslotmigrations", 2, ADMIN_LOADED), &[]),
    absent("cluster|count-failure-reports", 3, ADMIN),
    absent("cluster|countkeysinslot", 3, Flags::STALE),
    absent("cluster|delslots", -3, ADMIN_LOADED),
    absent("cluster|delslotsrange", -4, ADMIN_LOADED),
    absent("cluster|failover", -2, ADMIN_LOADED),
    on_all_databases(
        absent("cluster|flushslot", -3, Flags::WRITE.or(Flags::ADMIN).or(Flags::NO_ASYNC_LOADING)),
        &["@keyspace"],
    ),
    absent("cluster|flushslots", 2, ADMIN_LOADED),
    absent("cluster|forget", 3, ADMIN_LOADED),
    absent("cluster|getkeysinslot", 4, Flags::STALE),
    absent("cluster|getslotmigrations", 2, ADMIN_LOADED),
    absent("cluster|info", 2, ANYTIME),
    absent("cluster|links", 2, Flags::STALE),
    absent("cluster|meet", -4, ADMIN_LOADED),
    on_all_databases(absent("cluster|migrateslots", -4, ADMIN_LOADED), &[]),
    absent("cluster|myid", 2, ANYTIME),
    absent("cluster|myshardid", 2, ANYTIME),
    absent("cluster|nodes", 2, ANYTIME),
    absent("cluster|replicas", 3, ADMIN),
    absent("cluster|replicate", -3, ADMIN_LOADED),
    absent("cluster|reset", -2, ADMIN.or(Flags::NOSCRIPT)),
    absent("cluster|saveconfig", 2, ADMIN_LOADED),
    absent("cluster|set-config-epoch", 3, ADMIN_LOADED),
    absent("cluster|setslot", -4, ADMIN_LOADED),
    absent("cluster|shards", 2, ANYTIME),
    absent("cluster|slaves", 3, ADMIN),
    absent("cluster|slot-stats", -4, ANYTIME),
    absent("cluster|slots", 2, ANYTIME),
    absent("cluster|syncslots", -3, ADMIN_LOADED),
];
