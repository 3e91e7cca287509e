//! Differential tests: our number and pattern code against a running Valkey server.
//!
//! The unit tests check recorded replies; these send tens of thousands of random inputs to a Valkey server, if there is
//! one in `PEERS_BIN` or on `PATH`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use weft_base::long_double::add_and_format_long_double;
use weft_base::rng::Rng;
use weft_base::{glob, num, num_format, slot};
use weft_testkit::server::Server;
use weft_testkit::skipped;

/// The number of random inputs of each test. `assert` prints the seed on failure.
const ROUNDS: usize = 60_000;

/// Requests in flight at once.
const BATCH: usize = 200;

struct Reference {
    _server: Server,
    writer: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Reference {
    /// Starts a server; `None`, and a note, if there is none.
    fn start() -> Option<Self> {
        let Some(server) = Server::valkey(&[]) else {
            skipped::note_here("no valkey-server in PEERS_BIN or PATH");
            return None;
        };
        let writer = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
        let reader = BufReader::new(writer.try_clone().unwrap());
        Some(Self { _server: server, writer, reader })
    }

    /// Sends all commands, then reads all replies.
    fn ask(&mut self, commands: &[Vec<&[u8]>]) -> Vec<Reply> {
        let mut request = Vec::new();
        for arguments in commands {
            write!(request, "*{}\r\n", arguments.len()).unwrap();
            for argument in arguments {
                write!(request, "${}\r\n", argument.len()).unwrap();
                request.extend_from_slice(argument);
                request.extend_from_slice(b"\r\n");
            }
        }
        self.writer.write_all(&request).unwrap();
        commands.iter().map(|_| self.read_reply()).collect()
    }

    fn read_reply(&mut self) -> Reply {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).unwrap();
        let line = line.strip_suffix(b"\r\n").expect("a whole line");
        let (kind, rest) = line.split_first().expect("not empty");
        let number = || std::str::from_utf8(rest).unwrap().parse::<i64>().unwrap();
        match kind {
            b'+' | b':' => Reply::Text(rest.to_vec()),
            b'-' => Reply::Error(String::from_utf8_lossy(rest).into_owned()),
            b'$' if number() < 0 => Reply::Array(Vec::new()),
            b'$' => {
                let mut text = vec![0; number() as usize + 2];
                self.reader.read_exact(&mut text).unwrap();
                text.truncate(text.len() - 2);
                Reply::Text(text)
            }
            b'*' => Reply::Array((0..number()).map(|_| self.read_reply()).collect()),
            other => panic!("unexpected reply type {other}"),
        }
    }
}

#[derive(Debug, PartialEq)]
enum Reply {
    Text(Vec<u8>),
    Error(String),
    Array(Vec<Reply>),
}

fn pick<'a>(rng: &mut Rng, from: &'a [u8]) -> &'a u8 {
    &from[rng.below(from.len() as u64) as usize]
}

/// Texts similar to numbers, from ordinary to invalid, including many extremes.
fn float_text(rng: &mut Rng) -> Vec<u8> {
    let digits = |rng: &mut Rng, most: u64| -> String {
        let count = 1 + rng.below(most);
        (0..count).map(|_| *pick(rng, b"0123456789009") as char).collect()
    };
    let sign = ["", "", "-", "+"][rng.below(4) as usize];
    let text = match rng.below(12) {
        0..=2 => format!("{sign}{}.{}", digits(rng, 6), digits(rng, 6)),
        3 => format!("{sign}{}", digits(rng, 30)),
        4 => format!("{sign}{}.{}", digits(rng, 22), digits(rng, 22)),
        5 => format!("{sign}{}.{}e{}", digits(rng, 3), digits(rng, 20), rng.below(60) as i64 - 30),
        6 => format!("{sign}{}e{}", digits(rng, 25), rng.below(10_200) as i64 - 5_100),
        7 => format!(
            "{sign}0x{:x}.{:x}p{}",
            rng.next_u64() >> rng.below(64),
            rng.next_u64() >> rng.below(64),
            rng.below(140) as i64 - 70
        ),
        8 => format!("{sign}0x{:x}p{}", rng.next_u64(), rng.below(33_200) as i64 - 16_600),
        9 => format!("{}", rng.next_u64() as i64 >> rng.below(64)),
        10 => [
            "inf", "nan", "Infinity", "1e", ".", "0x", "-.5", "5.", " 1", "1 ", "0x.p1", "1e-4951",
            "9e4931",
        ][rng.below(13) as usize]
            .to_owned(),
        _ => {
            (0..1 + rng.below(8)).map(|_| *pick(rng, b"0123456789.-+eExXpP inf") as char).collect()
        }
    };
    text.into_bytes()
}

#[test]
fn incrbyfloat_agrees() {
    let Some(mut reference) = Reference::start() else { return };
    let mut rng = Rng::new(11);
    for _ in 0..ROUNDS / BATCH {
        let pairs: Vec<_> =
            (0..BATCH).map(|_| (float_text(&mut rng), float_text(&mut rng))).collect();
        let commands: Vec<Vec<&[u8]>> = pairs
            .iter()
            .flat_map(|(a, b)| [vec![&b"SET"[..], b"f", a], vec![b"INCRBYFLOAT", b"f", b]])
            .collect();
        for (theirs, (a, b)) in reference.ask(&commands).chunks(2).zip(&pairs) {
            let ours = match add_and_format_long_double(a, b) {
                Ok(text) => Reply::Text(text),
                Err(error) => Reply::Error(format!("ERR {error}")),
            };
            assert_eq!(ours, theirs[1], "{} + {}", a.escape_ascii(), b.escape_ascii());
        }
    }
}

#[test]
fn scores_agree() {
    let Some(mut reference) = Reference::start() else { return };
    let mut rng = Rng::new(12);
    for _ in 0..3 * ROUNDS / BATCH {
        let texts: Vec<_> = (0..BATCH)
            .map(|_| match rng.below(4) {
                0 => float_text(&mut rng),
                1 => format!("{:e}", f64::from_bits(rng.next_u64())).into_bytes(),
                2 => format!("{}", rng.next_f64() * 10f64.powi(rng.below(40) as i32 - 15))
                    .into_bytes(),
                _ => format!("{}e{}", rng.below(100_000), rng.below(60) as i32 - 30).into_bytes(),
            })
            .collect();
        let commands: Vec<Vec<&[u8]>> = texts
            .iter()
            .flat_map(|text| {
                [
                    vec![&b"DEL"[..], b"z"],
                    vec![b"ZADD", b"z", text, b"m"],
                    vec![b"ZSCORE", b"z", b"m"],
                ]
            })
            .collect();
        for (theirs, text) in reference.ask(&commands).chunks(3).zip(&texts) {
            let shown = text.escape_ascii();
            match (num::parse_f64(text), &theirs[1]) {
                // A small sorted set stores zero as an integer, without its sign.
                (Some(0.0), Reply::Text(_)) => {}
                (Some(value), Reply::Text(_)) => {
                    assert_eq!(Reply::Text(num_format::fmt_f64(value)), theirs[2], "{shown}");
                }
                (None, Reply::Error(_)) => {}
                (ours, theirs) => panic!("{shown}: {ours:?} but {theirs:?}"),
            }
        }
    }
}

#[test]
fn integers_agree() {
    let Some(mut reference) = Reference::start() else { return };
    let mut rng = Rng::new(13);
    for _ in 0..ROUNDS / BATCH {
        let texts: Vec<Vec<u8>> = (0..BATCH)
            .map(|_| match rng.below(3) {
                0 => (0..rng.below(6)).map(|_| *pick(&mut rng, b"0123456789-+ \0x")).collect(),
                1 => ((i64::MAX as i128 - 50) + rng.below(100) as i128).to_string().into_bytes(),
                _ => ((i64::MIN as i128 - 50) + rng.below(100) as i128).to_string().into_bytes(),
            })
            .collect();
        let commands: Vec<Vec<&[u8]>> = texts
            .iter()
            .flat_map(|text| [vec![&b"SET"[..], b"i", text], vec![b"INCRBY", b"i", b"0"]])
            .collect();
        for (theirs, text) in reference.ask(&commands).chunks(2).zip(&texts) {
            let ours = match num::parse_i64(text) {
                Some(n) => Reply::Text(n.to_string().into_bytes()),
                None => Reply::Error("ERR value is not an integer or out of range".into()),
            };
            assert_eq!(ours, theirs[1], "{}", text.escape_ascii());
        }
    }
}

#[test]
fn patterns_agree() {
    let Some(mut reference) = Reference::start() else { return };
    let mut rng = Rng::new(14);
    let (alphabet, special) = (b"abAB-]\\^[\xff\x80", b"**?[[]]\\^-abAB\xff");
    for _ in 0..ROUNDS / BATCH {
        let texts: Vec<Vec<u8>> = (0..8)
            .map(|_| (0..rng.below(7)).map(|_| *pick(&mut rng, alphabet)).collect())
            .collect();
        let patterns: Vec<Vec<u8>> = (0..BATCH)
            .map(|_| (0..rng.below(9)).map(|_| *pick(&mut rng, special)).collect())
            .filter(|pattern: &Vec<u8>| pattern != b"*")
            .collect();
        let mut commands: Vec<Vec<&[u8]>> = vec![vec![b"FLUSHALL"]];
        commands.extend(texts.iter().map(|text| vec![&b"SET"[..], text, b""]));
        let setup = commands.len();
        commands.extend(patterns.iter().map(|pattern| vec![&b"KEYS"[..], pattern]));
        for (theirs, pattern) in reference.ask(&commands)[setup..].iter().zip(&patterns) {
            let Reply::Array(keys) = theirs else {
                panic!("{theirs:?}");
            };
            for text in &texts {
                let listed = keys.iter().any(|key| matches!(key, Reply::Text(t) if t == text));
                let ours = glob::matches(pattern, text, false);
                assert_eq!(ours, listed, "{} on {}", pattern.escape_ascii(), text.escape_ascii());
            }
        }
    }
}

/// The only command that matches names of our choice without case lists commands, so the texts are
/// limited to command names.
#[test]
fn patterns_without_case_agree() {
    let Some(mut reference) = Reference::start() else { return };
    let mut rng = Rng::new(15);
    let Reply::Array(all) = reference.ask(&[vec![b"COMMAND", b"LIST"]]).remove(0) else {
        panic!("COMMAND LIST gives an array");
    };
    for _ in 0..2_000 {
        let length = 2 + rng.below(7);
        let pattern: Vec<u8> =
            (0..length).map(|_| *pick(&mut rng, b"***?[]\\^-geGEtTsSaA")).collect();
        let command = vec![&b"COMMAND"[..], b"LIST", b"FILTERBY", b"PATTERN", &pattern];
        let Reply::Array(listed) = reference.ask(&[command]).remove(0) else {
            panic!("COMMAND LIST gives an array");
        };
        for name in &all {
            let Reply::Text(text) = name else {
                panic!("a name is a text");
            };
            let ours = glob::matches(&pattern, text, true);
            assert_eq!(
                ours,
                listed.contains(name),
                "{} on {}",
                pattern.escape_ascii(),
                text.escape_ascii()
            );
        }
    }
}

#[test]
fn the_limit_of_stars_agrees() {
    let Some(mut reference) = Reference::start() else { return };
    let text = "a".repeat(1_002).into_bytes();
    for (stars, tail) in [(999, ""), (1_000, ""), (1_001, ""), (1_000, "*"), (1_000, "a")] {
        let pattern = format!("{}{tail}", "*a".repeat(stars)).into_bytes();
        let commands = [vec![&b"FLUSHALL"[..]], vec![b"SET", &text, b""], vec![b"KEYS", &pattern]];
        let listed = reference.ask(&commands).pop() != Some(Reply::Array(Vec::new()));
        assert_eq!(glob::matches(&pattern, &text, false), listed, "{stars} {tail}");
    }
}

#[test]
fn slots_agree() {
    let Some(mut reference) = Reference::start() else { return };
    let mut rng = Rng::new(16);
    for _ in 0..ROUNDS / BATCH {
        let keys: Vec<Vec<u8>> = (0..BATCH)
            .map(|_| (0..rng.below(40)).map(|_| *pick(&mut rng, b"abcdefgh{}0123\xfb\0")).collect())
            .collect();
        let commands: Vec<Vec<&[u8]>> =
            keys.iter().map(|key| vec![&b"CLUSTER"[..], b"KEYSLOT", key]).collect();
        for (theirs, key) in reference.ask(&commands).iter().zip(&keys) {
            let ours = slot::key_slot(key).to_string().into_bytes();
            assert_eq!(&Reply::Text(ours), theirs, "{}", key.escape_ascii());
        }
    }
}

#[test]
fn halves_of_stream_ids_agree() {
    let Some(mut reference) = Reference::start() else { return };
    let mut rng = Rng::new(17);
    for _ in 0..ROUNDS / BATCH {
        let texts: Vec<Vec<u8>> = (0..BATCH)
            .map(|_| {
                (0..1 + rng.below(5)).map(|_| *pick(&mut rng, b"0123456789+ \t\x0b")).collect()
            })
            .collect();
        let ids: Vec<Vec<u8>> = texts.iter().map(|text| [text, &b"-1"[..]].concat()).collect();
        let commands: Vec<Vec<&[u8]>> = ids
            .iter()
            .flat_map(|id| [vec![&b"DEL"[..], b"s"], vec![b"XADD", b"s", id, b"f", b"v"]])
            .collect();
        for (theirs, text) in reference.ask(&commands).chunks(2).zip(&texts) {
            match (num::parse_u64_loose(text), &theirs[1]) {
                (Some(n), Reply::Text(id)) => assert_eq!(format!("{n}-1").as_bytes(), id),
                (None, Reply::Error(_)) => {}
                (ours, theirs) => panic!("{}: {ours:?} but {theirs:?}", text.escape_ascii()),
            }
        }
    }
}
