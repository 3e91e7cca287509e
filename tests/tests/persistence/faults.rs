//! Persistence faults found by running servers side by side. Each test failed before its fix.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use weft_testkit::server::free_port;
use weft_testkit::{Client, Server, locate};
use weft_tests::persistence::{PATIENCE, info, until, wait_for_rewrite_end};

const LOG: [&str; 4] = ["--appendonly", "yes", "--enable-debug-command", "yes"];

fn lines_of(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

/// Starts a server in `dir` that must exit by itself.
fn start_in(dir: &Path, options: &[&str]) -> Output {
    let mut server = Command::new(locate::weft());
    server.args(["--port", &free_port().to_string(), "--dir"]).arg(dir).args(options);
    let mut child =
        server.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("the server does not exit");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("the server has exited")
}

/// The run id of the server, once it answers.
fn run_id(server: &Server) -> Option<String> {
    let mut client = Client::try_tcp(server.port()).ok()?;
    let text = client.try_cmd(&["INFO", "server"]).ok()?.value.text();
    text.lines().find_map(|line| line.strip_prefix("run_id:")).map(str::to_owned)
}

fn check_log(dir: &Path, options: &[&str]) -> Output {
    let manifest = dir.join("appendonlydir/appendonly.aof.manifest");
    let mut check = Command::new(locate::weft());
    check.arg("--check-aof").args(options).arg(manifest).stdin(Stdio::null());
    check.output().expect("the check runs")
}

fn get(client: &mut Client, key: &str) -> String {
    client.cmd(&["GET", key]).text()
}

/// Regression: two servers appended to the same files, which did not load after kill -9.
#[test]
fn second_server_does_not_write_the_files_of_the_first() {
    let mut first = Server::weft(&LOG);
    let mut client = first.client();
    client.ok(&["SET", "a", "1"]);
    let refused = start_in(first.dir(), &LOG);
    let owner = format!("in use by process {},", first.pid());
    assert!(!refused.status.success());
    assert!(lines_of(&refused).contains(&owner), "{}", lines_of(&refused));
    client.ok(&["SET", "b", "2"]);
    assert_eq!(client.cmd(&["WAITAOF", "1", "0", "0"]).items()[0].int(), 1);
    // The lock ends with its process, however that exits.
    first.kill();
    first.restart();
    first.wait_until_loaded();
    let mut client = first.client();
    assert_eq!((get(&mut client, "a"), get(&mut client, "b")), ("1".into(), "2".into()));
    let old_run = run_id(&first);
    client.send_raw(b"DEBUG RESTART\r\n").expect("sent");
    until("the restarted server", || run_id(&first).is_some_and(|run| Some(run) != old_run));
    first.wait_until_loaded();
    assert_eq!(get(&mut first.client(), "b"), "2");
    assert!(lines_of(&start_in(first.dir(), &LOG)).contains(&owner_of(&first)));
}

fn owner_of(server: &Server) -> String {
    format!("in use by process {},", server.pid())
}

/// Servers may share a folder for snapshots, which are replaced atomically. An AOF may not start in
/// it.
#[test]
fn aof_does_not_start_in_a_folder_that_another_server_uses() {
    let first = Server::weft(&LOG);
    first.client().ok(&["SET", "a", "1"]);
    let dir = first.dir().to_str().expect("valid UTF-8");
    let second = Server::weft(&["--enable-protected-configs", "yes", "--save", ""]);
    let mut client = second.client();
    // With the AOF off, the folder may be changed.
    client.ok(&["CONFIG", "SET", "dir", dir]);
    let refused = client.cmd(&["CONFIG", "SET", "appendonly", "yes"]).error().expect("refused");
    assert!(
        refused.starts_with("ERR CONFIG SET failed (possibly related to argument 'appendonly')")
    );
    assert_eq!(client.cmd(&["CONFIG", "GET", "appendonly"]).items()[1].text(), "no");
    assert!(second.log().contains(&owner_of(&first)), "{}", second.log());
    // A rewrite does not write a base there either.
    client.cmd(&["BGREWRITEAOF"]);
    wait_for_rewrite_end(&mut client);
    assert_eq!(info(&mut client, "aof_last_bgrewrite_status"), "err");
    // With the AOF on, the change of the folder is refused.
    let own = second.dir().to_str().expect("valid UTF-8");
    client.ok(&["CONFIG", "SET", "dir", own]);
    client.ok(&["CONFIG", "SET", "appendonly", "yes"]);
    wait_for_rewrite_end(&mut client);
    let refused = client.cmd(&["CONFIG", "SET", "dir", dir]).error().expect("refused");
    assert!(refused.contains(&owner_of(&first)), "{refused}");
    assert_eq!(client.cmd(&["CONFIG", "GET", "dir"]).items()[1].text(), own);
    client.cmd(&["BGREWRITEAOF"]);
    wait_for_rewrite_end(&mut client);
    assert_eq!(info(&mut client, "aof_last_bgrewrite_status"), "ok");
    assert_eq!(get(&mut first.client(), "a"), "1");
}

/// Files with different names do not conflict.
#[test]
fn servers_with_different_file_names_share_a_folder() {
    let first = Server::weft(&LOG);
    let dir = first.dir().to_str().expect("valid UTF-8");
    let options = ["--dir", dir, "--appendfilename", "other.aof", "--dbfilename", "other.rdb"];
    let mut second = Server::weft(&[&LOG[..], &options].concat());
    first.client().ok(&["SET", "a", "1"]);
    second.client().ok(&["SET", "a", "2"]);
    for server in [&first, &second] {
        let mut client = server.client();
        client.cmd(&["BGREWRITEAOF"]);
        wait_for_rewrite_end(&mut client);
        assert_eq!(info(&mut client, "aof_last_bgrewrite_status"), "ok");
    }
    // The start of the second server must not remove a file that the first one is writing.
    let unfinished = first.dir().join("appendonlydir/temp-rewriteaof-bg-1.aof");
    std::fs::write(&unfinished, "x").expect("the disk has space");
    second.restart();
    second.wait_until_loaded();
    assert!(unfinished.exists());
    assert_eq!(get(&mut second.client(), "a"), "2");
    assert_eq!(get(&mut first.client(), "a"), "1");
}

/// A repair would truncate a file that a server is writing.
#[test]
fn files_in_use_are_checked_but_not_repaired() {
    let mut server = Server::weft(&LOG);
    server.client().ok(&["SET", "a", "1"]);
    for options in [&["--fix"][..], &["--truncate-to-timestamp", "1"]] {
        let refused = check_log(server.dir(), options);
        assert!(!refused.status.success());
        assert!(lines_of(&refused).contains(&owner_of(&server)), "{}", lines_of(&refused));
    }
    assert!(check_log(server.dir(), &[]).status.success());
    server.stop_term();
    assert!(check_log(server.dir(), &["--fix"]).status.success());
}

/// Regression: a base of commands had no timestamp at its beginning, where tools that truncate at a
/// time expect it.
#[test]
fn base_of_commands_begins_with_its_timestamp() {
    let options = ["--aof-timestamp-enabled", "yes", "--aof-use-rdb-preamble", "no"];
    let mut server = Server::weft(&[&LOG[..], &options].concat());
    let mut client = server.client();
    client.ok(&["SET", "a", "1"]);
    client.cmd(&["BGREWRITEAOF"]);
    wait_for_rewrite_end(&mut client);
    let base = server.dir().join("appendonlydir/appendonly.aof.2.base.aof");
    assert!(std::fs::read(base).expect("the base").starts_with(b"#TS:"));
    assert!(check_log(server.dir(), &[]).status.success());
    server.restart();
    server.wait_until_loaded();
    assert_eq!(get(&mut server.client(), "a"), "1");
}

/// Tools parse these words to find the missing file.
#[test]
fn missing_aof_file_is_named_as_by_valkey() {
    let mut server = Server::weft(&LOG);
    server.client().ok(&["SET", "a", "1"]);
    server.stop_term();
    let name = "appendonly.aof.1.incr.aof";
    std::fs::remove_file(server.dir().join("appendonlydir").join(name)).expect("the file exists");
    let lines = lines_of(&start_in(server.dir(), &LOG));
    let words =
        format!("Unable to obtain the AOF file {name} length. stat: No such file or directory");
    assert!(lines.contains(&words), "{lines}");
}
