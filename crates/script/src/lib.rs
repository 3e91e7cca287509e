//! Scripts and functions: EVAL, EVALSHA, FCALL.
//!
//! * [`Scripts`] - the scripts of a server
//! * [`engine`] - what an engine offers to the executor, and what it needs from it
//! * [`lua`] - the engine for Lua 5.1
//!
//! No keyspace, sockets or threads: a script calls commands through [`engine::Host`].

pub mod cache;
pub mod engine;
pub mod lua;
pub mod running;
pub mod script;

use std::sync::atomic::{AtomicU32, AtomicUsize};

pub use cache::{Cache, sha_of};
pub use script::{Scope, Script, ScriptFlags};

/// The scripts of a server.
#[derive(Debug)]
pub struct Scripts {
    pub cache: Cache,
    pub running: running::Running,
    /// Bytes that all interpreters use, to within some kilobytes for each thread.
    pub interpreters: AtomicUsize,
    /// A script that has started over this often holds all shards. Only DEBUG SCRIPT-RESTARTS changes it.
    pub most_restarts: AtomicU32,
}

impl Default for Scripts {
    fn default() -> Self {
        const MOST_RESTARTS: u32 = 4;
        Scripts {
            cache: Cache::default(),
            running: running::Running::default(),
            interpreters: AtomicUsize::default(),
            most_restarts: AtomicU32::new(MOST_RESTARTS),
        }
    }
}
