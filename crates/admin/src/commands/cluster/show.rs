//! CLUSTER subcommands that show the map.

use super::{error_of, topology};
use std::sync::atomic::Ordering;
use weft_cluster::arguments::node;
use weft_cluster::views::{Reached, View};
use weft_cluster::{Node, SlotRange, Via};
use weft_cluster_driver::{Driver, driver};
use weft_commands::{CmdResult, Error};
use weft_executor::cluster::via;
use weft_executor::dispatch::core::ConnCx;
use weft_replication_driver::hub;
use weft_state::cluster::Topology;

/// The map as this node shows it.
fn view<'a>(cx: &ConnCx<'_>, topology: &'a Topology) -> View<'a> {
    let offset = hub(cx.srv()).up_to_date(cx.srv()).node.stream().history().offset;
    let offset = i64::try_from(offset).unwrap_or(i64::MAX);
    let has_lapsed = crate::cluster::has_lapsed(cx.srv(), topology);
    let (map, settings) = (&topology.map, topology.settings);
    View { map, me: topology.me, offset, settings, has_lapsed }
}

fn reply_text(cx: &mut ConnCx<'_>, text: &str) {
    cx.reply.verbatim("txt", text.as_bytes());
}

pub fn info(cx: &mut ConnCx<'_>) -> CmdResult {
    let topology = topology(cx)?;
    let text = view(cx, &topology).info();
    reply_text(cx, &text);
    Ok(())
}

pub fn nodes(cx: &mut ConnCx<'_>) -> CmdResult {
    let topology = topology(cx)?;
    let text = view(cx, &topology).nodes(via(&cx.session.shared));
    reply_text(cx, &text);
    Ok(())
}

pub fn my_id(cx: &mut ConnCx<'_>) -> CmdResult {
    let topology = topology(cx)?;
    cx.reply.bulk(topology.me.as_str().as_bytes());
    Ok(())
}

pub fn my_shard_id(cx: &mut ConnCx<'_>) -> CmdResult {
    let topology = topology(cx)?;
    let shard = topology.map.node(topology.me).map_or(topology.me, |node| node.shard);
    cx.reply.bulk(shard.as_str().as_bytes());
    Ok(())
}

/// The links that carry published messages. There are no other connections between nodes than those and replication.
pub fn links(cx: &mut ConnCx<'_>) -> CmdResult {
    topology(cx)?;
    let links = &cx.srv().clients.links;
    let to = links.outgoing().into_iter().map(|link| {
        let events = if link.unsent > 0 { "rw" } else { "r" };
        ("to", link.node, link.created_ms, events, [link.memory, link.unsent])
    });
    let from = links.incoming().into_iter().map(|link| {
        let unsent = link.client.output.bytes.load(Ordering::Relaxed) as usize;
        let events = if unsent > 0 { "rw" } else { "r" };
        ("from", link.node, link.created_ms, events, [unsent, unsent])
    });
    let mut all: Vec<_> = to.chain(from).collect();
    // The links of a node are together: the one to it first.
    all.sort_by_key(|(direction, node, ..)| (*node, *direction == "from"));
    cx.reply.array(all.len());
    for (direction, node, created_ms, events, [allocated, used]) in all {
        cx.reply.map(6);
        for (name, text) in [("direction", direction), ("node", node.as_str())] {
            cx.reply.bulk(name.as_bytes());
            cx.reply.bulk(text.as_bytes());
        }
        cx.reply.bulk(b"create-time");
        cx.reply.int(created_ms);
        cx.reply.bulk(b"events");
        cx.reply.bulk(events.as_bytes());
        for (name, bytes) in [("send-buffer-allocated", allocated), ("send-buffer-used", used)] {
            cx.reply.bulk(name.as_bytes());
            cx.reply.int(bytes as i64);
        }
    }
    Ok(())
}

pub fn slot_migrations(cx: &mut ConnCx<'_>) -> CmdResult {
    topology(cx)?;
    let records = driver(cx.srv()).map(Driver::slot_migrations).unwrap_or_default();
    cx.reply.array(records.len());
    for record in records {
        // Also of one slot: valkey-cli looks for the range that it has sent.
        let ranges = record.slots.ranges();
        let ranges: Vec<_> =
            ranges.iter().map(|range| format!("{}-{}", range.first, range.last)).collect();
        let operation = if record.is_export { "EXPORT" } else { "IMPORT" };
        let words = [
            ("name", record.id.to_string()),
            ("operation", operation.to_string()),
            ("slot_ranges", ranges.join(" ")),
            ("target_node", record.target.to_string()),
            ("source_node", record.source.to_string()),
        ];
        cx.reply.map(12);
        for (name, value) in words {
            cx.reply.bulk(name.as_bytes());
            cx.reply.bulk(value.as_bytes());
        }
        let times = [
            ("create_time", record.created),
            ("last_update_time", record.updated),
            ("last_ack_time", record.updated),
        ];
        for (name, at) in times {
            cx.reply.bulk(name.as_bytes());
            cx.reply.int(at);
        }
        for (name, value) in [("state", record.state), ("message", record.message.as_str())] {
            cx.reply.bulk(name.as_bytes());
            cx.reply.bulk(value.as_bytes());
        }
        // No process is forked, and nothing is buffered.
        for name in ["cow_size", "remaining_repl_size"] {
            cx.reply.bulk(name.as_bytes());
            cx.reply.int(0);
        }
    }
    Ok(())
}

pub fn replicas(cx: &mut ConnCx<'_>) -> CmdResult {
    let topology = topology(cx)?;
    let primary = node(&topology.map, cx.args[2], "Unknown node ");
    let primary = primary.map_err(|refusal| error_of(cx, refusal))?;
    if !primary.is_primary() {
        return Err(Error::new("ERR The specified node is not a master"));
    }
    let (view, via) = (view(cx, &topology), via(&cx.session.shared));
    let replicas: Vec<&Node> = topology.map.replicas_of(primary.id).collect();
    cx.reply.array(replicas.len());
    for node in replicas {
        cx.reply.bulk(view.node(node, via).as_bytes());
    }
    Ok(())
}

/// No node reports that it can't reach another one.
pub fn count_failure_reports(cx: &mut ConnCx<'_>) -> CmdResult {
    let topology = topology(cx)?;
    let found = node(&topology.map, cx.args[2], "Unknown node ").map(|_| ());
    found.map_err(|refusal| error_of(cx, refusal))?;
    cx.reply.int(0);
    Ok(())
}

pub fn slots(cx: &mut ConnCx<'_>) -> CmdResult {
    let topology = topology(cx)?;
    let (view, via) = (view(cx, &topology), via(&cx.session.shared));
    let ranges = view.slots();
    cx.reply.array(ranges.len());
    for owned in ranges {
        cx.reply.array(2 + owned.nodes.len());
        write_bounds(cx, owned.range);
        for node in owned.nodes {
            write_node(cx, node, &view.reached(node, via));
        }
    }
    Ok(())
}

fn write_bounds(cx: &mut ConnCx<'_>, range: SlotRange) {
    cx.reply.int(i64::from(range.first));
    cx.reply.int(i64::from(range.last));
}

fn write_node(cx: &mut ConnCx<'_>, node: &Node, reached: &Reached<'_>) {
    let reply = &mut *cx.reply;
    reply.array(4);
    match reached.endpoint {
        Some(endpoint) => reply.bulk(endpoint.as_bytes()),
        None => reply.null(),
    }
    reply.int(i64::from(reached.port));
    reply.bulk(node.id.as_str().as_bytes());
    reply.map(reached.others.len());
    for (name, value) in &reached.others {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

pub fn shards(cx: &mut ConnCx<'_>) -> CmdResult {
    let topology = topology(cx)?;
    let (view, via) = (view(cx, &topology), via(&cx.session.shared));
    let shards = view.shards();
    cx.reply.array(shards.len());
    for shard in shards {
        cx.reply.map(3);
        cx.reply.bulk(b"slots");
        cx.reply.array(shard.slots.len() * 2);
        shard.slots.iter().for_each(|range| write_bounds(cx, *range));
        cx.reply.bulk(b"nodes");
        cx.reply.array(shard.nodes.len());
        shard.nodes.iter().for_each(|node| write_member(cx, &view, node, via));
        cx.reply.bulk(b"id");
        cx.reply.bulk(shard.id.as_str().as_bytes());
    }
    Ok(())
}

/// A node in CLUSTER SHARDS.
fn write_member(cx: &mut ConnCx<'_>, view: &View<'_>, node: &Node, via: Via) {
    let addresses = &node.addresses;
    let port = |tls| i64::from(addresses.port_for(Via { tls, ..via }));
    let text = |value: &str| Some(Field::Text(value.to_string()));
    let set = |value: &str| if value.is_empty() { None } else { text(value) };
    let number = |value: i64| if value == 0 { None } else { Some(Field::Number(value)) };
    let fields = [
        ("id", text(node.id.as_str())),
        ("port", number(port(false))),
        ("tls-port", number(port(true))),
        ("ip", text(addresses.ip_for(via))),
        ("endpoint", text(addresses.endpoint(view.settings.preferred, via))),
        ("hostname", set(&addresses.host_name)),
        ("role", text(if node.is_primary() { "master" } else { "replica" })),
        ("replication-offset", Some(Field::Number(view.offset_of(node)))),
        ("health", text(view.health(node))),
        ("availability-zone", set(&node.zone)),
    ];
    let shown: Vec<(&str, Field)> =
        fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    cx.reply.map(shown.len());
    for (name, value) in shown {
        cx.reply.bulk(name.as_bytes());
        match value {
            Field::Text(text) => cx.reply.bulk(text.as_bytes()),
            Field::Number(number) => cx.reply.int(number),
        }
    }
}

enum Field {
    Text(String),
    Number(i64),
}
