//! The keys under the prefix.

use crate::id::{NodeId, ShardId};
use std::fmt;

/// Nodes that have met, and their slots.
pub type IslandId = NodeId;

/// A change of the owner of slots that has not happened yet.
pub type HandoverId = NodeId;

/// A key, without the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    Format,
    Node(NodeId),
    Shard(ShardId),
    Island(IslandId),
    Handover(HandoverId),
    Failover(ShardId),
    Lease(NodeId),
    /// The marks of SETSLOT of a shard.
    Marks(ShardId),
}

impl Key {
    /// The key that `text` is.
    pub fn parse(text: &str) -> Option<Key> {
        if text == "format" {
            return Some(Key::Format);
        }
        let (folder, id) = text.split_once('/')?;
        let id = NodeId::parse(id.as_bytes())?;
        match folder {
            "nodes" => Some(Key::Node(id)),
            "shards" => Some(Key::Shard(id)),
            "islands" => Some(Key::Island(id)),
            "handovers" => Some(Key::Handover(id)),
            "failovers" => Some(Key::Failover(id)),
            "leases" => Some(Key::Lease(id)),
            "marks" => Some(Key::Marks(id)),
            _ => None,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Format => f.write_str("format"),
            Key::Node(id) => write!(f, "nodes/{id}"),
            Key::Shard(id) => write!(f, "shards/{id}"),
            Key::Island(id) => write!(f, "islands/{id}"),
            Key::Handover(id) => write!(f, "handovers/{id}"),
            Key::Failover(id) => write!(f, "failovers/{id}"),
            Key::Lease(id) => write!(f, "leases/{id}"),
            Key::Marks(id) => write!(f, "marks/{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_back() {
        let id = NodeId::from_random([7; 20]);
        let keys = [
            Key::Format,
            Key::Node(id),
            Key::Shard(id),
            Key::Island(id),
            Key::Handover(id),
            Key::Failover(id),
            Key::Lease(id),
            Key::Marks(id),
        ];
        for key in keys {
            assert_eq!(Key::parse(&key.to_string()), Some(key));
        }
        for wrong in ["", "format/", "nodes", "nodes/", "nodes/x", "other/0707"] {
            assert_eq!(Key::parse(wrong), None, "{wrong}");
        }
    }
}
