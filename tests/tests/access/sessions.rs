//! Clients of restricted users get the replies of the reference, byte for byte.

use crate::transcripts::ALL;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::thread;
use weft_testkit::{Client, Server, Value, skip_without};
use weft_tests::scene::{client, info, send};

/// Plays a transcript. Returns a line for each step: the request and its reply.
fn play(server: &Server, lines: &[&str], version: u8) -> Vec<String> {
    let mut clients: BTreeMap<&str, Client> = BTreeMap::new();
    let mut played = Vec::new();
    for line in lines {
        let (name, request) = line.split_once(' ').expect("a name and a request");
        let client = clients.entry(name).or_insert_with(|| {
            let mut client = client(server);
            // Without a reply to compare: a stranger gets an error.
            client.hello(version);
            client
        });
        let words: Vec<String> = request.split(' ').map(|word| word.replace('_', " ")).collect();
        let answer = match words[0].as_str() {
            "send" => {
                send(client, &words[1..]);
                String::new()
            }
            "quiet" => {
                send(client, &words[1..]);
                next_frame(client);
                String::new()
            }
            "read" => next_frame(client),
            "log" => log(client),
            "denied" => denied(client),
            "blocked" => wait_for_blocked(client, words[1].parse().expect("a number")),
            _ => {
                send(client, &words);
                next_frame(client)
            }
        };
        played.push(format!("{line}\n    {answer}"));
    }
    played
}

fn next_frame(client: &mut Client) -> String {
    match client.read_frame() {
        Ok(reply) => {
            String::from_utf8_lossy(&reply.raw).replace("Weft", "Valkey").replace("\r\n", " ")
        }
        Err(e)
            if matches!(
                e.kind(),
                std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset
            ) =>
        {
            "(closed)".into()
        }
        Err(e) => format!("({e})"),
    }
}

/// ACL LOG, without ids, times and what the two servers show differently of a client.
fn log(client: &mut Client) -> String {
    let entries = client.cmd(&["ACL", "LOG", "100"]);
    let mut text = String::new();
    for entry in entries.items() {
        let field = |name: &str| entry.field(name).map_or(String::new(), Value::text_or_number);
        let info = field("client-info");
        let of_client = |name: &str| {
            let word = info.split(' ').find_map(|word| word.strip_prefix(name));
            word.unwrap_or("(missing)").to_string()
        };
        let _ = write!(
            text,
            "\n    {} {} {} {} {} flags={} cmd={} user={}",
            field("count"),
            field("reason"),
            field("context"),
            field("object"),
            field("username"),
            of_client("flags="),
            of_client("cmd="),
            of_client("user="),
        );
    }
    text
}

fn denied(client: &mut Client) -> String {
    let counters = ["auth", "cmd", "key", "channel", "db"];
    let counter =
        |what: &str| format!("{what}:{}", info(client, &format!("acl_access_denied_{what}")));
    counters.map(counter).join(" ")
}

fn wait_for_blocked(client: &mut Client, clients: u64) -> String {
    while info(client, "blocked_clients") != clients {
        thread::yield_now();
    }
    String::new()
}

/// Numbers as text.
trait TextOrNumber {
    fn text_or_number(&self) -> String;
}

impl TextOrNumber for Value {
    fn text_or_number(&self) -> String {
        match self {
            Value::Integer(n) => n.to_string(),
            other => other.text(),
        }
    }
}

fn compare(test: &str, weft: &[&str], version: u8) {
    for (name, lines) in ALL {
        let reference = Server::valkey(&[]);
        if skip_without(test, &reference, "valkey-server") {
            return;
        }
        let theirs = play(&reference.expect("not skipped"), lines, version);
        let ours = play(&Server::weft(weft), lines, version);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{name}, RESP{version}");
        }
    }
}

#[test]
fn restricted_users_get_the_replies_of_the_reference() {
    let test = "restricted_users_get_the_replies_of_the_reference";
    compare(test, &["--io-threads", "1"], 2);
}

#[test]
fn restricted_users_get_the_replies_of_the_reference_on_several_threads() {
    let test = "restricted_users_get_the_replies_of_the_reference_on_several_threads";
    compare(test, &["--io-threads", "4", "--io-threads-always-active", "yes"], 3);
}
