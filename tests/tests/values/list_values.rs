//! Long lists with elements of all sizes: their content, their memory, and which thread frees it.
//!
//! The memory figures are those of Valkey 9.1.2 for the same commands, adjusted for the different
//! allocator. Set `WEFT_SERVER` to its path to print them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};
use weft_testkit::{Client, Server};

/// A number from INFO.
fn info(client: &mut Client, field: &str) -> u64 {
    let info = client.cmd(&["INFO", "everything"]).text();
    let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|n| n.trim().parse().ok()).unwrap_or_else(|| panic!("no {field} in INFO"))
}

/// Waits until `figure` is at most `most`, because memory is freed in the background. Returns the
/// last value.
fn wait_for_at_most(most: u64, mut figure: impl FnMut() -> u64) -> u64 {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let now = figure();
        if now <= most || Instant::now() > end {
            return now;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The bytes in use after `change`, less those before. Waits until they are at most `most`.
fn bytes_left(most: u64, change: impl FnOnce(&mut Client)) -> u64 {
    let server = Server::weft(&[]);
    let mut client = server.client();
    client.ok(&["SET", "warm", "up"]);
    let before = info(&mut client, "used_memory");
    change(&mut client);
    wait_for_at_most(most, || info(&mut client, "used_memory").saturating_sub(before))
}

fn push(client: &mut Client, key: &str, elements: &[String]) {
    for part in elements.chunks(1000) {
        let mut words = vec!["RPUSH".to_string(), key.to_string()];
        words.extend_from_slice(part);
        client.cmd(&words);
    }
}

#[test]
fn lset_of_short_elements_frees_memory() {
    const MOST: u64 = 330_000;
    let bytes_left = bytes_left(MOST, |client| {
        push(client, "l", &vec!["v".repeat(1000); 10_000]);
        let batch: Vec<Vec<String>> = (0..10_000)
            .map(|n| vec!["LSET".into(), "l".into(), n.to_string(), "1".into()])
            .collect();
        batch.chunks(500).for_each(|part| drop(client.pipeline(part).expect("answers")));
    });
    // Valkey: 196,000. Before chunks were shrunk: 10.3 million.
    assert!(bytes_left <= MOST, "{bytes_left} bytes for 10,000 elements of one byte");
}

#[test]
fn lrem_frees_memory() {
    const MOST: u64 = 330_000;
    let bytes_left = bytes_left(MOST, |client| {
        let elements: Vec<String> = (0..1_000_000)
            .map(|n| if n % 500 == 0 { format!("keep{}", n / 500) } else { "xxxxxxx".into() })
            .collect();
        push(client, "l", &elements);
        assert_eq!(client.cmd(&["LREM", "l", "0", "xxxxxxx"]).int(), 998_000);
    });
    // Valkey: 187,000. Before: 9.2 million.
    assert!(bytes_left <= MOST, "{bytes_left} bytes for 2,000 short elements");
}

#[test]
fn ltrim_frees_memory() {
    const MOST: u64 = 6_500_000;
    let elements: Vec<String> = (0..1000).map(|n| format!("element:{n:06}")).collect();
    let bytes_left = bytes_left(MOST, |client| {
        for n in 0..1000 {
            let key = format!("l{n}");
            push(client, &key, &elements);
            client.ok(&["LTRIM", &key, "350", "649"]);
        }
    });
    // Valkey: 5.9 million. Before: 16.7 million, the same as without LTRIM.
    assert!(bytes_left <= MOST, "{bytes_left} bytes for 1,000 lists of 300 elements");
}

/// Elements that LTRIM, LREM and LPOP remove from a long list are freed by the background thread,
/// after the list's shard is unlocked.
#[test]
fn removed_elements_are_freed_in_the_background() {
    let server = Server::weft(&[]);
    let mut client = server.client();
    let elements: Vec<String> = (0..3000).map(|n| format!("{:0>1000}", n / 1500)).collect();
    for change in [
        &["LTRIM", "l", "1400", "1500"][..],
        &["LREM", "l", "0", &elements[0]],
        &["LPOP", "l", "1500"],
    ] {
        client.cmd(&["DEL", "l"]);
        push(&mut client, "l", &elements);
        wait_for_at_most(0, || info(&mut client, "lazyfree_pending_objects"));
        let before = info(&mut client, "lazyfreed_objects");
        client.cmd(change);
        let more =
            wait_for_at_most(0, || u64::from(info(&mut client, "lazyfreed_objects") == before));
        assert_eq!(more, 0, "{} freed nothing in the background", change[0]);
    }
}

/// Elements from one byte to 100 KB are set, inserted, pushed and removed. The list always equals a
/// model in the test's memory, compressed or not.
#[test]
fn elements_of_every_size_keep_their_positions() {
    let server = Server::weft(&[]);
    let mut client = server.client();
    for (size, depth) in [("-2", "0"), ("-1", "1"), ("100", "0"), ("5", "2")] {
        client.ok(&["CONFIG", "SET", "list-max-listpack-size", size]);
        client.ok(&["CONFIG", "SET", "list-compress-depth", depth]);
        client.cmd(&["DEL", "l"]);
        let mut model: VecDeque<String> = (0..300).map(|n| format!("element {n}")).collect();
        push(&mut client, "l", model.make_contiguous());
        for n in 0..600usize {
            let text = char::from(b'a' + (n % 26) as u8).to_string();
            let text = text.repeat([1, 3000, 100_000, 1, 8190, 40][n % 6]);
            let at = n * 37 % model.len();
            match n % 5 {
                0 | 1 => {
                    client.ok(&["LSET", "l", &at.to_string(), &text]);
                    model[at] = text;
                }
                2 => {
                    let pivot = model[at].clone();
                    let at = model.iter().position(|t| *t == pivot).expect("the pivot exists");
                    client.cmd(&["LINSERT", "l", "AFTER", &pivot, &text]);
                    model.insert(at + 1, text);
                }
                3 => {
                    client.cmd(&["LPUSH", "l", &text]);
                    model.push_front(text);
                    let last = model.pop_back();
                    assert_eq!(Some(client.cmd(&["RPOP", "l"]).text()), last);
                }
                _ => {
                    let gone = model[at].clone();
                    let removed = model.iter().filter(|t| **t == gone).count();
                    model.retain(|t| *t != gone);
                    assert_eq!(client.cmd(&["LREM", "l", "0", &gone]).int(), removed as i64);
                }
            }
            let at = n * 53 % model.len();
            assert_eq!(client.cmd(&["LINDEX", "l", &at.to_string()]).text(), model[at]);
        }
        let all = client.cmd(&["LRANGE", "l", "0", "-1"]);
        let all: Vec<String> = all.items().iter().map(|item| item.text()).collect();
        assert!(all.iter().eq(model.iter()), "list-max-listpack-size {size}");
    }
}
