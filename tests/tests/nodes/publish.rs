//! Messages between nodes: PUBLISH reaches the subscribers of all nodes, SPUBLISH those of the shard.

use crate::on_each;
use std::time::{Duration, Instant};
use weft_testkit::client::Client;
use weft_testkit::cluster::slot::key_in;
use weft_testkit::cluster::{Cluster, Kind, PATIENCE, Settings};

on_each!(
    messages_reach_subscribers_of_all_nodes,
    shard_channels_reach_all_nodes_of_the_shard,
    subscriptions_survive_a_restart_of_another_node,
    many_channels_and_patterns,
);

/// Three primaries; node 3 is a replica of node 0.
fn cluster(kind: Kind) -> Option<Cluster> {
    Cluster::formed(kind, 3, Settings::of(4))
}

fn listener(cluster: &Cluster, node: usize, args: &[&str]) -> Client {
    let mut client = cluster.client(node);
    let first = client.cmd(args);
    assert!(first.error().is_none(), "{first}");
    for _ in 2..args.len() {
        client.read_frame().expect("a confirmation");
    }
    client
}

/// The words of the next message; `None` if there is none for a while.
fn next(client: &mut Client, wait: Duration) -> Option<Vec<String>> {
    client.set_timeout(wait);
    let frame = client.read_frame().ok()?;
    Some(frame.value.items().iter().map(|word| word.text()).collect())
}

/// The next message that must come.
#[track_caller]
fn take(client: &mut Client) -> String {
    next(client, PATIENCE).expect("a message").join(" ")
}

/// Publishes on `channel` until the client gets a message, then reads all that came of it. `copies`: messages that the client gets for
/// each. Nodes may learn of a subscription late, and links may have just come.
#[track_caller]
fn connect(publisher: &mut Client, command: &str, channel: &str, client: &mut Client, copies: usize) {
    let begin = Instant::now();
    loop {
        publisher.cmd(&[command, channel, "probe"]);
        if next(client, Duration::from_millis(50)).is_some() {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "no message on {channel}");
    }
    publisher.cmd(&[command, channel, "end"]);
    let mut ends = 0;
    while ends < copies {
        ends += usize::from(take(client).ends_with(" end"));
    }
}

fn messages_reach_subscribers_of_all_nodes(kind: Kind) {
    let Some(cluster) = cluster(kind) else { return };
    let mut both = listener(&cluster, 1, &["SUBSCRIBE", "news", "other"]);
    both.cmd(&["PSUBSCRIBE", "n?ws"]);
    let mut pattern = listener(&cluster, 2, &["PSUBSCRIBE", "*"]);
    let mut replica = listener(&cluster, 3, &["SUBSCRIBE", "news"]);
    let mut own = listener(&cluster, 0, &["SUBSCRIBE", "news"]);
    let mut publishers: Vec<Client> = (0..4).map(|node| cluster.client(node)).collect();
    for publisher in &mut publishers {
        connect(publisher, "PUBLISH", "news", &mut own, 1);
        connect(publisher, "PUBLISH", "news", &mut both, 2);
        connect(publisher, "PUBLISH", "news", &mut pattern, 1);
        connect(publisher, "PUBLISH", "news", &mut replica, 1);
    }
    // The probes for other clients.
    for (client, copies) in [(&mut own, 1), (&mut both, 2), (&mut pattern, 1), (&mut replica, 1)] {
        for (node, publisher) in publishers.iter_mut().enumerate() {
            publisher.cmd(&["PUBLISH", "news", &format!("last {node}")]);
            let mut left = copies;
            while left > 0 {
                left -= usize::from(take(client).ends_with(&format!(" last {node}")));
            }
        }
    }
    let clients = [&mut own, &mut both, &mut pattern, &mut replica];
    for client in clients {
        while next(client, Duration::from_millis(300)).is_some() {}
    }
    // A reply counts the subscribers of its node.
    for (node, count) in [(0, 1), (1, 2), (2, 1), (3, 1)] {
        assert_eq!(publishers[node].cmd(&["PUBLISH", "news", "counted"]).int(), count, "{node}");
        assert_eq!(take(&mut own), "message news counted");
        assert_eq!(take(&mut both), "message news counted");
        assert_eq!(take(&mut both), "pmessage n?ws news counted");
        assert_eq!(take(&mut pattern), "pmessage * news counted");
        assert_eq!(take(&mut replica), "message news counted");
    }
    for (node, channels) in [(0, 1), (1, 2), (2, 0), (3, 1)] {
        let mut client = cluster.client(node);
        assert_eq!(client.cmd(&["PUBSUB", "CHANNELS"]).items().len(), channels, "{node}");
        assert_eq!(client.cmd(&["PUBSUB", "NUMPAT"]).int(), i64::from(node == 1 || node == 2));
    }
    // Scripts and transactions publish to all nodes, too, and each message in its order.
    let publisher = &mut publishers[0];
    publisher.ok(&["MULTI"]);
    publisher.cmd(&["PUBLISH", "news", "in EXEC"]);
    publisher.cmd(&["EXEC"]);
    publisher.cmd(&["EVAL", "return redis.call('PUBLISH', 'news', 'in a script')", "0"]);
    for number in 0..500 {
        publisher.cmd(&["PUBLISH", "news", &number.to_string()]);
    }
    let long = "x".repeat(3 << 20);
    publisher.cmd(&["PUBLISH", "news", &long]);
    assert_eq!(take(&mut replica), "message news in EXEC");
    assert_eq!(take(&mut replica), "message news in a script");
    for number in 0..500 {
        assert_eq!(take(&mut replica), format!("message news {number}"));
    }
    assert_eq!(take(&mut replica), format!("message news {long}"));
    // Notifications of keys stay on their node.
    let key = key_in(0, "key");
    publisher.ok(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
    publisher.ok(&["SET", &key, "1"]);
    publisher.cmd(&["PUBLISH", "news", "after"]);
    while !take(&mut pattern).ends_with(&long) {}
    assert_eq!(take(&mut pattern), "pmessage * news after");
    // Nothing comes for a name that nobody listens to any more.
    replica.set_timeout(PATIENCE);
    replica.send_raw(b"UNSUBSCRIBE\r\n").expect("sends");
    while !take_any(&mut replica).starts_with("unsubscribe") {}
    publisher.cmd(&["PUBLISH", "news", "missed"]);
    assert_eq!(next(&mut replica, Duration::from_millis(300)), None);
}

/// The next frame, whose numbers are shown as such.
fn take_any(client: &mut Client) -> String {
    let frame = client.read_frame().expect("a frame");
    frame.value.items()[0].text()
}

fn shard_channels_reach_all_nodes_of_the_shard(kind: Kind) {
    let Some(cluster) = cluster(kind) else { return };
    let channel = key_in(0, "news");
    let mut primary = listener(&cluster, 0, &["SSUBSCRIBE", &channel]);
    let mut replica = listener(&cluster, 3, &["SSUBSCRIBE", &channel]);
    let mut on_primary = cluster.client(0);
    let mut on_replica = cluster.client(3);
    connect(&mut on_primary, "SPUBLISH", &channel, &mut replica, 1);
    connect(&mut on_replica, "SPUBLISH", &channel, &mut primary, 1);
    for client in [&mut primary, &mut replica] {
        while next(client, Duration::from_millis(300)).is_some() {}
    }
    for publisher in [&mut on_primary, &mut on_replica] {
        assert_eq!(publisher.cmd(&["SPUBLISH", &channel, "text"]).int(), 1);
        let want = format!("smessage {channel} text");
        assert_eq!((take(&mut primary), take(&mut replica)), (want.clone(), want));
    }
    let elsewhere = cluster.client(1).cmd(&["SPUBLISH", &channel, "text"]).error();
    assert!(elsewhere.is_some_and(|e| e.starts_with("MOVED 0 ")));
}

fn subscriptions_survive_a_restart_of_another_node(kind: Kind) {
    let Some(mut cluster) = cluster(kind) else { return };
    let mut client = listener(&cluster, 1, &["SUBSCRIBE", "news"]);
    connect(&mut cluster.client(2), "PUBLISH", "news", &mut client, 1);
    for _ in 0..2 {
        cluster.nodes[2].kill();
        let mut later = listener(&cluster, 1, &["PSUBSCRIBE", "later*"]);
        cluster.nodes[2].spawn();
        cluster.nodes[2].wait_until_up();
        connect(&mut cluster.client(2), "PUBLISH", "news", &mut client, 1);
        connect(&mut cluster.client(2), "PUBLISH", "later on", &mut later, 1);
        cluster.nodes[1].stop();
        cluster.client(2).cmd(&["PUBLISH", "later on", "in a pause"]);
        cluster.nodes[1].resume();
        connect(&mut cluster.client(2), "PUBLISH", "later on", &mut later, 1);
    }
}

fn many_channels_and_patterns(kind: Kind) {
    let Some(cluster) = cluster(kind) else { return };
    let names: Vec<String> = (0..1000).map(|n| format!("channel-{n}")).collect();
    let channels = [&["SUBSCRIBE"][..], &names.iter().map(String::as_str).collect::<Vec<_>>()];
    let mut by_name = listener(&cluster, 1, &channels.concat());
    let patterns: Vec<String> = (0..100).map(|n| format!("*-{n}")).collect();
    let patterns = [&["PSUBSCRIBE"][..], &patterns.iter().map(String::as_str).collect::<Vec<_>>()];
    let mut by_pattern = listener(&cluster, 1, &patterns.concat());
    let mut publisher = cluster.client(0);
    // The last name in any order: all must be known.
    for name in &names {
        connect(&mut publisher, "PUBLISH", name, &mut by_name, 1);
    }
    while next(&mut by_pattern, Duration::from_millis(300)).is_some() {}
    for name in &names {
        publisher.cmd(&["PUBLISH", name, "once"]);
    }
    for name in &names {
        assert_eq!(take(&mut by_name), format!("message {name} once"));
    }
    for n in 0..100 {
        assert_eq!(take(&mut by_pattern), format!("pmessage *-{n} channel-{n} once"));
    }
    assert_eq!(next(&mut by_pattern, Duration::from_millis(300)), None);
}
