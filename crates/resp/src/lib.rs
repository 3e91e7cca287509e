//! RESP2, RESP3 and inline commands: an incremental request parser, a reply writer, and an encoder of
//! requests.
//!
//! There are no sockets here. The parser looks at bytes that its caller read and returns spans into
//! them, so that a complete request is executed from the read buffer without a copy; the writer
//! appends to a byte vector that its caller sends. Both are plain state machines, which makes them
//! fuzzable and testable at every split of the input.
//!
//! * [`parser`] - requests (arrays of bulk strings, and inline commands)
//! * [`reply`] - replies in both protocol versions, with large values held by reference
//! * [`unit`](mod@unit) - requests for files and replicas, in transactions where they belong together
//!
//! Protocol: <https://valkey.io/topics/protocol/>. Error texts are Valkey 9.1's.

pub mod fuzz;
pub mod parser;
pub mod reply;
pub mod unit;

pub use fuzz::fuzz_parse;
pub use parser::{Limits, Parser, ProtocolError, Span, Step};
pub use reply::{Blob, Proto, Reply};
pub use unit::{Command, FirstSelect, UnitEncoder, append_request};
