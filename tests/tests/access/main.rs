//! Users with restricted rights, and changes of users while clients are connected.

mod long_commands;
mod sessions;
mod stress;
mod transcripts;
