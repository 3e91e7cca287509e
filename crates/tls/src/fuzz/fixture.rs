//! The certificates and contexts that all inputs use.

use crate::settings::Identity;
use crate::{Contexts, Settings};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

/// Certificates and contexts of all inputs: to make them takes longer than one input.
pub(super) struct Fixture {
    /// For TLS 1.2 and 1.3.
    pub contexts: [Contexts; 2],
    /// The certificate of both sides, and its authority.
    pub chain: Vec<CertificateDer<'static>>,
    pub key: KeyPair,
}

pub(super) static FIXTURE: LazyLock<Fixture> = LazyLock::new(Fixture::new);

impl Fixture {
    fn new() -> Fixture {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (settings, key) = pair_in(dir.path());
        let contexts = ["TLSv1.2", "TLSv1.3"].map(|version| {
            let settings = Settings { protocols: version.into(), ..settings.clone() };
            Contexts::build(&settings).expect("a valid set")
        });
        let chain = ["cert", "ca"]
            .map(|name| CertificateDer::from_pem_file(dir.path().join(name)).expect("one"));
        Fixture { contexts, chain: chain.into(), key }
    }
}

/// Writes an authority and a pair that it has signed into a folder. Clients need a certificate, too.
pub(super) fn pair_in(dir: &Path) -> (Settings, KeyPair) {
    let mut params = CertificateParams::new(vec![]).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"));
    let authority = authority.expect("a certificate");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_string()]).expect("a name");
    let cert = params.signed_by(&key, &authority).expect("a certificate");
    let [ca_file, cert_file, key_file] = ["ca", "cert", "key"].map(|name| dir.join(name));
    fs::write(&ca_file, authority.pem()).expect("a file");
    fs::write(&cert_file, cert.pem()).expect("a file");
    fs::write(&key_file, key.serialize_pem()).expect("a file");
    let server = Identity { cert: Some(cert_file), key: Some(key_file), pass: Vec::new() };
    let settings = Settings {
        server,
        ca_file: Some(ca_file),
        connects: true,
        ciphers: "ECDHE-ECDSA-AES256-GCM-SHA384".into(),
        ciphersuites: "TLS_AES_256_GCM_SHA384".into(),
        ..Settings::default()
    };
    (settings, key)
}
