//! Connections in unusual states: a busy client is not idle, a pause is answered when it takes
//! effect, and MONITOR shows all commands.

use std::time::Duration;
use weft_testkit::client::encode;
use weft_testkit::{Client, Server};
use weft_tests::scene::{
    HeldShard, client, on_both, reply, reply_within, send, send_all, until, until_blocked,
    until_in_slow_lane,
};

/// Longer than the idle timeout of one second that these servers have.
const IDLE: Duration = Duration::from_millis(2500);
const SECOND: [&str; 2] = ["--timeout", "1"];

/// Sleeps for `time` and keeps `client` active.
fn sleep_with_activity(time: Duration, client: &mut Client) {
    const STEP: Duration = Duration::from_millis(100);
    for _ in 0..time.as_millis() / STEP.as_millis() {
        std::thread::sleep(STEP);
        client.cmd(&["PING"]);
    }
}

/// A client that was just served is not idle, however long it was blocked.
#[test]
fn client_served_after_a_long_wait_is_not_idle() {
    on_both(&SECOND, &[], |server| {
        let (mut maker, mut waiter) = (client(server), client(server));
        send(&mut waiter, &["BLPOP", "l", "0"]);
        until_blocked(&mut maker, 1);
        sleep_with_activity(IDLE, &mut maker);
        maker.cmd(&["RPUSH", "l", "x"]);
        assert_eq!(reply(&mut waiter).items()[1].text(), "x");
        std::thread::sleep(Duration::from_millis(400));
        send(&mut waiter, &["PING"]);
        assert_eq!(reply(&mut waiter).text(), "PONG", "{}", server.name());
    });
}

/// A value takes longer to arrive than the idle timeout.
#[test]
fn client_that_sends_a_large_value_slowly_is_not_idle() {
    const PARTS: usize = 12;
    let request = encode(&[b"SET".as_slice(), b"big", &vec![b'x'; 200_000]]);
    on_both(&SECOND, &[], |server| {
        let mut writer = client(server);
        for part in request.chunks(request.len().div_ceil(PARTS)) {
            let sent = writer.send_raw(part);
            sent.unwrap_or_else(|e| panic!("{} has closed the connection: {e}", server.name()));
            std::thread::sleep(Duration::from_millis(250));
        }
        assert_eq!(reply(&mut writer).text(), "OK", "{}", server.name());
    });
}

/// A client that sent QUIT and does not read is closed by the idle timeout.
#[test]
fn client_that_quits_and_does_not_read_is_closed_at_the_timeout() {
    on_both(&[], &[], |server| {
        let mut maker = client(server);
        maker.ok(&[b"SET".as_slice(), b"big", &vec![b'x'; 60_000_000]]);
        // The timeout is set late because storing the value may take a second on a busy machine.
        maker.ok(&["CONFIG", "SET", "timeout", "1"]);
        let mut leaver = client(server);
        send_all(&mut leaver, &[&["GET", "big"], &["QUIT"]]);
        let alone = || {
            let clients = maker.cmd(&["CLIENT", "LIST"]).text();
            clients.lines().count() == 1
        };
        until(&format!("{} has closed it", server.name()), alone);
    });
}

/// CLIENT PAUSE waits for a running write. It must be answered when that is done, not at the end of
/// the pause: until then no client could send UNPAUSE.
#[test]
fn pause_all_is_answered_before_it_ends() {
    let server = Server::weft(&[]);
    let mut maker = client(&server);
    for part in 0..50 {
        let members = (0..1000).map(|n| format!("member:{}", part * 1000 + n));
        let add: Vec<String> = ["SADD".into(), "s".into()].into_iter().chain(members).collect();
        maker.cmd(&add);
    }
    for times in [20, 80, 320, 1280] {
        let (mut writer, mut admin) = (client(&server), client(&server));
        let names = std::iter::repeat_n("s", times);
        send(&mut writer, &["SUNIONSTORE", "d"].into_iter().chain(names).collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(50));
        if reply_within(&mut writer, Duration::from_millis(1)).is_some() {
            // The command was too short to delay the pause; try a longer one.
            continue;
        }
        send(&mut admin, &["CLIENT", "PAUSE", "30000", "ALL"]);
        assert_eq!(reply(&mut writer).int(), 50_000);
        let answer = reply_within(&mut admin, Duration::from_secs(5));
        assert!(answer.is_some(), "the write is done, but CLIENT PAUSE is not answered");
        return;
    }
    panic!("every command was too short");
}

/// A command that starts in the slow lane, because another one runs there, is also shown.
#[test]
fn monitor_shows_commands_that_start_in_the_slow_lane() {
    let server = Server::weft(&[]);
    let mut monitor = client(&server);
    monitor.ok(&["MONITOR"]);
    let held = HeldShard::with_tag(&server, "t");
    let (mut asker, mut other) = (client(&server), client(&server));
    send(&mut asker, &["KEYS", "first*"]);
    until_in_slow_lane(&mut other, 2);
    held.release();
    assert_eq!(reply(&mut asker).items().len(), 0);
    assert_eq!(asker.cmd(&["KEYS", "second*"]).items().len(), 0);
    let mut first = false;
    loop {
        let line = reply(&mut monitor).text();
        first |= line.contains("first*");
        if line.contains("second*") {
            break;
        }
    }
    assert!(first, "MONITOR shows only the second KEYS");
}

#[test]
fn info_shows_a_pause() {
    on_both(&[], &[], |server| {
        let mut asker = client(server);
        asker.ok(&["CLIENT", "PAUSE", "5000", "WRITE"]);
        let text = asker.cmd(&["INFO", "clients"]).text();
        let has_line = |line: &str| text.lines().any(|l| l == line);
        assert!(has_line("paused_reason:client_pause"), "{}: {text}", server.name());
        assert!(has_line("paused_actions:write"), "{}: {text}", server.name());
    });
}

/// A key had expired before WATCH, and a pause keeps it. Its removal is not a change.
#[test]
fn watch_of_an_expired_key_during_a_pause_is_not_broken() {
    on_both(&[], &[], |server| {
        let mut watcher = client(server);
        watcher.ok(&["SET", "k", "v", "PX", "20"]);
        watcher.ok(&["CLIENT", "PAUSE", "5000", "WRITE"]);
        until("the key has expired", || watcher.cmd(&["EXISTS", "k"]).int() == 0);
        watcher.ok(&["WATCH", "k"]);
        watcher.ok(&["MULTI"]);
        watcher.cmd(&["PING"]);
        let ran = watcher.cmd(&["EXEC"]);
        assert!(!ran.is_null(), "{}: nothing has changed the key", server.name());
    });
}
