//! The directives of TLS as plain values.

use std::path::PathBuf;
use std::time::Duration;

/// `tls-auth-clients`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    No,
    #[default]
    Yes,
    /// A certificate that is presented must be valid.
    Optional,
}

/// A certificate, its key, and the pass phrase of the key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Identity {
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub pass: Vec<u8>,
}

impl std::fmt::Debug for Identity {
    /// Without the pass phrase.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("cert", &self.cert).field("key", &self.key).finish()
    }
}

/// Sessions that clients may resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caching {
    pub is_on: bool,
    /// The number of sessions; 0: no limit.
    pub size: usize,
    pub timeout: Duration,
}

impl Default for Caching {
    fn default() -> Self {
        Caching { is_on: true, size: 20480, timeout: Duration::from_secs(300) }
    }
}

/// See the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub server: Identity,
    /// Presented to other servers; without a certificate, `server` is.
    pub client: Identity,
    pub ca_file: Option<PathBuf>,
    pub ca_dir: Option<PathBuf>,
    pub client_auth: ClientAuth,
    /// Connections to other servers need authorities to verify them.
    pub connects: bool,
    /// Empty: the default.
    pub protocols: String,
    pub ciphers: String,
    pub ciphersuites: String,
    pub prefers_own_ciphers: bool,
    pub caching: Caching,
    pub dh_params: Option<PathBuf>,
}
