//! Sentinels that log in as a user and use TLS only: the primary hands over to a replica, and is promoted again when that
//! one is killed. The others follow.
//!
//! The servers and Sentinels log in as `docs/replication.md` says. The users are those of `docs/secure.md`, so the test shows
//! that their rights suffice. No request is refused.

use crate::certs::Certs;
use std::path::Path;
use std::time::{Duration, Instant};
use weft_testkit::client::Client;
use weft_testkit::server::free_port;
use weft_testkit::value::Value;
use weft_testkit::{locate, skipped};
use weft_tests::instance::Instance;

const PAGE: &str = include_str!("../../../docs/secure.md");
/// Turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server or a Sentinel. Others know its TLS port; the test observes it through the plain one.
struct Node {
    instance: Instance,
    tls_port: u16,
}

impl Node {
    fn new(program: &Path, certs: &Certs, lines: &[String], args: &[&str]) -> Node {
        let tls_port = free_port();
        let directives = certs.args(tls_port, &["--tls-replication", "yes"]);
        let directives = directives.chunks(2).map(|words| words.join(" ").replacen("--", "", 1));
        let lines: Vec<String> = directives.chain(lines.iter().cloned()).collect();
        Node { instance: Instance::new(program, &lines, args), tls_port }
    }

    /// A server with the users of the page, which logs in at its primary as one of them.
    fn server(program: &Path, certs: &Certs, priority: &str, primary: Option<u16>) -> Node {
        let mut lines = vec![
            "save \"\"".to_string(),
            "repl-diskless-sync-delay 0".to_string(),
            "masteruser replica".to_string(),
            "masterauth replica-secret".to_string(),
            format!("aclfile {}", certs.text("users.acl")),
            format!("replica-priority {priority}"),
        ];
        lines.extend(primary.map(|port| format!("replicaof 127.0.0.1 {port}")));
        let mut server = Node::new(program, certs, &lines, &[]);
        server.instance.start();
        server
    }

    fn sentinel(program: &Path, certs: &Certs, primary: u16) -> Node {
        let lines = [
            format!("sentinel monitor main 127.0.0.1 {primary} 2"),
            "sentinel auth-user main sentinel".to_string(),
            "sentinel auth-pass main sentinel-secret".to_string(),
            "sentinel down-after-milliseconds main 1000".to_string(),
            "sentinel failover-timeout main 5000".to_string(),
        ];
        let mut sentinel = Node::new(program, certs, &lines, &["--sentinel"]);
        sentinel.instance.start();
        sentinel
    }

    /// A client with all rights, if the server runs.
    fn admin(&self) -> Option<Client> {
        let mut client = self.instance.try_client()?;
        // Sentinels have no users, and return an error.
        client.try_cmd(&["AUTH", "admin", "admin-secret"]).ok()?;
        Some(client)
    }

    /// The text of a reply, empty if there is none.
    fn text(&self, args: &[&str]) -> String {
        let reply = self.admin().and_then(|mut client| client.try_cmd(args).ok());
        reply.map(|reply| reply.value.to_string()).unwrap_or_default()
    }

    fn info(&self) -> String {
        let reply =
            self.admin().and_then(|mut client| client.try_cmd(&["INFO", "replication"]).ok());
        reply.map(|reply| reply.value.text()).unwrap_or_default()
    }

    fn follows(&self, primary: &Node) -> bool {
        let info = self.info();
        let port = format!("master_port:{}\r", primary.tls_port);
        info.contains("role:slave")
            && info.contains(&port)
            && info.contains("master_link_status:up")
    }
}

struct Cluster {
    servers: Vec<Node>,
    sentinels: Vec<Node>,
}

impl Cluster {
    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&Cluster) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            if began.elapsed() > PATIENCE {
                let all = self.servers.iter().chain(&self.sentinels);
                let show = |node: &Node| {
                    let (port, log) = (node.tls_port, node.instance.log_tail(40));
                    format!("==== {port}\n{}{}\n{log}", node.info(), node.text(&["ACL", "LOG"]))
                };
                panic!("timed out: {what}\n{}", all.map(show).collect::<String>());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether all Sentinels know each other, and know that the other servers replicate from this one.
    fn agrees_on(&self, primary: &Node) -> bool {
        let others = self.servers.iter().filter(|server| server.tls_port != primary.tls_port);
        let ports: Vec<String> = others.map(|server| server.tls_port.to_string()).collect();
        self.sentinels.iter().all(|sentinel| {
            let Some(mut client) = sentinel.instance.try_client() else { return false };
            let mut list = |what| client.cmd(&["SENTINEL", what, "main"]);
            let (peers, replicas) = (list("SENTINELS"), list("REPLICAS"));
            let address = list("GET-MASTER-ADDR-BY-NAME").to_string();
            // A Sentinel keeps the opinion of another one that the old primary is down.
            let is_up = |node: &Value, flags: &[&str]| {
                node.field("flags").is_some_and(|value| flags.contains(&value.text().as_str()))
            };
            let is_linked = |node: &Value| {
                let has = |name, wanted: &str| node.field(name).is_some_and(|v| v.text() == wanted);
                has("master-link-status", "ok") && has("master-port", &primary.tls_port.to_string())
            };
            address.contains(&primary.tls_port.to_string())
                && peers.items().len() == self.sentinels.len() - 1
                && peers
                    .items()
                    .iter()
                    .all(|peer| is_up(peer, &["sentinel", "sentinel,master_down"]))
                && replicas.items().len() == ports.len()
                && replicas.items().iter().all(|node| is_up(node, &["slave"]) && is_linked(node))
        })
    }
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn sentinels_fail_over_with_users_and_tls() {
    let Some(valkey) = locate::valkey() else {
        return skipped::note_here("no valkey-server, which is also the Sentinel");
    };
    let certs = Certs::new();
    let users = PAGE.lines().filter(|line| line.starts_with("user ")).map(|line| &line[5..]);
    let users: String = users.map(|rules| format!("user {rules}\n")).collect();
    std::fs::write(certs.path("users.acl"), users).expect("a file");
    let primary = Node::server(locate::weft(), &certs, "50", None);
    let port = primary.tls_port;
    let replica = Node::server(locate::weft(), &certs, "10", Some(port));
    let other = Node::server(&valkey, &certs, "100", Some(port));
    let mut cluster = Cluster { servers: vec![primary, replica, other], sentinels: Vec::new() };
    cluster.until("two replicas follow", |all| {
        let [primary, rest @ ..] = &all.servers[..] else { unreachable!() };
        rest.iter().all(|server| server.follows(primary))
    });
    cluster.sentinels = (0..2).map(|_| Node::sentinel(&valkey, &certs, port)).collect();
    cluster.until("the Sentinels know all", |all| all.agrees_on(&all.servers[0]));
    let mut writer = cluster.servers[0].admin().expect("it runs");
    writer.ok(&["SET", "key", "value"]);
    assert_eq!(writer.cmd(&["WAIT", "2", "10000"]).int(), 2);

    let coordinated = ["SENTINEL", "FAILOVER", "main", "COORDINATED"];
    cluster.sentinels[0].instance.try_client().expect("it runs").ok(&coordinated);
    cluster.until("the primary hands over", |all| all.agrees_on(&all.servers[1]));

    cluster.servers[1].instance.kill();
    cluster.until("the replica is promoted, and the other one follows", |all| {
        let [replica, _, other] = &all.servers[..] else { unreachable!() };
        replica.info().contains("role:master") && other.follows(replica)
    });
    cluster.servers[1].instance.start();
    let line = format!("replicaof 127.0.0.1 {}\n", cluster.servers[0].tls_port);
    cluster.until("the old primary follows, and its file names the new one", |all| {
        let [primary, old, _] = &all.servers[..] else { unreachable!() };
        old.follows(primary) && old.instance.conf().contains(&line)
    });
    for server in &cluster.servers {
        let log = server.admin().expect("it runs").cmd(&["ACL", "LOG"]);
        assert!(log.items().is_empty(), "{}: {log}", server.tls_port);
        assert!(server.text(&["GET", "key"]).contains("value"), "{}", server.tls_port);
    }
}
