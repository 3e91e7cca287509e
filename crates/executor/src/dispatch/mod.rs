//! From a request to its reply, in five stages, each of which knows only the next.
//!
//! ```text
//!  admit ─► hold ─► run ─► commit ─► reply
//!  checks   take    call   notify    error reply, statistics,
//!           shards         release   deferred frees
//! ```
//!
//! * [`admit`], [`hold`], [`run`], [`commit`], [`reply`]: the stages
//! * [`messages`] - published messages, before a reply
//! * [`request`], [`outcome`] - the state that the stages share, and how an execution can end; [`block`]: suspension
//! * [`needs`] - the shards that a request needs; [`take`]: taking them, on any thread
//! * [`call`] - calls the function of a command; [`under`]: for callers that hold the shards of several commands
//! * [`trace`] - MONITOR, the command log and the latency monitor
//! * `absent` - unimplemented commands; [`weft_state::command_table`] - all others by name;
//!   [`core`]: the state of an executing thread
//!
//! See `docs/design/dispatch.md`.

pub mod absent;
pub mod admit;
pub mod block;
pub mod busy;
pub mod call;
pub mod commit;
pub mod core;
pub mod hold;
pub mod messages;
pub mod needs;
pub mod outcome;
pub mod paused;
pub mod refusals;
pub mod reply;
pub mod request;
pub mod run;
pub mod snapshot;
pub mod take;
pub mod trace;
pub mod under;

pub use self::core::{ConnCx, Core};

/// A command on the connection or the server.
pub type ServerCommand = weft_state::command_table::ServerCommand<self::core::ServerFn>;
