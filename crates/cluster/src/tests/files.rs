use super::*;
use crate::file;

fn parse(text: &str) -> Result<(Map, NodeId), String> {
    file::parse(text, false, &mut || id(55)).map_err(|error| error.to_string())
}

#[test]
fn written_map_is_read() {
    let mut map = three_nodes();
    map.last_vote_epoch = 2;
    map.node_mut(id(1)).unwrap().migrating.insert(5, id(2));
    map.node_mut(id(1)).unwrap().importing.insert(9000, id(2));
    let node = map.node_mut(id(2)).unwrap();
    node.zone = "zone-a".into();
    node.no_failover = true;
    node.addresses.host_name = "two.example".into();
    node.addresses.human_name = "two".into();
    node.addresses.client_ipv4 = "10.0.0.2".into();
    node.addresses.client_ipv6 = "fd00::2".into();
    node.addresses.client_port = 9002;
    node.addresses.client_tls_port = 9003;
    node.addresses.tls_port = 7102;
    let text = file::write(&map, id(1));
    assert_eq!(parse(&text).unwrap(), (map, id(1)), "{text}");
}

#[test]
fn file_of_valkey_is_read() {
    let text = "07c37dfeb235213a872192d90877d0cd55635b91 127.0.0.1:30004@31004,host-4,tls-port=0,\
                shard-id=69bc080733d1355567173199cff4a6a039a2f024 myself,master - 0 1426238317239 \
                4 connected 0-5460 [93-<-07c37dfeb235213a872192d90877d0cd55635b91] 16383\n\n\
                vars currentEpoch 6 lastVoteEpoch 5 later 1\n";
    let (map, me) = parse(text).unwrap();
    let node = map.node(me).unwrap();
    assert_eq!(node.addresses.host_name, "host-4");
    assert_eq!((node.addresses.port, node.addresses.bus_port), (30_004, 31_004));
    assert_eq!(node.shard.as_str(), "69bc080733d1355567173199cff4a6a039a2f024");
    assert_eq!((map.slots_assigned(), node.config_epoch), (5_462, 4));
    assert_eq!((map.current_epoch, map.last_vote_epoch), (6, 5));
    assert_eq!(node.importing.get(&93), Some(&me));
}

#[test]
fn old_file_lacks_shard_and_bus_port() {
    let text = format!("{} :7000 myself,master - 0 0 0 connected 1\n", id(1));
    let (map, me) = parse(&text).unwrap();
    let node = map.node(me).unwrap();
    assert_eq!((node.shard, node.addresses.bus_port), (id(55), 17_000));
}

#[test]
fn errors_name_the_line() {
    let me = format!("{} :7000@17000 myself,master - 0 0 0 connected", id(1));
    let two = id(2);
    for (text, expected) in [
        (String::new(), "no node has the flag 'myself'".to_string()),
        ("nonsense\n".into(), "line 1: a node has at least eight fields".into()),
        (format!("{me} 1\nvars currentEpoch\n"), "line 2: a variable has no value".into()),
        (format!("\n{me} 16384\n"), "line 2: '16384' is not a slot".into()),
        (format!("{me} x-3\n"), "line 1: 'x' is not a number of this field".into()),
        (format!("{me} [3]\n"), "line 1: '[3]' is not a slot that moves".into()),
        (format!("{me}\n{me}\n"), "line 2: a second node has the flag 'myself'".into()),
        (me.replace("master", "king"), "line 1: unknown flag 'king'".into()),
        (
            me.replace(" - ", &format!(" {two} ")),
            "line 1: a replica has a primary, and a primary has none".into(),
        ),
        (me.replace("17000", "17000,h,zone=x"), "line 1: unknown field 'zone'".into()),
        (me.replace("17000", "17000,h,nodename"), "line 1: 'nodename' has no '='".into()),
        (
            me.replace("17000", "17000,h,nodename=a@b"),
            "line 1: 'nodename=a@b' has a character that is not allowed".into(),
        ),
        (format!("{me} [5->-{two}]"), format!("line 1: names the node {two}, which has no line")),
        (format!("{me} 1-3 2"), "line 1: slot 2 has two owners".into()),
    ] {
        assert_eq!(parse(&text).map(|_| ()), Err(expected), "{text}");
    }
}
