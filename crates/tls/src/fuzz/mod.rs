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
mod fixture;
mod receive;
mod seeds;

use crate::{Contexts, Session};
use client::Client;
use fixture::FIXTURE;
use receive::{receive, take_unsent};

pub use seeds::seeds;

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
