//! INFO: the server's state, in sections of `name:value` lines.
//!
//! Names and order follow Valkey 9.1, because dashboards, exporters and Sentinel read them. A field
//! of a missing feature has the value that is true without it (no script is cached:
//! `number_of_cached_scripts:0`), except where no value would make sense. One section is our own:
//! [`threads`].
//!
//! * [`selection`] - parses the words after INFO into a list of sections
//! * [`text`] - formats the lines
//! * [`totals`] - sums each counter over the threads; resets them for CONFIG RESETSTAT
//! * `weft_state::info_state` - the state that only INFO and similar commands use: `rates`, the `instantaneous_`
//!   fields; `peaks`, the largest client buffers of the last seconds
//! * the other files: one section or a few small ones each
//!
//! INFO stops no thread. It reads the counters of a busy server while they change, so the fields of
//! one reply may be some nanoseconds apart.

mod activity;

mod clients;
mod commands;
mod keyspace;
pub mod memory;

mod persistence;

mod replication;
pub mod selection;
mod server;

pub mod text;
mod threads;
pub mod totals;

pub use selection::{Section, Selection};
pub use text::Text;

use std::time::{Instant, SystemTime};
use weft_commands::Lane;
use weft_executor::dispatch::core::Core;
use weft_executor::dispatch::core::Held;

/// The work that must precede [`render`]. Returns its cost in elements: with thousands of
/// databases, INFO runs in the slow lane.
pub fn prepare(core: &mut Core, held: &mut Held<'_>, lane: Lane, selection: &Selection) -> usize {
    let is_one = |section| matches!(section, Section::Keyspace | Section::Memory);
    if !selection.sections().any(is_one) {
        return 0;
    }
    let work = keyspace::work(core);
    if !lane.allows_work(work) && selection.sections().any(|section| section == Section::Keyspace) {
        keyspace::estimate(core, held);
    }
    work
}

/// The reply of INFO for `selection`. O(threads x commands) with the sections on commands.
/// `held`: the locks that INFO holds. It may read a few keys under them.
pub fn render(core: &mut Core, held: &mut Held<'_>, selection: &Selection) -> String {
    render_as(core, held, selection, Reader::Client)
}

/// As [`render`], for a thread that serves no client and must not disturb those that do: it reads no keys, waits for no
/// thread, and reads nothing from the effect log. So the positions in the replication stream may be some milliseconds
/// old.
pub fn observe(core: &mut Core, selection: &Selection) -> String {
    render_as(core, &mut Held::Aside, selection, Reader::Observer)
}

/// For whom INFO is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Client,
    Observer,
}

fn render_as(
    core: &mut Core,
    held: &mut Held<'_>,
    selection: &Selection,
    reader: Reader,
) -> String {
    let mut text = Text::default();
    for section in selection.sections() {
        text.section(section.title());
        match section {
            Section::Server => server::write(core, &mut text),
            Section::Clients => clients::write(core, &mut text),
            Section::Memory => memory::write(core, &mut text),
            Section::Persistence => persistence::write_persistence(core, &mut text),
            Section::Stats => activity::write_stats(core, &mut text),
            Section::Replication => replication::write(core, reader, &mut text),
            Section::Cpu => activity::write_cpu(core, &mut text),
            Section::Threads => threads::write(core, &mut text),
            // There are no modules, so the section has a title only.
            Section::Modules => {}
            Section::CommandStats => commands::write_counts(core, &mut text),
            Section::ErrorStats => commands::write_errors(core, &mut text),
            Section::LatencyStats => commands::write_latency(core, &mut text),
            Section::Tls => write_tls(core, &mut text),
            Section::ScriptingEngines => text.zeros(&[
                "engines_count",
                "engines_total_used_memory",
                "engines_total_memory_overhead",
            ]),
            Section::Cluster => write_cluster(core, &mut text),
            Section::Keyspace => keyspace::write(core, held, &mut text),
        }
    }
    text.into_string()
}

fn write_cluster(core: &Core, text: &mut Text) {
    text.field("cluster_enabled", u8::from(core.srv.nodes.cluster.is_enabled()));
    let Some(driver) = weft_cluster_driver::driver(core.srv) else { return };
    let status = driver.status();
    let listed: Vec<&str> = status.listed.iter().map(|id| id.as_str()).collect();
    text.field("weft_store_status", if status.store_is_failing { "failing" } else { "ok" });
    text.field("weft_lease_ms", status.lease_ms);
    text.field("weft_acknowledge_ms", status.acknowledges_ms);
    text.field("weft_listed_replicas", listed.join(","));
    text.field("weft_unconfirmed_bytes", status.unconfirmed_bytes);
    text.field("weft_closed_without_reply", status.closed_clients);
}

fn write_tls(core: &Core, text: &mut Text) {
    let facts =
        core.srv.process.tls.contexts().map(|contexts| contexts.facts.clone()).unwrap_or_default();
    let all = [
        ("server_cert", facts.server),
        ("client_cert", facts.client),
        ("ca_cert", facts.authority),
    ];
    for (name, facts) in all {
        let serial = facts.as_ref().map_or("none", |facts| &facts.serial);
        text.field(&format!("tls_{name}_serial"), serial);
        let seconds = facts.as_ref().map_or(0, |facts| facts.expires_in(SystemTime::now()).max(0));
        text.field(&format!("tls_{name}_expires_in_seconds"), seconds);
    }
}

/// INFO's part of a thread's cron: records the CPU time; on the first thread, also samples the
/// rates.
pub fn tick(core: &Core, first: bool) {
    threads::note_cpu_time(core);
    let now = Instant::now();
    if first {
        let mut rates = core.srv.statistics.info.rates();
        if rates.is_due(now) {
            rates.sample(core.srv.all_stats(), now);
        }
    }
    let second = core.srv.process.started.elapsed().as_secs() + clients::FIRST_SECOND;
    if first && core.srv.statistics.info.peaks().is_due(second) {
        let all = core.srv.clients.registry.all();
        let peak = weft_state::info_state::peaks::Peak::of(all.iter().map(|client| &**client));
        core.srv.statistics.info.peaks().add(second, peak);
    }
}
