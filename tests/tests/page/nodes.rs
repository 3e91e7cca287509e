//! Replicas, the slots of a cluster, and saves.

use crate::browser::open;
use weft_tests::watched::Watched;

#[test]
fn link_of_a_replica_is_shown_on_both_sides() {
    let mut primary = Watched::start(&[]);
    let port = primary.server.port();
    let replica = Watched::start(&["--replicaof", "127.0.0.1", &port.to_string()]);
    let Some(mut page) = open(&replica) else { return };
    page.until("document.getElementById('link')?.value === 'up'");
    assert_eq!(page.text("document.getElementById('role').value"), "replica");
    assert_eq!(page.text("document.getElementById('primary').value"), format!("127.0.0.1:{port}"));
    let mut other = open(&primary).expect("a browser");
    other.until_value("replica-count", 1);
    other.until(
        "document.querySelector('#replicas [data-column=state]')?.dataset.value === 'online'",
    );
    let name = format!("127.0.0.1:{}", replica.server.port());
    assert_eq!(other.rows("replicas")[0]["replica"], *name);
    // Both name the same position.
    primary.server.client().ok(&["SET", "key", "x"]);
    page.until_value("tile-keys", 1);
    other.until("document.querySelector('#replicas td[data-column=lead]').dataset.value === '0'");
    primary.server.kill();
    page.until("document.getElementById('link').value === 'down'");
    page.until("document.getElementById('notice').textContent.includes('not in sync')");
}

#[test]
fn slots_of_a_cluster_are_a_map() {
    let node = Watched::start(&["--cluster-enabled", "yes"]);
    let Some(mut page) = open(&node) else { return };
    let mut client = node.server.client();
    client.ok(&["CLUSTER", "ADDSLOTSRANGE", "0", "99", "200", "5460"]);
    page.until_value("cluster-slots", 5361);
    let runs = page.js("[...document.querySelectorAll('#slots rect[data-first]')].map(r => [Number(r.dataset.first), Number(r.dataset.last)])");
    assert_eq!(runs, serde_json::json!([[0, 99], [200, 5460]]));
    let width = page.number("[...document.querySelectorAll('#slots rect[data-first]')].reduce((sum, r) => sum + Number(r.getAttribute('width')), 0)");
    assert_eq!(width, 5361.0);
    assert_eq!(page.text("document.getElementById('cluster-state').value"), "fail");
    let id = client.cmd(&["CLUSTER", "MYID"]).text();
    let rows = page.rows("cluster-nodes");
    assert_eq!((rows.len(), &rows[0]["slots"]), (1, &"5361".into()));
    assert!(rows[0]["node"].as_str().is_some_and(|name| name.starts_with(&id[..8])), "{}", rows[0]);
    client.ok(&["CLUSTER", "ADDSLOTSRANGE", "100", "199", "5461", "16383"]);
    page.until_value("cluster-slots", 16384);
    page.until("document.getElementById('cluster-state').value === 'ok'");
    page.until("document.querySelectorAll('#slots rect[data-first]').length === 1");
}

#[test]
fn server_without_a_cluster_has_no_map() {
    let watched = Watched::start(&[]);
    let Some(mut page) = open(&watched) else { return };
    assert_eq!(page.js("document.getElementById('cluster').hidden"), true);
    assert_eq!(page.text("document.getElementById('role').value"), "primary");
}

#[test]
fn save_is_shown_with_its_progress() {
    let watched = Watched::start(&["--enable-debug-command", "yes"]);
    let Some(mut page) = open(&watched) else { return };
    let mut client = watched.server.client();
    client.ok(&["DEBUG", "POPULATE", "5000"]);
    client.ok(&["SET", "key", "x"]);
    page.until("Number(document.getElementById('save-changes').value) > 0");
    let before = page.value("save-last");
    // Five seconds in all.
    client.ok(&["CONFIG", "SET", "rdb-key-save-delay", "1000"]);
    client.cmd(&["BGSAVE"]);
    page.until("document.getElementById('save-state').value.startsWith('saving')");
    page.until("document.querySelector('#save-progress progress')?.value > 0");
    assert_eq!(
        page.js("document.getElementById('save-keys').value.endsWith('of 5,001 keys')"),
        true
    );
    page.until("document.getElementById('save-state').value === 'no save runs'");
    page.until_value("save-changes", 0);
    assert_eq!(page.text("document.getElementById('save-status').value"), "ok");
    assert!(page.value("save-last") >= before);
    assert_eq!(page.js("document.querySelector('#save-progress progress') === null"), true);
}

#[test]
fn append_only_file_is_shown() {
    let watched = Watched::start(&["--appendonly", "yes"]);
    let Some(mut page) = open(&watched) else { return };
    assert_eq!(page.text("document.getElementById('aof-state').value"), "on");
    let mut client = watched.server.client();
    client.ok(&["SET", "key", &"x".repeat(10_000)]);
    page.until("Number(document.getElementById('aof-size').value) > 10000");
    assert_eq!(page.text("document.getElementById('aof-status').value"), "ok");
    client.ok(&["CONFIG", "SET", "appendonly", "no"]);
    page.until("document.getElementById('aof-state').value === 'off'");
}
