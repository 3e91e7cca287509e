//! Certificates for the tests: an authority, and certificates that it has signed.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType,
    SerialNumber,
};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use weft_testkit::Server;
use weft_testkit::server::free_port;

/// An authority, and the folder of its files.
pub struct Certs {
    pub dir: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

/// The years in which a certificate is valid.
pub const VALID: (i32, i32) = (2020, 4000);
pub const EXPIRED: (i32, i32) = (2000, 2001);

impl Certs {
    /// An authority with a certificate for a server and one for a client.
    pub fn new() -> Certs {
        let mut params = CertificateParams::new(vec![]).expect("no names");
        params.distinguished_name.push(DnType::CommonName, "Test CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let dir = TempDir::with_prefix("weft-tls-").expect("a temporary folder");
        let certs = Certs { dir, authority };
        fs::write(certs.dir.path().join("ca.crt"), certs.authority.pem()).expect("a file");
        certs.issue("server", 1, VALID);
        certs.issue("client", 2, VALID);
        certs
    }

    /// Writes `name.crt` and `name.key`: a certificate for the common name `name` and the URI `urn:name`.
    pub fn issue(&self, name: &str, serial: u32, years: (i32, i32)) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["localhost".to_string()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        let uri = format!("urn:{name}");
        params.subject_alt_names.push(SanType::URI(uri.as_str().try_into().expect("ASCII")));
        params.serial_number = Some(SerialNumber::from_slice(&serial.to_be_bytes()));
        params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        let cert = params.signed_by(&key, &self.authority).expect("a certificate");
        fs::write(self.dir.path().join(format!("{name}.crt")), cert.pem()).expect("a file");
        fs::write(self.dir.path().join(format!("{name}.key")), key.serialize_pem())
            .expect("a file");
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The arguments of a server with these certificates on `tls_port`.
    pub fn args(&self, tls_port: u16, more: &[&str]) -> Vec<String> {
        let files = ["server.crt", "server.key", "ca.crt"].map(|name| self.text(name));
        let [cert, key, ca] = &files;
        let port = tls_port.to_string();
        let args = ["--tls-port", &port, "--tls-cert-file", cert, "--tls-key-file", key];
        let args = args.into_iter().chain(["--tls-ca-cert-file", ca]).chain(more.iter().copied());
        args.map(String::from).collect()
    }

    /// A server with these certificates, and its TLS port.
    #[track_caller]
    pub fn weft(&self, more: &[&str]) -> (Server, u16) {
        let port = free_port();
        let args = self.args(port, more);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        (Server::weft(&args), port)
    }

    /// The same of Valkey, if it is installed.
    pub fn valkey(&self, more: &[&str]) -> Option<(Server, u16)> {
        let port = free_port();
        let args = self.args(port, more);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Some((Server::valkey(&args)?, port))
    }
}
