//! Blocked clients: which one is served, when and in which order.

mod faults;
mod keys;
mod stream_readers;
mod waiting;
