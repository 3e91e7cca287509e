//! Cluster mode: the slots of each node, and tags that hash to them.
//!
//! Each connection belongs to a node. The word `{tag}` in a request is replaced by a tag that
//! hashes to a slot of that node, so all nodes get their share. When slots move, nodes answer MOVED
//! or ASK. Then the map is fetched again, and the request is sent to the right node; its latency
//! counts from the first send. That happens outside of the fast path, one request at a time,
//! through a [`Control`].

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weft_base::slot::key_slot;

use crate::connect::{Address, Transport};
use crate::control::{Control, Reply};
use crate::options::{ReadFrom, Target};

const SLOTS: usize = 16384;

/// How often a request follows redirections, or waits for a cluster that is down.
const TRIES: usize = 30;

/// A node that gets requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub target: Target,
    /// Its id in the cluster.
    pub name: String,
    pub is_primary: bool,
    pub slots: Vec<u16>,
}

/// The nodes that get requests, with their slots; shared by all threads.
#[derive(Debug)]
pub struct Cluster {
    mode: ReadFrom,
    transport: Transport,
    greetings: Vec<Vec<String>>,
    tags: Vec<[u8; 3]>,
    nodes: Mutex<Arc<Vec<Node>>>,
    version: AtomicU64,
}

impl Cluster {
    /// Reads all nodes from one of them.
    ///
    /// # Errors
    /// If it doesn't know them, or no node is left.
    pub fn fetch(
        target: &Target,
        mode: ReadFrom,
        transport: &Transport,
        greetings: Vec<Vec<String>>,
    ) -> io::Result<Cluster> {
        let nodes = ask_for_nodes(target, mode, transport, &greetings)?;
        if nodes.is_empty() {
            return Err(io::Error::other("Invalid cluster: 0 node(s)."));
        }
        let (nodes, version) = (Mutex::new(Arc::new(nodes)), AtomicU64::new(0));
        let transport = transport.clone();
        Ok(Cluster { mode, transport, greetings, tags: tags(), nodes, version })
    }

    /// The present nodes. A node keeps its index in this list.
    pub fn nodes(&self) -> Arc<Vec<Node>> {
        Arc::clone(&self.nodes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Increases whenever the nodes change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The tag of a slot.
    pub fn tag(&self, slot: u16) -> [u8; 3] {
        self.tags[usize::from(slot)]
    }

    /// The role of the nodes, in the reference's words.
    pub fn roles(&self) -> &'static str {
        match self.mode {
            ReadFrom::No => "primary",
            ReadFrom::Yes => "replica",
            ReadFrom::All => "cluster",
        }
    }

    /// Reads the nodes again, unless another thread has since `seen`.
    ///
    /// # Errors
    /// If no node answers.
    pub fn refresh(&self, seen: u64) -> io::Result<()> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if self.version() != seen {
            return Ok(());
        }
        eprintln!("WARNING: Cluster slots configuration changed, fetching new one...");
        let mut failure = io::Error::other("no node to ask");
        for node in nodes.iter() {
            match ask_for_nodes(&node.target, self.mode, &self.transport, &self.greetings) {
                Ok(fresh) => {
                    *nodes = Arc::new(merged(&nodes, fresh));
                    self.version.fetch_add(1, Ordering::Release);
                    return Ok(());
                }
                Err(e) => failure = e,
            }
        }
        Err(failure)
    }
}

/// Merges the new nodes into the old list; nodes that are gone have no slots.
fn merged(old: &[Node], mut fresh: Vec<Node>) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for node in old {
        match fresh.iter().position(|new| new.name == node.name) {
            Some(at) => nodes.push(fresh.swap_remove(at)),
            None => nodes.push(Node { slots: Vec::new(), ..node.clone() }),
        }
    }
    nodes.append(&mut fresh);
    nodes
}

fn ask_for_nodes(
    target: &Target,
    mode: ReadFrom,
    transport: &Transport,
    greetings: &[Vec<String>],
) -> io::Result<Vec<Node>> {
    let mut control = Control::connect(&Address::resolve(target, transport)?)?;
    control.greet(greetings)?;
    match control.ask(&["CLUSTER", "SLOTS"])? {
        Reply::Error(error) => Err(io::Error::other(format!("CLUSTER SLOTS ERROR: {error}"))),
        reply => parse_nodes(&reply, mode, target)
            .ok_or_else(|| io::Error::other("CLUSTER SLOTS: a reply of another form")),
    }
}

/// Parses the reply of CLUSTER SLOTS; none if it has another form. A node that doesn't know its own
/// host gets the host that was asked.
fn parse_nodes(reply: &Reply, mode: ReadFrom, asked: &Target) -> Option<Vec<Node>> {
    let mut nodes: Vec<Node> = Vec::new();
    for range in reply.items() {
        let [Reply::Integer(from), Reply::Integer(to), holders @ ..] = range.items() else {
            return None;
        };
        let slots = u16::try_from(*from).ok()?..=u16::try_from(*to).ok()?;
        for (nth, holder) in holders.iter().enumerate() {
            let is_primary = nth == 0;
            let is_asked = match mode {
                ReadFrom::No => is_primary,
                ReadFrom::Yes => !is_primary,
                ReadFrom::All => true,
            };
            let [host, Reply::Integer(port), name, ..] = holder.items() else { return None };
            if !is_asked {
                continue;
            }
            let host = match (host.text(), asked) {
                (b"" | b"?", Target::Tcp(host, _)) => host.clone(),
                (host, _) => String::from_utf8_lossy(host).into_owned(),
            };
            let name = String::from_utf8_lossy(name.text()).into_owned();
            let at = nodes.iter().position(|node| node.name == name).unwrap_or_else(|| {
                let target = Target::Tcp(host, *port as u16);
                nodes.push(Node { target, name, is_primary, slots: Vec::new() });
                nodes.len() - 1
            });
            nodes[at].slots.extend(slots.clone());
        }
    }
    Some(nodes)
}

/// For each slot a tag of three characters that hashes to it.
fn tags() -> Vec<[u8; 3]> {
    let letters: Vec<u8> = (b'0'..=b'9').chain(b'A'..=b'Z').chain(b'a'..=b'z').collect();
    let (mut tags, mut found) = (vec![[0; 3]; SLOTS], 0);
    for &a in &letters {
        for &b in &letters {
            for &c in &letters {
                let tag = &mut tags[usize::from(key_slot(&[a, b, c]))];
                if *tag == [0; 3] {
                    *tag = [a, b, c];
                    found += 1;
                }
            }
        }
        if found == SLOTS {
            break;
        }
    }
    tags
}

/// Follows redirections for one thread.
#[derive(Debug)]
pub struct Follower {
    cluster: Arc<Cluster>,
    controls: HashMap<Target, Control>,
}

/// Whether an error of a cluster requests a redirection or a retry.
pub fn is_redirection(error: &str) -> bool {
    ["MOVED ", "ASK ", "CLUSTERDOWN", "TRYAGAIN"].iter().any(|word| error.starts_with(word))
}

impl Follower {
    pub fn new(cluster: Arc<Cluster>) -> Follower {
        Follower { cluster, controls: HashMap::new() }
    }

    /// The reply of the right node to a request that was answered with `error`.
    ///
    /// # Errors
    /// If a node is gone, or the cluster doesn't become stable.
    pub fn follow(&mut self, request: &[u8], from: &Target, error: &str) -> io::Result<Reply> {
        let (mut at, mut error) = (from.clone(), error.to_string());
        for _ in 0..TRIES {
            let seen = self.cluster.version();
            let is_ask = error.starts_with("ASK ");
            match destination(&error, &at) {
                Some(target) => at = target,
                None => std::thread::sleep(Duration::from_millis(1000 / TRIES as u64 * 10)),
            }
            if !is_ask {
                self.cluster.refresh(seen)?;
            }
            match self.send(&at, request, is_ask)? {
                Reply::Error(again) if is_redirection(&again) => error = again,
                reply => return Ok(reply),
            }
        }
        Err(io::Error::other(format!("redirected {TRIES} times, at last: {error}")))
    }

    fn send(&mut self, to: &Target, request: &[u8], asking: bool) -> io::Result<Reply> {
        if !self.controls.contains_key(to) {
            let mut control = Control::connect(&Address::resolve(to, &self.cluster.transport)?)?;
            control.greet(&self.cluster.greetings)?;
            self.controls.insert(to.clone(), control);
        }
        let control = self.controls.get_mut(to).ok_or(io::ErrorKind::NotConnected)?;
        if asking {
            control.ask(&["ASKING"])?;
        }
        control.send(request)?;
        control.reply()
    }
}

/// The target of `MOVED slot host:port` and `ASK slot host:port`; an empty host is the sender's.
fn destination(error: &str, sender: &Target) -> Option<Target> {
    let mut words = error.split(' ');
    if !matches!(words.next(), Some("MOVED" | "ASK")) {
        return None;
    }
    let (host, port) = words.nth(1)?.rsplit_once(':')?;
    let host = match (host, sender) {
        ("" | "?", Target::Tcp(host, _)) => host.clone(),
        (host, _) => host.to_string(),
    };
    Some(Target::Tcp(host, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skipper::Types;

    #[test]
    fn each_slot_has_its_tag() {
        let tags = tags();
        assert!(tags.iter().enumerate().all(|(slot, tag)| usize::from(key_slot(tag)) == slot));
    }

    fn array(items: Vec<Reply>) -> Reply {
        Reply::Items(Types::ARRAY, items)
    }

    fn holder(host: &str, port: i64, name: &str) -> Reply {
        let text = |text: &str| Reply::Text(Types::BULK, text.into());
        array(vec![text(host), Reply::Integer(port), text(name), array(vec![])])
    }

    #[test]
    fn slots_are_read_by_mode() {
        let asked = Target::Tcp("box".into(), 1);
        let range = |from, to, holders: Vec<Reply>| {
            array([vec![Reply::Integer(from), Reply::Integer(to)], holders].concat())
        };
        let reply = array(vec![
            range(0, 1, vec![holder("a", 1, "A"), holder("b", 2, "B")]),
            range(5, 5, vec![holder("a", 1, "A"), holder("b", 2, "B")]),
            range(6, 6, vec![holder("", 3, "C")]),
        ]);
        let names = |mode| -> Vec<(String, String, Vec<u16>)> {
            let nodes = parse_nodes(&reply, mode, &asked).unwrap();
            nodes.into_iter().map(|n| (n.name, n.target.to_string(), n.slots)).collect()
        };
        let node = |name: &str, at: &str, slots: &[u16]| {
            (name.to_string(), at.to_string(), slots.to_vec())
        };
        let (a, b, c) =
            (node("A", "a:1", &[0, 1, 5]), node("B", "b:2", &[0, 1, 5]), node("C", "box:3", &[6]));
        assert_eq!(names(ReadFrom::No), [a.clone(), c.clone()]);
        assert_eq!(names(ReadFrom::Yes), std::slice::from_ref(&b));
        assert_eq!(names(ReadFrom::All), [a, b, c]);
        assert_eq!(parse_nodes(&array(vec![Reply::Null]), ReadFrom::No, &asked), None);
    }

    #[test]
    fn nodes_keep_their_places() {
        let node = |name: &str, slots: &[u16]| Node {
            target: Target::Tcp(name.into(), 1),
            name: name.into(),
            is_primary: true,
            slots: slots.to_vec(),
        };
        let nodes =
            merged(&[node("a", &[1]), node("b", &[2])], vec![node("c", &[1]), node("b", &[2, 3])]);
        assert_eq!(nodes, [node("a", &[]), node("b", &[2, 3]), node("c", &[1])]);
    }

    #[test]
    fn redirections_point_somewhere() {
        let sender = Target::Tcp("me".into(), 1);
        let to = |error: &str| destination(error, &sender).map(|target| target.to_string());
        assert_eq!(to("MOVED 5 box:7000"), Some("box:7000".into()));
        assert_eq!(to("ASK 5 ::1:7000"), Some("::1:7000".into()));
        assert_eq!(to("MOVED 5 :7000"), Some("me:7000".into()));
        assert_eq!(to("CLUSTERDOWN no"), None);
        assert!(is_redirection("TRYAGAIN x") && !is_redirection("ERR MOVED"));
    }
}
