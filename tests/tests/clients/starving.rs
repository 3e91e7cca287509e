//! Everybody gets their turn: what needs the slow lane while somebody there waits for another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_testkit::Server;
use weft_tests::scene::{Long, client, reply, reply_within, send};

const FOUR: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

/// Tells the others that it is over, also when a test fails before its end.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A long command runs; somebody asks for something of all keys, which may have to wait for it;
/// somebody else for something of another key, which is too much for an I/O thread, but has
/// nothing to do with the others.
#[test]
fn what_waits_for_a_long_command_does_not_keep_the_slow_lane_from_others() {
    let server = Server::weft(&FOUR);
    let long = Long::with_tag(&server, "t");
    let mut other = client(&server);
    let values: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
    let push = ["RPUSH", "{l}list"].into_iter().chain(values.iter().map(|v| &v[..]));
    other.cmd(&push.collect::<Vec<_>>());
    for asked in [&["KEYS", "none"][..], &["DBSIZE"], &["RANDOMKEY"]] {
        let mut runner = long.begin(&server, 2.0);
        let mut asker = client(&server);
        send(&mut asker, asked);
        std::thread::sleep(Duration::from_millis(20));
        let sorted = other.cmd(&["SORT", "{l}list", "LIMIT", "0", "1"]);
        assert_eq!(sorted.items()[0].text(), "0");
        let over = reply_within(&mut runner, Duration::from_millis(1));
        assert!(over.is_none(), "SORT was answered behind the long command, for {asked:?}");
        assert_eq!(reply(&mut runner).int(), 20_000);
        assert_eq!(reply(&mut asker).error(), None);
    }
}

/// Counting all keys over and over while somebody lists them.
#[test]
fn counting_keys_while_they_are_listed_does_not_keep_the_slow_lane_from_others() {
    let args = [&FOUR[..], &["--enable-debug-command", "yes"]].concat();
    let server = Server::weft(&args);
    let (mut lister, mut other) = (client(&server), client(&server));
    other.ok(&["DEBUG", "POPULATE", "2000000"]);
    let values: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
    let push = ["RPUSH", "{l}list"].into_iter().chain(values.iter().map(|v| &v[..]));
    other.cmd(&push.collect::<Vec<_>>());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = End(&done);
        for _ in 0..3 {
            let (mut counter, done) = (client(&server), &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    counter.cmd(&["DBSIZE"]).int();
                }
            });
        }
        send(&mut lister, &["KEYS", "none"]);
        std::thread::sleep(Duration::from_millis(20));
        other.cmd(&["SORT", "{l}list", "LIMIT", "0", "1"]);
        let over = reply_within(&mut lister, Duration::from_millis(1));
        assert!(over.is_none(), "SORT was answered behind KEYS");
        assert_eq!(reply(&mut lister).items().len(), 0);
    });
}
