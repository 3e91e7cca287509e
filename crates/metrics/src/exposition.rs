//! The output of `/metrics`: OpenMetrics 1.0, or the text format 0.0.4 of Prometheus.
//!
//! The crate prometheus-client writes both. Its registry is empty but for one collector, which walks the table at each
//! scrape: there are no metrics that would have to be kept up to date.

use crate::negotiate::Format;
use crate::sample::Sample;
use crate::table::{self, Kind, Metric, Out, Source};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// All metrics of `sample`.
pub fn write(sample: Sample, format: Format) -> Result<String, fmt::Error> {
    /// More than the size with 64 I/O threads and few commands in use.
    const ROOM: usize = 96 << 10;
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
    let mut out = Out::new(encoder, metric);
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
