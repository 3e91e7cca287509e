//! Helpers of the effect log tests: running requests, splitting logs into the entries of each
//! request, comparing logs, and replaying them.

mod scripts;

pub use scripts::{DIFFERENCES, SCRIPTS};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, Value, client::encode_into};
use weft_testkit_differential::generate::{Action, Step};
use weft_testkit_differential::{Deck, Group, Target, keyspace, session};

/// A command of a log.
pub type Command = Vec<Vec<u8>>;

/// The key of the marker that follows each request, with its number.
const MARKER: &str = "the-marker";

/// The log of a run, split by request.
pub struct Run(Vec<Vec<Command>>);

impl Run {
    /// Runs the lines on an empty server with active expiry off. `~` waits until a TTL of a
    /// millisecond is over.
    pub fn of_lines(server: &Server, script: &str) -> Run {
        let mut client = server.client();
        client.cmd(&["FLUSHALL"]);
        client.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        let log = Log::begin(server, &mut client);
        for (n, line) in script.lines().map(str::trim).filter(|l| !l.is_empty()).enumerate() {
            if line == "~" {
                std::thread::sleep(Duration::from_millis(10));
            } else {
                let words: Vec<Vec<u8>> = line.split(' ').map(word).collect();
                client.cmd(&words);
            }
            client.cmd(&["SET", MARKER, &n.to_string()]);
        }
        Run(cut(log.end(&mut client)))
    }

    /// The log of request `n`, without SELECT.
    pub fn of_request(&self, n: usize) -> Vec<Command> {
        self.0.get(n).cloned().unwrap_or_default()
    }
}

/// Decodes a word of a script: `""` is empty, `\xNN` is a byte.
fn word(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match tail {
            [b'x', a, b, more @ ..] if *first == b'\\' => {
                let digits = [*a, *b];
                let digits = std::str::from_utf8(&digits).expect("valid UTF-8");
                bytes.push(u8::from_str_radix(digits, 16).expect("two digits"));
                more
            }
            _ => {
                bytes.push(*first);
                tail
            }
        };
    }
    if bytes == b"\"\"" { Vec::new() } else { bytes }
}

/// A server's log while it is written.
enum Log {
    /// Ours, in this file.
    Effects(std::path::PathBuf),
    /// The reference's AOF, from this byte on.
    Aof(std::path::PathBuf, usize),
}

impl Log {
    fn begin(server: &Server, client: &mut Client) -> Log {
        if server.name() == "weft" {
            let path = server.dir().join("effects");
            client.ok(&["DEBUG", "EFFECTS", path.to_str().expect("a path of the test")]);
            return Log::Effects(path);
        }
        let folder =
            std::fs::read_dir(server.dir().join("appendonlydir")).expect("the AOF folder exists");
        let mut files = folder.map(|entry| entry.expect("the entry exists").path());
        let is_last = |path: &std::path::PathBuf| path.to_string_lossy().ends_with(".incr.aof");
        let path = files.find(is_last).expect("a file of increments");
        let from = std::fs::read(&path).expect("the file exists").len();
        Log::Aof(path, from)
    }

    fn end(self, client: &mut Client) -> Vec<Command> {
        match self {
            Log::Effects(path) => {
                client.ok(&["DEBUG", "EFFECTS"]);
                parse(&std::fs::read(path).expect("the log file"))
            }
            Log::Aof(path, from) => parse(&std::fs::read(path).expect("the log file")[from..]),
        }
    }
}

/// Parses the commands of a file, in RESP.
///
/// # Panics
/// If the file is cut off or has other content.
pub fn parse(bytes: &[u8]) -> Vec<Command> {
    let mut rest = bytes;
    let header = |kind: u8, rest: &mut &[u8]| -> usize {
        let end = rest.iter().position(|b| *b == b'\r').expect("a header ends");
        assert_eq!(rest[0], kind);
        let number = std::str::from_utf8(&rest[1..end]).expect("digits");
        *rest = &rest[end + 2..];
        number.parse().expect("a number")
    };
    let mut commands = Vec::new();
    while !rest.is_empty() {
        let count = header(b'*', &mut rest);
        commands.push(
            (0..count)
                .map(|_| {
                    let len = header(b'$', &mut rest);
                    let word = rest[..len].to_vec();
                    rest = &rest[len + 2..];
                    word
                })
                .collect(),
        );
    }
    commands
}

/// Splits a log into the entries of each request, without SELECT.
fn cut(log: Vec<Command>) -> Vec<Vec<Command>> {
    let mut requests = vec![Vec::new()];
    for command in log {
        let marks = command.len() == 3 && command[1] == MARKER.as_bytes();
        match requests.last_mut() {
            _ if marks => requests.push(Vec::new()),
            Some(_) if command[0] == b"SELECT" => {}
            Some(last) => last.push(command),
            None => unreachable!("the list is never empty"),
        }
    }
    requests
}

/// A command as text.
pub fn words(command: &Command) -> String {
    let words: Vec<_> = command.iter().map(|word| String::from_utf8_lossy(word)).collect();
    words.join(" ")
}

/// Commands as text.
pub fn shown(commands: &[Command]) -> String {
    commands.iter().map(words).collect::<Vec<_>>().join(" | ")
}

/// Whether the commands, without MULTI, begin with `start`.
pub fn is_like(commands: &[Command], start: &str) -> bool {
    let shown = shown(commands);
    shown.strip_prefix("MULTI | ").unwrap_or(&shown).starts_with(start)
}

/// Largest accepted difference between times of the two servers, in milliseconds.
const APART_MS: i64 = 120_000;

/// Whether two logs of a request are equal, except for times, which each server takes itself, and
/// for the order of fields that expire together.
pub fn same(ours: &[Command], theirs: &[Command]) -> bool {
    let sorted = |command: &Command| -> Command {
        let mut command = command.clone();
        if command[0] == b"HDEL" {
            command[2..].sort();
        }
        command
    };
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|(our, their)| {
            let (our, their) = (sorted(our), sorted(their));
            our.len() == their.len()
                && our.iter().zip(&their).all(|(a, b)| a == b || same_time(a, b))
        })
}

/// Whether two words are times, or ids made of times, that are close to each other.
fn same_time(a: &[u8], b: &[u8]) -> bool {
    let time = |word: &[u8]| -> Option<(i64, String)> {
        let text = std::str::from_utf8(word).ok()?;
        let (ms, rest) = text.split_once('-').unwrap_or((text, ""));
        let ms = ms.parse().ok().filter(|ms: &i64| *ms > 1_700_000_000_000)?;
        Some((ms, rest.to_string()))
    };
    match (time(a), time(b)) {
        (Some((a, a_rest)), Some((b, b_rest))) => {
            a.abs_diff(b) < APART_MS as u64 && a_rest == b_rest
        }
        _ => false,
    }
}

/// Runs random commands of these groups over one connection.
pub fn play(server: &Server, groups: &[(Group, u32)], seed: u64, steps: usize) {
    let target = Target { name: server.name().to_string(), port: server.port() };
    let mut session = session::Session::open(&target).expect("the server is up");
    let mut deck = Deck::new(groups);
    // Excluded are commands that change the configuration, which changes encodings, and
    // INCRBYFLOAT: its result is logged as SET, which may store an integer, like in the reference.
    let left_out = |name: String| {
        ["DEBUG", "CONFIG", "MIGRATE", "INCRBYFLOAT"]
            .iter()
            .any(|of| name.split('|').next() == Some(*of))
    };
    deck.retain(|rule| !rule.names().any(left_out));
    let mut rng = Rng::new(seed);
    for _ in 0..steps {
        let Step(actions) = deck.draw(&mut rng);
        let (mut requests, mut answered) = (Vec::new(), 0);
        for action in actions {
            match action {
                Action::Send(command) => {
                    encode_into(&command.args, &mut requests);
                    answered += usize::from(command.answered);
                }
                Action::Sync | Action::Sleep => {
                    session.exchange(&requests, answered);
                    (requests, answered) = (Vec::new(), 0);
                    std::thread::sleep(Duration::from_millis(2));
                }
                Action::Closes => {}
            }
        }
        let (_, failure) = session.exchange(&requests, answered);
        if let Some(what) = failure {
            // The effects of other clients are unknown here, so there may be fewer replies.
            println!("{what}");
            session.reopen().expect("the server is up");
        }
    }
}

/// Blocks repeatedly on keys that others create, and pushes some elements.
pub fn wait_for_elements(mut client: Client, n: u64, ended: &AtomicBool) {
    let mut rng = Rng::new(n + 1000);
    while !ended.load(Ordering::Relaxed) {
        let key = format!("w{}", rng.below(3));
        let other = format!("w{}", rng.below(3));
        let words: Vec<&str> = match rng.below(8) {
            0 => vec!["BLPOP", &key, &other, "0.02"],
            1 => vec!["BLMOVE", &key, &other, "LEFT", "RIGHT", "0.02"],
            2 => vec!["BLMPOP", "0.02", "2", &key, &other, "RIGHT", "COUNT", "2"],
            3 => vec!["BRPOPLPUSH", &key, &other, "0.02"],
            4 => vec!["SET", &key, "v", "PX", "1"],
            5 => vec!["DEL", &key],
            _ => vec!["RPUSH", &key, "a", "b"],
        };
        client.cmd(&words);
    }
}

/// Replays the commands of a log, without any expiry meanwhile.
///
/// # Panics
/// If a command fails.
pub fn replay(copy: &Server, log: &[Command]) {
    let mut client = copy.client();
    client.ok(&["CONFIG", "SET", "import-mode", "yes"]);
    client.ok(&["CLIENT", "IMPORT-SOURCE", "ON"]);
    for (n, some) in log.chunks(1000).enumerate() {
        let replies = client.pipeline(some).expect("the server is up");
        for (at, (command, reply)) in some.iter().zip(replies).enumerate() {
            let failed = match &reply.value {
                Value::Error(_) | Value::BulkError(_) => true,
                Value::Array(items) => items.iter().any(|item| matches!(item, Value::Error(_))),
                _ => false,
            };
            assert!(
                !failed,
                "{}: {:?}, after\n{}",
                words(command),
                reply.value,
                before(&log[..1000 * n + at], command)
            );
        }
    }
    client.ok(&["CONFIG", "SET", "import-mode", "no"]);
}

/// The last commands of `log` that share a word with `command`.
fn before(log: &[Command], command: &Command) -> String {
    let is_like = |other: &Command| {
        let all = matches!(
            &other[0][..],
            b"SELECT" | b"FLUSHALL" | b"FLUSHDB" | b"SWAPDB" | b"MULTI" | b"EXEC"
        );
        all || other[1..].iter().any(|word| command[1..].contains(word))
    };
    let like: Vec<String> = log.iter().filter(|other| is_like(other)).map(words).collect();
    like[like.len().saturating_sub(60)..].join("\n")
}

/// Compares all data of two servers.
///
/// # Panics
/// If they differ permanently.
pub fn assert_same_content(server: &Server, copy: &Server, seed: u64) {
    let open = |server: &Server, name: &str| {
        let target = Target { name: name.to_string(), port: server.port() };
        session::Session::open(&target).expect("the server is up")
    };
    let (mut left, mut right) = (open(server, "original"), open(copy, "copy"));
    let mut difference = None;
    // A key may expire between the reads of the two servers.
    for _ in 0..10 {
        difference = keyspace::compare(&mut left, &mut right).expect("both are up");
        if difference.is_none() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("seed {seed}: {}", difference.unwrap_or_default());
}
