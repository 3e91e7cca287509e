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
//! * [`request`] - what is passed on, and how it can end
//! * `absent` - commands that are known and missing; [`table`] - all others by name;
//!   [`core`]: what one thread brings along
//!
//! See `docs/design/dispatch.md`.

pub mod absent;
pub mod admit;
pub mod commit;
pub mod core;
pub mod hold;
pub mod reply;
pub mod request;
pub mod run;
pub mod table;

pub use self::core::{ConnCx, Core};
pub use table::{Cmd, CommandTable, Needs, Run, ServerCommand};
