//! Helpers shared by the black-box tests. The tests themselves are in `tests/`, by feature.
//!
//! The tests talk to a server over sockets like any client. Set `WEFT_SERVER` to the binary of a
//! reference server to run the same tests against it: this shows whether a test expects what the
//! reference does.
//!
//! | module | content |
//! |---|---|
//! | [`scene`] | common setups: clients with timeouts, long commands, held shards |
//! | [`contents`] | values of all types |
//! | [`script_load`] | scripts that keep an invariant |
//! | [`persistence`] | waits for saves and rewrites |
//! | [`instance`] | a server that restarts on the same port |
//! | [`replicas`] | replicas of the server under test, real and scripted |
//! | [`replication`] | peers, and a scripted primary |
//! | [`watched`] | a server that serves metrics, and a client of HTTP |
//! | [`traffic`] | random writes as clients send them |

use std::env;
use std::str::FromStr;

pub mod contents;
pub mod instance;
pub mod persistence;
pub mod replicas;
pub mod replication;
pub mod scene;
pub mod script_load;
pub mod traffic;
pub mod watched;

use weft_testkit::{Client, Value};

/// The value of an environment variable, or `default` if it is not set.
///
/// # Panics
/// If it does not parse as a `T`: a typo must not silently run the default.
pub fn env_or<T: FromStr>(name: &str, default: T) -> T {
    match env::var(name) {
        Err(_) => default,
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} does not parse")),
    }
}

/// Checks that KEYS, SCAN and EXISTS agree in all databases. No other client may write meanwhile.
///
/// # Panics
/// If KEYS, SCAN and EXISTS disagree.
#[track_caller]
pub fn assert_consistent(client: &mut Client) {
    for db in 0..16 {
        client.ok(&["SELECT", &db.to_string()]);
        let keys = client.cmd(&["KEYS", "*"]);
        let mut listed: Vec<Vec<u8>> =
            keys.items().iter().map(|key| key.bytes().expect("a key").to_vec()).collect();
        let mut scanned = Vec::new();
        let mut cursor = "0".to_string();
        loop {
            let reply = client.cmd(&["SCAN", &cursor, "COUNT", "7"]);
            scanned.extend(
                reply.items()[1].items().iter().map(|key| key.bytes().expect("a key").to_vec()),
            );
            cursor = reply.items()[0].text();
            if cursor == "0" {
                break;
            }
        }
        listed.sort();
        scanned.sort();
        scanned.dedup();
        assert_eq!(listed, scanned, "KEYS and SCAN of db {db}");
        for key in &listed {
            assert_eq!(client.cmd(&[b"EXISTS", &key[..]]), Value::Integer(1));
        }
    }
}
