//! TLS: the port, handshakes, certificates, replication.

mod certs;
mod client;
mod config;
mod hostile;
mod renewal;
mod replication;
mod sessions;
mod streams;
