//! The facts of a server as lines of text, for the page and for `--once`.

use super::page::style::{age, bytes, percent, rate};
use super::report::{Persistence, Replication, Report};
use crate::report::numbers::grouped;

/// A line: its name, its text, and whether it is a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub name: &'static str,
    pub text: String,
    pub is_problem: bool,
}

/// All facts that apply to this server.
pub fn facts(report: &Report) -> Vec<Fact> {
    let fact = |name, text, is_problem| Fact { name, text, is_problem };
    let clients = &report.clients;
    let requests = &report.requests;
    let mut facts = vec![
        fact("Memory", memory(report), false),
        fact(
            "Clients",
            format!(
                "{} of {}, {} blocked, {} pub/sub; {} new/s, {} rejected/s",
                clients.connected,
                clients.max,
                clients.blocked,
                clients.pubsub,
                rate(clients.new_per_second),
                rate(clients.rejected_per_second)
            ),
            clients.rejected_per_second > 0.0,
        ),
        fact("Keys", keys(report), false),
        fact(
            "Traffic",
            format!(
                "in {}/s, out {}/s; {} errors/s",
                bytes(requests.input_bytes_per_second),
                bytes(requests.output_bytes_per_second),
                rate(requests.errors_per_second)
            ),
            false,
        ),
        fact("Threads", threads(report), false),
    ];
    let (text, is_problem) = replication(&report.replication);
    facts.push(fact("Role", text, is_problem));
    if let Some(cluster) = &report.cluster {
        let text = format!(
            "{}; {} nodes, {} primaries, {} slots, {} failed",
            if cluster.state.is_empty() { "state not permitted" } else { &cluster.state },
            cluster.nodes,
            cluster.size,
            grouped(cluster.slots_assigned as f64),
            cluster.slots_failed
        );
        facts.push(fact("Cluster", text, cluster.state == "fail" || cluster.slots_failed > 0));
    }
    let persistence = &report.persistence;
    if persistence.is_loading {
        let loaded = persistence.loaded_percent.map_or(String::new(), |p| format!(", {p:.0} %"));
        facts.push(fact("Loading", format!("data from disk{loaded}"), true));
    }
    facts.push(fact("Saves", saves(persistence), !persistence.last_save_is_ok));
    facts.push(fact("AOF", aof(persistence), persistence.aof_is_enabled && !persistence.aof_is_ok));
    facts
}

fn memory(report: &Report) -> String {
    let memory = &report.memory;
    let limit = match memory.max_bytes {
        0 => "no limit".to_string(),
        max => format!(
            "limit {}, {} % used, {}",
            bytes(max as f64),
            percent(memory.used_bytes as f64 / max as f64 * 100.0),
            memory.policy
        ),
    };
    let used = bytes(memory.used_bytes as f64);
    let (peak, rss) = (bytes(memory.peak_bytes as f64), bytes(memory.rss_bytes as f64));
    format!("{used}, peak {peak}, RSS {rss}; {limit}")
}

fn keys(report: &Report) -> String {
    let keys: u64 = report.databases.iter().map(|database| database.keys).sum();
    let expires: u64 = report.databases.iter().map(|database| database.expires).sum();
    let hits = match report.requests.hit_percent {
        Some(hits) => format!("; {} % hits", percent(hits)),
        None => String::new(),
    };
    let databases = match report.databases.len() {
        0 | 1 => String::new(),
        count => format!(" in {count} databases"),
    };
    let (expired, evicted) =
        (rate(report.requests.expired_per_second), rate(report.requests.evicted_per_second));
    format!(
        "{}{databases}, {} with expiry{hits}; {expired} expired/s, {evicted} evicted/s",
        grouped(keys as f64),
        grouped(expires as f64)
    )
}

fn threads(report: &Report) -> String {
    let server = &report.server;
    let io = match (server.io_threads, server.io_threads_active) {
        (Some(all), Some(active)) => format!("{all} I/O, {active} active"),
        (Some(all), None) => format!("{all} I/O"),
        (None, Some(active)) => format!("{active} I/O active"),
        (None, None) => "I/O threads not reported".into(),
    };
    let key = |thread: &&super::report::Thread| thread.cpu_percent.unwrap_or(0.0);
    let busiest = report.threads.iter().max_by(|a, b| key(a).total_cmp(&key(b)));
    match busiest.and_then(|thread| Some((thread, thread.cpu_percent?))) {
        Some((thread, cpu)) => {
            let all = report.threads.iter().filter_map(|thread| thread.cpu_percent).sum();
            let (all, cpu) = (percent_of_many(all), percent(cpu));
            format!("{io}; CPU {all} %, most by {}: {cpu} %", thread.name)
        }
        None => io,
    }
}

/// A sum of shares, which may be over 100.
fn percent_of_many(value: f64) -> String {
    format!("{value:.0}")
}

fn replication(replication: &Replication) -> (String, bool) {
    if let Some(primary) = &replication.primary {
        let is_up = replication.link_is_up == Some(true);
        let link = match (is_up, replication.is_syncing) {
            (_, true) => "full sync runs",
            (true, false) => "link up",
            (false, false) => "link down",
        };
        let idle = match replication.link_idle_seconds {
            Some(idle) if is_up => format!(", last data {} ago", age(idle)),
            Some(_) | None => String::new(),
        };
        return (format!("replica of {primary}: {link}{idle}"), !is_up);
    }
    let behind = match replication.most_behind_bytes {
        Some(bytes_behind) => format!(", the last is {} late", bytes(bytes_behind as f64)),
        None => String::new(),
    };
    let replicas = match replication.replicas {
        0 => "no replicas".to_string(),
        1 => "1 replica".to_string(),
        many => format!("{many} replicas"),
    };
    (format!("primary, {replicas}{behind}"), false)
}

fn saves(persistence: &Persistence) -> String {
    let age_of = |seconds: Option<u64>| seconds.map_or("?".to_string(), age);
    let changes = grouped(persistence.changes_since_save as f64);
    if persistence.is_saving {
        return format!("saving for {}; {changes} changes", age_of(persistence.saving_seconds));
    }
    let status = if persistence.last_save_is_ok { "" } else { "FAILED, " };
    let ago = age_of(persistence.last_save_age_seconds);
    format!("{status}last save or start {ago} ago, {changes} changes since")
}

fn aof(persistence: &Persistence) -> String {
    if !persistence.aof_is_enabled {
        return "off".into();
    }
    let mut text = String::from(if persistence.aof_is_ok { "on" } else { "WRITE FAILED" });
    if let Some(size) = persistence.aof_bytes {
        text += &format!(", {}", bytes(size as f64));
    }
    if let Some(pending) = persistence.aof_pending_bytes.filter(|pending| *pending > 0) {
        text += &format!(", {} pending", bytes(pending as f64));
    }
    if persistence.aof_is_rewriting {
        text += ", rewriting";
    }
    text
}
