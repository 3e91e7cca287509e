//! Every request is answered, once and in order, whatever the connection was doing meanwhile.

use std::time::Duration;
use weft_testkit::Server;
use weft_testkit::client::encode;
use weft_tests::scene::{client, info, on_both, reply, send, send_all, until, until_blocked};

/// Long enough for the server to have seen what was sent.
const SEEN: Duration = Duration::from_millis(100);

/// Behind a command that has to wait comes a complete one, and behind that the beginning of a large
/// value. When the client goes on, the rest of the value is still to come.
#[test]
fn a_large_value_may_be_on_its_way_when_the_commands_before_it_go_on() {
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

/// The same in one write, as a client sends a pipeline: all three are in one packet of the server's.
#[test]
fn a_pipeline_with_a_large_value_may_have_to_wait_in_the_middle() {
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

/// A client without replies sends while it waits: what it has sent is read when it goes on.
#[test]
fn a_client_that_wants_no_replies_is_read_from_after_it_has_waited() {
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

/// The same of one that was paused.
#[test]
fn a_client_that_wants_no_replies_is_read_from_after_a_pause() {
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

/// A client that wants no replies is not told of its error in the protocol either, only hung up on. (Valkey says
/// nothing as well, and keeps the connection.)
#[test]
fn an_error_in_the_protocol_is_not_told_to_who_wants_no_replies() {
    let server = Server::weft(&[]);
    for (first, is_told) in [
        ("OFF", false),
        ("OFF\r\nPING", false),
        ("SKIP", false),
        ("SKIP\r\nPING", true),
        ("ON", true),
    ] {
        let mut client = client(&server);
        client.send_raw(format!("CLIENT REPLY {first}\r\n*x\r\n").as_bytes()).expect("sent");
        let said = client.read_to_close().expect("the server hangs up");
        assert_eq!(said.ends_with(b"-ERR Protocol error: invalid multibulk length\r\n"), is_told);
        assert_eq!(said.is_empty(), !is_told, "{first}");
    }
}
