//! TLS with a server of the reference: accepted certificates, and all kinds of load.

mod common;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::{describe, json, masked, move_slot, ours, ours_ok, run, start, text, theirs};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use weft_testkit::Server;
use weft_testkit::server::free_port;

/// Certificates in files: `ca.crt`, `server.crt`, `server.key`, `client.crt`, `client.key`, and
/// `other.crt`, an authority that signed none of them. The server's name differs from that of its
/// host.
struct Certificates(TempDir);

impl Certificates {
    fn new() -> Certificates {
        let files = Certificates(tempfile::tempdir().expect("a temporary folder"));
        let ca = files.authority("ca");
        files.authority("other");
        files.signed("server", ExtendedKeyUsagePurpose::ServerAuth, &ca);
        files.signed("client", ExtendedKeyUsagePurpose::ClientAuth, &ca);
        files
    }

    fn authority(&self, name: &str) -> Issuer<'static, KeyPair> {
        let mut params = CertificateParams::new(vec![]).expect("no names");
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("a certificate");
        self.write(&format!("{name}.crt"), &cert.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
        Issuer::new(params, key)
    }

    fn signed(&self, name: &str, purpose: ExtendedKeyUsagePurpose, ca: &Issuer<'_, KeyPair>) {
        let mut params = CertificateParams::new(vec!["not.this.host".into()]).expect("a name");
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, ca).expect("a certificate");
        self.write(&format!("{name}.crt"), &cert.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).expect("a file");
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// A call in which `{}` is the folder.
    fn call(&self, line: &str) -> String {
        line.replace("{}", &self.0.path().display().to_string())
    }
}

/// A server with a port for TLS and one without.
struct Secure {
    server: Server,
    port: u16,
    files: Certificates,
}

impl Secure {
    /// None, with a note, if there is no server, or it has no TLS.
    fn start(test: &str, args: &[&str]) -> Option<Secure> {
        let Some(program) = weft_testkit::locate::valkey() else {
            weft_testkit::skipped::note(test, "no valkey-server in PEERS_BIN or PATH");
            return None;
        };
        if !has_tls(&program) {
            weft_testkit::skipped::note(test, "valkey-server is built without TLS");
            return None;
        }
        let (files, port) = (Certificates::new(), free_port());
        let [port_text, cert, key, ca] = [
            port.to_string(),
            files.path("server.crt"),
            files.path("server.key"),
            files.path("ca.crt"),
        ];
        let mut all = vec!["--tls-port", &port_text, "--tls-cert-file", &cert];
        all.extend(["--tls-key-file", &key, "--tls-ca-cert-file", &ca]);
        // If given twice the last one counts.
        all.extend(["--tls-auth-clients", "no"]);
        all.extend(args);
        let server = Server::start("valkey", &program, &all);
        Some(Secure { server, port, files })
    }

    /// A call over TLS with the right authority.
    fn line(&self, line: &str) -> String {
        self.files.call(&format!("--tls --cacert {{}}/ca.crt {line}"))
    }

    fn ok(&self, line: &str) -> String {
        ours_ok(self.port, &self.line(line))
    }

    #[track_caller]
    fn fails(&self, line: &str, words: &str) {
        fails_with(&ours(self.port, &self.files.call(line)), words);
    }

    fn stat(&self, name: &str) -> u64 {
        let info = self.server.client().cmd(&["INFO", "stats"]).text();
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse().ok()).expect("a figure")
    }
}

/// Whether the program has the options of TLS: without them it ends at once with an error.
fn has_tls(program: &Path) -> bool {
    let output = Command::new(program)
        .args(["--port", "0", "--tls-port", "1", "--tls-cert-file", "/none", "--save", ""])
        .stdin(Stdio::null())
        .output();
    let said = output.map(|output| text(&output.stdout) + &text(&output.stderr));
    !said.unwrap_or_default().contains("Bad directive")
}

#[track_caller]
fn fails_with(output: &Output, words: &str) {
    assert_eq!(output.status.code(), Some(1), "{}", describe(output));
    let error = text(&output.stderr);
    assert!(error.contains(words), "{words:?} is not in {error:?}");
}

#[test]
fn reports_are_as_without() {
    let Some(secure) = Secure::start("reports_are_as_without", &[]) else { return };
    let plain = secure.server.port();
    for line in
        ["-n 200 -t set,get,lrange_100 --csv", "-n 200 -t set,get -q", "-n 200 -t get --full"]
    {
        // The number of percentiles depends on time, and so does the limiting side on a busy
        // machine.
        let up_to_time =
            |line: &String| line.contains("<= N") || line.starts_with("client-limited");
        let lines = |text: &str| masked(text).into_iter().filter(|line| !up_to_time(line));
        let want: Vec<String> = lines(&ours_ok(plain, line)).collect();
        let got: Vec<String> = lines(&secure.ok(line)).collect();
        assert_eq!(got, want, "{line}");
        if let Some(theirs) = theirs()
            && line.contains("--csv")
        {
            let theirs = run(&theirs, secure.port, &secure.line(line));
            assert_eq!(got, masked(&text(&theirs.stdout)), "{}", describe(&theirs));
        }
    }
    let uri = format!("-u valkeys://127.0.0.1:{} -n 50 -t get -q", secure.port);
    ours_ok(1, &secure.files.call(&format!("{uri} --cacert {{}}/ca.crt")));
}

#[test]
fn servers_are_verified_but_not_their_names() {
    let Some(secure) = Secure::start("servers_are_verified_but_not_their_names", &[]) else {
        return;
    };
    let unknown = "Could not negotiate a TLS connection: invalid peer certificate: UnknownIssuer";
    let test = "-n 20 -t get -q";
    secure.ok(test);
    secure.ok(&format!("{test} --sni some.name"));
    secure.fails(&format!("--tls --cacert {{}}/other.crt {test}"), unknown);
    secure.fails(&format!("--tls --cacert {{}}/none.crt {test}"), "Invalid CA Certificate File");
    ours_ok(secure.port, &format!("--tls --insecure {test}"));
    let roots = secure.files.0.path().join("roots");
    std::fs::create_dir(&roots).unwrap();
    let in_dir = format!("--tls --cacertdir {{}}/roots {test}");
    secure.fails(&in_dir, "Invalid CA Certificate File/Directory");
    std::fs::copy(secure.files.path("ca.crt"), roots.join("0a1b2c3d.0")).unwrap();
    ours_ok(secure.port, &secure.files.call(&in_dir));
    // The roots of the system, if there are any, signed none of ours.
    let by_default = ours(secure.port, &format!("--tls {test}"));
    let error = text(&by_default.stderr);
    assert_eq!(by_default.status.code(), Some(1));
    assert!(error.contains(unknown) || error.contains("no root certificates"), "{error}");
}

#[test]
fn server_without_tls_is_named_in_the_error() {
    let Some(secure) = Secure::start("server_without_tls_is_named_in_the_error", &[]) else {
        return;
    };
    let plain = ours(secure.server.port(), "--tls --insecure -n 20 -t get -q");
    fails_with(&plain, "does the server speak TLS?");
    assert_eq!(ours(secure.port, "-n 20 -t get -q").status.code(), Some(1));
}

#[test]
fn clients_show_their_certificates() {
    let args = ["--tls-auth-clients", "yes"];
    let Some(secure) = Secure::start("clients_show_their_certificates", &args) else { return };
    let test = "-n 50 -t get -q";
    secure.ok(&format!("--cert {{}}/client.crt --key {{}}/client.key {test}"));
    secure.ok(&format!("--cert {{}}/client.crt --key {{}}/client.key -k 0 {test}"));
    let tls = "--tls --cacert {}/ca.crt";
    secure.fails(&format!("{tls} {test}"), "received fatal alert: ");
    let no_pair = format!("{tls} --cert {{}}/client.crt --key {{}}/server.key {test}");
    secure.fails(&no_pair, "Invalid private key");
    let no_cert = format!("{tls} --cert {{}}/ca.key --key {{}}/client.key {test}");
    secure.fails(&no_cert, "Invalid client certificate");
    // With TLS 1.2 the server refuses during the handshake.
    secure.server.client().ok(&["CONFIG", "SET", "tls-protocols", "TLSv1.2"]);
    secure.ok(&format!("--cert {{}}/client.crt --key {{}}/client.key {test}"));
    secure.fails(&format!("{tls} {test}"), "Could not negotiate a TLS connection: received fatal");
}

#[test]
fn ciphers_are_chosen_by_name() {
    let Some(secure) = Secure::start("ciphers_are_chosen_by_name", &[]) else { return };
    let test = "-n 50 -k 0 -t get -q";
    secure.ok(&format!("--tls-ciphersuites TLS_CHACHA20_POLY1305_SHA256 {test}"));
    let mut client = secure.server.client();
    client.ok(&["CONFIG", "SET", "tls-ciphersuites", "TLS_AES_128_GCM_SHA256"]);
    let other = "--tls --insecure --tls-ciphersuites TLS_CHACHA20_POLY1305_SHA256";
    secure.fails(&format!("{other} {test}"), "HandshakeFailure");
    client.ok(&["CONFIG", "SET", "tls-protocols", "TLSv1.2"]);
    client.ok(&["CONFIG", "SET", "tls-ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"]);
    secure.ok(&format!("--tls-ciphers ECDHE-ECDSA-AES128-GCM-SHA256 {test}"));
    secure.ok(&format!("--tls-ciphers HIGH:!AES256 {test}"));
    secure.fails(&format!("--tls --insecure --tls-ciphers AES256 {test}"), "HandshakeFailure");
    secure.fails(&format!("--tls --tls-ciphers RC4-MD5 {test}"), "there is no suite for");
}

#[test]
fn all_kinds_of_load() {
    let Some(secure) = Secure::start("all_kinds_of_load", &["--maxclients", "1000"]) else {
        return;
    };
    let before = secure.stat("total_commands_processed");
    let line = secure.line("-n 20000 -P 16 -r 1000 --threads 2 -c 40 -t set");
    let test = &json(secure.port, &line)["tests"][0];
    assert_eq!((&test["requests"], &test["errors"]), (&20000.into(), &serde_json::json!({})));
    assert!(secure.stat("total_commands_processed") - before >= 20000);
    // Sizes beyond a record, and beyond the socket's buffer.
    secure.ok("-n 400 -P 8 -r 10 -d 200000 -c 4 -t set,get --verify -q");
    secure.ok("-n 2000 -c 4 -P 3 -3 --enable-tracking --dbnum 2 -t lrange_600 -q");
    // 10 connect at first, and each of the 50 requests but the last ones is followed by a new
    // connection.
    let before = secure.stat("total_connections_received");
    secure.ok("-n 50 -c 10 -k 0 --dbnum 3 -t set -q");
    assert!(secure.stat("total_connections_received") - before >= 50);
    let open_loop = &json(secure.port, &secure.line("-n 600 --rps 2000 -t get"))["tests"][0];
    assert_eq!(open_loop["requests"], 600);
    let versus = secure.line(&format!("-n 2000 --rounds 2 -t get --vs 127.0.0.1:{}", secure.port));
    let versus = json(secure.port, &versus);
    assert_eq!(versus["settings"]["tls"], true);
    assert_eq!(versus["tests"].as_array().map(Vec::len), Some(2), "{versus}");
}

#[test]
fn idle_connections_stay_until_the_server_goes() {
    let name = "idle_connections_stay_until_the_server_goes";
    let Some(mut secure) = Secure::start(name, &[]) else { return };
    let line = secure.line("-I -c 7");
    let mut child = start(secure.port, &line);
    let clients = || secure.server.client().cmd(&["CLIENT", "LIST"]).text().lines().count();
    for _ in 0..500 {
        if clients() == 8 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // Messages of the server after the handshake must not end the run.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(clients(), 8);
    assert!(child.try_wait().unwrap().is_none());
    secure.server.kill();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let mut error = String::new();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert!(error.contains("Server closed the connection"), "{error}");
}

#[test]
fn a_cluster_with_slots_that_move() {
    let name = "a_cluster_with_slots_that_move";
    let args = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];
    let Some(first) = Secure::start(name, &args) else { return };
    let Some(second) = Secure::start(name, &args) else { return };
    let (mut a, mut b) = (first.server.client(), second.server.client());
    a.ok(&["CLUSTER", "ADDSLOTSRANGE", "0", "9999"]);
    b.ok(&["CLUSTER", "ADDSLOTSRANGE", "10000", "16383"]);
    a.ok(&["CLUSTER", "MEET", "127.0.0.1", &second.server.port().to_string()]);
    for client in [&mut a, &mut b] {
        while !client.cmd(&["CLUSTER", "INFO"]).text().contains("cluster_slots_ok:16384")
            || !client.cmd(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok")
        {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let line = "--tls --insecure --cluster -c 4 --duration 8 --json get key:{tag}";
    let child = start(first.port, line);
    // The slots move while it sends requests.
    while !a.cmd(&["CLIENT", "LIST"]).text().contains("cmd=get") {
        std::thread::sleep(Duration::from_millis(20));
    }
    (0..100).for_each(|slot| move_slot(slot, &mut a, &mut b));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let test = &document["tests"][0];
    assert!(test["redirected"].as_u64().unwrap() > 0, "{test}");
    assert_eq!(test["errors"], serde_json::json!({}));
}
