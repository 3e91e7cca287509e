//! INFO commandstats, errorstats and latencystats.

use super::text::Text;
use super::totals::Totals;
use crate::dispatch::{Cmd, Core};
use weft_base::num_format::fmt_f64;

/// Every command with its index into [`Totals`].
fn commands(core: &Core) -> impl Iterator<Item = &'static Cmd> {
    core.srv.table.all().iter().copied()
}

pub fn write_counts(core: &mut Core, text: &mut Text) {
    let totals = Totals::since_reset(core.srv);
    for cmd in commands(core) {
        let count = &totals.commands[cmd.number];
        if count.calls == 0 && count.rejected == 0 && count.failed == 0 {
            continue;
        }
        let us = count.ns / 1000;
        let each = if count.calls == 0 { 0.0 } else { count.ns as f64 / 1e3 / count.calls as f64 };
        text.field(
            &format!("cmdstat_{}", cmd.full_name),
            format_args!(
                "calls={},usec={us},usec_per_call={each:.2},rejected_calls={},failed_calls={}",
                count.calls, count.rejected, count.failed
            ),
        );
    }
}

pub fn write_errors(core: &mut Core, text: &mut Text) {
    let errors = core.srv.errors.lock().unwrap_or_else(|p| p.into_inner());
    for (code, count) in errors.iter() {
        text.field(&format!("errorstat_{code}"), format_args!("count={count}"));
    }
}

pub fn write_latency(core: &mut Core, text: &mut Text) {
    if !core.settings.latency_tracking {
        return;
    }
    let percentiles = core.srv.config().latency_percentiles().to_vec();
    let totals = Totals::since_reset(core.srv);
    for cmd in commands(core) {
        let latency = &totals.latency[cmd.number];
        if latency.count() == 0 {
            continue;
        }
        let values: Vec<String> = percentiles
            .iter()
            .map(|p| {
                let name = String::from_utf8_lossy(&fmt_f64(*p)).into_owned();
                format!("p{name}={:.3}", latency.percentile(*p) as f64 / 1000.0)
            })
            .collect();
        let name = format!("latency_percentiles_usec_{}", cmd.full_name);
        text.field(&name, values.join(","));
    }
}
