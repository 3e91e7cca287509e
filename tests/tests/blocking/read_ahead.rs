//! The server reads requests of a blocked or paused client, bounds their size, and executes them
//! later in order.

use std::time::Duration;
use weft_testkit::client::encode;
use weft_testkit::{Client, Server};
use weft_tests::scene::{
    client, id, info, on_both, reply, reply_within, send, until, until_blocked,
};

const TWO: [&str; 4] = ["--io-threads", "2", "--io-threads-always-active", "yes"];

/// More than one socket buffer holds, less than the buffers of both sides hold.
const LONG_PIPELINE: usize = 1_500_000;

/// About this many bytes of small requests that leave a trace when they are executed.
fn pipeline(bytes: usize) -> Vec<u8> {
    let set = encode(&["SET", "trace", "1"]);
    set.repeat(bytes / set.len())
}

/// Waits until the server has read `bytes` bytes from a client.
fn until_read(admin: &mut Client, id: &str, bytes: usize) {
    let want = format!(" tot-net-in={bytes} ");
    until(&format!("the server reads {bytes} bytes"), || {
        admin.cmd(&["CLIENT", "LIST", "ID", id]).text().contains(&want)
    });
}

/// A new client blocks with `blocked`, sends a long pipeline and hangs up.
fn hang_up_after_a_pipeline(server: &Server, admin: &mut Client, blocked: &[&str]) {
    let mut own = client(server);
    send(&mut own, blocked);
    until_blocked(admin, 1);
    own.send_raw(&pipeline(LONG_PIPELINE)).expect("the kernel takes it");
    drop(own);
    until_blocked(admin, 0);
}

#[test]
fn blocked_client_ends_when_it_hangs_up_after_a_pipeline() {
    on_both(&[], &TWO, |server| {
        let mut admin = client(server);
        for blocked in [&["BLPOP", "list", "0"][..], &["WAIT", "1", "0"]] {
            hang_up_after_a_pipeline(server, &mut admin, blocked);
        }
        assert_eq!(admin.cmd(&["RPUSH", "list", "x"]).int(), 1);
        assert_eq!(admin.cmd(&["LLEN", "list"]).int(), 1, "{}", server.name());
        assert_eq!(admin.cmd(&["EXISTS", "trace"]).int(), 0, "{}", server.name());
    });
}

#[test]
fn paused_client_ends_when_it_hangs_up_after_a_pipeline() {
    on_both(&[], &TWO, |server| {
        let mut admin = client(server);
        admin.ok(&["CLIENT", "PAUSE", "600000", "WRITE"]);
        hang_up_after_a_pipeline(server, &mut admin, &["SET", "paused", "1"]);
        admin.ok(&["CLIENT", "UNPAUSE"]);
        assert_eq!(admin.cmd(&["EXISTS", "trace", "paused"]).int(), 0, "{}", server.name());
    });
}

#[test]
fn client_query_buffer_limit_closes_blocked_and_paused_clients() {
    let limit = ["--client-query-buffer-limit", "1mb"];
    on_both(&limit, &TWO, |server| {
        let mut admin = client(server);
        let mut closed = 0;
        for blocked in [&["BLPOP", "list", "0"][..], &["SET", "paused", "1"]] {
            if blocked[0] == "SET" {
                admin.ok(&["CLIENT", "PAUSE", "600000", "WRITE"]);
            }
            let mut own = client(server);
            send(&mut own, blocked);
            until_blocked(&mut admin, 1);
            // Below the limit the client stays connected.
            let id = id_of_blocked(&mut admin);
            let below = pipeline(900_000);
            own.send_raw(&below).expect("the server reads");
            until_read(&mut admin, &id, encode(blocked).len() + below.len());
            assert!(reply_within(&mut own, Duration::from_millis(1)).is_none());
            let beyond = own.send_raw(&pipeline(LONG_PIPELINE)).and_then(|()| own.read_to_close());
            assert!(beyond.is_err() || beyond.is_ok_and(|all| all.is_empty()));
            until_blocked(&mut admin, 0);
            closed += 1;
            assert_eq!(info(&mut admin, "client_query_buffer_limit_disconnections"), closed);
        }
        admin.ok(&["CLIENT", "UNPAUSE"]);
        assert_eq!(admin.cmd(&["EXISTS", "trace", "paused"]).int(), 0);
        let logged = server.log().matches("Closing client that reached max query buffer").count();
        assert_eq!(logged as u64, closed, "{}", server.name());
    });
}

fn id_of_blocked(admin: &mut Client) -> String {
    let list = admin.cmd(&["CLIENT", "LIST"]).text();
    let line = list.lines().find(|line| line.contains(" flags=b ")).expect("a blocked client");
    line["id=".len()..].split(' ').next().expect("an id").to_string()
}

/// Values with lengths around the points where the server changes how it reads them. The pipeline
/// is cut at critical places: within a length, within a value, and within the line break after it.
#[test]
fn pipeline_sent_while_blocked_is_executed_in_order() {
    const LENGTHS: [usize; 8] = [1, 300_000, 10, 32_767, 32_768, 70_000, 0, 1_000_000];
    on_both(&[], &TWO, |server| {
        let mut admin = client(server);
        let mut all = Vec::new();
        let mut ends = Vec::new();
        for (n, len) in LENGTHS.into_iter().enumerate() {
            all.extend(encode(&["ECHO", &n.to_string()]));
            all.extend(encode(&["ECHO", &"v".repeat(len)]));
            ends.push(all.len());
            // Many small requests, too.
            (0..2000).for_each(|n| all.extend(encode(&["ECHO", &n.to_string()])));
        }
        let block = encode(&["BLPOP", "list", "0"]);
        let cuts = ends.iter().flat_map(|end| [end - 3, end - 2, end - 1, *end]);
        let cuts: Vec<usize> = cuts.chain([1, 5, 200, ends[1] - 200_000, ends[7] - 500]).collect();
        for at in cuts {
            let mut own = client(server);
            let id = id(&mut own);
            let before = encode(&["CLIENT", "ID"]).len();
            own.send_raw(&[&block, &all[..at]].concat()).expect("the server reads");
            until_blocked(&mut admin, 1);
            until_read(&mut admin, &id, before + block.len() + at);
            own.send_raw(&all[at..]).expect("the server reads");
            until_read(&mut admin, &id, before + block.len() + all.len());
            admin.cmd(&["RPUSH", "list", "x"]);
            assert_eq!(reply(&mut own).items()[1].text(), "x");
            for (n, len) in LENGTHS.into_iter().enumerate() {
                assert_eq!(reply(&mut own).text(), n.to_string(), "cut at {at}");
                assert_eq!(reply(&mut own).text().len(), len, "cut at {at}");
                for n in 0..2000 {
                    assert_eq!(reply(&mut own).text(), n.to_string(), "cut at {at}");
                }
            }
            assert_eq!(own.cmd(&["ECHO", "end"]).text(), "end", "cut at {at}");
        }
    });
}
