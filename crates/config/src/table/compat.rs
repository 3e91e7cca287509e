//! Directives of older servers.
//!
//! Their mechanisms do not exist here, and mostly not in their own servers' later versions either.
//! They are accepted so that a configuration which was written down years ago, or dumped with
//! `CONFIG GET *`, starts.

use crate::directive::{Flags, Status};
use crate::kind::{Kind, one_of, text};

section! {
    after: super::encodings::END,
    title: "Older servers",
    about: "These directives have no effect. The server accepts them, so that existing files \
            load.",

    DYNAMIC_HZ = "dynamic-hz" {
        kind: Kind::Bool,
        default: "yes",
        status: Status::Obsolete("background work always follows the load"),
        doc: "Whether background work runs more often when there are many clients. It always \
              adapts.",
    }
    ACTIVEREHASHING = "activerehashing" {
        kind: Kind::Bool,
        default: "yes",
        status: Status::Obsolete("hash tables never need rehashing in the background"),
        doc: "Whether idle time is used to move entries of a growing hash table. This server's \
              tables grow in small steps, with the writes.",
    }
    LUA_REPLICATE_COMMANDS = "lua-replicate-commands" {
        kind: Kind::Bool,
        default: "yes",
        status: Status::Obsolete("effects of scripts are replicated, never their text"),
        doc: "Whether scripts are replicated by their effects. They always are.",
    }
    SANITIZE_DUMP_PAYLOAD = "sanitize-dump-payload" {
        kind: one_of(&["no", "yes", "clients"]),
        default: "yes",
        status: Status::Obsolete("payloads are always checked in full"),
        doc: "Whether values given to RESTORE or loaded from files are checked in depth. They \
              always are.",
    }
    GOPHER_ENABLED = "gopher-enabled" {
        kind: Kind::Bool,
        default: "no",
        status: Status::Obsolete("the Gopher protocol is not served"),
        doc: "Whether the server speaks Gopher.",
    }
    LIST_MAX_ZIPLIST_ENTRIES = "list-max-ziplist-entries" {
        kind: text(),
        default: "512",
        flags: Flags::HIDDEN,
        status: Status::Obsolete("list-max-listpack-size took its place"),
        doc: "Most elements of a compact list.",
    }
    LIST_MAX_ZIPLIST_VALUE = "list-max-ziplist-value" {
        kind: text(),
        default: "64",
        flags: Flags::HIDDEN,
        status: Status::Obsolete("list-max-listpack-size took its place"),
        doc: "Longest element of a compact list.",
    }
    EVENTS_PER_IO_THREAD = "events-per-io-thread" {
        kind: text(),
        default: "2",
        flags: Flags::HIDDEN,
        status: Status::Obsolete("connections decide how many I/O threads are active"),
        doc: "How many events activate another I/O thread.",
    }
}
