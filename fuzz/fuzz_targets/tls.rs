//! TLS: no bytes of a peer crash a session, pass its handshake without a valid certificate, or become
//! plain text that no peer has encrypted.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weft_tls::fuzz::check(data));
