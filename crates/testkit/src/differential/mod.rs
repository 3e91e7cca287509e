//! Differential testing: the same random commands to two servers, replies compared.
//!
//! The reference is the specification that matters to users: what it answers to a strange
//! request is what clients have learned to expect. No list of hand-written cases covers
//! that, so the cases are drawn at random from grammars and the reference is the oracle
//! (McKeeman, "Differential testing for software", Digital Technical Journal 10(1), 1998).
//!
//! ```text
//!  commands/*.rs    one line per command: weight, syntax, how to compare
//!       |  grammar.rs: the syntax, parsed
//!       v
//!  deck.rs          draws a rule
//!       v
//!  generate.rs      a rule + random numbers  ->  a step (one command or a short script)
//!       |  values.rs: keys, numbers, patterns   mutate.rs: the same, made wrong
//!       |  hyperloglogs.rs, payloads.rs: values of these forms   streams.rs: ids
//!       v
//!  session.rs       steps -> bytes, in batches, to one connection
//!       |
//!       v
//!  run.rs           both sessions side by side; compare.rs decides what "same" means,
//!       |           known.rs what may differ; keyspace.rs compares what is left at the end
//!       v
//!  shrink.rs        the shortest sequence that still shows the difference
//! ```
//!
//! # Episodes
//!
//! A run is cut into episodes of some thousand steps. Each starts on empty servers with
//! fresh connections and has a seed of its own, so a difference is reproduced from one
//! number in a second, and one difference does not spoil the rest of the run.
//!
//! # Time
//!
//! The two servers do not read their clocks at the same instant, so nothing may depend on
//! an instant. Lifetimes are either months long or over at once; those of a millisecond
//! appear only in scripts that then sleep and touch the key, so that both servers have
//! noticed. Replies that tell a remaining time are compared with a tolerance.

pub mod commands;
pub mod compare;
pub mod deck;
pub mod generate;
pub mod grammar;
pub mod hyperloglogs;
pub mod keyspace;
pub mod known;
pub mod mutate;
pub mod own;
pub mod payloads;
pub mod run;
pub mod session;
pub mod shrink;
pub mod streams;
pub mod values;

pub use commands::Group;
pub use deck::Deck;
pub use known::KnownDifferences;
pub use run::{Options, Outcome, run};
