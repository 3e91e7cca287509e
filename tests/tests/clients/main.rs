//! Connections, requests, replies, limits, and the memory of clients.

mod client_command;
mod connections;
mod held_back;
mod holdings;
mod idle;
mod limits;
mod long_requests;
mod operators;
mod pause;
mod programs;
mod protocol;
mod replies;
mod sessions;
mod starving;
mod unauthenticated;
