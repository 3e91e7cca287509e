//! Freeing memory in the background.

use super::EFFECTIVE;
use crate::directive::{Flags, Status};
use crate::kind::Kind;

section! {
    after: super::memory::END,
    title: "Lazy freeing",
    about: "A removed value can be freed at once, while its client waits, or by a background \
            thread. This server always leaves large values to the thread. Some of these \
            directives still choose the command in the append-only file, UNLINK or DEL. Other \
            servers that load the file free the value in the background or at once accordingly.",

    LAZYFREE_LAZY_EVICTION = "lazyfree-lazy-eviction" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "Log an evicted key as UNLINK; with no, as DEL.",
    }
    LAZYFREE_LAZY_EXPIRE = "lazyfree-lazy-expire" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "Log an expired key as UNLINK; with no, as DEL.",
    }
    LAZYFREE_LAZY_SERVER_DEL = "lazyfree-lazy-server-del" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "Log a key that a command such as SPOP has emptied as UNLINK; with no, as DEL.",
    }
    LAZYFREE_LAZY_USER_DEL = "lazyfree-lazy-user-del" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::DEBUG,
        status: Status::Obsolete("large values are always freed in the background"),
        doc: "Free in the background for DEL, as for UNLINK. Both are logged as the client sent \
              them.",
    }
    LAZYFREE_LAZY_USER_FLUSH = "lazyfree-lazy-user-flush" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "Free in the background for FLUSHDB, FLUSHALL, SCRIPT FLUSH and FUNCTION FLUSH \
              without SYNC or ASYNC.",
    }
    REPLICA_LAZY_FLUSH = "replica-lazy-flush" aka "slave-lazy-flush" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "Free in the background when a replica drops its data to load its primary's.",
    }
}
