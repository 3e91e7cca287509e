//! Verification of servers: signed by a trusted certificate, with any name; or not verified.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Accepts servers whose certificate is signed by one of the roots, without comparing names.
#[derive(Debug)]
pub struct Chain {
    /// The certificates of the roots.
    certs: Vec<CertificateDer<'static>>,
    roots: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Chain {
    pub fn new(
        certs: Vec<CertificateDer<'static>>,
        roots: RootCertStore,
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Chain {
        Chain { certs, roots, algorithms }
    }
}

impl ServerCertVerifier for Chain {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(end_entity)?,
            &self.roots,
            intermediates,
            now,
            self.algorithms.all,
        );
        match verified {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            // `openssl req -x509` marks its certificates as an authority. The library refuses such
            // a server certificate, and OpenSSL doesn't. A certificate that is trusted itself needs
            // no signature, and its dates have been checked by now.
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if self.certs.iter().any(|cert| cert == end_entity) =>
            {
                Ok(ServerCertVerified::assertion())
            }
            Err(e) => Err(e),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Accepts every server. A signature by an untrusted key proves nothing, so it is not verified
/// either.
#[derive(Debug)]
pub struct NoVerification(pub WebPkiSupportedAlgorithms);

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider;
    use rcgen::{BasicConstraints, CertificateParams, Error as RcgenError, IsCa, KeyPair};

    /// A self-signed certificate, optionally an authority, valid in these years.
    fn own(is_ca: bool, years: (i32, i32)) -> Result<CertificateDer<'static>, RcgenError> {
        let mut params = CertificateParams::new(vec!["some.name".to_string()])?;
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        Ok(params.self_signed(&KeyPair::generate()?)?.der().clone())
    }

    fn verify(cert: &CertificateDer<'static>, trusted: &CertificateDer<'static>) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let algorithms = provider::default_provider().signature_verification_algorithms;
        let name = ServerName::try_from("another.name").unwrap();
        let chain = Chain::new(vec![trusted.clone()], roots, algorithms);
        chain.verify_server_cert(cert, &[], &name, &[], UnixTime::now()).is_ok()
    }

    #[test]
    fn trusted_server_certificate_is_accepted_while_valid() {
        for is_ca in [false, true] {
            let (good, other) =
                (own(is_ca, (2020, 4000)).unwrap(), own(true, (2020, 4000)).unwrap());
            let (late, early) =
                (own(is_ca, (2000, 2001)).unwrap(), own(is_ca, (3999, 4000)).unwrap());
            assert!(verify(&good, &good));
            assert!(!verify(&good, &other), "not signed");
            assert!(!verify(&late, &late) && !verify(&early, &early));
        }
    }
}
