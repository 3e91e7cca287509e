//! Listening and connections.

use super::{EFFECTIVE, INT_MAX, MPTCP, PORT_MAX};
use crate::directive::{Flags, Status};
use crate::kind::{Kind, int, text};

const RDMA: Status = Status::NotYet("RDMA");
const PACING: Status = Status::NotYet("pacing of new connections");

section! {
    after: super::files::END,
    title: "Network",
    about: "",

    BIND = "bind" {
        kind: Kind::Addresses { max: 16 },
        default: "127.0.0.1 -::1",
        flags: Flags::MULTI,
        status: EFFECTIVE,
        doc: "Addresses of this machine to listen on: up to 16, as numbers or names. By default \
              the server is reachable from this machine only (Valkey without a file listens \
              everywhere). * is every IPv4 and ::* every IPv6 address. A leading dash allows the \
              address to be missing. An empty list closes the TCP port. If the server listens on \
              every address, every host that reaches the machine reaches the server; see \
              protected-mode and requirepass.",
    }
    BIND_SOURCE_ADDR = "bind-source-addr" {
        kind: text(),
        default: "\"\"",
        status: EFFECTIVE,
        doc: "Local address for connections that this server opens: to its primary and to other \
              cluster nodes. Empty lets the system choose.",
    }
    PROTECTED_MODE = "protected-mode" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "While the default user has no password, accept commands only from this machine: \
              over loopback or the Unix socket. Other clients get an error that says what to do.",
    }
    PORT = "port" {
        kind: int(0, PORT_MAX),
        default: "6379",
        status: EFFECTIVE,
        doc: "TCP port to listen on. 0 means none.",
    }
    TCP_BACKLOG = "tcp-backlog" {
        kind: int(0, INT_MAX),
        default: "511",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "How many connections may wait to be accepted. The system limits it to \
              net.core.somaxconn.",
    }
    UNIXSOCKET = "unixsocket" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Path of a Unix socket to listen on as well. Empty means none.",
    }
    UNIXSOCKETGROUP = "unixsocketgroup" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Group that owns the Unix socket. Empty leaves the group of the process.",
    }
    UNIXSOCKETPERM = "unixsocketperm" {
        kind: Kind::Octal { max: 0o777 },
        default: "0",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Permissions of the Unix socket, in octal. 0 keeps what the umask allows.",
    }
    TIMEOUT = "timeout" {
        kind: int(0, INT_MAX),
        default: "0",
        status: EFFECTIVE,
        doc: "Close a client that has sent nothing for this many seconds. 0 closes none. \
              Replicas, blocked clients and subscribers are exempt.",
    }
    TCP_KEEPALIVE = "tcp-keepalive" {
        kind: int(0, INT_MAX),
        default: "300",
        status: EFFECTIVE,
        doc: "Seconds of silence after which the system probes whether a peer still exists. Dead \
              peers are noticed after about twice that. 0 sends no probes.",
    }
    SOCKET_MARK_ID = "socket-mark-id" {
        kind: int(0, u32::MAX as i64),
        default: "0",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Mark for the packets of listening sockets, for routing and filtering (SO_MARK on \
              Linux). 0 sets none.",
    }
    MAX_NEW_CONNECTIONS_PER_CYCLE = "max-new-connections-per-cycle" {
        kind: int(1, 1000),
        default: "10",
        status: PACING,
        doc: "How many connections one iteration of an event loop accepts, so that many new \
              clients do not delay the present ones.",
    }
    MAX_NEW_TLS_CONNECTIONS_PER_CYCLE = "max-new-tls-connections-per-cycle" {
        kind: int(1, 1000),
        default: "1",
        status: EFFECTIVE,
        doc: "How many TLS connections one iteration of an event loop accepts, and how many \
              handshakes it continues: they cost far more than commands.",
    }
    MPTCP_ENABLED = "mptcp" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::IMMUTABLE,
        status: MPTCP,
        doc: "Listen with Multipath TCP, which lets one connection use several networks.",
    }
    RDMA_BIND = "rdma-bind" {
        kind: Kind::Addresses { max: 16 },
        default: "\"\"",
        flags: Flags::MULTI,
        status: RDMA,
        doc: "Addresses of RDMA devices to listen on.",
    }
    RDMA_PORT = "rdma-port" {
        kind: int(0, PORT_MAX),
        default: "0",
        status: RDMA,
        doc: "Port to listen on over RDMA. 0 means none.",
    }
    RDMA_RX_SIZE = "rdma-rx-size" {
        kind: int(64 << 10, 16 << 20),
        default: "1048576",
        flags: Flags::IMMUTABLE,
        status: RDMA,
        doc: "Bytes of receive buffer for each RDMA connection.",
    }
    RDMA_COMPLETION_VECTOR = "rdma-completion-vector" {
        kind: int(-1, 1024),
        default: "-1",
        flags: Flags::IMMUTABLE,
        status: RDMA,
        doc: "Which completion vector of the RDMA device to use; -1 takes a random one.",
    }
}
