//! Clients that don't log in can't keep others out, and cost little.
//!
//! | variable | meaning |
//! |---|---|
//! | `STRANGERS` | connections without a login in the long test, default 20,000; fewer if descriptors are scarce |

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use weft_testkit::client::encode;
use weft_testkit::{Client, Server};
use weft_tests::env_or;
use weft_tests::scene::{client, info, until};

const PASSWORD: &[&str] = &["--requirepass", "secret"];

fn server(args: &[&str]) -> Server {
    Server::weft(&[PASSWORD, args].concat())
}

fn user(server: &Server) -> Client {
    let mut user = client(server);
    user.ok(&["AUTH", "secret"]);
    user
}

fn stranger(server: &Server) -> TcpStream {
    TcpStream::connect(("127.0.0.1", server.port())).expect("a listener")
}

/// Whether the server has closed the connection.
fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    match { stream }.read(&mut [0; 64]) {
        Ok(n) => n == 0,
        Err(e) => e.kind() != ErrorKind::WouldBlock,
    }
}

fn open(strangers: &[TcpStream]) -> Vec<usize> {
    (0..strangers.len()).filter(|at| !is_closed(&strangers[*at])).collect()
}

fn log_lines(server: &Server) -> usize {
    server.log().matches("had not authenticated").count()
}

#[test]
fn oldest_strangers_are_closed_when_their_share_is_used_up() {
    for threads in ["1", "2"] {
        let limits = ["--maxclients", "100", "--unauthenticated-clients-percent", "10"];
        let threads = ["--io-threads", threads, "--io-threads-always-active", "yes"];
        let server = server(&[&limits[..], &threads].concat());
        let (mut first, mut second) = (user(&server), user(&server));
        let strangers: Vec<TcpStream> = (0..35).map(|_| stranger(&server)).collect();
        until("25 are closed", || open(&strangers).len() == 10);
        assert_eq!(open(&strangers), (25..35).collect::<Vec<_>>(), "the oldest are closed first");
        assert_eq!(info(&mut first, "connected_clients"), 12);
        // A stranger that logs in is none any more, and RESET makes it one again.
        let mut third = user(&server);
        until("it has the place of one", || open(&strangers).len() == 9);
        third.cmd(&["RESET"]);
        third.ok(&["AUTH", "secret"]);
        let more: Vec<TcpStream> = (0..10).map(|_| stranger(&server)).collect();
        until("the old ones are closed", || open(&strangers).is_empty());
        assert_eq!(open(&more).len(), 10);
        for user in [&mut first, &mut second, &mut third] {
            user.ok(&["SET", "k", "v"]);
        }
        until("the log says so", || log_lines(&server) > 0);
    }
}

#[test]
fn strangers_make_room_when_maxclients_is_reached() {
    let server = server(&["--maxclients", "20", "--unauthenticated-clients-percent", "100"]);
    let mut users = vec![user(&server)];
    let strangers: Vec<TcpStream> = (0..19).map(|_| stranger(&server)).collect();
    until("all are there", || info(&mut users[0], "connected_clients") == 20);
    for place in 1..=19 {
        users.push(user(&server));
        until("it takes the place of the oldest", || open(&strangers).len() == 19 - place);
        assert_eq!(open(&strangers), (place..19).collect::<Vec<_>>());
    }
    // As without a password: only users are left.
    let reply = client(&server).try_cmd(&["PING"]);
    if let Ok(reply) = reply {
        assert_eq!(reply.value.error().as_deref(), Some("ERR max number of clients reached"));
    }
    users.iter_mut().for_each(|user| assert_eq!(user.cmd(&["PING"]).text(), "PONG"));
}

#[test]
fn strangers_have_a_limited_time() {
    let server = server(&["--unauthenticated-client-timeout", "1"]);
    let mut user = user(&server);
    let mut reset = self::user(&server);
    // Requests don't extend the time.
    let mut busy = stranger(&server);
    let quiet = stranger(&server);
    until("both are closed", || {
        let _ = busy.write(&encode(&["PING"]));
        is_closed(&quiet) && busy.write(&encode(&["PING"])).is_err()
    });
    assert_eq!(user.cmd(&["PING"]).text(), "PONG");
    assert_eq!(reset.cmd(&["RESET"]).text(), "RESET");
    until("the client is closed after RESET", || info(&mut user, "connected_clients") == 1);
    // Without a limit, and without a password.
    user.ok(&["CONFIG", "SET", "unauthenticated-client-timeout", "0"]);
    let forever = stranger(&server);
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!is_closed(&forever));
    user.ok(&["CONFIG", "SET", "requirepass", "", "unauthenticated-client-timeout", "1"]);
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!is_closed(&forever), "it needs no password");
}

/// Raises the limit of descriptors of this process. Returns it.
fn many_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current.unwrap_or(1 << 20)
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn users_work_while_thousands_never_log_in() {
    let count = env_or("STRANGERS", 20_000).min(many_descriptors() as usize - 200);
    let server = server(&["--io-threads", "2", "--unauthenticated-client-timeout", "0"]);
    let mut admin = user(&server);
    let most = info(&mut admin, "maxclients") as usize;
    let before = info(&mut admin, "used_memory");
    let mut strangers = VecDeque::new();
    for n in 0..count {
        let mut stranger = stranger(&server);
        // Half of them begin a request.
        if n % 2 == 0 {
            let _ = stranger.write(b"*2\r\n$4\r\nAUTH\r\n$16000\r\nxxxxxxxx");
        }
        strangers.push_back(stranger);
        if n % 100 == 0 {
            admin.ok(&["SET", "k", "v"]);
            user(&server).ok(&["SET", "k", "w"]);
        }
    }
    let connected = info(&mut admin, "connected_clients") as usize;
    assert!(connected <= most / 2 + 100, "{connected} of {most}");
    let used = info(&mut admin, "used_memory").saturating_sub(before);
    assert!(used < 20_000 * connected as u64, "{used} bytes for {connected} clients");
    assert_eq!(user(&server).cmd(&["GET", "k"]).text(), "w");
    assert!(server.log().len() < 100_000, "{} bytes of log", server.log().len());
}
