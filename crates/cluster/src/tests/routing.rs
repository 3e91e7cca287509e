use super::*;
use crate::map::Health;
use crate::routes::{Asker, KeysFound, Routes, Verdict};
use crate::settings::{Preferred, Settings, Via};

const READ: Asker =
    Asker { writes: false, readonly: false, asking: false, shard_channels: false, migrates: false };
const WRITE: Asker = Asker { writes: true, ..READ };
const READONLY: Asker = Asker { readonly: true, ..READ };
const ASKING: Asker = Asker { asking: true, ..WRITE };
const CHANNELS: Asker = Asker { shard_channels: true, ..READ };

fn routes(map: &Map, me: u8) -> Routes {
    Routes::compile(map, id(me), Settings::default())
}

/// A short word for each verdict.
fn show(routes: &Routes, verdict: Verdict<'_>) -> String {
    let at = |addresses| {
        let (host, port) = routes.endpoint(addresses, Via::default());
        format!("{host}:{port}")
    };
    match verdict {
        Verdict::Moved(to) => format!("moved {}", at(to)),
        Verdict::Ask(to) => format!("ask {}", at(to)),
        other => format!("{other:?}"),
    }
}

#[test]
fn owner_serves_and_others_redirect() {
    let map = three_nodes();
    let one = routes(&map, 1);
    assert!(one.serves(0) && !one.serves(8192));
    assert_eq!(show(&one, one.verdict(0, WRITE)), "Here");
    assert_eq!(show(&one, one.verdict(8192, WRITE)), "moved 127.0.0.2:7002");
    let replica = routes(&map, 3);
    assert!(!replica.serves(0));
    for (asker, verdict) in [
        (READ, "moved 127.0.0.1:7001"),
        (READONLY, "Here"),
        (Asker { writes: true, ..READONLY }, "moved 127.0.0.1:7001"),
        (CHANNELS, "Here"),
    ] {
        assert_eq!(show(&replica, replica.verdict(0, asker)), verdict, "{asker:?}");
    }
    assert_eq!(show(&replica, replica.verdict(8192, READONLY)), "moved 127.0.0.2:7002");
}

#[test]
fn slot_without_an_owner_is_down() {
    let mut map = three_nodes();
    map.set_owner(7, None);
    let one = routes(&map, 1);
    assert!(!one.serves(0) && !one.is_up());
    assert_eq!(one.verdict(7, READ), Verdict::Unbound);
    assert_eq!(one.verdict(0, READ), Verdict::Down);
    assert_eq!(one.verdict(0, CHANNELS), Verdict::Here);

    let settings = Settings { full_coverage: false, ..Settings::default() };
    let one = Routes::compile(&map, id(1), settings);
    assert!(one.serves(0));
    assert_eq!((one.verdict(7, READ), one.verdict(0, READ)), (Verdict::Unbound, Verdict::Here));

    let settings =
        Settings { reads_when_down: true, shard_channels_when_down: false, ..Settings::default() };
    let one = Routes::compile(&map, id(1), settings);
    assert_eq!(one.verdict(0, READ), Verdict::Here);
    assert_eq!(one.verdict(0, WRITE), Verdict::DownReadsOnly);
    assert_eq!(one.verdict(0, CHANNELS), Verdict::Down);
}

#[test]
fn minority_of_primaries_is_down() {
    let mut map = three_nodes();
    map.node_mut(id(2)).unwrap().health = Health::Suspected;
    assert!(!routes(&map, 1).is_up());
    map.node_mut(id(2)).unwrap().health = Health::Ok;
    assert!(routes(&map, 1).is_up());
    map.node_mut(id(2)).unwrap().health = Health::Failed;
    assert!(!routes(&map, 1).is_up());
}

#[test]
fn keys_decide_in_a_slot_in_transit() {
    let mut map = three_nodes();
    map.node_mut(id(1)).unwrap().migrating.insert(5, id(2));
    map.node_mut(id(2)).unwrap().importing.insert(5, id(1));
    let found = |existing, missing, several| KeysFound {
        existing,
        missing,
        several,
        crosses_databases: false,
    };
    let one = routes(&map, 1);
    assert!(!one.serves(5) && one.serves(6));
    assert_eq!(one.verdict(5, WRITE), Verdict::LookAtKeys);
    assert_eq!(one.verdict(5, CHANNELS), Verdict::Here);
    for (keys, asker, verdict) in [
        (found(1, 0, false), WRITE, "Here"),
        (found(0, 1, false), WRITE, "ask 127.0.0.2:7002"),
        (found(1, 1, true), WRITE, "TryAgain"),
        (found(0, 2, true), WRITE, "ask 127.0.0.2:7002"),
        (found(0, 1, false), Asker { migrates: true, ..WRITE }, "Here"),
        (KeysFound { crosses_databases: true, ..found(1, 0, false) }, WRITE, "TryAgain"),
    ] {
        assert_eq!(show(&one, one.verdict_of_keys(5, asker, keys)), verdict, "{keys:?}");
    }
    let two = routes(&map, 2);
    assert_eq!(two.verdict(5, ASKING), Verdict::LookAtKeys);
    for (keys, asker, verdict) in [
        (found(0, 1, false), ASKING, "Here"),
        (found(0, 2, true), ASKING, "TryAgain"),
        (found(2, 0, true), ASKING, "Here"),
        (found(0, 1, false), WRITE, "moved 127.0.0.1:7001"),
        (found(1, 0, false), READ, "moved 127.0.0.1:7001"),
    ] {
        assert_eq!(show(&two, two.verdict_of_keys(5, asker, keys)), verdict, "{keys:?} {asker:?}");
    }
    assert_eq!(two.verdict_of_blocked(5, WRITE), Verdict::Here);
    // The replica of the source redirects unless its client is READONLY.
    let replica = routes(&map, 3);
    assert_eq!(show(&replica, replica.verdict(5, READ)), "moved 127.0.0.1:7001");
}

#[test]
fn blocked_client_leaves_with_its_slot() {
    let mut map = three_nodes();
    let one = routes(&map, 1);
    assert_eq!(one.verdict_of_blocked(0, WRITE), Verdict::Here);
    map.set_owner(0, Some(id(2)));
    let one = routes(&map, 1);
    assert_eq!(show(&one, one.verdict_of_blocked(0, WRITE)), "moved 127.0.0.2:7002");
    map.set_owner(0, None);
    assert_eq!(routes(&map, 1).verdict_of_blocked(0, WRITE), Verdict::Down);
}

#[test]
fn endpoint_follows_settings_and_connection() {
    let mut map = three_nodes();
    let addresses = &mut map.node_mut(id(2)).unwrap().addresses;
    addresses.host_name = "two.example".into();
    addresses.tls_port = 7102;
    addresses.client_ipv6 = "::2".into();
    addresses.client_port = 9002;
    let v6 = Via { family: crate::settings::Family::V6, ..Via::default() };
    for (preferred, via, expected) in [
        (Preferred::Ip, Via::default(), ("127.0.0.2", 9002)),
        (Preferred::Ip, Via { tls: true, ..v6 }, ("::2", 7102)),
        (Preferred::HostName, v6, ("two.example", 9002)),
        (Preferred::Unknown, v6, ("", 9002)),
    ] {
        let settings = Settings { preferred, ..Settings::default() };
        let one = Routes::compile(&map, id(1), settings);
        let Verdict::Moved(to) = one.verdict(9000, READ) else { panic!("it is not redirected") };
        assert_eq!(one.endpoint(to, via), expected);
    }
}
