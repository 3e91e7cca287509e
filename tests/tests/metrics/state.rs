//! `/state.json`.

use serde_json::Value;
use weft_tests::watched::{Watched, basic};

fn state(watched: &Watched, headers: &str) -> Value {
    let response = watched.send("GET", "/state.json", headers);
    assert_eq!(response.status, 200, "{}", response.body);
    assert_eq!(response.headers["content-type"], "application/json");
    serde_json::from_str(&response.body).expect("JSON")
}

/// The fields that `docs/metrics.md` describes.
#[test]
fn fields_are_those_of_the_documentation() {
    let watched = Watched::start(&[]);
    let page = include_str!("../../../docs/metrics.md");
    let (_, section) = page.split_once("## state.json").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("the next one");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut described: Vec<&str> = rows.filter_map(|row| Some(row.split_once('`')?.0)).collect();
    described.sort_unstable();
    let found = state(&watched, "");
    let found: Vec<&String> = found.as_object().expect("an object").keys().collect();
    assert_eq!(found, described);
}

#[test]
fn values_are_those_of_the_server() {
    let watched = Watched::start(&["--io-threads", "2", "--slowlog-log-slower-than", "0"]);
    let mut client = watched.server.client();
    client.ok(&["CLIENT", "SETNAME", "somebody"]);
    for n in 0..100 {
        client.ok(&["SET", &format!("secret-key-{n}"), "secret-value"]);
    }
    client.ok(&["SET", "secret-key-0", "x", "EX", "1000"]);
    let state = state(&watched, "");
    assert_eq!(state["version"], 1);
    assert_eq!(state["server"]["ready"], true);
    assert_eq!(state["server"]["tcp_port"], watched.server.port());
    assert_eq!(state["replication"]["role"], "master");
    assert_eq!(state["databases"][0]["keys"], 100);
    assert_eq!(state["databases"][0]["expiring"], 1);
    assert_eq!(state["cluster"], Value::Null);
    let threads = state["io_threads"]["threads"].as_array().expect("threads");
    assert_eq!(threads.len(), 2);
    let sum = |name: &str| threads.iter().map(|t| t[name].as_u64().expect("a number")).sum::<u64>();
    assert_eq!(sum("connections"), 1);
    assert!(sum("requests") >= 102);
    let commands = state["commands"].as_array().expect("commands");
    let set = commands.iter().find(|command| command["name"] == "set").expect("SET");
    assert_eq!(set["calls"], 101);
    let buckets = state["latency"]["buckets"].as_array().expect("buckets");
    assert!(buckets.last().expect("a bucket")[1].as_u64() >= Some(102));
    let clients = state["clients"]["largest"].as_array().expect("clients");
    assert!(clients.iter().any(|client| client["name"] == "somebody"));
    assert!(state["slow_log"].as_array().expect("entries").iter().any(|e| e["name"] == "set"));
    assert!(!state.to_string().contains("secret"), "no keys, no values");
}

/// A user without the right to run CLIENT LIST doesn't see clients.
#[test]
fn clients_are_for_users_who_may_list_them() {
    let watched = Watched::start(&[]);
    let mut client = watched.server.client();
    client.ok(&["ACL", "SETUSER", "monitor", "on", ">pw", "+info"]);
    client.ok(&["ACL", "SETUSER", "admin", "on", ">pw", "+info", "+client|list"]);
    client.ok(&["ACL", "SETUSER", "nobody", "on", ">pw", "+get"]);
    assert_eq!(state(&watched, &basic("monitor", "pw"))["clients"]["largest"], Value::Null);
    assert!(state(&watched, &basic("admin", "pw"))["clients"]["largest"].is_array());
    assert_eq!(watched.send("GET", "/state.json", &basic("nobody", "pw")).status, 403);
}
