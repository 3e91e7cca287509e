//! Clients that get pushes for what other clients do.

use crate::Run;
use weft_testkit::{Client, Value, client};

/// One client subscribes and sends commands, another one publishes: each message arrives in order,
/// also among replies.
pub fn listens(run: &Run<'_>, nth: u64) {
    let (mut listens, mut publishes) = (run.client(), run.client());
    let mut rng = run.rng(nth);
    let is_new = nth.is_multiple_of(2);
    if is_new {
        listens.hello(3);
    }
    let channel = format!("channel:{nth}");
    listens.send_raw(&client::encode(&["SUBSCRIBE", &channel])).expect("sent");
    frame(run, &mut listens, "SUBSCRIBE");
    let mut n = 0_u64;
    while run.should_continue() {
        let count = 1 + rng.below(50);
        let pings = if is_new { rng.below(20) } else { 0 };
        let mut bytes = Vec::new();
        for i in 0..count {
            client::encode_into(&["PUBLISH", &channel, &(n + i as u64).to_string()], &mut bytes);
        }
        publishes.send_raw(&bytes).unwrap_or_else(|e| run.fail("PUBLISH", &e));
        listens
            .send_raw(&client::encode(&["INCR", &format!("heard:{nth}")]).repeat(pings))
            .unwrap_or_else(|e| run.fail("INCR", &e));
        for _ in 0..count {
            assert_eq!(run.reply(&mut publishes, "PUBLISH").int(), 1);
        }
        let (mut received, mut replies) = (0, 0);
        while received < count || replies < pings {
            let what = format!("{received} of {count} messages, {replies} of {pings} replies");
            match frame(run, &mut listens, &what) {
                Value::Integer(_) => replies += 1,
                message => {
                    assert_eq!(text(&message, 2), n.to_string(), "a message out of order");
                    (received, n) = (received + 1, n + 1);
                }
            }
        }
    }
}

fn frame(run: &Run<'_>, client: &mut Client, what: &str) -> Value {
    match client.read_frame() {
        Ok(frame) => {
            run.count(1);
            frame.value
        }
        Err(e) => run.fail(what, &e),
    }
}

fn text(message: &Value, at: usize) -> String {
    match message {
        Value::Push(items) => items[at].text(),
        other => other.items()[at].text(),
    }
}

/// One client tracks the key that it reads, another one changes it: each change sends an
/// invalidation.
pub fn keeps(run: &Run<'_>, nth: u64) {
    let (mut keeps, mut changes) = (run.client(), run.client());
    keeps.hello(3);
    keeps.ok(&["CLIENT", "TRACKING", "ON"]);
    let key = format!("kept:{nth}");
    while run.should_continue() {
        run.cmd(&mut keeps, &["GET", &key]);
        run.cmd(&mut changes, &["INCR", &key]);
        let push = frame(run, &mut keeps, "an invalidation");
        assert!(matches!(push, Value::Push(_)), "{push}");
    }
}

/// A client is a monitor for some lines, and then an ordinary client again.
pub fn monitors(run: &Run<'_>, nth: u64) {
    let mut rng = run.rng(nth);
    let mut client = run.client();
    while run.should_continue() {
        assert_eq!(run.cmd(&mut client, &["MONITOR"]).text(), "OK");
        // Other clients always send commands; during a pause at the end there may be no further
        // line.
        for _ in 0..rng.below(200) {
            if !run.should_continue() {
                break;
            }
            run.reply(&mut client, "a line of MONITOR");
        }
        client.send_raw(&client::encode(&["RESET"])).unwrap_or_else(|e| run.fail("RESET", &e));
        while run.reply(&mut client, "RESET").text() != "RESET" {}
        for n in 0..20 {
            let echo = n.to_string();
            assert_eq!(run.cmd(&mut client, &["ECHO", &echo]).text(), echo);
        }
    }
}
