//! Tests of several modules together, on maps of one and of three nodes.

mod decisions;
mod files;
mod routing;
mod sequences;
mod views;

use crate::decide::{Facts, decide};
use crate::id::NodeId;
use crate::map::{Addresses, Map, Node, Role};
use crate::request::{Request, Verb};
use crate::slots::Slot;

/// The id of the `n`th node.
pub fn id(n: u8) -> NodeId {
    NodeId::from_random([n; 20])
}

/// The `n`th node: at 127.0.0.n, port 7000 + n.
pub fn node(n: u8) -> Node {
    let addresses = Addresses {
        ip: format!("127.0.0.{n}"),
        port: 7000 + u16::from(n),
        bus_port: 17_000 + u16::from(n),
        ..Addresses::default()
    };
    Node { addresses, ..Node::new(id(n), id(100 + n)) }
}

/// Primaries 1 and 2 with half of the slots each, and node 3, a replica of 1.
pub fn three_nodes() -> Map {
    let mut map = Map::of_one(node(1));
    map.put_node(node(2));
    map.put_node(Node { role: Role::ReplicaOf(id(1)), shard: id(101), ..node(3) });
    (0..16_384).for_each(|slot: Slot| map.set_owner(slot, Some(id(1 + u8::from(slot >= 8192)))));
    map.node_mut(id(1)).unwrap().config_epoch = 1;
    map.node_mut(id(2)).unwrap().config_epoch = 2;
    map.current_epoch = 2;
    map
}

/// The outcome of commands in a row on node `me`: of each the error, or `OK`.
pub fn run(map: &mut Map, me: u8, commands: &str) -> Vec<String> {
    run_with_keys(map, me, commands, &[])
}

/// The same with keys in some slots.
pub fn run_with_keys(map: &mut Map, me: u8, commands: &str, slots: &[Slot]) -> Vec<String> {
    let keys_in_slot = |slot| slots.iter().filter(|other| **other == slot).count();
    let facts = Facts {
        now_ms: 1_000,
        has_keys: !slots.is_empty(),
        keys_in_slot: &keys_in_slot,
        was_known: &|_| false,
        new_ids: [id(77), id(78)],
    };
    let outcomes = commands.split(';').map(|command| {
        let words: Vec<&[u8]> = command.split_whitespace().map(str::as_bytes).collect();
        let request = Request { verb: verb(words[0]), args: &words[1..] };
        match decide(map, id(me), &facts, request) {
            Ok(change) => {
                *map = map.apply(&change).unwrap();
                "OK".to_string()
            }
            Err(refusal) => refusal.text(),
        }
    });
    outcomes.collect()
}

fn verb(name: &[u8]) -> Verb {
    let plain = |verb: &Verb| format!("{verb:?}").to_ascii_lowercase();
    let name = String::from_utf8_lossy(name).replace('-', "").to_ascii_lowercase();
    Verb::ALL.into_iter().find(|verb| plain(verb) == name).unwrap_or_else(|| panic!("{name}"))
}
