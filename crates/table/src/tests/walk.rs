//! A walk passes every record that exists throughout it exactly once, whatever the table's shape is
//! between its pieces.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{Hasher, TestTable, Token, key, number};
use crate::table::KeyHasher;
use crate::walk::{POSITIONS, position};

/// Keys from here on are added and removed during a walk; lower ones stay.
const PASSING: u32 = 1_000_000;
/// About so many of them at once.
const MOST_PASSING: u32 = 20_000;

fn insert(table: &mut TestTable, token: &Token, n: u32) {
    let key = key(n);
    let hash = table.hasher().hash(&key);
    table.get_mut().replace_or_insert(hash, token.record(&key, None));
}

fn remove(table: &mut TestTable, n: u32) {
    let key = key(n);
    let hash = table.hasher().hash(&key);
    table.get_mut().remove(hash, &key);
}

/// Between two pieces of a walk.
#[derive(Clone, Debug)]
enum Act {
    Add(u32),
    Take(u32),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let most: u32 = if cfg!(miri) { 40 } else { 1500 };
    let act = prop_oneof![(1..most).prop_map(Act::Add), (1..most).prop_map(Act::Take)];
    prop::collection::vec(act, 1..if cfg!(miri) { 4 } else { 30 })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 40 }))]

    #[test]
    fn walk_passes_lasting_keys_once_and_in_order(
        stay in 0u32..if cfg!(miri) { 30 } else { 2500 },
        acts in acts(),
        halves in any::<u64>(),
        hasher in prop::sample::select(vec![
            Hasher::Good, Hasher::FewHomes, Hasher::ZeroHome, Hasher::Grouped,
        ]),
    ) {
        // If keys share their home buckets, each lookup is O(keys).
        let share = if matches!(hasher, Hasher::Good | Hasher::Grouped) { 1 } else { 10 };
        let stay = stay / share;
        let token = Token::default();
        let mut table = TestTable::new(hasher);
        (0..stay).for_each(|n| insert(&mut table, &token, n));
        let (mut shown, mut at, mut next, mut turn) = (HashMap::new(), 0, PASSING, 0);
        let hasher = table.hasher();
        while at < POSITIONS {
            match &acts[turn % acts.len()] {
                // A table that grew with each piece would have ever smaller pieces.
                Act::Add(_) if next > PASSING + MOST_PASSING / share => {}
                Act::Add(n) => {
                    let n = n.div_ceil(share);
                    (next..next + n).for_each(|n| insert(&mut table, &token, n));
                    next += n;
                }
                Act::Take(n) => {
                    let first = next.saturating_sub(n.div_ceil(share)).max(PASSING);
                    (first..next).for_each(|n| remove(&mut table, n));
                    next = first;
                }
            }
            let Some(piece) = table.get_mut().piece(at) else { break };
            prop_assert!(piece.contains(&at));
            // Sometimes a piece ends in the middle of a segment.
            let cut = halves >> (turn % 64) & 1 == 1 && piece.end - at > 1;
            let to = if cut { at + (piece.end - at) / 2 } else { piece.end };
            table.get_mut().between(at, to, |record| {
                let place = position(hasher.hash(record.key()));
                assert!((at..to).contains(&place));
                *shown.entry(number(record)).or_insert(0) += 1;
            });
            (at, turn) = (to, turn + 1);
        }
        for n in 0..stay {
            prop_assert_eq!(shown.get(&n), Some(&1), "key {}", n);
        }
        // A walk over the whole range passes each record once.
        let contents = table.get_mut().take();
        let mut left = 0;
        contents.between(hasher, 0, POSITIONS, |_| left += 1);
        prop_assert_eq!(left, contents.len());
        prop_assert!(contents.is_empty() || contents.piece(0).is_some());
    }
}
