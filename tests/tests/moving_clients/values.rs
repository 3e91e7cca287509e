//! Clients with large values, transactions, and replies that are not read or not sent.

use crate::Run;
use weft_testkit::{Client, client};

/// More than the buffers of a socket hold.
const LARGE: usize = 3 << 20;
const MIDDLE: usize = 200 << 10;

/// Writes the values that clients read.
pub fn fill(run: &Run<'_>) {
    let mut client = run.client();
    client.ok(&[b"SET".as_slice(), b"large", &vec![b'x'; LARGE]]);
    // So many that LRANGE runs in the slow lane.
    let elements: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    for part in elements.chunks(1000) {
        let words: Vec<&str> =
            ["RPUSH", "long"].into_iter().chain(part.iter().map(String::as_str)).collect();
        client.cmd(&words);
    }
}

/// Transactions over two shards, with and without a change of a watched key.
pub fn transacts(run: &Run<'_>, nth: u64) {
    let (mut client, mut other) = (run.client(), run.client());
    let mut rng = run.rng(nth);
    let (a, b) = (format!("a:{nth}"), format!("b:{nth}"));
    let mut n = 0;
    while run.should_continue() {
        let breaks = rng.below(4) == 0;
        run.cmd(&mut client, &["WATCH", "shared-watch", &a]);
        if breaks {
            run.cmd(&mut other, &["APPEND", &a, ""]);
            run.cmd(&mut other, &["SET", &a, &n.to_string()]);
        }
        let mut bytes = client::encode(&["MULTI"]);
        client::encode_into(&["INCR", &a], &mut bytes);
        client::encode_into(&["INCR", &b], &mut bytes);
        client::encode_into(&["EXEC"], &mut bytes);
        let cut = rng.below(bytes.len());
        client.send_raw(&bytes[..cut]).unwrap_or_else(|e| run.fail("MULTI", &e));
        if rng.below(2) == 0 {
            run.cmd(&mut other, &["PING"]);
        }
        client.send_raw(&bytes[cut..]).unwrap_or_else(|e| run.fail("EXEC", &e));
        for what in ["MULTI", "INCR", "INCR"] {
            run.reply(&mut client, what);
        }
        let done = run.reply(&mut client, "EXEC");
        assert_eq!(done.is_null(), breaks, "{done}");
        if !breaks {
            n += 1;
            assert!(done.items().iter().all(|number| number.int() == n), "{done} is not {n}");
        }
    }
}

/// Reads large replies slowly, so that the server always has more to send.
pub fn reads_slowly(run: &Run<'_>, nth: u64) {
    let mut rng = run.rng(nth);
    let mut client = run.client();
    while run.should_continue() {
        let depth = 1 + rng.below(4);
        let mut bytes = client::encode(&["GET", "large"]).repeat(depth);
        client::encode_into(&["ECHO", "end"], &mut bytes);
        client.send_raw(&bytes).unwrap_or_else(|e| run.fail("GET", &e));
        for _ in 0..depth {
            let value = run.reply(&mut client, "a large value");
            assert_eq!(value.bytes().map(<[u8]>::len), Some(LARGE));
            std::thread::sleep(std::time::Duration::from_millis(rng.below(20) as u64));
        }
        assert_eq!(run.reply(&mut client, "ECHO after large values").text(), "end");
    }
}

/// Sends values in pieces, between which the connection may move, and reads them back.
pub fn writes_in_pieces(run: &Run<'_>, nth: u64) {
    let mut rng = run.rng(nth);
    let mut client = run.client();
    let key = format!("pieces:{nth}");
    let mut round = 0_u8;
    while run.should_continue() {
        round = round.wrapping_add(1);
        let value = vec![round; 1 + rng.below(MIDDLE)];
        let bytes = client::encode(&[b"SET".as_slice(), key.as_bytes(), &value]);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(1 + rng.below(rest.len()));
            client.send_raw(piece).unwrap_or_else(|e| run.fail("SET", &e));
            rest = more;
            std::thread::yield_now();
        }
        assert!(run.reply(&mut client, "SET in pieces").is_ok());
        let got = run.cmd(&mut client, &["GET", &key]);
        assert!(got.bytes() == Some(&value[..]), "the value has changed");
    }
}

/// Makes the server drop replies.
pub fn skips_replies(run: &Run<'_>, nth: u64) {
    let mut rng = run.rng(nth);
    let mut client = run.client();
    let key = format!("skipped:{nth}");
    let mut n = 0;
    while run.should_continue() {
        let count = 1 + rng.below(100) as i64;
        let mut bytes = Vec::new();
        let is_off = rng.below(2) == 0;
        if is_off {
            client::encode_into(&["CLIENT", "REPLY", "OFF"], &mut bytes);
        }
        for _ in 0..count {
            if !is_off {
                client::encode_into(&["CLIENT", "REPLY", "SKIP"], &mut bytes);
            }
            client::encode_into(&["INCR", &key], &mut bytes);
        }
        if is_off {
            client::encode_into(&["CLIENT", "REPLY", "ON"], &mut bytes);
        }
        client::encode_into(&["INCR", &key], &mut bytes);
        send(run, &mut client, &bytes);
        if is_off {
            assert!(run.reply(&mut client, "CLIENT REPLY ON").is_ok());
        }
        n += count + 1;
        assert_eq!(run.reply(&mut client, "INCR after dropped replies").int(), n);
    }
}

fn send(run: &Run<'_>, client: &mut Client, bytes: &[u8]) {
    client.send_raw(bytes).unwrap_or_else(|e| run.fail("writing", &e));
}
