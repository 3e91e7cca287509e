//! TLS without sockets, by rustls.
//!
//! * [`settings`] - the directives, as plain values
//! * [`contexts`] - the configurations of rustls that follow from them, or the reason why none does
//! * [`files`] - certificates, keys and authorities from files
//! * [`ciphers`] - cipher suites and protocol versions by OpenSSL's names
//! * [`verify`] - verification of servers to which this one connects
//! * [`cache`] - sessions that clients may resume
//! * [`certificate`] - the facts of a certificate that INFO, the log and logins show
//! * [`session`] - one connection: encrypts and decrypts bytes

pub mod cache;
pub mod certificate;
pub mod ciphers;
pub mod contexts;
pub mod files;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
pub mod session;
pub mod settings;
pub mod verify;

/// The cryptography. The reason for this one is in `docs/design/tls.md`.
pub use rustls::crypto::ring as provider;

pub use contexts::Contexts;
pub use session::Session;
pub use settings::Settings;
