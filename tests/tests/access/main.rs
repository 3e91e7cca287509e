//! Users with restricted rights, and changes of users while clients are connected.

mod sessions;
mod stress;
mod transcripts;
