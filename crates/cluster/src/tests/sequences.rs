//! Generated sequences of requests, and the invariants of the map after each.

use super::*;
use crate::file;
use crate::routes::{Asker, Routes, Verdict};
use crate::settings::Settings;
use crate::views::View;
use proptest::prelude::*;

/// A word of a request: mostly right ones, from few slots, so that requests meet.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (0..12_u16).prop_map(|slot| slot.to_string()),
        1 => Just("16383".to_string()),
        1 => Just("-1".to_string()),
        1 => Just("x".to_string()),
        3 => (1..4_u8).prop_map(|n| id(n).to_string()),
        1 => Just(id(9).to_string()),
        5 => prop::sample::select(vec![
            "migrating", "importing", "stable", "node", "slotsrange", "hard", "soft", "timeout",
        ])
        .prop_map(str::to_string),
    ]
}

fn request() -> impl Strategy<Value = (Verb, Vec<String>)> {
    let any = (prop::sample::select(Verb::ALL.to_vec()), prop::collection::vec(word(), 2..6));
    let node = (0..12_u16, prop::sample::select(vec!["migrating", "importing", "node"]), 1..4_u8);
    let set = node.prop_map(|(slot, action, n)| {
        (Verb::SetSlot, vec![slot.to_string(), action.to_string(), id(n).to_string()])
    });
    let add = prop::collection::vec(0..12_u16, 1..3)
        .prop_map(|slots| (Verb::AddSlots, slots.iter().map(u16::to_string).collect()));
    prop_oneof![2 => any, 2 => set, 1 => add]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn invariants_hold_after_every_request(
        starts_with_three in any::<bool>(),
        requests in prop::collection::vec((1..4_u8, request(), any::<bool>()), 1..40),
    ) {
        let mut map = if starts_with_three { three_nodes() } else { Map::of_one(node(1)) };
        for (n, (verb, args), has_keys) in requests {
            let nodes = map.nodes();
            let me = nodes[usize::from(n) % nodes.len()].id;
            let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
            let facts = Facts {
                now_ms: 0,
                has_keys,
                keys_in_slot: &|slot| usize::from(has_keys && slot % 2 == 0),
                was_known: &|_| false,
                new_ids: [id(200 + n), id(210 + n)],
            };
            let Ok(change) = decide(&map, me, &facts, Request { verb, args: &args }) else {
                continue;
            };
            let next = map.apply(&change).unwrap();
            check(&map, &next, verb);
            map = next;
        }
    }
}

fn check(before: &Map, after: &Map, verb: Verb) {
    assert_eq!(after.version, before.version + 1);
    assert!(after.nodes().is_sorted_by(|one, next| one.id < next.id));
    // Only a reset may go back: the node has a new id then, and knows no other.
    assert!(after.current_epoch >= before.current_epoch || verb == Verb::Reset);
    assert!(after.max_epoch() == after.current_epoch, "an epoch is beyond the current one");
    let owned: usize = after.slot_counts().iter().sum();
    assert_eq!(owned, after.slots_assigned());
    for node in after.nodes() {
        let moves = node.migrating.values().chain(node.importing.values());
        assert!(moves.chain([&node.primary()]).all(|id| after.node(*id).is_some()));
    }
    for me in after.nodes() {
        let routes = Routes::compile(after, me.id, Settings::default());
        for slot in 0..16 {
            let asker = Asker { writes: true, ..Asker::default() };
            assert!(!routes.serves(slot) || routes.verdict(slot, asker) == Verdict::Here);
        }
        let view = View {
            map: after,
            me: me.id,
            offset: 0,
            settings: Settings::default(),
            has_lapsed: false,
        };
        let shown: usize = view.slots().iter().map(|owned| owned.range.slots().count()).sum();
        assert_eq!(shown, owned);
    }
    let me = after.nodes()[0].id;
    let text = file::write(after, me);
    let (read, _) = file::parse(&text, false, &mut || id(250)).unwrap();
    assert_eq!(file::write(&read, me), text);
}
