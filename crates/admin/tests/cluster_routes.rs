//! Requests to a node of a cluster of three nodes, whose map the tests put into force. The replies are those of Valkey 9.1.

use std::sync::Arc;
use weft_admin::commands;
use weft_cluster::{Map, Node, NodeId, Role, Settings, Slot};
use weft_commands::Lane;
use weft_config::{Config, LoadArgs};
use weft_durability::aof::Aof;
use weft_executor::dispatch::admit::execute;
use weft_executor::dispatch::core::Core;
use weft_executor::dispatch::hold::hold_slow;
use weft_executor::dispatch::outcome::Suspend;
use weft_executor::dispatch::request::{Request, Task};
use weft_keyspace::{Outside, SlowLaneThread, Waiter};
use weft_net::listen::Accepted;
use weft_replication_driver::Hub;
use weft_resp::Reply;
use weft_state::clients::ClientShared;
use weft_state::cluster::Topology;
use weft_state::command_table::Cmd;
use weft_state::replication_status::ReplicationStatus;
use weft_state::server::{Parts, Server};
use weft_state::session::Session;

/// The slot of `foo`, which another node owns; `bar` and `hello` are in slots of this node.
const FOO: Slot = 12_182;
const CROSS_SLOT: &str = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
const MOVED: &str = "-MOVED 12182 127.0.0.1:17103\r\n";
const ASK: &str = "-ASK 12182 127.0.0.1:17103\r\n";
const TRY_AGAIN: &str = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.\r\n";
const NOT_HERE: &str = "-ERR Attempted to access a non local key in a cluster node\r\n";

fn id(n: u8) -> NodeId {
    NodeId::from_random([n; 20])
}

/// Nodes 1, 2 and 3. Each owns a third of the slots; this node is the first.
fn three_nodes() -> Map {
    let node = |n: u8| {
        let mut node = Node::new(id(n), id(10 + n));
        node.addresses.ip = "127.0.0.1".into();
        node.addresses.port = 17_100 + u16::from(n);
        node
    };
    let mut map = Map::of_one(node(1));
    map.put_node(node(2));
    map.put_node(node(3));
    for slot in 0..16_384 {
        let owner = 1 + u8::from(slot > 5460) + u8::from(slot > 10_922);
        map.set_owner(slot, Some(id(owner)));
    }
    map
}

/// One client of the server, on the only I/O thread.
struct Bench {
    srv: &'static Server,
    core: Core,
    slow: Core,
    session: Session,
}

impl Bench {
    fn new() -> Bench {
        let args =
            LoadArgs { options: vec![b"cluster-enabled yes".to_vec()], ..LoadArgs::default() };
        let config = Config::load(&args).expect("valid directives");
        let (table, functions) = commands::table();
        let replication = Arc::<ReplicationStatus>::default();
        let parts = Parts {
            functions: Box::new(functions),
            journal: Box::new(Aof::new(commands::stay_off)),
            replication: replication.clone(),
            replicator: Box::new(Hub::new(replication)),
            run_thread: |_, _, _, _| unreachable!("the test is the thread"),
        };
        let srv = Server::new(config, String::new(), table, parts);
        srv.threads.fill(1).expect("descriptors");
        srv.ks.safepoints().use_up_to(1);
        srv.threads.note_started(1);
        srv.nodes.cluster.publish(Topology::new(three_nodes(), id(1), Settings::default()));
        Bench { srv, core: Core::new(0, srv), slow: Core::slow(0, srv), session: session(srv) }
    }

    fn publish(&mut self, change: impl FnOnce(&mut Map)) {
        let topology = self.srv.nodes.cluster.topology();
        let mut map = topology.map.clone();
        change(&mut map);
        self.srv.nodes.cluster.publish(Topology::new(map, topology.me, topology.settings));
    }

    fn run(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.run_words(&words)
    }

    fn run_words(&mut self, words: &[&[u8]]) -> String {
        let cmd = self.srv.table.find(words[0]).expect("a command");
        let key = (cmd.first_key != 0 && cmd.first_key < words.len())
            .then(|| self.srv.ks.key(words[cmd.first_key]));
        let request = Request { key, ..Request::new(Some(cmd), words, &[]) };
        let mut reply = Reply::new(self.session.proto);
        let mut inside = Outside::new(&self.srv.ks, 0).enter();
        let Bench { core, session, .. } = self;
        core.begin();
        let flow = execute(core, &mut inside, session, &request, &mut reply);
        let _ = inside.leave();
        match flow {
            Ok(()) => {}
            Err(Suspend::Slow { .. }) => self.run_slow(cmd, &request, &mut reply),
            Err(other) => panic!("{other:?}"),
        }
        String::from_utf8_lossy(reply.contiguous().expect("a short reply")).into_owned()
    }

    fn run_slow(&mut self, cmd: &'static Cmd, request: &Request<'_>, reply: &mut Reply) {
        let Bench { srv, slow, session, .. } = self;
        let srv: &'static Server = srv;
        let waiter = Waiter { thread: slow.waiter(), token: 0 };
        let clock: &'static _ = Box::leak(Box::new(move || srv.now_ms()));
        let mut holder = SlowLaneThread::new(&srv.ks, waiter, &std::thread::park, clock);
        slow.begin();
        let mark = reply.mark();
        let task = Task { core: slow, session, request, cmd, reply, mark, lane: Lane::Slow };
        hold_slow(task, &mut holder).expect("the slow lane completes its commands");
    }

    /// Runs each line, and compares its reply.
    fn expect(&mut self, lines: &[(&str, &str)]) {
        for (line, reply) in lines {
            assert_eq!(self.run(line), *reply, "{line}");
        }
    }

    fn eval(&mut self, script: &str, rest: &[&str]) -> String {
        let mut words = vec![&b"eval"[..], script.as_bytes()];
        words.extend(rest.iter().map(|word| word.as_bytes()));
        self.run_words(&words)
    }
}

fn session(srv: &'static Server) -> Session {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket").into();
    let (peer, local) = ("127.0.0.1:50000".into(), "127.0.0.1:17101".into());
    let accepted = Accepted { socket, peer, local, unix: false, is_tls: false, is_local: true };
    let shared = ClientShared::new(1, 0, 0, &accepted, 0);
    Session::new(Arc::new(shared), srv.access.stranger())
}

#[test]
fn commands_on_other_slots_are_redirected() {
    Bench::new().expect(&[
        ("GET bar", "$-1\r\n"),
        ("GET foo", MOVED),
        ("SET foo x", MOVED),
        ("MGET bar foo", CROSS_SLOT),
        ("MGET bar x{bar}", "*2\r\n$-1\r\n$-1\r\n"),
        ("DEL bar hello", CROSS_SLOT),
        ("GET", "-ERR wrong number of arguments for 'get' command\r\n"),
        ("PING", "+PONG\r\n"),
        ("SORT bar STORE foo", CROSS_SLOT),
        ("GEORADIUS bar 1 1 1 m STORE foo", CROSS_SLOT),
        ("XREAD COUNT 1 STREAMS foo 0", MOVED),
        ("MIGRATE 127.0.0.1 1 foo 0 100", MOVED),
        ("WATCH bar hello", CROSS_SLOT),
        ("WATCH foo", MOVED),
        ("SPUBLISH foo x", MOVED),
        ("SSUBSCRIBE bar hello", CROSS_SLOT),
        ("SWAPDB 0 1", "-ERR SWAPDB is not allowed in cluster mode\r\n"),
        ("SELECT 1", "-ERR DB index is out of range\r\n"),
        ("REPLICAOF no one", "-ERR REPLICAOF not allowed in cluster mode.\r\n"),
        ("READONLY", "+OK\r\n"),
        ("GET foo", MOVED),
    ]);
}

#[test]
fn transaction_fails_with_a_refused_command_and_with_several_slots() {
    Bench::new().expect(&[
        ("MULTI", "+OK\r\n"),
        ("GET bar", "+QUEUED\r\n"),
        ("GET foo", MOVED),
        ("EXEC", ABORTED),
        // The error of a refused command precedes that of several slots.
        ("MULTI", "+OK\r\n"),
        ("GET bar", "+QUEUED\r\n"),
        ("GET", "-ERR wrong number of arguments for 'get' command\r\n"),
        ("GET hello", "+QUEUED\r\n"),
        ("EXEC", ABORTED),
        ("MULTI", "+OK\r\n"),
        ("GET bar", "+QUEUED\r\n"),
        ("GET hello", "+QUEUED\r\n"),
        ("EXEC", CROSS_SLOT),
        ("EXEC", "-ERR EXEC without MULTI\r\n"),
        ("MULTI", "+OK\r\n"),
        ("PING", "+QUEUED\r\n"),
        ("GET bar", "+QUEUED\r\n"),
        ("EXEC", "*2\r\n+PONG\r\n$-1\r\n"),
    ]);
}

#[test]
fn requests_follow_changes_of_the_map() {
    let mut bench = Bench::new();
    let moved = "-MOVED 5061 127.0.0.1:17102\r\n";
    bench.expect(&[("MULTI", "+OK\r\n"), ("SET bar 1", "+QUEUED\r\n")]);
    bench.publish(|map| map.set_owner(5061, Some(id(2))));
    bench.expect(&[("EXEC", moved), ("GET bar", moved)]);
    bench.publish(|map| map.set_owner(5061, None));
    bench.expect(&[
        ("GET bar", "-CLUSTERDOWN Hash slot not served\r\n"),
        ("GET hello", "-CLUSTERDOWN The cluster is down\r\n"),
    ]);
    bench.publish(|map| map.set_owner(5061, Some(id(1))));
    bench.expect(&[("GET bar", "$-1\r\n")]);
}

#[test]
fn migrating_slot_is_served_while_all_keys_are_here() {
    let mut bench = Bench::new();
    bench.publish(|map| map.set_owner(FOO, Some(id(1))));
    bench.expect(&[("SET {foo}a 1", "+OK\r\n"), ("SET {foo}b 1", "+OK\r\n")]);
    bench.publish(|map| _ = map.node_mut(id(1)).expect("this node").migrating.insert(FOO, id(3)));
    bench.expect(&[
        ("GET {foo}a", "$1\r\n1\r\n"),
        ("GET foo", ASK),
        ("MGET {foo}a {foo}b", "*2\r\n$1\r\n1\r\n$1\r\n1\r\n"),
        ("MGET {foo}a foo", TRY_AGAIN),
        ("MGET foo {foo}c", ASK),
        ("MULTI", "+OK\r\n"),
        ("GET foo", "+QUEUED\r\n"),
        ("GET {foo}a", "+QUEUED\r\n"),
        ("EXEC", TRY_AGAIN),
        ("MULTI", "+OK\r\n"),
        ("GET foo", "+QUEUED\r\n"),
        ("EXEC", ASK),
        ("MULTI", "+OK\r\n"),
        ("GET {foo}a", "+QUEUED\r\n"),
        ("EXEC", "*1\r\n$1\r\n1\r\n"),
        ("WATCH foo", ASK),
        ("WATCH {foo}a", "+OK\r\n"),
        ("UNWATCH", "+OK\r\n"),
        ("SPUBLISH foo m", ":0\r\n"),
        ("MOVE {foo}a 1", TRY_AGAIN),
        ("MULTI", "+OK\r\n"),
        ("MOVE {foo}a 1", TRY_AGAIN),
        ("EXEC", ABORTED),
        ("COPY {foo}a {foo}q DB 1", TRY_AGAIN),
        ("COPY {foo}a {foo}b DB 0", ":0\r\n"),
        ("RENAME {foo}a foo", TRY_AGAIN),
    ]);
    assert_eq!(bench.eval("return redis.call('get',KEYS[1])", &["1", "foo"]), ASK);
    assert_eq!(bench.eval("return redis.call('get',KEYS[1])", &["1", "{foo}a"]), "$1\r\n1\r\n");
    assert_eq!(bench.eval("return redis.pcall('get','foo')", &["1", "{foo}a"]), NOT_HERE);
    bench.expect(&[("DEL {foo}a", ":1\r\n"), ("GET {foo}a", ASK)]);
}

#[test]
fn imported_slot_is_served_after_asking() {
    let mut bench = Bench::new();
    bench.publish(|map| _ = map.node_mut(id(1)).expect("this node").importing.insert(FOO, id(3)));
    bench.expect(&[
        ("GET foo", MOVED),
        ("ASKING", "+OK\r\n"),
        ("GET foo", "$-1\r\n"),
        ("GET foo", MOVED),
        ("ASKING", "+OK\r\n"),
        ("MGET foo {foo}a", TRY_AGAIN),
        ("ASKING", "+OK\r\n"),
        ("MGET foo foo", "*2\r\n$-1\r\n$-1\r\n"),
        ("ASKING", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("GET foo", "+QUEUED\r\n"),
        ("GET {foo}a", "+QUEUED\r\n"),
        ("EXEC", TRY_AGAIN),
        ("ASKING", "+OK\r\n"),
        ("MULTI", "+OK\r\n"),
        ("GET foo", "+QUEUED\r\n"),
        ("EXEC", "*1\r\n$-1\r\n"),
        ("GET foo", MOVED),
        ("ASKING", "+OK\r\n"),
        ("PING", "+PONG\r\n"),
        ("GET foo", MOVED),
        ("ASKING", "+OK\r\n"),
        ("GET", "-ERR wrong number of arguments for 'get' command\r\n"),
        ("GET foo", MOVED),
        ("RESTORE foo 0 x", MOVED),
        ("RESTORE-ASKING foo 0 x", "-ERR DUMP payload version or checksum are wrong\r\n"),
        ("SPUBLISH foo m", MOVED),
        ("ASKING", "+OK\r\n"),
        ("SPUBLISH foo m", ":0\r\n"),
        ("MULTI", "+OK\r\n"),
        ("ASKING", "+QUEUED\r\n"),
        ("GET foo", MOVED),
        ("EXEC", ABORTED),
        ("ASKING", "+OK\r\n"),
        ("SET foo 1", "+OK\r\n"),
        ("ASKING", "+OK\r\n"),
        ("ASKING", "+OK\r\n"),
        ("GET foo", "$1\r\n1\r\n"),
        ("ASKING", "+OK\r\n"),
        ("MOVE foo 1", TRY_AGAIN),
        ("ASKING", "+OK\r\n"),
        ("RESET", "+RESET\r\n"),
        ("GET foo", MOVED),
    ]);
}

#[test]
fn replica_serves_reads_of_its_primary_after_readonly() {
    let mut bench = Bench::new();
    bench.publish(|map| {
        (0..=5460).for_each(|slot| map.set_owner(slot, Some(id(2))));
        map.node_mut(id(1)).expect("this node").role = Role::ReplicaOf(id(3));
    });
    bench.expect(&[
        ("GET foo", MOVED),
        ("READONLY", "+OK\r\n"),
        ("GET foo", "$-1\r\n"),
        ("SET foo 1", MOVED),
        ("GET bar", "-MOVED 5061 127.0.0.1:17102\r\n"),
        ("MULTI", "+OK\r\n"),
        ("GET foo", "+QUEUED\r\n"),
        ("EXEC", "*1\r\n$-1\r\n"),
        ("READWRITE", "+OK\r\n"),
        ("GET foo", MOVED),
    ]);
}

#[test]
fn scripts_stay_in_one_slot_of_this_node() {
    let mut bench = Bench::new();
    let other = "-ERR Script attempted to access keys that do not hash to the same slot\r\n";
    for (script, rest, reply) in [
        ("return redis.call('get',KEYS[1])", &["1", "foo"][..], MOVED),
        ("return 1", &["2", "bar", "hello"], CROSS_SLOT),
        ("return redis.pcall('get','foo')", &["1", "bar"], NOT_HERE),
        ("return redis.pcall('get','foo')", &["0"], NOT_HERE),
        ("return redis.pcall('mget','bar','hello')", &["0"], NOT_HERE),
        ("return redis.pcall('spublish','foo','m')", &["0"], NOT_HERE),
        ("redis.call('get','hello') return redis.call('get','bar')", &["0"], "$-1\r\n"),
        ("#!lua\nreturn redis.call('get','bar')", &["1", "bar"], "$-1\r\n"),
        ("#!lua\nreturn redis.pcall('get','hello')", &["1", "bar"], other),
        ("#!lua\nredis.call('get','hello') return redis.pcall('get','bar')", &["0"], other),
        ("#!lua\nreturn redis.call('get','bar')", &["0"], "$-1\r\n"),
        (
            "#!lua flags=allow-cross-slot-keys\nredis.call('get','hello') \
             return redis.call('get','bar')",
            &["0"],
            "$-1\r\n",
        ),
        (
            "#!lua flags=no-cluster\nreturn 1",
            &["0"],
            "-ERR Can not run script on cluster, 'no-cluster' flag is set.\r\n",
        ),
        ("#!lua flags=no-cluster\nreturn 1", &["1", "foo"], MOVED),
    ] {
        assert_eq!(bench.eval(script, rest), reply, "{script} {rest:?}");
    }
    bench.expect(&[("MULTI", "+OK\r\n"), ("GET bar", "+QUEUED\r\n")]);
    assert_eq!(bench.eval("#!lua\nreturn redis.pcall('get','hello')", &["0"]), "+QUEUED\r\n");
    assert_eq!(bench.run("EXEC"), format!("*2\r\n$-1\r\n{other}"));
}

#[test]
fn scripts_of_a_cluster_that_is_down_fail_at_their_calls() {
    let mut bench = Bench::new();
    bench.publish(|map| map.set_owner(0, None));
    let down = "-ERR Can not execute a command 'get' while the cluster is down\r\n";
    assert_eq!(bench.eval("return redis.pcall('get','bar')", &["0"]), down);
    assert_eq!(bench.eval("return 1", &["0"]), ":1\r\n");
    assert_eq!(bench.run("SPUBLISH bar x"), ":0\r\n");
    let topology = bench.srv.nodes.cluster.topology();
    let settings = Settings { reads_when_down: true, ..topology.settings };
    bench.srv.nodes.cluster.publish(Topology::new(topology.map.clone(), id(1), settings));
    assert_eq!(
        bench.eval("return redis.pcall('set','bar','1')", &["0"]),
        "-ERR Can not execute a write command 'set' while the cluster is down and readonly\r\n"
    );
    bench.expect(&[
        ("GET bar", "$-1\r\n"),
        ("SET bar 1", "-CLUSTERDOWN The cluster is down and only accepts read commands\r\n"),
    ]);
}

#[test]
fn sort_stays_in_the_slot_of_its_key() {
    let denied = |option: &str| {
        format!(
            "-ERR {option} option of SORT denied in Cluster mode when keys formed by the pattern \
             may be in different slots.\r\n"
        )
    };
    let (by, get) = (&*denied("BY"), &*denied("GET"));
    Bench::new().expect(&[
        ("RPUSH {bar}l 2 1", ":2\r\n"),
        ("SORT {bar}l BY w_*", by),
        ("SORT {bar}l BY {bar}w_* GET #", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"),
        ("SORT {bar}l BY {b}x", "*2\r\n$1\r\n2\r\n$1\r\n1\r\n"),
        ("SORT {bar}l GET {b}w_*", get),
        ("SORT {bar}l GET foo", get),
        ("SORT {bar}l BY w_* LIMIT a b", by),
        ("SORT {bar}l LIMIT a b BY w_*", "-ERR value is not an integer or out of range\r\n"),
    ]);
}

#[test]
fn restricted_subscriber_gets_the_redirect_first() {
    let mut bench = Bench::new();
    bench.run("SUBSCRIBE channel");
    bench.expect(&[("GET foo", MOVED)]);
    assert!(bench.run("GET bar").starts_with("-ERR Can't execute 'get': only"));
}
