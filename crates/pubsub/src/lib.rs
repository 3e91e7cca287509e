//! Channels, patterns and their subscribers, and messages on their way to a thread. No sockets and no threads.
//!
//! * [`registry`] - channels and patterns, with the clients of each thread that subscribe to them
//! * [`subscriber`] - the subscriptions of one client
//! * [`message`] - a message on its way to one thread: bytes that all receivers share
//! * [`run`] - consecutive messages to the same receivers, as one
//! * [`mail`] - messages of a thread in their order, found by client
//!
//! See `docs/design/publish-subscribe.md`.

pub mod mail;
pub mod message;
pub mod registry;
pub mod run;
#[cfg(test)]
mod simulation;
pub mod subscriber;
