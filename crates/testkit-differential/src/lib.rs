//! Differential testing: the same random commands to two servers, replies compared.
//!
//! The reference is the specification for users: clients rely on its replies to unusual requests
//! too. No list of hand-written cases covers them, so grammars generate random cases and the
//! reference is the oracle (McKeeman, "Differential testing for software", Digital Technical
//! Journal 10(1), 1998).
//!
//! ```text
//!  commands/*.rs    one line per command: weight, syntax, comparison
//!       |  grammar.rs: the syntax, parsed
//!       v
//!  deck.rs          draws a rule
//!       v
//!  generate.rs      a rule + random numbers  ->  a step (one command or a short script)
//!       |  values.rs: keys, numbers, patterns   mutate.rs: invalid requests
//!       |  hyperloglogs.rs, streams.rs, payloads.rs: values of these forms, ids
//!       v
//!  session.rs       steps -> bytes, in batches, to one connection
//!       |
//!       |  ear.rs: the keyspace notifications that they cause
//!       v
//!  run.rs           both sessions in parallel; compare.rs compares replies,
//!       |           known.rs lists accepted differences; keyspace.rs compares the final data
//!       v
//!  shrink.rs        the shortest sequence that still shows the difference
//! ```
//!
//! [`sessions`] does the same with several clients at once, whose pushes are compared, too. [`access`] defines users at
//! random, and compares what they may do.
//!
//! # Episodes
//!
//! A run consists of episodes of some thousand steps. Each one starts on empty servers with new
//! connections and has its own seed. So one number reproduces a difference within a second, and one
//! difference doesn't affect the rest of the run.
//!
//! # Time
//!
//! The two servers don't read their clocks at the same time, so no reply may depend on it.
//! Lifetimes are either months long or over at once. Lifetimes of a millisecond occur only in scripts
//! that then sleep and touch the key, so that both servers have noticed. Replies with a remaining
//! time are compared with a tolerance.

pub mod access;
pub mod commands;
pub mod compare;
pub mod deck;
pub mod ear;
pub mod generate;
pub mod grammar;
pub mod hyperloglogs;
pub mod keyspace;
pub mod known;
pub mod mismatch;
pub mod mutate;
pub mod own;
pub mod payloads;
pub mod run;
pub mod scripts;
pub mod session;
pub mod sessions;
pub mod shrink;
pub mod streams;
pub mod target;
pub mod values;

pub use commands::Group;
pub use deck::Deck;
pub use known::KnownDifferences;
pub use run::{Options, Outcome, run};
pub use target::Target;
