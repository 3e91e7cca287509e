//! Client certificates: required, optional, or not asked for; the user that one names.

use crate::certs::{Certs, EXPIRED, VALID};
use crate::client::{TlsClient, config};
use rustls::HandshakeKind;
use std::sync::Arc;

#[test]
fn client_certificate_is_required() {
    let (certs, strangers) = (Certs::new(), Certs::new());
    certs.issue("late", 5, EXPIRED);
    strangers.issue("client", 6, VALID);
    let (_server, port) = certs.weft(&[]);
    assert!(TlsClient::try_new(&certs, port, "client").is_ok());
    assert!(TlsClient::try_new(&certs, port, "").is_err());
    assert!(TlsClient::try_new(&certs, port, "late").is_err());
    // Signed by another authority of the same name.
    std::fs::copy(strangers.path("client.crt"), certs.path("stranger.crt")).unwrap();
    std::fs::copy(strangers.path("client.key"), certs.path("stranger.key")).unwrap();
    assert!(TlsClient::try_new(&certs, port, "stranger").is_err());
}

#[test]
fn client_certificate_is_optional_or_ignored() {
    let certs = Certs::new();
    certs.issue("late", 5, EXPIRED);
    let (_optional, port) = certs.weft(&["--tls-auth-clients", "optional"]);
    assert!(TlsClient::try_new(&certs, port, "client").is_ok());
    assert!(TlsClient::try_new(&certs, port, "").is_ok());
    assert!(TlsClient::try_new(&certs, port, "late").is_err());
    let (_none, port) = certs.weft(&["--tls-auth-clients", "no"]);
    assert!(TlsClient::try_new(&certs, port, "").is_ok());
}

#[test]
fn certificate_logs_in_the_user_that_it_names() {
    let certs = Certs::new();
    certs.issue("default", 7, VALID);
    certs.issue("nobody", 8, VALID);
    let more = ["--tls-auth-clients-user", "CN", "--requirepass", "secret"];
    let (_server, port) = certs.weft(&more);
    let mut client = TlsClient::try_new(&certs, port, "default").unwrap();
    assert_eq!(client.cmd(&["PING"]).text(), "PONG");
    let info = client.cmd(&["INFO", "stats"]).text();
    assert!(info.contains("acl_access_denied_tls_cert:0\r"), "{info}");
    let mut stranger = TlsClient::try_new(&certs, port, "nobody").unwrap();
    assert!(stranger.cmd(&["PING"]).error().unwrap().starts_with("NOAUTH"));
    let info = client.cmd(&["INFO", "stats"]).text();
    assert!(info.contains("acl_access_denied_tls_cert:1\r"), "{info}");
    let log = client.cmd(&["ACL", "LOG"]).to_string();
    assert!(log.contains("tls-cert") && log.contains("nobody"), "{log}");
}

#[test]
fn session_is_resumed_unless_caching_is_off() {
    for (more, wanted) in [
        (&[][..], Some(HandshakeKind::Resumed)),
        (&["--tls-session-caching", "no"], Some(HandshakeKind::Full)),
    ] {
        let certs = Certs::new();
        let (_server, port) = certs.weft(more);
        let config = Arc::new(config(&certs, "client"));
        drop(TlsClient::with(config.clone(), port).unwrap());
        let again = TlsClient::with(config, port).unwrap();
        assert_eq!(again.stream.conn.handshake_kind(), wanted, "{more:?}");
    }
}
