//! Every CLUSTER command, and redirects, on clusters of 3 and 6 nodes: the same replies from Weft and Valkey.
//!
//! The steps run on one kind of cluster after the other. Ids, ports, epochs and times are masked.

use std::fmt::Write;
use weft_testkit::client::encode;
use weft_testkit::cluster::slot::key_in;
use weft_testkit::cluster::{Cluster, Kind, Settings};
use weft_testkit::{Client, Value};

/// A reply, or what the command's form has in common on both.
struct Recorder {
    cluster: Cluster,
    masks: Vec<(String, String)>,
    /// Pairs of a step and its masked reply.
    steps: Vec<(String, String)>,
    resp: u8,
}

impl Recorder {
    fn new(cluster: Cluster, resp: u8) -> Recorder {
        let mut masks = Vec::new();
        let replicas = cluster.nodes.len().saturating_sub(3);
        for i in 0..cluster.nodes.len() {
            let mut client = cluster.client(i);
            masks.push((client.cmd(&["CLUSTER", "MYID"]).text(), format!("ID{i}")));
            // A replica's shard is its primary's.
            if i < 3 || replicas == 0 {
                masks.push((client.cmd(&["CLUSTER", "MYSHARDID"]).text(), format!("SHARD{i}")));
            }
            let port = cluster.nodes[i].port();
            masks.push((port.to_string(), format!("PORT{i}")));
            masks.push(((port + 10_000).to_string(), format!("BUS{i}")));
        }
        Recorder { cluster, masks, steps: Vec::new(), resp }
    }

    /// Words of a command, in which masks such as `ID0` stand for this cluster's values.
    fn words(&self, line: &str) -> Vec<String> {
        let word = |word: &str| {
            let found = self.masks.iter().find(|(_, mask)| mask == word);
            found.map_or_else(|| word.replace("''", ""), |(value, _)| value.clone())
        };
        line.split(' ').map(word).collect()
    }

    /// Sends a command to a node by a connection of its own.
    fn ask(&mut self, node: usize, line: &str) {
        self.session(node, &[line]);
    }

    fn ask_by(&mut self, client: &mut Client, node: usize, line: &str) {
        let words = self.words(line);
        let reply = match line.starts_with("SSUBSCRIBE") {
            // In RESP3, this is a push.
            true => {
                client.send_raw(&encode(&words)).expect("sent");
                client.read_frame().expect("subscribed").value
            }
            false => client.cmd(&words),
        };
        let mut text = normal(line, &self.named(&reply));
        for (value, mask) in &self.masks {
            text = text.replace(value, mask);
        }
        let mut lines: Vec<&str> = text.lines().collect();
        if sorts(line) {
            lines.sort_unstable();
        }
        self.steps.push((format!("node {node}: {line}"), lines.join("\n")));
    }

    /// The reply with masks instead of this cluster's values, where they are whole strings or integers.
    fn named(&self, value: &Value) -> Value {
        let found = |text: &str| {
            let found = self.masks.iter().find(|(value, _)| value == text);
            found.map(|(_, mask)| Value::Bulk(mask.clone().into_bytes()))
        };
        let all = |items: &[Value]| items.iter().map(|item| self.named(item)).collect();
        match value {
            Value::Integer(n) => found(&n.to_string()).unwrap_or_else(|| value.clone()),
            Value::Bulk(text) => {
                found(&String::from_utf8_lossy(text)).unwrap_or_else(|| value.clone())
            }
            Value::Array(items) => Value::Array(all(items)),
            Value::Map(pairs) => {
                let pair = |(name, value): &(Value, Value)| (name.clone(), self.named(value));
                Value::Map(pairs.iter().map(pair).collect())
            }
            _ => value.clone(),
        }
    }

    /// Several commands of one connection.
    fn session(&mut self, node: usize, lines: &[&str]) {
        let mut client = self.cluster.client(node);
        if self.resp == 3 {
            client.hello(3);
        }
        for line in lines {
            self.ask_by(&mut client, node, line);
        }
    }
}

/// Whether the order of lines differs between two clusters, since ids are random.
fn sorts(line: &str) -> bool {
    [
        "CLUSTER NODES",
        "CLUSTER SHARDS",
        "CLUSTER SLOTS",
        "CLUSTER REPLICAS",
        "CLUSTER SLAVES",
        "CLUSTER LINKS",
    ]
    .iter()
    .any(|name| line.starts_with(name))
}

/// The reply without times, epochs and offsets.
fn normal(line: &str, reply: &Value) -> String {
    if reply.error().is_some() {
        return reply.to_string();
    }
    let name = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    match name.as_str() {
        "CLUSTER NODES" => reply.text().lines().map(|line| node_line(line) + "\n").collect(),
        "CLUSTER REPLICAS" | "CLUSTER SLAVES" => {
            reply.items().iter().map(|line| node_line(&line.text()) + "\n").collect()
        }
        "CLUSTER INFO" => {
            let line = |line: &str| match line.split_once(':') {
                Some((name, _)) if name.contains("epoch") => format!("{name}:E\n"),
                // Traffic of the bus, which Weft doesn't have.
                Some((name, _)) if name.contains("stats_messages") => String::new(),
                Some((name, _)) if name.contains("bytes") => format!("{name}:N\n"),
                _ => format!("{line}\n"),
            };
            reply.text().lines().map(line).collect()
        }
        "CLUSTER SLOTS" => {
            let item = |item: &Value| {
                let mut fields = item.items().to_vec();
                // Replicas come in the order of random ids.
                fields[3..].sort();
                Value::Array(fields).to_string() + "\n"
            };
            reply.items().iter().map(item).collect()
        }
        "CLUSTER SHARDS" => {
            reply.items().iter().map(|item| masked(item).to_string() + "\n").collect()
        }
        // Links of the bus.
        "CLUSTER LINKS" => "links".into(),
        "INFO replication" => {
            let kept = [
                "role:",
                "connected_slaves:",
                "slave0",
                "slave1",
                "master_host",
                "master_port",
                "master_link_status",
            ];
            let text = reply.text();
            let lines = text.lines().filter(|line| kept.iter().any(|name| line.starts_with(name)));
            lines
                .map(|line| line.split(",offset").next().unwrap_or_default().to_string() + "\n")
                .collect()
        }
        // Without the fields of our own.
        "INFO cluster" => {
            let text = reply.text();
            let lines = text.lines().filter(|line| !line.starts_with("weft_"));
            lines.map(|line| format!("{line}\n")).collect()
        }
        "ROLE" => {
            let items: Vec<String> = reply.items().iter().map(|item| item.to_string()).collect();
            items.first().cloned().unwrap_or_default()
        }
        _ => masked(reply).to_string(),
    }
}

/// A line of CLUSTER NODES without times and the epoch.
fn node_line(line: &str) -> String {
    let mut fields: Vec<&str> = line.split(' ').collect();
    for (field, mask) in [(4, "ping"), (5, "pong"), (6, "epoch")] {
        if let Some(field) = fields.get_mut(field) {
            *field = mask;
        }
    }
    fields.join(" ")
}

/// A reply whose offsets are masked, and whose nodes are in the order of their names.
fn masked(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(masked_fields(items)),
        Value::Map(pairs) => {
            let pair = |(name, value): &(Value, Value)| {
                let value = match name.bytes() {
                    Some(b"replication-offset") => Value::Null,
                    Some(b"nodes") => sorted(&masked(value)),
                    _ => masked(value),
                };
                (name.clone(), value)
            };
            Value::Map(pairs.iter().map(pair).collect())
        }
        // BUMPED and STILL come with an epoch.
        Value::Simple(text) if text.starts_with(b"BUMPED ") || text.starts_with(b"STILL ") => {
            Value::Simple(b"an epoch".to_vec())
        }
        other => other.clone(),
    }
}

fn sorted(value: &Value) -> Value {
    let mut items = value.items().to_vec();
    items.sort();
    Value::Array(items)
}

fn masked_fields(items: &[Value]) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|i| items[i].bytes());
        all.push(match before {
            Some(b"replication-offset") => Value::Null,
            Some(b"nodes") => sorted(&masked(item)),
            _ => masked(item),
        });
    }
    all
}

/// Commands without a change.
fn read(recorder: &mut Recorder) {
    let nodes = recorder.cluster.nodes.len();
    for node in [0, 1, nodes - 1] {
        for line in [
            "CLUSTER INFO",
            "CLUSTER NODES",
            "CLUSTER SLOTS",
            "CLUSTER SHARDS",
            "CLUSTER LINKS",
            "CLUSTER MYID",
            "CLUSTER MYSHARDID",
            "CLUSTER REPLICAS ID0",
            "CLUSTER SLAVES ID1",
            "CLUSTER REPLICAS 0000000000000000000000000000000000000000",
            "CLUSTER COUNT-FAILURE-REPORTS ID0",
            "CLUSTER COUNT-FAILURE-REPORTS nope",
            "CLUSTER KEYSLOT key",
            "CLUSTER COUNTKEYSINSLOT 100",
            "CLUSTER COUNTKEYSINSLOT 16000",
            "CLUSTER GETKEYSINSLOT 100 10",
            "CLUSTER SLOT-STATS SLOTSRANGE 0 3",
            "CLUSTER SLOT-STATS SLOTSRANGE 16380 16383",
            "CLUSTER SLOT-STATS ORDERBY key-count LIMIT 2",
            "CLUSTER GETSLOTMIGRATIONS",
            "CLUSTER HELP",
            "INFO replication",
            "INFO cluster",
            "ROLE",
            "READONLY",
            "READWRITE",
            "ASKING",
            "DBSIZE",
        ] {
            recorder.ask(node, line);
        }
        if nodes > 3 {
            recorder.ask(node, &format!("CLUSTER REPLICAS ID{}", nodes - 1));
        }
    }
}

/// Commands that are refused.
fn refused(recorder: &mut Recorder) {
    let nodes = recorder.cluster.nodes.len();
    // FLUSHSLOTS and RESET are refused where there are keys.
    recorder.ask(0, &format!("SET {} v", key_in(100, "k")));
    let mut all = vec![0];
    if nodes > 3 {
        all.push(nodes - 1);
    }
    for node in all {
        for line in [
            "CLUSTER ADDSLOTS 0",
            "CLUSTER ADDSLOTS 16000",
            "CLUSTER ADDSLOTS 1 1",
            "CLUSTER ADDSLOTSRANGE 0 10",
            "CLUSTER DELSLOTS 0 0",
            "CLUSTER SETSLOT 0 MIGRATING ID0",
            "CLUSTER SETSLOT 16000 MIGRATING ID1",
            "CLUSTER SETSLOT 0 IMPORTING ID1",
            "CLUSTER SETSLOT 16000 IMPORTING ID0",
            "CLUSTER SETSLOT 16000 IMPORTING nope",
            "CLUSTER SETSLOT 0 MIGRATING nope",
            "CLUSTER SETSLOT 0 NODE nope",
            "CLUSTER SETSLOT 0 x ID0",
            "CLUSTER SETSLOT 16384 STABLE",
            "CLUSTER FORGET nope",
            "CLUSTER REPLICATE nope",
            "CLUSTER FAILOVER x",
            "CLUSTER RESET x",
            "CLUSTER SET-CONFIG-EPOCH 1",
            "CLUSTER SET-CONFIG-EPOCH -1",
            "CLUSTER MEET 127.0.0.1 x",
            "CLUSTER MEET 127.0.0.1 0",
            "CLUSTER MEET nowhere 7000",
            "CLUSTER MEET 127.0.0.1 7000 x",
            "CLUSTER FLUSHSLOT x",
            "CLUSTER MIGRATESLOTS SLOTSRANGE 0 1 NODE ID0",
            "CLUSTER MIGRATESLOTS SLOTSRANGE 16000 16001 NODE ID1",
            "CLUSTER MIGRATESLOTS SLOTSRANGE 0 1 NODE nope",
            "CLUSTER MIGRATESLOTS SLOTSRANGE 0 1 SLOTSRANGE 1 2 NODE ID1",
            "CLUSTER CANCELSLOTMIGRATIONS",
            "CLUSTER GETKEYSINSLOT 0 -1",
            "CLUSTER nope",
            "REPLICAOF 127.0.0.1 7000",
            "REPLICAOF NO ONE",
            "SELECT 1",
        ] {
            recorder.ask(node, line);
        }
    }
    recorder.ask(0, "CLUSTER FORGET ID0");
    recorder.ask(0, "CLUSTER REPLICATE ID0");
    recorder.ask(0, "CLUSTER FAILOVER");
    recorder.ask(0, "CLUSTER FLUSHSLOTS");
    recorder.ask(0, "CLUSTER RESET");
    if nodes > 3 {
        let replica = nodes - 1;
        recorder.ask(replica, "CLUSTER FORGET ID2");
        recorder.ask(replica, &format!("CLUSTER REPLICATE ID{}", nodes - 2));
        recorder.ask(replica, &format!("CLUSTER REPLICATE ID{replica}"));
        recorder.ask(0, "CLUSTER REPLICATE ID1");
    }
}

/// Commands on keys of own and of other slots.
fn redirected(recorder: &mut Recorder) {
    let (own, other) = (key_in(100, "k"), key_in(16000, "k"));
    let nodes = recorder.cluster.nodes.len();
    for node in [0, 2, nodes - 1] {
        for line in [
            format!("SET {own} v"),
            format!("GET {own}"),
            format!("GET {other}"),
            format!("MGET {own} {other}"),
            format!("DEL {other}"),
            format!("EVAL return(1) 1 {own}"),
            format!("EVAL return(1) 2 {own} {other}"),
            format!("SPUBLISH {own} m"),
            format!("SSUBSCRIBE {other}"),
            format!("PUBLISH {own} m"),
            format!("BLPOP {other} 1"),
            format!("WATCH {own}"),
            format!("XREAD BLOCK 1 STREAMS {other} $"),
            "PUBSUB SHARDCHANNELS".into(),
            "KEYS *".into(),
            "SCAN 0".into(),
            "RANDOMKEY".into(),
            "WAIT 0 0".into(),
        ] {
            recorder.ask(node, &line);
        }
        recorder.session(
            node,
            &[
                "READONLY",
                &format!("GET {own}"),
                &format!("SET {own} w"),
                "READWRITE",
                &format!("GET {own}"),
            ],
        );
        recorder.session(node, &["MULTI", &format!("GET {own}"), &format!("GET {other}"), "EXEC"]);
        recorder.session(node, &["READONLY", "MULTI", &format!("GET {own}"), "EXEC"]);
        recorder.session(node, &["READONLY", "MULTI", &format!("SET {own} x"), "EXEC"]);
    }
}

/// A slot that moves by steps.
fn moving(recorder: &mut Recorder) {
    let (first, second) = (key_in(200, "a"), key_in(200, "b"));
    recorder.ask(0, &format!("SET {first} v"));
    recorder.ask(1, "CLUSTER SETSLOT 200 IMPORTING ID0");
    recorder.ask(0, "CLUSTER SETSLOT 200 MIGRATING ID1");
    for node in [0, 1] {
        recorder.ask(node, "CLUSTER NODES");
        recorder.ask(node, "CLUSTER SLOTS");
        recorder.ask(node, &format!("GET {first}"));
        recorder.ask(node, &format!("GET {second}"));
        recorder.ask(node, &format!("MGET {first} {second}"));
        recorder.session(node, &["ASKING", &format!("GET {second}"), &format!("GET {second}")]);
        recorder.session(node, &["ASKING", &format!("MGET {first} {second}")]);
        recorder.session(node, &["ASKING", "MULTI", &format!("SET {second} w"), "EXEC"]);
        recorder.session(node, &["MULTI", &format!("GET {second}"), "EXEC"]);
        recorder.ask(node, &format!("SSUBSCRIBE {first}"));
        recorder.ask(node, &format!("SPUBLISH {first} m"));
    }
    recorder.ask(0, "CLUSTER SETSLOT 200 NODE ID1");
    recorder.ask(0, "CLUSTER SETSLOT 200 STABLE");
    recorder.ask(1, "CLUSTER SETSLOT 200 STABLE");
    recorder.ask(0, "CLUSTER NODES");
    // An empty slot moves.
    recorder.ask(1, "CLUSTER SETSLOT 201 IMPORTING ID0");
    recorder.ask(0, "CLUSTER SETSLOT 201 MIGRATING ID1");
    recorder.ask(1, "CLUSTER SETSLOT 201 NODE ID1");
    recorder.cluster.settle();
    recorder.ask(0, "CLUSTER SETSLOT 201 NODE ID1");
    recorder.ask(2, "CLUSTER SETSLOT 201 NODE ID1");
    for node in [0, 1, 2] {
        recorder.ask(node, "CLUSTER NODES");
        recorder.ask(node, "CLUSTER SLOTS");
    }
}

/// Changes of roles and members.
fn changed(recorder: &mut Recorder) {
    let nodes = recorder.cluster.nodes.len();
    if nodes > 3 {
        recorder.ask(nodes - 1, "CLUSTER REPLICATE ID1");
        recorder.cluster.settle_replicas();
        recorder.ask(0, "CLUSTER NODES");
        recorder.ask(0, "CLUSTER SHARDS");
        recorder.ask(nodes - 1, "CLUSTER MYSHARDID");
        recorder.ask(nodes - 2, "CLUSTER FAILOVER");
        let cluster = &recorder.cluster;
        cluster.wait_until("the replica leads", || cluster.view(nodes - 2).myself().is_primary());
        cluster.settle_replicas();
        recorder.ask(0, "CLUSTER NODES");
        recorder.ask(0, "CLUSTER SHARDS");
        recorder.ask(0, "CLUSTER SLOTS");
        recorder.ask(1, "INFO replication");
        recorder.ask(nodes - 1, "CLUSTER RESET");
        recorder.ask(nodes - 1, "CLUSTER NODES");
        recorder.ask(nodes - 1, "CLUSTER INFO");
    }
    recorder.session(
        0,
        &["MULTI", "CLUSTER DELSLOTS 5", "CLUSTER ADDSLOTS 5", "CLUSTER BUMPEPOCH", "EXEC"],
    );
    recorder.ask(0, "CLUSTER SAVECONFIG");
    recorder.ask(2, "CLUSTER DELSLOTS 16383");
    recorder.ask(2, "CLUSTER ADDSLOTS 16383");
}

fn record(kind: Kind, nodes: usize, resp: u8) -> Option<Vec<(String, String)>> {
    let cluster = Cluster::formed(kind, 3, Settings::of(nodes))?;
    cluster.settle_replicas();
    let mut recorder = Recorder::new(cluster, resp);
    read(&mut recorder);
    refused(&mut recorder);
    redirected(&mut recorder);
    moving(&mut recorder);
    changed(&mut recorder);
    Some(recorder.steps)
}

fn compare(nodes: usize, resp: u8) {
    let Some(expected) = record(Kind::Valkey, nodes, resp) else { return };
    let kind = if std::env::var_os("CLUSTER_TWICE").is_some() { Kind::Valkey } else { Kind::Weft };
    let Some(found) = record(kind, nodes, resp) else { return };
    let mut differences = String::new();
    let mut count = 0;
    for ((step, expected), (_, found)) in expected.iter().zip(&found) {
        if expected != found {
            count += 1;
            let _ = writeln!(differences, "{step}\n  valkey: {expected}\n  weft:   {found}");
        }
    }
    assert!(count == 0, "{count} of {} replies differ:\n{differences}", expected.len());
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn three_nodes_reply_as_valkey() {
    compare(3, 2);
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn six_nodes_reply_as_valkey() {
    compare(6, 2);
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn six_nodes_reply_as_valkey_in_resp3() {
    compare(6, 3);
}
