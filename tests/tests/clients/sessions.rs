//! Unmodified programs and libraries work with the server.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use redis::Commands;
use weft_testkit::{Server, locate, skip_without};

/// Runs a program with a script on its standard input.
fn run(program: &Path, args: &[&str], input: &str) -> Output {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("cannot run {}: {e}", program.display()));
    child
        .stdin
        .take()
        .expect("the input is piped")
        .write_all(input.as_bytes())
        .expect("the program reads its input");
    child.wait_with_output().expect("the program ends")
}

/// Commands as a user types them, with the output that the tool prints when it is not on a
/// terminal.
const SESSION: &[(&str, &str)] = &[
    ("PING", "PONG"),
    ("SET greeting \"hello world\"", "OK"),
    ("GET greeting", "hello world"),
    ("INCRBY n 41", "41"),
    ("INCR n", "42"),
    ("MGET greeting none n", "hello world\n\n42"),
    ("INCR greeting", "ERR value is not an integer or out of range\n"),
    ("GET", "ERR wrong number of arguments for 'get' command\n"),
    ("DEL greeting n", "2"),
    ("SELECT 1", "OK"),
    ("DBSIZE", "0"),
    ("CLIENT GETNAME", ""),
    ("ECHO \"\\x41\"", "A"),
];

#[test]
fn command_line_tools_run_a_session() {
    for program in ["valkey-cli", "redis8-cli", "redis-cli"] {
        let found = locate::peer(program);
        if skip_without(
            &format!("command_line_tools_run_a_session with {program}"),
            &found,
            program,
        ) {
            continue;
        }
        let server = Server::weft(&[]);
        let port = server.port().to_string();
        let input: String = SESSION.iter().map(|(command, _)| format!("{command}\n")).collect();
        for protocol in [None, Some("-3")] {
            let args: Vec<&str> = ["-p", &port].into_iter().chain(protocol).collect();
            let output = run(found.as_deref().expect("not skipped"), &args, &input);
            let printed = String::from_utf8_lossy(&output.stdout);
            let expected: String =
                SESSION.iter().map(|(_, answer)| format!("{answer}\n")).collect();
            assert!(output.status.success(), "{program}: {output:?}");
            assert_eq!(printed, expected, "{program} {args:?}");
        }
    }
}

#[test]
fn command_line_tool_sends_commands_in_bulk() {
    let program = locate::peer("valkey-cli");
    if skip_without("command_line_tool_sends_commands_in_bulk", &program, "valkey-cli") {
        return;
    }
    let server = Server::weft(&[]);
    let input: String = (0..50_000).map(|i| format!("SET key:{i} {i}\r\n")).collect();
    let output =
        run(&program.expect("not skipped"), &["-p", &server.port().to_string(), "--pipe"], &input);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("errors: 0, replies: 50000"), "{printed}");
    assert_eq!(server.client().cmd(&["DBSIZE"]).int(), 50_000);
}

#[test]
fn benchmark_tools_run() {
    for program in ["valkey-benchmark", "redis8-benchmark"] {
        let found = locate::peer(program);
        if skip_without(&format!("benchmark_tools_run with {program}"), &found, program) {
            continue;
        }
        let server = Server::weft(&["--io-threads", "2", "--io-threads-always-active", "yes"]);
        let port = server.port().to_string();
        let args = [
            "-p",
            &port,
            "-n",
            "20000",
            "-c",
            "20",
            "-P",
            "16",
            "-r",
            "1000",
            "-q",
            "-t",
            "ping,set,get,incr,mset",
        ];
        let output = run(found.as_deref().expect("not skipped"), &args, "");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{program}: {output:?}");
        // PING is measured inline and as an array.
        assert_eq!(printed.matches("requests per second").count(), 6, "{printed}");
        assert!(!printed.contains("rror"), "{printed}");
    }
}

#[test]
fn rust_client_library_works() {
    let server = Server::weft(&[]);
    for protocol in ["resp2", "resp3"] {
        let url = format!("redis://127.0.0.1:{}/1?protocol={protocol}", server.port());
        let client = redis::Client::open(url).expect("the address is well formed");
        let mut connection = client.get_connection().expect("the handshake works");
        let () = connection.set("k", "v").expect("SET");
        let value: Option<String> = connection.get("k").expect("GET");
        assert_eq!(value.as_deref(), Some("v"));
        let none: Option<String> = connection.get("none").expect("GET of nothing");
        assert_eq!(none, None);
        let (n, values): (i64, Vec<Option<String>>) = redis::pipe()
            .incr("n", 7)
            .mget(&["k", "none"])
            .query(&mut connection)
            .expect("a pipeline");
        assert_eq!((n, values), (7, vec![Some("v".to_string()), None]));
        let error = redis::cmd("GET").query::<()>(&mut connection).expect_err("GET needs a key");
        assert!(error.to_string().contains("wrong number of arguments"), "{error}");
        let () = redis::cmd("FLUSHDB").query(&mut connection).expect("FLUSHDB");
    }
}
