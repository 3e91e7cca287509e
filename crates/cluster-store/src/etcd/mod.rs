//! The store in etcd 3.4 or later, over its JSON gateway (`/v3/...` on the port for clients).
//!
//! * [`calls`] - endpoints in turn, and the token of the user
//! * [`gateway`], [`connection`], [`tls`] - one request over HTTP
//! * [`encode`], [`decode`], [`reject`] - requests, responses and errors in JSON
//! * [`watch`], [`lines`] - a watch
//!
//! Two places separate certainty from doubt: `connection` knows whether a request was sent, and `reject` knows which errors
//! etcd returns before it executes a request.

mod calls;
mod connection;
pub mod decode;
mod encode;
mod gateway;
pub mod lines;
pub mod reject;
mod tls;
mod watch;

pub use calls::User;

use crate::address::Address;
use crate::store::{Error, Lease, LeaseId, Outcome, Revision, Snapshot, Store, Transaction, Watch};
use calls::{Calls, Repeat};
use decode::Decoder;
use encode::Encoder;
use gateway::Gateway;
use std::path::PathBuf;
use std::time::Duration;
use watch::EtcdWatch;
use weft_tls::settings::Identity;

/// How to reach etcd.
#[derive(Clone, Debug)]
pub struct Options {
    pub address: Address,
    pub user: Option<User>,
    /// The authorities of etcd's certificate.
    pub ca_file: Option<PathBuf>,
    /// Presented to an etcd that wants a certificate of its clients.
    pub identity: Identity,
}

impl Options {
    /// An etcd without users and certificates.
    pub fn new(address: Address) -> Options {
        Options { address, user: None, ca_file: None, identity: Identity::default() }
    }

    fn has_tls_files(&self) -> bool {
        self.ca_file.is_some() || self.identity.cert.is_some() || self.identity.key.is_some()
    }
}

/// See the module documentation.
#[derive(Debug)]
pub struct Etcd {
    calls: Calls,
    encoder: Encoder,
    decoder: Decoder,
}

impl Etcd {
    /// Reads the files. The first call connects.
    ///
    /// # Errors
    /// The option that can't be used, and the reason.
    pub fn new(options: &Options) -> Result<Etcd, String> {
        let tls = match options.address.tls {
            true => Some(tls::client_config(options)?),
            false if options.has_tls_files() => {
                return Err("certificates are given, but the address begins with etcd://: write \
                            etcds:// for TLS"
                    .to_string());
            }
            false => None,
        };
        let gateway = Gateway::new(&options.address, tls);
        Ok(Etcd {
            calls: Calls::new(gateway, options.user.clone()),
            encoder: Encoder::new(&options.address.prefix),
            decoder: Decoder::new(&options.address.prefix),
        })
    }
}

/// An answer that can't be read, to a request that was perhaps executed.
fn doubtful(why: decode::Malformed) -> Error {
    Error::Unknown(format!("not a response of etcd: {why}"))
}

impl Store for Etcd {
    fn read(&self, prefix: &[u8], timeout: Duration) -> Result<Snapshot, Error> {
        let body = self.encoder.read(prefix);
        let value = self.calls.call("/v3/kv/range", &body, Repeat::Read, timeout)?;
        let malformed = |why| Error::Unavailable(format!("not a response of etcd: {why}"));
        self.decoder.snapshot(&value).map_err(malformed)
    }

    fn transact(&self, transaction: &Transaction, timeout: Duration) -> Result<Outcome, Error> {
        if let Some(why) = transaction.refusal() {
            return Err(Error::NotDone(why));
        }
        let body = self.encoder.transact(transaction);
        let value = self.calls.call("/v3/kv/txn", &body, Repeat::Never, timeout)?;
        self.decoder.outcome(&value, transaction).map_err(doubtful)
    }

    fn grant(&self, ttl: Duration, timeout: Duration) -> Result<Lease, Error> {
        let body = encode::grant(ttl);
        let value = self.calls.call("/v3/lease/grant", &body, Repeat::Never, timeout)?;
        decode::lease(&value).map_err(doubtful)
    }

    fn keep_alive(&self, lease: LeaseId, timeout: Duration) -> Result<Duration, Error> {
        let body = encode::lease(lease);
        let value = self.calls.call("/v3/lease/keepalive", &body, Repeat::Idempotent, timeout)?;
        decode::remaining(&value).map_err(doubtful)?.ok_or(Error::LeaseGone)
    }

    fn revoke(&self, lease: LeaseId, timeout: Duration) -> Result<(), Error> {
        let body = encode::lease(lease);
        match self.calls.call("/v3/lease/revoke", &body, Repeat::Idempotent, timeout) {
            Ok(_) | Err(Error::LeaseGone) => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn watch(
        &self,
        prefix: &[u8],
        from: Revision,
        timeout: Duration,
    ) -> Result<Box<dyn Watch>, Error> {
        // One earlier, because etcd before 2024 forgets a deletion at exactly the compacted revision without saying so
        // (etcd's issue 18089). For etcd, 0 means "from now on".
        let start = Revision(from.0.saturating_sub(1).max(1));
        let body = self.encoder.watch(prefix, start);
        let watch = EtcdWatch::open(&self.calls, &self.decoder, &body, from, timeout)?;
        Ok(Box::new(watch))
    }
}
