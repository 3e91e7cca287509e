//! Channels, patterns and their subscribers, and messages to the threads. No sockets and no
//! threads.
//!
//! * [`registry`] - channels and patterns, with the clients of each thread that subscribe to them
//! * [`subscriber`] - the subscriptions of one client
//! * [`message`] - a message to one thread, whose bytes all receivers share
//! * [`run`] - consecutive messages to the same receivers, delivered as one
//! * [`inbox`] - the messages of a thread in order, indexed by client
//!
//! See `docs/design/publish-subscribe.md`.

pub mod inbox;
pub mod message;
pub mod registry;
pub mod run;
#[cfg(test)]
mod simulation;
pub mod subscriber;
