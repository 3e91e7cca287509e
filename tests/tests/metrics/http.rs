//! Responses for each path and method.

use weft_testkit::Server;
use weft_tests::watched::{Response, Watched};

#[test]
fn paths_and_methods_have_their_status() {
    let watched = Watched::start(&[]);
    for (path, status) in [
        ("/healthz", 200),
        ("/readyz", 200),
        ("/metrics", 200),
        ("/metrics?x=1", 200),
        ("/nosuch", 404),
        ("/metrics/", 404),
        ("//metrics", 404),
        ("/%6detrics", 404),
    ] {
        assert_eq!(watched.get(path).status, status, "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "NOSUCH"] {
        let response = watched.send(method, "/metrics", "Content-Length: 0\r\n");
        assert_eq!(response.status, 405, "{method}");
        assert_eq!(response.headers["allow"], "GET, HEAD");
    }
    let head = watched.send("HEAD", "/metrics", "");
    assert_eq!((head.status, &*head.body), (200, ""));
    assert!(head.headers["content-length"].parse::<usize>().expect("a number") > 10_000);
    let old = Response::parse(&watched.raw(b"GET /healthz HTTP/1.0\r\n\r\n"));
    assert_eq!((old.status, &*old.body), (200, "ok\n"));
}

#[test]
fn format_follows_accept() {
    let watched = Watched::start(&[]);
    let plain = watched.metrics();
    assert_eq!(plain.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert!(plain.body.contains("# TYPE redis_keyspace_hits_total counter\n"));
    assert!(plain.body.contains("# TYPE redis_total_error_replies untyped\n"));
    assert!(!plain.body.contains("# EOF") && !plain.body.contains("# UNIT"));
    let accept = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3\r\n";
    let open = watched.send("GET", "/metrics", accept);
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(open.headers["content-type"], content_type);
    assert!(open.body.contains("# TYPE redis_keyspace_hits counter\n"));
    assert!(open.body.contains("# UNIT redis_memory_used_bytes bytes\n"));
    assert!(open.body.ends_with("# EOF\n"));
    // Both have the same samples.
    let names = |response: &Response| -> Vec<String> {
        let lines = response.body.lines().filter(|line| !line.starts_with('#'));
        let mut names: Vec<String> =
            lines.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect();
        names.sort();
        names.retain(|name| !name.contains("cmd=\"info\"") && !name.contains("le="));
        names
    };
    assert_eq!(names(&plain), names(&open));
}

#[test]
fn without_port_there_is_no_thread() {
    let off = Server::weft(&[]);
    let on = Watched::start(&[]);
    let has_thread = |server: &Server| {
        let tasks = format!("/proc/{}/task", server.pid());
        let tasks = std::fs::read_dir(tasks).expect("the process lives").filter_map(Result::ok);
        let mut names =
            tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.any(|name| name.trim() == "weft-metrics")
    };
    let sockets = |server: &Server| {
        let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("the process");
        let links = open.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        let own: Vec<String> = links.filter_map(|link| Some(link.to_str()?.to_owned())).collect();
        let listening = std::fs::read_to_string("/proc/net/tcp").expect("sockets");
        // State 0A is LISTEN; the tenth field is the inode.
        let inodes = listening.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            (fields.get(3) == Some(&"0A")).then(|| format!("socket:[{}]", fields[9]))
        });
        inodes.filter(|inode| own.contains(inode)).count()
    };
    assert!(!has_thread(&off) && has_thread(&on.server));
    assert_eq!((sockets(&off), sockets(&on.server)), (1, 2));
}
