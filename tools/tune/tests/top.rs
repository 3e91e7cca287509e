//! `top` as a program, on real servers: its JSON, its refusals, and the terminal that it leaves.
//!
//! The page runs in a pseudo-terminal of script(1). Peers that are not installed are skipped with a
//! note.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use weft_testkit::Server;

const TUNE: &str = env!("CARGO_BIN_EXE_weft-tune");
/// A deadline that only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(60);
/// The terminal of the page.
const WIDTH: usize = 100;
const HEIGHT: usize = 30;

fn once(port: u16, options: &[&str]) -> Output {
    let port = port.to_string();
    let mut command = Command::new(TUNE);
    command.args(["top", "--once", "--interval", "0.3", "-p", &port]).args(options);
    command.env_remove("VALKEYCLI_AUTH").env_remove("REDISCLI_AUTH").output().unwrap()
}

fn json(port: u16, options: &[&str]) -> serde_json::Value {
    let output = once(port, &[&["--json"], options].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn error(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The parts that all servers share.
fn check(server: &Server, kind: &str) -> serde_json::Value {
    let mut client = server.client();
    client.ok(&["SET", "key", "value"]);
    let report = json(server.port(), &[]);
    assert_eq!(report["schema"], "weft-tune-top/1");
    assert_eq!(report["server"]["kind"], kind);
    assert_eq!(
        (&report["server"]["process_id"], &report["server"]["is_local"]),
        (&server.pid().into(), &true.into())
    );
    assert!(report["requests"]["per_second"].as_f64().unwrap() > 0.0, "its own PINGs: {report}");
    assert!(report["latency"]["p99_us"].as_f64().unwrap() > 0.0);
    assert_eq!(report["databases"][0]["keys"], 1);
    let commands = report["commands"].as_array().unwrap();
    assert!(commands.iter().any(|command| command["name"] == "ping"), "{commands:?}");
    let threads = report["threads"].as_array().unwrap();
    assert!(threads.iter().any(|thread| thread["tid"] == server.pid()), "{threads:?}");
    assert!(threads.iter().all(|thread| thread["last_cpu"].is_u64()), "{threads:?}");
    assert!(!report["cpus"].as_array().unwrap().is_empty());
    let text = once(server.port(), &[]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.starts_with(&format!("{kind} ")) && text.contains("\nRequests "), "{text}");
    report
}

#[test]
fn weft_is_shown() {
    let server = Server::weft(&["--io-threads", "2"]);
    let report = check(&server, "weft");
    assert_eq!(report["server"]["io_threads"], 2);
    let threads = report["threads"].as_array().unwrap();
    let io: Vec<_> = threads.iter().filter(|thread| thread["io"].is_object()).collect();
    assert_eq!(io.len(), 2, "{threads:?}");
    assert_eq!((&io[0]["name"], &io[1]["name"]), (&"weft-io-0".into(), &"weft-io-1".into()));
}

#[test]
fn valkey_is_shown() {
    let Some(server) = Server::valkey(&["--io-threads", "2"]) else {
        return weft_testkit::skipped::note_here("no valkey-server");
    };
    let report = check(&server, "valkey");
    assert_eq!(report["server"]["io_threads"], 2);
}

#[test]
fn redis_is_shown() {
    let Some(server) = Server::redis8(&["--io-threads", "2"]) else {
        return weft_testkit::skipped::note_here("no redis8-server");
    };
    let report = check(&server, "redis");
    assert_eq!(report["server"]["io_threads"], 2);
}

#[test]
fn refusals_are_reported_in_words() {
    let server = Server::weft(&[]);
    let mut client = server.client();
    client.ok(&["ACL", "SETUSER", "blind", "on", ">secret", "+ping"]);
    let login = ["--user", "blind", "-a", "secret"];
    let words = error(&once(server.port(), &login));
    assert!(words.contains("doesn't permit INFO to user 'blind'"), "{words}");
    assert!(
        words.contains("ACL SETUSER blind +info +ping") && !words.contains("secret"),
        "{words}"
    );
    client.ok(&["ACL", "SETUSER", "blind", "+info", "-ping"]);
    let report = json(server.port(), &login);
    let why = report["latency"]["error"].as_str().unwrap();
    assert!(why.contains("PING") && report["latency"]["p50_us"].is_null(), "{why}");
    let words = error(&once(server.port(), &["--user", "blind", "-a", "guess"]));
    assert!(
        words.contains("rejects the login of user 'blind'") && !words.contains("guess"),
        "{words}"
    );
    client.ok(&["CONFIG", "SET", "requirepass", "secret"]);
    let words = error(&once(server.port(), &[]));
    assert!(words.contains("requires a login"), "{words}");
    json(server.port(), &["-u", &format!("valkey://:secret@127.0.0.1:{}", server.port())]);
    let port = server.port();
    drop(server);
    let words = error(&once(port, &[]));
    assert!(words.contains(&format!("can't connect to 127.0.0.1:{port}")), "{words}");
}

#[test]
fn a_unix_socket_names_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("sock").display().to_string();
    let server = Server::weft(&["--unixsocket", &socket]);
    let report = json(1, &["-s", &socket]);
    assert_eq!(
        (&report["server"]["address"], &report["server"]["is_local"]),
        (&socket.into(), &true.into())
    );
    drop(server);
}

/// Whether there is script(1); notes if not.
fn has_script() -> bool {
    let found = weft_testkit::locate::program("script").is_some();
    if !found {
        weft_testkit::skipped::note_here("no script(1)");
    }
    found
}

/// The page in a pseudo-terminal, and a file with all that it wrote.
struct Page {
    script: Child,
    output: PathBuf,
    _folder: tempfile::TempDir,
}

impl Page {
    fn open(port: u16) -> Page {
        Page::open_at(&format!("-p {port}"))
    }

    fn open_at(place: &str) -> Page {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let command =
            format!("stty cols {WIDTH} rows {HEIGHT}; echo pid=$$; exec {TUNE} top {place} -i 0.2");
        let script = Command::new("script")
            .args(["--quiet", "--flush", "--return", "--command", &command])
            .arg(&output)
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Page { script, output, _folder: folder }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    /// Waits until the screen shows this.
    fn wait_for(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !screen(&self.text()).contains(text) {
            assert!(Instant::now() < deadline, "no {text:?} in\n{}", screen(&self.text()));
            sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, keys: &str) {
        self.script.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    fn pid(&self) -> rustix::process::Pid {
        let text = self.text();
        // The command itself, which script(1) notes, has no digits there.
        let number = |rest: &str| rest.split_whitespace().next()?.parse().ok();
        let pid = text.split("pid=").skip(1).find_map(number).expect("the shell printed it");
        rustix::process::Pid::from_raw(pid).unwrap()
    }

    /// The exit status of the program; the terminal must be as it was.
    fn end(&mut self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.script.try_wait().unwrap() {
                let text = self.text();
                let left = text.rfind("\x1b[?1049l").expect("the alternate screen was left");
                assert!(text.find("\x1b[?1049h").is_some_and(|entered| entered < left), "{text:?}");
                assert!(text[left..].contains("\x1b[?25h"), "the cursor is shown again");
                return status.code().unwrap();
            }
            assert!(Instant::now() < deadline, "{:?}", self.text());
            sleep(Duration::from_millis(20));
        }
    }
}

/// The screen of a terminal after this output: text at the places to which the page moves. Colours
/// and modes are left out.
fn screen(output: &str) -> String {
    let mut cells = vec![vec![' '; WIDTH]; HEIGHT];
    let (mut x, mut y) = (0, 0);
    let mut rest = output.chars();
    while let Some(c) = rest.next() {
        if c != '\u{1b}' {
            if !c.is_control() && x < WIDTH && y < HEIGHT {
                cells[y][x] = c;
                x += 1;
            }
            continue;
        }
        if rest.next() != Some('[') {
            continue;
        }
        let mut numbers = String::new();
        let last = rest.by_ref().find(|c| {
            numbers.push(*c);
            c.is_ascii_alphabetic()
        });
        let place = numbers.trim_end_matches('H').split_once(';');
        match (last, place) {
            (Some('H'), Some((row, column))) => {
                let number = |text: &str| text.parse::<usize>().map_or(0, |number| number - 1);
                (y, x) = (number(row), number(column));
            }
            (Some('J'), _) => cells.iter_mut().for_each(|row| row.fill(' ')),
            _ => {}
        }
    }
    cells.iter().map(|row| row.iter().collect::<String>() + "\n").collect()
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

#[test]
fn keys_quit_and_the_terminal_is_restored() {
    if !has_script() {
        return;
    }
    let server = Server::weft(&[]);
    let mut page = Page::open(server.port());
    page.wait_for("Requests");
    page.press("2");
    page.wait_for("weft-io-0");
    page.press("?");
    page.wait_for("this help");
    page.press("qq");
    assert_eq!(page.end(), 0);
}

#[test]
fn a_stopped_page_gives_the_terminal_back_and_continues() {
    if !has_script() {
        return;
    }
    let server = Server::weft(&[]);
    let mut page = Page::open(server.port());
    page.wait_for("Requests");
    page.press("\u{1a}");
    let stat = format!("/proc/{}/stat", page.pid().as_raw_nonzero());
    let is_stopped = || std::fs::read_to_string(&stat).unwrap().contains(") T ");
    let deadline = Instant::now() + PATIENCE;
    while !is_stopped() {
        assert!(Instant::now() < deadline, "it doesn't stop");
        sleep(Duration::from_millis(20));
    }
    // script(1) stops a moment after its child, and continues it. A signal before that moment has no effect.
    let script = rustix::process::Pid::from_child(&page.script);
    while is_stopped() {
        assert!(Instant::now() < deadline, "it doesn't continue");
        rustix::process::kill_process(script, rustix::process::Signal::CONT).unwrap();
        sleep(Duration::from_millis(20));
    }
    page.press("?");
    page.wait_for("this help");
    page.press("qq");
    assert_eq!(page.end(), 0);
    let text = page.text();
    let ways = ["\x1b[?1049h", "\x1b[?1049l"].map(|way| text.matches(way).count());
    assert_eq!(ways, [2, 2], "left for the shell, entered again, left");
}

#[test]
fn signals_restore_the_terminal() {
    if !has_script() {
        return;
    }
    let server = Server::weft(&[]);
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::HUP] {
        let mut page = Page::open(server.port());
        page.wait_for("Requests");
        rustix::process::kill_process(page.pid(), signal).unwrap();
        assert_eq!(page.end(), 128 + signal.as_raw());
    }
}

#[test]
fn a_lost_server_is_reported_and_found_again() {
    if !has_script() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("sock").display().to_string();
    let mut server = Server::weft(&["--unixsocket", &socket]);
    let mut page = Page::open_at(&format!("-s {socket}"));
    page.wait_for("Requests");
    server.kill();
    page.wait_for("trying again");
    server.restart();
    page.wait_for("connected again");
    page.press("q");
    assert_eq!(page.end(), 0);
}

#[test]
fn a_revoked_permission_is_reported() {
    if !has_script() {
        return;
    }
    let server = Server::weft(&[]);
    let mut client = server.client();
    client.ok(&["ACL", "SETUSER", "watch", "on", ">secret", "+ping", "+info"]);
    let mut page = Page::open_at(&format!("-p {} --user watch -a secret", server.port()));
    page.wait_for("Requests");
    client.ok(&["ACL", "SETUSER", "watch", "-info"]);
    page.wait_for("the server doesn't permit INFO to user 'watch'");
    client.ok(&["ACL", "SETUSER", "watch", "+info"]);
    page.wait_for("connected again");
    page.press("q");
    assert_eq!(page.end(), 0);
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn keys_are_answered_while_the_server_is_silent() {
    if !has_script() {
        return;
    }
    let server = Server::weft(&[]);
    let mut page = Page::open(server.port());
    page.wait_for("Requests");
    server.signal(rustix::process::Signal::STOP);
    page.wait_for("no reply within");
    page.press("?");
    page.wait_for("this help");
    server.signal(rustix::process::Signal::CONT);
    page.press("qq");
    assert_eq!(page.end(), 0);
}
