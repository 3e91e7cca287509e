//! Users and their rights, certificates of both sides.

use super::{TIMEOUT, keys, options, put, skip_without, start, when_available};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use std::path::{Path, PathBuf};
use weft_cluster_store::etcd::{Options, User};
use weft_cluster_store::store::Revision;
use weft_cluster_store::{Error, Etcd, Store};
use weft_testkit::etcd::Etcd as Server;
use weft_tls::settings::Identity;

/// Creates the user `weft` with rights on `/weft/`, and the user `root`; then etcd wants a user.
fn enable_users(server: &Server) {
    for user in ["root", "weft"] {
        server.post("/v3/auth/user/add", &format!(r#"{{"name":"{user}","password":"secret"}}"#));
        server.post("/v3/auth/role/add", &format!(r#"{{"name":"{user}"}}"#));
        server.post("/v3/auth/user/grant", &format!(r#"{{"user":"{user}","role":"{user}"}}"#));
    }
    // "/weft/" to "/weft0" in base64.
    let range = r#"{"permType":"READWRITE","key":"L3dlZnQv","range_end":"L3dlZnQw"}"#;
    let permission = format!(r#"{{"name":"weft","perm":{range}}}"#);
    server.post("/v3/auth/role/grant", &permission);
    let enabled = server.post("/v3/auth/enable", "{}");
    assert!(enabled.contains("200 OK"), "{enabled}");
}

fn as_user(server: &Server, prefix: &str, password: &str) -> Etcd {
    let user = User { name: "weft".to_string(), password: password.to_string() };
    let options = Options { user: Some(user), ..options("etcd", server, prefix) };
    Etcd::new(&options).expect("a client")
}

#[test]
fn users_need_their_password_and_rights() {
    let Some(mut server) = start(1) else { return };
    let early = as_user(&server, "weft", "secret");
    early.transact(&put("before"), TIMEOUT).unwrap();
    enable_users(&server);
    let is_refused = |store: &Etcd| {
        assert!(matches!(store.read(b"", TIMEOUT), Err(Error::Refused(_))));
        let result = store.transact(&put("a"), TIMEOUT);
        assert!(matches!(result, Err(Error::Refused(_))), "{result:?}");
        let result = store.watch(b"", Revision(1), TIMEOUT).map(|_| ());
        assert!(matches!(result, Err(Error::Refused(_))), "{result:?}");
    };
    is_refused(&Etcd::new(&options("etcd", &server, "weft")).unwrap());
    is_refused(&as_user(&server, "weft", "wrong"));
    is_refused(&as_user(&server, "other", "secret"));
    let store = as_user(&server, "weft", "secret");
    store.transact(&put("a"), TIMEOUT).unwrap();
    let lease = store.grant(TIMEOUT, TIMEOUT).unwrap();
    store.keep_alive(lease.id, TIMEOUT).unwrap();
    let mut watch = store.watch(b"", Revision(1), TIMEOUT).unwrap();
    assert!(watch.next(TIMEOUT).unwrap().is_some());
    // A client that began without users logs in when it must.
    assert_eq!(keys(&early), Ok(2));
    // A member that starts again has forgotten all tokens.
    server.kill(0);
    server.restart(0);
    when_available(&server, || store.transact(&put("b"), TIMEOUT));
    assert_eq!(when_available(&server, || keys(&store)), 3);
}

/// Writes an authority and certificates that it signed.
struct Certificates {
    dir: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Certificates {
    fn new() -> Certificates {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).expect("a certificate");
        std::fs::write(dir.path().join("ca.pem"), authority.pem()).expect("a file");
        Certificates { dir, issuer: Issuer::new(params, key) }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    /// A certificate for these addresses, and its key.
    fn sign(&self, name: &str, addresses: &[&str]) -> Identity {
        let addresses: Vec<String> = addresses.iter().map(|name| name.to_string()).collect();
        let mut params = CertificateParams::new(addresses).expect("names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        let write = |suffix: &str, text: String| {
            let path = self.path(&format!("{name}{suffix}"));
            std::fs::write(&path, text).expect("a file");
            Some(path)
        };
        Identity {
            cert: write(".pem", cert.pem()),
            key: write(".key", key.serialize_pem()),
            pass: Vec::new(),
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

fn start_with_certificates(certificates: &Certificates, addresses: &[&str]) -> Option<Server> {
    let identity = certificates.sign("server", addresses);
    let authority = certificates.path("ca.pem");
    let (cert, key) = (identity.cert.expect("written"), identity.key.expect("written"));
    let args = [
        "--cert-file",
        text(&cert),
        "--key-file",
        text(&key),
        "--client-cert-auth",
        "--trusted-ca-file",
        text(&authority),
    ];
    skip_without(Server::start_with(1, "https", &args))
}

#[test]
fn both_sides_need_certificates() {
    let (certificates, others) = (Certificates::new(), Certificates::new());
    let Some(server) = start_with_certificates(&certificates, &["127.0.0.1"]) else { return };
    let secure = |authority: &Certificates, identity: Identity| {
        let ca_file = Some(authority.path("ca.pem"));
        let options = Options { ca_file, identity, ..options("etcds", &server, "weft") };
        Etcd::new(&options).expect("a client")
    };
    let store = secure(&certificates, certificates.sign("client", &[]));
    when_available(&server, || store.transact(&put("a"), TIMEOUT));
    let mut watch = store.watch(b"", Revision(1), TIMEOUT).unwrap();
    assert_eq!(keys(&store), Ok(1));
    assert!(watch.next(TIMEOUT).unwrap().is_some());
    // The watch survives a timeout in the middle of a session.
    assert_eq!(watch.next(std::time::Duration::from_millis(20)), Ok(None));
    store.transact(&put("b"), TIMEOUT).unwrap();
    assert!(watch.next(TIMEOUT).unwrap().is_some());

    let result = secure(&others, others.sign("client", &[])).read(b"", TIMEOUT);
    assert!(matches!(result, Err(Error::Refused(_))), "{result:?}");
    let result = secure(&certificates, Identity::default()).transact(&put("x"), TIMEOUT);
    assert!(result.is_err(), "{result:?}");
    assert_eq!(keys(&store), Ok(2));
}

#[test]
fn name_in_the_certificate_counts() {
    let certificates = Certificates::new();
    let Some(server) = start_with_certificates(&certificates, &["127.0.0.2"]) else { return };
    let ca_file = Some(certificates.path("ca.pem"));
    let identity = certificates.sign("client", &[]);
    let options = Options { ca_file, identity, ..options("etcds", &server, "weft") };
    let result = Etcd::new(&options).expect("a client").transact(&put("a"), TIMEOUT);
    assert!(matches!(result, Err(Error::Refused(_))), "{result:?}");
}

#[test]
fn options_must_fit_together() {
    let address = |text: &str| weft_cluster_store::Address::parse(text).expect("an address");
    let fails = |options: &Options, word: &str| {
        let error = Etcd::new(options).expect_err("it must be refused");
        assert!(error.contains(word), "{error}");
    };
    let plain = Options::new(address("etcd://h:1/weft"));
    let secure = Options::new(address("etcds://h:1/weft"));
    fails(&secure, "needs a file with the authority");
    fails(&Options { ca_file: Some("/none".into()), ..plain }, "write etcds://");
    let missing = Options { ca_file: Some("/none".into()), ..secure.clone() };
    fails(&missing, "/none: No such file");
    let certificates = Certificates::new();
    let mut identity = certificates.sign("client", &[]);
    identity.key = None;
    let half = Options { ca_file: Some(certificates.path("ca.pem")), identity, ..secure };
    fails(&half, "must be given together");
}
