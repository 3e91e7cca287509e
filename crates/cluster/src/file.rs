//! The text of `cluster-config-file`, in the format of Valkey's `nodes.conf`.
//!
//! A line for each node, as in CLUSTER NODES, with all its addresses and its shard; then a line of
//! variables.

use crate::id::NodeId;
use crate::map::{Addresses, Health, Map, Node, Role};
use crate::settings::Settings;
use crate::slots::Slot;
use crate::views::View;
use std::fmt;
use std::str::FromStr;
use weft_base::limits::SLOTS;

/// Why a text is not a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// From 1. 0: the whole text.
    pub line: usize,
    pub reason: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.reason),
            line => write!(f, "line {line}: {}", self.reason),
        }
    }
}

/// The text for a map whose node `me` is this server.
pub fn write(map: &Map, me: NodeId) -> String {
    let view = View { map, me, offset: 0, settings: Settings::default(), has_lapsed: false };
    let (current, vote) = (map.current_epoch, map.last_vote_epoch);
    format!("{}vars currentEpoch {current} lastVoteEpoch {vote}\n", view.file())
}

/// The map in `text`, and the node that is this server. `new_shard`: a shard id for a primary without
/// one, as in files of old versions. `tls_bus`: a port without a name is a TLS port.
pub fn parse(
    text: &str,
    tls_bus: bool,
    new_shard: &mut dyn FnMut() -> NodeId,
) -> Result<(Map, NodeId), FileError> {
    let (mut lines, mut vars) = (Vec::new(), [0, 0]);
    for (at, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let parsed = match words.as_slice() {
            [] => Ok(()),
            [first, rest @ ..] if first.eq_ignore_ascii_case("vars") => parse_vars(rest, &mut vars),
            words => parse_line(words, tls_bus).map(|line| lines.push((at + 1, line))),
        };
        parsed.map_err(|reason| FileError { line: at + 1, reason })?;
    }
    let (mut map, me) = collect(lines, new_shard)?;
    map.current_epoch = vars[0].max(map.max_epoch());
    map.last_vote_epoch = vars[1];
    Ok((map, me))
}

/// A line that was read, before all nodes are known.
struct Line {
    node: Node,
    has_shard: bool,
    is_me: bool,
    slots: Vec<Slot>,
}

/// Puts the lines together, which may name each other.
fn collect(
    lines: Vec<(usize, Line)>,
    new_shard: &mut dyn FnMut() -> NodeId,
) -> Result<(Map, NodeId), FileError> {
    let fail = |line: usize, reason: String| FileError { line, reason };
    let mut mine = lines.iter().filter(|(_, line)| line.is_me);
    let me = mine.next().ok_or_else(|| fail(0, "no node has the flag 'myself'".into()))?;
    let (me, myself) = (me.1.node.id, me.1.node.clone());
    if let Some((line, _)) = mine.next() {
        return Err(fail(*line, "a second node has the flag 'myself'".into()));
    }
    let mut map = Map::of_one(myself);
    for (at, line) in &lines {
        let known = map.node(line.node.id).is_some();
        if known && !line.is_me {
            return Err(fail(*at, "the node has two lines".into()));
        }
        map.put_node(line.node.clone());
        for slot in &line.slots {
            if map.owner(*slot).is_some() {
                return Err(fail(*at, format!("slot {slot} has two owners")));
            }
            map.set_owner(*slot, Some(line.node.id));
        }
    }
    for (at, line) in lines.iter().filter(|(_, line)| line.node.is_primary() && !line.has_shard) {
        let node = map.node_mut(line.node.id);
        node.ok_or_else(|| fail(*at, "the node has no line".into()))?.shard = new_shard();
    }
    for (at, line) in &lines {
        let moves = line.node.migrating.values().chain(line.node.importing.values());
        let primary = line.node.primary();
        if let Some(unknown) = moves.chain([&primary]).find(|id| map.node(**id).is_none()) {
            return Err(fail(*at, format!("names the node {unknown}, which has no line")));
        }
        let primary = map.node(primary).expect("it was just found");
        if !primary.is_primary() {
            return Err(fail(*at, "its primary is a replica".into()));
        }
        let shard = primary.shard;
        let node = map.node_mut(line.node.id).expect("it was put there");
        if line.has_shard && node.shard != shard {
            return Err(fail(*at, "its primary has another shard id".into()));
        }
        node.shard = shard;
    }
    Ok((map, me))
}

fn parse_vars(words: &[&str], vars: &mut [u64; 2]) -> Result<(), String> {
    if !words.len().is_multiple_of(2) {
        return Err("a variable has no value".into());
    }
    for pair in words.chunks_exact(2) {
        let value = number(pair[1])?;
        match pair[0].to_ascii_lowercase().as_str() {
            "currentepoch" => vars[0] = value,
            "lastvoteepoch" => vars[1] = value,
            // A later version may write more.
            _ => {}
        }
    }
    Ok(())
}

fn parse_line(words: &[&str], tls_bus: bool) -> Result<Line, String> {
    let [id, address, flags, primary, _ping, _pong, epoch, _link, slots @ ..] = words else {
        return Err("a node has at least eight fields".into());
    };
    let id = node_id(id)?;
    let mut node = Node::new(id, id);
    let has_shard = parse_address(address, tls_bus, &mut node)?;
    let is_me = parse_flags(flags, &mut node)?;
    let epoch = number(epoch)?;
    match (*primary, node.is_primary()) {
        ("-", true) => node.config_epoch = epoch,
        // The epoch of a replica is that of its primary.
        (primary, false) if primary != "-" => node.role = Role::ReplicaOf(node_id(primary)?),
        _ => return Err("a replica has a primary, and a primary has none".into()),
    }
    let mut owned = Vec::new();
    for word in slots {
        match word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
            Some(word) => parse_move(word, &mut node)?,
            None => owned.extend(parse_range(word)?),
        }
    }
    Ok(Line { node, has_shard, is_me, slots: owned })
}

/// `ip:port@bus-port,host-name,name=value,...`. Whether there is a shard id.
fn parse_address(text: &str, tls_bus: bool, node: &mut Node) -> Result<bool, String> {
    let mut parts = text.split(',');
    let endpoint = parts.next().unwrap_or_default();
    let a = &mut node.addresses;
    a.host_name = parts.next().unwrap_or_default().into();
    let (mut has_shard, mut has_port, mut has_tls_port) = (false, false, false);
    for part in parts {
        let (name, value) = part.split_once('=').ok_or_else(|| format!("'{part}' has no '='"))?;
        if !name.chars().chain(value.chars()).all(is_plain) {
            return Err(format!("'{part}' has a character that is not allowed"));
        }
        match name {
            "shard-id" => (node.shard, has_shard) = (node_id(value)?, true),
            "nodename" => a.human_name = value.into(),
            "tcp-port" => (a.port, has_port) = (number(value)?, true),
            "tls-port" => (a.tls_port, has_tls_port) = (number(value)?, true),
            "client-ipv4" => a.client_ipv4 = value.into(),
            "client-ipv6" => a.client_ipv6 = value.into(),
            "client-tcp-port" => a.client_port = number(value)?,
            "client-tls-port" => a.client_tls_port = number(value)?,
            "availability-zone" => node.zone = value.into(),
            _ => return Err(format!("unknown field '{name}'")),
        }
    }
    let (ip, ports) = endpoint.rsplit_once(':').ok_or("an address has a port")?;
    a.ip = ip.into();
    let (port, bus) = ports.split_once('@').map_or((ports, None), |(port, bus)| (port, Some(bus)));
    let port: u16 = number(port)?;
    match (has_port, has_tls_port) {
        (false, false) if tls_bus => a.tls_port = port,
        (false, _) => a.port = port,
        (true, false) => a.tls_port = port,
        (true, true) => {}
    }
    a.bus_port = match bus {
        Some(bus) => number(bus)?,
        None => default_bus_port(a, tls_bus).ok_or("the bus port is too high")?,
    };
    Ok(has_shard)
}

/// The bus port that follows from the client port.
pub fn default_bus_port(addresses: &Addresses, tls_bus: bool) -> Option<u16> {
    let port = if tls_bus { addresses.tls_port } else { addresses.port };
    port.checked_add(crate::decide::BUS_PORT_DISTANCE as u16)
}

/// Valkey refuses these characters in names and values.
fn is_plain(c: char) -> bool {
    c > ',' && c != '\x7f' && !";<=>?@[]^{|}~\\".contains(c)
}

/// Whether the node is this server.
fn parse_flags(text: &str, node: &mut Node) -> Result<bool, String> {
    let (mut is_me, mut is_replica) = (false, false);
    for flag in text.split(',') {
        match flag.to_ascii_lowercase().as_str() {
            "myself" => is_me = true,
            "master" | "primary" => is_replica = false,
            "slave" | "replica" => is_replica = true,
            "fail?" => node.health = Health::Suspected,
            "fail" => node.health = Health::Failed,
            "noaddr" => (node.no_address, node.health) = (true, Health::Failed),
            "nofailover" => node.no_failover = true,
            // Such a node was never a member, and the flag is not stored.
            "handshake" | "noflags" => {}
            _ => return Err(format!("unknown flag '{flag}'")),
        }
    }
    if is_replica {
        // The next field names the primary.
        node.role = Role::ReplicaOf(node.id);
    }
    Ok(is_me)
}

/// `slot->-node` or `slot-<-node`.
fn parse_move(word: &str, node: &mut Node) -> Result<(), String> {
    let (slot, moves, other) = match (word.split_once("->-"), word.split_once("-<-")) {
        (Some((slot, other)), _) => (slot, &mut node.migrating, other),
        (None, Some((slot, other))) => (slot, &mut node.importing, other),
        (None, None) => return Err(format!("'[{word}]' is not a slot that moves")),
    };
    moves.insert(parse_slot(slot)?, node_id(other)?);
    Ok(())
}

fn parse_range(word: &str) -> Result<std::ops::RangeInclusive<Slot>, String> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Ok(parse_slot(first)?..=parse_slot(last)?)
}

fn parse_slot(word: &str) -> Result<Slot, String> {
    let slot = number::<Slot>(word)?;
    if usize::from(slot) < SLOTS { Ok(slot) } else { Err(format!("'{word}' is not a slot")) }
}

fn node_id(word: &str) -> Result<NodeId, String> {
    NodeId::parse(word.as_bytes()).ok_or_else(|| format!("'{word}' is not an id of a node"))
}

fn number<N: FromStr>(word: &str) -> Result<N, String> {
    let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| word.parse().ok()).flatten();
    number.ok_or_else(|| format!("'{word}' is not a number of this field"))
}

/// For the fuzz target: any bytes are a map or an error, and a map that is written is read again.
pub fn check_text(bytes: &[u8]) {
    let shard = NodeId::from_random([7; NodeId::LEN / 2]);
    let text = String::from_utf8_lossy(bytes);
    for tls_bus in [false, true] {
        let Ok((map, me)) = parse(&text, tls_bus, &mut || shard) else { continue };
        let written = write(&map, me);
        let (read, again) = parse(&written, tls_bus, &mut || shard).expect("it was written here");
        assert_eq!((write(&read, again), again), (written, me));
    }
}
