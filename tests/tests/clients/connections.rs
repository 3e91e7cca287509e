//! Connections open and close without leaking memory, descriptors or threads.

use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use weft_testkit::client::{PATIENCE, encode};
use weft_testkit::{Client, Server, Value};

/// Connections per wave: far more than threads, below the usual descriptor limit.
const WAVE: usize = 300;
const WAVES: usize = 6;

/// How a client disconnects.
#[derive(Clone, Copy)]
enum Disconnect {
    /// QUIT, with its reply.
    Quit,
    /// Closes its socket between requests.
    Close,
    /// Closes its socket in the middle of a request.
    MidRequest,
    /// Resets the connection with replies not yet read.
    Reset,
    /// Killed by another client.
    Killed,
}

const DISCONNECTS: [Disconnect; 5] = [
    Disconnect::Quit,
    Disconnect::Close,
    Disconnect::MidRequest,
    Disconnect::Reset,
    Disconnect::Killed,
];

/// Waits until `get` returns `wanted`; panics with its last value.
#[track_caller]
fn wait_until<T: PartialEq + std::fmt::Debug>(what: &str, wanted: T, get: impl Fn() -> T) {
    const STEP: Duration = Duration::from_millis(20);
    for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
        if get() == wanted {
            return;
        }
        std::thread::sleep(STEP);
    }
    panic!("{what}: {:?} where {wanted:?} was expected", get());
}

/// The value of `get` once it has not changed for half a second.
fn wait_until_stable<T: PartialEq>(get: impl Fn() -> T) -> T {
    loop {
        let value = get();
        if (0..10).all(|_| {
            std::thread::sleep(Duration::from_millis(50));
            get() == value
        }) {
            return value;
        }
    }
}

fn use_and_disconnect(server: &Server, i: usize, control: &mut Client) {
    let mut client = server.client();
    let key = format!("key:{}", i % 50);
    client.ok(&["SET", &key, &"v".repeat(500)]);
    let half = encode(&["SET", &key, "never arrives"]);
    match DISCONNECTS[i % DISCONNECTS.len()] {
        Disconnect::Quit => {
            client.ok(&["QUIT"]);
            assert_eq!(client.read_to_close().unwrap(), b"");
        }
        Disconnect::Close => drop(client),
        Disconnect::MidRequest => client.send_raw(&half[..half.len() / 2]).unwrap(),
        Disconnect::Reset => {
            client.send_raw(&encode(&["GET", &key]).repeat(200)).unwrap();
            set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        }
        Disconnect::Killed => {
            let id = client.cmd(&["CLIENT", "ID"]).int().to_string();
            client.send_raw(&half[..half.len() / 2]).unwrap();
            assert_eq!(control.cmd(&["CLIENT", "KILL", "ID", &id]), Value::Integer(1));
            assert_eq!(client.read_to_close().unwrap(), b"");
        }
    }
}

fn wave(server: &Server) {
    let mut control = server.client();
    // Open all connections at the same time, then close them in different ways.
    let open: Vec<Client> = (0..WAVE).map(|_| server.client()).collect();
    for (i, mut client) in open.into_iter().enumerate() {
        assert_eq!(client.cmd(&["PING"]).text(), "PONG", "connection {i}");
        use_and_disconnect(server, i, &mut control);
    }
}

#[test]
fn waves_of_connections_leak_nothing() {
    let server = Server::weft(&["--io-threads", "4", "--io-threads-always-active", "yes"]);
    let process = server.process();
    wave(&server);
    // The first wave reaches every thread, so all threads have opened their descriptors. A leak
    // shows as growth in later waves.
    let fds = wait_until_stable(|| process.fds());
    let threads = process.threads();
    // Buffers and pools have the size that a wave needs by now.
    let rss = process.rss();
    for i in 1..WAVES {
        wave(&server);
        wait_until(&format!("descriptors after wave {i}"), fds, || process.fds());
    }
    assert_eq!(process.threads(), threads, "threads");
    let grown = process.rss().saturating_sub(rss);
    // A leak of one 16 KB buffer per connection would be 24 MB.
    assert!(
        grown < 8 << 20,
        "{} waves of {WAVE} connections grew the server by {grown} bytes",
        WAVES - 1
    );
    let mut client = server.client();
    let list = client.cmd(&["CLIENT", "LIST"]).text();
    assert_eq!(list.lines().count(), 1, "{list}");
    assert_eq!(client.cmd(&["DBSIZE"]), Value::Integer(50));
}

#[test]
fn connection_beyond_maxclients_gets_an_error() {
    let server = Server::weft(&["--maxclients", "10"]);
    let mut open: Vec<Client> = Vec::new();
    // The harness's own connection may not be closed yet, so the tenth client may need a retry.
    wait_until("ten clients", 10, || {
        let accepted =
            |mut client: Client| client.try_cmd(&["PING"]).is_ok_and(|r| r.value.error().is_none());
        let fresh: Vec<bool> = (0..10).map(|_| accepted(server.client())).collect();
        fresh.iter().filter(|ok| **ok).count()
    });
    while let Some(mut client) = (open.len() < 10).then(|| server.client()) {
        if client.try_cmd(&["PING"]).is_ok_and(|reply| reply.value.error().is_none()) {
            open.push(client);
        }
    }
    let refused = server.client().read_to_close().expect("closed");
    assert_eq!(String::from_utf8_lossy(&refused), "-ERR max number of clients reached\r\n");
    // The other clients are undisturbed, and a new client can take a slot that becomes free.
    for client in &mut open {
        assert_eq!(client.cmd(&["PING"]).text(), "PONG");
    }
    open.pop();
    wait_until("a free slot", true, || {
        server.client().try_cmd(&["PING"]).is_ok_and(|reply| reply.value.error().is_none())
    });
}

#[test]
fn idle_client_is_closed_after_the_timeout() {
    let server = Server::weft(&["--timeout", "1"]);
    let mut client = server.client();
    client.ok(&["SET", "k", "v"]);
    assert_eq!(client.read_to_close().expect("closed by the server"), b"");
}

#[test]
fn client_that_does_not_read_is_closed_at_its_limit() {
    let limit = "normal 4mb 0 0";
    let server = Server::weft(&["--client-output-buffer-limit", limit]);
    let mut client = server.client();
    client.ok(&["SET", "k", &"v".repeat(1 << 20)]);
    // 100 MB of replies that the client does not read; the socket buffers hold a few of them.
    client.send_raw(&encode(&["GET", "k"]).repeat(100)).unwrap();
    wait_until("clients", 1, || server.client().cmd(&["CLIENT", "LIST"]).text().lines().count());
    assert_eq!(server.client().cmd(&["STRLEN", "k"]), Value::Integer(1 << 20));
}

#[test]
fn sigterm_ends_the_server_with_clients_connected() {
    let mut server = Server::weft(&["--io-threads", "4", "--io-threads-always-active", "yes"]);
    let mut clients: Vec<Client> = (0..50).map(|_| server.client()).collect();
    for client in &mut clients {
        client.ok(&["SET", "k", "v"]);
    }
    let status = server.stop_term();
    assert!(status.success(), "{status}");
    for client in &mut clients {
        assert_eq!(client.read_to_close().expect("closed"), b"");
    }
}
