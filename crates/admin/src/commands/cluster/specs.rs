//! The specifications of CLUSTER's subcommands.

use super::{asking, change, help, keys, keyslot, scan, show, slot_stats};
use crate::commands::shape::{ANYTIME, container, holding, spec};
use weft_command_spec::{
    Begin, Databases, Deprecated, Find, Flags, Group, KeySpec, NOT_A_KEY, Spec, Special,
};
use weft_commands::CmdResult;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_state::command_table::{NOTHING, Needs, NeedsFn};

const ADMIN: Flags = Flags::ADMIN.or(Flags::STALE);
const CHANGE: Flags = ADMIN.or(Flags::NO_ASYNC_LOADING);
const FLUSH: Flags = Flags::WRITE.or(Flags::ADMIN).or(Flags::NO_ASYNC_LOADING);
const VARIES: &[&str] = &["nondeterministic_output"];

/// The map is written to the disk and replaced between two commands.
const STOP: NeedsFn = |_| Needs::Stop;
/// The command also looks for keys.
const WORLD: NeedsFn = |_| Needs::World;

const OF_SLOTS: &str = "O(N) where N is the number of slots in the arguments";
const OF_NODES: &str = "O(N) where N is the number of nodes";
const RANGES: &str = "range=(start-slot:integer end-slot:integer)...";

type Run = fn(&mut ConnCx<'_>) -> CmdResult;

const fn sub(needs: NeedsFn, spec: Spec, run: Run) -> ServerCommand {
    let flags = spec.flags;
    holding(needs, Spec { flags, group: Group::Cluster, ..spec }, run)
}

pub const ASKING: ServerCommand = {
    let plain = spec(
        "asking",
        1,
        Flags::FAST,
        "3.0.0",
        "Lets the next command use a slot that is being imported.",
        "",
    );
    sub(NOTHING, Spec { flags: Flags::FAST, acl: &["@connection"], ..plain }, asking)
};

pub const CLUSTERSCAN: ServerCommand = {
    let plain = spec(
        "clusterscan",
        -2,
        Flags::READONLY,
        "9.1.0",
        "Iterates over the keys of the cluster.",
        "cursor:string [MATCH match-pattern:pattern] [COUNT count:integer] [TYPE type] [SLOT slot:integer]",
    );
    let spec = Spec {
        flags: Flags::READONLY,
        keys: &CURSOR,
        acl: &["@keyspace"],
        complexity: "O(COUNT) for a call, O(N) for a complete scan of N keys.",
        tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
        ..plain
    };
    sub(scan::shards, spec, scan::cluster_scan)
};

/// Clients find the node of a cursor as that of a key.
const CURSOR: [KeySpec; 1] = [KeySpec {
    flags: &[NOT_A_KEY],
    begin: Begin::Index(1),
    find: Find::Range { last: 0, step: 1, limit: 0 },
    notes: "",
}];

pub const CLUSTER: ServerCommand = {
    let plain = container("cluster", "3.0.0", "Holds the commands on the cluster.", &SUBCOMMANDS);
    let spec = Spec { group: Group::Cluster, flags: Flags::NONE, ..plain.spec };
    ServerCommand { spec, ..plain }
};

static SUBCOMMANDS: [ServerCommand; 34] = [
    sub(
        STOP,
        Spec {
            flags: CHANGE,
            complexity: OF_SLOTS,
            ..spec("addslots", -3, CHANGE, "3.0.0", "Gives slots to this node.", "slot:integer...")
        },
        change::add_slots,
    ),
    sub(
        STOP,
        Spec {
            flags: CHANGE,
            complexity: OF_SLOTS,
            ..spec(
                "addslotsrange",
                -4,
                CHANGE,
                "7.0.0",
                "Gives ranges of slots to this node.",
                RANGES,
            )
        },
        change::add_slots_range,
    ),
    sub(
        STOP,
        Spec {
            flags: CHANGE,
            tips: VARIES,
            ..spec("bumpepoch", 2, CHANGE, "3.0.0", "Raises the config epoch of this node.", "")
        },
        change::bump_epoch,
    ),
    sub(
        NOTHING,
        Spec {
            flags: CHANGE,
            complexity: "O(N) where N is the number of migrations",
            special: Special::databases(Databases::All),
            ..spec("cancelslotmigrations", 2, CHANGE, "9.0.0", "Cancels all slot migrations.", "")
        },
        change::cancel_slot_migrations,
    ),
    sub(
        NOTHING,
        Spec {
            flags: ADMIN,
            tips: VARIES,
            complexity: "O(N) where N is the number of reports",
            history: &[("9.0.0", "No new reports for a node that has failed.")],
            ..spec(
                "count-failure-reports",
                3,
                ADMIN,
                "3.0.0",
                "Returns how many nodes report that a node fails.",
                "node-id",
            )
        },
        show::count_failure_reports,
    ),
    sub(
        keys::shard_of_slot,
        Spec {
            flags: Flags::STALE,
            complexity: "O(1)",
            ..spec(
                "countkeysinslot",
                3,
                Flags::STALE,
                "3.0.0",
                "Returns the number of keys in a slot.",
                "slot:integer",
            )
        },
        keys::count_keys_in_slot,
    ),
    sub(
        STOP,
        Spec {
            flags: CHANGE,
            complexity: OF_SLOTS,
            ..spec(
                "delslots",
                -3,
                CHANGE,
                "3.0.0",
                "Takes slots away from their owners.",
                "slot:integer...",
            )
        },
        change::del_slots,
    ),
    sub(
        STOP,
        Spec {
            flags: CHANGE,
            complexity: OF_SLOTS,
            ..spec(
                "delslotsrange",
                -4,
                CHANGE,
                "7.0.0",
                "Takes ranges of slots away from their owners.",
                RANGES,
            )
        },
        change::del_slots_range,
    ),
    sub(
        STOP,
        spec(
            "failover",
            -2,
            CHANGE,
            "3.0.0",
            "Makes this replica the primary.",
            "[options=(force=FORCE|takeover=TAKEOVER)]",
        ),
        change::fail_over,
    ),
    sub(
        keys::shard_of_slot,
        Spec {
            flags: FLUSH,
            acl: &["@keyspace"],
            complexity: "O(N) where N is the number of keys in the slot",
            special: Special::databases(Databases::All),
            ..spec(
                "flushslot",
                -3,
                FLUSH,
                "9.0.0",
                "Removes all keys of a slot.",
                "slot:integer [flush-type=(async=ASYNC|sync=SYNC)]",
            )
        },
        keys::flush_slot,
    ),
    sub(
        WORLD,
        spec("flushslots", 2, CHANGE, "3.0.0", "Takes all slots away from this node.", ""),
        change::flush_slots,
    ),
    sub(
        STOP,
        spec("forget", 3, CHANGE, "3.0.0", "Removes a node from the map.", "node-id"),
        change::forget,
    ),
    sub(
        keys::shard_of_slot,
        Spec {
            flags: Flags::STALE,
            tips: VARIES,
            complexity: "O(N) where N is the number of keys returned",
            ..spec(
                "getkeysinslot",
                4,
                Flags::STALE,
                "3.0.0",
                "Returns names of keys in a slot.",
                "slot:integer count:integer",
            )
        },
        keys::get_keys_in_slot,
    ),
    sub(
        NOTHING,
        Spec {
            flags: CHANGE,
            complexity: "O(N) where N is the number of migrations",
            ..spec(
                "getslotmigrations",
                2,
                CHANGE,
                "9.0.0",
                "Returns the state of slot migrations.",
                "",
            )
        },
        show::slot_migrations,
    ),
    sub(NOTHING, spec("help", 2, ANYTIME, "5.0.0", "Describes the subcommands.", ""), help),
    sub(
        NOTHING,
        Spec {
            flags: ANYTIME,
            tips: VARIES,
            ..spec("info", 2, ANYTIME, "3.0.0", "Returns the state of the cluster.", "")
        },
        show::info,
    ),
    sub(
        NOTHING,
        Spec {
            flags: Flags::STALE,
            complexity: "O(N) where N is the number of bytes in the key",
            ..spec(
                "keyslot",
                3,
                Flags::STALE,
                "3.0.0",
                "Returns the hash slot of a key.",
                "key:string",
            )
        },
        keyslot,
    ),
    sub(
        NOTHING,
        Spec {
            flags: Flags::STALE,
            tips: VARIES,
            complexity: OF_NODES,
            ..spec(
                "links",
                2,
                Flags::STALE,
                "7.0.0",
                "Returns the connections between this node and others.",
                "",
            )
        },
        show::links,
    ),
    sub(
        STOP,
        Spec {
            flags: CHANGE,
            history: &[("4.0.0", "The bus port.")],
            ..spec(
                "meet",
                -4,
                CHANGE,
                "3.0.0",
                "Adds another node to the cluster.",
                "ip port:integer [cluster-bus-port:integer]@4.0.0",
            )
        },
        change::meet,
    ),
    sub(
        STOP,
        Spec {
            flags: CHANGE,
            complexity: OF_SLOTS,
            special: Special::databases(Databases::All),
            ..spec("migrateslots", -4, CHANGE, "9.0.0", "Moves slots to other nodes.", MIGRATIONS)
        },
        change::migrate_slots,
    ),
    sub(
        NOTHING,
        spec("myid", 2, ANYTIME, "3.0.0", "Returns the id of this node.", ""),
        show::my_id,
    ),
    sub(
        NOTHING,
        Spec {
            flags: ANYTIME,
            tips: VARIES,
            ..spec(
                "myshardid",
                2,
                ANYTIME,
                "7.2.0",
                "Returns the id of the shard of this node.",
                "",
            )
        },
        show::my_shard_id,
    ),
    sub(
        NOTHING,
        Spec {
            flags: ANYTIME,
            tips: VARIES,
            complexity: OF_NODES,
            ..spec(
                "nodes",
                2,
                ANYTIME,
                "3.0.0",
                "Returns the map as text, a line for each node.",
                "",
            )
        },
        show::nodes,
    ),
    sub(
        NOTHING,
        Spec {
            flags: ADMIN,
            tips: VARIES,
            complexity: OF_NODES,
            ..spec("replicas", 3, ADMIN, "5.0.0", "Returns the replicas of a node.", "node-id")
        },
        show::replicas,
    ),
    sub(
        WORLD,
        Spec {
            flags: CHANGE,
            history: &[("9.0.0", "NO ONE.")],
            ..spec(
                "replicate",
                -3,
                CHANGE,
                "3.0.0",
                "Makes this node a replica of a primary, or of none.",
                "args=(node-id|no-one=(no=NO one=ONE)@9.0.0)",
            )
        },
        change::replicate,
    ),
    sub(
        WORLD,
        Spec {
            flags: RESET,
            complexity: OF_NODES,
            ..spec(
                "reset",
                -2,
                RESET,
                "3.0.0",
                "Makes this node a cluster of its own without slots.",
                "[reset-type=(hard=HARD|soft=SOFT)]",
            )
        },
        change::reset,
    ),
    sub(
        STOP,
        spec("saveconfig", 2, CHANGE, "3.0.0", "Writes the map to the disk.", ""),
        change::save_config,
    ),
    sub(
        STOP,
        spec(
            "set-config-epoch",
            3,
            CHANGE,
            "3.0.0",
            "Sets the config epoch of a new node.",
            "config-epoch:integer",
        ),
        change::set_config_epoch,
    ),
    sub(
        WORLD,
        Spec {
            flags: CHANGE,
            history: &[("8.0.0", "TIMEOUT.")],
            ..spec(
                "setslot",
                -4,
                CHANGE,
                "3.0.0",
                "Gives a slot to a node, or marks it as moving.",
                SET_SLOT,
            )
        },
        change::set_slot,
    ),
    sub(
        NOTHING,
        Spec {
            flags: ANYTIME,
            tips: VARIES,
            complexity: OF_NODES,
            history: &[("9.1.0", "The id of each shard, and the availability zone of each node.")],
            ..spec(
                "shards",
                2,
                ANYTIME,
                "7.0.0",
                "Returns the shards with their slots and nodes.",
                "",
            )
        },
        show::shards,
    ),
    sub(
        NOTHING,
        Spec {
            flags: ADMIN,
            tips: VARIES,
            complexity: OF_NODES,
            special: Special {
                deprecated: Some(Deprecated { since: "5.0.0", replaced_by: "`CLUSTER REPLICAS`" }),
                ..Special::NONE
            },
            ..spec("slaves", 3, ADMIN, "3.0.0", "The older name of CLUSTER REPLICAS.", "node-id")
        },
        show::replicas,
    ),
    sub(
        WORLD,
        Spec {
            flags: ANYTIME,
            tips: STATS_TIPS,
            complexity: "O(N) where N is the number of slots",
            ..spec(
                "slot-stats",
                -4,
                ANYTIME,
                "8.0.0",
                "Returns the keys, CPU time and traffic of the slots of this node.",
                STATS,
            )
        },
        slot_stats::slot_stats,
    ),
    sub(
        NOTHING,
        Spec {
            flags: ANYTIME,
            tips: VARIES,
            complexity: OF_NODES,
            history: &[
                ("4.0.0", "Ids of nodes."),
                ("7.0.0", "Other names of nodes."),
                ("9.1.0", "The availability zone."),
            ],
            ..spec("slots", 2, ANYTIME, "3.0.0", "Returns ranges of slots with their nodes.", "")
        },
        show::slots,
    ),
    sub(
        NOTHING,
        Spec {
            flags: CHANGE.or(Flags::SYSTEM),
            ..spec(
                "syncslots",
                -3,
                CHANGE.or(Flags::SYSTEM),
                "9.0.0",
                "Moves keys between nodes: not for clients.",
                "",
            )
        },
        change::sync_slots,
    ),
];

const RESET: Flags = ADMIN.or(Flags::NOSCRIPT);
const MIGRATIONS: &str = "migration-group=(slotsrange-token=SLOTSRANGE range=(start-slot:integer end-slot:integer)... \
                          node-token=NODE node-id)...";
const SET_SLOT: &str = "slot:integer subcommand=(IMPORTING importing<node-id>|MIGRATING migrating<node-id>|NODE \
                        node<node-id>|stable=STABLE) [TIMEOUT timeout:integer]@8.0.0";
const STATS: &str = "filter=(SLOTSRANGE slotsrange=(start-slot:integer end-slot:integer)|ORDERBY orderby=(metric \
                     [LIMIT limit:integer] [order=(asc=ASC|desc=DESC)]))";
const STATS_TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_shards"];
