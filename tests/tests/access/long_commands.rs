//! Rights are taken away while a command of the user runs in the slow lane: the answer comes after its end.

use std::net::TcpListener;
use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::scene::{client, reply, reply_within, send, until, until_in_slow_lane};

/// A client that may do everything, as a user of its own.
fn operator(server: &Server) -> Client {
    client(server).ok(&["ACL", "SETUSER", "operator", "on", "nopass", "~*", "&*", "+@all"]);
    let mut operator = client(server);
    operator.ok(&["AUTH", "operator", "any"]);
    operator
}

/// Sends a change of users, which must wait.
fn take_away(server: &Server, change: &[&str]) -> Client {
    let mut admin = client(server);
    send(&mut admin, change);
    let early = reply_within(&mut admin, Duration::from_millis(100));
    assert!(early.is_none(), "{change:?} was answered while the command ran: {early:?}");
    admin
}

/// CONFIG SET appendonly waits for long commands. It has an effect before the answer to DELUSER or none at all.
#[test]
fn change_of_users_waits_for_config_set() {
    let server = Server::weft(&["--io-threads", "2", "--busy-reply-threshold", "0"]);
    let (mut endless, mut operator) = (client(&server), operator(&server));
    let script = "redis.log(redis.LOG_WARNING, 'it holds') while true do end";
    send(&mut endless, &["EVAL", script, "1", "k"]);
    until("the script is in the slow lane", || server.log().matches("it holds").count() == 2);
    let set = ["CONFIG", "SET", "appendonly", "yes", "requirepass", "mine"];
    send(&mut operator, &set);
    let (mut other, mut admin) = (client(&server), client(&server));
    until_in_slow_lane(&mut other, 2);
    send(&mut admin, &["ACL", "DELUSER", "operator"]);
    // An early answer: the slow lane had not begun the command.
    let early = reply_within(&mut admin, Duration::from_millis(300));
    other.ok(&["SCRIPT", "KILL"]);
    let has_begun = early.is_none();
    assert_eq!(early.unwrap_or_else(|| reply(&mut admin)).int(), 1);
    until_in_slow_lane(&mut admin, 0);
    let password = admin.cmd(&["CONFIG", "GET", "requirepass"]).items()[1].text();
    assert_eq!(password, if has_begun { "mine" } else { "" });
}

/// The other server of MIGRATE doesn't answer.
#[test]
fn change_of_users_waits_for_migrate() {
    let server = Server::weft(&["--io-threads", "2"]);
    for in_transaction in [false, true] {
        let mut operator = operator(&server);
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("a port").port().to_string();
        operator.ok(&["SET", "k", "v"]);
        if in_transaction {
            operator.ok(&["MULTI"]);
        }
        send(&mut operator, &["MIGRATE", "127.0.0.1", &port, "k", "0", "600000"]);
        if in_transaction {
            reply(&mut operator);
            assert_eq!(operator.cmd(&["INCR", "n"]).text(), "QUEUED");
            send(&mut operator, &["EXEC"]);
        }
        let (stream, _) = silent.accept().expect("the key is moved");
        let mut admin = take_away(&server, &["ACL", "SETUSER", "operator", "reset"]);
        drop(stream);
        assert!(reply(&mut admin).is_ok());
        let count = admin.cmd(&["GET", "n"]);
        // Afterwards, nothing more comes.
        let answer = reply_within(&mut operator, Duration::from_millis(100));
        assert!(answer.is_some(), "the command has ended before the change was answered");
        assert_eq!(admin.cmd(&["GET", "n"]), count);
    }
}

/// A transaction that takes its own rights away.
#[test]
fn transaction_that_demotes_its_user_is_refused_the_rest() {
    let server = Server::weft(&["--io-threads", "2"]);
    let mut operator = operator(&server);
    operator.ok(&["MULTI"]);
    for command in [&["ACL", "SETUSER", "operator", "-set"][..], &["SET", "k", "v"]] {
        assert_eq!(operator.cmd(command).text(), "QUEUED");
    }
    let replies = operator.cmd(&["EXEC"]);
    let error = replies.items()[1].error().unwrap_or_default();
    assert!(error.starts_with("NOPERM "), "{replies}");
    assert_eq!(client(&server).cmd(&["EXISTS", "k"]).int(), 0);
}

/// A script that runs until it is killed, of a client of the user `operator`.
fn endless_script(server: &Server) -> Client {
    let mut operator = operator(server);
    let script = "redis.log(redis.LOG_WARNING, 'it holds') while true do end";
    send(&mut operator, &["EVAL", script, "1", "k"]);
    until("the script is in the slow lane", || server.log().matches("it holds").count() == 2);
    operator
}

/// Regression: each occupied a thread of the slow lane, of which there are four.
#[test]
fn changes_that_wait_occupy_no_thread() {
    let server = Server::weft(&["--io-threads", "2", "--busy-reply-threshold", "0"]);
    let mut operator = endless_script(&server);
    let (mut other, mut admins) = (client(&server), Vec::new());
    let of_operator = id_of_client(&mut other, "operator");
    let changes: [&[&str]; 7] = [
        &["ACL", "SETUSER", "operator", "-set"],
        &["ACL", "SETUSER", "operator", "-get"],
        &["ACL", "SETUSER", "operator", "-get"],
        &["ACL", "SETUSER", "operator", "-get"],
        &["ACL", "SETUSER", "operator", "-get"],
        &["CLIENT", "KILL", "ID", &of_operator],
        &["ACL", "DELUSER", "operator"],
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let mut admin = client(&server);
        send(&mut admin, change);
        until_in_slow_lane(&mut other, n as u64 + 2);
        admins.push(admin);
    }
    assert!(!other.cmd(&["ACL", "USERS"]).to_string().contains("operator"), "it is in force");
    other.ok(&["SAVE"]);
    for admin in &mut admins {
        let early = reply_within(admin, Duration::from_millis(10));
        assert!(early.is_none(), "answered while the script ran: {early:?}");
    }
    other.ok(&["SCRIPT", "KILL"]);
    for admin in &mut admins[..5] {
        assert!(reply(admin).is_ok());
    }
    assert_eq!(reply(&mut admins[5]).int(), 1);
    assert_eq!(reply(&mut admins[6]).int(), 1);
    assert!(operator.read_reply().is_err(), "it was killed");
}

/// The id of the only client of a user.
fn id_of_client(client: &mut Client, user: &str) -> String {
    let list = client.cmd(&["CLIENT", "LIST", "USER", user]).text();
    let id = list.strip_prefix("id=").and_then(|rest| rest.split(' ').next());
    id.unwrap_or_else(|| panic!("one client: {list}")).to_string()
}

/// A change that would wait for a busy script has no effect.
#[test]
fn changes_that_would_wait_for_a_busy_script_get_busy() {
    let server = Server::weft(&["--io-threads", "2", "--busy-reply-threshold", "1"]);
    let mut operator = endless_script(&server);
    let mut other = client(&server);
    until("the key is busy", || other.cmd(&["GET", "k"]).error().is_some());
    let of_operator = id_of_client(&mut other, "operator");
    let before = other.cmd(&["ACL", "LIST"]).to_string();
    let changes: [&[&str]; 4] = [
        &["ACL", "SETUSER", "operator", "-set"],
        &["ACL", "DELUSER", "operator"],
        &["CLIENT", "KILL", "ID", &of_operator],
        &["CLIENT", "KILL", "TYPE", "normal"],
    ];
    for change in changes {
        let busy = other.cmd(change).error().unwrap_or_default();
        assert!(busy.starts_with("BUSY "), "{change:?}: {busy}");
    }
    assert_eq!(other.cmd(&["ACL", "LIST"]).to_string(), before);
    other.ok(&["ACL", "SETUSER", "someone", "on"]);
    assert_eq!(other.cmd(&["ACL", "DELUSER", "someone"]).int(), 1);
    other.ok(&["SCRIPT", "KILL"]);
    assert!(reply(&mut operator).error().is_some(), "it was not killed");
    assert_eq!(other.cmd(&["ACL", "DELUSER", "operator"]).int(), 1);
}

/// A transaction of a user that is deleted meanwhile.
#[test]
fn rest_of_a_transaction_of_a_deleted_user_is_refused() {
    for password in ["", "secret"] {
        let server = Server::weft(&["--io-threads", "2"]);
        let (mut admin, mut other) = (client(&server), client(&server));
        let mut operator = operator(&server);
        other.ok(&["CONFIG", "SET", "requirepass", password]);
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("a port").port().to_string();
        operator.ok(&["SET", "k", "v"]);
        operator.ok(&["MULTI"]);
        operator.cmd(&["MIGRATE", "127.0.0.1", &port, "k", "0", "600000"]);
        operator.cmd(&["INCR", "n"]);
        send(&mut operator, &["EXEC"]);
        let (stream, _) = silent.accept().expect("the key is moved");
        send(&mut admin, &["ACL", "DELUSER", "operator"]);
        until("the user is deleted", || {
            !other.cmd(&["ACL", "USERS"]).to_string().contains("operator")
        });
        drop(stream);
        assert_eq!(reply(&mut admin).int(), 1);
        assert_eq!(other.cmd(&["EXISTS", "n"]).int(), 0, "{password}");
    }
}

/// Regression: the script of a deleted user got the rights of the default user.
#[test]
fn script_of_a_deleted_user_gets_no_other_rights() {
    check_script_of_a_deleted_user("secret");
    check_script_of_a_deleted_user("");
}

fn check_script_of_a_deleted_user(password: &str) {
    let server = Server::weft(&["--io-threads", "2"]);
    let (mut admin, mut other) = (client(&server), client(&server));
    other.ok(&["CONFIG", "SET", "requirepass", password]);
    other.ok(&["SET", "hidden", "treasure"]);
    other.ok(&["ACL", "SETUSER", "guest", "on", "nopass", "~own", "+@all"]);
    let mut guest = client(&server);
    guest.ok(&["AUTH", "guest", "any"]);
    let script = "redis.log(redis.LOG_WARNING, 'it holds') local found
        repeat found = redis.pcall('get', 'hidden') found = found.err or found
        until not string.find(found, 'ACL failure')
        redis.log(redis.LOG_WARNING, 'it finds ' .. found)";
    send(&mut guest, &["EVAL", script, "1", "own"]);
    until("the script is in the slow lane", || server.log().matches("it holds").count() > 1);
    send(&mut admin, &["ACL", "DELUSER", "guest"]);
    assert_eq!(reply(&mut admin).int(), 1);
    assert!(server.log().contains("it finds NOAUTH "), "{}", server.log_tail());
}
