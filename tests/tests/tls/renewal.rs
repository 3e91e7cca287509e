//! Certificates renewed while clients work.
//!
//! | variable | meaning |
//! |---|---|
//! | `RENEWALS` | renewals by CONFIG SET under load, default 30 |

use crate::certs::{Certs, EXPIRED, VALID};
use crate::client::TlsClient;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use weft_testkit::Client;
use weft_tests::env_or;
use weft_tests::scene::until;

/// Files that no server can use, and the reason in the log.
const BAD: [(&str, &str, &str); 5] = [
    ("late.crt", "late.key", "late.crt: certificate has expired"),
    ("server.crt", "late.key", "late.key: key values mismatch"),
    ("none", "server.key", "none: No such file or directory"),
    ("garbage", "server.key", "Failed to load certificate: "),
    (".", "server.key", "not a file"),
];

/// Sets both files. Returns the error.
fn set(client: &mut Client, certs: &Certs, cert: &str, key: &str) -> Option<String> {
    let (cert, key) = (certs.text(cert), certs.text(key));
    client.cmd(&["CONFIG", "SET", "tls-cert-file", &cert, "tls-key-file", &key]).error()
}

/// Old connections stay, new ones never fail, and none that begins after the reply gets an old certificate.
#[test]
fn certificates_are_renewed_under_load() {
    let renewals: u32 = env_or("RENEWALS", 30);
    let certs = Certs::new();
    certs.issue("late", 2, EXPIRED);
    fs::write(certs.path("garbage"), "-----BEGIN CERTIFICATE-----\nx").unwrap();
    let (server, port) = certs.weft(&["--io-threads", "2", "--io-threads-always-active", "yes"]);
    // The serial number of the certificate that the last reply confirmed.
    let confirmed = AtomicU32::new(1);
    let is_over = AtomicBool::new(false);
    let increment = || {
        let mut client = TlsClient::new(&certs, port);
        while !is_over.load(Ordering::SeqCst) {
            assert_eq!(client.cmd(&["INCR", "counter"]).error(), None);
        }
    };
    let connect = || {
        while !is_over.load(Ordering::SeqCst) {
            let oldest = confirmed.load(Ordering::SeqCst);
            let serial = TlsClient::new(&certs, port).server_serial();
            assert!(serial >= oldest, "certificate {serial} after {oldest}");
        }
    };
    let renew = || {
        let mut client = server.client();
        for serial in 10..10 + renewals {
            certs.issue("next", serial, VALID);
            assert_eq!(set(&mut client, &certs, "next.crt", "next.key"), None);
            confirmed.store(serial, Ordering::SeqCst);
            // One for each thread.
            for _ in 0..2 {
                assert_eq!(TlsClient::new(&certs, port).server_serial(), serial);
            }
            let (cert, key, _) = BAD[serial as usize % BAD.len()];
            let error = set(&mut client, &certs, cert, key).expect("a bad set");
            assert!(error.contains("Unable to update TLS configuration"), "{cert}: {error}");
            assert_eq!(TlsClient::new(&certs, port).server_serial(), serial, "{cert}");
        }
    };
    thread::scope(|scope| {
        let workers = [scope.spawn(increment), scope.spawn(increment), scope.spawn(connect)];
        let renewing = scope.spawn(renew);
        let renewed = renewing.join();
        is_over.store(true, Ordering::SeqCst);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        renewed.unwrap();
    });
    let log = server.log();
    for (_, _, why) in BAD {
        assert!(log.contains(why), "{why}: {log}");
    }
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
