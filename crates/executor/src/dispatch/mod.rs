//! From a request to its reply, in five stages, each of which knows only the next.
//!
//! ```text
//!  admit ─► hold ─► run ─► commit ─► reply
//!  may it?  shards  the    others    errors, accounts,
//!  now?     world   call   are told  what died is freed
//!                          release
//! ```
//!
//! * [`admit`], [`hold`], [`run`], [`commit`], [`reply`]: the stages
//! * [`request`], [`outcome`] - what the stages pass on, and how an execution can end; [`block`]: suspension
//! * [`call`] - calls the function of a command; [`under`]: for callers that hold the shards of several commands
//! * `absent` - commands that are known and missing; [`weft_state::command_table`] - all others by name;
//!   [`core`]: what one thread brings along
//!
//! See `docs/design/dispatch.md`.

pub mod absent;
pub mod admit;
pub mod block;
pub mod call;
pub mod commit;
pub mod core;
pub mod hold;
pub mod needs;
pub mod outcome;
pub mod refusals;
pub mod reply;
pub mod request;
pub mod run;
pub mod snapshot;
pub mod under;

pub use self::core::{ConnCx, Core};

/// A command on the connection or the server.
pub type ServerCommand = weft_state::command_table::ServerCommand<self::core::ServerFn>;
