//! Clients over TLS, with the server and with its reference: redis-py, ioredis, go-redis, Jedis, and valkey-cli.
//!
//! `.ci/clients` installs the programs from `tests/clients/`; set `CLIENTS_BIN` to their folder. Their argument is the
//! folder of the certificates. They read requests from standard input, and print one line for each:
//!
//! | request | reply |
//! |---|---|
//! | `connect PORT CA CERTIFICATE USER PASSWORD` | the reply to ACL WHOAMI of a new client, which replaces the last one. `-` is none |
//! | `set KEY` | `OK` |
//! | `session` | `OK`, after pipelines, values of 1 MB, a transaction, messages and a blocking pop |
//! | `again` | `OK`, when the client has reconnected to the restarted server |
//!
//! The reply to a request that fails is `error` with the message.

use crate::certs::{Certs, VALID};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use weft_testkit::{Client, Server, locate, skip_without, skipped};

const LIBRARIES: [&str; 4] = ["redis-py", "ioredis", "go-redis", "jedis"];

/// A program that uses a library.
struct Library {
    name: &'static str,
    program: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Library {
    /// The program, if it is installed.
    fn start(name: &'static str, folder: &Path, certs: &Certs) -> Option<Library> {
        let path = folder.join(format!("{name}-tls"));
        if !path.is_file() {
            skipped::note_here(&format!("no {name}-tls in CLIENTS_BIN"));
            return None;
        }
        let mut program = Command::new(&path)
            .arg(certs.dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("cannot run {}: {e}", path.display()));
        let requests = program.stdin.take().expect("it is piped");
        let replies = BufReader::new(program.stdout.take().expect("it is piped"));
        Some(Library { name, program, requests, replies })
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// All programs, and the server that they connect to.
struct Scene<'a> {
    libraries: &'a mut [Library],
    server: Server,
    port: u16,
}

impl Scene<'_> {
    /// Sends a request to all programs at once, and checks the reply of each.
    #[track_caller]
    fn ask(&mut self, request: &str, is_expected: impl Fn(&str) -> bool) {
        for library in self.libraries.iter_mut() {
            writeln!(library.requests, "{request}").expect("the program reads");
        }
        for library in self.libraries.iter_mut() {
            let mut reply = String::new();
            library.replies.read_line(&mut reply).expect("text");
            let (name, server) = (library.name, self.server.name());
            assert!(is_expected(reply.trim_end()), "{name} with {server}, {request}: {reply}");
        }
    }

    /// Connects with an authority, a certificate and `USER PASSWORD`. The server says that the client is this user.
    #[track_caller]
    fn connect(&mut self, [ca, certificate, login]: [&str; 3], user: &str) {
        let request = format!("connect {} {ca} {certificate} {login}", self.port);
        self.ask(&request, |reply| reply == user);
    }

    /// Connecting fails with an error that contains one of these words, in lower case.
    #[track_caller]
    fn refuse(&mut self, [ca, certificate, login]: [&str; 3], words: &[&str]) {
        let request = format!("connect {} {ca} {certificate} {login}", self.port);
        self.ask(&request, |reply| {
            let reply = reply.to_lowercase();
            reply.starts_with("error ") && words.iter().any(|word| reply.contains(word))
        });
    }

    fn set(&self, directive: &str, value: &str) {
        self.admin().ok(&["CONFIG", "SET", directive, value]);
    }

    /// A client of the plain port.
    fn admin(&self) -> Client {
        self.server.client()
    }
}

/// The client's words for an alert, or for the connection that ended before the alert was read.
const REFUSED: &[&str] = &["alert", "remote error", "reset", "closed", "eof", "broken pipe"];
const ANONYMOUS: &str = "- -";

fn certificates_are_required_or_not(scene: &mut Scene<'_>) {
    scene.connect(["ca", "client", ANONYMOUS], "default");
    scene.ask("session", |reply| reply == "OK");
    scene.refuse(["ca", "-", ANONYMOUS], REFUSED);
    scene.refuse(["ca", "stranger", ANONYMOUS], REFUSED);
    let mistrusted =
        ["verify", "self-signed", "signature failure", "unknown authority", "pkix path"];
    scene.refuse(["strangers", "client", ANONYMOUS], &mistrusted);
    scene.set("tls-auth-clients", "optional");
    scene.connect(["ca", "client", ANONYMOUS], "default");
    scene.connect(["ca", "-", ANONYMOUS], "default");
    scene.refuse(["ca", "stranger", ANONYMOUS], REFUSED);
    scene.set("tls-auth-clients", "no");
    scene.connect(["ca", "-", ANONYMOUS], "default");
    scene.ask("session", |reply| reply == "OK");
    scene.connect(["ca", "stranger", ANONYMOUS], "default");
}

fn is_not_allowed(reply: &str) -> bool {
    reply.starts_with("error ") && reply.contains("No permissions to access a key")
}

fn users_log_in(scene: &mut Scene<'_>) {
    let limits = ["~app:*", "&app:*", "+@all"];
    let mut admin = scene.admin();
    admin.ok(&[&["ACL", "SETUSER", "app", "on", ">secret"], &limits[..]].concat());
    admin.ok(&[&["ACL", "SETUSER", "urn:app", "on"], &limits[..]].concat());
    scene.connect(["ca", "-", "app secret"], "app");
    scene.ask("set app:1", |reply| reply == "OK");
    scene.ask("set other", is_not_allowed);
    scene.refuse(["ca", "-", "app wrong"], &["invalid username-password pair"]);
    scene.set("tls-auth-clients", "yes");
    for (field, user) in [("CN", "app"), ("URI", "urn:app")] {
        scene.set("tls-auth-clients-user", field);
        scene.connect(["ca", "app", ANONYMOUS], user);
        scene.ask("set app:1", |reply| reply == "OK");
        scene.ask("set other", is_not_allowed);
        // A certificate without a user leaves its client with the default one.
        scene.connect(["ca", "client", ANONYMOUS], "default");
        scene.connect(["ca", "client", "app secret"], "app");
    }
    scene.set("tls-auth-clients-user", "off");
    scene.connect(["ca", "app", ANONYMOUS], "default");
}

fn clients_reconnect(scene: &mut Scene<'_>) {
    scene.connect(["ca", "client", ANONYMOUS], "default");
    scene.ask("set before", |reply| reply == "OK");
    scene.server.restart();
    scene.ask("again", |reply| reply == "OK");
    scene.ask("session", |reply| reply == "OK");
}

fn complete_sessions(libraries: &mut [Library], (server, port): (Server, u16)) {
    let mut scene = Scene { libraries, server, port };
    certificates_are_required_or_not(&mut scene);
    users_log_in(&mut scene);
    clients_reconnect(&mut scene);
    let (is_alive, name) = (scene.server.is_alive(), scene.server.name());
    assert!(is_alive, "{name} ended: {}", scene.server.log_tail());
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn client_libraries_complete_their_sessions() {
    let Some(folder) = env::var_os("CLIENTS_BIN") else {
        skipped::note_here("no CLIENTS_BIN: .ci/clients installs client libraries");
        return;
    };
    let (certs, strangers) = (Certs::new(), Certs::new());
    certs.issue("app", 3, VALID);
    for (theirs, ours) in [
        ("ca.crt", "strangers.crt"),
        ("client.crt", "stranger.crt"),
        ("client.key", "stranger.key"),
    ] {
        std::fs::copy(strangers.path(theirs), certs.path(ours)).expect("a file");
    }
    let start = |name| Library::start(name, folder.as_ref(), &certs);
    let mut libraries: Vec<Library> = LIBRARIES.into_iter().filter_map(start).collect();
    match certs.valkey(&[]) {
        Some(valkey) => complete_sessions(&mut libraries, valkey),
        None => skipped::note_here("no valkey-server in PEERS_BIN or PATH"),
    }
    complete_sessions(&mut libraries, certs.weft(&["--io-threads", "2"]));
}

/// The output of valkey-cli for ACL WHOAMI, errors included.
fn whoami(cli: &Path, port: u16, [ca, cert, key]: [&str; 3], login: &[&str]) -> String {
    let own = ["--cert", cert, "--key", key];
    let own = if cert.is_empty() { &[][..] } else { &own };
    let output = Command::new(cli)
        .args(["-h", "localhost", "-p", &port.to_string(), "--tls", "--cacert", ca])
        .args(own)
        .args(login)
        .args(["ACL", "WHOAMI"])
        .stdin(Stdio::null())
        .output()
        .expect("the program runs");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_string()
}

#[test]
fn command_line_tool_logs_in_over_tls() {
    let cli = locate::peer("valkey-cli");
    if skip_without("command_line_tool_logs_in_over_tls", &cli, "valkey-cli") {
        return;
    }
    let (cli, certs) = (cli.expect("checked"), Certs::new());
    certs.issue("app", 3, VALID);
    let file = |name| certs.text(name);
    let (ca, cert, key) = (file("ca.crt"), file("app.crt"), file("app.key"));
    for (server, port) in certs.valkey(&[]).into_iter().chain([certs.weft(&[])]) {
        let name = server.name();
        let mut admin = server.client();
        admin.ok(&["ACL", "SETUSER", "app", "on", ">secret", "+@all"]);
        let login = ["--user", "app", "--pass", "secret", "--no-auth-warning"];
        assert_eq!(whoami(&cli, port, [&ca, &cert, &key], &[]), "default", "{name}");
        assert_eq!(whoami(&cli, port, [&ca, &cert, &key], &login), "app", "{name}");
        let mistrusting = whoami(&cli, port, [&cert, &cert, &key], &[]);
        assert!(mistrusting.contains("certificate verify failed"), "{name}: {mistrusting}");
        let refused = whoami(&cli, port, [&ca, "", ""], &[]);
        assert!(refused.contains("Error"), "{name}: {refused}");
        admin.ok(&["CONFIG", "SET", "tls-auth-clients", "no"]);
        assert_eq!(whoami(&cli, port, [&ca, "", ""], &login), "app", "{name}");
        admin.ok(&["CONFIG", "SET", "tls-auth-clients", "yes", "tls-auth-clients-user", "CN"]);
        assert_eq!(whoami(&cli, port, [&ca, &cert, &key], &[]), "app", "{name}");
    }
}
