//! Passwords of rules appear nowhere.

use weft_testkit::Server;

#[test]
fn passwords_of_rules_are_hidden() {
    let server = Server::weft(&["--slowlog-log-slower-than", "0", "--loglevel", "debug"]);
    let mut monitor = server.client();
    monitor.ok(&["MONITOR"]);
    let mut client = server.client();
    client.ok(&["ACL", "SETUSER", "u", "on", ">hunter2", "+get"]);
    client.cmd(&["ACL", "SETUSER", "u", "<hunter3"]);
    client.cmd(&["MULTI"]);
    client.cmd(&["ACL", "SETUSER", "u", ">hunter4"]);
    client.cmd(&["EXEC"]);
    client.cmd(&["AUTH", "u", "hunter5"]);
    client.cmd(&["PING", "the-end"]);
    let mut shown = client.cmd(&["SLOWLOG", "GET", "-1"]).to_string();
    assert!(shown.contains("(redacted)"), "{shown}");
    shown += &client.cmd(&["ACL", "LIST"]).to_string();
    shown += &client.cmd(&["ACL", "LOG"]).to_string();
    shown += &client.cmd(&["CLIENT", "LIST"]).to_string();
    let mut seen = String::new();
    while !seen.contains("the-end") {
        seen += &monitor.read_reply().expect("the monitor is connected").value.to_string();
    }
    shown += &seen;
    shown += &server.log();
    assert!(!shown.contains("hunter"), "{shown}");
}
