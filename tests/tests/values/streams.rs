//! Large streams and groups: which commands must run in the slow lane.

use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::scene::{
    client, info, on_both, reply, reply_within, send, slow_lane_cpu, until, until_blocked,
};

/// So many that reading each of them takes the slow lane some ticks of the kernel's clock.
const MANY: usize = 300_000;

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(String::from).collect()
}

fn run(client: &mut Client, line: &str) -> weft_testkit::Value {
    client.cmd(&words(line))
}

/// A stream of [`MANY`] entries.
fn fill(client: &mut Client, key: &str) {
    let add = vec![vec!["XADD", key, "*", "f", "v"]; 10_000];
    for _ in 0..MANY / add.len() {
        client.pipeline(&add).expect("the server answers");
    }
}

/// A transaction runs commands that are usually quick on a group with very many pending entries.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn transaction_on_many_pending_entries_runs_in_the_slow_lane() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut client = client(&server);
    client.set_timeout(Duration::from_secs(60));
    fill(&mut client, "s");
    run(&mut client, "XGROUP CREATE s g 0");
    let read = run(&mut client, "XREADGROUP GROUP g a STREAMS s >");
    assert_eq!(read.items()[0].items()[1].items().len(), MANY);
    // Trimmed entries stay pending.
    run(&mut client, "XTRIM s MAXLEN 1");
    for line in [
        format!("XPENDING s g - + {MANY}"),
        format!("XAUTOCLAIM s g b 0 0 COUNT {} JUSTID", MANY / 2),
    ] {
        let before = slow_lane_cpu(&server);
        run(&mut client, "MULTI");
        // Several times, so that the kernel's clock shows it.
        (0..8).for_each(|_| assert_eq!(run(&mut client, &line).text(), "QUEUED"));
        assert!(!run(&mut client, "EXEC").items()[0].items().is_empty());
        until(&line, || slow_lane_cpu(&server) > before);
    }
}

/// A thread that creates a key serves the clients blocked on it, but does not read hundreds of
/// thousands of entries for them.
#[test]
fn client_waiting_for_many_elements_is_served_in_the_slow_lane() {
    let popped = 5 * MANY;
    for request in ["XREAD BLOCK 0 STREAMS k 0", "BLMPOP 0 1 k LEFT COUNT 9000000"] {
        let server = Server::weft(&["--io-threads", "1"]);
        let mut maker = client(&server);
        if request.starts_with('X') {
            fill(&mut maker, "big");
        } else {
            let push: Vec<&str> = ["RPUSH", "big"].into_iter().chain(["element"; 1000]).collect();
            maker.pipeline(&vec![push; popped / 1000]).expect("the server answers");
        }
        let [mut waiting, mut next] = [(); 2].map(|()| client(&server));
        waiting.set_timeout(Duration::from_secs(60));
        send(&mut waiting, &words(request));
        until_blocked(&mut maker, 1);
        send(&mut next, &words("XREAD BLOCK 0 STREAMS k $"));
        until_blocked(&mut maker, 2);
        let before = slow_lane_cpu(&server);
        maker.ok(&["RENAME", "big", "k"]);
        let got = waiting.read_reply().expect("the client is served").value;
        match request.starts_with('X') {
            true => assert_eq!(got.items()[0].items()[1].items().len(), MANY),
            false => assert_eq!(got.items()[1].items().len(), popped),
        }
        until("the slow lane has run it", || slow_lane_cpu(&server) > before);
        // The next client in the queue is served, and the connection of the first one still works.
        run(&mut maker, "DEL k");
        run(&mut maker, "XADD k 9999999999999-1 f v");
        assert_eq!(reply(&mut next).items().len(), 1);
        assert_eq!(run(&mut waiting, "PING").text(), "PONG");
    }
}

/// A client that the slow lane is about to serve is unblocked or killed meanwhile.
#[test]
fn client_waiting_for_many_elements_may_end_meanwhile() {
    let server = Server::weft(&["--io-threads", "2", "--io-threads-always-active", "yes"]);
    let mut maker = client(&server);
    fill(&mut maker, "big");
    for _ in 0..5 {
        let mut waiting = client(&server);
        let id = run(&mut waiting, "CLIENT ID").int().to_string();
        send(&mut waiting, &words("XREAD BLOCK 0 STREAMS k 0"));
        until_blocked(&mut maker, 1);
        maker.ok(&["RENAME", "big", "k"]);
        maker.cmd(&["CLIENT", "UNBLOCK", &id]);
        maker.cmd(&["CLIENT", "KILL", "ID", &id]);
        maker.ok(&["RENAME", "k", "big"]);
        until("no client is blocked", || {
            reply_within(&mut maker, Duration::from_millis(1)).is_none()
                && run(&mut maker, "INFO clients").text().contains("blocked_clients:0\r\n")
        });
    }
    assert_eq!(run(&mut maker, "XLEN big").int() as usize, MANY);
}

/// Each stream is looked up twice, unless the command fails at the first lookup.
#[test]
fn stream_reads_count_hits_and_misses_as_the_reference_does() {
    let all = std::cell::RefCell::new(Vec::new());
    on_both(&[], &["--io-threads", "2", "--io-threads-always-active", "yes"], |server| {
        let mut own = client(server);
        for key in ["s", "t"] {
            run(&mut own, &format!("XADD {key} 1-1 f v"));
            run(&mut own, &format!("XGROUP CREATE {key} g 0"));
        }
        own.ok(&["SET", "text", "v"]);
        let seen = |own: &mut Client| (info(own, "keyspace_hits"), info(own, "keyspace_misses"));
        let mut counts = Vec::new();
        for line in [
            "XREAD STREAMS s 0",
            "XREAD STREAMS s t 0 $",
            "XREAD STREAMS s +",
            "XREAD STREAMS s none t 5 0 0",
            "XREAD BLOCK 1 STREAMS s none $ $",
            "XREAD STREAMS s text 0 0",
            "XREAD STREAMS s s 0 x",
            "XREADGROUP GROUP g c STREAMS s >",
            "XREADGROUP GROUP g c STREAMS s t 0 >",
            "XREADGROUP GROUP g c BLOCK 1 STREAMS s t > >",
            "XREADGROUP GROUP none c STREAMS s >",
            "XREADGROUP GROUP g c STREAMS s none > >",
        ] {
            let before = seen(&mut own);
            own.cmd(&words(line));
            let after = seen(&mut own);
            counts.push((line, after.0 - before.0, after.1 - before.1));
        }
        // A blocked reader of one stream, when an entry arrives.
        let mut reader = client(server);
        for line in ["XREAD BLOCK 0 STREAMS s $", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"] {
            send(&mut reader, &words(line));
            until_blocked(&mut own, 1);
            let before = seen(&mut own);
            run(&mut own, "XADD s * f v");
            reply(&mut reader);
            let after = seen(&mut own);
            counts.push((line, after.0 - before.0, after.1 - before.1));
            run(&mut own, "XREADGROUP GROUP g c STREAMS s >");
        }
        all.borrow_mut().push(counts);
    });
    let all = all.into_inner();
    assert!(all.iter().all(|counts| counts == &all[0]), "{all:#?}");
    assert_eq!(all[0][0], ("XREAD STREAMS s 0", 2, 0));
}
