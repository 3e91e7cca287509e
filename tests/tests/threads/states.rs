//! What holds for a connection in its odd states: who is busy is not idle, a pause is answered when
//! it is in force, and MONITOR shows everything.

use std::time::Duration;
use weft_testkit::client::encode;
use weft_testkit::{Client, Server};
use weft_tests::scene::{
    Long, client, on_both, reply, reply_within, send, send_all, until, until_blocked,
};

/// Longer than the idle time of one second after which these servers close a connection.
const IDLE: Duration = Duration::from_millis(2500);
const SECOND: [&str; 2] = ["--timeout", "1"];

/// Sleeps for `time`, with a client that is not idle.
fn pass(time: Duration, client: &mut Client) {
    const STEP: Duration = Duration::from_millis(100);
    for _ in 0..time.as_millis() / STEP.as_millis() {
        std::thread::sleep(STEP);
        client.cmd(&["PING"]);
    }
}

/// A client that was served has got a reply just now, however long it had waited.
#[test]
fn who_has_waited_long_is_not_idle_when_served() {
    on_both(&SECOND, &[], |server| {
        let (mut maker, mut waiter) = (client(server), client(server));
        send(&mut waiter, &["BLPOP", "l", "0"]);
        until_blocked(&mut maker, 1);
        pass(IDLE, &mut maker);
        maker.cmd(&["RPUSH", "l", "x"]);
        assert_eq!(reply(&mut waiter).items()[1].text(), "x");
        std::thread::sleep(Duration::from_millis(400));
        send(&mut waiter, &["PING"]);
        assert_eq!(reply(&mut waiter).text(), "PONG", "{}", server.name());
    });
}

/// A value that takes longer to arrive than an idle client may be silent.
#[test]
fn who_sends_a_large_value_slowly_is_not_idle() {
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

/// Who has said QUIT and takes no replies is closed as any other that does nothing.
#[test]
fn who_is_to_be_closed_and_takes_nothing_is_closed_when_its_time_is_over() {
    on_both(&[], &[], |server| {
        let mut maker = client(server);
        maker.ok(&[b"SET".as_slice(), b"big", &vec![b'x'; 60_000_000]]);
        // Not before: on a busy machine the value itself may take a second.
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

/// CLIENT PAUSE has to wait for a command that writes. It is answered when that is over, not at
/// the end of the pause, which nobody could end before.
#[test]
fn a_pause_of_everything_is_answered_before_it_is_over() {
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
            // Over too soon to keep anybody waiting: a longer one.
            continue;
        }
        send(&mut admin, &["CLIENT", "PAUSE", "30000", "ALL"]);
        assert_eq!(reply(&mut writer).int(), 50_000);
        let answer = reply_within(&mut admin, Duration::from_secs(5));
        assert!(answer.is_some(), "the command is over, and the pause is not answered");
        return;
    }
    panic!("no command was long enough");
}

/// A command that has to go to the slow lane at once, as another one is there, is shown as well.
#[test]
fn what_begins_in_the_slow_lane_is_shown_to_monitors() {
    let server = Server::weft(&[]);
    let long = Long::with_tag(&server, "t");
    let mut monitor = client(&server);
    monitor.ok(&["MONITOR"]);
    let mut runner = long.begin(&server, 1.0);
    let mut asker = client(&server);
    assert_eq!(asker.cmd(&["KEYS", "first*"]).items().len(), 0);
    reply(&mut runner);
    assert_eq!(asker.cmd(&["KEYS", "second*"]).items().len(), 0);
    let mut first = false;
    loop {
        let line = reply(&mut monitor).text();
        first |= line.contains("first*");
        if line.contains("second*") {
            break;
        }
    }
    assert!(first, "the second KEYS is shown, and not the first");
}

#[test]
fn info_tells_of_a_pause() {
    on_both(&[], &[], |server| {
        let mut asker = client(server);
        asker.ok(&["CLIENT", "PAUSE", "5000", "WRITE"]);
        let text = asker.cmd(&["INFO", "clients"]).text();
        let told = |line: &str| text.lines().any(|l| l == line);
        assert!(told("paused_reason:client_pause"), "{}: {text}", server.name());
        assert!(told("paused_actions:write"), "{}: {text}", server.name());
    });
}

/// A key that had expired when its watch began, and is kept by a pause, has not changed since.
#[test]
fn a_watch_of_a_key_that_has_expired_in_a_pause_is_not_broken() {
    on_both(&[], &[], |server| {
        let mut watcher = client(server);
        watcher.ok(&["SET", "k", "v", "PX", "20"]);
        watcher.ok(&["CLIENT", "PAUSE", "5000", "WRITE"]);
        until("it has expired", || watcher.cmd(&["EXISTS", "k"]).int() == 0);
        watcher.ok(&["WATCH", "k"]);
        watcher.ok(&["MULTI"]);
        watcher.cmd(&["PING"]);
        let ran = watcher.cmd(&["EXEC"]);
        assert!(!ran.is_null(), "{}: nothing has changed the key", server.name());
    });
}
