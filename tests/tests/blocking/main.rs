//! Blocked clients: which client is served, when, and in which order.

mod faults;
mod keys;
mod read_ahead;
mod stream_readers;
mod waiting;
