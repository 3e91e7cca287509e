//! Rights to read, and the entries of ACL LOG about refusals.

use weft_testkit::Client;
use weft_tests::watched::{Response, Watched, basic};

/// The value of a field of the newest entry of ACL LOG.
fn logged(client: &mut Client, field: &str) -> String {
    let log = client.cmd(&["ACL", "LOG", "1"]);
    let entry = log.items().first().expect("an entry").items();
    let pair = entry.chunks(2).find(|pair| pair[0].text() == field).expect("the field");
    pair[1].text()
}

#[test]
fn without_users_all_clients_on_this_machine_may_read() {
    let watched = Watched::start(&[]);
    assert_eq!(watched.get("/metrics").status, 200);
    // A user without a password accepts any.
    assert_eq!(watched.send("GET", "/metrics", &basic("default", "x")).status, 200);
    // Wrong credentials are wrong, although none are needed.
    assert_eq!(watched.send("GET", "/metrics", &basic("nosuch", "x")).status, 401);
    assert_eq!(watched.send("GET", "/metrics", "Authorization: Bearer x\r\n").status, 401);
}

/// A web site whose name points to this machine: a browser sends its name.
#[test]
fn client_that_asks_for_another_machine_is_refused() {
    let watched = Watched::start(&[]);
    let status = |path: &str, host: &str, rest: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{rest}\r\n");
        Response::parse(&watched.raw(request.as_bytes())).status
    };
    for path in ["/", "/metrics", "/state.json", "/keys.json"] {
        assert_eq!(status(path, "attacker.example:9121", ""), 403, "{path}");
        assert_eq!(status(path, "localhost.attacker.example", ""), 403, "{path}");
        for host in ["127.0.0.1:9121", "localhost", "[::1]:9121"] {
            assert_eq!(status(path, host, ""), 200, "{path} of {host}");
        }
    }
    assert_eq!(status("/healthz", "weft.example", ""), 200);
    assert_eq!(status("/metrics", "localhost", "Host: weft.example\r\n"), 403);
    // A password that any user may have proves nothing; one of a user who needs it does.
    assert_eq!(status("/metrics", "weft.example", &basic("default", "x")), 403);
    watched.server.client().ok(&["ACL", "SETUSER", "monitor", "on", ">pw", "+info"]);
    assert_eq!(status("/metrics", "weft.example", &basic("monitor", "pw")), 200);
    watched.server.client().ok(&["CONFIG", "SET", "protected-mode", "no"]);
    assert_eq!(status("/metrics", "weft.example", ""), 200);
}

#[test]
fn password_is_needed_if_the_default_user_has_one() {
    let watched = Watched::start(&["--requirepass", "secret"]);
    let mut client = watched.server.client();
    client.ok(&["AUTH", "secret"]);
    let refused = watched.get("/metrics");
    assert_eq!(refused.status, 401);
    assert!(refused.headers["www-authenticate"].starts_with("Basic realm="));
    assert_eq!(client.cmd(&["ACL", "LOG"]).items().len(), 0, "no password was tried");
    assert_eq!(watched.send("GET", "/metrics", &basic("default", "wrong")).status, 401);
    assert_eq!(logged(&mut client, "reason"), "auth");
    assert_eq!(logged(&mut client, "username"), "default");
    assert_eq!(logged(&mut client, "object"), "metrics-port");
    assert!(logged(&mut client, "client-info").ends_with("http=/metrics"));
    let metrics = watched.send("GET", "/metrics", &basic("default", "secret"));
    assert_eq!(metrics.status, 200);
    assert_eq!(metrics.value("redis_acl_access_denied_auth_total"), 1.0);
    // Probes need none.
    assert_eq!(watched.get("/healthz").status, 200);
    assert_eq!(watched.get("/readyz").status, 200);
}

#[test]
fn user_needs_the_right_to_run_info() {
    let watched = Watched::start(&[]);
    let mut client = watched.server.client();
    client.ok(&["ACL", "SETUSER", "monitor", "on", ">pass:word", "+info"]);
    client.ok(&["ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@all", "-info"]);
    client.ok(&["ACL", "SETUSER", "away", "off", ">pw", "+info"]);
    let status = |user, password| watched.send("GET", "/metrics", &basic(user, password)).status;
    assert_eq!(status("monitor", "pass:word"), 200);
    assert_eq!(status("away", "pw"), 401);
    assert_eq!(status("reader", "pw"), 403);
    assert_eq!(logged(&mut client, "reason"), "command");
    assert_eq!(logged(&mut client, "object"), "info");
    assert_eq!(logged(&mut client, "username"), "reader");
    client.ok(&["ACL", "SETUSER", "default", "-info"]);
    assert_eq!(watched.get("/metrics").status, 403);
    client.ok(&["ACL", "SETUSER", "default", "off"]);
    assert_eq!(watched.get("/metrics").status, 401);
    assert_eq!(status("monitor", "pass:word"), 200);
    // A change of users is in force at once.
    assert_eq!(client.cmd(&["ACL", "DELUSER", "monitor"]).int(), 1);
    assert_eq!(status("monitor", "pass:word"), 401);
}
