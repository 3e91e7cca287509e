//! Counts what etcd does for the nodes of a cluster: the real machines, the real client and a real etcd, without servers.
//!
//! The table of `docs/design/cluster.md`:
//! `ETCD_BIN=... cargo run --profile quick -p weft-cluster-driver --example many_nodes 10 30 100`.

use std::collections::BTreeMap;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft_base::rng::Rng;
use weft_cluster::node::layout::{IslandValue, Key, NodeValue, ShardValue};
use weft_cluster::node::{
    Action, Change, Duty, Entry, FailoverMode, LeaseId, Member, Node, NodeRequest, OpId, Operation,
    Outcome, RequestId, Settings, Transaction, Write,
};
use weft_cluster::{Addresses, NodeId, Role, SlotSet};
use weft_cluster_store::etcd::Options;
use weft_cluster_store::store::{self, Compare, Watch};
use weft_cluster_store::{Address, Etcd, Store};
use weft_testkit::process::Process;

/// The default of `cluster-node-timeout`.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long a cluster at rest is measured.
const REST: Duration = Duration::from_secs(60);
/// Nodes of a shard.
const MEMBERS: usize = 3;

struct Host {
    member: Member,
    store: Etcd,
    node: Mutex<Node>,
    /// Calls of the lease, of transactions and of the watch block one another only among themselves.
    queues: Mutex<[Sender<(OpId, Operation)>; 3]>,
    duty: Mutex<Duty>,
    begun: Instant,
    ends: AtomicBool,
}

impl Host {
    fn start(endpoints: &str, id: NodeId, begun: Instant, rng: &mut Rng) -> Arc<Host> {
        let address = Address::parse(&format!("etcd://{endpoints}/weft")).expect("an address");
        let store = Etcd::new(&Options::new(address)).expect("a client");
        let member = Member { node: id, incarnation: rng.next_u64() };
        let mut ids = Rng::new(rng.next_u64());
        let mut out = Vec::new();
        let ids = Box::new(move || new_id(&mut ids));
        let node = Node::new(ms(begun), member, settings(), ids, &mut out);
        let (queues, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| channel()).unzip();
        let queues = queues.try_into().expect("three");
        let host = Arc::new(Host {
            member,
            store,
            node: Mutex::new(node),
            queues: Mutex::new(queues),
            duty: Mutex::default(),
            begun,
            ends: AtomicBool::new(false),
        });
        for receiver in receivers {
            let host = host.clone();
            std::thread::spawn(move || host.serve_queue(&receiver));
        }
        host.act(out);
        host
    }

    fn pass(&self, event: impl FnOnce(&mut Node, u64, &mut Vec<Action>)) {
        let mut out = Vec::new();
        event(&mut self.node.lock().expect("no panic"), ms(self.begun), &mut out);
        self.act(out);
    }

    fn act(&self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Store { op, operation } => {
                    let queue = match operation {
                        Operation::Grant { .. }
                        | Operation::KeepAlive { .. }
                        | Operation::Probe => 0,
                        Operation::Snapshot | Operation::Transact(_) => 1,
                        Operation::Watch { .. } => 2,
                    };
                    // Its thread has ended with the host.
                    let _ = self.queues.lock().expect("no panic")[queue].send((op, operation));
                }
                Action::Duty(duty) => *self.duty.lock().expect("no panic") = duty,
                Action::Drain(id) => self.pass(|node, now, out| node.drained(now, id, false, out)),
                _ => {}
            }
        }
    }

    fn serve_queue(&self, receiver: &Receiver<(OpId, Operation)>) {
        while let Ok((op, operation)) = receiver.recv() {
            if self.ends.load(Ordering::Relaxed) {
                return;
            }
            self.execute(op, operation);
        }
    }

    /// Executes an operation as the driver of the server does.
    fn execute(&self, op: OpId, operation: Operation) {
        match operation {
            Operation::Grant { ttl } => {
                let lease = self.store.grant(Duration::from_millis(ttl), TIMEOUT / 2);
                self.pass(|node, now, out| match lease {
                    Ok(lease) => node.granted(now, op, LeaseId(lease.id.0 as i64), out),
                    Err(_) => node.failed(now, op, out),
                });
            }
            Operation::KeepAlive { lease } => {
                let kept = self.store.keep_alive(store::LeaseId(lease.0 as u64), TIMEOUT / 4);
                self.pass(|node, now, out| match kept {
                    Ok(_) => node.kept_alive(now, op, out),
                    Err(store::Error::LeaseGone) => node.lease_unknown(now, op, out),
                    Err(_) => node.failed(now, op, out),
                });
            }
            Operation::Probe => {
                let read = self.store.read(b"format", TIMEOUT / 4);
                self.pass(|node, now, out| match read {
                    Ok(_) => node.answered(now, op, out),
                    Err(_) => node.failed(now, op, out),
                });
            }
            Operation::Snapshot => {
                let read = self.store.read(b"", TIMEOUT);
                self.pass(|node, now, out| match read {
                    Ok(read) => {
                        let entries = read.entries.into_iter().map(entry).collect();
                        node.snapshot(now, op, read.revision.0, entries, out);
                    }
                    Err(_) => node.failed(now, op, out),
                });
            }
            Operation::Transact(of) => {
                let outcome = match self.store.transact(&transaction(&of), TIMEOUT) {
                    Ok(store::Outcome::Committed { revision }) => Outcome::Done(revision.0),
                    Ok(store::Outcome::Mismatch { .. }) => Outcome::Refused,
                    Err(e) if e.is_certainly_not_done() => Outcome::Refused,
                    Err(_) => Outcome::Unknown,
                };
                self.pass(|node, now, out| node.transacted(now, op, outcome, out));
            }
            Operation::Watch { after } => {
                let from = store::Revision(after).next();
                if let Ok(mut watch) = self.store.watch(b"", from, TIMEOUT) {
                    self.follow(op, &mut *watch);
                }
                self.pass(|node, now, out| node.failed(now, op, out));
            }
        }
    }

    /// Reports changes; reads from time to time, as the driver does to find a watch that is silent.
    fn follow(&self, op: OpId, watch: &mut dyn Watch) {
        let (mut looked, mut checked) = (Instant::now(), Instant::now());
        while !self.ends.load(Ordering::Relaxed) {
            match watch.next(TIMEOUT / 2) {
                Ok(Some(batch)) => {
                    let changes = batch.changes.into_iter().map(change).collect();
                    self.pass(|node, now, out| {
                        node.changes(now, op, batch.revision.0, changes, out);
                    });
                }
                Ok(None) => {}
                Err(_) => return,
            }
            if checked.elapsed() > TIMEOUT / 2 {
                checked = Instant::now();
                let _ = self.store.read(b"format", TIMEOUT / 2);
            }
            if looked.elapsed() > 4 * TIMEOUT {
                looked = Instant::now();
                let _ = self.store.read(b"", TIMEOUT);
            }
        }
    }

    /// Whether this node's map shows `primary` as the one of its shard.
    fn shows(&self, primary: NodeId) -> bool {
        let map = self.node.lock().expect("no panic").map();
        map.is_some_and(|map| map.node(primary).is_some_and(|node| node.role == Role::Primary))
    }
}

fn ms(begun: Instant) -> u64 {
    begun.elapsed().as_millis() as u64 + 1
}

fn new_id(rng: &mut Rng) -> NodeId {
    NodeId::from_random(std::array::from_fn(|_| rng.below(256) as u8))
}

fn settings() -> Settings {
    Settings { timeout: TIMEOUT.as_millis() as u64, ..Settings::default() }
}

fn entry(of: store::Entry) -> Entry {
    Entry {
        key: String::from_utf8_lossy(&of.key).into_owned(),
        value: of.value,
        revision: of.modified.0,
        lease: of.lease.map(|lease| LeaseId(lease.0 as i64)),
    }
}

fn change(of: store::Change) -> Change {
    match of {
        store::Change::Put(put) => Change::Put(entry(put)),
        store::Change::Deleted { key } => {
            Change::Deleted { key: String::from_utf8_lossy(&key).into_owned() }
        }
    }
}

fn transaction(of: &Transaction) -> store::Transaction {
    let compares = of.compares.iter().map(|(key, revision)| {
        let key = key.to_string().into_bytes();
        match revision {
            Some(revision) => Compare::Modified { key, revision: store::Revision(*revision) },
            None => Compare::Absent { key },
        }
    });
    let operations = of.writes.iter().map(|write| match write {
        Write::Put { key, value, lease } => store::Operation::Put {
            key: key.to_string().into_bytes(),
            value: value.clone(),
            lease: lease.map(|lease| store::LeaseId(lease.0 as u64)),
        },
        Write::Delete { key } => store::Operation::Delete { key: key.to_string().into_bytes() },
    });
    store::Transaction { compares: compares.collect(), operations: operations.collect() }
}

/// Writes the layout of a cluster whose nodes have met: shards of three nodes that own equal parts of the slots.
fn populate(store: &Etcd, members: &[Member], rng: &mut Rng) {
    let island = new_id(rng);
    let shards = members.len().div_ceil(MEMBERS);
    let ids: Vec<NodeId> = (0..shards).map(|_| new_id(rng)).collect();
    let mut owners = BTreeMap::new();
    let mut writes = Vec::new();
    let put = |key, value| Write::Put { key, value, lease: None };
    for (at, shard) in ids.iter().enumerate() {
        let part = |at: usize| (at * 16_384 / shards) as u16;
        owners.insert(*shard, (part(at)..part(at + 1)).collect::<SlotSet>());
        let primary = members[at];
        let (list, quorum) = (Vec::new(), 0);
        let value = ShardValue { island, epoch: None, primary, list, quorum, continues: false };
        writes.push(put(Key::Shard(*shard), value.encode()));
    }
    for (at, member) in members.iter().enumerate() {
        let addresses = Addresses {
            ip: "10.0.0.1".to_string(),
            port: 6379,
            bus_port: 16_379,
            ..Addresses::default()
        };
        let shard = ids[at % shards];
        let value = NodeValue { shard, addresses, zone: String::new(), no_failover: false };
        writes.push(put(Key::Node(member.node), value.encode()));
    }
    writes.push(put(Key::Island(island), IslandValue::Slots(owners).encode()));
    for writes in writes.chunks(100) {
        let part = Transaction { compares: Vec::new(), writes: writes.to_vec() };
        store.transact(&transaction(&part), TIMEOUT).expect("etcd is there");
    }
}

/// The sums of etcd's metrics over their labels.
fn metrics(endpoint: &str) -> BTreeMap<String, f64> {
    let mut stream = TcpStream::connect(endpoint).expect("etcd listens");
    write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    let mut sums = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.rsplit_once(' ') else { continue };
        let plain = name.split('{').next().unwrap_or(name);
        let handled = plain == "grpc_server_handled_total";
        let method = name.split("grpc_method=\"").nth(1).and_then(|rest| rest.split('"').next());
        let name = match method.filter(|_| handled) {
            Some(method) => format!("calls.{method}"),
            None => plain.to_string(),
        };
        *sums.entry(name).or_default() += value.parse().unwrap_or(0.0);
    }
    sums
}

/// The differences between two moments.
struct Span {
    before: BTreeMap<String, f64>,
    cpu: f64,
    began: Instant,
}

impl Span {
    fn begin(endpoint: &str, etcd: &Process) -> Span {
        Span { before: metrics(endpoint), cpu: etcd.cpu().total(), began: Instant::now() }
    }

    fn end(&self, what: &str, endpoint: &str, etcd: &Process) {
        let after = metrics(endpoint);
        let seconds = self.began.elapsed().as_secs_f64();
        let of = |name: &str| {
            let value = |at: &BTreeMap<String, f64>| at.get(name).copied().unwrap_or(0.0);
            value(&after) - value(&self.before)
        };
        let now = |name: &str| after.get(name).copied().unwrap_or(0.0);
        println!(
            "  {what}: {seconds:.1} s; CPU of etcd {:.2} s; keepalives {:.0}, reads {:.0}, transactions {:.0}, puts {:.0}; \
             bytes in {:.0}, out {:.0}, to disk {:.0}; events sent {:.0}; now {:.0} watchers, {:.0} watch streams, {:.0} MB",
            etcd.cpu().total() - self.cpu,
            of("calls.LeaseKeepAlive").max(of("etcd_debugging_lease_renewed_total")),
            of("etcd_mvcc_range_total"),
            of("calls.Txn"),
            of("etcd_mvcc_put_total"),
            of("etcd_network_client_grpc_received_bytes_total"),
            of("etcd_network_client_grpc_sent_bytes_total"),
            of("etcd_disk_wal_write_bytes_total").max(of("etcd_mvcc_db_total_size_in_bytes")),
            of("etcd_debugging_mvcc_events_total"),
            now("etcd_debugging_mvcc_watcher_total"),
            now("etcd_debugging_mvcc_watch_stream_total"),
            now("process_resident_memory_bytes") / 1e6,
        );
    }
}

/// Ticks, and a stand-in for replication: each replica has everything.
fn drive(hosts: &[Arc<Host>], until: impl Fn() -> bool) {
    let mut replicated = Instant::now() - TIMEOUT;
    while !until() {
        for host in hosts {
            host.pass(Node::tick);
        }
        if replicated.elapsed() > Duration::from_secs(1) {
            replicated = Instant::now();
            for host in hosts {
                let Duty::Follow { primary, epoch, .. } = *host.duty.lock().expect("no panic")
                else {
                    continue;
                };
                host.pass(|node, now, _| node.heard_primary(now));
                let primary = hosts.iter().find(|of| of.member.node == primary);
                let member = host.member;
                if let Some(primary) = primary {
                    primary.pass(|node, now, out| {
                        node.replica_progress(now, member, epoch, 1, true, out);
                    });
                }
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn measure(nodes: usize) {
    let Some(server) = weft_testkit::etcd::Etcd::start(1) else {
        println!("no etcd in ETCD_BIN, PEERS_BIN or PATH");
        return;
    };
    println!("{nodes} nodes");
    let (endpoints, begun) = (server.endpoints(), Instant::now());
    let etcd = Process(server.pid(0).expect("it runs"));
    let mut rng = Rng::new(nodes as u64);
    let span = Span::begin(&endpoints, &etcd);
    let ids: Vec<NodeId> = (0..nodes).map(|_| new_id(&mut rng)).collect();
    let hosts: Vec<_> =
        ids.iter().map(|id| Host::start(&endpoints, *id, begun, &mut rng)).collect();
    let members: Vec<Member> = hosts.iter().map(|host| host.member).collect();
    populate(&hosts[0].store, &members, &mut rng);
    hosts.iter().for_each(|host| host.pass(|node, now, out| node.data_at(now, 1, None, out)));
    let (full, rest) = (nodes.div_ceil(MEMBERS), 2 * TIMEOUT);
    let is_formed = || {
        let count = |is: fn(&Duty) -> bool| {
            hosts.iter().filter(|host| is(&host.duty.lock().expect("no panic"))).count()
        };
        let leads = count(|duty| matches!(duty, Duty::Lead { .. }));
        let follow = count(|duty| matches!(duty, Duty::Follow { .. }));
        leads == full && follow == nodes - full && begun.elapsed() > rest
    };
    drive(&hosts, is_formed);
    span.end("start", &endpoints, &etcd);

    let span = Span::begin(&endpoints, &etcd);
    let end = Instant::now() + REST;
    drive(&hosts, || Instant::now() > end);
    span.end("at rest", &endpoints, &etcd);

    // The first shard's replica gets the role, by order of an operator.
    let span = Span::begin(&endpoints, &etcd);
    let replica = hosts
        .iter()
        .find(|host| matches!(*host.duty.lock().expect("no panic"), Duty::Follow { .. }))
        .expect("a replica");
    let order = NodeRequest::Failover(FailoverMode::Plain);
    replica.pass(|node, now, out| node.request(now, RequestId(1), order, out));
    drive(&hosts, || hosts.iter().all(|host| host.shows(replica.member.node)));
    span.end("a failover by order, until all maps show it", &endpoints, &etcd);
    let end = Instant::now() + TIMEOUT / 4;
    drive(&hosts, || Instant::now() > end);
    span.end("the same, with the new list", &endpoints, &etcd);
    hosts.iter().for_each(|host| host.ends.store(true, Ordering::Relaxed));
}

fn main() {
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![10, 30, 100] } else { sizes };
    sizes.into_iter().for_each(measure);
}
