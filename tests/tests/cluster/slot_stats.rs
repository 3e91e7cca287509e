//! CLUSTER SLOT-STATS with `cluster-slot-stats-enabled`.

use super::slots::{serve, start};
use weft_testkit::client::encode;
use weft_testkit::{Client, Server, Value, skip_without};

/// The slot of `a`.
const SLOT: &str = "15495";

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// A node that serves all slots and counts by slot.
fn prepare(server: &Server) -> Client {
    let mut client = server.client();
    serve(&mut client, &[(0, 16_383)]);
    client.ok(&["CONFIG", "SET", "cluster-slot-stats-enabled", "yes"]);
    client
}

fn weft() -> (Server, Client) {
    let server = start(|args| Some(Server::weft(args))).expect("Weft is here");
    let client = prepare(&server);
    (server, client)
}

/// The counts of the slot: CPU time, bytes in and bytes out.
fn counted(client: &mut Client) -> [i64; 3] {
    let stats = client.cmd(&["CLUSTER", "SLOT-STATS", "SLOTSRANGE", SLOT, SLOT]);
    let fields = &stats.items()[0].items()[1];
    ["cpu-usec", "network-bytes-in", "network-bytes-out"]
        .map(|name| fields.field(name).map(Value::int).expect("it is counted"))
}

fn bytes(client: &mut Client) -> (i64, i64) {
    let [_, bytes_in, bytes_out] = counted(client);
    (bytes_in, bytes_out)
}

/// Requests whose bytes both servers count alike.
const LINES: [&str; 33] = [
    "SET a b",
    "GET a",
    "GET {a}2",
    "MGET a {a}2",
    "COPY a {a}3",
    "OBJECT FREQ a",
    "LPUSH a x",
    "SET a",
    "nope a",
    "MGET a b",
    "DBSIZE",
    "CLUSTER KEYSLOT a",
    "WATCH a",
    "UNWATCH",
    "SPUBLISH a message",
    "SUBSCRIBE a",
    "UNSUBSCRIBE a",
    "SSUBSCRIBE a",
    "SPUBLISH a message",
    "SUNSUBSCRIBE a",
    "MULTI",
    "SET a b",
    "DISCARD",
    "MULTI",
    "SET a b",
    "GET",
    "EXEC",
    "MULTI",
    "EXEC",
    "CONFIG SET maxmemory 1",
    "SET a b",
    "CONFIG SET maxmemory 0",
    "DEL a {a}3",
];

/// Sends a request, and waits until it is answered: by a push, if it is about subscriptions.
fn send(client: &mut Client, line: &str) {
    if !line.contains("SUBSCRIBE") {
        client.cmd(&words(line));
        return;
    }
    client.send_raw(&encode(&words(line))).expect("it is sent");
    let is_answer = |push: &Value| push.items()[0].text().ends_with("subscribe");
    while !is_answer(&client.read_frame().expect("it is answered").value) {}
}

#[test]
fn bytes_are_those_of_valkey() {
    let servers = super::slots::both();
    if skip_without("bytes by slot", &servers, "valkey-server") {
        return;
    }
    let [weft, valkey] = servers.expect("not skipped").map(|server| {
        let (mut admin, mut client) = (prepare(&server), server.client());
        client.hello(3);
        LINES.map(|line| {
            send(&mut client, line);
            (line, bytes(&mut admin))
        })
    });
    assert_eq!(weft, valkey, "weft, then valkey");
    assert!(weft[32].1.0 > 400, "{weft:?}");
}

#[test]
fn a_blocked_client_counts_once_it_has_its_reply() {
    let (server, mut admin) = weft();
    let mut blocked = server.client();
    let request = "*3\r\n$5\r\nBLPOP\r\n$4\r\n{a}l\r\n$1\r\n0\r\n";
    blocked.send_raw(request.as_bytes()).expect("it is sent");
    while !admin.cmd(&["INFO", "clients"]).text().contains("blocked_clients:1") {
        std::thread::yield_now();
    }
    assert_eq!(counted(&mut admin), [0, 0, 0]);
    let push = "*3\r\n$5\r\nRPUSH\r\n$4\r\n{a}l\r\n$1\r\nv\r\n";
    admin.cmd(&["RPUSH", "{a}l", "v"]);
    assert!(blocked.read_reply().is_ok());
    let reply = "*2\r\n$4\r\n{a}l\r\n$1\r\nv\r\n";
    let expected = (request.len() + push.len(), ":1\r\n".len() + reply.len());
    assert_eq!(bytes(&mut admin), (expected.0 as i64, expected.1 as i64));
}

/// Valkey counts replies in a transaction more than once, and neither the time nor the request of a script.
#[test]
fn transactions_and_scripts_count_once() {
    let (server, mut admin) = weft();
    let mut client = server.client();
    for line in ["MULTI", "SET a b", "GET a", "EXEC"] {
        client.cmd(&words(line));
    }
    let requests = "*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nEXEC\r\n";
    let replies = "*2\r\n+OK\r\n$1\r\nb\r\n";
    assert_eq!(bytes(&mut admin), (requests.len() as i64, replies.len() as i64));

    admin.ok(&["CONFIG", "RESETSTAT"]);
    let script = "for i = 1, 20000 do server.call('SET', KEYS[1], i) end return 'done'";
    client.cmd(&["EVAL", script, "1", "a"]);
    let [cpu_us, bytes_in, bytes_out] = counted(&mut admin);
    assert!(cpu_us > 0);
    assert!(bytes_in > script.len() as i64 && bytes_in < script.len() as i64 + 50, "{bytes_in}");
    assert_eq!(bytes_out, "$4\r\ndone\r\n".len() as i64);
}

#[test]
fn counts_begin_when_the_slot_comes_and_last_while_nothing_is_counted() {
    let (_server, mut client) = weft();
    let set = ("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n".len() as i64, "+OK\r\n".len() as i64);
    client.ok(&["SET", "a", "b"]);
    client.ok(&["SET", "b", "b"]);
    assert_eq!(bytes(&mut client), set);
    client.ok(&["CONFIG", "SET", "cluster-slot-stats-enabled", "no"]);
    client.ok(&["SET", "a", "b"]);
    let refused = client.cmd(&["CLUSTER", "SLOT-STATS", "ORDERBY", "cpu-usec"]);
    assert_eq!(refused.error().as_deref(), Some("ERR Unrecognized sort metric for ORDERBY."));
    let plain = client.cmd(&["CLUSTER", "SLOT-STATS", "SLOTSRANGE", SLOT, SLOT]);
    assert_eq!(plain.items()[0].items()[1].items().len(), 2, "{plain}");
    client.ok(&["CONFIG", "SET", "cluster-slot-stats-enabled", "yes"]);
    assert_eq!(bytes(&mut client), set);
    client.ok(&["CLUSTER", "DELSLOTS", SLOT]);
    client.ok(&["CLUSTER", "ADDSLOTS", SLOT]);
    assert_eq!(counted(&mut client), [0, 0, 0]);
    let others =
        client.cmd(&["CLUSTER", "SLOT-STATS", "ORDERBY", "network-bytes-in", "LIMIT", "1"]);
    assert_eq!(others.items()[0].items()[0].int(), 3300, "the slot of b stays");
    client.ok(&["CONFIG", "RESETSTAT"]);
    let order =
        client.cmd(&["CLUSTER", "SLOT-STATS", "ORDERBY", "network-bytes-out", "LIMIT", "1"]);
    assert_eq!(order.items()[0].items()[0].int(), 0, "all are equal");
}
