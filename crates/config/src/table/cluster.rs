//! Cluster mode.

use super::{EFFECTIVE, INT_MAX, LONG_MAX, PORT_MAX};
use crate::checks::{
    announced_ip, cluster_config_file, cluster_store, host_name, ipv4, ipv6, node_name,
};
use crate::directive::{Flags, Status};
use crate::kind::{Kind, bytes, checked, int, one_of, text};

section! {
    after: super::replication::END,
    title: "Cluster",
    about: "",

    CLUSTER_ENABLED = "cluster-enabled" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Be a node of a cluster: of its own, or with others if cluster-store is set.",
    }
    CLUSTER_STORE = "cluster-store" {
        kind: checked(cluster_store),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "The etcd in which the nodes of a cluster keep their map: \
              etcd://HOST:PORT[,HOST:PORT...]/PREFIX, or etcds:// for TLS. All nodes of a cluster \
              have the same. Empty: the environment variable WEFT_CLUSTER_STORE; without it, the \
              node is a cluster of its own.",
    }
    CLUSTER_STORE_USER = "cluster-store-user" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "User of that etcd, if it has users.",
    }
    CLUSTER_STORE_PASSWORD = "cluster-store-password" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE.and(Flags::SENSITIVE),
        status: EFFECTIVE,
        doc: "Password of this user.",
    }
    CLUSTER_STORE_CA_CERT_FILE = "cluster-store-ca-cert-file" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Authorities of etcd's certificate (PEM), for etcds://.",
    }
    CLUSTER_STORE_CERT_FILE = "cluster-store-cert-file" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Certificate of this node for an etcd that requires one (PEM).",
    }
    CLUSTER_STORE_KEY_FILE = "cluster-store-key-file" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Key of this certificate (PEM).",
    }
    CLUSTER_STORE_OUTAGE = "cluster-store-outage" {
        kind: one_of(&["stop", "continue"]),
        default: "stop",
        status: EFFECTIVE,
        doc: "The behaviour of a primary that cannot reach etcd. stop: it answers no request on keys after \
              its lease. continue: it continues as long as all replicas that may be promoted promise, again \
              and again, not to be. Set the same on all nodes.",
    }
    CLUSTER_WRITE_QUORUM = "cluster-write-quorum" {
        kind: int(0, 16),
        default: "0",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "With cluster-store: how many replicas must have a write before it is answered. Only \
              these replicas are promoted, so no answered write is lost. 0: none, as in Valkey.",
    }
    CLUSTER_CONFIG_FILE = "cluster-config-file" {
        kind: checked(cluster_config_file),
        default: "nodes.conf",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "File in which the node keeps its view of the cluster. Do not edit it, and do not \
              share it between nodes.",
    }
    CLUSTER_CONFIG_SAVE_BEHAVIOR = "cluster-config-save-behavior" {
        kind: one_of(&["sync", "best-effort"]),
        default: "sync",
        status: EFFECTIVE,
        doc: "If that file cannot be written: refuse the change, or continue.",
    }
    CLUSTER_DATABASES = "cluster-databases" {
        kind: int(1, INT_MAX),
        default: "1",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "How many numbered databases there are in cluster mode.",
    }
    CLUSTER_NODE_TIMEOUT = "cluster-node-timeout" {
        kind: int(0, LONG_MAX),
        default: "15000",
        status: EFFECTIVE,
        doc: "With cluster-store: milliseconds of a node's lease, rounded up to whole seconds. A primary \
              that cannot reach etcd stops after it, and a replica takes over. A change needs a \
              restart.",
    }
    CLUSTER_PORT = "cluster-port" {
        kind: int(0, PORT_MAX),
        default: "0",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Port of the cluster bus to announce, where nothing listens. 0 is the client port plus 10000.",
    }
    CLUSTER_REPLICA_VALIDITY_FACTOR =
        "cluster-replica-validity-factor" aka "cluster-slave-validity-factor" {
        kind: int(0, INT_MAX),
        default: "10",
        status: EFFECTIVE,
        doc: "How stale a replica may be and still take over, in node timeouts since it last \
              heard its primary. 0 sets no limit.",
    }
    CLUSTER_REPLICA_NO_FAILOVER = "cluster-replica-no-failover" aka "cluster-slave-no-failover" {
        kind: Kind::Bool,
        default: "no",
        status: EFFECTIVE,
        doc: "Never take over from a failing primary automatically.",
    }
    CLUSTER_MIGRATION_BARRIER = "cluster-migration-barrier" {
        kind: int(0, INT_MAX),
        default: "1",
        status: EFFECTIVE,
        doc: "How many working replicas a primary keeps before one may move to a primary with slots that has lost its replicas.",
    }
    CLUSTER_ALLOW_REPLICA_MIGRATION = "cluster-allow-replica-migration" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Whether replicas move to such a primary, in a cluster with a store.",
    }
    CLUSTER_REQUIRE_FULL_COVERAGE = "cluster-require-full-coverage" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Refuse every command while a slot has no node. With no, the other slots are \
              served.",
    }
    CLUSTER_ALLOW_READS_WHEN_DOWN = "cluster-allow-reads-when-down" {
        kind: Kind::Bool,
        default: "no",
        status: EFFECTIVE,
        doc: "Serve reads from this node while the cluster is down.",
    }
    CLUSTER_ALLOW_PUBSUBSHARD_WHEN_DOWN = "cluster-allow-pubsubshard-when-down" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Serve sharded channels while the cluster is down.",
    }
    CLUSTER_LINK_SENDBUF_LIMIT = "cluster-link-sendbuf-limit" {
        kind: bytes(0, u64::MAX),
        default: "0",
        status: Status::Obsolete("client-output-buffer-limit pubsub limits what waits for another node"),
        doc: "Bytes that may wait for another node before its link is closed and reopened. 0 \
              sets no limit.",
    }
    CLUSTER_BLACKLIST_TTL = "cluster-blacklist-ttl" {
        kind: int(i64::MIN, i64::MAX),
        default: "60",
        status: EFFECTIVE,
        doc: "Seconds after CLUSTER FORGET of a node for which a second one, sent to any node, succeeds.",
    }
    CLUSTER_MANUAL_FAILOVER_TIMEOUT = "cluster-manual-failover-timeout" {
        kind: int(1, INT_MAX),
        default: "5000",
        status: EFFECTIVE,
        doc: "Milliseconds after which MIGRATESLOTS gives up, if commands on the slots that it has suspended \
              do not end. CLUSTER FAILOVER gives up after twice cluster-node-timeout.",
    }
    CLUSTER_PREFERRED_ENDPOINT_TYPE = "cluster-preferred-endpoint-type" {
        kind: one_of(&["ip", "hostname", "unknown-endpoint"]),
        default: "ip",
        status: EFFECTIVE,
        doc: "The endpoint that clients get: the address, the host name, or nothing, so that they \
              keep the one they used.",
    }
    CLUSTER_ANNOUNCE_IP = "cluster-announce-ip" {
        kind: checked(announced_ip),
        default: "\"\"",
        status: EFFECTIVE,
        doc: "Address at which others reach this node. Empty lets them detect it.",
    }
    CLUSTER_ANNOUNCE_CLIENT_IPV4 = "cluster-announce-client-ipv4" {
        kind: checked(ipv4),
        default: "\"\"",
        status: EFFECTIVE,
        doc: "IPv4 address for clients, where it differs from the one for nodes.",
    }
    CLUSTER_ANNOUNCE_CLIENT_IPV6 = "cluster-announce-client-ipv6" {
        kind: checked(ipv6),
        default: "\"\"",
        status: EFFECTIVE,
        doc: "IPv6 address for clients, where it differs from the one for nodes.",
    }
    CLUSTER_ANNOUNCE_CLIENT_PORT = "cluster-announce-client-port" {
        kind: int(0, PORT_MAX),
        default: "0",
        status: EFFECTIVE,
        doc: "Port for clients, where it differs from the one for nodes. 0 is the same.",
    }
    CLUSTER_ANNOUNCE_CLIENT_TLS_PORT = "cluster-announce-client-tls-port" {
        kind: int(0, PORT_MAX),
        default: "0",
        status: EFFECTIVE,
        doc: "The same for TLS.",
    }
    CLUSTER_ANNOUNCE_HOSTNAME = "cluster-announce-hostname" {
        kind: checked(host_name),
        default: "\"\"",
        status: EFFECTIVE,
        doc: "Host name to announce to clients, for checking certificates.",
    }
    CLUSTER_ANNOUNCE_HUMAN_NODENAME = "cluster-announce-human-nodename" {
        kind: checked(node_name),
        default: "\"\"",
        status: EFFECTIVE,
        doc: "Name of this node in logs of the cluster, in addition to its long id.",
    }
    CLUSTER_ANNOUNCE_PORT = "cluster-announce-port" {
        kind: int(0, PORT_MAX),
        default: "0",
        status: EFFECTIVE,
        doc: "Port at which others reach this node. 0 is its own port.",
    }
    CLUSTER_ANNOUNCE_TLS_PORT = "cluster-announce-tls-port" {
        kind: int(0, PORT_MAX),
        default: "0",
        status: EFFECTIVE,
        doc: "TLS port at which others reach this node. 0 is its own.",
    }
    CLUSTER_ANNOUNCE_BUS_PORT = "cluster-announce-bus-port" {
        kind: int(0, PORT_MAX),
        default: "0",
        status: EFFECTIVE,
        doc: "Bus port at which others reach this node. 0 is its own.",
    }
    CLUSTER_SLOT_STATS_ENABLED = "cluster-slot-stats-enabled" {
        kind: Kind::Bool,
        default: "no",
        status: EFFECTIVE,
        doc: "Count CPU time and network traffic by slot, for CLUSTER SLOT-STATS.",
    }
    CLUSTER_SLOT_MIGRATION_LOG_MAX_LEN = "cluster-slot-migration-log-max-len" {
        kind: int(0, LONG_MAX),
        default: "1000",
        status: EFFECTIVE,
        doc: "How many finished slot migrations the server remembers.",
    }
    SLOT_MIGRATION_MAX_FAILOVER_REPL_BYTES = "slot-migration-max-failover-repl-bytes" {
        kind: Kind::MemoryOrMinusOne,
        default: "0",
        status: Status::Obsolete("writes to the slots wait only once few changed keys are left"),
        doc: "Bytes of unsent writes at which a slot migration may complete, while writes to the \
              slots wait. -1 sets no limit.",
    }
}
