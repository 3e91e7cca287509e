//! COMMANDLOG: which requests and replies are large, and by how many bytes, beside the reference.

use std::collections::BTreeSet;
use weft_testkit::{Client, Value};
use weft_tests::scene::{client, on_both, reply, send_all};

/// What is logged: bytes, command and the last argument as it is shown.
fn logged(client: &mut Client, kind: &str) -> Vec<(i64, String, String)> {
    let entry = |entry: &Value| {
        let entry = entry.items();
        let args = entry[3].items();
        (entry[2].int(), args[0].text(), args[args.len() - 1].text())
    };
    client.cmd(&["COMMANDLOG", "GET", "-1", kind]).items().iter().map(entry).collect()
}

fn ask(client: &mut Client) {
    let values: Vec<String> =
        [0, 8, 90, 99, 100, 101, 300, 20_000].iter().map(|n| "x".repeat(*n)).collect();
    for value in &values {
        client.ok(&["SET", "k", value]);
        client.cmd(&["GET", "k"]);
    }
    // Several in one read, of which one is large.
    let some: Vec<[&str; 3]> = values.iter().map(|value| ["SET", "k", value]).collect();
    let some: Vec<&[&str]> = some.iter().map(|one| &one[..]).collect();
    send_all(client, &some);
    some.iter().for_each(|_| assert!(reply(client).is_ok()));
    // Of a transaction that is EXEC's.
    client.ok(&["MULTI"]);
    client.cmd(&["SET", "k", &values[6]]);
    client.cmd(&["GET", "k"]);
    client.cmd(&["EXEC"]);
    client.cmd(&[&["RPUSH", "l"][..], &["element"; 150]].concat());
    client.cmd(&["LRANGE", "l", "0", "-1"]);
    client.cmd(&["BLPOP", "l", "0"]);
}

#[test]
fn large_requests_and_replies_as_the_reference_measures_them() {
    let logs = std::cell::RefCell::new(Vec::new());
    on_both(&[], &["--io-threads", "1"], |server| {
        let mut client = client(server);
        let mut all = Vec::new();
        for (kind, limit) in [
            ("large-request", "commandlog-request-larger-than"),
            ("large-reply", "commandlog-reply-larger-than"),
        ] {
            for bytes in ["0", "1", "128", "129", "20031", "-1"] {
                client.ok(&["CONFIG", "SET", limit, bytes]);
                client.ok(&["COMMANDLOG", "RESET", kind]);
                ask(&mut client);
                client.ok(&["CONFIG", "SET", limit, "-1"]);
                all.push((kind, bytes, logged(&mut client, kind)));
                client.ok(&["FLUSHALL"]);
            }
        }
        logs.borrow_mut().push(all);
    });
    let logs = logs.into_inner();
    let [.., weft] = &logs[..] else { unreachable!("one server at least") };
    for of_server in &logs {
        for (theirs, ours) in of_server.iter().zip(weft) {
            assert_eq!(theirs, ours);
        }
    }
    let limited = |bytes: &str| weft.iter().find(|one| one.1 == bytes).map(|one| &one.2);
    let sizes: Option<BTreeSet<i64>> = limited("129").map(|log| log.iter().map(|e| e.0).collect());
    let sizes: Vec<i64> = sizes.into_iter().flatten().collect();
    assert_eq!(sizes[0], 129, "from the limit on");
    assert_eq!(limited("-1").map(Vec::len), Some(0));
}
