//! Moves that end early, and the moves after them.

use crate::moves::{Pair, ask, check, is_ok, wait_until, while_clients_count};
use std::sync::Mutex;

/// The state of the newest move, as a node shows it.
fn newest_state(pair: &Pair, node: usize) -> String {
    let list = ask(&pair.nodes[node], &["CLUSTER", "GETSLOTMIGRATIONS"]).expect("it is up");
    let newest = list.items()[0].items();
    let state = newest.chunks(2).find(|field| field[0].text() == "state");
    state.expect("a move has a state")[1].text()
}

/// Keys that make a copy take a while; clients don't count them.
fn fill(pair: &Pair, keys: usize, bytes: usize) {
    let mut client = pair.nodes[0].client();
    let value = "x".repeat(bytes);
    (0..keys).for_each(|n| client.ok(&["SET", &format!("large:{n}"), &value]));
}

/// The export that was canceled ends after the next one of the same slots has begun.
#[test]
fn canceled_moves_lose_nothing_of_the_next_one() {
    let Some(pair) = Pair::start() else { return };
    fill(&pair, 300, 100_000);
    let ports = Mutex::new(pair.ports());
    let counts = while_clients_count(&ports, || {
        for _ in 0..4 {
            let from = pair.owner();
            assert!(is_ok(pair.migrate(from)));
            wait_until("keys are copied", || newest_state(&pair, from) == "snapshotting");
            assert!(is_ok(ask(&pair.nodes[from], &["CLUSTER", "CANCELSLOTMIGRATIONS"])));
            assert!(is_ok(pair.migrate(from)), "it waits until the rest of the first is deleted");
            pair.wait_until_quiet();
            assert_eq!(pair.owner(), 1 - from);
        }
    });
    let owner = pair.owner();
    (0..300).for_each(|n| {
        let deleted = pair.nodes[owner].client().cmd(&["DEL", &format!("large:{n}")]);
        assert_eq!(deleted.int(), 1, "large:{n}");
    });
    check(&pair, &counts);
}

/// The new owner may move the slots on while the earlier one still deletes its keys.
#[test]
fn slots_move_on_at_once() {
    let Some(pair) = Pair::start() else { return };
    fill(&pair, 2000, 100);
    let mut from = 0;
    for _ in 0..6 {
        assert!(is_ok(pair.migrate(from)));
        wait_until("the slots have moved", || pair.owner() == 1 - from);
        from = 1 - from;
    }
    pair.wait_until_quiet();
    assert_eq!(pair.nodes[from].client().cmd(&["DBSIZE"]).int(), 2000);
    assert_eq!(pair.nodes[1 - from].client().cmd(&["DBSIZE"]).int(), 0);
}

/// The source keeps its keys when the target loses what it has got of them.
#[test]
fn emptied_target_ends_the_move() {
    const KEYS: usize = 600;
    for words in [&["FLUSHALL"][..], &["FLUSHDB"], &["CLUSTER", "FLUSHSLOT", "0"]] {
        let Some(pair) = Pair::start() else { return };
        for node in &pair.nodes {
            node.client().ok(&["CONFIG", "SET", "appendfsync", "no"]);
        }
        fill(&pair, KEYS, 100_000);
        let mut target = pair.nodes[1].client();
        assert!(is_ok(pair.migrate(0)));
        wait_until("keys have arrived", || target.cmd(&["DBSIZE"]).int() > 0);
        let begun = target.cmd(&["DBSIZE"]).int();
        assert!(begun < KEYS as i64 / 2, "{begun} keys are there already");
        target.ok(words);
        pair.wait_until_quiet();
        assert_eq!((pair.owner(), newest_state(&pair, 0).as_str()), (0, "failed"), "{words:?}");
        assert_eq!(pair.nodes[0].client().cmd(&["DBSIZE"]).int(), KEYS as i64, "{words:?}");
    }
}
