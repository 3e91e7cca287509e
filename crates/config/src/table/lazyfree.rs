//! Freeing memory in the background.

use super::EFFECTIVE;
use crate::directive::{Flags, Status};
use crate::kind::Kind;

section! {
    after: super::memory::END,
    title: "Lazy freeing",
    about: "A value that is removed can be freed at once, while its client waits, or handed to a \
            background thread. Here a value that takes long to free always goes to the thread. \
            Some of these still decide the command in the append-only file, UNLINK or DEL. With \
            it, other servers that load the file free the value in the background or at once.",

    LAZYFREE_LAZY_EVICTION = "lazyfree-lazy-eviction" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "An evicted key is logged as UNLINK; with no as DEL.",
    }
    LAZYFREE_LAZY_EXPIRE = "lazyfree-lazy-expire" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "An expired key is logged as UNLINK; with no as DEL.",
    }
    LAZYFREE_LAZY_SERVER_DEL = "lazyfree-lazy-server-del" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "A key that a command has emptied, as SPOP does, is logged as UNLINK; with no as DEL.",
    }
    LAZYFREE_LAZY_USER_DEL = "lazyfree-lazy-user-del" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::DEBUG,
        status: Status::Obsolete("large values are always freed in the background"),
        doc: "In the background for DEL, as for UNLINK; either is logged as the client has said \
              it.",
    }
    LAZYFREE_LAZY_USER_FLUSH = "lazyfree-lazy-user-flush" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::DEBUG,
        status: EFFECTIVE,
        doc: "In the background for FLUSHDB, FLUSHALL, SCRIPT FLUSH and FUNCTION FLUSH that say \
              neither SYNC nor ASYNC.",
    }
    REPLICA_LAZY_FLUSH = "replica-lazy-flush" aka "slave-lazy-flush" {
        kind: Kind::Bool,
        default: "yes",
        status: EFFECTIVE,
        doc: "In the background when a replica drops its data to load its primary's.",
    }
}
