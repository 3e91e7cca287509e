//! The dashboard of Grafana and the alerts in `packaging/`: a Prometheus that scrapes servers under load answers every query.
//!
//! Prometheus is `prometheus` on `PATH` or `PROMETHEUS_BIN`. The test skips without it.

use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;
use weft_testkit::server::free_port;
use weft_testkit::{Client, locate, skipped};
use weft_tests::scene::until;
use weft_tests::watched::{Response, Watched};

const DASHBOARD: &str = include_str!("../../../packaging/grafana/dashboards/weft.json");
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/prometheus/weft.rules.yml");

/// These have values only on a primary of a cluster with a store.
const NEEDS_ETCD: &str = "weft_cluster_lease_";

/// A query of a panel.
struct Query {
    panel: String,
    expr: String,
}

fn queries() -> Vec<Query> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let of_panel = |panel: &Value| -> Vec<Query> {
        let title = panel["title"].as_str().expect("a title").to_string();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        let expr = |target: &Value| target["expr"].as_str().expect("an expression").to_string();
        targets.iter().map(|t| Query { panel: title.clone(), expr: expr(t) }).collect()
    };
    panels.iter().flat_map(of_panel).collect()
}

/// The expression as Grafana sends it with all jobs and servers selected.
fn with_variables(expr: &str) -> String {
    expr.replace("$job", ".+").replace("$instance", ".+").replace("$__rate_interval", "10s")
}

/// The words of an expression that are names of metrics: at least two parts, and a prefix of ours.
fn metric_names(expr: &str) -> Vec<&str> {
    let words = expr.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("redis_") || word.starts_with("weft_")).collect()
}

#[test]
fn metrics_of_the_dashboard_are_documented() {
    let page = include_str!("../../../docs/metrics.md");
    let queries = queries();
    assert!(queries.len() > 40, "{}", queries.len());
    for Query { panel, expr } in &queries {
        let names = metric_names(expr);
        assert!(!names.is_empty(), "{panel}: {expr}");
        for name in names {
            let name = name.trim_end_matches("_bucket");
            assert!(page.contains(&format!("| `{name}`")), "{panel}: {name} is not in the page");
        }
    }
}

/// Panels of one row of the grid don't overlap, and each has an id of its own: Grafana would move or drop them.
#[test]
fn panels_have_places_of_their_own() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let mut cells = std::collections::BTreeSet::new();
    let mut ids = std::collections::BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{}", panel["title"]);
        let place = |field: &str| panel["gridPos"][field].as_u64().expect("a number");
        for x in place("x")..place("x") + place("w") {
            assert!(x < 24, "{}", panel["title"]);
            for y in place("y")..place("y") + place("h") {
                assert!(cells.insert((x, y)), "{} overlaps", panel["title"]);
            }
        }
    }
}

fn prometheus() -> Option<PathBuf> {
    let chosen = std::env::var_os("PROMETHEUS_BIN").map(PathBuf::from);
    let found = chosen.or_else(|| locate::program("prometheus"));
    if found.is_none() {
        skipped::note_here("needs prometheus");
    }
    found
}

/// A running Prometheus.
struct Prometheus {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Prometheus {
    /// Scrapes these ports of this machine.
    fn start(program: &Path, targets: &[u16]) -> Prometheus {
        let folder = TempDir::with_prefix("weft-prometheus-").expect("a temporary folder");
        let targets: Vec<String> = targets.iter().map(|p| format!("'127.0.0.1:{p}'")).collect();
        let config = format!(
            "global: {{ scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s }}\n\
             rule_files: ['{RULES}']\n\
             scrape_configs:\n- job_name: weft\n  static_configs:\n  - targets: [{}]\n",
            targets.join(", ")
        );
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, config).expect("written");
        let port = free_port();
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn().expect("prometheus starts");
        Prometheus { process, port, _folder: folder }
    }

    /// The JSON of a path of the interface. HTTP 1.0, so that the response is in one piece.
    fn get(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: prometheus\r\n\r\n").ok()?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok()?;
        serde_json::from_str(&Response::parse(&bytes).body).ok()
    }

    /// The values of a query now, without those that are no number. An error of the query fails the test.
    #[track_caller]
    fn query(&self, expr: &str) -> Vec<f64> {
        let encoded: String = expr.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let Some(answer) = self.get(&format!("/api/v1/query?query={encoded}")) else {
            return Vec::new();
        };
        assert_eq!(answer["status"], "success", "{expr}: {answer}");
        let series = answer["data"]["result"].as_array().expect("a vector");
        let values = series.iter().map(|one| one["value"][1].as_str().expect("a value"));
        values.filter_map(|text| text.parse().ok()).filter(|value: &f64| !value.is_nan()).collect()
    }
}

/// Reads, writes, errors, keys that expire, and long commands, until `stop`.
fn load(client: &mut Client, stop: &AtomicBool) {
    client.ok(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    client.ok(&["DEBUG", "POPULATE", "100000"]);
    while !stop.load(Ordering::Relaxed) {
        for n in 0..50 {
            client.ok(&["SET", &format!("key{n}"), "value", "PX", "10000"]);
            client.cmd(&["GET", &format!("key{}", n * 2)]);
        }
        client.cmd(&["LPUSH", "key1", "x"]);
        client.cmd(&["EVAL", "return 1", "0"]);
        client.cmd(&["KEYS", "key:9999?"]);
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn prometheus_answers_every_query_of_the_dashboard() {
    let Some(program) = prometheus() else { return };
    let primary = Watched::start(
        &[
            &["--io-threads", "2", "--maxmemory", "1gb", "--appendonly", "yes"][..],
            &["--enable-debug-command", "yes"],
        ]
        .concat(),
    );
    let port = primary.server.port().to_string();
    let replica = Watched::start(&["--replicaof", "127.0.0.1", &port]);
    let node = Watched::start(&["--cluster-enabled", "yes"]);
    let prometheus = Prometheus::start(&program, &[primary.port, replica.port, node.port]);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        scope.spawn(|| load(&mut primary.server.client(), &stop));
        for Query { panel, expr } in queries() {
            if expr.contains(NEEDS_ETCD) {
                continue;
            }
            let expr = with_variables(&expr);
            until(&format!("data of {panel:?}: {expr}"), || !prometheus.query(&expr).is_empty());
        }
        check_values(&prometheus);
    });
}

/// Ends the load when a check fails, too: the scope waits for its threads.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Some answers whose values are known, and no failed scrape or rule.
fn check_values(prometheus: &Prometheus) {
    let value = |panel: &str| {
        let query = queries().into_iter().find(|query| query.panel == panel).expect("the panel");
        prometheus.query(&with_variables(&query.expr))
    };
    let sum = |panel: &str| value(panel).iter().sum::<f64>();
    assert!(sum("Requests per second") > 0.0);
    assert_eq!(value("Active I/O threads").len(), 3);
    assert_eq!(sum("Replicas"), 1.0);
    let found = sum("Share of reads that find their key");
    assert!((0.01..=1.0).contains(&found), "{found}");
    let quantiles = value("Time of calls, all commands");
    assert!(quantiles.iter().all(|us| (0.1..60e6).contains(us)), "{quantiles:?}");
    let rules = prometheus.get("/api/v1/rules?type=alert").expect("rules");
    let groups = rules["data"]["groups"].as_array().expect("groups");
    let all: Vec<&Value> =
        groups.iter().flat_map(|group| group["rules"].as_array().expect("rules")).collect();
    assert!(all.len() > 20, "{}", all.len());
    for rule in all {
        assert_ne!(rule["health"], "err", "{rule}");
    }
}
