//! TLS: the port, handshakes, certificates, client libraries, replication, Sentinel.

mod certs;
mod client;
mod config;
mod hostile;
mod libraries;
mod openssl;
mod renewal;
mod replication;
mod sentinel;
mod sessions;
mod streams;
