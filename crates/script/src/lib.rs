//! Scripts and functions: EVAL, EVALSHA, FCALL.
//!
//! * [`Scripts`] - the scripts of a server
//! * [`functions`] - its libraries of functions
//! * [`engine`] - what an engine offers to the executor, and what it needs from it
//! * [`lua`] - the engine for Lua 5.1
//!
//! No keyspace, sockets or threads: a script calls commands through [`engine::Host`].

pub mod busy;
pub mod cache;
pub mod engine;
mod flags;
pub mod functions;
pub mod lua;
pub mod running;
pub mod script;

use std::sync::atomic::{AtomicU32, AtomicUsize};

pub use cache::{Cache, sha_of};
pub use flags::ScriptFlags;
pub use script::{History, Scope, Script, flags_of};

/// The scripts of a server.
#[derive(Debug)]
pub struct Scripts {
    pub cache: Cache,
    pub functions: functions::Functions,
    pub running: running::Running,
    pub busy: busy::BusyScripts,
    /// Bytes that all interpreters use, to within some kilobytes for each thread.
    pub interpreters: AtomicUsize,
    /// A script that has started over this often holds all shards. Only DEBUG SCRIPT-RESTARTS changes it.
    pub most_restarts: AtomicU32,
}

impl Default for Scripts {
    fn default() -> Self {
        const MOST_RESTARTS: u32 = 4;
        Scripts {
            busy: busy::BusyScripts::default(),
            functions: functions::Functions::default(),
            cache: Cache::default(),
            running: running::Running::default(),
            interpreters: AtomicUsize::default(),
            most_restarts: AtomicU32::new(MOST_RESTARTS),
        }
    }
}
