//! Scripts and functions: EVAL, FCALL and their relatives.

mod atomic;
mod busy;
mod effects;
mod functions;
mod functions_kept;
mod long;
mod published;
mod refusals;
mod replies;
mod server_state;
mod statistics;
mod stress;
mod together;
