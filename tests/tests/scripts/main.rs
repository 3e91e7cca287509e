//! Scripts: EVAL and its relatives.

mod atomic;
mod busy;
mod effects;
mod long;
mod replies;
