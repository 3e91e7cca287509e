//! weft-links: opens links to other nodes, and publishes here what they receive.
//!
//! It sleeps while no client of this node subscribes and no other node has a link.

use crate::incoming;
use crate::link::{Link, Options};
use crate::wanted::{Changes, Wanted};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_cluster::{Node, NodeId};
use weft_config::Id;
use weft_memory::ThreadMemory;
use weft_net::interest::Interest;
use weft_net::poll::{Poll, Ready};
use weft_net::stream::RECEIVE_MAX;
use weft_process::{log_notice, log_warning};
use weft_pubsub::registry::{CanWait, Kind};
use weft_state::server::Server;

/// Interval of checks of the map and of silent links.
const TICK: Duration = Duration::from_millis(100);
/// Pause before a message is tried again that waits for a thread of this node.
const CROWDED_MS: i64 = 2;
/// Pauses before another attempt to connect: the first, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// A link of which nothing is wanted is closed after this time.
const LINGER: Duration = Duration::from_secs(10);
/// The token of [`Changes`]; links have greater ones.
const CHANGES: u64 = 0;

/// Starts the thread.
///
/// # Errors
/// Those of the system.
pub fn start(srv: &'static Server, changes: Arc<Changes>) -> std::io::Result<()> {
    std::thread::Builder::new().name("weft-links".into()).spawn(move || {
        let _stack = weft_process::crash::second_stack();
        weft_scheduler::placement::bind_to(&srv.placement().bio);
        let poll = Poll::new().and_then(|poll| {
            poll.add(&*changes, CHANGES, Interest::READ)?;
            Ok(poll)
        });
        let poll = match poll {
            Ok(poll) => poll,
            Err(e) => return log_warning!("Cluster: there are no links to other nodes: {e}"),
        };
        let mut thread = Thread {
            srv,
            changes,
            poll,
            wanted: Wanted::default(),
            links: BTreeMap::new(),
            failed: HashMap::new(),
            next_token: CHANGES + 1,
            topology: 0,
            ticked: Instant::now(),
            room: vec![0; RECEIVE_MAX],
        };
        let mut memory = ThreadMemory::new();
        let mut ready = Vec::new();
        loop {
            thread.turn(&mut ready);
            memory.publish(&srv.memory);
        }
    })?;
    Ok(())
}

/// Attempts to reach a node that have failed.
struct Failed {
    next: Instant,
    pause: Duration,
}

struct Thread {
    srv: &'static Server,
    changes: Arc<Changes>,
    poll: Poll,
    wanted: Wanted,
    /// By token.
    links: BTreeMap<u64, Link>,
    failed: HashMap<NodeId, Failed>,
    next_token: u64,
    /// The number of the topology that was looked at.
    topology: u64,
    ticked: Instant,
    room: Vec<u8>,
}

impl Thread {
    fn turn(&mut self, ready: &mut Vec<Ready>) {
        if let Err(e) = self.poll.wait(self.timeout(), ready) {
            log_warning!("Waiting for the links of the cluster: {e}");
            std::thread::sleep(TICK);
        }
        let has_changed = self.take_changes();
        for ready in &*ready {
            let Some(mut link) = self.links.remove(&ready.token) else { continue };
            match self.serve(&mut link, *ready) {
                Ok(()) => _ = self.links.insert(ready.token, link),
                Err(why) => self.fail(&link, &why),
            }
        }
        self.resume();
        let number = self.srv.nodes.cluster.number();
        if has_changed || number != self.topology || self.ticked.elapsed() >= TICK {
            self.check(number);
        }
        self.watch();
    }

    /// Milliseconds to sleep at most; negative: until something happens.
    fn timeout(&self) -> i64 {
        let is_idle =
            self.wanted.is_empty() && self.links.is_empty() && !self.srv.clients.links.is_any();
        match self.links.values().any(|link| link.is_paused) {
            true => CROWDED_MS,
            false if is_idle => -1,
            false => TICK.saturating_sub(self.ticked.elapsed()).as_millis() as i64 + 1,
        }
    }

    /// Passes changed subscriptions to all links. Returns whether something has changed.
    fn take_changes(&mut self) -> bool {
        let changed = self.changes.take();
        if changed.is_empty() {
            return false;
        }
        let difference = self.wanted.renew(changed, &self.srv.clients.pubsub);
        for link in self.links.values_mut() {
            let in_shard = link.in_shard;
            let concerns = |(kind, _): &&(Kind, _)| in_shard || *kind != Kind::Shard;
            link.unsubscribe(difference.removed.iter().filter(concerns));
            link.subscribe(difference.added.iter().filter(concerns));
        }
        true
    }

    fn serve(&mut self, link: &mut Link, ready: Ready) -> Result<(), String> {
        if ready.write || ready.read {
            link.advance()?;
        }
        if ready.read && link.read(&mut self.room)? {
            self.deliver(link)?;
        }
        Ok(())
    }

    /// Publishes to the clients of this node, never to other nodes.
    fn deliver(&mut self, link: &mut Link) -> Result<(), String> {
        let srv = self.srv;
        let longest = usize::try_from(srv.config().int(Id::PROTO_MAX_BULK_LEN)).unwrap_or(0);
        // A node with a greater limit may send a longer message.
        let longest = longest.max(512 << 20);
        let was_up = link.is_up();
        let registry = &srv.clients.pubsub;
        link.deliver(longest, |kind, channel, message| {
            let patience = CanWait::Some;
            registry.publish(kind, channel, message, patience, srv, &mut || {}).is_ok()
        })?;
        if link.is_up() && !was_up && self.failed.remove(&link.node).is_some() {
            log_notice!("Cluster: the link to node {} is up", link.node.as_str());
        }
        Ok(())
    }

    /// Tries messages again that wait for a thread of this node.
    fn resume(&mut self) {
        let paused: Vec<u64> =
            self.links.iter().filter(|(_, link)| link.is_paused).map(|(token, _)| *token).collect();
        for token in paused {
            let Some(mut link) = self.links.remove(&token) else { continue };
            match self.deliver(&mut link) {
                Ok(()) => _ = self.links.insert(token, link),
                Err(why) => self.fail(&link, &why),
            }
        }
    }

    /// A link has ended, or can't be opened.
    fn fail(&mut self, link: &Link, why: &str) {
        self.poll.remove(link);
        self.note_failure(link.node, link.is_up(), why);
    }

    fn note_failure(&mut self, node: NodeId, was_up: bool, why: &str) {
        let now = Instant::now();
        let earlier = self.failed.get(&node).map(|failed| failed.pause);
        if earlier.is_none() || was_up {
            log_notice!("Cluster: the link to node {} has failed: {why}", node.as_str());
        }
        let pause = earlier.map_or(RETRY.0, |pause| (2 * pause).min(RETRY.1));
        self.failed.insert(node, Failed { next: now + pause, pause });
    }

    /// Opens and closes links as the map and the subscriptions require.
    fn check(&mut self, number: u64) {
        let now = Instant::now();
        let srv = self.srv;
        let topology = srv.nodes.cluster.topology();
        let map = &topology.map;
        let config = srv.config();
        let timeout = Duration::from_millis(config.int(Id::CLUSTER_NODE_TIMEOUT).max(1000) as u64);
        let tls = config.bool(Id::TLS_CLUSTER);
        drop(config);
        let shard = map.node(topology.me).map(|node| node.shard);
        let in_shard = |node: &Node| Some(node.shard) == shard;
        self.links.retain(|_, link| {
            let node = map.node(link.node).filter(|node| address_of(node, tls) == link.address);
            let Some(node) = node else {
                self.poll.remove(&*link);
                return false;
            };
            let is_in_shard = in_shard(node);
            if std::mem::replace(&mut link.in_shard, is_in_shard) != is_in_shard {
                match is_in_shard {
                    true => link.subscribe(self.wanted.of_shard()),
                    false => link.unsubscribe(self.wanted.of_shard()),
                }
            }
            if self.wanted.is_wanted_of(is_in_shard) {
                link.idle_since = None;
                return true;
            }
            let lingers = now.duration_since(*link.idle_since.get_or_insert(now)) < LINGER;
            if !lingers {
                self.poll.remove(&*link);
            }
            lingers
        });
        let silent: Vec<u64> = self
            .links
            .iter_mut()
            .filter_map(|(token, link)| (!link.check(now, timeout)).then_some(*token))
            .collect();
        for token in silent {
            if let Some(link) = self.links.remove(&token) {
                self.fail(&link, "it doesn't answer");
            }
        }
        self.failed.retain(|node, _| map.node(*node).is_some());
        for node in map.nodes().iter().filter(|node| node.id != topology.me) {
            let is_linked = self.links.values().any(|link| link.node == node.id);
            let waits = self.failed.get(&node.id).is_some_and(|failed| failed.next > now);
            let (ip, port) = address_of(node, tls);
            let has_address = !ip.is_empty() && port != 0;
            let is_in_shard = in_shard(node);
            if !is_linked && !waits && has_address && self.wanted.is_wanted_of(is_in_shard) {
                self.open((node.id, (ip, port)), is_in_shard, topology.me);
            }
        }
        if std::mem::replace(&mut self.topology, number) != number {
            let is_gone = |node| map.node(node).is_none();
            let incoming = srv.clients.links.incoming();
            incoming.iter().filter(|l| is_gone(l.node)).for_each(|l| incoming::close(srv, l));
        }
        srv.clients.links.show_outgoing(self.links.values().map(Link::shown).collect());
        self.ticked = now;
    }

    fn open(&mut self, to: (NodeId, (String, u16)), in_shard: bool, me: NodeId) {
        let srv = self.srv;
        let config = srv.config();
        let text = |id| config.str(id).into_owned();
        let options = Options {
            me,
            source: text(Id::BIND_SOURCE_ADDR),
            user: text(Id::PRIMARYUSER),
            password: text(Id::PRIMARYAUTH),
            tls: srv.process.tls.contexts().filter(|_| config.bool(Id::TLS_CLUSTER)),
        };
        drop(config);
        let node = to.0;
        let opened = Link::open(to, &options, in_shard, srv.now_ms()).and_then(|link| {
            self.poll.add(&link, self.next_token, link.interest)?;
            Ok(link)
        });
        match opened {
            Ok(mut link) => {
                link.subscribe(self.wanted.of_node(in_shard));
                self.links.insert(self.next_token, link);
                self.next_token += 1;
            }
            Err(e) => self.note_failure(node, false, &weft_process::errors::words(&e)),
        }
    }

    /// Makes epoll report what the links wait for.
    fn watch(&mut self) {
        let mut broken = Vec::new();
        for (token, link) in &mut self.links {
            let wants = link.wants();
            if std::mem::replace(&mut link.interest, wants) != wants
                && self.poll.change(&*link, *token, wants).is_err()
            {
                broken.push(*token);
            }
        }
        for token in broken {
            if let Some(link) = self.links.remove(&token) {
                self.fail(&link, "the system can't watch it");
            }
        }
    }
}

/// Where a node is reached by other nodes.
fn address_of(node: &Node, tls: bool) -> (String, u16) {
    let addresses = &node.addresses;
    (addresses.ip.clone(), if tls { addresses.tls_port } else { addresses.port })
}
