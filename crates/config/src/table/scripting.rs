//! Scripts, functions and modules.

use super::{LONG_MAX, MODULES};
use crate::directive::{Flags, Status};
use crate::kind::{Kind, int};

section! {
    after: super::cluster::END,
    title: "Scripts and modules",
    about: "",

    BUSY_REPLY_THRESHOLD = "busy-reply-threshold" aka "lua-time-limit" {
        kind: int(0, LONG_MAX),
        default: "5000",
        status: Status::Effective,
        doc: "Milliseconds after which a running script counts as busy: a command that needs its \
              keys gets BUSY instead of waiting. 0: never.",
    }
    LOADMODULE = "loadmodule" {
        kind: Kind::Statement { min: 1, max: usize::MAX },
        default: "/path/to/module.so argument",
        flags: Flags::REPEATABLE,
        status: MODULES,
        doc: "Load a module at start: the path of the file and arguments for it.",
    }
    LUA_ENABLE_INSECURE_API = "lua-enable-insecure-api" aka "lua-enable-deprecated-api" {
        kind: Kind::Bool,
        default: "no",
        flags: Flags::HIDDEN.and(Flags::PROTECTED),
        status: Status::Obsolete("functions that break out of the sandbox are not there"),
        doc: "Give Lua scripts functions that were removed because they break out of the \
              sandbox.",
    }
}
