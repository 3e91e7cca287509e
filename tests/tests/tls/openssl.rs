//! `openssl s_client` negotiates only configured versions and cipher suites, with the server and with its reference.

use crate::certs::Certs;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use weft_testkit::{Server, locate, skipped};

/// Servers with the same certificates.
struct Scene {
    openssl: PathBuf,
    certs: Certs,
    servers: Vec<(Server, u16)>,
}

/// A session that has executed PING.
#[derive(Debug)]
struct Session {
    cipher: String,
    is_resumed: bool,
    output: String,
}

impl Scene {
    /// Weft, and Valkey if it is installed. `None` without openssl.
    fn new() -> Option<Scene> {
        let Some(openssl) = locate::program("openssl") else {
            skipped::note_here("there is no openssl");
            return None;
        };
        let certs = Certs::new();
        let valkey = certs.valkey(&[]);
        if valkey.is_none() {
            skipped::note_here("no valkey-server in PEERS_BIN or PATH");
        }
        let servers = valkey.into_iter().chain([certs.weft(&[])]).collect();
        Some(Scene { openssl, certs, servers })
    }

    fn set(&self, directive: &str, value: &str) {
        for (server, _) in &self.servers {
            server.client().ok(&["CONFIG", "SET", directive, value]);
        }
    }

    /// Runs `openssl s_client` with PING as its first input, and `input` after the reply. Returns its output, and whether
    /// PING was answered.
    fn run(&self, port: u16, args: &[&str], input: &str) -> (String, bool) {
        let files = ["ca.crt", "client.crt", "client.key"].map(|name| self.certs.text(name));
        let [ca, cert, key] = &files;
        let errors = self.certs.path("errors");
        let mut client = Command::new(&self.openssl)
            .args(["s_client", "-connect", &format!("127.0.0.1:{port}")])
            .args(["-CAfile", ca, "-cert", cert, "-key", key])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors).expect("a file"))
            .spawn()
            .expect("openssl runs");
        let mut requests = client.stdin.take().expect("it is piped");
        // It has ended already if the handshake failed.
        let _ = requests.write_all(b"PING\r\n");
        let mut requests = Some(requests);
        let (mut output, mut is_answered) = (String::new(), false);
        for line in BufReader::new(client.stdout.take().expect("it is piped")).lines() {
            let line = line.expect("text");
            // The reply may come in the middle of a line about the session.
            if line.ends_with("+PONG") {
                is_answered = true;
                // The end of its input ends the client.
                if let Some(mut requests) = requests.take() {
                    let _ = requests.write_all(input.as_bytes());
                }
            }
            output += &line;
            output.push('\n');
        }
        client.wait().expect("it has closed its output");
        (output + &std::fs::read_to_string(errors).expect("text"), is_answered)
    }

    /// Connects to a port; the error is the output.
    fn connect(&self, port: u16, args: &[&str]) -> Result<Session, String> {
        let (output, is_answered) = self.run(port, args, "");
        let line = output.lines().find(|line| line.contains(", Cipher is "));
        match (line, is_answered) {
            (Some(line), true) => {
                let (kind, cipher) = line.split_once(", Cipher is ").expect("found");
                let (cipher, is_resumed) = (cipher.to_string(), kind.starts_with("Reused"));
                Ok(Session { cipher, is_resumed, output })
            }
            _ => Err(output),
        }
    }

    /// All servers negotiate this cipher suite.
    #[track_caller]
    fn negotiates(&self, args: &[&str], cipher: &str) {
        for (server, port) in &self.servers {
            match self.connect(*port, args) {
                Ok(session) => assert_eq!(session.cipher, cipher, "{}, {args:?}", server.name()),
                Err(output) => panic!("{}, {args:?}: {output}", server.name()),
            }
        }
    }

    /// All servers refuse the handshake with one of these alerts.
    #[track_caller]
    fn refuses(&self, args: &[&str], alerts: &[&str]) {
        for (server, port) in &self.servers {
            match self.connect(*port, args) {
                Ok(session) => panic!("{}, {args:?}: {}", server.name(), session.cipher),
                Err(output) => {
                    let is_refused = alerts.iter().any(|alert| output.contains(alert));
                    assert!(is_refused, "{}, {args:?}: {output}", server.name());
                }
            }
        }
    }
}

const VERSION: &str = "alert protocol version";
const FAILURE: &str = "alert handshake failure";
const AES_128: &str = "TLS_AES_128_GCM_SHA256";
const AES_256: &str = "TLS_AES_256_GCM_SHA384";
const CHACHA: &str = "TLS_CHACHA20_POLY1305_SHA256";

#[test]
fn only_configured_protocols_are_negotiated() {
    let Some(scene) = Scene::new() else { return };
    // At its default level, the client doesn't offer broken versions.
    let old = |version| [version, "-cipher", "ALL:@SECLEVEL=0"];
    let (tls12, tls13) = (["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"], ["-tls1_3"]);
    for (protocols, has_12, has_13) in [
        ("", true, true),
        ("TLSv1.2", true, false),
        ("TLSv1.3", false, true),
        ("TLSv1.2 TLSv1.3", true, true),
    ] {
        scene.set("tls-protocols", protocols);
        match has_12 {
            true => scene.negotiates(&tls12, tls12[2]),
            false => scene.refuses(&tls12, &[VERSION]),
        }
        match has_13 {
            true => scene.negotiates(&tls13, AES_256),
            false => scene.refuses(&tls13, &[VERSION]),
        }
        scene.refuses(&old("-tls1_1"), &[VERSION, FAILURE]);
        scene.refuses(&old("-tls1"), &[VERSION, FAILURE]);
    }
}

fn tls12(suites: &str) -> [&str; 3] {
    ["-tls1_2", "-cipher", suites]
}

fn tls13(suites: &str) -> [&str; 3] {
    ["-tls1_3", "-ciphersuites", suites]
}

#[test]
fn only_configured_cipher_suites_are_negotiated() {
    let Some(scene) = Scene::new() else { return };
    scene.set("tls-ciphersuites", &format!("{AES_128}:{CHACHA}"));
    scene.negotiates(&tls13(AES_128), AES_128);
    scene.negotiates(&tls13(CHACHA), CHACHA);
    scene.refuses(&tls13(&format!("{AES_256}:TLS_AES_128_CCM_SHA256")), &[FAILURE]);
    // TLS 1.2 has its own list.
    let (aes, chacha) = ("ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305");
    scene.negotiates(&tls12(aes), aes);
    scene.set("tls-ciphers", &format!("{chacha}:{aes}"));
    scene.negotiates(&tls12(aes), aes);
    scene.negotiates(&tls12(chacha), chacha);
    scene.refuses(&tls12(&format!("ALL:!{aes}:!{chacha}:@SECLEVEL=0")), &[FAILURE]);
    for (prefers_own, chosen) in [("yes", [AES_128, chacha]), ("no", [CHACHA, aes])] {
        scene.set("tls-prefer-server-ciphers", prefers_own);
        scene.negotiates(&tls13(&format!("{CHACHA}:{AES_128}")), chosen[0]);
        scene.negotiates(&tls12(&format!("{aes}:{chacha}")), chosen[1]);
    }
}

/// The reference has more suites, which depend on its library.
#[test]
fn default_suites_have_forward_secrecy_and_authenticate() {
    let Some(mut scene) = Scene::new() else { return };
    scene.servers.retain(|(server, _)| server.name() == "weft");
    scene.negotiates(&["-tls1_2", "-cipher", "ALL:@SECLEVEL=0"], "ECDHE-ECDSA-AES256-GCM-SHA384");
    let rest = "ALL:!ECDHE+AESGCM:!ECDHE+CHACHA20:@SECLEVEL=0";
    scene.refuses(&["-tls1_2", "-cipher", rest], &[FAILURE]);
    scene.refuses(&["-tls1_3", "-ciphersuites", "TLS_AES_128_CCM_SHA256"], &[FAILURE]);
}

#[test]
fn sessions_are_resumed_only_with_caching() {
    let Some(scene) = Scene::new() else { return };
    let file = scene.certs.text("session");
    for (caching, is_resumed) in [("yes", true), ("no", false)] {
        for version in ["-tls1_2", "-tls1_3"] {
            scene.set("tls-session-caching", "yes");
            for (server, port) in &scene.servers {
                let context = format!("{}, {version}, {caching}", server.name());
                let first = scene.connect(*port, &[version, "-sess_out", &file]);
                assert!(!first.expect("a session").is_resumed, "{context}");
                // Setting the same value would begin a new cache.
                if caching == "no" {
                    server.client().ok(&["CONFIG", "SET", "tls-session-caching", "no"]);
                }
                let second = scene.connect(*port, &[version, "-sess_in", &file]);
                let second = second.expect("a session");
                assert_eq!(second.is_resumed, is_resumed, "{context}: {}", second.output);
                let has_ticket = second.output.contains("New Session Ticket arrived");
                assert!(!has_ticket || is_resumed || server.name() == "valkey", "{context}");
            }
        }
    }
}

#[test]
fn renegotiation_is_refused() {
    let Some(scene) = Scene::new() else { return };
    for (server, port) in &scene.servers {
        // The client renegotiates after this line.
        let (output, is_answered) = scene.run(*port, &["-tls1_2"], "R\n");
        let (_, after) = output.split_once("RENEGOTIATING").expect("it has begun");
        assert!(is_answered && after.contains("no renegotiation"), "{}: {output}", server.name());
        assert!(scene.connect(*port, &["-tls1_2"]).is_ok(), "{}", server.name());
    }
}
