//! Permissions.

use super::{EFFECTIVE, LONG_MAX};
use crate::directive::{Flags, Status};
use crate::kind::{Kind, int, one_of, text};

const RENAMING: Status = Status::NotYet("renaming of commands");

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
        flags: Flags::REPEATABLE.and(Flags::SENSITIVE).and(Flags::GUARD),
        status: EFFECTIVE,
        doc: "Define a user: a name and the rules that ACL SETUSER takes.",
    }
    ACLFILE = "aclfile" {
        kind: text(),
        default: "\"\"",
        flags: Flags::IMMUTABLE.and(Flags::GUARD),
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
        flags: Flags::REPEATABLE.and(Flags::GUARD),
        status: RENAMING,
        doc: "Rename a command, or disable it with \"\". Rules for users do this better.",
    }
    ALLOW_UNSUPPORTED_PROTECTION = "allow-unsupported-protection" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::IMMUTABLE,
        status: EFFECTIVE,
        doc: "Start although a protective directive, such as rename-command or tls-port, \
              has no effect in this version. With no, the server refuses to start with \
              such a directive, since it would serve clients that the directive should keep out.",
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
        status: super::MODULES,
        doc: "Which clients may use MODULE, which runs code from files in the server.",
    }
}
