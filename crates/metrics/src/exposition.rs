//! The output of `/metrics`: OpenMetrics 1.0, or the text format 0.0.4 of Prometheus.
//!
//! The crate prometheus-client writes both. Its registry is empty but for one collector, which walks the table at each
//! scrape: there are no metrics that would have to be kept up to date.

use crate::negotiate::Format;
use crate::sample::Sample;
use crate::table::{self, Kind, Metric, Source};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel, EncodeLabelSet, LabelSetEncoder, MetricEncoder, NoLabelSet,
    prometheus_text, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// All metrics of `sample`.
pub fn write(sample: Sample, format: Format) -> Result<String, fmt::Error> {
    /// About the size with few commands in use.
    const ROOM: usize = 64 << 10;
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Table(sample)));
    let mut out = String::with_capacity(ROOM);
    match format {
        Format::OpenMetrics => text::encode(&mut out, &registry)?,
        Format::Prometheus => prometheus_text::encode(&mut out, &registry)?,
    }
    Ok(out)
}

#[derive(Debug)]
struct Table(Sample);

impl Collector for Table {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        table::all().try_for_each(|metric| encode(&mut encoder, metric, &self.0))
    }
}

fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &'static Metric,
    sample: &Sample,
) -> fmt::Result {
    let known = match metric.source {
        Source::Field(field, factor) => match sample.number(field) {
            Some(number) => Some(number * factor),
            None => return Ok(()),
        },
        Source::Word(field, value) => match sample.text(field) {
            "" => return Ok(()),
            found => Some(f64::from(u8::from(found == value))),
        },
        Source::Function(..) => None,
    };
    let (name, unit) = name_and_unit(metric);
    let kind = match metric.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Unknown => MetricType::Unknown,
        Kind::Info => MetricType::Info,
        Kind::Histogram => MetricType::Histogram,
    };
    let encoder = encoder.encode_descriptor(name, metric.help, unit.as_ref(), kind)?;
    let mut out = Out { encoder, metric };
    match (known, metric.source) {
        (Some(value), _) => out.value(&[], value),
        (None, Source::Function(_, write)) => write(sample, &mut out),
        (None, Source::Field(..) | Source::Word(..)) => Ok(()),
    }
}

/// The name without its unit, if that is one of OpenMetrics: the encoder appends it.
fn name_and_unit(metric: &Metric) -> (&'static str, Option<Unit>) {
    let unit = match metric.unit() {
        Some(("bytes", _)) => Unit::Bytes,
        Some(("seconds", _)) => Unit::Seconds,
        Some(_) | None => return (metric.stem(), None),
    };
    let name = metric.stem().strip_suffix(unit.as_str()).and_then(|name| name.strip_suffix('_'));
    match name {
        Some(name) => (name, Some(unit)),
        None => (metric.stem(), None),
    }
}

/// Where the samples of one metric are written.
pub struct Out<'a> {
    encoder: MetricEncoder<'a>,
    metric: &'static Metric,
}

impl Out<'_> {
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
