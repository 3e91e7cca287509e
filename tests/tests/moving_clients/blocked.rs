//! Clients that block on keys.

use crate::Run;
use std::time::{Duration, Instant};
use weft_testkit::client;

/// When to add another entry, because the client may have blocked too late for the last one.
const AGAIN: Duration = Duration::from_millis(20);

/// One client blocks on lists and another one pushes: each element is delivered in order. More
/// requests follow the blocking one.
pub fn pops(run: &Run<'_>, nth: u64) {
    let (mut waits, mut pushes) = (run.client(), run.client());
    let mut rng = run.rng(nth);
    let (list, other) = (format!("list:{nth}"), format!("other:{nth}"));
    let mut n = 0;
    while run.should_continue() {
        n += 1;
        let element = n.to_string();
        let pop = match rng.below(3) {
            0 => client::encode(&["BLPOP", &list, &other, "0"]),
            1 => client::encode(&["BLPOP", &other, &list, "0"]),
            _ => client::encode(&["BLMPOP", "0", "2", &other, &list, "LEFT"]),
        };
        let following = rng.below(40);
        let bytes = [pop, client::encode(&["ECHO", &element]).repeat(following)].concat();
        // The end of the last request may arrive while the client is blocked and its connection has
        // moved.
        let cut = bytes.len() - rng.below(10);
        waits.send_raw(&bytes[..cut]).unwrap_or_else(|e| run.fail("BLPOP", &e));
        if rng.below(2) == 0 {
            run.cmd(&mut pushes, &["PING"]);
        }
        let key = if rng.below(2) == 0 { &list } else { &other };
        match rng.below(3) {
            0 => assert_eq!(run.cmd(&mut pushes, &["RPUSH", key, &element]).int(), 1),
            1 => assert_eq!(run.cmd(&mut pushes, &["LPUSH", key, &element]).int(), 1),
            _ => {
                run.cmd(&mut pushes, &["MULTI"]);
                run.cmd(&mut pushes, &["RPUSH", key, &element]);
                assert_eq!(run.cmd(&mut pushes, &["EXEC"]).items().len(), 1);
            }
        }
        waits.send_raw(&bytes[cut..]).unwrap_or_else(|e| run.fail("ECHO", &e));
        let got = run.reply(&mut waits, "a pop");
        assert_eq!(got.items()[0].text(), *key);
        for _ in 0..following {
            assert_eq!(run.reply(&mut waits, "ECHO after a pop").text(), element);
        }
    }
}

/// A client blocks on entries of a stream, or until its timeout.
pub fn follows_a_stream(run: &Run<'_>, nth: u64) {
    let (mut waits, mut adds) = (run.client(), run.client());
    let mut rng = run.rng(nth);
    let stream = format!("stream:{nth}");
    while run.should_continue() {
        let time = if rng.below(3) == 0 { "1" } else { "0" };
        let read = client::encode(&["XREAD", "BLOCK", time, "STREAMS", &stream, "$"]);
        waits.send_raw(&read).unwrap_or_else(|e| run.fail("XREAD", &e));
        if time == "1" {
            assert!(run.reply(&mut waits, "the timeout of XREAD").is_null());
            continue;
        }
        // The client may not be blocked yet; then it gets the next entry.
        let since = Instant::now();
        waits.set_timeout(AGAIN);
        let entries = loop {
            run.cmd(&mut adds, &["XADD", &stream, "MAXLEN", "10", "*", "f", "v"]);
            match waits.read_reply() {
                Ok(reply) => break reply.value,
                Err(e) if since.elapsed() > run.deadline => run.fail("XREAD", &e),
                Err(_) => {}
            }
        };
        waits.set_timeout(run.deadline);
        assert_eq!(entries.items().len(), 1);
        run.count(1);
    }
}
