//! Generated CLUSTER commands, right and wrong, get the same replies from Weft and Valkey.

use weft_testkit::client::describe;
use weft_testkit::rng::Rng;
use weft_testkit::server::free_port;
use weft_testkit::{Client, Server, Value, skip_without};
use weft_tests::env_or;

/// Both servers with one bus port, where only Valkey listens.
fn start() -> Option<(Server, Server)> {
    let bus = free_port().to_string();
    let args = ["--cluster-enabled", "yes", "--cluster-databases", "2", "--cluster-port", &bus];
    let reference = Server::valkey(&args)?;
    Some((Server::weft(&args), reference))
}

/// One of the servers, with what differs between them.
struct Side {
    client: Client,
    masks: Vec<(String, &'static str)>,
}

impl Side {
    fn new(server: &Server, resp: u8) -> Side {
        let mut client = server.client();
        client.hello(resp);
        let mut side = Side { client, masks: Vec::new() };
        side.learn_ids();
        // After the ids, which may contain its digits.
        side.masks.push((server.port().to_string(), "PORT"));
        side
    }

    /// CLUSTER RESET gives new ids.
    fn learn_ids(&mut self) {
        let mut ids = Vec::new();
        for (name, mask) in [("MYID", "ME"), ("MYSHARDID", "SHARD")] {
            let id = self.client.cmd(&["CLUSTER", name]).text();
            ids.push((id, mask));
        }
        self.masks.splice(..self.masks.len().min(ids.len()), ids);
    }

    fn my_id(&self) -> &str {
        &self.masks[0].0
    }

    /// The reply to a command in which `ME` is this node.
    fn ask(&mut self, command: &[String]) -> String {
        let id = self.my_id().to_string();
        let args: Vec<String> = command.iter().map(|word| word.replace("ME!", &id)).collect();
        let name = args.get(1).cloned().unwrap_or_default();
        let reply = self.client.cmd(&args);
        let mut text = masked(&reply, &name);
        for (from, to) in &self.masks {
            text = text.replace(from, to);
        }
        if name.eq_ignore_ascii_case("reset") {
            self.learn_ids();
        }
        text
    }
}

/// A reply without facts that differ between two servers: the order of names, and what Valkey finds out after a while.
fn masked(reply: &Value, name: &str) -> String {
    if name.eq_ignore_ascii_case("getkeysinslot") && reply.error().is_none() {
        let mut names: Vec<String> = reply.items().iter().map(Value::text).collect();
        names.sort();
        return names.join(" ");
    }
    let text = format!("{reply}");
    match name.to_ascii_lowercase().as_str() {
        "info" if reply.error().is_none() => {
            let is_kept =
                |line: &&str| !line.contains("cluster_state") && !line.contains("cluster_size");
            reply.text().lines().filter(is_kept).collect::<Vec<_>>().join("\n")
        }
        _ => text,
    }
}

fn slot(rng: &mut Rng) -> String {
    match rng.below(20) {
        0 => "16383".into(),
        1 => rng.pick(&["-1", "16384", "x", "", "1.5", " 1", "99999999999999999999"]).to_string(),
        _ => rng.below(8).to_string(),
    }
}

fn node(rng: &mut Rng) -> String {
    match rng.below(4) {
        0 => rng.pick(&["nope", "", "0000000000000000000000000000000000000000"]).to_string(),
        _ => "ME!".into(),
    }
}

/// A CLUSTER command, often with a mistake.
fn command(rng: &mut Rng) -> Vec<String> {
    let mut words: Vec<String> = vec!["CLUSTER".into()];
    let names = [
        "ADDSLOTS",
        "ADDSLOTS",
        "ADDSLOTSRANGE",
        "DELSLOTS",
        "DELSLOTSRANGE",
        "FLUSHSLOTS",
        "SETSLOT",
        "SETSLOT",
        "FORGET",
        "REPLICATE",
        "FAILOVER",
        "RESET",
        "SET-CONFIG-EPOCH",
        "BUMPEPOCH",
        "SAVECONFIG",
        "COUNTKEYSINSLOT",
        "GETKEYSINSLOT",
        "COUNT-FAILURE-REPORTS",
        "INFO",
        "NODES",
        "SLOTS",
        "SHARDS",
        "LINKS",
        "MYID",
        "MYSHARDID",
        "REPLICAS",
        "SLAVES",
        "KEYSLOT",
        "SLOT-STATS",
        "MIGRATESLOTS",
        "GETSLOTMIGRATIONS",
        "CANCELSLOTMIGRATIONS",
        "FLUSHSLOT",
        "HELP",
        "nope",
    ];
    let name = *rng.pick(&names);
    words.push(if rng.percent(20) { name.to_ascii_lowercase() } else { name.into() });
    words.extend(arguments(rng, name));
    match rng.below(25) {
        0 => _ = words.pop(),
        1 => words.push(rng.pick(&["x", "1", "", "SYNC"]).to_string()),
        _ => {}
    }
    if words.len() < 2 {
        words.push("INFO".into());
    }
    words
}

fn arguments(rng: &mut Rng, name: &str) -> Vec<String> {
    let word = |rng: &mut Rng, words: &[&str]| rng.pick(words).to_string();
    match name {
        "ADDSLOTS" | "DELSLOTS" => (0..1 + rng.below(3)).map(|_| slot(rng)).collect(),
        "ADDSLOTSRANGE" | "DELSLOTSRANGE" => (0..2 + 2 * rng.below(2)).map(|_| slot(rng)).collect(),
        "SETSLOT" => {
            let action = word(rng, &["MIGRATING", "IMPORTING", "NODE", "NODE", "stable", "x"]);
            let mut words = vec![slot(rng), action];
            if words[1] != "stable" || rng.percent(10) {
                words.push(node(rng));
            }
            if rng.percent(25) {
                words.push("timeout".into());
                words.push(word(rng, &["1", "0", "-1", "x", "9223372036854775807"]));
            }
            words
        }
        "FORGET" | "COUNT-FAILURE-REPORTS" | "REPLICAS" | "SLAVES" => vec![node(rng)],
        "REPLICATE" => match rng.below(3) {
            0 => vec![word(rng, &["NO", "no"]), word(rng, &["ONE", "two"])],
            _ => vec![node(rng)],
        },
        "FAILOVER" => vec![word(rng, &["FORCE", "takeover", "x"])],
        "RESET" => vec![word(rng, &["HARD", "soft", "x"])],
        "SET-CONFIG-EPOCH" => vec![word(rng, &["1", "5", "0", "-1", "x", "9223372036854775807"])],
        "COUNTKEYSINSLOT" => vec![word(rng, &["15495", "5", "-1", "16384", "x"])],
        "GETKEYSINSLOT" => {
            vec![
                word(rng, &["15495", "5", "-1", "16384", "x"]),
                word(rng, &["100", "0", "-1", "x"]),
            ]
        }
        "FLUSHSLOT" => vec![word(rng, &["15495", "5", "x"]), word(rng, &["SYNC", "async", "x"])],
        "KEYSLOT" => vec![word(rng, &["key", "{a}b", ""])],
        "SLOT-STATS" => match rng.below(2) {
            0 => vec!["SLOTSRANGE".into(), slot(rng), slot(rng)],
            _ => {
                let mut words = vec![
                    "orderby".to_string(),
                    word(rng, &["key-count", "key-count", "cpu-usec", "x"]),
                ];
                for _ in 0..rng.below(3) {
                    words.push(word(rng, &["limit", "asc", "DESC", "x"]));
                    if words.last().is_some_and(|word| word == "limit") {
                        words.push(word(rng, &["1", "3", "0", "16385", "x"]));
                    }
                }
                words
            }
        },
        "MIGRATESLOTS" => {
            let mut words = vec![word(rng, &["SLOTSRANGE", "slotsrange", "x"])];
            words.extend((0..rng.below(5)).map(|_| slot(rng)));
            words.extend([word(rng, &["NODE", "node", "x"]), node(rng)]);
            words
        }
        _ => Vec::new(),
    }
}

/// Commands on keys, so that slots have some.
fn on_keys(rng: &mut Rng) -> Vec<String> {
    let lines = [
        "SET {a}1 x",
        "SET {a}2 x",
        "SET {a}1 x",
        "DEL {a}1",
        "DEL {a}1 {a}2",
        "MSET {a}1 x b y",
        "GET b",
        "SELECT 0",
        "SELECT 1",
        "FLUSHALL",
        "DBSIZE",
        "ASKING x",
        "READONLY x",
        "EVAL x",
        "SSUBSCRIBE",
        "SPUBLISH a b",
    ];
    rng.pick(&lines).split(' ').map(str::to_string).collect()
}

fn compare(resp: u8) {
    let servers = start();
    if skip_without("cluster commands", &servers, "valkey-server") {
        return;
    }
    let (weft, reference) = servers.expect("not skipped");
    let (mut ours, mut theirs) = (Side::new(&weft, resp), Side::new(&reference, resp));
    let mut rng = Rng::new(env_or("CLUSTER_SEED", 1));
    // Some slots are never assigned, so both are down all the time: Valkey waits before it is up.
    let mut history = Vec::new();
    for _ in 0..env_or("CLUSTER_COMMANDS", 6_000) {
        let command = if rng.percent(15) { on_keys(&mut rng) } else { command(&mut rng) };
        history.push(describe(&command));
        let (our, their) = (ours.ask(&command), theirs.ask(&command));
        let last = history[history.len().saturating_sub(12)..].join("\n");
        assert_eq!(our, their, "weft, then valkey, after\n{last}\n{}", weft.log_tail());
    }
}

#[test]
fn replies_are_those_of_valkey() {
    compare(2);
}

#[test]
fn replies_are_those_of_valkey_in_resp3() {
    compare(3);
}

/// A node whose slots are all its own serves keys, and clients of a cluster find it.
#[test]
fn node_with_all_slots_is_up() {
    let weft = Server::weft(&["--cluster-enabled", "yes"]);
    let mut client = weft.client();
    let down = client.cmd(&["SET", "a", "b"]).error();
    assert_eq!(down.as_deref(), Some("CLUSTERDOWN Hash slot not served"));
    client.ok(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    client.ok(&["SET", "a", "b"]);
    let info = client.cmd(&["CLUSTER", "INFO"]).text();
    assert!(info.starts_with("cluster_state:ok\r\ncluster_slots_assigned:16384\r\n"), "{info}");
    assert!(info.contains("cluster_size:1\r\n"), "{info}");
    let info = client.cmd(&["INFO", "server", "cluster"]).text();
    assert!(info.contains("server_mode:cluster\r\n"), "{info}");
    assert!(info.contains("cluster_enabled:1\r\n"), "{info}");
    let hello = client.hello(3);
    assert_eq!(hello.field("mode").map(Value::text).as_deref(), Some("cluster"));
}

/// Announced addresses are in all views, at once and after a restart.
#[test]
fn announced_addresses_are_shown() {
    let mut weft = Server::weft(&["--cluster-enabled", "yes"]);
    let mut client = weft.client();
    client.ok(&["CLUSTER", "ADDSLOTS", "1"]);
    let set = [
        "CONFIG",
        "SET",
        "cluster-announce-ip",
        "1.2.3.4",
        "cluster-announce-port",
        "5000",
        "cluster-announce-bus-port",
        "5001",
        "cluster-announce-hostname",
        "h.example",
        "availability-zone",
        "za",
    ];
    client.ok(&set);
    let nodes = client.cmd(&["CLUSTER", "NODES"]).text();
    assert!(
        nodes.contains(" 1.2.3.4:5000@5001,h.example myself,master - 0 0 0 connected 1\n"),
        "{nodes}"
    );
    let text = |client: &mut Client| client.cmd(&["CLUSTER", "SLOTS"]).to_string();
    let slots = text(&mut client);
    for part in ["1.2.3.4", "5000", "hostname", "h.example", "availability-zone", "za"] {
        assert!(slots.contains(part), "{part}: {slots}");
    }
    client.ok(&["CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname"]);
    let slots = text(&mut client);
    assert!(slots.find("h.example") < slots.find("5000") && slots.contains("\"ip\""), "{slots}");
    weft.restart();
    let nodes = weft.client().cmd(&["CLUSTER", "NODES"]).text();
    assert!(nodes.contains(&format!(" :{}@", weft.port())), "the configuration decides: {nodes}");
}
