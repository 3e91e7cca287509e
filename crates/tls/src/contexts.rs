//! The configurations of rustls that follow from the directives: one to accept clients, one to connect
//! to other servers. They are built as a whole, or the reason why they can't be is returned and
//! nothing has changed.

use crate::cache::SessionCache;
use crate::certificate::Facts;
use crate::ciphers::{Suites, protocols};
use crate::files::{self, Pair};
use crate::provider;
use crate::settings::{ClientAuth, Settings};
use crate::verify::Chain;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, InconsistentKeys, RootCertStore, ServerConfig, SupportedProtocolVersion,
};
use std::sync::Arc;
use std::time::SystemTime;

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct Contexts {
    pub server: Arc<ServerConfig>,
    pub client: Arc<ClientConfig>,
    pub facts: AllFacts,
    /// The settings that they were built from.
    pub settings: Settings,
    /// Words for the log about directives that have no effect, in part.
    pub warnings: Vec<String>,
}

/// The certificates in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllFacts {
    pub server: Option<Facts>,
    /// Only of a certificate of its own.
    pub client: Option<Facts>,
    /// The authority that expires first.
    pub authority: Option<Facts>,
}

/// The parts that both configurations need.
struct Common {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
    authorities: Vec<CertificateDer<'static>>,
    roots: Arc<RootCertStore>,
}

impl Contexts {
    /// Reads the files and builds both configurations.
    ///
    /// # Errors
    /// The first reason why they can't be used, for the log.
    pub fn build(settings: &Settings) -> Result<Contexts, String> {
        let mut warnings = Vec::new();
        let server = files::pair(&settings.server)?;
        let needs_roots = settings.client_auth != ClientAuth::No || settings.connects;
        if needs_roots && settings.ca_file.is_none() && settings.ca_dir.is_none() {
            return Err("Either tls-ca-cert-file or tls-ca-cert-dir must be specified when \
                        tls-cluster, tls-replication or tls-auth-clients are enabled!"
                .into());
        }
        let common = common(settings, &mut warnings)?;
        let server_facts = facts(&server, &settings.server.cert)?;
        let key = certified(&common, server, &settings.server)?;
        let own = match &settings.client.cert {
            None => None,
            Some(_) => {
                Some(files::pair(&settings.client).map_err(|e| e.replace("tls-", "tls-client-"))?)
            }
        };
        let client_facts = own.as_ref().map(|own| facts(own, &settings.client.cert)).transpose()?;
        let client_key = match own {
            None => key.clone(),
            Some(own) => certified(&common, own, &settings.client)?,
        };
        if settings.dh_params.is_some() {
            warnings.push(
                "tls-dh-params-file has no effect: no supported cipher suite uses such parameters"
                    .into(),
            );
        }
        let authority = common.authorities.iter().filter_map(Facts::of).min_by_key(|f| f.not_after);
        Ok(Contexts {
            server: Arc::new(server_config(settings, &common, key)?),
            client: Arc::new(client_config(&common, client_key)?),
            facts: AllFacts { server: Some(server_facts), client: client_facts, authority },
            settings: settings.clone(),
            warnings,
        })
    }
}

fn common(settings: &Settings, warnings: &mut Vec<String>) -> Result<Common, String> {
    let list = |text: &str| (!text.is_empty()).then(|| text.to_string());
    let (ciphers, suites) = (list(&settings.ciphers), list(&settings.ciphersuites));
    let suites = Suites::parse(ciphers.as_deref(), suites.as_deref(), |directive, word| {
        warnings.push(format!("{directive}: {word} is left out: it is not supported"));
    });
    let suites = suites.map_err(|(directive, none)| match directive {
        "tls-ciphers" => format!(
            "Failed to configure ciphers: {}. Supported are {}",
            settings.ciphers, none.known
        ),
        _ => format!(
            "Failed to configure ciphersuites: {}. Supported are {}",
            settings.ciphersuites, none.known
        ),
    })?;
    let provider =
        Arc::new(CryptoProvider { cipher_suites: suites.all(), ..provider::default_provider() });
    let authorities = files::authorities(settings.ca_file.as_deref(), settings.ca_dir.as_deref())
        .map_err(|why| {
        format!("Failed to configure CA certificate(s) file/directory: {why}")
    })?;
    let mut roots = RootCertStore::empty();
    let (_, refused) = roots.add_parsable_certificates(authorities.iter().cloned());
    if refused > 0 {
        warnings.push(format!("{refused} certificates of authorities can't be read"));
    }
    let versions = protocols(&settings.protocols)?;
    Ok(Common { provider, versions, authorities, roots: Arc::new(roots) })
}

/// The facts of a certificate, which must be valid now.
fn facts(pair: &Pair, path: &Option<std::path::PathBuf>) -> Result<Facts, String> {
    let path = path.as_deref().unwrap_or_else(|| "".as_ref()).display();
    let facts = pair.chain.first().and_then(Facts::of);
    let facts = facts.ok_or_else(|| format!("Failed to load certificate: {path}: not X.509"))?;
    match facts.refusal(SystemTime::now()) {
        Some(why) => Err(format!("Failed to load certificate: {path}: {why}")),
        None => Ok(facts),
    }
}

/// For error messages. docs/differences.md has it, too.
const SUPPORTED_KEYS: &str = "RSA from 2,048 bits on, ECDSA on P-256 and P-384, and Ed25519";

/// Joins a certificate with its key, which must fit.
fn certified(
    common: &Common,
    pair: Pair,
    identity: &crate::settings::Identity,
) -> Result<Arc<CertifiedKey>, String> {
    let path = identity.key.as_deref().unwrap_or_else(|| "".as_ref()).display();
    let failed = |why: &str| format!("Failed to load private key: {path}: {why}");
    let key = common.provider.key_provider.load_private_key(pair.key);
    // The library's error for a key on another curve doesn't name the reason.
    let key = key.map_err(|e| failed(&format!("{e}; supported are {SUPPORTED_KEYS}")))?;
    let key = CertifiedKey::new(pair.chain, key);
    match key.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
            Ok(Arc::new(key))
        }
        Err(rustls::Error::InconsistentKeys(_)) => Err(failed("key values mismatch")),
        Err(e) => Err(failed(&e.to_string())),
    }
}

/// Presents the same certificate to every peer.
#[derive(Debug)]
struct Always(Arc<CertifiedKey>);

impl rustls::server::ResolvesServerCert for Always {
    fn resolve(&self, _: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

impl rustls::client::ResolvesClientCert for Always {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn server_config(
    settings: &Settings,
    common: &Common,
    key: Arc<CertifiedKey>,
) -> Result<ServerConfig, String> {
    let builder = ServerConfig::builder_with_provider(common.provider.clone())
        .with_protocol_versions(&common.versions)
        .map_err(|e| format!("Failed to configure TLS protocols: {e}"))?;
    let builder = match settings.client_auth {
        ClientAuth::No => builder.with_no_client_auth(),
        auth => builder.with_client_cert_verifier(client_verifier(common, auth)?),
    };
    let mut config = builder.with_cert_resolver(Arc::new(Always(key)));
    config.ignore_client_order = settings.prefers_own_ciphers;
    config.session_storage = match settings.caching.is_on {
        true => Arc::new(SessionCache::new(settings.caching.size, settings.caching.timeout)),
        false => Arc::new(NoServerSessionStorage {}),
    };
    if !settings.caching.is_on {
        config.send_tls13_tickets = 0;
    }
    Ok(config)
}

fn client_verifier(
    common: &Common,
    auth: ClientAuth,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    // A directory without certificates verifies no client, which is safe. The library's verifier needs one.
    if common.roots.is_empty() {
        return match auth {
            ClientAuth::Optional => Ok(WebPkiClientVerifier::no_client_auth()),
            _ => Err(
                "Failed to configure CA certificate(s) file/directory: no certificate in it, so \
                      that no client could connect"
                    .into(),
            ),
        };
    }
    let roots = common.roots.clone();
    let builder = WebPkiClientVerifier::builder_with_provider(roots, common.provider.clone());
    let builder = match auth {
        ClientAuth::Optional => builder.allow_unauthenticated(),
        ClientAuth::Yes | ClientAuth::No => builder,
    };
    builder.build().map_err(|e| format!("Failed to configure CA certificate(s): {e}"))
}

fn client_config(common: &Common, key: Arc<CertifiedKey>) -> Result<ClientConfig, String> {
    let algorithms = common.provider.signature_verification_algorithms;
    let roots = (*common.roots).clone();
    let verifier = Chain::new(common.authorities.clone(), roots, algorithms);
    let mut config = ClientConfig::builder_with_provider(common.provider.clone())
        .with_protocol_versions(&common.versions)
        .map_err(|e| format!("Failed to configure TLS protocols: {e}"))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(Always(key)));
    // A link is opened once in a long time.
    config.resumption = Resumption::disabled();
    Ok(config)
}
