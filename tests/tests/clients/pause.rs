//! No key is removed while writes are paused: neither by active expiry, nor by a command that began
//! before.

use std::time::{Duration, Instant};
use weft_testkit::Server;
use weft_tests::scene::{LongCommand, PATIENCE, client, reply, reply_within, send_all};

const TWO: [&str; 4] = ["--io-threads", "2", "--io-threads-always-active", "yes"];

/// The pause begins between two steps of the active expiry.
#[test]
fn active_expiry_stops_when_a_pause_begins() {
    const KEYS: usize = 100_000;
    const LAST_MS: usize = 3000;
    let server = Server::weft(&[&TWO[..], &["--hz", "100"]].concat());
    let mut client = client(&server);
    let keys: Vec<usize> = (0..KEYS).collect();
    for part in keys.chunks(1000) {
        let set = |n: &usize| {
            let ms = 300 + n * 7919 % LAST_MS;
            ["SET", &format!("key:{n}"), "v", "PX", &ms.to_string()].map(String::from).to_vec()
        };
        client.pipeline(&part.iter().map(set).collect::<Vec<_>>()).expect("the server answers");
    }
    let pause = ["CLIENT", "PAUSE", "60000", "WRITE"].to_vec();
    let commands = [vec![pause], vec![vec!["DBSIZE"]; 5]].concat();
    let begin = Instant::now();
    loop {
        let paused = client.pipeline(&commands).expect("the server answers");
        let mut counts: Vec<i64> = paused[1..].iter().map(|reply| reply.value.int()).collect();
        // The replies of a pipeline arrive together, so count once more, later.
        counts.push(client.cmd(&["DBSIZE"]).int());
        client.ok(&["CLIENT", "UNPAUSE"]);
        assert!(counts.iter().all(|count| *count == counts[0]), "keys are removed: {counts:?}");
        if counts[0] < KEYS as i64 / 100 {
            return;
        }
        assert!(begin.elapsed() < 6 * PATIENCE, "keys never expire");
    }
}

/// A long transaction that only reads meets an expired key after the pause begins.
#[test]
fn long_reading_command_removes_nothing_during_a_pause() {
    let server = Server::weft(&[&TWO[..], &["--enable-debug-command", "yes"]].concat());
    let long = LongCommand::with_tag(&server, "a");
    let mut control = client(&server);
    control.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    control.ok(&["SET", "{a}gone", "v", "PX", "1"]);
    std::thread::sleep(Duration::from_millis(50));
    let mut reader = client(&server);
    let request = long.request(1.5);
    let request: Vec<&str> = request.iter().map(String::as_str).collect();
    send_all(&mut reader, &[&["MULTI"], &request, &["EXISTS", "{a}gone"], &["EXEC"]]);
    for _ in 0..3 {
        reply(&mut reader);
    }
    assert!(
        reply_within(&mut reader, Duration::from_millis(200)).is_none(),
        "the transaction is still running"
    );
    control.ok(&["CLIENT", "PAUSE", "100000", "WRITE"]);
    assert_eq!(reply(&mut reader).items()[1].int(), 0, "the key has expired");
    assert_eq!(control.cmd(&["DBSIZE"]).int(), 2, "the expired key stays while writes are paused");
    control.ok(&["CLIENT", "UNPAUSE"]);
    assert_eq!(control.cmd(&["EXISTS", "{a}gone"]).int(), 0);
    assert_eq!(control.cmd(&["DBSIZE"]).int(), 1);
}
