//! Every request is answered once and in order, whatever happened to the connection meanwhile.

use std::time::Duration;
use weft_testkit::Server;
use weft_testkit::client::encode;
use weft_tests::scene::{client, info, on_both, reply, send, send_all, until, until_blocked};

/// Long enough for the server to read the sent bytes.
const SEEN: Duration = Duration::from_millis(100);

/// A blocking command is followed by a complete command and the beginning of a large value. The
/// rest of the value arrives after the client is unblocked.
#[test]
fn large_value_may_be_incomplete_when_its_client_is_unblocked() {
    let value = vec![b'x'; 100_000];
    let set = encode(&[b"SET".as_slice(), b"big", &value]);
    on_both(&[], &[], |server| {
        let (mut maker, mut waiter) = (client(server), client(server));
        send_all(&mut waiter, &[&["BLPOP", "l", "0"], &["PING"]]);
        waiter.send_raw(&set[..40_000]).expect("the server reads");
        until_blocked(&mut maker, 1);
        std::thread::sleep(SEEN);
        maker.cmd(&["RPUSH", "l", "x"]);
        assert_eq!(reply(&mut waiter).items()[1].text(), "x", "{}", server.name());
        assert_eq!(reply(&mut waiter).text(), "PONG");
        waiter.send_raw(&set[40_000..]).expect("the server reads");
        assert_eq!(reply(&mut waiter).text(), "OK");
        assert_eq!(maker.cmd(&["STRLEN", "big"]).int(), 100_000);
    });
}

/// The same in one write, as a pipeline: the server reads all three commands in one packet.
#[test]
fn pipeline_with_a_large_value_may_be_paused_in_the_middle() {
    let value = vec![b'x'; 100_000];
    on_both(&[], &[], |server| {
        let mut maker = client(server);
        maker.ok(&["CLIENT", "PAUSE", "300", "WRITE"]);
        let mut writer = client(server);
        let mut bytes = encode(&["INCR", "n"]);
        bytes.extend(encode(&["INCR", "n"]));
        bytes.extend(encode(&[b"SET".as_slice(), b"big", &value]));
        writer.send_raw(&bytes).expect("the server reads");
        assert_eq!(reply(&mut writer).int(), 1, "{}", server.name());
        assert_eq!(reply(&mut writer).int(), 2);
        assert_eq!(reply(&mut writer).text(), "OK");
    });
}

/// A client with replies off sends while it is blocked. The server reads that input after it
/// unblocks the client.
#[test]
fn client_without_replies_is_read_after_it_was_blocked() {
    on_both(&[], &[], |server| {
        let (mut maker, mut waiter) = (client(server), client(server));
        send_all(&mut waiter, &[&["CLIENT", "REPLY", "OFF"], &["BLPOP", "l", "0"], &["INCR", "n"]]);
        until_blocked(&mut maker, 1);
        send(&mut waiter, &["INCR", "n"]);
        std::thread::sleep(SEEN);
        maker.cmd(&["RPUSH", "l", "x"]);
        let both = || maker.cmd(&["GET", "n"]).bytes() == Some(b"2");
        until(&format!("both were executed by {}", server.name()), both);
        send(&mut waiter, &["CLIENT", "REPLY", "ON"]);
        assert_eq!(reply(&mut waiter).text(), "OK");
    });
}

/// The same for a paused client.
#[test]
fn client_without_replies_is_read_after_a_pause() {
    on_both(&[], &[], |server| {
        let (mut maker, mut writer) = (client(server), client(server));
        send(&mut writer, &["CLIENT", "REPLY", "OFF"]);
        maker.ok(&["CLIENT", "PAUSE", "400", "WRITE"]);
        for _ in 0..3 {
            send(&mut writer, &["INCR", "n"]);
            std::thread::sleep(SEEN);
        }
        let all = || maker.cmd(&["GET", "n"]).bytes() == Some(b"3");
        until(&format!("all were executed by {}", server.name()), all);
        send(&mut writer, &["CLIENT", "REPLY", "ON"]);
        assert_eq!(reply(&mut writer).text(), "OK");
        assert_eq!(info(&mut maker, "blocked_clients"), 0);
    });
}

/// A client with replies off gets no protocol error either: the server only closes the connection.
/// (Valkey also sends nothing, but keeps the connection.)
#[test]
fn protocol_error_is_not_sent_to_a_client_without_replies() {
    let server = Server::weft(&[]);
    for (first, is_sent) in [
        ("OFF", false),
        ("OFF\r\nPING", false),
        ("SKIP", false),
        ("SKIP\r\nPING", true),
        ("ON", true),
    ] {
        let mut client = client(&server);
        client.send_raw(format!("CLIENT REPLY {first}\r\n*x\r\n").as_bytes()).expect("sent");
        let received = client.read_to_close().expect("the server hangs up");
        assert_eq!(
            received.ends_with(b"-ERR Protocol error: invalid multibulk length\r\n"),
            is_sent
        );
        assert_eq!(received.is_empty(), !is_sent, "{first}");
    }
}
