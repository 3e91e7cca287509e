//! A server with `metrics-port`, and a client of HTTP for it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use weft_testkit::Server;
use weft_testkit::server::free_port;

/// A response.
pub struct Response {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Response {
    /// Parses a complete response.
    ///
    /// # Panics
    /// If it is none.
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
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
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
