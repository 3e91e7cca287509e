//! Views of a map of three nodes.

use super::*;
use crate::settings::{Preferred, Settings, Via};
use crate::views::View;

fn view(map: &Map, settings: Settings) -> View<'_> {
    View { map, me: id(1), offset: 0, settings, has_lapsed: false }
}

#[test]
fn nodes_has_a_line_for_each_node() {
    let mut map = three_nodes();
    map.node_mut(id(1)).unwrap().migrating.insert(5, id(2));
    map.node_mut(id(2)).unwrap().importing.insert(5, id(1));
    map.node_mut(id(3)).unwrap().addresses.host_name = "three".into();
    let text = view(&map, Settings::default()).nodes(Via::default());
    let [one, two, three] = [id(1), id(2), id(3)];
    let expected = format!(
        "{one} 127.0.0.1:7001@17001 myself,master - 0 0 1 connected 0-8191 [5->-{two}]\n\
         {two} 127.0.0.2:7002@17002 master - 0 0 2 connected 8192-16383\n\
         {three} 127.0.0.3:7003@17003,three slave {one} 0 0 1 connected\n"
    );
    assert_eq!(text, expected);
}

#[test]
fn slots_lists_replicas_that_have_data() {
    let mut map = three_nodes();
    map.set_owner(100, None);
    let owned = |map: &Map| {
        let ranges = view(map, Settings::default()).slots();
        let show = |nodes: &[&Node]| nodes.iter().map(|node| node.addresses.port).collect();
        let ranges = ranges.iter().map(|owned| (owned.range.to_string(), show(&owned.nodes)));
        ranges.collect::<Vec<(String, Vec<u16>)>>()
    };
    let expect = |first: &[u16]| {
        [
            ("0-99".to_string(), first.to_vec()),
            ("101-8191".to_string(), first.to_vec()),
            ("8192-16383".to_string(), vec![7002]),
        ]
    };
    assert_eq!(owned(&map), expect(&[7001]));
    map.node_mut(id(3)).unwrap().offset = 1;
    assert_eq!(owned(&map), expect(&[7001, 7003]));
}

#[test]
fn shards_begin_with_their_primary() {
    let map = three_nodes();
    let view = view(&map, Settings::default());
    let shards = view.shards();
    let ids = |nodes: &[&Node]| nodes.iter().map(|node| node.id).collect::<Vec<_>>();
    assert_eq!(ids(&shards[0].nodes), [id(1), id(3)]);
    assert_eq!(ids(&shards[1].nodes), [id(2)]);
    assert_eq!(shards[0].slots[0].to_string(), "0-8191");
    assert_eq!(
        (view.health(shards[0].nodes[0]), view.health(shards[0].nodes[1])),
        ("online", "loading")
    );
}

#[test]
fn clients_get_the_preferred_endpoint() {
    let mut map = three_nodes();
    map.node_mut(id(2)).unwrap().addresses.host_name = "two".into();
    let via = Via::default();
    for (preferred, of_two, of_one) in [
        (
            Preferred::Ip,
            (Some("127.0.0.2"), vec![("hostname", "two")]),
            (Some("127.0.0.1"), vec![]),
        ),
        (
            Preferred::HostName,
            (Some("two"), vec![("ip", "127.0.0.2")]),
            (Some("?"), vec![("ip", "127.0.0.1")]),
        ),
        (
            Preferred::Unknown,
            (None, vec![("ip", "127.0.0.2"), ("hostname", "two")]),
            (None, vec![("ip", "127.0.0.1")]),
        ),
    ] {
        let view = view(&map, Settings { preferred, ..Settings::default() });
        let reached = |n| {
            let reached = view.reached(map.node(id(n)).unwrap(), via);
            (reached.endpoint, reached.others)
        };
        assert_eq!((reached(2), reached(1)), (of_two, of_one));
    }
}

#[test]
fn info_counts_slots_by_health() {
    let mut map = three_nodes();
    map.node_mut(id(2)).unwrap().health = crate::map::Health::Failed;
    let text = view(&map, Settings::default()).info();
    for line in [
        "cluster_state:fail",
        "cluster_slots_assigned:16384",
        "cluster_slots_ok:8192",
        "cluster_slots_pfail:0",
        "cluster_slots_fail:8192",
        "cluster_known_nodes:3",
        "cluster_size:2",
        "cluster_current_epoch:2",
        "cluster_my_epoch:1",
    ] {
        assert!(text.contains(&format!("{line}\r\n")), "{line}: {text}");
    }
}
