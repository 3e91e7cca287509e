//! Scripts and functions: EVAL, EVALSHA, FCALL.
//!
//! * [`engine`] - what an engine offers to the executor, and what it needs from it
//! * [`lua`] - the engine for Lua 5.1
//!
//! No keyspace, sockets or threads: a script calls commands through [`engine::Host`].

pub mod engine;
pub mod lua;
