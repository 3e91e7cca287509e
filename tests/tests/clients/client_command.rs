//! CLIENT and MONITOR across connections: what one client does to another.
//!
//! Each test also runs against the reference, to prove that its expectations are right.

use weft_testkit::{Client, Server, skip_without};

/// Runs `check` on this server, with several I/O threads, and on the reference.
fn on_both(test: &str, check: impl Fn(&Server)) {
    check(&Server::weft(&["--io-threads", "3", "--io-threads-always-active", "yes"]));
    let reference = Server::valkey(&[]);
    if !skip_without(test, &reference, "valkey-server") {
        check(&reference.expect("not skipped"));
    }
}

fn id(client: &mut Client) -> String {
    client.cmd(&["CLIENT", "ID"]).int().to_string()
}

fn assert_closed(client: &mut Client) {
    let answer = client.try_cmd(&["PING"]);
    assert!(answer.is_err(), "the connection is still open: {answer:?}");
}

#[test]
fn client_reply_suppresses_replies() {
    on_both("client_reply_suppresses_replies", |server| {
        let mut client = server.client();
        let silent: [&[&str]; 7] = [
            &["CLIENT", "REPLY", "SKIP"],
            &["PING", "skipped"],
            &["CLIENT", "REPLY", "SKIP"],
            &["CLIENT", "REPLY", "SKIP"],
            &["NOSUCH"],
            &["CLIENT", "REPLY", "OFF"],
            &["CLIENT", "REPLY", "SKIP"],
        ];
        for request in silent {
            client.send_raw(&weft_testkit::client::encode(request)).expect("writable");
        }
        client.send_raw(b"PING off\r\n").expect("writable");
        assert!(client.cmd(&["CLIENT", "REPLY", "ON"]).is_ok());
        assert_eq!(client.cmd(&["PING", "on"]).text(), "on");
        client.send_raw(b"CLIENT REPLY OFF\r\n").expect("writable");
        assert_eq!(client.cmd(&["RESET"]).text(), "RESET");
    });
}

#[test]
fn killed_client_executes_nothing_more() {
    on_both("killed_client_executes_nothing_more", |server| {
        let mut killer = server.client();
        for round in 0..20 {
            let (mut victim, name) = (server.client(), format!("victim-{round}"));
            victim.ok(&["CLIENT", "SETNAME", &name]);
            let number = id(&mut victim);
            assert_eq!(killer.cmd(&["CLIENT", "KILL", "NAME", &name, "NOT-ID", &number]).int(), 0);
            assert_eq!(killer.cmd(&["CLIENT", "KILL", "NAME", &name, "ID", &number]).int(), 1);
            // The socket may refuse the request already.
            let _ = victim.send_raw(format!("SET {name} alive\r\n").as_bytes());
            assert_eq!(killer.cmd(&["CLIENT", "LIST", "ID", &number]).text(), "");
            assert_closed(&mut victim);
            assert_eq!(killer.cmd(&["EXISTS", &name]).int(), 0);
        }
        let me = id(&mut killer);
        assert_eq!(killer.cmd(&["CLIENT", "KILL", "ID", &me]).int(), 0);
        assert_eq!(killer.cmd(&["CLIENT", "KILL", "ID", &me, "SKIPME", "NO"]).int(), 1);
        assert_closed(&mut killer);
    });
}

#[test]
fn pause_write_delays_only_writes() {
    on_both("pause_write_delays_only_writes", |server| {
        let (mut control, mut writer) = (server.client(), server.client());
        control.ok(&["CLIENT", "PAUSE", "600000", "WRITE"]);
        assert_eq!(writer.cmd(&["PING", "x"]).text(), "x");
        writer.send_raw(b"SET key written\r\nPING after\r\n").expect("writable");
        assert_eq!(control.cmd(&["EXISTS", "key"]).int(), 0);
        control.ok(&["CLIENT", "UNPAUSE"]);
        assert!(writer.read_reply().expect("a reply").value.is_ok());
        assert_eq!(writer.read_reply().expect("a reply").value.text(), "after");
        assert_eq!(control.cmd(&["GET", "key"]).text(), "written");
    });
}

#[test]
fn pause_all_ends_at_its_timeout() {
    on_both("pause_all_ends_at_its_timeout", |server| {
        let (mut control, mut other) = (server.client(), server.client());
        control.ok(&["CLIENT", "PAUSE", "50"]);
        assert_eq!(other.cmd(&["PING", "x"]).text(), "x");
    });
}

#[test]
fn monitor_shows_commands_without_secrets() {
    on_both("monitor_shows_commands_without_secrets", |server| {
        let (mut monitor, mut other) = (server.client(), server.client());
        monitor.ok(&["MONITOR"]);
        other.cmd(&["SELECT", "3"]);
        other.cmd(&["AUTH", "default", "secret"]);
        other.cmd(&["CLIENT", "LIST"]);
        other.cmd(&["SET", "key", "a \"b\"\n\u{1}"]);
        let line = |monitor: &mut Client| {
            let line = monitor.read_reply().expect("a line").value.text();
            let (time, rest) = line.split_once(" [3 127.0.0.1:").expect("time, database, address");
            assert!(time.parse::<f64>().is_ok(), "{line}");
            rest.split_once("] ").expect("the address ends").1.to_string()
        };
        assert_eq!(line(&mut monitor), r#""SELECT" "3""#);
        assert_eq!(line(&mut monitor), r#""AUTH" "(redacted)" "(redacted)""#);
        // CLIENT LIST is an admin command, which MONITOR does not show.
        assert_eq!(line(&mut monitor), r#""SET" "key" "a \"b\"\n\x01""#);
        assert_eq!(monitor.cmd(&["RESET"]).text(), "RESET");
        other.cmd(&["GET", "key"]);
        assert_eq!(monitor.cmd(&["PING", "still here"]).text(), "still here");
    });
}

/// WATCH and every EXEC: after the commands that it runs, or alone when it is refused.
#[test]
fn monitor_shows_watch_and_every_exec() {
    on_both("monitor_shows_watch_and_every_exec", |server| {
        let (mut monitor, mut other, mut admin) =
            (server.client(), server.client(), server.client());
        monitor.ok(&["MONITOR"]);
        let mut lines = |count: usize| -> Vec<String> {
            let line = |_| monitor.read_reply().expect("a line").value.text();
            let shown = |line: String| line.split_once("] ").expect("an address").1.to_string();
            (0..count).map(line).map(shown).collect()
        };
        let mut run = |commands: &[&str]| -> Vec<String> {
            commands
                .iter()
                .map(|line| {
                    let reply = other.cmd(&line.split(' ').collect::<Vec<_>>());
                    reply.error().unwrap_or_else(|| reply.to_string())
                })
                .collect()
        };
        run(&["WATCH a b", "MULTI", "SET a 1", "EXEC", "PING"]);
        assert_eq!(
            lines(5),
            [r#""WATCH" "a" "b""#, r#""MULTI""#, r#""SET" "a" "1""#, r#""EXEC""#, r#""PING""#]
        );
        // A changed watched key; no transaction; a failed transaction; too many arguments.
        run(&["WATCH a", "SET a 2", "MULTI", "GET a", "EXEC", "PING"]);
        assert_eq!(
            lines(5),
            [r#""WATCH" "a""#, r#""SET" "a" "2""#, r#""MULTI""#, r#""EXEC""#, r#""PING""#]
        );
        run(&["EXEC", "PING", "MULTI", "NOSUCH", "EXEC", "PING", "EXEC x", "PING"]);
        let exec = r#""EXEC""#;
        let ping = r#""PING""#;
        assert_eq!(lines(7), [exec, ping, r#""MULTI""#, exec, ping, r#""EXEC" "x""#, ping]);
        for (name, on, off, code) in
            [("min-replicas-to-write", "3", "0", "NOREPLICAS"), ("maxmemory", "1", "0", "OOM")]
        {
            run(&["MULTI", "SET a 3"]);
            admin.ok(&["CONFIG", "SET", name, on]);
            let replies = run(&["EXEC", "SET a 4"]);
            assert!(
                replies[0].starts_with("EXECABORT") && replies[0].contains(code),
                "{replies:?}"
            );
            admin.ok(&["CONFIG", "SET", name, off]);
            // MONITOR does not show other refused commands.
            run(&["PING"]);
            assert_eq!(lines(3), [r#""MULTI""#, exec, ping], "{code}");
        }
    });
}
