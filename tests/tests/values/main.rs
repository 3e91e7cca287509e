//! Values of all types: encodings, expiry and transfer.

mod all_types;
mod dump;
mod expiry;
mod list_values;
mod stream_groups;
mod streams;
mod time;
mod transfer;
