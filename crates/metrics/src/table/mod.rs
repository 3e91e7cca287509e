//! The table of metrics: the output of `/metrics` and `docs/metrics.md` are both made from it.
//!
//! Names and labels follow redis_exporter where it has the metric, so that its dashboards and alerts work unchanged.
//! Metrics of Weft begin with `weft_`.
//!
//! * [`info`], [`stats`] - numbers that are a field of INFO, in its order
//! * [`replication`], [`commands`], [`cluster`] - several samples of one metric, by label; [`threads`]: those of each thread
//!
//! A metric is one entry in one of these files.

pub mod cluster;
pub mod commands;
pub mod info;
pub mod replication;
pub mod stats;
pub mod threads;

use crate::sample::Sample;
use prometheus_client::encoding::{
    EncodeLabel, EncodeLabelSet, LabelSetEncoder, MetricEncoder, NoLabelSet,
};
use std::fmt;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its name ends in `_total`, as OpenMetrics requires.
    Counter,
    Gauge,
    /// A counter to which redis_exporter gave a name without `_total`.
    Unknown,
    /// Facts in labels; the value is 1, and the name ends in `_info`.
    Info,
    Histogram,
}

impl Kind {
    /// The word of OpenMetrics.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Unknown => "unknown",
            Kind::Info => "info",
            Kind::Histogram => "histogram",
        }
    }
}

/// Where the value comes from.
#[derive(Clone, Copy)]
pub enum Source {
    /// The field of INFO with this name, multiplied by the number. The metric is missing if the field is.
    Field(&'static str, f64),
    /// 1 if the field of INFO has this value, else 0.
    Word(&'static str, &'static str),
    /// A function. The text says what it reads.
    Function(&'static str, fn(&Sample, &mut Out<'_>) -> fmt::Result),
}

/// A metric.
#[derive(Clone, Copy)]
pub struct Metric {
    /// The complete name of its samples; for a histogram, without `_bucket`.
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    /// One sentence without a full stop.
    pub help: &'static str,
    pub source: Source,
}

/// Units that a name may end in, with their words for people. OpenMetrics knows the first two.
const UNITS: [(&str, &str); 7] = [
    ("bytes", "bytes"),
    ("seconds", "seconds"),
    ("sec", "seconds"),
    ("ms", "milliseconds"),
    ("usec", "microseconds"),
    ("percentage", "percent"),
    ("ratio", "ratio"),
];

impl Metric {
    /// The name without the suffix that its type implies.
    pub fn stem(&self) -> &'static str {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Unknown | Kind::Histogram => "",
        };
        self.name.strip_suffix(suffix).unwrap_or(self.name)
    }

    /// The unit, as the name says it: its suffix, and its word for people.
    pub fn unit(&self) -> Option<(&'static str, &'static str)> {
        let (_, last) = self.stem().rsplit_once('_')?;
        UNITS.into_iter().find(|(suffix, _)| *suffix == last)
    }
}

const fn metric(
    kind: Kind,
    name: &'static str,
    help: &'static str,
    source: Source,
    labels: &'static [&'static str],
) -> Metric {
    Metric { name, kind, labels, help, source }
}

/// A field as it is.
const fn field(kind: Kind, name: &'static str, field: &'static str, help: &'static str) -> Metric {
    metric(kind, name, help, Source::Field(field, 1.0), &[])
}

/// 1 if a field has this value.
const fn word(
    name: &'static str,
    field: &'static str,
    value: &'static str,
    help: &'static str,
) -> Metric {
    metric(Kind::Gauge, name, help, Source::Word(field, value), &[])
}

type Write = fn(&Sample, &mut Out<'_>) -> fmt::Result;

/// A source that is a function.
const fn read(from: &'static str, write: Write) -> Source {
    Source::Function(from, write)
}

/// All metrics, in the order of the output.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    sections().into_iter().flat_map(|(_, metrics)| metrics)
}

/// The metrics under the headings of the documentation.
pub fn sections() -> [(&'static str, &'static [Metric]); 10] {
    [
        ("Server and clients", &info::SERVER),
        ("Memory", &info::MEMORY),
        ("Persistence", &info::PERSISTENCE),
        ("Traffic and keys", &stats::STATS),
        ("Replication", &stats::REPLICATION),
        ("Replicas and the primary", &replication::REPLICATION),
        ("Commands, errors and databases", &commands::COMMANDS),
        ("Cluster and certificates", &cluster::CLUSTER),
        ("Threads", &threads::THREADS),
        ("Background work", &threads::WORK),
    ]
}

/// Where the samples of one metric are written.
pub struct Out<'a> {
    encoder: MetricEncoder<'a>,
    metric: &'static Metric,
}

impl<'a> Out<'a> {
    pub fn new(encoder: MetricEncoder<'a>, metric: &'static Metric) -> Out<'a> {
        Out { encoder, metric }
    }

    /// A sample with the values of the metric's labels.
    pub fn value(&mut self, labels: &[&str], value: f64) -> fmt::Result {
        let labels = Labels::new(self.metric, labels);
        match (self.metric.kind, labels.0.is_empty()) {
            (Kind::Info, _) => self.encoder.encode_info(&labels),
            (kind, true) => encode_number(&mut self.encoder, kind, value),
            (kind, false) => encode_number(&mut self.encoder.encode_family(&labels)?, kind, value),
        }
    }

    /// A histogram: upper bounds with the number of values in each bucket. The last bound is infinite.
    pub fn histogram(&mut self, labels: &[&str], sum: f64, buckets: &[(f64, u64)]) -> fmt::Result {
        let labels = Labels::new(self.metric, labels);
        let count = buckets.iter().map(|(_, count)| count).sum();
        let mut encoder = self.encoder.encode_family(&labels)?;
        encoder.encode_histogram::<NoLabelSet>(sum, count, buckets, None)
    }
}

fn encode_number(encoder: &mut MetricEncoder<'_>, kind: Kind, value: f64) -> fmt::Result {
    /// Integers up to it are exact.
    const EXACT: f64 = (1u64 << 53) as f64;
    let is_int = value.fract() == 0.0 && value.abs() < EXACT;
    match (kind, is_int) {
        (Kind::Counter, true) => {
            encoder.encode_counter::<NoLabelSet, u64, u64>(&(value as u64), None)
        }
        (Kind::Counter, false) => encoder.encode_counter::<NoLabelSet, f64, u64>(&value, None),
        (_, true) => encoder.encode_gauge(&(value as i64)),
        (_, false) => encoder.encode_gauge(&value),
    }
}

/// Names of labels with their values.
struct Labels<'a>(Vec<(&'static str, &'a str)>);

impl<'a> Labels<'a> {
    fn new(metric: &'static Metric, values: &[&'a str]) -> Labels<'a> {
        debug_assert_eq!(metric.labels.len(), values.len(), "labels of {}", metric.name);
        Labels(metric.labels.iter().copied().zip(values.iter().copied()).collect())
    }
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|label| label.encode(encoder.encode_label()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_well_formed() {
        let mut seen = HashSet::new();
        for metric in all() {
            let name = metric.name;
            assert!(seen.insert(name), "{name} is there twice");
            assert!(name.starts_with("redis_") || name.starts_with("weft_"), "{name}");
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            );
            // redis_exporter has a gauge of that form.
            let is_total = name.ends_with("_total") && name != "redis_memory_used_vm_total";
            assert_eq!(metric.kind == Kind::Counter, is_total, "{name}");
            assert_eq!(metric.kind == Kind::Info, name.ends_with("_info"), "{name}");
            assert!(!metric.help.ends_with('.') && !metric.help.contains(['\n', '\\']), "{name}");
        }
    }

    #[test]
    fn units_come_from_names() {
        let unit = |name| {
            let metric = metric(Kind::Gauge, name, "", Source::Field("", 1.0), &[]);
            metric.unit().map(|(_, word)| word)
        };
        assert_eq!(unit("redis_memory_used_bytes"), Some("bytes"));
        assert_eq!(unit("redis_rdb_last_bgsave_duration_sec"), Some("seconds"));
        assert_eq!(unit("redis_connected_clients"), None);
    }
}
