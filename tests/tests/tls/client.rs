//! A blocking client over TLS.

use crate::certs::Certs;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use weft_testkit::client::{PATIENCE, encode};
use weft_testkit::value::{self, Value};

/// One connection.
pub struct TlsClient {
    pub stream: StreamOwned<ClientConnection, TcpStream>,
    buffer: Vec<u8>,
}

/// A configuration that trusts the authority of `certs`, with the certificate `name` if it isn't empty.
pub fn config(certs: &Certs, name: &str) -> ClientConfig {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_file(certs.path("ca.crt")).expect("a certificate");
    roots.add(ca).expect("an authority");
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    if name.is_empty() {
        return builder.with_no_client_auth();
    }
    let cert =
        CertificateDer::from_pem_file(certs.path(&format!("{name}.crt"))).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(certs.path(&format!("{name}.key"))).expect("a key");
    builder.with_client_auth_cert(vec![cert], key).expect("a pair")
}

impl TlsClient {
    /// Connects with the certificate `name`, or with none if it is empty.
    pub fn try_new(certs: &Certs, port: u16, name: &str) -> io::Result<TlsClient> {
        TlsClient::with(Arc::new(config(certs, name)), port)
    }

    #[track_caller]
    pub fn new(certs: &Certs, port: u16) -> TlsClient {
        TlsClient::try_new(certs, port, "client").unwrap_or_else(|e| panic!("no TLS: {e}"))
    }

    /// Connects, and asks for PONG: in TLS 1.3 a client learns only then that its certificate is accepted.
    pub fn with(config: Arc<ClientConfig>, port: u16) -> io::Result<TlsClient> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from("localhost").expect("a name");
        let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let mut client =
            TlsClient { stream: StreamOwned::new(session, socket), buffer: Vec::new() };
        client.try_cmd(&["PING"])?;
        Ok(client)
    }

    pub fn try_cmd<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Value> {
        self.send(&encode(args))?;
        self.read()
    }

    #[track_caller]
    pub fn cmd<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Value {
        self.try_cmd(args).unwrap_or_else(|e| panic!("no reply: {e}"))
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// The next reply.
    pub fn read(&mut self) -> io::Result<Value> {
        loop {
            let parsed = value::parse(&self.buffer)
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "malformed"))?;
            if let Some((value, used)) = parsed {
                self.buffer.drain(..used);
                return Ok(value);
            }
            let mut more = [0; 64 << 10];
            match self.stream.read(&mut more)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => self.buffer.extend_from_slice(&more[..n]),
            }
        }
    }

    /// The serial number of the server's certificate.
    pub fn server_serial(&self) -> u32 {
        let certs = self.stream.conn.peer_certificates().expect("a certificate");
        // version: [0] { INTEGER 2 }, serial number: INTEGER
        let marker = [0xa0, 3, 2, 1, 2, 2];
        let at = certs[0].windows(marker.len()).position(|window| window == marker);
        let (length, rest) = certs[0][at.expect("a serial number") + marker.len()..]
            .split_first()
            .expect("a length");
        rest[..usize::from(*length)].iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
    }
}
