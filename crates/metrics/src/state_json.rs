//! `/state.json`: the state of the server for a page that people look at. `docs/metrics.md` describes it.
//!
//! It contains no keys, no values and no arguments of commands.

use crate::access::Reader;
use crate::host::Reading;
use crate::ready;
use crate::sample::Sample;
use crate::tasks::io_name;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use weft_durability::aof::aof;
use weft_state::commandlog::LogKind;
use weft_state::held::FIXED;
use weft_state::slow_lane::THREADS as SLOW_THREADS;
use weft_state::stats::Counter;

/// Incremented by changes that could break a reader.
const VERSION: u32 = 1;
/// Entries of the lists.
const COMMANDS: usize = 32;
const CLIENTS: usize = 16;
const SLOW: usize = 16;
const SLOT_RUNS: usize = 2048;
/// Hash slots of a cluster.
const SLOTS: u16 = 16_384;

pub fn state(sample: &Sample, machine: &Reading, reader: Reader) -> Value {
    json!({
        "version": VERSION,
        "time_ms": sample.srv.now_ms(),
        "server": server(sample),
        "requests": requests(sample),
        "latency": latency(sample),
        "io_threads": io_threads(sample),
        "other_threads": other_threads(sample),
        "thread_changes": thread_changes(sample),
        "machine": machine_json(sample, machine),
        "slow_lane": slow_lane(sample),
        "commands": commands(sample),
        "slow_log": slow_log(sample),
        "memory": memory(sample),
        "clients": clients(sample, reader),
        "databases": databases(sample),
        "replication": replication(sample),
        "cluster": cluster(sample),
        "saves": saves(sample),
    })
}

/// Fields that are texts, although some of their values look like numbers.
const TEXTS: [&str; 3] = ["run_id", "master_replid", "master_host"];

/// A field of INFO: a number, a text, or null if INFO doesn't show it.
fn field(sample: &Sample, name: &str) -> Value {
    let Some(text) = sample.fields.get(name) else { return Value::Null };
    if TEXTS.contains(&name) {
        return text.as_str().into();
    }
    if let Ok(number) = text.parse::<i64>() {
        return number.into();
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => number.into(),
        Ok(_) | Err(_) => text.as_str().into(),
    }
}

/// Fields of INFO under their names.
fn fields(sample: &Sample, names: &[&str]) -> serde_json::Map<String, Value> {
    names.iter().map(|name| ((*name).to_owned(), field(sample, name))).collect()
}

fn server(sample: &Sample) -> Value {
    let names = [
        "weft_version",
        "valkey_version",
        "run_id",
        "process_id",
        "tcp_port",
        "uptime_in_seconds",
        "os",
        "loading",
        "loading_loaded_bytes",
        "loading_total_bytes",
        "cluster_enabled",
    ];
    let mut server = fields(sample, &names);
    let not_ready = ready::check(sample.srv).err().map(|why| why.text().trim_end());
    server.insert("ready".into(), not_ready.is_none().into());
    server.insert("not_ready_because".into(), not_ready.into());
    server.into()
}

fn requests(sample: &Sample) -> Value {
    let names = [
        "total_commands_processed",
        "instantaneous_ops_per_sec",
        "total_net_input_bytes",
        "total_net_output_bytes",
        "total_error_replies",
        "keyspace_hits",
        "keyspace_misses",
        "expired_keys",
        "evicted_keys",
        "total_connections_received",
        "rejected_connections",
    ];
    fields(sample, &names).into()
}

/// The latencies of all commands together.
fn latency(sample: &Sample) -> Value {
    let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
    for (_, latency) in sample.latencies() {
        for (top_ns, count) in latency.buckets() {
            *buckets.entry(top_ns).or_default() += count;
        }
    }
    let mut sum = 0;
    let cumulative: Vec<(u64, u64)> = buckets
        .into_iter()
        .map(|(top_ns, count)| {
            sum += count;
            (top_ns, sum)
        })
        .collect();
    let percentile = |share: f64| {
        let wanted = (sum as f64 * share).ceil() as u64;
        let found = cumulative.iter().find(|(_, count)| *count >= wanted.max(1));
        found.map(|(top_ns, _)| *top_ns as f64 / 1e3)
    };
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(percentile);
    json!({
        "buckets": cumulative,
        "percentiles_us": { "50": p50, "99": p99, "99.9": p999 },
    })
}

fn seconds(us: &Counter) -> f64 {
    us.get() as f64 / 1e6
}

fn io_threads(sample: &Sample) -> Value {
    let srv = sample.srv;
    let machine = &srv.process.hardware.machine;
    let active = srv.threads.active();
    let threads = srv.threads.iter().enumerate().map(|(n, thread)| {
        let stats = &thread.stats;
        let cpu = stats.load.last_cpu.get().checked_sub(1);
        let node = cpu.and_then(|cpu| machine.cpu(cpu as usize)).map(|cpu| cpu.node);
        json!({
            "name": io_name(n),
            "active": n < active,
            "cpu": cpu,
            "node": node,
            "cpus": thread.cpus().to_string(),
            "busy": stats.load.busy.get() as f64 / 1e3,
            "pressure": stats.load.pressure.get() as f64 / 1e3,
            "connections": stats.network.connections.get(),
            "busy_connections": stats.load.busy_connections.get(),
            "moved": stats.network.moved.get(),
            "requests": stats.load.requests.get(),
            "iterations": stats.event_loop.turns.get(),
            "shard_waits": stats.event_loop.parked.get(),
            "withheld_replies": stats.event_loop.withheld.get(),
            "cpu_user_s": seconds(&stats.load.cpu_user_us),
            "cpu_system_s": seconds(&stats.load.cpu_system_us),
        })
    });
    json!({
        "configured": srv.threads.configured(),
        "started": srv.threads.started(),
        "active": active,
        "threads": threads.collect::<Vec<_>>(),
    })
}

fn other_threads(sample: &Sample) -> Value {
    let threads = sample.tasks.iter().map(|task| {
        json!({
            "name": task.name,
            "cpu": task.cpu,
            "cpu_user_s": task.user.as_secs_f64(),
            "cpu_system_s": task.system.as_secs_f64(),
        })
    });
    threads.collect()
}

fn thread_changes(sample: &Sample) -> Value {
    let changes = sample.srv.statistics.thread_changes.latest();
    let shown = changes.into_iter().map(|change| {
        json!({
            "id": change.id,
            "time_ms": change.time_ms,
            "before": change.before,
            "after": change.after,
            "reason": change.reason,
        })
    });
    shown.collect()
}

fn machine_json(sample: &Sample, reading: &Reading) -> Value {
    let machine = &sample.srv.process.hardware.machine;
    let cpus = machine.cpus.iter().filter_map(|cpu| {
        let time = reading.cpus.get(&cpu.id)?;
        let (received, sent) = reading.packets.get(&cpu.id).copied().unwrap_or_default();
        Some(json!({
            "cpu": cpu.id,
            "node": cpu.node,
            "core": cpu.core,
            "allowed": machine.allowed.contains(cpu.id),
            "user_s": time.user,
            "system_s": time.system,
            "interrupt_s": time.interrupt,
            "stolen_s": time.stolen,
            "idle_s": time.idle,
            "net_rx": received,
            "net_tx": sent,
        }))
    });
    let interfaces = reading.interfaces.iter().map(|interface| {
        let interrupts: Vec<(usize, u64)> =
            interface.interrupts.iter().map(|(cpu, count)| (*cpu, *count)).collect();
        json!({
            "name": interface.name,
            "interrupts": interrupts,
            "received_bytes": interface.received_bytes,
            "sent_bytes": interface.sent_bytes,
        })
    });
    json!({
        "cpus": cpus.collect::<Vec<_>>(),
        "interfaces": interfaces.collect::<Vec<_>>(),
    })
}

fn slow_lane(sample: &Sample) -> Value {
    let threads = || sample.srv.statistics.slow_threads.iter().take(SLOW_THREADS);
    let commands = threads().flat_map(|stats| &stats.commands);
    json!({
        "jobs": sample.srv.slow.jobs(),
        "commands": threads().map(|stats| stats.load.requests.get()).sum::<u64>(),
        "busy_s": commands.map(|command| command.ns.get()).sum::<u64>() as f64 / 1e9,
        "queue_s": threads().map(|stats| stats.load.queued_ms.get()).sum::<u64>() as f64 / 1e3,
    })
}

fn commands(sample: &Sample) -> Value {
    let mut commands: Vec<_> = sample.commands().collect();
    commands.sort_by_key(|(_, totals)| std::cmp::Reverse(totals.ns));
    let shown = commands.into_iter().take(COMMANDS).map(|(cmd, totals)| {
        let latency = sample.latencies.iter().find(|(number, _)| *number == cmd.number);
        let percentiles = latency.map(|(_, latency)| latency.percentiles(&[50.0, 99.0, 99.9]));
        let percentile = |n: usize| percentiles.as_ref().map(|all| all[n] as f64 / 1e3);
        json!({
            "name": cmd.full_name,
            "calls": totals.calls,
            "seconds": totals.ns as f64 / 1e9,
            "failed": totals.failed,
            "rejected": totals.rejected,
            "percentiles_us": { "50": percentile(0), "99": percentile(1), "99.9": percentile(2) },
        })
    });
    shown.collect()
}

fn slow_log(sample: &Sample) -> Value {
    let entries = sample.srv.statistics.commandlog.latest(LogKind::Slow, SLOW);
    let shown = entries.iter().map(|entry| {
        // The first argument is the command; the others may be keys and values.
        let name = entry.args.first().and_then(|name| sample.srv.table.find(name));
        json!({
            "id": entry.id,
            "time_s": entry.time_s,
            "us": entry.value,
            "name": name.map(|cmd| cmd.full_name),
        })
    });
    shown.collect()
}

fn memory(sample: &Sample) -> Value {
    let names = [
        "used_memory",
        "used_memory_peak",
        "used_memory_rss",
        "used_memory_startup",
        "used_memory_overhead",
        "used_memory_dataset",
        "used_memory_scripts",
        "used_memory_vm_total",
        "total_system_memory",
        "maxmemory",
        "maxmemory_policy",
        "allocator_allocated",
        "allocator_active",
        "allocator_resident",
        "mem_fragmentation_ratio",
        "mem_clients_normal",
        "mem_clients_slaves",
        "mem_replication_backlog",
    ];
    let mut memory = fields(sample, &names);
    memory.insert("huge_pages".into(), sample.huge_pages.into());
    memory.into()
}

fn clients(sample: &Sample, reader: Reader) -> Value {
    let names = ["connected_clients", "blocked_clients", "pubsub_clients", "maxclients"];
    let mut clients = fields(sample, &names);
    let largest = reader.may_list_clients.then(|| largest_clients(sample));
    clients.insert("largest".into(), largest.into());
    clients.into()
}

fn largest_clients(sample: &Sample) -> Vec<Value> {
    let load = Ordering::Relaxed;
    let bytes = |client: &weft_state::clients::ClientShared| {
        let buffers = client.input.room.load(load) + client.output.bytes.load(load);
        buffers + client.memory.holdings.total() + FIXED as u64
    };
    let mut all = sample.srv.clients.registry.all();
    all.sort_by_cached_key(|client| std::cmp::Reverse(bytes(client)));
    all.truncate(CLIENTS);
    let now = sample.srv.mono_ms();
    let table = sample.srv.table.all();
    all.iter()
        .map(|client| {
            let last = (client.activity.last_command.load(load) as usize).checked_sub(1);
            let (name, user) = client.with_names(|names| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                (text(&names.name), text(names.user_name()))
            });
            json!({
                "id": client.id,
                "address": client.origin.peer,
                "name": name,
                "user": user,
                "thread": client.thread(),
                "idle_s": client.idle_seconds(now),
                "command": last.and_then(|number| table.get(number)).map(|cmd| cmd.full_name),
                "bytes": bytes(client),
            })
        })
        .collect()
}

fn databases(sample: &Sample) -> Value {
    let number = |value, part| Sample::parts(value, part).and_then(|n| n.parse::<u64>().ok());
    let databases = sample.numbered("db").into_iter().map(|(db, value)| {
        json!({
            "number": db,
            "keys": number(value, "keys"),
            "expiring": number(value, "expires"),
        })
    });
    databases.collect()
}

fn replication(sample: &Sample) -> Value {
    let names = [
        "role",
        "master_replid",
        "master_repl_offset",
        "connected_slaves",
        "repl_backlog_histlen",
        "master_host",
        "master_port",
        "master_link_status",
        "master_last_io_seconds_ago",
        "master_sync_in_progress",
        "master_sync_perc",
        "slave_repl_offset",
    ];
    let mut replication = fields(sample, &names);
    let replicas = sample.numbered("slave").into_iter().map(|(_, value)| {
        let text = |part| Sample::parts(value, part);
        let number = |part| text(part).and_then(|n| n.parse::<u64>().ok());
        json!({
            "ip": text("ip"),
            "port": number("port"),
            "state": text("state"),
            "offset": number("offset"),
            "lag_s": number("lag"),
        })
    });
    replication.insert("replicas".into(), replicas.collect());
    replication.into()
}

fn cluster(sample: &Sample) -> Value {
    let Some(topology) = sample.srv.nodes.cluster.current().0 else { return Value::Null };
    let map = &topology.map;
    let nodes = map.nodes().iter().zip(map.slot_counts()).map(|(node, slots)| {
        json!({
            "id": node.id.as_str(),
            "me": node.id == topology.me,
            "primary": node.is_primary(),
            "shard": node.shard.as_str(),
            "health": format!("{:?}", node.health).to_lowercase(),
            "slots": slots,
            "ip": node.addresses.ip,
            "port": node.addresses.port.max(node.addresses.tls_port),
            "name": node.addresses.human_name,
        })
    });
    let info = |name: &str| sample.cluster.get(name).map(String::as_str);
    json!({
        "state": info("cluster_state"),
        "slots_assigned": info("cluster_slots_assigned").and_then(|n| n.parse::<u64>().ok()),
        "epoch": info("cluster_current_epoch").and_then(|n| n.parse::<u64>().ok()),
        "lease_left_ms": ready::lease_left_ms(sample.srv),
        "nodes": nodes.collect::<Vec<_>>(),
        "slot_runs": slot_runs(|slot| map.owner_index(slot)),
    })
}

/// The map as runs of slots: first, last, and the position of their owner in `nodes`. Null if there are too many runs.
fn slot_runs(owner: impl Fn(u16) -> Option<usize>) -> Option<Vec<(u16, u16, usize)>> {
    let mut runs: Vec<(u16, u16, usize)> = Vec::new();
    for slot in 0..SLOTS {
        let Some(owner) = owner(slot) else { continue };
        match runs.last_mut() {
            Some((_, last, of)) if *last + 1 == slot && *of == owner => *last = slot,
            _ => runs.push((slot, slot, owner)),
        }
    }
    (runs.len() <= SLOT_RUNS).then_some(runs)
}

fn saves(sample: &Sample) -> Value {
    let names = [
        "rdb_changes_since_last_save",
        "rdb_bgsave_in_progress",
        "rdb_last_save_time",
        "rdb_last_bgsave_status",
        "rdb_last_bgsave_time_sec",
        "rdb_current_bgsave_time_sec",
        "current_save_keys_processed",
        "current_save_keys_total",
        "aof_enabled",
        "aof_rewrite_in_progress",
        "aof_last_write_status",
        "aof_last_bgrewrite_status",
        "aof_current_size",
        "aof_base_size",
    ];
    let mut saves = fields(sample, &names);
    let cuts = sample.srv.ks.cut_times();
    saves.insert("cuts".into(), cuts.count().into());
    saves.insert("last_cut_us".into(), (cuts.last().as_nanos() as f64 / 1e3).into());
    saves.insert("aof_unread_bytes".into(), aof(sample.srv).pending_bytes(sample.srv).into());
    saves.insert("log_unread_bytes".into(), sample.srv.ks.log().pending_bytes().into());
    saves.into()
}
