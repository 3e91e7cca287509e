//! CLUSTER SLOT-STATS.

use super::{error_of, topology};
use std::cmp::Reverse;
use weft_base::limits::SLOTS;
use weft_base::num::parse_i64;
use weft_cluster::Slot;
use weft_cluster::arguments::range;
use weft_commands::{CmdResult, Error, error};
use weft_executor::cluster::change::slots_of_shard;
use weft_executor::dispatch::core::ConnCx;
use weft_keyspace::Keyspace;

const LIMIT: Error =
    Error::new("ERR Limit has to lie in between 1 and 16384 (maximum number of slots).");
const TWICE: Error = Error::new("ERR Multiple filters of the same type are disallowed.");

/// The number of keys, and with `cluster-slot-stats-enabled` the counts since the slot came or CONFIG RESETSTAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metric {
    Keys,
    Cpu,
    BytesIn,
    BytesOut,
}

impl Metric {
    const ALL: [Metric; 4] = [Metric::Keys, Metric::Cpu, Metric::BytesIn, Metric::BytesOut];

    fn name(self) -> &'static str {
        match self {
            Metric::Keys => "key-count",
            Metric::Cpu => "cpu-usec",
            Metric::BytesIn => "network-bytes-in",
            Metric::BytesOut => "network-bytes-out",
        }
    }
}

/// The values of all slots, and the metrics that are shown.
struct Values {
    keys: Vec<u64>,
    totals: Vec<weft_state::slot_stats::SlotTotals>,
    shown: &'static [Metric],
}

impl Values {
    /// O(slots * (databases that have had keys + threads)).
    fn of(cx: &ConnCx<'_>) -> Values {
        let srv = cx.srv();
        Values {
            keys: count_keys(&srv.ks),
            totals: srv.statistics.slots.totals(srv.all_stats().map(|thread| &thread.slots)),
            shown: shown(cx),
        }
    }

    fn of_slot(&self, slot: Slot, metric: Metric) -> u64 {
        let totals = &self.totals[usize::from(slot)];
        match metric {
            Metric::Keys => self.keys[usize::from(slot)],
            Metric::Cpu => totals.cpu_ns / 1000,
            Metric::BytesIn => totals.bytes_in,
            Metric::BytesOut => totals.bytes_out,
        }
    }
}

/// The metrics that the settings allow.
fn shown(cx: &ConnCx<'_>) -> &'static [Metric] {
    if cx.core.settings.log.counts_slots { &Metric::ALL } else { &Metric::ALL[..1] }
}

/// The slots that the command shows.
enum Filter {
    Range(std::ops::RangeInclusive<Slot>),
    By { metric: Metric, limit: usize, descending: bool },
}

pub fn slot_stats(cx: &mut ConnCx<'_>) -> CmdResult {
    let topology = topology(cx)?;
    let filter = parse_filter(cx)?;
    let mut slots: Vec<Slot> = slots_of_shard(&topology).iter().collect();
    let values = Values::of(cx);
    match filter {
        Filter::Range(range) => slots.retain(|slot| range.contains(slot)),
        Filter::By { metric, limit, descending } => {
            let value = |slot: &Slot| values.of_slot(*slot, metric);
            match descending {
                true => slots.sort_by_key(|slot| (Reverse(value(slot)), *slot)),
                false => slots.sort_by_key(|slot| (value(slot), *slot)),
            }
            slots.truncate(limit);
        }
    }
    cx.reply.array(slots.len());
    for slot in slots {
        cx.reply.array(2);
        cx.reply.int(i64::from(slot));
        cx.reply.map(values.shown.len());
        for metric in values.shown {
            cx.reply.bulk(metric.name().as_bytes());
            cx.reply.int(values.of_slot(slot, *metric) as i64);
        }
    }
    Ok(())
}

/// The keys of each slot in all databases. O(slots * databases that have had keys).
fn count_keys(ks: &Keyspace) -> Vec<u64> {
    let mut counts = vec![0; SLOTS];
    for db in ks.occupied_databases() {
        for (slot, count) in counts.iter_mut().enumerate() {
            *count += ks.slot_len(slot as Slot, db) as u64;
        }
    }
    counts
}

fn parse_filter(cx: &ConnCx<'_>) -> Result<Filter, Error> {
    let args = &cx.args[2..];
    if args.len() == 3 && args[0].eq_ignore_ascii_case(b"slotsrange") {
        let range = range(args[1], args[2], "Start").map_err(|refusal| error_of(cx, refusal))?;
        return Ok(Filter::Range(range.first..=range.last));
    }
    if !args[0].eq_ignore_ascii_case(b"orderby") {
        return Err(crate::commands::shape::unknown_subcommand(cx, "CLUSTER"));
    }
    let is_named = |metric: &&Metric| args[1].eq_ignore_ascii_case(metric.name().as_bytes());
    let Some(metric) = shown(cx).iter().find(is_named) else {
        return Err(Error::new("ERR Unrecognized sort metric for ORDERBY."));
    };
    let (mut limit, mut order, mut rest) = (None, None, &args[2..]);
    while let Some((word, after)) = rest.split_first() {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let twice = match after.split_first() {
            Some((number, after)) if is("limit") => {
                let number = parse_i64(number).filter(|n| (1..=SLOTS as i64).contains(n));
                let number = number.ok_or(LIMIT)?;
                rest = after;
                limit.replace(number as usize).is_some()
            }
            _ if is("asc") || is("desc") => {
                rest = after;
                order.replace(is("desc")).is_some()
            }
            _ => return Err(error::SYNTAX),
        };
        if twice {
            return Err(TWICE);
        }
    }
    let (limit, descending) = (limit.unwrap_or(SLOTS), order.unwrap_or(true));
    Ok(Filter::By { metric: *metric, limit, descending })
}
