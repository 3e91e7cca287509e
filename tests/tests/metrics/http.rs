//! A client of HTTP, and what it gets for each path and method.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use weft_testkit::{Server, server::free_port};

/// A response.
pub struct Response {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Response {
    /// Parses a complete response.
    #[track_caller]
    pub fn parse(bytes: &[u8]) -> Response {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        Response {
            status: status.expect("a status"),
            headers: headers.map(|(name, value)| (name.to_lowercase(), value.into())).collect(),
            body: body.into(),
        }
    }

    /// The value of a sample with exactly these labels.
    pub fn find(&self, sample: &str) -> Option<f64> {
        let mut lines = self.body.lines().filter_map(|line| line.rsplit_once(' '));
        lines.find(|(name, _)| *name == sample).map(|(_, value)| value.parse().expect("a number"))
    }

    #[track_caller]
    pub fn value(&self, sample: &str) -> f64 {
        self.find(sample).unwrap_or_else(|| panic!("no {sample} in {}", self.body))
    }
}

/// A server that serves metrics.
pub struct Watched {
    pub server: Server,
    pub port: u16,
}

impl Watched {
    #[track_caller]
    pub fn start(args: &[&str]) -> Watched {
        // Another process may take the port before the server does.
        let port = free_port();
        let text = port.to_string();
        let server = Server::weft(&[&["--metrics-port", &text], args].concat());
        Watched { server, port }
    }

    /// Sends these bytes, and reads until the server closes the connection.
    #[track_caller]
    pub fn raw(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        // The server may close or reset a connection whose request it has not read to the end.
        let _ = stream.write_all(request);
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        response
    }

    #[track_caller]
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        stream
    }

    #[track_caller]
    pub fn send(&self, method: &str, path: &str, headers: &str) -> Response {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: weft\r\n{headers}\r\n");
        Response::parse(&self.raw(request.as_bytes()))
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Response {
        self.send("GET", path, "")
    }

    #[track_caller]
    pub fn metrics(&self) -> Response {
        let response = self.get("/metrics");
        assert_eq!(response.status, 200, "{}", response.body);
        response
    }
}

/// The header for a user.
pub fn basic(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", base64(format!("{user}:{password}").as_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |n: usize| u32::from(chunk.get(n).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for n in 0..4 {
            match n <= chunk.len() {
                true => text.push(char::from(ALPHABET[(bits >> (18 - 6 * n)) as usize & 63])),
                false => text.push('='),
            }
        }
    }
    text
}

#[test]
fn paths_and_methods_have_their_status() {
    let watched = Watched::start(&[]);
    for (path, status) in [
        ("/healthz", 200),
        ("/readyz", 200),
        ("/metrics", 200),
        ("/metrics?x=1", 200),
        ("/nosuch", 404),
        ("/metrics/", 404),
        ("//metrics", 404),
        ("/%6detrics", 404),
    ] {
        assert_eq!(watched.get(path).status, status, "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "NOSUCH"] {
        let response = watched.send(method, "/metrics", "Content-Length: 0\r\n");
        assert_eq!(response.status, 405, "{method}");
        assert_eq!(response.headers["allow"], "GET, HEAD");
    }
    let head = watched.send("HEAD", "/metrics", "");
    assert_eq!((head.status, &*head.body), (200, ""));
    assert!(head.headers["content-length"].parse::<usize>().expect("a number") > 10_000);
    let old = Response::parse(&watched.raw(b"GET /healthz HTTP/1.0\r\n\r\n"));
    assert_eq!((old.status, &*old.body), (200, "ok\n"));
}

#[test]
fn format_follows_accept() {
    let watched = Watched::start(&[]);
    let plain = watched.metrics();
    assert_eq!(plain.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert!(plain.body.contains("# TYPE redis_keyspace_hits_total counter\n"));
    assert!(plain.body.contains("# TYPE redis_total_error_replies untyped\n"));
    assert!(!plain.body.contains("# EOF") && !plain.body.contains("# UNIT"));
    let accept = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3\r\n";
    let open = watched.send("GET", "/metrics", accept);
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(open.headers["content-type"], content_type);
    assert!(open.body.contains("# TYPE redis_keyspace_hits counter\n"));
    assert!(open.body.contains("# UNIT redis_memory_used_bytes bytes\n"));
    assert!(open.body.ends_with("# EOF\n"));
    // Both have the same samples.
    let names = |response: &Response| -> Vec<String> {
        let lines = response.body.lines().filter(|line| !line.starts_with('#'));
        let mut names: Vec<String> =
            lines.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect();
        names.sort();
        names.retain(|name| !name.contains("cmd=\"info\"") && !name.contains("le="));
        names
    };
    assert_eq!(names(&plain), names(&open));
}

#[test]
fn without_port_there_is_no_thread() {
    let off = Server::weft(&[]);
    let on = Watched::start(&[]);
    let has_thread = |server: &Server| {
        let tasks = format!("/proc/{}/task", server.pid());
        let tasks = std::fs::read_dir(tasks).expect("the process lives").filter_map(Result::ok);
        let mut names =
            tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.any(|name| name.trim() == "weft-metrics")
    };
    let sockets = |server: &Server| {
        let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("the process");
        let links = open.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        let own: Vec<String> = links.filter_map(|link| Some(link.to_str()?.to_owned())).collect();
        let listening = std::fs::read_to_string("/proc/net/tcp").expect("sockets");
        // State 0A is LISTEN; the tenth field is the inode.
        let inodes = listening.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            (fields.get(3) == Some(&"0A")).then(|| format!("socket:[{}]", fields[9]))
        });
        inodes.filter(|inode| own.contains(inode)).count()
    };
    assert!(!has_thread(&off) && has_thread(&on.server));
    assert_eq!((sockets(&off), sockets(&on.server)), (1, 2));
}
