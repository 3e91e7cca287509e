//! Scripts: EVAL and its relatives.

mod atomic;
mod effects;
mod long;
mod refusals;
mod replies;
mod stress;
