//! What several of the black-box tests share; the tests are in `tests/`, by feature.
//!
//! They talk to a server over sockets like any client, so the same tests run against a
//! reference by setting `WEFT_SERVER` to its binary, which shows whether a test asks for
//! what the reference does. [`scene`] sets up what several of them begin with, [`contents`] are values
//! of all kinds, [`persistence`] waits for saves and rewrites, [`instance`] is a server that others know by its
//! address, [`replicas`] has those that follow, [`replication`] primaries and replicas, [`traffic`] is what
//! clients write.

use std::env;
use std::str::FromStr;

pub mod contents;
pub mod instance;
pub mod persistence;
pub mod replicas;
pub mod replication;
pub mod scene;
pub mod traffic;

use weft_testkit::{Client, Value};

/// The value of an environment variable, or `default` where it is not set.
///
/// # Panics
/// When it is set to something else than a `T`: a typo must not silently run the default.
pub fn env_or<T: FromStr>(name: &str, default: T) -> T {
    match env::var(name) {
        Err(_) => default,
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not understood")),
    }
}

/// What the server says about its databases must be consistent when nobody disturbs it.
///
/// # Panics
/// When KEYS, SCAN and EXISTS disagree.
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
