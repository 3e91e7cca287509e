//! Freeing memory in the background.

use super::{EFFECTIVE, REPLICATION};
use crate::directive::{Flags, Status};
use crate::kind::Kind;

section! {
    after: super::memory::END,
    title: "Lazy freeing",
    about: "A value that is removed can be freed at once, while its client waits, or handed to a \
            background thread. These say which, by the reason for the removal.",

    LAZYFREE_LAZY_EVICTION = "lazyfree-lazy-eviction" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::DEBUG,
        status: Status::Obsolete("large values are always freed in the background"),
        doc: "In the background when a key is evicted.",
    }
    LAZYFREE_LAZY_EXPIRE = "lazyfree-lazy-expire" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::DEBUG,
        status: Status::Obsolete("large values are always freed in the background"),
        doc: "In the background when a key expires.",
    }
    LAZYFREE_LAZY_SERVER_DEL = "lazyfree-lazy-server-del" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::DEBUG,
        status: Status::Obsolete("large values are always freed in the background"),
        doc: "In the background when a command replaces a value, as RENAME and SET do.",
    }
    LAZYFREE_LAZY_USER_DEL = "lazyfree-lazy-user-del" {
        kind: Kind::Bool,
        default: "yes",
        flags: Flags::DEBUG,
        status: Status::Obsolete("large values are always freed in the background"),
        doc: "In the background for DEL, as for UNLINK.",
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
        status: REPLICATION,
        doc: "In the background when a replica drops its data to load its primary's.",
    }
}
