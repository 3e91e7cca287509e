//! The figures of the page are those of INFO and of the commands that report the same.

use crate::browser::{Page, open, until};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_testkit::Client;
use weft_tests::watched::Watched;

/// A field of INFO.
fn info(client: &mut Client, field: &str) -> String {
    let text = client.cmd(&["INFO", "everything"]).text();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field} in {text}")).trim().to_owned()
}

fn info_number(client: &mut Client, field: &str) -> f64 {
    info(client, field).parse().expect("a number")
}

/// A part `name=value` of a field of INFO.
fn part(value: &str, name: &str) -> String {
    let parts = value.split(',').filter_map(|part| part.split_once('='));
    let (_, value) = parts.clone().find(|(found, _)| *found == name).expect(name);
    value.to_owned()
}

fn column<'a>(rows: &'a [Value], key: (&str, &str), column: &str) -> &'a str {
    let row = rows.iter().find(|row| row[key.0] == key.1).unwrap_or_else(|| panic!("{key:?}"));
    row[column].as_str().expect("a value")
}

#[test]
fn totals_are_those_of_info() {
    let watched = Watched::start(&[]);
    let Some(mut page) = open(&watched) else { return };
    let mut client = watched.server.client();
    for n in 0..250 {
        client.ok(&["SET", &format!("key:{}", n % 100), "value"]);
        client.cmd(&["GET", &format!("key:{n}")]);
    }
    client.cmd(&["NOSUCH"]);
    client.ok(&["SET", "short", "x", "PX", "1"]);
    until("the key expires", || client.cmd(&["EXISTS", "short"]).int() == 0);
    let processed = info_number(&mut client, "total_commands_processed");
    page.until_value("total-keyspace_hits", info(&mut client, "keyspace_hits"));
    page.until_value("total-keyspace_misses", info(&mut client, "keyspace_misses"));
    page.until_value("total-total_error_replies", 1);
    page.until_value("total-expired_keys", info(&mut client, "expired_keys"));
    page.until_value(
        "total-total_connections_received",
        info(&mut client, "total_connections_received"),
    );
    page.next_reading();
    // The five commands INFO since then count, too.
    let shown = page.value("total-total_commands_processed");
    assert!((processed..=processed + 6.0).contains(&shown), "{shown} instead of {processed}");
    assert!(page.value("total-keyspace_hits") >= 100.0);
    let text = page.text("document.getElementById('total-total_commands_processed').textContent");
    assert_eq!(text.replace(',', ""), shown.to_string());
}

#[test]
fn clients_are_counted_and_listed() {
    let watched = Watched::start(&[]);
    let Some(mut page) = open(&watched) else { return };
    let mut clients: Vec<Client> = (0..7).map(|_| watched.server.client()).collect();
    clients[0].ok(&["CLIENT", "SETNAME", "<b>bold</b>"]);
    page.until_value("tile-connections", 7);
    assert_eq!(info(&mut clients[0], "connected_clients"), "7");
    page.until("document.querySelectorAll('#client-table tbody tr').length === 7");
    let rows = page.rows("client-table");
    assert_eq!(column(&rows, ("name", "<b>bold</b>"), "user"), "default");
    assert_eq!(page.js("document.querySelectorAll('#client-table b').length"), 0);
    let sizes: Vec<f64> = rows
        .iter()
        .map(|row| row["bytes"].as_str().and_then(|n| n.parse().ok()).expect("bytes"))
        .collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b) && sizes[6] > 0.0, "{sizes:?}");
    clients.truncate(3);
    page.until_value("tile-connections", 3);
    page.until("document.querySelectorAll('#client-table tbody tr').length === 3");
}

#[test]
fn memory_by_type_is_about_that_of_memory_usage() {
    let watched = Watched::start(&[]);
    let Some(mut page) = open(&watched) else { return };
    let mut client = watched.server.client();
    for n in 0..300 {
        client.ok(&["SET", &format!("text:{n}"), &"x".repeat(1000)]);
        client.cmd(&["SADD", &format!("set:{n}"), "a", "b"]);
    }
    for n in 0..100 {
        client.cmd(&["HSET", &format!("hash:{n}"), "f", &"x".repeat(5000)]);
    }
    let usage =
        |client: &mut weft_testkit::Client, key| client.cmd(&["MEMORY", "USAGE", key]).int() as f64;
    let expected = [
        ("hash", usage(&mut client, "hash:1") * 100.0),
        ("string", usage(&mut client, "text:1") * 300.0),
        ("set", usage(&mut client, "set:1") * 300.0),
    ];
    until("the estimates are near", || {
        let rows = page.rows("type-memory");
        let bytes =
            |row: &serde_json::Value| row["bytes"].as_str().and_then(|n| n.parse::<f64>().ok());
        let is_near = |(row, (name, exact)): (&serde_json::Value, &(&str, f64))| {
            row["type"] == *name && bytes(row).is_some_and(|n| (n / exact - 1.0).abs() < 0.3)
        };
        rows.len() == 3 && rows.iter().zip(&expected).all(is_near)
    });
}

#[test]
fn memory_is_that_of_info_and_its_parts_add_up() {
    let watched = Watched::start(&["--maxmemory", "512mb", "--maxmemory-policy", "allkeys-lru"]);
    let Some(mut page) = open(&watched) else { return };
    let mut client = watched.server.client();
    let value = vec![b'x'; 4 << 20];
    for n in 0..4 {
        client.ok(&[b"SET".as_slice(), format!("key:{n}").as_bytes(), &value]);
    }
    page.until("Number(document.getElementById('memory-used').value) > 16 << 20");
    let data = "[...document.querySelectorAll('#memory-bar data')].map(part => Number(part.value))";
    let exact = |id: &str| format!("Number(document.getElementById('{id}').value)");
    for (shown, field) in [
        (exact("memory-used"), "used_memory"),
        (exact("memory-peak"), "used_memory_peak"),
        (exact("tile-memory"), "used_memory"),
        (format!("{data}[0]"), "used_memory_dataset"),
    ] {
        // Buffers of clients come and go between the two readings.
        until(field, || {
            (page.number(&shown) - info_number(&mut client, field)).abs() < f64::from(1 << 16)
        });
    }
    assert_eq!(page.value("memory-limit"), f64::from(512 << 20));
    assert_eq!(page.text("document.getElementById('memory-policy').value"), "allkeys-lru");
    let sum = format!(
        "{data}.reduce((a, b) => a + b) - Math.max(Number(document.getElementById('memory-used').value),
            Number(document.getElementById('memory-rss').value))"
    );
    assert!(page.number(&sum).abs() < f64::from(1 << 16), "parts add up to the resident memory");
}

#[test]
fn keys_are_those_of_the_databases() {
    let watched = Watched::start(&[]);
    let Some(mut page) = open(&watched) else { return };
    let mut client = watched.server.client();
    for n in 0..30 {
        client.ok(&["SET", &format!("key:{n}"), "x"]);
    }
    client.ok(&["SELECT", "9"]);
    for n in 0..12 {
        client.ok(&["SET", &format!("key:{n}"), "x", "EX", "1000"]);
    }
    page.until_value("tile-keys", 42);
    let rows = page.rows("databases");
    let shown: Vec<[&str; 3]> = rows
        .iter()
        .map(|row| ["db", "keys", "expiring"].map(|c| row[c].as_str().expect(c)))
        .collect();
    assert_eq!(shown, [["0", "30", "0"], ["9", "12", "12"]]);
    client.ok(&["FLUSHALL"]);
    page.until_value("tile-keys", 0);
    page.until("document.querySelector('#databases table').hidden");
}

#[test]
fn commands_have_the_counts_of_info() {
    let watched = Watched::start(&["--slowlog-log-slower-than", "0"]);
    let Some(mut page) = open(&watched) else { return };
    let mut client = watched.server.client();
    for n in 0..321 {
        client.cmd(&["RPUSH", "list", &n.to_string()]);
    }
    for _ in 0..123 {
        client.cmd(&["LRANGE", "list", "0", "-1"]);
    }
    client.cmd(&["INCR", "list"]);
    page.until("[...document.querySelectorAll('#command-table tbody tr')].some(row => row.textContent.includes('incr'))");
    let rows = page.rows("command-table");
    for name in ["rpush", "lrange", "incr"] {
        let stat = info(&mut client, &format!("cmdstat_{name}"));
        assert_eq!(column(&rows, ("command", name), "calls"), part(&stat, "calls"), "{name}");
        assert_eq!(
            column(&rows, ("command", name), "failed"),
            part(&stat, "failed_calls"),
            "{name}"
        );
    }
    assert_eq!(column(&rows, ("command", "lrange"), "calls"), "123");
    // By time, then by calls after a click.
    let order = |page: &mut Page, name: &str| -> Vec<f64> {
        let number =
            |row: &Value| row[name].as_str().and_then(|n| n.parse().ok()).expect("a number");
        page.rows("command-table").iter().map(number).collect()
    };
    assert!(order(&mut page, "seconds").is_sorted_by(|a, b| a >= b));
    page.js("[...document.querySelectorAll('#command-table .sort')].find(b => b.textContent === 'Calls').click()");
    assert!(order(&mut page, "calls").is_sorted_by(|a, b| a >= b));
    assert_eq!(
        page.js("document.querySelectorAll('#command-table [aria-sort=descending]').length"),
        1
    );
    // Entries of SLOWLOG by their time.
    client.ok(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]);
    let log = client.cmd(&["SLOWLOG", "GET", "16"]);
    let newest = log.items()[0].items()[0].int().to_string();
    page.until(&format!("[...document.querySelectorAll('#slow-log [data-column=id]')].some(c => c.dataset.value === '{newest}')"));
    let shown = page.rows("slow-log");
    for entry in log.items().iter().map(|entry| entry.items()) {
        let id = entry[0].int().to_string();
        assert_eq!(column(&shown, ("id", id.as_str()), "us"), entry[2].int().to_string());
    }
}

/// Sends commands until it is dropped.
struct Load<'a>(&'a AtomicBool);

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn rate_and_latency_follow_the_load() {
    let watched = Watched::start(&[]);
    let Some(mut page) = open(&watched) else { return };
    page.until("document.getElementById('tile-rate').value === '0'");
    let ended = AtomicBool::new(false);
    let mut client = watched.server.client();
    std::thread::scope(|scope| {
        let load = Load(&ended);
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                client.ok(&["SET", "key", "value"]);
            }
        });
        page.until("Number(document.getElementById('tile-rate').value) > 20");
        page.until("Number(document.getElementById('tile-p99').value) > 0");
        // The chart ends with the value of the tile, and percentiles ascend.
        let ends = "Number(document.querySelector('#chart-rate [data-line=rate]').dataset.value)
            === Number(document.getElementById('tile-rate').value)";
        assert_eq!(page.js(ends), true);
        let lines = page.js(
            "[...document.querySelectorAll('#chart-latency b')].map(b => Number(b.dataset.value))",
        );
        let lines: Vec<f64> = serde_json::from_value(lines).expect("numbers");
        assert!(lines[0] > 0.0 && lines.is_sorted(), "{lines:?}");
        page.until("document.querySelector('#chart-rate .plot path.line').getTotalLength() > 0");
        page.until("document.querySelector('#chart-rate .plot').getAttribute('aria-label').includes('requests/s')");
        drop(load);
    });
    page.until("document.getElementById('tile-rate').value === '0'");
    assert_eq!(page.text("document.getElementById('tile-p99').textContent"), "–");
}

#[test]
fn threads_are_those_of_info() {
    let watched = Watched::start(&["--io-threads", "3", "--enable-debug-command", "yes"]);
    let Some(mut page) = open(&watched) else { return };
    let mut client = watched.server.client();
    client.ok(&["DEBUG", "ACTIVE-THREADS", "2"]);
    let mut others: Vec<Client> = (0..6).map(|_| watched.server.client()).collect();
    others.iter_mut().for_each(|client| client.ok(&["SET", "key", "x"]));
    page.until("[...document.querySelectorAll('#io-threads [data-column=state]')].filter(c => c.textContent === 'active').length === 2");
    page.until("[...document.querySelectorAll('#io-threads td[data-column=connections]')].reduce((sum, c) => sum + Number(c.dataset.value), 0) === 7");
    let rows = page.rows("io-threads");
    assert_eq!(rows.len(), 3);
    for (n, row) in rows.iter().enumerate() {
        let thread = info(&mut client, &format!("io_thread_{n}"));
        assert_eq!(row["thread"], format!("weft-io-{n}"));
        assert_eq!(row["state"] == "active", part(&thread, "active") == "1", "{thread}");
        assert_eq!(row["connections"], *part(&thread, "connections"), "{thread}");
    }
    // Each active thread is on the card of the CPU that its row names.
    let places = "[...document.querySelectorAll('#io-threads tbody tr')].every(row => {
        const cell = name => row.querySelector(`[data-column=${name}]`).dataset.value;
        const card = document.querySelector(`.cpu[data-cpu='${cell('cpu')}']`);
        const name = cell('thread').replace('weft-', '');
        return cell('state') !== 'active' || [...card.querySelectorAll('.name')].some(n => n.textContent === name);
    })";
    page.until(places);
    // All CPUs of the machine are on their nodes.
    let state: Value = serde_json::from_str(&watched.get("/state.json").body).expect("JSON");
    let cpus = state["machine"]["cpus"].as_array().expect("CPUs");
    assert!(!cpus.is_empty());
    for cpu in cpus.iter().take(16) {
        let card = format!(
            "document.querySelector(\"[data-node='{}'] [data-cpu='{}']\") !== null",
            cpu["node"], cpu["cpu"]
        );
        assert_eq!(page.js(&card), true, "{cpu}");
    }
}

#[test]
fn changes_of_the_number_of_threads_have_reasons() {
    let watched = Watched::start(&["--io-threads", "3", "--enable-debug-command", "yes"]);
    let Some(mut page) = open(&watched) else { return };
    let mut client = watched.server.client();
    client.ok(&["DEBUG", "ACTIVE-THREADS", "3"]);
    client.ok(&["DEBUG", "ACTIVE-THREADS", "1"]);
    client.ok(&["DEBUG", "ACTIVE-THREADS", "2"]);
    page.until(
        "document.querySelector('#changes [data-column=change] .value')?.textContent === '1 → 2'",
    );
    let rows = page.rows("changes");
    let changes: Vec<&str> = rows.iter().take(3).filter_map(|row| row["change"].as_str()).collect();
    assert_eq!(changes, ["1 → 2", "3 → 1", "1 → 3"]);
    assert_eq!(rows[0]["reason"], "DEBUG ACTIVE-THREADS");
}

#[test]
fn paused_page_keeps_its_figures() {
    let watched = Watched::start(&[]);
    let Some(mut page) = open(&watched) else { return };
    page.js("document.getElementById('pause').click()");
    let mut client = watched.server.client();
    client.ok(&["SET", "key", "x"]);
    assert_eq!(page.text("document.getElementById('pause').getAttribute('aria-pressed')"), "true");
    page.until("document.getElementById('state').textContent === 'paused'");
    let reading = page.text("document.body.dataset.reading");
    // A page that isn't paused would have changed by the time that another one shows the key.
    let mut other = open(&watched).expect("a browser");
    other.until_value("tile-keys", 1);
    other.next_reading();
    assert_eq!(page.text("document.body.dataset.reading"), reading);
    assert_eq!(page.value("tile-keys"), 0.0);
    page.js("document.getElementById('pause').click()");
    page.until_value("tile-keys", 1);
}
