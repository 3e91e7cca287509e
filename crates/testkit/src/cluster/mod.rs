//! Clusters over real processes: several nodes on loopback ports, of Weft (with etcd) or of Valkey.
//!
//! | module | contents |
//! |---|---|
//! | [`node`] | a process with a fixed port and folder: kill, stop, continue, restart |
//! | [`proxy`] | a TCP proxy whose network fails on demand |
//! | [`view`] | CLUSTER NODES, parsed |
//! | [`session`] | a client that follows redirects, and separates requests that failed from those without an answer |
//! | [`cli`] | `valkey-cli --cluster` |
//! | [`slot`] | hash slots |
//! | [`ports`] | ports of nodes |
//!
//! Waits end with a state, never after a time. One cluster runs at a time in a test program, since each has several
//! processes that must not miss their deadlines.

pub mod cli;
pub mod node;
pub mod ports;
pub mod proxy;
pub mod session;
pub mod slot;
pub mod view;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::etcd::Etcd;
use crate::value::Value;
use crate::{locate, skipped};
use node::Node;
use proxy::{Link, Proxy};
use session::Session;
use slot::SLOTS;
use view::View;

/// How long a state may take to come. It is not a performance limit.
pub const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(25);

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The program of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Valkey,
    Weft,
}

/// How to start the nodes.
#[derive(Clone, Debug)]
pub struct Settings {
    pub nodes: usize,
    /// `cluster-node-timeout` in milliseconds: Weft's lease.
    pub timeout_ms: u64,
    /// The members of etcd.
    pub stores: usize,
    /// Whether each node reaches etcd by a proxy of its own.
    pub cut_store: bool,
    /// Whether nodes reach each other by proxies: each announces the port of one.
    pub cut_nodes: bool,
    /// Whether each node has a TLS port, by which it is met. The arguments name the certificates.
    pub tls: bool,
    /// Arguments of all nodes.
    pub args: Vec<String>,
    /// Arguments of Weft alone.
    pub weft: Vec<String>,
    /// Environment variables of all nodes.
    pub env: Vec<(String, String)>,
}

impl Settings {
    pub fn of(nodes: usize) -> Settings {
        Settings {
            nodes,
            timeout_ms: 2000,
            stores: 1,
            cut_store: false,
            cut_nodes: false,
            tls: false,
            args: Vec::new(),
            weft: Vec::new(),
            env: Vec::new(),
        }
    }

    #[must_use]
    pub fn with(mut self, args: &[&str]) -> Settings {
        self.args.extend(args.iter().map(|arg| arg.to_string()));
        self
    }

    /// Adds arguments that only Weft has.
    #[must_use]
    pub fn with_weft(mut self, args: &[&str]) -> Settings {
        self.weft.extend(args.iter().map(|arg| arg.to_string()));
        self
    }
}

/// See the module's documentation.
pub struct Cluster {
    pub kind: Kind,
    pub nodes: Vec<Node>,
    pub etcd: Option<Etcd>,
    settings: Settings,
    program: PathBuf,
    /// For each node one proxy for each member of etcd.
    store_links: Vec<Vec<Proxy>>,
    node_links: Vec<Proxy>,
    tls_ports: Vec<u16>,
    _turn: MutexGuard<'static, ()>,
}

impl Cluster {
    /// Starts nodes that don't know each other; `None`, with a note, if a program is missing.
    #[track_caller]
    pub fn start(kind: Kind, settings: Settings) -> Option<Cluster> {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let program = match kind {
            Kind::Weft => locate::weft().to_path_buf(),
            Kind::Valkey => match locate::valkey() {
                Some(program) => program,
                None => {
                    skipped::note_here("no valkey-server in PEERS_BIN or PATH");
                    return None;
                }
            },
        };
        let etcd = match kind {
            Kind::Valkey => None,
            Kind::Weft => match Etcd::start(settings.stores) {
                Some(etcd) => Some(etcd),
                None => {
                    skipped::note_here("no etcd in ETCD_BIN, PEERS_BIN or PATH");
                    return None;
                }
            },
        };
        let mut cluster = Cluster {
            kind,
            nodes: Vec::new(),
            etcd,
            settings,
            program,
            store_links: Vec::new(),
            node_links: Vec::new(),
            tls_ports: Vec::new(),
            _turn: turn,
        };
        for _ in 0..cluster.settings.nodes {
            cluster.add_node();
        }
        for node in &mut cluster.nodes {
            node.wait_until_up();
        }
        Some(cluster)
    }

    /// A cluster whose first nodes are primaries and own equal shares of the slots. Node `primaries + i` replicates
    /// primary `i % primaries`.
    #[track_caller]
    pub fn formed(kind: Kind, primaries: usize, settings: Settings) -> Option<Cluster> {
        let cluster = Cluster::start(kind, settings)?;
        cluster.form(primaries);
        Some(cluster)
    }

    /// Starts one more node without waiting for it; returns its number.
    #[track_caller]
    pub fn add_node(&mut self) -> usize {
        let index = self.nodes.len();
        let node = Node::new(&self.program);
        if self.settings.cut_nodes {
            self.node_links.push(Proxy::to(node.port()));
        }
        if let (true, Some(etcd)) = (self.settings.cut_store, &self.etcd) {
            let port = |endpoint: &str| {
                let (_, port) = endpoint.rsplit_once(':').expect("HOST:PORT");
                port.parse::<u16>().expect("a port")
            };
            let links = etcd.endpoints().split(',').map(|e| Proxy::to(port(e))).collect();
            self.store_links.push(links);
        }
        if self.settings.tls {
            self.tls_ports.push(ports::node_port());
        }
        self.nodes.push(node);
        let args = self.args_of(index);
        self.nodes[index].set_args(args);
        self.nodes[index].set_env(self.settings.env.clone());
        self.nodes[index].spawn();
        index
    }

    fn args_of(&self, index: usize) -> Vec<String> {
        let timeout = self.settings.timeout_ms.to_string();
        let announced = self.announced(index).to_string();
        let mut args: Vec<String> = ["--cluster-node-timeout", &timeout]
            .into_iter()
            .chain(["--cluster-announce-ip", "127.0.0.1", "--repl-diskless-sync-delay", "0"])
            .map(str::to_string)
            .collect();
        if self.settings.cut_nodes {
            args.extend(["--cluster-announce-port".into(), announced]);
        }
        if let Some(port) = self.tls_ports.get(index) {
            args.extend(["--tls-port".into(), port.to_string()]);
        }
        args.extend(self.settings.args.iter().cloned());
        if self.kind == Kind::Weft {
            args.extend(["--cluster-store".into(), self.store_of(index)]);
            args.extend(self.settings.weft.iter().cloned());
        }
        args
    }

    fn store_of(&self, index: usize) -> String {
        let endpoints = match self.store_links.get(index) {
            Some(links) => {
                let all: Vec<String> =
                    links.iter().map(|link| format!("127.0.0.1:{}", link.port())).collect();
                all.join(",")
            }
            None => self.etcd.as_ref().map(Etcd::endpoints).unwrap_or_default(),
        };
        format!("etcd://{endpoints}/test")
    }

    /// The port by which other nodes and redirected clients know a node.
    pub fn announced(&self, index: usize) -> u16 {
        match self.node_links.get(index) {
            Some(link) => link.port(),
            None => self.nodes[index].port(),
        }
    }

    /// The TLS port of a node.
    pub fn tls_port(&self, index: usize) -> Option<u16> {
        self.tls_ports.get(index).copied()
    }

    /// The number of the node that announces this port.
    pub fn by_port(&self, port: u16) -> Option<usize> {
        (0..self.nodes.len()).find(|&i| self.announced(i) == port)
    }

    /// Changes the network between a node and etcd.
    pub fn link_to_store(&self, index: usize, link: Link) {
        for proxy in &self.store_links[index] {
            proxy.set(link);
        }
    }

    /// Changes the network before a node: for its replicas and other nodes, not for the clients of this scene.
    pub fn link_to_node(&self, index: usize, link: Link) {
        self.node_links[index].set(link);
    }

    /// A client that follows redirects.
    pub fn session(&self) -> Session {
        let ports = (0..self.nodes.len()).map(|i| (self.announced(i), self.nodes[i].port()));
        Session::new(ports.collect())
    }

    #[track_caller]
    pub fn client(&self, index: usize) -> Client {
        self.nodes[index].client()
    }

    /// CLUSTER NODES of a node, if it answers.
    pub fn try_view(&self, index: usize) -> Option<View> {
        View::ask(&mut self.nodes[index].try_client()?)
    }

    #[track_caller]
    pub fn view(&self, index: usize) -> View {
        self.try_view(index).unwrap_or_else(|| panic!("node {index} doesn't answer"))
    }

    #[track_caller]
    pub fn id(&self, index: usize) -> String {
        self.client(index).cmd(&["CLUSTER", "MYID"]).text()
    }

    /// The running nodes.
    pub fn running(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&i| self.nodes[i].is_running()).collect()
    }

    /// The running node that serves this slot, by its own word.
    pub fn owner(&self, slot: u16) -> Option<usize> {
        self.running().into_iter().find(|&i| {
            let view = self.try_view(i);
            view.is_some_and(|view| view.myself().is_primary() && view.myself().owns(slot))
        })
    }

    /// The running replicas of a node, by its own word.
    pub fn replicas_of(&self, index: usize) -> Vec<usize> {
        let view = self.view(index);
        let id = view.myself().id.clone();
        let ports = view.replicas_of(&id).map(|line| line.port);
        ports
            .filter_map(|port| self.by_port(port))
            .filter(|&i| self.nodes[i].is_running())
            .collect()
    }

    /// Joins the nodes as tools do: slots, epochs, MEET, REPLICATE.
    #[track_caller]
    pub fn form(&self, primaries: usize) {
        let nodes = self.nodes.len();
        for i in 0..primaries {
            let first = usize::from(SLOTS) * i / primaries;
            let last = usize::from(SLOTS) * (i + 1) / primaries - 1;
            let [first, last] = [first.to_string(), last.to_string()];
            self.client(i).ok(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
        }
        for i in 0..nodes {
            self.client(i).ok(&["CLUSTER", "SET-CONFIG-EPOCH", &(i + 1).to_string()]);
        }
        let port = self.tls_port(0).unwrap_or_else(|| self.announced(0)).to_string();
        let bus = (self.nodes[0].port() + ports::BUS).to_string();
        for i in 1..nodes {
            self.client(i).ok(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let knows_all = |i: usize| self.try_view(i).is_some_and(|view| view.0.len() == nodes);
        self.wait_until("all nodes know each other", || (0..nodes).all(knows_all));
        for i in primaries..nodes {
            let primary = self.id((i - primaries) % primaries);
            // A node of Valkey may not know yet that the other one is a primary.
            let mut client = self.client(i);
            let mut error = None;
            self.wait_until("a node becomes a replica", || {
                error = client.cmd(&["CLUSTER", "REPLICATE", &primary]).error();
                error.is_none()
            });
        }
        self.settle();
    }

    /// Waits until all running nodes agree and serve.
    ///
    /// # Panics
    /// If they don't, with the missing condition.
    #[track_caller]
    pub fn settle(&self) {
        self.settle_among(&self.running());
    }

    /// Waits until these nodes agree on a map in which all slots have an owner, serve, and replicate.
    #[track_caller]
    pub fn settle_among(&self, members: &[usize]) {
        let begin = Instant::now();
        while let Some(missing) = self.unsettled(members) {
            if begin.elapsed() > PATIENCE {
                panic!("the cluster doesn't settle: {missing}\n{}", self.describe());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until all nodes list all replicas as online: in Weft, those that may be promoted. Valkey hides replicas whose
    /// offset is 0, so this writes a key to each primary.
    #[track_caller]
    pub fn settle_replicas(&self) {
        self.settle();
        for node in self.running() {
            let view = self.view(node);
            let own = view.myself();
            if let Some(&(slot, _)) = own.slots.first().filter(|_| own.is_primary()) {
                let key = slot::key_in(slot, "settle");
                self.session().until_done(&key, &["SET", &key, "v"]);
                self.session().until_done(&key, &["DEL", &key]);
            }
        }
        let is_online = |node: &Value| node.field("health").is_some_and(|h| h.text() == "online");
        self.wait_until("all replicas are online", || {
            self.running().into_iter().all(|node| {
                let shards = self.client(node).cmd(&["CLUSTER", "SHARDS"]);
                let mut nodes = shards.items().iter().filter_map(|shard| shard.field("nodes"));
                nodes.all(|nodes| nodes.items().iter().all(is_online))
            })
        });
    }

    fn unsettled(&self, members: &[usize]) -> Option<String> {
        let mut shapes: Vec<(usize, Vec<String>)> = Vec::new();
        for &i in members {
            let Some(mut client) = self.nodes[i].try_client() else {
                return Some(format!("node {i} doesn't listen"));
            };
            let text = |client: &mut Client, args: &[&str]| {
                client.try_cmd(args).map(|reply| reply.value.bytes().map(<[u8]>::to_vec))
            };
            let (Ok(Some(state)), Ok(Some(replication)), Some(view)) = (
                text(&mut client, &["CLUSTER", "INFO"]),
                text(&mut client, &["INFO", "replication"]),
                View::ask(&mut client),
            ) else {
                return Some(format!("node {i} doesn't answer"));
            };
            let (state, replication) =
                (String::from_utf8_lossy(&state), String::from_utf8_lossy(&replication));
            if !state.contains("cluster_state:ok") {
                return Some(format!("node {i} says {:?}", state.lines().next()));
            }
            if !view.myself().is_primary() && !replication.contains("master_link_status:up") {
                return Some(format!("replica {i} has no link"));
            }
            if view.assigned() != usize::from(SLOTS) {
                return Some(format!("node {i} knows owners of {} slots", view.assigned()));
            }
            for &other in members {
                match view.by_port(self.announced(other)) {
                    None => return Some(format!("node {i} doesn't know node {other}")),
                    Some(line) if line.is_failing() || !line.is_connected => {
                        return Some(format!("node {i} says of node {other}: {line:?}"));
                    }
                    Some(_) => {}
                }
            }
            shapes.push((i, view.shape()));
        }
        let (first, shape) = shapes.first()?;
        let other = shapes.iter().find(|(_, other)| other != shape)?;
        Some(format!("nodes {first} and {} differ:\n{shape:#?}\n{:#?}", other.0, other.1))
    }

    /// State, map and links of all nodes, for messages.
    pub fn describe(&self) -> String {
        let mut all = String::new();
        for (i, node) in self.nodes.iter().enumerate() {
            let said = node.try_client().filter(|_| node.is_running()).and_then(said_by);
            let said = said.unwrap_or_else(|| "doesn't answer".into());
            all += &format!("=== node {i}, port {}\n{said}", self.announced(i));
        }
        all
    }

    /// Waits for a state.
    ///
    /// # Panics
    /// If it doesn't come.
    #[track_caller]
    pub fn wait_until(&self, state: &str, is_reached: impl FnMut() -> bool) {
        self.wait_within(PATIENCE, state, is_reached);
    }

    /// Waits this long for a state.
    #[track_caller]
    pub fn wait_within(&self, time: Duration, state: &str, mut is_reached: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is_reached() {
            if begin.elapsed() > time {
                panic!("not reached in {time:?}: {state}\n{}", self.describe());
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// The state, the map and the links of a node.
fn said_by(mut client: Client) -> Option<String> {
    let mut text = |args: &[&str]| {
        let reply = client.try_cmd(args).ok()?.value;
        Some(String::from_utf8_lossy(reply.bytes()?).into_owned())
    };
    let info = text(&["CLUSTER", "INFO"])? + &text(&["INFO", "replication"])?;
    let names = ["cluster_state", "role", "master_", "connected_slaves", "slave", "weft_"];
    let kept = info.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
    Some(text(&["CLUSTER", "NODES"])? + &kept.collect::<Vec<_>>().join(" ") + "\n")
}
