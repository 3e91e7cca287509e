//! TLS: from the options to a connection's configuration, as in valkey-benchmark.
//!
//! Certificates are verified with `--cacert`, `--cacertdir` or the roots of the system. The name of
//! the host is not compared: the reference compares none, and certificates of test servers seldom
//! have a matching one. Each connection does a full handshake, so that with `-k 0` its cost is
//! measured.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ClientConnection, Resumption};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, Ipv4Addr, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::{CertificateResult, load_certs_from_paths, load_native_certs};

pub use weft_tls::ciphers::Suites;
use weft_tls::verify::{Chain, NoVerification};

/// The options of TLS.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// The name that is sent to the server.
    pub sni: Option<ServerName<'static>>,
    pub ca_file: Option<PathBuf>,
    pub ca_dir: Option<PathBuf>,
    /// No certificate is verified.
    pub insecure: bool,
    /// Certificate and key of the client.
    pub identity: Option<(PathBuf, PathBuf)>,
    pub suites: Suites,
}

/// The state that all TLS connections share.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// Reads certificates and keys.
    ///
    /// # Errors
    /// With the option whose file can't be used, and the reason.
    pub fn new(options: &TlsOptions) -> Result<Tls, String> {
        let provider = Arc::new(CryptoProvider {
            cipher_suites: options.suites.all(),
            ..ring::default_provider()
        });
        let verifier: Arc<dyn ServerCertVerifier> = if options.insecure {
            Arc::new(NoVerification(provider.signature_verification_algorithms))
        } else {
            let (certs, roots) = trusted(options)?;
            Arc::new(Chain::new(certs, roots, provider.signature_verification_algorithms))
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| format!("TLS: {e}"))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &options.identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => builder
                .with_client_auth_cert(certificates(cert)?, private_key(key)?)
                .map_err(|e| format!("Invalid private key: {}: {e}", key.display()))?,
        };
        config.resumption = Resumption::disabled();
        config.enable_sni = options.sni.is_some();
        // Without a name to send, any will do: it is neither sent nor compared.
        let nobody = || ServerName::IpAddress(IpAddr::V4(Ipv4Addr::from([0; 4])));
        let name = options.sni.clone().unwrap_or_else(nobody);
        Ok(Tls { config: Arc::new(config), name })
    }

    /// The client's side of a new connection.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn session(&self) -> io::Result<ClientConnection> {
        let session = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        let mut session = session.map_err(io::Error::other)?;
        // The pipeline already bounds requests in flight.
        session.set_buffer_limit(None);
        Ok(session)
    }
}

/// Whether an error comes from TLS, and not from the socket below.
pub fn is_failure(e: &io::Error) -> bool {
    e.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
}

/// The failure of a handshake as text.
pub fn words(e: &io::Error) -> String {
    use rustls::{CertificateError, Error};
    let error = e.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match error {
        // The library reports this by the name of the error only.
        Some(Error::InvalidCertificate(CertificateError::Other(inner)))
            if inner.to_string() == "UnsupportedCertVersion" =>
        {
            "the server's certificate is of version 1: only those of version 3 can be verified; \
             use such a one, or --insecure"
                .to_string()
        }
        // A server without TLS waits for the end of bytes that it takes for a request.
        _ if e.kind() == io::ErrorKind::WouldBlock => {
            "no answer: does the server speak TLS?".to_string()
        }
        _ => e.to_string(),
    }
}

/// The certificates to verify with, and the same as roots.
fn trusted(options: &TlsOptions) -> Result<(Vec<CertificateDer<'static>>, RootCertStore), String> {
    let (file, dir) = (options.ca_file.as_deref(), options.ca_dir.as_deref());
    let is_given = file.is_some() || dir.is_some();
    let CertificateResult { certs, errors, .. } =
        if is_given { load_certs_from_paths(file, dir) } else { load_native_certs() };
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certs.iter().cloned());
    if added > 0 {
        // As in the reference, one unreadable certificate among many is not an error.
        return Ok((certs, roots));
    }
    let why = errors.first().map_or("no certificate in it".to_string(), ToString::to_string);
    Err(if is_given {
        format!("Invalid CA Certificate File/Directory: {why}")
    } else {
        "This system has no root certificates: use --cacert, --cacertdir or --insecure".to_string()
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |why: &str| format!("Invalid client certificate: {}: {why}", path.display());
    let certs =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match certs {
        Ok(certs) if certs.is_empty() => Err(wrong("no certificate in it")),
        Ok(certs) => Ok(certs),
        Err(e) => Err(wrong(&e.to_string())),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|e| format!("Invalid private key: {}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by OpenSSL 3.0 with `openssl x509 -req` and no extensions.
    const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBHTCBwwIUfpu/o+D5w/Vk2sD6tJQerKRSJ6AwCgYIKoZIzj0EAwIwETEPMA0G
A1UEAwwGVGVzdENBMB4XDTI2MTEyMTE1NDQyNloXDTI2MTIyMTE1NDQyNlowETEP
MA0GA1UEAwwGc2VydmVyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE1IvK/2wL
dZNXOsQWN+HIgPXqhLLocTkTdvN7ozRw2b5AxkW5V0f0GXjJLAx32xgtZ5wz/Evl
3kBzrjPP90JbLDAKBggqhkjOPQQDAgNJADBGAiEAj3Z6Wg+mDS0gAoVeSyEWUz/U
YSZZp9JQLD2jDNhKGgYCIQCmM+RgxVEJF55+9hI/D78B4ndBsL7q5/9eVDmcIaVv
LA==
-----END CERTIFICATE-----";

    #[test]
    fn certificate_of_version_1_is_named_in_the_error() {
        let cert = CertificateDer::from_pem_slice(VERSION_1.as_bytes()).unwrap();
        let error = rustls::server::ParsedCertificate::try_from(&cert).map(|_| ()).unwrap_err();
        let words = words(&io::Error::new(io::ErrorKind::InvalidData, error));
        assert!(words.contains("of version 1"), "{words}");
    }

    fn options(dir: &Path) -> TlsOptions {
        TlsOptions {
            sni: None,
            ca_file: Some(dir.join("ca")),
            ca_dir: None,
            insecure: false,
            identity: None,
            suites: Suites::default(),
        }
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let with = |change: &dyn Fn(&mut TlsOptions)| {
            let mut options = options(dir.path());
            change(&mut options);
            Tls::new(&options).map(|_| ()).unwrap_err()
        };
        let invalid_ca = "Invalid CA Certificate File/Directory: ";
        assert!(with(&|_| {}).starts_with(invalid_ca));
        std::fs::write(dir.path().join("ca"), "no certificate").unwrap();
        assert_eq!(with(&|_| {}), format!("{invalid_ca}no certificate in it"));
        let no_dir = with(&|o| (o.ca_file, o.ca_dir) = (None, Some(dir.path().join("none"))));
        assert!(no_dir.starts_with(invalid_ca));
        let identity = Some((dir.path().join("ca"), dir.path().join("key")));
        let cert = with(&|o| (o.insecure, o.identity) = (true, identity.clone()));
        assert!(cert.starts_with("Invalid client certificate: ") && cert.contains("/ca: "));
    }

    #[test]
    fn keys_and_certificates_that_are_no_pair_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = [(); 2].map(|()| rcgen::generate_simple_self_signed(vec![]).unwrap());
        let paths = ["cert", "key", "other"].map(|name| dir.path().join(name));
        let texts =
            [one.cert.pem(), one.signing_key.serialize_pem(), other.signing_key.serialize_pem()];
        for (path, text) in paths.iter().zip(texts) {
            std::fs::write(path, text).unwrap();
        }
        let [cert, key, other] = paths;
        let with = |key: &PathBuf| {
            let identity = Some((cert.clone(), key.clone()));
            Tls::new(&TlsOptions { insecure: true, identity, ..options(dir.path()) })
        };
        with(&key).unwrap().session().unwrap();
        let error = with(&other).unwrap_err();
        assert!(error.starts_with("Invalid private key: "), "{error}");
    }
}
