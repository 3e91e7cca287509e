//! Scripts, functions and modules.

use super::{LONG_MAX, MODULES, SCRIPTING};
use crate::directive::Flags;
use crate::kind::{Kind, int};

section! {
    after: super::cluster::END,
    title: "Scripts and modules",
    about: "",

    BUSY_REPLY_THRESHOLD = "busy-reply-threshold" aka "lua-time-limit" {
        kind: int(0, LONG_MAX),
        default: "5000",
        status: SCRIPTING,
        doc: "Milliseconds after which a running script counts as busy and can be killed. 0 \
              never reports it.",
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
        status: SCRIPTING,
        doc: "Give Lua scripts functions that were removed because they break out of the \
              sandbox.",
    }
}
