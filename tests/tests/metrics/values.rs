//! The values are those of INFO.

use std::collections::BTreeMap;
use weft_testkit::Client;
use weft_tests::scene::until;
use weft_tests::watched::{Response, Watched};

fn info(client: &mut Client) -> BTreeMap<String, String> {
    let text = client.cmd(&["INFO", "everything"]).text();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

/// Reads, writes, a key that expires, errors.
fn load(client: &mut Client) {
    for n in 0..500 {
        client.ok(&["SET", &format!("key{n}"), "value"]);
        client.cmd(&["GET", &format!("key{}", n * 2)]);
    }
    client.ok(&["SET", "brief", "x", "PX", "1"]);
    client.ok(&["SET", "long", "x", "EX", "1000"]);
    client.cmd(&["LPUSH", "key1", "x"]);
    client.cmd(&["SELECT", "3"]);
    client.ok(&["SET", "a\"b\\c\n", "x"]);
    client.cmd(&["SELECT", "0"]);
}

#[test]
fn dashboard_of_redis_exporter_has_data() {
    let watched = Watched::start(&[]);
    load(&mut watched.server.client());
    let metrics = watched.metrics();
    let names = include_str!("../../data/redis_exporter_dashboard.txt");
    for name in names.lines().filter(|line| !line.starts_with('#')) {
        let is_sample =
            |line: &&str| line.split(['{', ' ']).next() == Some(name) && !line.starts_with('#');
        let found: Vec<&str> = metrics.body.lines().filter(is_sample).collect();
        assert!(!found.is_empty(), "{name} is missing");
        for line in found {
            let value: f64 = line.rsplit(' ').next().expect("a value").parse().expect("a number");
            assert!(value >= 0.0, "{line}");
        }
    }
    for name in [
        "redis_commands_total{cmd=\"set\"}",
        "redis_commands_duration_seconds_total{cmd=\"get\"}",
        "redis_db_keys{db=\"db0\"}",
        "redis_db_keys{db=\"db3\"}",
        "redis_db_keys_expiring{db=\"db0\"}",
        "redis_net_input_bytes_total",
        "redis_memory_used_bytes",
    ] {
        assert!(metrics.value(name) > 0.0, "{name}");
    }
}

#[test]
fn values_are_those_of_info() {
    let watched = Watched::start(&["--io-threads", "2", "--maxmemory", "1gb"]);
    let mut client = watched.server.client();
    load(&mut client);
    let before = info(&mut client);
    let metrics = watched.metrics();
    let number = |field: &str| before[field].parse::<f64>().expect("a number");
    for (sample, field) in [
        ("redis_keyspace_hits_total", "keyspace_hits"),
        ("redis_keyspace_misses_total", "keyspace_misses"),
        ("redis_connected_clients", "connected_clients"),
        ("redis_memory_max_bytes", "maxmemory"),
        ("redis_connections_received_total", "total_connections_received"),
        ("redis_commands_processed_total", "total_commands_processed"),
        ("redis_total_error_replies", "total_error_replies"),
        ("redis_process_id", "process_id"),
        ("redis_rdb_changes_since_last_save", "rdb_changes_since_last_save"),
        ("redis_master_repl_offset", "master_repl_offset"),
        ("redis_config_maxclients", "maxclients"),
    ] {
        // INFO counts itself when it has replied.
        let own = f64::from(u8::from(field == "total_commands_processed"));
        assert_eq!(metrics.value(sample), number(field) + own, "{sample}");
    }
    let used = metrics.value("redis_memory_used_bytes") / number("used_memory");
    assert!((0.5..2.0).contains(&used), "{used}");
    assert_eq!(metrics.value("redis_rdb_last_bgsave_status"), 1.0);
    assert_eq!(metrics.value("redis_errors_total{err=\"WRONGTYPE\"}"), 1.0);
    assert_eq!(metrics.value("redis_commands_failed_calls_total{cmd=\"lpush\"}"), 1.0);
    assert_eq!(metrics.value("redis_commands_total{cmd=\"get\"}"), 500.0);
    assert!(metrics.body.contains("redis_instance_info{role=\"master\",redis_version=\""));
    check_histogram(&metrics, "get", 500.0);
}

/// Buckets grow to the count, and the sum is that of the commands.
#[track_caller]
fn check_histogram(metrics: &Response, cmd: &str, calls: f64) {
    let name = "redis_commands_latencies_usec";
    let start = format!("{name}_bucket{{cmd=\"{cmd}\",le=\"");
    let of_command = metrics.body.lines().filter_map(|line| line.strip_prefix(&start));
    let buckets: Vec<(&str, f64)> = of_command
        .map(|line| {
            let (bound, value) = line.split_once("\"} ").expect("a bucket");
            (bound, value.parse().expect("a number"))
        })
        .collect();
    assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1), "{buckets:?}");
    assert_eq!(buckets.last(), Some(&("+Inf", calls)));
    assert_eq!(metrics.value(&format!("{name}_count{{cmd=\"{cmd}\"}}")), calls);
    let sum = metrics.value(&format!("{name}_sum{{cmd=\"{cmd}\"}}")) / 1e6;
    let spent = metrics.value(&format!("redis_commands_duration_seconds_total{{cmd=\"{cmd}\"}}"));
    assert!((sum - spent).abs() < 1e-6, "{sum} {spent}");
}

#[test]
fn threads_are_shown() {
    let watched = Watched::start(&["--io-threads", "3", "--enable-debug-command", "yes"]);
    let mut client = watched.server.client();
    load(&mut client);
    let metrics = watched.metrics();
    let of = |name: &str, thread: &str| metrics.value(&format!("{name}{{thread=\"{thread}\"}}"));
    let all = |name: &str| (0..3).map(|n| of(name, &format!("weft-io-{n}"))).sum::<f64>();
    assert!(all("weft_io_thread_requests_total") >= 1000.0);
    assert_eq!(all("weft_io_thread_connections"), 1.0);
    assert!(all("weft_io_thread_iterations_total") >= 1000.0);
    assert!(all("weft_io_thread_active") >= 1.0);
    assert_eq!(all("weft_io_thread_withheld_replies"), 0.0);
    assert!(of("weft_thread_cpu_user_seconds_total", "weft-metrics") >= 0.0);
    assert!(metrics.find("weft_thread_cpu{thread=\"weft-io-0\"}").is_some());
    assert!(metrics.find("weft_thread_node{thread=\"weft-io-0\"}").is_some());
    // A long command goes to the slow lane.
    let before = metrics.value("weft_slow_lane_commands_total");
    client.ok(&["DEBUG", "POPULATE", "200000"]);
    client.cmd(&["KEYS", "*"]);
    let metrics = watched.metrics();
    assert!(metrics.value("weft_slow_lane_commands_total") > before);
    assert!(metrics.value("weft_slow_lane_busy_seconds_total") > 0.0);
    assert_eq!(metrics.value("weft_slow_lane_jobs"), 0.0);
    assert_eq!(metrics.value("weft_snapshot_cuts_total"), 0.0);
    client.ok(&["SAVE"]);
    let metrics = watched.metrics();
    assert_eq!(metrics.value("weft_snapshot_cuts_total"), 1.0);
    let (all, last) = (
        metrics.value("weft_snapshot_cut_seconds_total"),
        metrics.value("weft_snapshot_last_cut_seconds"),
    );
    assert!(all > 0.0 && all == last, "{all} {last}");
}

#[test]
fn replicas_are_shown_on_both_sides() {
    let primary = Watched::start(&[]);
    let port = primary.server.port().to_string();
    let replica = Watched::start(&["--replicaof", "127.0.0.1", &port]);
    while replica.get("/readyz").status != 200 {}
    let metrics = replica.metrics();
    let labels = format!("{{master_host=\"127.0.0.1\",master_port=\"{port}\"}}");
    assert_eq!(metrics.value(&format!("redis_master_link_up{labels}")), 1.0);
    assert!(metrics.body.contains("redis_slave_info{master_host=\"127.0.0.1\""));
    // The primary counts the replica as online when it has acknowledged.
    let is_online = || {
        let body = primary.metrics().body;
        body.contains("redis_connected_slave_lag_seconds{slave_ip=\"127.0.0.1\"")
            && body.contains("slave_state=\"online\"")
    };
    until("the replica is online", is_online);
    assert_eq!(primary.metrics().value("redis_connected_slaves"), 1.0);
}

#[test]
fn certificates_and_cluster_are_missing_without_them() {
    let watched = Watched::start(&[]);
    let body = watched.metrics().body;
    for name in ["redis_tls_certificate_info{", "redis_cluster_state ", "weft_cluster_lease_held "]
    {
        assert!(!body.lines().any(|line| line.starts_with(name)), "{name}");
    }
    let node = Watched::start(&["--cluster-enabled", "yes"]);
    assert_eq!(node.metrics().value("redis_cluster_known_nodes"), 1.0);
    assert_eq!(node.metrics().value("redis_cluster_enabled"), 1.0);
}
