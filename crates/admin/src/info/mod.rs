//! INFO: what the server says of itself, in sections of `name:value` lines.
//!
//! Names and order follow Valkey 9.1, because dashboards, exporters and Sentinel read them. A
//! field that belongs to something this server does not have is given with the value that is
//! true then (no script is cached: `number_of_cached_scripts:0`), unless nobody could make sense
//! of it. One section is our own: [`threads`].
//!
//! * [`selection`] - from the words after INFO to a list of sections
//! * [`text`] - the lines
//! * [`totals`] - every counter added up over the threads; what CONFIG RESETSTAT sets back
//! * [`rates`] - the `instantaneous_` fields
//! * [`peaks`] - the largest buffers of clients in the last seconds
//! * [`state`] - what only INFO and its like need to know of the server
//! * the other files: one section or a few small ones each
//!
//! Nothing here stops another thread. The counters of a busy server are read while they move,
//! so fields of one reply may be some nanoseconds apart.

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

use std::time::Instant;
use weft_commands::Lane;
use weft_executor::dispatch::core::Core;
use weft_executor::dispatch::core::Held;

/// What comes before [`render`]: how much work that is to be, in elements. With thousands of databases it
/// is done in the slow lane.
pub fn prepare(core: &mut Core, held: &mut Held<'_>, lane: Lane, selection: &Selection) -> usize {
    let is_one = |section| matches!(section, Section::Keyspace | Section::Memory);
    if !selection.sections().any(is_one) {
        return 0;
    }
    let work = keyspace::work(core);
    if !lane.may_do(work) && selection.sections().any(|section| section == Section::Keyspace) {
        keyspace::estimate(core, held);
    }
    work
}

/// The reply of INFO for `selection`. O(threads x commands) with the sections on commands.
/// `held`: what INFO holds, to look at a few keys.
pub fn render(core: &mut Core, held: &mut Held<'_>, selection: &Selection) -> String {
    let mut text = Text::default();
    for section in selection.sections() {
        text.section(section.title());
        match section {
            Section::Server => server::write(core, &mut text),
            Section::Clients => clients::write(core, &mut text),
            Section::Memory => memory::write(core, &mut text),
            Section::Persistence => persistence::write_persistence(core, &mut text),
            Section::Stats => activity::write_stats(core, &mut text),
            Section::Replication => replication::write(core, &mut text),
            Section::Cpu => activity::write_cpu(core, &mut text),
            Section::Threads => threads::write(core, &mut text),
            // There are no modules: the section is its title.
            Section::Modules => {}
            Section::CommandStats => commands::write_counts(core, &mut text),
            Section::ErrorStats => commands::write_errors(core, &mut text),
            Section::LatencyStats => commands::write_latency(core, &mut text),
            Section::Tls => write_tls(&mut text),
            Section::ScriptingEngines => text.zeros(&[
                "engines_count",
                "engines_total_used_memory",
                "engines_total_memory_overhead",
            ]),
            Section::Cluster => text.field("cluster_enabled", 0),
            Section::Keyspace => keyspace::write(core, held, &mut text),
        }
    }
    text.into_string()
}

/// INFO TLS, as of a server that has no certificates.
fn write_tls(text: &mut Text) {
    for name in ["server_cert", "client_cert", "ca_cert"] {
        text.field(&format!("tls_{name}_serial"), "none");
        text.field(&format!("tls_{name}_expires_in_seconds"), 0);
    }
}

/// What a thread's cron does for INFO: its CPU time, and on the first thread a sample of the
/// rates.
pub fn tick(core: &Core, first: bool) {
    threads::note_cpu_time(core);
    let now = Instant::now();
    if first {
        let mut rates = core.srv.info.rates();
        if rates.is_due(now) {
            rates.sample(core.srv.all_stats(), now);
        }
    }
    let second = core.srv.started.elapsed().as_secs() + clients::FIRST_SECOND;
    if first && core.srv.info.peaks().is_due(second) {
        let all = core.srv.clients.all();
        let peak = weft_state::info_state::peaks::Peak::of(all.iter().map(|client| &**client));
        core.srv.info.peaks().add(second, peak);
    }
}
