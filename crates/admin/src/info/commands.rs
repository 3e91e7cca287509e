//! INFO commandstats, errorstats and latencystats.

use crate::info::text::Text;
use crate::info::totals;
use weft_base::num_format::fmt_f64;
use weft_executor::dispatch::core::Core;
use weft_state::command_table::Cmd;

/// Every command with its index into `Totals`.
fn commands(core: &Core) -> impl Iterator<Item = &'static Cmd> {
    core.srv.table.all().iter().copied()
}

pub fn write_counts(core: &mut Core, text: &mut Text) {
    let counts = totals::commands_since_reset(core.srv);
    for cmd in commands(core) {
        let count = &counts[cmd.number];
        if count.calls == 0 && count.rejected == 0 && count.failed == 0 {
            continue;
        }
        text.begin("cmdstat_");
        text.push(cmd.full_name);
        text.push(":calls=");
        text.int(count.calls);
        text.push(",usec=");
        text.int(count.ns / 1000);
        text.push(",usec_per_call=");
        // Hundredths, rounded.
        let each = (count.ns + 5 * count.calls).checked_div(10 * count.calls).unwrap_or(0);
        text.decimal(each, 2);
        text.push(",rejected_calls=");
        text.int(count.rejected);
        text.push(",failed_calls=");
        text.int(count.failed);
        text.end();
    }
}

pub fn write_errors(core: &mut Core, text: &mut Text) {
    let errors = core.srv.statistics.errors();
    for (code, count) in errors.iter() {
        text.field(&format!("errorstat_{code}"), format_args!("count={count}"));
    }
}

pub fn write_latency(core: &mut Core, text: &mut Text) {
    if !core.settings.log.latency_tracking {
        return;
    }
    let percentiles = core.srv.config().latency_percentiles().to_vec();
    let names: Vec<String> =
        percentiles.iter().map(|p| String::from_utf8_lossy(&fmt_f64(*p)).into_owned()).collect();
    let counts = totals::commands_since_reset(core.srv);
    for cmd in commands(core) {
        // Histograms are large. Skip commands without calls since the reset.
        if counts[cmd.number].calls == 0 {
            continue;
        }
        let latency = totals::latency_since_reset(core.srv, cmd.number);
        if latency.count() == 0 {
            continue;
        }
        text.begin("latency_percentiles_usec_");
        text.push(cmd.full_name);
        let values = latency.percentiles(&percentiles);
        for (n, (name, ns)) in names.iter().zip(values).enumerate() {
            text.push(if n == 0 { ":p" } else { ",p" });
            text.push(name);
            text.push("=");
            text.decimal(ns, 3);
        }
        if names.is_empty() {
            text.push(":");
        }
        text.end();
    }
}
