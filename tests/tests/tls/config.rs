//! Starting and CONFIG SET: bad certificates are refused with the reason, in Valkey's words.

use crate::certs::{Certs, EXPIRED, VALID};
use crate::client::TlsClient;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use weft_testkit::server::free_port;
use weft_testkit::{Server, locate, skip_without};

/// The output of a server that must not start.
fn output(program: &Path, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(["--port", "0", "--save", ""])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("the program runs");
    assert!(!output.status.success(), "{args:?} starts");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn bad_set_stops_the_start() {
    let certs = Certs::new();
    certs.issue("old", 3, EXPIRED);
    let text = |name| certs.text(name);
    let (cert, key, ca) = (text("server.crt"), text("server.key"), text("ca.crt"));
    let (other, old, none) = (text("client.key"), text("old.crt"), text("none"));
    let port = free_port().to_string();
    let cases: &[(&[&str], &str)] = &[
        (&[], "No tls-cert-file configured!"),
        (&["--tls-cert-file", &cert], "No tls-key-file configured!"),
        (
            &["--tls-cert-file", &cert, "--tls-key-file", &key],
            "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, \
             tls-replication or tls-auth-clients are enabled!",
        ),
        (
            &["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &none],
            "Failed to configure CA certificate(s) file/directory: ",
        ),
        (
            &["--tls-cert-file", &cert, "--tls-key-file", &other, "--tls-ca-cert-file", &ca],
            "Failed to load private key: ",
        ),
        (
            &["--tls-cert-file", &none, "--tls-key-file", &key, "--tls-ca-cert-file", &ca],
            "Failed to load certificate: ",
        ),
    ];
    let valkey = locate::valkey();
    let is_missing = skip_without("bad_set_stops_the_start", &valkey, "valkey-server");
    for (args, wanted) in cases {
        let args = [&["--tls-port", &port], *args].concat();
        let shown = output(locate::weft(), &args);
        assert!(shown.contains(wanted), "{args:?}: {shown}");
        assert!(shown.contains("Failed to configure TLS. Check logs for more info."), "{shown}");
        if let Some(valkey) = valkey.as_ref().filter(|_| !is_missing) {
            let shown = output(valkey, &args);
            assert!(shown.contains(wanted), "Valkey, {args:?}: {shown}");
        }
    }
    let good = ["--tls-port", &port, "--tls-cert-file", &cert, "--tls-key-file", &key];
    let good = [&good[..], &["--tls-ca-cert-file", &ca]].concat();
    let with = |more: &[&str]| output(locate::weft(), &[&good[..], more].concat());
    assert!(with(&["--tls-ciphers", "FOO"]).contains("Failed to configure ciphers: FOO"));
    assert!(with(&["--tls-ciphersuites", "FOO"]).contains("Failed to configure ciphersuites: FOO"));
    assert!(with(&["--tls-protocols", "x"]).contains("Invalid tls-protocols specified."));
    assert!(with(&["--tls-protocols", "TLSv1.1"]).contains("they are broken"));
    let expired = ["--tls-cert-file", &old, "--tls-key-file", &text("old.key")];
    assert!(with(&expired).contains("certificate has expired"));
}

#[test]
fn bad_set_is_refused_as_a_whole() {
    let certs = Certs::new();
    certs.issue("new", 9, VALID);
    certs.issue("old", 3, EXPIRED);
    let (server, port) = certs.weft(&[]);
    let mut client = server.client();
    let mut established = TlsClient::new(&certs, port);
    fs::write(certs.path("garbage"), "-----BEGIN CERTIFICATE-----\nx").unwrap();
    let refusal = |name: &str| {
        format!(
            "ERR CONFIG SET failed (possibly related to argument '{name}') - Unable to update TLS \
             configuration. Check server logs."
        )
    };
    for name in ["none", "garbage", "new.crt", "old.crt"] {
        let reply = client.cmd(&["CONFIG", "SET", "tls-cert-file", &certs.text(name)]);
        assert_eq!(reply.error(), Some(refusal("tls-cert-file")), "{name}");
    }
    let log = server.log();
    for why in ["No such file", "key values mismatch"] {
        assert!(log.contains(why), "{why}: {log}");
    }
    let kept = client.cmd(&["CONFIG", "GET", "tls-cert-file"]);
    assert_eq!(kept.items()[1].text(), certs.text("server.crt"));
    assert_eq!(TlsClient::new(&certs, port).server_serial(), 1);
    let (cert, key) = (certs.text("new.crt"), certs.text("new.key"));
    client.ok(&["CONFIG", "SET", "tls-cert-file", &cert, "tls-key-file", &key]);
    assert_eq!(TlsClient::new(&certs, port).server_serial(), 9);
    assert_eq!(established.cmd(&["PING"]).text(), "PONG");
    let info = client.cmd(&["INFO", "tls"]).text();
    assert!(info.contains("tls_server_cert_serial:09"), "{info}");
    assert!(info.contains("tls_client_cert_serial:none"), "{info}");
    let seconds = info.lines().find_map(|l| l.strip_prefix("tls_server_cert_expires_in_seconds:"));
    assert!(seconds.unwrap().parse::<u64>().unwrap() > 1_000_000_000, "{info}");
}

#[test]
fn port_opens_and_closes_while_the_server_runs() {
    let certs = Certs::new();
    let server = Server::weft(&[]);
    let mut client = server.client();
    let port = free_port();
    let reply = client.cmd(&["CONFIG", "SET", "tls-port", &port.to_string()]);
    assert!(
        reply.error().unwrap().ends_with("Unable to update TLS configuration. Check server logs.")
    );
    let files = ["server.crt", "server.key", "ca.crt"].map(|name| certs.text(name));
    let [cert, key, ca] = &files;
    client.ok(&[
        "CONFIG",
        "SET",
        "tls-cert-file",
        cert,
        "tls-key-file",
        key,
        "tls-ca-cert-file",
        ca,
    ]);
    client.ok(&["CONFIG", "SET", "tls-port", &port.to_string()]);
    let mut encrypted = TlsClient::new(&certs, port);
    let info = encrypted.cmd(&["INFO", "server"]).text();
    assert!(info.contains(&format!("listener2:name=tls,bind=127.0.0.1,port={port}")), "{info}");
    client.ok(&["CONFIG", "SET", "tls-port", "0"]);
    assert!(TlsClient::try_new(&certs, port, "client").is_err());
    assert_eq!(encrypted.cmd(&["PING"]).text(), "PONG");
}

/// Made by `openssl pkcs8 -topk8 -passout pass:hello` and `openssl req -x509`.
#[test]
fn encrypted_key_needs_its_pass_phrase() {
    let Some(openssl) = locate::program("openssl") else {
        return weft_testkit::skipped::note_here("there is no openssl");
    };
    let certs = Certs::new();
    let (from, to) = (certs.text("server.key"), certs.text("encrypted.key"));
    let args = ["pkcs8", "-topk8", "-passout", "pass:hello", "-in", &from, "-out", &to];
    assert!(Command::new(openssl).args(args).status().unwrap().success());
    let port = free_port().to_string();
    let (cert, ca) = (certs.text("server.crt"), certs.text("ca.crt"));
    let args = ["--tls-port", &port, "--tls-cert-file", &cert, "--tls-key-file", &to];
    let args = [&args[..], &["--tls-ca-cert-file", &ca]].concat();
    let with = |pass| output(locate::weft(), &[&args[..], &["--tls-key-file-pass", pass]].concat());
    assert!(with("wrong").contains("the pass phrase is wrong"));
    assert!(output(locate::weft(), &args).contains("there is no pass phrase"));
    let server = Server::weft(&[&args[..], &["--tls-key-file-pass", "hello"]].concat());
    assert_eq!(TlsClient::new(&certs, port.parse().unwrap()).server_serial(), 1);
    assert!(!server.log().contains("hello"), "the pass phrase is in the log");
}

#[test]
fn key_on_another_curve_is_refused_with_the_supported_ones() {
    let Some(openssl) = locate::program("openssl") else {
        return weft_testkit::skipped::note_here("there is no openssl");
    };
    let certs = Certs::new();
    let (cert, key, ca) = (certs.text("server.crt"), certs.text("other.key"), certs.text("ca.crt"));
    let args = ["ecparam", "-name", "secp521r1", "-genkey", "-noout", "-out", &key];
    assert!(Command::new(openssl).args(args).status().unwrap().success());
    let port = free_port().to_string();
    let args = ["--tls-port", &port, "--tls-cert-file", &cert, "--tls-key-file", &key];
    let shown = output(locate::weft(), &[&args[..], &["--tls-ca-cert-file", &ca]].concat());
    assert!(shown.contains("Failed to load private key: "), "{shown}");
    assert!(shown.contains("ECDSA on P-256 and P-384"), "{shown}");
}
