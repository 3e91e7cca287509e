//! TLS to etcd: unlike Weft's own links, the name in the server's certificate counts, as for every client of etcd.

use super::Options;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use weft_tls::{files, provider};

/// The configuration for an address with TLS.
///
/// # Errors
/// The file that can't be used, and the reason.
pub fn client_config(options: &Options) -> Result<ClientConfig, String> {
    let Some(ca_file) = &options.ca_file else {
        return Err(
            "etcds:// needs a file with the authority that signed etcd's certificate".to_string()
        );
    };
    let authorities = files::certificates(ca_file)
        .map_err(|why| format!("Failed to load authority: {}: {why}", ca_file.display()))?;
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(authorities);
    if added == 0 {
        return Err(format!("{}: no certificate of an authority in it", ca_file.display()));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(provider::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots);
    let identity = &options.identity;
    match (&identity.cert, &identity.key) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(_), Some(key)) => {
            let pair = files::pair(identity)?;
            builder
                .with_client_auth_cert(pair.chain, pair.key)
                .map_err(|e| format!("Failed to load private key: {}: {e}", key.display()))
        }
        _ => Err("a client certificate and its key must be given together".to_string()),
    }
}
