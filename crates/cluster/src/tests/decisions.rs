//! Decisions of CLUSTER commands, on maps of one and of three nodes.

use super::*;
use crate::change::{Change, Conflict, Edit};

fn one() -> Map {
    Map::of_one(node(1))
}

#[test]
fn slots_are_added_and_removed_together_or_not_at_all() {
    let mut map = one();
    let outcomes = run(
        &mut map,
        1,
        "addslots 1 2 3; addslots 4 3; addslots 5 5; addslots 6 x; addslots 7 16384; \
         delslots 1 4; delslots 2 2; delslots -1; delslots 1 2",
    );
    assert_eq!(
        outcomes,
        [
            "OK",
            "ERR Slot 3 is already busy",
            "ERR Slot 5 specified multiple times",
            "ERR Invalid or out of range slot",
            "ERR Invalid or out of range slot",
            "ERR Slot 4 is already unassigned",
            "ERR Slot 2 specified multiple times",
            "ERR Invalid or out of range slot",
            "OK",
        ]
    );
    assert_eq!(map.slots_of(id(1)).iter().collect::<Vec<_>>(), [3]);
}

#[test]
fn each_range_is_checked_before_the_next_is_parsed() {
    let mut map = one();
    let outcomes = run(
        &mut map,
        1,
        "addslotsrange 0 5; addslotsrange 3 4 x 9; addslotsrange 9 8; addslotsrange 6 7 8; \
         addslotsrange 6 9 9 10; delslotsrange 0 6; delslotsrange 0 2 4 5",
    );
    assert_eq!(
        outcomes,
        [
            "OK",
            "ERR Slot 3 is already busy",
            "ERR start slot number 9 is greater than end slot number 8",
            "ERR wrong number of arguments for 'cluster|addslotsrange' command",
            "ERR Slot 9 specified multiple times",
            "ERR Slot 6 is already unassigned",
            "OK",
        ]
    );
    assert_eq!(map.slots_of(id(1)).iter().collect::<Vec<_>>(), [3]);
}

#[test]
fn flushing_and_resetting_need_an_empty_database() {
    let mut map = one();
    let outcomes = run_with_keys(&mut map, 1, "addslots 1; flushslots; reset; reset hard", &[9]);
    let reset = "ERR CLUSTER RESET can't be called with master nodes containing keys";
    let flush = "ERR DB must be empty to perform CLUSTER FLUSHSLOTS.";
    assert_eq!(outcomes, ["OK", flush, reset, reset]);
    assert_eq!(run(&mut map, 1, "flushslots"), ["OK"]);
    assert_eq!(map.slots_assigned(), 0);
}

#[test]
fn reset_forgets_all_but_this_node() {
    let mut map = three_nodes();
    let commands = format!("setslot 5 migrating {}; reset soft", id(2));
    assert_eq!(run(&mut map, 1, &commands), ["OK", "OK"]);
    assert!(map.nodes()[0].migrating.is_empty());
    assert_eq!((map.nodes().len(), map.slots_assigned(), map.current_epoch), (1, 0, 2));
    assert_eq!(run(&mut map, 1, "reset hard"), ["OK"]);
    let myself = &map.nodes()[0];
    assert_eq!((myself.id, myself.config_epoch, map.current_epoch), (id(77), 0, 0));

    let mut map = three_nodes();
    // A replica may have keys.
    assert_eq!(run_with_keys(&mut map, 3, "reset", &[1]), ["OK"]);
    let myself = &map.nodes()[0];
    assert!(myself.is_primary() && myself.shard == id(78) && myself.id == id(3));
}

#[test]
fn epochs_only_grow() {
    let mut map = one();
    let outcomes = run(
        &mut map,
        1,
        "set-config-epoch -1; set-config-epoch x; set-config-epoch 0; set-config-epoch 7; \
         set-config-epoch 8; bumpepoch",
    );
    let taken = "ERR Node config epoch is already non-zero";
    let number = "ERR value is not an integer or out of range";
    assert_eq!(
        outcomes,
        ["ERR Invalid config epoch specified: -1", number, "OK", "OK", taken, "OK"]
    );
    // It has the largest epoch already.
    assert_eq!((map.current_epoch, map.nodes()[0].config_epoch), (7, 7));
    let mut map = three_nodes();
    assert_eq!(run(&mut map, 1, "bumpepoch; bumpepoch"), ["OK", "OK"]);
    assert_eq!((map.current_epoch, map.node(id(1)).unwrap().config_epoch), (3, 3));
}

#[test]
fn slots_move_between_known_primaries() {
    let mut map = three_nodes();
    let [two, three] = [id(2), id(3)];
    let outcomes = run_with_keys(
        &mut map,
        1,
        &format!(
            "setslot 5 migrating {two}; setslot 9000 migrating {two}; setslot 5 importing {two}; \
             setslot 9000 importing {two}; setslot 6 migrating {three}; setslot 6 migrating nope; \
             setslot 5 node {two}; setslot 7 node {two}; setslot 9000 node {}; setslot 5 stable; \
             setslot 5; setslot 5 away {two}; setslot 5 stable timeout; \
             setslot 5 stable timeout x; setslot 5 stable any timeout 5",
            id(1)
        ),
        &[5],
    );
    assert_eq!(
        outcomes,
        [
            "OK",
            "ERR I'm not the owner of hash slot 9000",
            "ERR I'm already the owner of hash slot 5",
            "OK",
            "ERR Target node is not a master",
            "ERR I don't know about node nope",
            "ERR Can't assign hashslot 5 to a different node while I still hold keys for this hash \
             slot.",
            "OK",
            "OK",
            "OK",
            "form",
            "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP",
            "ERR Missing timeout value",
            "ERR timeout is not an integer or out of range",
            "OK",
        ]
    );
    assert_eq!(map.owner(7).unwrap().id, two);
    assert_eq!(map.owner(9000).unwrap().id, id(1));
    let myself = map.node(id(1)).unwrap();
    assert!(myself.migrating.is_empty() && myself.importing.is_empty());
    // The import ended, so the epoch grew.
    assert_eq!((myself.config_epoch, map.current_epoch), (3, 3));
    assert_eq!(run(&mut map, 3, "setslot 5 stable"), ["ERR Please use SETSLOT only with masters."]);
}

#[test]
fn commands_on_other_nodes_need_a_store() {
    let mut map = one();
    let outcomes = run(
        &mut map,
        1,
        "meet 127.0.0.1 7001; meet host 7001; meet 127.0.0.1 x; meet 127.0.0.1 1 x; \
         meet 127.0.0.1 0; forget nope; replicate nope; failover; failover now; failover a b",
    );
    assert!(outcomes[0].contains("'cluster-store'"), "{outcomes:?}");
    assert_eq!(
        outcomes[1..],
        [
            "ERR Invalid node address specified: host:7001",
            "ERR Invalid base port specified: x",
            "ERR Invalid bus port specified: x",
            "ERR Port number is out of range",
            "ERR Unknown node nope",
            "ERR Unknown node nope",
            "ERR You should send CLUSTER FAILOVER to a replica",
            "ERR syntax error",
            "ERR syntax error",
        ]
    );
    let me = id(1);
    let outcomes = run(
        &mut map,
        1,
        &format!("forget {me}; replicate {me}; replicate no one; setslot 1 importing {me}"),
    );
    let expected = [
        "ERR I tried hard but I can't forget myself...",
        "ERR Can't replicate myself",
        "OK",
        "ERR Target node is myself",
    ];
    assert_eq!(outcomes, expected);
}

#[test]
fn migrateslots_checks_ranges_and_target() {
    let mut map = three_nodes();
    let [me, two] = [id(1), id(2)];
    let outcomes = run(
        &mut map,
        1,
        &format!(
            "migrateslots x 1 2; migrateslots slotsrange node {two}; migrateslots slotsrange 1; \
             migrateslots slotsrange 2 1 node {two}; migrateslots slotsrange 1 2 2 3 node {two}; \
             migrateslots slotsrange 1 9000 node {two}; migrateslots slotsrange 9000 9001 node x; \
             migrateslots slotsrange\0 9000 9001 node\0y x; \
             migrateslots slotsrange 1 2 x {two}; migrateslots slotsrange 1 2 node x; \
             migrateslots slotsrange 1 2 node {me}; migrateslots slotsrange 1 2 node {}",
            id(9)
        ),
    );
    assert_eq!(
        outcomes,
        [
            "ERR syntax error",
            "ERR No slot ranges specified",
            "ERR No end slot for final slot range",
            "ERR Start slot number 2 is greater than end slot number 1.",
            "ERR Slot range 2-3 overlaps with previous range 1-2.",
            "ERR Requested slots span multiple shards",
            "ERR Slots are not served by this node.",
            "ERR Slots are not served by this node.",
            "ERR syntax error",
            "ERR Invalid node name: x",
            "ERR Target node can not be this node.",
            &format!("ERR Unknown node name: {}", id(9)),
        ]
    );
}

#[test]
fn change_applies_to_its_own_version_only() {
    let map = one();
    let change = Change::of(&map).with(Edit::SetCurrentEpoch(5));
    let next = map.apply(&change).unwrap();
    assert_eq!((next.version, next.current_epoch), (1, 5));
    assert_eq!(next.apply(&change), Err(Conflict));
}
