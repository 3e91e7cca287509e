//! Commands that wait for another command do not block the slow lane for others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_testkit::Server;
use weft_tests::scene::{LongCommand, client, reply, reply_within, send};

const FOUR: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

/// Sets the flag on drop, so that the other threads end even when a test fails early.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A long command runs. A second client sends a command on all keys, which may have to wait for it.
/// A third client sends a command on an unrelated key, which is too long for an I/O thread but must
/// not wait.
#[test]
fn command_waiting_for_a_long_command_does_not_block_the_slow_lane() {
    let server = Server::weft(&FOUR);
    let long = LongCommand::with_tag(&server, "t");
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
        assert!(over.is_none(), "SORT was answered only after the long command, for {asked:?}");
        assert_eq!(reply(&mut runner).int(), 20_000);
        assert_eq!(reply(&mut asker).error(), None);
    }
}

/// Clients count all keys repeatedly while another client lists them.
#[test]
fn counting_keys_during_keys_does_not_block_the_slow_lane() {
    let args = [&FOUR[..], &["--enable-debug-command", "yes"]].concat();
    let server = Server::weft(&args);
    let (mut lister, mut other) = (client(&server), client(&server));
    other.ok(&["DEBUG", "POPULATE", "2000000"]);
    let values: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
    let push = ["RPUSH", "{l}list"].into_iter().chain(values.iter().map(|v| &v[..]));
    other.cmd(&push.collect::<Vec<_>>());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&done);
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
        assert!(over.is_none(), "SORT was answered only after KEYS");
        assert_eq!(reply(&mut lister).items().len(), 0);
    });
}
