//! Certificates renewed while clients work.

use crate::certs::{Certs, EXPIRED, VALID};
use crate::client::TlsClient;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use weft_tests::scene::until;

#[test]
fn certificates_are_renewed_under_load() {
    const RENEWALS: u8 = 50;
    let certs = Certs::new();
    let (server, port) = certs.weft(&["--io-threads", "2"]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = TlsClient::new(&certs, port);
                    while !is_over.load(Ordering::Relaxed) {
                        assert_eq!(client.cmd(&["INCR", "counter"]).error(), None);
                    }
                })
            })
            .collect();
        let renewing = scope.spawn(|| {
            let mut client = server.client();
            for n in 10..10 + RENEWALS {
                certs.issue("next", n, VALID);
                let (cert, key) = (certs.text("next.crt"), certs.text("next.key"));
                client.ok(&["CONFIG", "SET", "tls-cert-file", &cert, "tls-key-file", &key]);
                assert_eq!(TlsClient::new(&certs, port).server_serial(), n);
            }
        });
        let renewed = renewing.join();
        is_over.store(true, Ordering::Relaxed);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        renewed.unwrap();
    });
}

#[test]
fn changed_files_are_reloaded() {
    let certs = Certs::new();
    let (server, port) = certs.weft(&["--tls-auto-reload-interval", "1"]);
    assert_eq!(TlsClient::new(&certs, port).server_serial(), 1);
    certs.issue("server", 40, VALID);
    until("the new certificate is in use", || TlsClient::new(&certs, port).server_serial() == 40);
    certs.issue("server", 41, EXPIRED);
    until("the bad one is refused", || server.log().contains("Background TLS reload failed"));
    assert_eq!(TlsClient::new(&certs, port).server_serial(), 40);
}
