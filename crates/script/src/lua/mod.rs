//! The engine for Lua 5.1.
//!
//! ```text
//!  interpreter   compiles and runs scripts; one for each thread
//!  sandbox       the globals of scripts, which they can't change
//!  builtins      functions of Lua's libraries that scripts get in another form
//!  api           redis.call and the other functions of `redis` and `server`
//!  numbers       numbers as arguments of commands
//!  library       the globals of functions, and redis.register_function
//!  convert       RESP to Lua values, and back
//!  strings       functions of Lua's `string` that must end when the script is stopped
//!  libs          cjson, cmsgpack, struct, bit
//!  frame         the values of one call, for functions written in Rust
//!  state         the interpreter's state: libraries, functions, protected calls
//!  interrupt     how the host and the limits end a script
//!  memory        its allocator
//! ```
//!
//! `context`, `frame` and its part `functions`, `inputs`, `interrupt`, `memory`, `shared` and `state` are the only files
//! with `unsafe` code.

mod api;
mod builtins;
mod bytecode;
mod context;
mod convert;
mod frame;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
mod inputs;
mod interpreter;
mod interrupt;
mod library;
mod libs;
mod memory;
mod numbers;
mod sandbox;
mod shared;
mod state;
mod strings;

pub use frame::{Frame, Kind, Native, Raised};
pub use interpreter::Lua;
pub use state::State;
