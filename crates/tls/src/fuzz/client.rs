//! Clients of the library, with their keys in the hands of the fuzzer.

use super::fixture::FIXTURE;
use super::receive::receive;
use crate::provider::default_provider;
use crate::{Contexts, Session};
use rustls::crypto::cipher::{AeadKey, MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ClientConnection, ConnectionTrafficSecrets, ContentType, ProtocolVersion,
    SupportedCipherSuite,
};
use std::sync::Arc;

/// An established client that encrypts records of any type.
pub(super) struct Client {
    encrypter: Box<dyn MessageEncrypter>,
    /// The number of the next record.
    number: u64,
    /// The last record.
    pub last: Vec<u8>,
}

impl Client {
    /// Shakes hands with `server`.
    pub fn connect(contexts: &Contexts, server: &mut Session) -> Client {
        let mut config = (*contexts.client).clone();
        config.enable_secret_extraction = true;
        let mut connection = connection(config);
        shake_hands(&mut connection, server, usize::MAX).expect("both are honest");
        let suite = connection.negotiated_cipher_suite().expect("a suite");
        let secrets = connection.dangerous_extract_secrets().expect("they are enabled");
        let (number, ConnectionTrafficSecrets::Aes256Gcm { key, iv }) = secrets.tx else {
            panic!("another cipher");
        };
        let key = AeadKey::from(<[u8; 32]>::try_from(key.as_ref()).expect("32 bytes"));
        let encrypter = match suite {
            SupportedCipherSuite::Tls13(suite) => suite.aead_alg.encrypter(key, iv),
            SupportedCipherSuite::Tls12(suite) => {
                let (implicit, explicit) = iv.as_ref().split_at(4);
                suite.aead_alg.encrypter(key, implicit, explicit)
            }
        };
        Client { encrypter, number, last: Vec::new() }
    }

    /// One encrypted record.
    pub fn record(&mut self, kind: u8, bytes: &[u8]) -> Vec<u8> {
        let message = OutboundPlainMessage {
            typ: ContentType::from(kind),
            version: ProtocolVersion::TLSv1_2,
            payload: OutboundChunks::Single(bytes),
        };
        let record = self.encrypter.encrypt(message, self.number).expect("valid keys").encode();
        self.number += 1;
        self.last.clone_from(&record);
        record
    }
}

pub(super) fn connection(config: ClientConfig) -> ClientConnection {
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("random numbers")
}

/// The bytes that the client sends now.
pub(super) fn flight(client: &mut ClientConnection) -> Vec<u8> {
    let mut sent = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut sent).expect("memory");
    }
    sent
}

/// Exchanges messages until both sides are established.
pub(super) fn shake_hands(
    client: &mut ClientConnection,
    server: &mut Session,
    portion: usize,
) -> Result<(), rustls::Error> {
    while client.is_handshaking() || !server.is_established() {
        let sent = flight(client);
        let answers = receive(server, &sent, portion, &mut |_| panic!("plain text"))?;
        let mut rest = &answers[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).expect("memory");
            client.process_new_packets()?;
        }
        assert!(!sent.is_empty() || !answers.is_empty(), "both sides wait");
    }
    Ok(())
}

/// Certificates with two bytes of length before each.
pub(super) fn decode_chain(mut data: &[u8]) -> Vec<CertificateDer<'static>> {
    let mut chain = Vec::new();
    while let [high, low, rest @ ..] = data {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        chain.push(CertificateDer::from(rest[..length].to_vec()));
        data = &rest[length..];
    }
    chain
}

pub(super) fn encode_chain(chain: &[CertificateDer<'_>]) -> Vec<u8> {
    let encode = |cert: &CertificateDer<'_>| {
        let length = u16::try_from(cert.len()).expect("a short certificate");
        [&length.to_be_bytes()[..], cert].concat()
    };
    chain.iter().flat_map(encode).collect()
}

/// Presents one chain, whatever the server asks for.
#[derive(Debug)]
struct Chain(Arc<CertifiedKey>);

impl rustls::client::ResolvesClientCert for Chain {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// A configuration that presents `chain` and signs with the key of the fixture.
pub(super) fn with_chain(contexts: &Contexts, chain: Vec<CertificateDer<'static>>) -> ClientConfig {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(FIXTURE.key.serialize_der()));
    let key = default_provider().key_provider.load_private_key(key).expect("a key");
    let mut config = (*contexts.client).clone();
    config.client_auth_cert_resolver = Arc::new(Chain(Arc::new(CertifiedKey::new(chain, key))));
    config
}

/// Shakes hands as a client with this chain.
pub(super) fn present(
    contexts: &Contexts,
    chain: Vec<CertificateDer<'static>>,
    server: &mut Session,
    portion: usize,
) -> Result<(), rustls::Error> {
    let mut client = connection(with_chain(contexts, chain));
    shake_hands(&mut client, server, portion)
}
