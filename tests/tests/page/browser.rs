//! A headless Chromium, driven over the pipe of its DevTools protocol, and a page in it.
//!
//! Chromium reads commands from descriptor 3 and writes answers and events to descriptor 4, as JSON that ends with a NUL. So no
//! port and no WebSocket is needed. Methods are described at <https://chromedevtools.github.io/devtools-protocol/>.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weft_testkit::{locate, skipped};
use weft_tests::watched::Watched;

/// Without background services, Chromium connects to nothing but the server.
const OPTIONS: [&str; 14] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--disable-breakpad",
    "--hide-scrollbars",
    "--window-size=1280,900",
    "--remote-debugging-pipe",
];
/// A loaded machine may take long to start a browser.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `is` returns true. A browser on a loaded machine needs more patience than a server does.
#[track_caller]
pub fn until(subject: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < PATIENCE, "timed out: {subject}");
        // The browser needs the CPU for the page.
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A page in a browser of its own. Both end with the test.
pub struct Page {
    browser: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    last_id: u64,
    session: Option<String>,
    /// Errors of scripts, violated policies and failed requests.
    problems: Vec<String>,
    _profile: TempDir,
}

/// Opens the page of a server, if there is a browser, and waits for its first figures.
pub fn open(watched: &Watched) -> Option<Page> {
    let mut page = start()?;
    page.navigate(&format!("http://127.0.0.1:{}/", watched.port));
    page.wait_for_figures();
    Some(page)
}

/// Starts a browser with an empty page. Notes a skipped test if there is none.
pub fn start() -> Option<Page> {
    let Some(program) = locate::program("chromium") else {
        skipped::note_here("no chromium in PATH");
        return None;
    };
    let profile = tempfile::tempdir().expect("a folder");
    // The shell gives the ends of the pipes the numbers that Chromium expects.
    let mut browser = Command::new("sh")
        .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null"#])
        .arg(program)
        .args(OPTIONS)
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg("about:blank")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("Chromium starts");
    let to = browser.stdin.take().expect("a pipe");
    let mut output = BufReader::new(browser.stdout.take().expect("a pipe"));
    let (sender, from) = channel();
    std::thread::spawn(move || {
        let mut message = Vec::new();
        while output.read_until(0, &mut message).is_ok_and(|n| n > 0) {
            message.pop();
            let parsed = serde_json::from_slice(&message).expect("JSON");
            if sender.send(parsed).is_err() {
                return;
            }
            message.clear();
        }
    });
    let mut page = Page {
        browser,
        to,
        from,
        last_id: 0,
        session: None,
        problems: Vec::new(),
        _profile: profile,
    };
    let target = page.call("Target.createTarget", json!({ "url": "about:blank" }));
    let attach = json!({ "targetId": target["targetId"], "flatten": true });
    let attached = page.call("Target.attachToTarget", attach);
    page.session = attached["sessionId"].as_str().map(str::to_owned);
    for domain in ["Page", "Runtime", "Log", "Network"] {
        page.call(&format!("{domain}.enable"), json!({}));
    }
    Some(page)
}

impl Page {
    /// Calls a method and returns its result.
    #[track_caller]
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let bytes = [message.to_string().as_bytes(), &[0]].concat();
        self.to.write_all(&bytes).expect("Chromium lives");
        loop {
            let answer = self.from.recv_timeout(PATIENCE).expect("Chromium answers");
            if answer["id"] == self.last_id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        let is_problem = match event["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Page.javascriptDialogOpening") => true,
            Some("Log.entryAdded") => parameters["entry"]["level"] != "verbose",
            Some("Runtime.consoleAPICalled") => parameters["type"] != "log",
            _ => false,
        };
        if is_problem {
            self.problems.push(parameters.to_string());
        }
    }

    /// The browser's complaints since the last call.
    pub fn take_problems(&mut self) -> Vec<String> {
        std::mem::take(&mut self.problems)
    }

    #[track_caller]
    pub fn navigate(&mut self, url: &str) -> Value {
        self.call("Page.navigate", json!({ "url": url }))
    }

    #[track_caller]
    pub fn wait_for_figures(&mut self) {
        self.until("document.body?.dataset.reading !== undefined");
    }

    /// The value of an expression.
    #[track_caller]
    pub fn js(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    #[track_caller]
    pub fn text(&mut self, expression: &str) -> String {
        let value = self.js(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression}: {value}")).to_owned()
    }

    #[track_caller]
    pub fn number(&mut self, expression: &str) -> f64 {
        let value = self.js(expression);
        value.as_f64().unwrap_or_else(|| panic!("{expression}: {value}"))
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn until(&mut self, expression: &str) {
        until(expression, || self.js(expression) == true);
    }

    /// Waits until an element's exact value is this one.
    #[track_caller]
    pub fn until_value(&mut self, id: &str, value: impl std::fmt::Display) {
        self.until(&format!("document.getElementById('{id}')?.value === '{value}'"));
    }

    /// The exact value of an element.
    #[track_caller]
    pub fn value(&mut self, id: &str) -> f64 {
        let text = self.text(&format!("document.getElementById('{id}').value"));
        text.parse().unwrap_or_else(|_| panic!("{id}: {text:?}"))
    }

    /// Waits for figures that the server has sent after this call.
    #[track_caller]
    pub fn next_reading(&mut self) {
        // The next one may have been requested before.
        for _ in 0..2 {
            let now = self.text("document.body.dataset.reading");
            self.until(&format!("document.body.dataset.reading !== '{now}'"));
        }
    }

    /// The rows of a table: for each, the exact values by the names of their columns.
    #[track_caller]
    pub fn rows(&mut self, table: &str) -> Vec<Value> {
        let script = format!(
            "[...document.querySelectorAll('#{table} tbody tr')].map(row => Object.fromEntries(
                [...row.children].map(cell => [cell.dataset.column, cell.dataset.value])))"
        );
        self.js(&script).as_array().expect("rows").clone()
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str, code: u32, modifiers: u32) {
        for kind in ["rawKeyDown", "char", "keyUp"] {
            // Enter acts by its character.
            if kind == "char" && key != "Enter" {
                continue;
            }
            let text = if kind == "char" { "\r" } else { "" };
            let event = json!({ "type": kind, "key": key, "code": key, "text": text,
                "windowsVirtualKeyCode": code, "modifiers": modifiers });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Sets the width of the window, and whether it is a telephone's.
    pub fn resize(&mut self, width: u32) {
        let metrics =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Sets what the user prefers, such as `prefers-color-scheme`.
    pub fn prefer(&mut self, feature: &str, value: &str) {
        let features = json!({ "features": [{ "name": feature, "value": value }] });
        self.call("Emulation.setEmulatedMedia", features);
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let close = json!({ "id": 0, "method": "Browser.close" });
        let _ = self.to.write_all(&[close.to_string().as_bytes(), &[0]].concat());
        // The answers end when the browser has closed its end of the pipe.
        while self.from.recv_timeout(Duration::from_secs(10)).is_ok() {}
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}
