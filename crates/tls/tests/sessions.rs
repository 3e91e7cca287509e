//! A client and a server of this crate talk to each other in memory, in portions of any size.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::fs;
use std::path::Path;
use weft_tls::session::RECORD;
use weft_tls::settings::{ClientAuth, Identity};
use weft_tls::{Contexts, Session, Settings};

/// An authority, and a pair that it has signed, in these files.
fn settings(dir: &Path) -> Settings {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_string()];
    let cert = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    let [ca_file, cert_file, key_file] = ["ca", "cert", "key"].map(|name| dir.join(name));
    fs::write(&ca_file, authority.pem()).unwrap();
    fs::write(&cert_file, cert.pem()).unwrap();
    fs::write(&key_file, key.serialize_pem()).unwrap();
    let server = Identity { cert: Some(cert_file), key: Some(key_file), pass: Vec::new() };
    Settings { server, ca_file: Some(ca_file), connects: true, ..Settings::default() }
}

/// Moves the encrypted bytes of `from` to `to` in portions of `size`, and returns the plain text.
fn pass(from: &mut Session, to: &mut Session, size: usize) -> Vec<u8> {
    let mut plain = Vec::new();
    while !from.unsent().is_empty() {
        let portion = from.unsent()[..from.unsent().len().min(size)].to_vec();
        from.sent(portion.len(), &mut Vec::new());
        let mut received = [to.incomplete(), &portion].concat();
        if to.is_established() {
            to.take_early(&mut |part| plain.extend_from_slice(part));
            to.take(&mut received, &mut |part| plain.extend_from_slice(part)).unwrap();
        } else {
            to.shake_hands(&mut received).unwrap();
        }
    }
    plain
}

fn shake_hands(contexts: &Contexts, size: usize) -> (Session, Session) {
    let mut client = Session::client(contexts.client.clone()).unwrap();
    let mut server = Session::server(contexts.server.clone()).unwrap();
    for _ in 0..10 {
        pass(&mut client, &mut server, size);
        pass(&mut server, &mut client, size);
    }
    assert!(client.is_established() && server.is_established());
    (client, server)
}

#[test]
fn plain_text_arrives_whatever_the_portions() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    for protocols in ["TLSv1.2", "TLSv1.3"] {
        let settings = Settings { protocols: protocols.into(), ..settings.clone() };
        let contexts = Contexts::build(&settings).unwrap();
        for size in [1, 7, 1000, RECORD, 100_000] {
            let (mut client, mut server) = shake_hands(&contexts, size);
            assert_eq!(server.agreed().unwrap().protocol, protocols);
            assert!(server.peer_certificate().is_some());
            for length in [1, 100, RECORD, RECORD + 1, 3 * RECORD + 5] {
                let text: Vec<u8> = (0..length).map(|n| n as u8).collect();
                client.encrypt(&text).unwrap();
                assert!(pass(&mut client, &mut server, size) == text, "{length} in {size}");
                server.encrypt(&text).unwrap();
                assert!(pass(&mut server, &mut client, size) == text, "{length} in {size}");
            }
            client.queue_close_notify();
            assert!(!server.has_ended());
            pass(&mut client, &mut server, size);
            assert!(server.has_ended());
        }
    }
}

#[test]
fn records_are_filled() {
    let dir = tempfile::tempdir().unwrap();
    let contexts = Contexts::build(&settings(dir.path())).unwrap();
    let (mut client, _) = shake_hands(&contexts, RECORD);
    client.encrypt(&vec![0; 64 * RECORD]).unwrap();
    let mut rest = client.unsent();
    let mut records = 0;
    while let [_, _, _, high, low, ..] = *rest {
        rest = &rest[5 + usize::from(u16::from_be_bytes([high, low]))..];
        records += 1;
    }
    assert_eq!(records, 64);
}

#[test]
fn bytes_that_no_key_has_encrypted_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let contexts = Contexts::build(&settings(dir.path())).unwrap();
    let (_, mut server) = shake_hands(&contexts, RECORD);
    let mut forged = vec![23, 3, 3, 0, 40];
    forged.extend([7; 40]);
    assert!(server.take(&mut forged, &mut |_| panic!("plain text")).is_err());
    // The reason, for the client.
    assert!(!server.unsent().is_empty());
    let mut garbage = b"*1\r\n$4\r\nPING\r\n".to_vec();
    let mut fresh = Session::server(contexts.server.clone()).unwrap();
    assert!(fresh.shake_hands(&mut garbage).is_err());
}

#[test]
fn set_that_cannot_work_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let good = settings(dir.path());
    let why = |change: &dyn Fn(&mut Settings)| {
        let mut settings = good.clone();
        change(&mut settings);
        Contexts::build(&settings).map(drop).unwrap_err()
    };
    assert!(why(&|s| s.server.cert = None).starts_with("No tls-cert-file"));
    assert!(why(&|s| s.server.key = None).starts_with("No tls-key-file"));
    assert!(why(&|s| s.ca_file = None).starts_with("Either tls-ca-cert-file"));
    assert!(why(&|s| s.server.cert = s.server.key.clone()).contains("no certificate in it"));
    assert!(why(&|s| s.ciphers = "RC4".into()).starts_with("Failed to configure ciphers: RC4"));
    let alone = Settings { ca_file: None, connects: false, client_auth: ClientAuth::No, ..good };
    assert!(Contexts::build(&alone).is_ok());
    let warned = Settings { dh_params: Some("any".into()), ..alone };
    assert_eq!(Contexts::build(&warned).unwrap().warnings.len(), 1);
}

/// The server's messages come in one record, of which the client refuses the second.
#[test]
fn refused_certificate_ends_the_handshake() {
    let (dir, strangers) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let contexts = Contexts::build(&settings(dir.path())).unwrap();
    let other = Contexts::build(&settings(strangers.path())).unwrap();
    let mut client = Session::client(other.client.clone()).unwrap();
    let mut server = Session::server(contexts.server.clone()).unwrap();
    pass(&mut client, &mut server, RECORD);
    let mut flight = server.unsent().to_vec();
    let error = client.shake_hands(&mut flight).unwrap_err();
    assert!(error.to_string().starts_with("invalid peer certificate"), "{error}");
    server.sent(flight.len(), &mut Vec::new());
    // The client says why.
    let mut alert = client.unsent().to_vec();
    assert!(server.shake_hands(&mut alert).is_err());
    assert!(client.encrypt(b"x").is_err() && server.encrypt(b"x").is_err());
}

/// A part of a message of the handshake, such as an update of keys, waits while replies are written.
#[test]
fn server_writes_while_a_message_is_incomplete() {
    use rustls::crypto::cipher::{AeadKey, OutboundChunks, OutboundPlainMessage};
    use rustls::pki_types::ServerName;
    use rustls::{ConnectionTrafficSecrets, ContentType, ProtocolVersion};
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { protocols: "TLSv1.3".into(), ..settings(dir.path()) };
    let contexts = Contexts::build(&settings).unwrap();
    let mut config = (*contexts.client).clone();
    config.enable_secret_extraction = true;
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = rustls::ClientConnection::new(config.into(), name).unwrap();
    let mut server = Session::server(contexts.server.clone()).unwrap();
    while !server.is_established() {
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).unwrap();
        }
        server.shake_hands(&mut sent).unwrap();
        let mut answer = server.unsent();
        while !answer.is_empty() {
            client.read_tls(&mut answer).unwrap();
            client.process_new_packets().unwrap();
        }
        server.sent(server.unsent().len(), &mut Vec::new());
    }
    let suite = client.negotiated_cipher_suite().unwrap().tls13().unwrap();
    let (number, secrets) = client.dangerous_extract_secrets().unwrap().tx;
    let ConnectionTrafficSecrets::Aes256Gcm { key, iv } = secrets else { panic!("another cipher") };
    let key: [u8; 32] = key.as_ref().try_into().unwrap();
    let mut encrypter = suite.aead_alg.encrypter(AeadKey::from(key), iv);
    // The first two bytes of a KeyUpdate.
    let message = OutboundPlainMessage {
        typ: ContentType::Handshake,
        version: ProtocolVersion::TLSv1_2,
        payload: OutboundChunks::Single(&[24, 0]),
    };
    let mut record = encrypter.encrypt(message, number).unwrap().encode();
    server.take(&mut record, &mut |_| panic!("plain text")).unwrap();
    for _ in 0..3 {
        server.encrypt(b"reply").unwrap();
    }
    server.queue_close_notify();
    assert!(!server.unsent().is_empty() && !server.incomplete().is_empty());
}
