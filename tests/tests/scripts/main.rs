//! Scripts: EVAL and its relatives.

mod atomic;
mod effects;
mod functions;
mod long;
mod replies;
