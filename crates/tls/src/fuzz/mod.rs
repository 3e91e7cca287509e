//! For the fuzz target `tls`: bytes of a hostile peer, and what must hold for a session that receives them.
//!
//! | first byte modulo 4 | the rest of the input |
//! |---|---|
//! | 0 | bytes that a stranger sends to the server |
//! | 1 | records of a client after a handshake, encrypted with its keys: see [`Client`] |
//! | 2 | the certificate chain that a client presents |
//! | 3 | bytes that a stranger sends to the server's own outgoing link |
//!
//! The second byte chooses the version and the size of the portions in which bytes arrive.

mod client;
mod seeds;

use crate::session::RECORD;
use crate::settings::Identity;
use crate::{Contexts, Session, Settings};
use client::Client;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

pub use seeds::seeds;

/// What all inputs share: making it takes longer than one input.
struct Fixture {
    /// For TLS 1.2 and 1.3.
    contexts: [Contexts; 2],
    /// The certificate of both sides, and its authority.
    chain: Vec<CertificateDer<'static>>,
    key: KeyPair,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(Fixture::new);

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
fn pair_in(dir: &Path) -> (Settings, KeyPair) {
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

/// The first two bytes of an input.
#[derive(Clone, Copy)]
struct Head {
    kind: u8,
    is_tls13: bool,
    /// Bytes that arrive at once.
    portion: usize,
}

impl Head {
    fn decode(kind: u8, flags: u8) -> Head {
        // The largest number stands for everything at once.
        let portion = match flags >> 1 {
            127 => usize::MAX,
            n => 1 + usize::from(n),
        };
        Head { kind: kind % 4, is_tls13: flags & 1 == 1, portion }
    }

    fn encode(self) -> [u8; 2] {
        let n = self.portion.saturating_sub(1).min(127) as u8;
        [self.kind, n << 1 | u8::from(self.is_tls13)]
    }

    fn contexts(self) -> &'static Contexts {
        &FIXTURE.contexts[usize::from(self.is_tls13)]
    }
}

/// Runs one input.
///
/// # Panics
/// If a session does what it must not do.
pub fn check(data: &[u8]) {
    let [kind, flags, rest @ ..] = data else { return };
    let head = Head::decode(*kind, *flags);
    let contexts = head.contexts();
    match head.kind {
        0 => check_stranger(&|| Session::server(contexts.server.clone()), rest, head.portion),
        1 => check_records(contexts, rest, head.portion),
        2 => check_chain(contexts, rest, head.portion),
        _ => check_stranger(&|| Session::client(contexts.client.clone()), rest, head.portion),
    }
}

/// A peer without a certificate, or one that knows no key, never gets past the handshake. Whether it is refused
/// doesn't depend on the portions.
fn check_stranger(new: &dyn Fn() -> Result<Session, rustls::Error>, bytes: &[u8], portion: usize) {
    let results = [portion, usize::MAX].map(|portion| {
        let mut session = new().expect("random numbers");
        let result = receive(&mut session, bytes, portion, &mut |_| panic!("plain text"));
        assert!(!session.is_established());
        result.is_ok()
    });
    assert_eq!(results[0], results[1], "the portions matter");
}

/// Passes bytes to a session in portions, and checks its state after each. Returns its answers.
fn receive(
    session: &mut Session,
    bytes: &[u8],
    portion: usize,
    sink: &mut impl FnMut(&[u8]),
) -> Result<Vec<u8>, rustls::Error> {
    let mut answers = Vec::new();
    take_unsent(session, &mut answers);
    for part in bytes.chunks(portion.min(bytes.len().max(1))) {
        let mut received = [session.incomplete(), part].concat();
        let done = match session.is_established() {
            false => session.shake_hands(&mut received),
            true => session.take(&mut received, sink),
        };
        take_unsent(session, &mut answers);
        if session.is_established() {
            session.take_early(sink);
        }
        if let Err(why) = done {
            assert!(session.has_failed());
            assert!(session.encrypt(b"x").is_err(), "written after a failure");
            session.queue_close_notify();
            assert!(session.unsent().is_empty() && session.incomplete().is_empty());
            return Err(why);
        }
        assert!(session.incomplete().len() <= received.len());
        if session.has_ended() {
            // A connection stops reading here.
            break;
        }
    }
    Ok(answers)
}

/// Moves the encrypted bytes of a session to `answers`. They must be records.
fn take_unsent(session: &mut Session, answers: &mut Vec<u8>) {
    let unsent = session.unsent();
    let mut rest = unsent;
    while !rest.is_empty() {
        let [kind, 3, _, high, low, payload @ ..] = rest else { panic!("no header: {rest:?}") };
        assert!((20..=23).contains(kind), "type {kind}");
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        assert!(length <= RECORD + 256, "{length} bytes in a record");
        rest = payload.get(length..).expect("a whole record");
    }
    answers.extend_from_slice(unsent);
    session.sent(unsent.len(), &mut Vec::new());
}

/// Only plain text that the client has encrypted arrives, in its order. The input is steps: what happens, a
/// length, and so many bytes.
fn check_records(contexts: &Contexts, mut data: &[u8], portion: usize) {
    let mut server = Session::server(contexts.server.clone()).expect("random numbers");
    let mut client = Client::connect(contexts, &mut server);
    let (mut sent, mut arrived) = (Vec::new(), Vec::new());
    while let [what, length, rest @ ..] = data {
        let (bytes, after) = rest.split_at(usize::from(*length).min(rest.len()));
        data = after;
        let record = match what % 8 {
            0 => client.record(23, bytes),
            1 => client.record(22, bytes),
            2 => client.record(21, bytes),
            3 => client.record(20, bytes),
            4 => bytes.to_vec(),
            // A replay.
            5 => client.last.clone(),
            6 => {
                server.encrypt(bytes).expect("established");
                take_unsent(&mut server, &mut Vec::new());
                continue;
            }
            _ => {
                // As a reply that fills records.
                server.encrypt(&bytes.repeat(100)).expect("established");
                take_unsent(&mut server, &mut Vec::new());
                continue;
            }
        };
        if what % 8 == 0 {
            sent.extend_from_slice(bytes);
        }
        let mut sink = |plain: &[u8]| arrived.extend_from_slice(plain);
        if receive(&mut server, &record, portion, &mut sink).is_err() || server.has_ended() {
            break;
        }
    }
    assert!(sent.starts_with(&arrived), "not sent by the client");
    server.queue_close_notify();
    take_unsent(&mut server, &mut Vec::new());
}

/// A client that has a key and presents any bytes as its chain: only its own certificate is accepted.
fn check_chain(contexts: &Contexts, data: &[u8], portion: usize) {
    let chain = client::decode_chain(data);
    let is_own = chain.first() == FIXTURE.chain.first();
    let mut server = Session::server(contexts.server.clone()).expect("random numbers");
    let shaken = client::present(contexts, chain, &mut server, portion);
    assert!(is_own || !server.is_established(), "a forged certificate is accepted");
    // Only the server looks at it.
    assert!(shaken.is_err() || server.is_established());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_reach_what_they_are_for() {
        let seeds = seeds();
        assert!(seeds.len() > 12);
        for (_, seed) in seeds {
            check(&seed);
        }
    }

    /// A fuzzer without its instrumentation.
    #[test]
    fn mutated_seeds_pass() {
        let runs: u64 = std::env::var("MUTATIONS").map_or(300, |n| n.parse().expect("a number"));
        let seeds = seeds();
        let mut state = 29u64;
        let mut below = |bound: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % bound
        };
        for _ in 0..runs {
            let mut input = seeds[below(seeds.len())].1.clone();
            for _ in 0..=below(3) {
                let at = below(input.len());
                match below(4) {
                    0 => input[at] ^= 1 << below(8),
                    1 => input.truncate(at.max(2)),
                    2 => input.insert(at, below(256) as u8),
                    _ => input[at] = below(256) as u8,
                }
            }
            check(&input);
        }
    }

    #[test]
    fn own_certificate_is_accepted_in_portions_of_any_size() {
        for contexts in &FIXTURE.contexts {
            for portion in [1, 100, usize::MAX] {
                let mut server = Session::server(contexts.server.clone()).unwrap();
                client::present(contexts, FIXTURE.chain.clone(), &mut server, portion).unwrap();
                assert!(server.is_established());
            }
        }
    }
}
