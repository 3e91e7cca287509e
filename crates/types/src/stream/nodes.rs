//! The number of nodes of a radix tree over ids: Valkey has such a tree, and XINFO reports its
//! size.
//!
//! The tree branches by bytes, and a run of bytes without a branch is one node (Redis's *rax*). All
//! keys have 16 bytes, so only leaves are keys. Each leaf, each branch, and each run of bytes
//! between them is a node.

/// Bytes of a key.
const KEY: u32 = 16;

/// The number of nodes of the tree over `keys`, which must be sorted and distinct. The root of an
/// empty tree counts. O(n).
pub(super) fn count(keys: &[u128]) -> usize {
    if keys.is_empty() { 1 } else { below(keys, 0) }
}

/// The number of nodes of the tree over keys with the same first `depth` bytes.
fn below(keys: &[u128], depth: u32) -> usize {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return 0 };
    if keys.len() == 1 {
        return usize::from(depth < KEY) + 1;
    }
    let agree = ((first ^ last).leading_zeros() / 8).min(KEY - 1);
    let run = usize::from(agree > depth);
    let byte = |key: &u128| (key >> (8 * (KEY - 1 - agree))) as u8;
    let (mut rest, mut nodes) = (keys, run + 1);
    while let Some(key) = rest.first() {
        let here = byte(key);
        let (branch, others) = rest.split_at(rest.partition_point(|key| byte(key) <= here));
        nodes += below(branch, agree + 1);
        rest = others;
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_runs_branches_and_leaves() {
        assert_eq!(count(&[]), 1);
        assert_eq!(count(&[5]), 2);
        // A run of 15 bytes, a branch, two leaves.
        assert_eq!(count(&[5, 6]), 4);
        // A run, a branch; each leaf has a run before it.
        assert_eq!(count(&[5 << 8, 6 << 8]), 6);
        assert_eq!(count(&[0, 1, 1 << 120]), 1 + (1 + 1 + 2) + 2);
    }
}
