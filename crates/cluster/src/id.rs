//! Ids of nodes and shards: 40 hexadecimal digits.

use std::fmt;

/// The id of a node, or of a shard. 40 characters of `0-9` and `a-z`: as Valkey, this accepts
/// letters beyond `f` in files, and makes up hexadecimal digits only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; NodeId::LEN]);

/// The id of a primary and its replicas together.
pub type ShardId = NodeId;

impl NodeId {
    pub const LEN: usize = 40;

    /// The id that `text` is.
    pub fn parse(text: &[u8]) -> Option<NodeId> {
        let id: [u8; NodeId::LEN] = text.try_into().ok()?;
        let is_valid = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        id.iter().all(is_valid).then_some(NodeId(id))
    }

    /// An id of `random` bytes.
    pub fn from_random(random: [u8; NodeId::LEN / 2]) -> NodeId {
        let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
        let mut id = [0; NodeId::LEN];
        for (digits, byte) in id.chunks_exact_mut(2).zip(random) {
            digits.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        NodeId(id)
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("only ASCII is accepted")
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_str()[..8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_forty_lower_case_characters() {
        let id = NodeId::from_random(std::array::from_fn(|at| at as u8 * 13));
        assert_eq!(id.as_str(), "000d1a2734414e5b6875828f9ca9b6c3d0ddeaf7");
        assert_eq!(NodeId::parse(id.as_str().as_bytes()), Some(id));
        for wrong in ["", "0", &"0".repeat(39), &"0".repeat(41), &"A".repeat(40), &"-".repeat(40)] {
            assert_eq!(NodeId::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
