//! Permissions.

use super::{EFFECTIVE, LONG_MAX};
use crate::directive::Flags;
use crate::kind::{Kind, int, one_of, text};

section! {
    after: super::threads::END,
    title: "Security",
    about: "",

    REQUIREPASS = "requirepass" {
        kind: text(),
        default: "\"\"",
        flags: Flags::SENSITIVE,
        status: EFFECTIVE,
        doc: "Password of the default user, for AUTH and HELLO. Empty requires none. Use a long \
              random one, since the server is fast enough for millions of guesses a second.",
    }
    USER = "user" {
        kind: Kind::Statement { min: 1, max: usize::MAX },
        default: "alice on >secret ~cached:* +@read",
        flags: Flags::REPEATABLE.and(Flags::SENSITIVE),
        status: EFFECTIVE,
        doc: "Define a user: a name and the rules that ACL SETUSER takes.",
    }
    ACLFILE = "aclfile" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "File with one user on each line, in place of user lines here. ACL LOAD and ACL \
              SAVE work on it.",
    }
    ACL_PUBSUB_DEFAULT = "acl-pubsub-default" {
        kind: one_of(&["allchannels", "resetchannels"]),
        default: "resetchannels",
        status: EFFECTIVE,
        doc: "Whether a new user may use every channel or none.",
    }
    ACLLOG_MAX_LEN = "acllog-max-len" {
        kind: int(0, LONG_MAX),
        default: "128",
        status: EFFECTIVE,
        doc: "How many refused commands and failed logins ACL LOG remembers.",
    }
    RENAME_COMMAND = "rename-command" {
        kind: Kind::Statement { min: 2, max: 2 },
        default: "FLUSHALL \"\"",
        flags: Flags::REPEATABLE,
        status: EFFECTIVE,
        doc: "Rename a command, or disable it with \"\", for every client. Scripts must use the new \
              name. Prefer rules for users, which keep the command for clients that need it: tools, \
              Sentinel and replicas with other names fail to call a renamed command, and its \
              new name appears in MONITOR, in SLOWLOG and in files.",
    }
    ENABLE_PROTECTED_CONFIGS = "enable-protected-configs" {
        kind: one_of(&["no", "yes", "local"]),
        default: "no",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Which clients may change dir, dbfilename and other directives that decide where \
              files are written: none, all, or those on this machine.",
    }
    ENABLE_DEBUG_COMMAND = "enable-debug-command" {
        kind: one_of(&["no", "yes", "local"]),
        default: "no",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Which clients may use DEBUG, which can crash the server on purpose.",
    }
    ENABLE_MODULE_COMMAND = "enable-module-command" {
        kind: one_of(&["no", "yes", "local"]),
        default: "no",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Which clients may use MODULE LOAD, LOADEX and UNLOAD. This version has no modules, so \
              they fail for permitted clients, too.",
    }
}
