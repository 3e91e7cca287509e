//! The certificates and keys in use, and the directives that they follow from.
//!
//! A connection takes the contexts that are in force when it begins, and keeps them. So new certificates
//! change nothing for established connections.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use weft_config::{Config, Id};
use weft_tls::files::Stamps;
use weft_tls::settings::{Caching, ClientAuth, Identity};
use weft_tls::{Contexts, Settings};

/// See the module documentation.
#[derive(Debug, Default)]
pub struct Tls {
    contexts: RwLock<Option<Arc<Contexts>>>,
    /// The state of the files when they were read.
    pub stamps: Mutex<Stamps>,
    /// The times of the next checks, in monotonic milliseconds.
    pub next_reload_ms: AtomicI64,
    pub next_warning_ms: AtomicI64,
}

impl Tls {
    /// The contexts in force; `None` without TLS.
    pub fn contexts(&self) -> Option<Arc<Contexts>> {
        self.contexts.read().unwrap_or_else(|p| p.into_inner()).clone()
    }

    pub fn set_contexts(&self, contexts: Arc<Contexts>) {
        *self.contexts.write().unwrap_or_else(|p| p.into_inner()) = Some(contexts);
    }
}

/// The directives that a context depends on.
pub const DIRECTIVES: &[Id] = &[
    Id::TLS_CERT_FILE,
    Id::TLS_KEY_FILE,
    Id::TLS_KEY_FILE_PASS,
    Id::TLS_CLIENT_CERT_FILE,
    Id::TLS_CLIENT_KEY_FILE,
    Id::TLS_CLIENT_KEY_FILE_PASS,
    Id::TLS_DH_PARAMS_FILE,
    Id::TLS_CA_CERT_FILE,
    Id::TLS_CA_CERT_DIR,
    Id::TLS_AUTH_CLIENTS,
    Id::TLS_REPLICATION,
    Id::TLS_CLUSTER,
    Id::TLS_PROTOCOLS,
    Id::TLS_CIPHERS,
    Id::TLS_CIPHERSUITES,
    Id::TLS_PREFER_SERVER_CIPHERS,
    Id::TLS_SESSION_CACHING,
    Id::TLS_SESSION_CACHE_SIZE,
    Id::TLS_SESSION_CACHE_TIMEOUT,
];

/// Whether any connection is encrypted.
pub fn is_wanted(config: &Config) -> bool {
    config.int(Id::TLS_PORT) != 0 || connects(config)
}

/// Whether connections to other servers are encrypted.
fn connects(config: &Config) -> bool {
    config.bool(Id::TLS_REPLICATION) || config.bool(Id::TLS_CLUSTER)
}

/// The directives as the contexts need them.
pub fn settings(config: &Config) -> Settings {
    let text = |id| config.str(id).into_owned();
    let identity = |cert, key, pass| Identity {
        cert: config.path(cert),
        key: config.path(key),
        pass: config.bytes(pass).to_vec(),
    };
    Settings {
        server: identity(Id::TLS_CERT_FILE, Id::TLS_KEY_FILE, Id::TLS_KEY_FILE_PASS),
        client: identity(
            Id::TLS_CLIENT_CERT_FILE,
            Id::TLS_CLIENT_KEY_FILE,
            Id::TLS_CLIENT_KEY_FILE_PASS,
        ),
        ca_file: config.path(Id::TLS_CA_CERT_FILE),
        ca_dir: config.path(Id::TLS_CA_CERT_DIR),
        client_auth: match config.word(Id::TLS_AUTH_CLIENTS) {
            "no" => ClientAuth::No,
            "optional" => ClientAuth::Optional,
            _ => ClientAuth::Yes,
        },
        connects: connects(config),
        protocols: text(Id::TLS_PROTOCOLS),
        ciphers: text(Id::TLS_CIPHERS),
        ciphersuites: text(Id::TLS_CIPHERSUITES),
        prefers_own_ciphers: config.bool(Id::TLS_PREFER_SERVER_CIPHERS),
        caching: Caching {
            is_on: config.bool(Id::TLS_SESSION_CACHING),
            size: config.int(Id::TLS_SESSION_CACHE_SIZE) as usize,
            timeout: Duration::from_secs(config.int(Id::TLS_SESSION_CACHE_TIMEOUT) as u64),
        },
        dh_params: config.path(Id::TLS_DH_PARAMS_FILE),
    }
}
