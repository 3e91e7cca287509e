//! The append-only file starts while the server runs, restarts after a load, or starts for the
//! first time: earlier writes and loaded data survive a crash.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use weft_testkit::server::free_port;
use weft_testkit::{Client, Server, locate};
use weft_tests::persistence::{info, until};

const ON: [&str; 4] = ["--appendonly", "yes", "--enable-debug-command", "yes"];

/// Waits until there were `wanted` rewrites, and checks that the last one succeeded.
fn wait_for_rewrites(client: &mut Client, wanted: u64) {
    until("the rewrite", || {
        let rewrites = info(client, "aof_rewrites").parse::<u64>().expect("a number");
        rewrites >= wanted && info(client, "aof_rewrite_in_progress") == "0"
    });
    assert_eq!(info(client, "aof_last_bgrewrite_status"), "ok");
}

/// All keys with their values, sorted.
fn keys(client: &mut Client) -> String {
    let mut all: Vec<String> = Vec::new();
    for key in client.cmd(&["KEYS", "*"]).items() {
        let key = key.text();
        let value = client.cmd(&["GET", &key]).text();
        all.push(format!("{key}={value}"));
    }
    all.sort();
    all.join(" ")
}

/// The keys after a crash and a restart of the server.
fn keys_after_a_crash(mut server: Server) -> String {
    server.kill();
    server.restart();
    server.wait_until_loaded();
    keys(&mut server.client())
}

#[test]
fn data_loaded_by_debug_reload_is_in_the_aof() {
    for (options, expected) in [
        (&["NOSAVE"][..], "a=1 later=x"),
        (&["NOSAVE", "NOFLUSH", "MERGE"], "a=1 b=1 later=x"),
        // All data are saved and loaded again.
        (&[], "a=2 b=1 later=x"),
    ] {
        let server = Server::weft(&ON);
        let mut client = server.client();
        client.ok(&["SET", "a", "1"]);
        client.ok(&["SAVE"]);
        client.ok(&["SET", "a", "2"]);
        client.ok(&["SET", "b", "1"]);
        client.ok(&[&["DEBUG", "RELOAD"], options].concat());
        client.ok(&["SET", "later", "x"]);
        assert_eq!(keys(&mut client), expected, "{options:?}");
        wait_for_rewrites(&mut client, u64::from(!options.is_empty()));
        assert_eq!(client.cmd(&["WAITAOF", "1", "0", "0"]).items()[0].int(), 1);
        assert_eq!(keys_after_a_crash(server), expected, "{options:?}, after a crash");
    }
}

/// A rewrite is running when other data are loaded. Its result must not be used.
#[test]
fn rewrite_of_replaced_data_is_discarded() {
    let delay = ["--rdb-key-save-delay", "20000", "--save", ""];
    let server = Server::weft(&[&ON[..], &delay].concat());
    let mut client = server.client();
    client.ok(&["SET", "a", "1"]);
    client.ok(&["SAVE"]);
    (0..50).for_each(|n| client.ok(&["SET", &format!("k{n}"), "v"]));
    assert!(client.cmd(&["BGREWRITEAOF"]).error().is_none());
    until("the rewrite", || info(&mut client, "aof_rewrite_in_progress") == "1");
    client.ok(&["DEBUG", "RELOAD", "NOSAVE"]);
    client.ok(&["SET", "b", "2"]);
    wait_for_rewrites(&mut client, 2);
    assert_eq!(client.cmd(&["WAITAOF", "1", "0", "0"]).items()[0].int(), 1);
    assert_eq!(keys_after_a_crash(server), "a=1 b=2");
}

/// An EXEC switches the AOF on in its middle: the writes before and after that are kept.
#[test]
fn transaction_that_switches_the_aof_on_loses_nothing() {
    let server = Server::weft(&["--save", ""]);
    let mut client = server.client();
    client.ok(&["SET", "a", "1"]);
    client.ok(&["MULTI"]);
    for command in
        [&["SET", "b", "2"][..], &["CONFIG", "SET", "appendonly", "yes"], &["SET", "c", "3"]]
    {
        assert_eq!(client.cmd(command).text(), "QUEUED");
    }
    assert_eq!(client.cmd(&["EXEC"]).items().len(), 3);
    client.ok(&["SET", "d", "4"]);
    until("the AOF", || info(&mut client, "aof_enabled") == "1");
    wait_for_rewrites(&mut client, 1);
    assert_eq!(client.cmd(&["WAITAOF", "1", "0", "0"]).items()[0].int(), 1);
    let mut server = server;
    server.kill();
    server.restart_loading(&["--save", "", "--appendonly", "yes"]);
    server.wait_until_loaded();
    assert_eq!(keys(&mut server.client()), "a=1 b=2 c=3 d=4");
}

/// A process that is killed on drop.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server without data never reports LOADING, however early a client connects.
#[test]
fn empty_server_is_never_loading() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let mut command = Command::new(locate::weft());
        command.args(["--port", &port.to_string(), "--dir"]).arg(folder.path());
        command.args(["--appendonly", "yes", "--save", ""]).stdout(Stdio::null());
        let mut child = KillOnDrop(command.spawn().expect("the server's own program runs"));
        let mut connected = None;
        until("the server", || {
            connected = TcpStream::connect(("127.0.0.1", port)).ok();
            connected.is_some()
        });
        let mut connected = connected.expect("the server accepts");
        let mut answer = [0; 5];
        let attempt =
            connected.write_all(b"SET a 1\r\n").and_then(|()| connected.read_exact(&mut answer));
        let ended = child.0.try_wait().expect("the child can be polled");
        attempt.unwrap_or_else(|e| panic!("{e} from {connected:?}, with the server {ended:?}"));
        assert_eq!(String::from_utf8_lossy(&answer), "+OK\r\n");
    }
}

/// The process executes itself again. After DEBUG RESTART all data are there, after DEBUG
/// CRASH-AND-RECOVER only the data on disk.
#[test]
fn debug_restarts_the_server() {
    let server = Server::weft(&["--save", "3600 1000000", "--enable-debug-command", "yes"]);
    let mut client = server.client();
    let again = |word: &str| {
        let mut client = server.client();
        // The connection is closed or reset.
        let _ = client.try_cmd(&["DEBUG", word, "10"]);
        let mut attempt = None;
        until("the server", || {
            attempt = Client::try_tcp(server.port()).ok();
            attempt.as_mut().is_some_and(|client| {
                // The server answers once it has loaded its data.
                client.try_cmd(&["DBSIZE"]).is_ok_and(|reply| reply.value.error().is_none())
            })
        });
        attempt.expect("the server accepts")
    };
    let run_id = |client: &mut Client| {
        let text = client.cmd(&["INFO", "server"]).text();
        let find = |field: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
            line.expect("the field is listed").to_string()
        };
        (find("run_id"), find("process_id"))
    };
    client.ok(&["SET", "a", "1"]);
    let first = run_id(&mut client);
    let mut client = again("RESTART");
    assert_eq!(keys(&mut client), "a=1");
    let second = run_id(&mut client);
    assert!(first.0 != second.0 && first.1 == second.1, "{first:?}, {second:?}");
    client.ok(&["SET", "b", "2"]);
    let mut client = again("CRASH-AND-RECOVER");
    assert_eq!(keys(&mut client), "a=1");
    let third = run_id(&mut client);
    assert!(second.0 != third.0 && second.1 == third.1, "{second:?}, {third:?}");
}

/// The AOF is switched on and the server shuts down. The next start loads the earlier data, too.
#[test]
fn first_base_is_complete_when_the_server_has_exited() {
    for how in ["SHUTDOWN NOSAVE", "SIGTERM"] {
        let mut server = Server::weft(&["--save", "", "--enable-debug-command", "yes"]);
        let mut client = server.client();
        client.ok(&["DEBUG", "POPULATE", "300000"]);
        client.ok(&["CONFIG", "SET", "appendonly", "yes"]);
        until("the AOF", || info(&mut client, "aof_enabled") == "1");
        client.ok(&["SET", "last", "v"]);
        match how {
            "SIGTERM" => assert!(server.stop_term().success()),
            _ => {
                assert!(client.try_cmd(&["SHUTDOWN", "NOSAVE"]).is_err(), "the server exits");
                server.wait();
            }
        }
        server.restart_loading(&["--appendonly", "yes"]);
        server.wait_until_loaded();
        assert_eq!(server.client().cmd(&["DBSIZE"]).int(), 300_001, "{how}");
    }
}
