//! The page is read only, loads nothing from elsewhere, and shows what clients wrote as text.

use crate::browser::{open, until};
use serde_json::Value;
use weft_tests::watched::Watched;

/// The page and its files, as the page names them.
fn files(watched: &Watched) -> Vec<String> {
    let mut files = vec!["/".to_owned()];
    let mut at = 0;
    while let Some(path) = files.get(at) {
        let body = watched.get(path).body;
        // `href="/page/style.css"`, `from "./text.js"`
        for quoted in body.split('"').skip(1).step_by(2) {
            let path = quoted.replace("./", "/page/");
            if path.starts_with("/page/") && !files.contains(&path) {
                files.push(path);
            }
        }
        at += 1;
    }
    files
}

#[test]
fn page_is_small_and_forbids_foreign_code() {
    let watched = Watched::start(&[]);
    let files = files(&watched);
    assert!(files.len() >= 5, "{files:?}");
    let mut bytes = 0;
    for path in &files {
        let response = watched.get(path);
        assert_eq!(response.status, 200, "{path}");
        bytes += response.body.len();
        let policy = &response.headers["content-security-policy"];
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ] {
            assert!(policy.split("; ").any(|found| found == part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(response.headers["x-content-type-options"], "nosniff");
        assert_eq!(response.headers["referrer-policy"], "no-referrer");
        assert_eq!(response.headers["x-frame-options"], "DENY");
    }
    assert!(bytes < 100_000, "{bytes} bytes");
    assert_eq!(watched.get("/page/").status, 404);
    assert_eq!(watched.get("/page/../state_json.rs").status, 404);
}

#[test]
fn only_reading_is_allowed() {
    let watched = Watched::start(&[]);
    for path in ["/", "/page/main.js", "/state.json", "/keys.json"] {
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let response = watched.send(method, path, "Content-Length: 0\r\n");
            assert_eq!(
                (response.status, &*response.headers["allow"]),
                (405, "GET, HEAD"),
                "{method} {path}"
            );
        }
        let head = watched.send("HEAD", path, "");
        assert_eq!((head.status, &*head.body), (200, ""), "{path}");
    }
}

#[test]
fn browser_has_no_complaints_and_loads_nothing_from_elsewhere() {
    let watched = Watched::start(&["--io-threads", "2"]);
    let Some(mut page) = open(&watched) else { return };
    let mut client = watched.server.client();
    client.ok(&["SET", "key", "x"]);
    page.until_value("tile-keys", 1);
    page.next_reading();
    assert_eq!(page.take_problems(), [""; 0]);
    let loaded = page.js("performance.getEntriesByType('resource').map(entry => entry.name)");
    let own = format!("http://127.0.0.1:{}/", watched.port);
    let loaded: Vec<String> = serde_json::from_value(loaded).expect("names");
    assert!(loaded.len() > 5 && loaded.iter().all(|name| name.starts_with(&own)), "{loaded:?}");
    // The policy is in force: neither a script nor a style that is part of the page has an effect.
    page.js(
        "document.body.insertAdjacentHTML('beforeend', '<p id=probe style=\"color: red\" onclick=\"window.ran = 1\">x</p>');
         document.getElementById('probe').click();
         const script = document.createElement('script');
         script.textContent = 'window.ran = 2';
         document.body.append(script)",
    );
    assert_eq!(page.js("window.ran === undefined"), true);
    assert_eq!(
        page.js("getComputedStyle(document.getElementById('probe')).color !== 'rgb(255, 0, 0)'"),
        true
    );
    until("the violations are reported", || {
        page.js("1");
        !page.take_problems().is_empty()
    });
}

#[test]
fn hot_keys_are_shown_as_text() {
    let watched = Watched::start(&["--io-threads", "2"]);
    let Some(mut page) = open(&watched) else { return };
    let mut client = watched.server.client();
    let script = "<script>alert(1)</script>";
    let long = "k".repeat(400);
    let keys: [&[u8]; 4] = [
        script.as_bytes(),
        b"bin\x00\xff\\",
        "<img src=x onerror=alert(2)>".as_bytes(),
        long.as_bytes(),
    ];
    let shown = |page: &mut crate::browser::Page| -> Vec<String> {
        let rows = page.rows("hot-keys");
        rows.iter().map(|row| row["key"].as_str().expect("a key").to_owned()).collect()
    };
    let expected = [script, "bin\\x00\\xff\\\\", "<img src=x onerror=alert(2)>", &long[..256]];
    until("the page shows all keys", || {
        for _ in 0..50 {
            keys.iter().for_each(|key| client.ok(&[b"SET".as_slice(), key, b"x"]));
        }
        let shown = shown(&mut page);
        expected.iter().all(|key| shown.iter().any(|found| found == key))
    });
    assert_eq!(page.js("document.querySelectorAll('#hot-keys script, #hot-keys img').length"), 0);
    let texts =
        page.js("[...document.querySelectorAll('#hot-keys th .value')].map(c => c.textContent)");
    let texts: Vec<String> = serde_json::from_value(texts).expect("texts");
    assert!(texts.iter().any(|text| text == script), "{texts:?}");
    assert!(texts.iter().any(|text| text.ends_with("k…")), "{texts:?}");
    let rows = page.rows("hot-keys");
    let shares = rows
        .iter()
        .map(|row| row["share"].as_str().and_then(|n| n.parse::<f64>().ok()).expect("a share"));
    let sum: f64 = shares.sum();
    assert!(sum > 0.0 && sum <= 1.0 + 1e-9, "{sum}");
    assert_eq!(page.take_problems(), [""; 0]);
}

/// The hottest key is first, with about its share of the requests.
#[test]
fn hottest_key_is_first() {
    let watched = Watched::start(&[]);
    let Some(mut page) = open(&watched) else { return };
    let mut client = watched.server.client();
    until("the page shows the hottest key first", || {
        for n in 0..200 {
            let key = if n % 4 == 0 { format!("cold:{n}") } else { "hot".to_owned() };
            client.cmd(&["GET", &key]);
        }
        let rows = page.rows("hot-keys");
        let share = |row: &Value| row["share"].as_str().and_then(|n| n.parse::<f64>().ok());
        rows.first()
            .is_some_and(|row| row["key"] == "hot" && share(row).is_some_and(|share| share > 0.5))
    });
}

/// Without a reader of `/keys.json`, no thread keeps a key.
#[test]
fn keys_are_sampled_only_while_a_client_asks() {
    let watched = Watched::start(&[]);
    let mut client = watched.server.client();
    for n in 0..500 {
        client.ok(&["SET", &format!("early:{n}"), "x"]);
    }
    let keys = || -> Value { serde_json::from_str(&watched.get("/keys.json").body).expect("JSON") };
    assert_eq!(keys()["samples"], 0.0);
    until("keys are sampled", || {
        for n in 0..50 {
            client.ok(&["SET", &format!("late:{n}"), "x"]);
        }
        keys()["samples"].as_f64() > Some(1.0)
    });
    let text = keys().to_string();
    assert!(text.contains("late:") && !text.contains("early:"), "{text}");
    assert!(!watched.get("/state.json").body.contains("late:"), "keys are in keys.json only");
}
