//! Metrics of the cluster, of the lease, and of certificates.

use super::Kind::{Counter, Gauge, Info};
use super::{Metric, Out, metric, read};
use crate::sample::Sample;
use std::collections::HashMap;
use std::fmt;
use std::time::SystemTime;

/// The cluster, certificates.
pub static CLUSTER: [Metric; 14] = [
    metric(
        Gauge,
        "redis_cluster_state",
        "1 if CLUSTER INFO says ok, else 0; this and the next ones only in cluster mode",
        read("CLUSTER INFO", |s, out| match s.cluster.get("cluster_state") {
            Some(state) => out.value(&[], f64::from(u8::from(state == "ok"))),
            None => Ok(()),
        }),
        &[],
    ),
    metric(
        Gauge,
        "redis_cluster_slots_assigned",
        "Slots that have a node",
        read("CLUSTER INFO", |s, out| cluster(s, "cluster_slots_assigned", out)),
        &[],
    ),
    metric(
        Gauge,
        "redis_cluster_slots_ok",
        "Slots of nodes that are reachable",
        read("CLUSTER INFO", |s, out| cluster(s, "cluster_slots_ok", out)),
        &[],
    ),
    metric(
        Gauge,
        "redis_cluster_slots_pfail",
        "Slots of nodes that this node can't reach",
        read("CLUSTER INFO", |s, out| cluster(s, "cluster_slots_pfail", out)),
        &[],
    ),
    metric(
        Gauge,
        "redis_cluster_slots_fail",
        "Slots of failed nodes",
        read("CLUSTER INFO", |s, out| cluster(s, "cluster_slots_fail", out)),
        &[],
    ),
    metric(
        Gauge,
        "redis_cluster_known_nodes",
        "Nodes in the map",
        read("CLUSTER INFO", |s, out| cluster(s, "cluster_known_nodes", out)),
        &[],
    ),
    metric(
        Gauge,
        "redis_cluster_size",
        "Primaries with slots",
        read("CLUSTER INFO", |s, out| cluster(s, "cluster_size", out)),
        &[],
    ),
    metric(
        Gauge,
        "redis_cluster_current_epoch",
        "The epoch of the map",
        read("CLUSTER INFO", |s, out| cluster(s, "cluster_current_epoch", out)),
        &[],
    ),
    metric(
        Gauge,
        "redis_cluster_my_epoch",
        "The epoch of this node's slots",
        read("CLUSTER INFO", |s, out| cluster(s, "cluster_my_epoch", out)),
        &[],
    ),
    metric(
        Gauge,
        "weft_cluster_lease_held",
        "Whether a primary of a cluster with a store holds its lease; only on such primaries",
        read("the lease", lease_held),
        &[],
    ),
    metric(
        Gauge,
        "weft_cluster_lease_left_seconds",
        "Time until the lease ends if it is not renewed; 0: there is none; only on such primaries",
        read("the lease", lease_left),
        &[],
    ),
    metric(
        Counter,
        "weft_cluster_lease_closed_connections_total",
        "Connections closed since their replies could not be acknowledged without a lease",
        read("the lease", lease_closed),
        &[],
    ),
    metric(
        Info,
        "redis_tls_certificate_info",
        "Serial numbers of the certificates in use",
        read("INFO tls", certificates),
        &["certificate", "serial"],
    ),
    metric(
        Gauge,
        "weft_tls_certificate_expiry_timestamp_seconds",
        "Unix time at which a certificate in use expires",
        read("the certificates", certificate_expiry),
        &["certificate"],
    ),
];

fn number_of(fields: &HashMap<String, String>, name: &str) -> Option<f64> {
    fields.get(name)?.parse().ok()
}

fn cluster(sample: &Sample, field: &str, out: &mut Out<'_>) -> fmt::Result {
    number_of(&sample.cluster, field).map_or(Ok(()), |number| out.value(&[], number))
}

fn lease_held(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    match crate::ready::lease_left_ms(sample.srv) {
        Some(left) => out.value(&[], f64::from(u8::from(left > 0))),
        None => Ok(()),
    }
}

fn lease_left(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    match crate::ready::lease_left_ms(sample.srv) {
        Some(left) => out.value(&[], left as f64 / 1e3),
        None => Ok(()),
    }
}

fn lease_closed(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    match sample.srv.nodes.cluster.is_enabled() {
        true => out.value(&[], sample.srv.nodes.cluster.authority.closed() as f64),
        false => Ok(()),
    }
}

fn certificates(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    for (certificate, field) in [
        ("server", "tls_server_cert_serial"),
        ("client", "tls_client_cert_serial"),
        ("ca", "tls_ca_cert_serial"),
    ] {
        match sample.text(field) {
            "" | "none" => {}
            serial => out.value(&[certificate, serial], 1.0)?,
        }
    }
    Ok(())
}

fn certificate_expiry(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    let Some(contexts) = sample.srv.process.tls.contexts() else { return Ok(()) };
    let facts = &contexts.facts;
    let now = SystemTime::now();
    let now_s = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
    for (certificate, facts) in
        [("server", &facts.server), ("client", &facts.client), ("ca", &facts.authority)]
    {
        if let Some(facts) = facts {
            out.value(&[certificate], (now_s + facts.expires_in(now)) as f64)?;
        }
    }
    Ok(())
}
