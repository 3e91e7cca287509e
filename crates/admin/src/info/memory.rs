//! The memory account. INFO memory, MEMORY STATS and MEMORY DOCTOR report the same numbers.
//!
//! ```text
//! resident (kernel)     pages in RAM                      rss_overhead = resident / allocator's
//!  └ allocator resident pages the allocator keeps         allocator_rss = resident / active
//!     └ active          pages with something allocated    allocator_frag = active / allocated
//!        └ used         bytes in use                      fragmentation = resident / used
//!           ├ overhead  everything but data: see `overhead`
//!           └ dataset   the rest
//! ```

use crate::info::text::{Text, human, percent, ratio};
use std::sync::atomic::Ordering;
use weft_executor::dispatch::core::Core;
use weft_memory::AllocatorStats;
use weft_replication_driver::hub;
use weft_state::commandlog::LogKind;

/// The numbers at one moment, in bytes.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    pub used: u64,
    pub peak: u64,
    pub startup: u64,
    /// Everything in use that is not keys and values.
    pub overhead: u64,
    /// Databases that have keys, with the bytes of their tables.
    pub tables: Vec<(usize, u64)>,
    /// Keys in all databases.
    pub keys: u64,
    /// Buffers and bookkeeping of clients that are not replicas, and those of replicas.
    pub clients: u64,
    pub replicas: u64,
    /// Bytes kept of the replication stream, and the part kept only for replicas that lag behind.
    pub stream: u64,
    pub behind: u64,
    /// Scripts in the cache, and libraries of functions.
    pub scripts: u64,
    pub functions: u64,
    /// The part of `used` that eviction ignores.
    pub not_counted: u64,
    pub allocator: Allocator,
    pub resident: u64,
}

/// The allocator's statistics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator {
    pub allocated: u64,
    pub active: u64,
    pub resident: u64,
}

impl From<AllocatorStats> for Allocator {
    fn from(stats: AllocatorStats) -> Self {
        Allocator {
            allocated: stats.allocated as u64,
            active: stats.active as u64,
            resident: stats.resident as u64,
        }
    }
}

impl Usage {
    /// Reads the statistics of the allocator, the kernel, the clients and the tables. O(clients +
    /// shards).
    pub fn now(core: &mut Core) -> Usage {
        core.memory.publish(&core.srv.memory);
        let srv = core.srv;
        let ks = &srv.ks;
        let mut keys = 0;
        let mut tables = Vec::new();
        for db in ks.occupied_databases() {
            let sums = ks.sums(db);
            // Skip empty databases: their tables have no segments.
            if sums.keys > 0 {
                keys += sums.keys as u64;
                tables.push((db, sums.table_bytes as u64));
            }
        }
        let (clients, replicas) = clients_bytes(core);
        let (stream, behind) = stream_bytes(core);
        let startup = srv.memory.startup() as u64;
        let logs: usize =
            LogKind::ALL.iter().map(|kind| srv.statistics.commandlog.memory(*kind)).sum();
        let scripts = srv.scripts.cache.totals().bytes as u64;
        let functions = srv.scripts.functions.current().memory() as u64;
        let pages = srv.memory.pages(srv.mono_ms());
        let (peak, _) = srv.memory.peak(srv.now_ms() / 1000);
        Usage {
            used: srv.memory.used() as u64,
            peak: peak as u64,
            startup,
            overhead: startup
                + tables.iter().map(|(_, bytes)| bytes).sum::<u64>()
                + clients
                + replicas
                + stream
                + logs as u64
                + scripts
                + functions,
            tables,
            keys,
            clients,
            replicas,
            stream,
            behind,
            scripts,
            functions,
            not_counted: weft_executor::eviction::not_counted(srv) as u64,
            allocator: pages.allocator.into(),
            resident: pages.resident,
        }
    }

    /// Bytes of keys and values.
    pub fn dataset(&self) -> u64 {
        self.used.saturating_sub(self.overhead)
    }

    /// The share of data in the memory allocated since the start, in percent.
    pub fn dataset_percent(&self) -> f64 {
        percent(self.dataset() as f64, self.used.saturating_sub(self.startup) as f64).min(100.0)
    }

    pub fn peak_percent(&self) -> f64 {
        percent(self.used as f64, self.peak as f64)
    }

    /// Pages with allocations, compared with the bytes allocated in them.
    pub fn fragmentation_in_allocator(&self) -> Overhead {
        Overhead::of(self.allocator.active, self.allocator.allocated)
    }

    /// Pages that the allocator keeps, compared with pages that have allocations.
    pub fn resident_in_allocator(&self) -> Overhead {
        Overhead::of(self.allocator.resident, self.allocator.active)
    }

    /// Pages that the kernel counts, compared with pages that the allocator keeps. Below 1 when the
    /// allocator's pages are swapped out or were never touched.
    pub fn resident_outside_allocator(&self) -> Overhead {
        Overhead::of(self.resident, self.allocator.resident)
    }

    /// Pages that the kernel counts, compared with bytes in use.
    pub fn fragmentation(&self) -> Overhead {
        Overhead::of(self.resident, self.used)
    }
}

/// An amount of memory, compared with a smaller amount that it should ideally equal.
#[derive(Clone, Copy, Debug)]
pub struct Overhead {
    pub ratio: f64,
    pub bytes: i64,
}

impl Overhead {
    fn of(whole: u64, part: u64) -> Self {
        Overhead { ratio: ratio(whole, part), bytes: whole as i64 - part as i64 }
    }
}

/// Bytes kept of the replication stream, and how many of them exceed the backlog's size.
fn stream_bytes(core: &Core) -> (u64, u64) {
    let state = hub(core.srv).lock();
    let Some(backlog) = state.node.stream().backlog() else { return (0, 0) };
    let kept = backlog.kept();
    (backlog.memory() as u64, (kept.end - kept.start).saturating_sub(backlog.size()))
}

/// Bytes held by clients that are not replicas, and by replicas.
fn clients_bytes(core: &Core) -> (u64, u64) {
    let fixed = weft_state::held::FIXED as u64;
    let (mut clients, mut replicas) = (0, 0);
    core.srv.clients.registry.each(|client| {
        let buffers = [&client.input.room, &client.output.bytes];
        let buffers = buffers.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum::<u64>();
        let bytes = buffers + client.memory.holdings.total() + fixed;
        let is_replica = client.replica.is_replica.load(Ordering::Relaxed);
        *if is_replica { &mut replicas } else { &mut clients } += bytes;
    });
    (clients, replicas)
}

pub fn write(core: &mut Core, text: &mut Text) {
    let usage = Usage::now(core);
    let total = weft_process::stats::total_system_memory();
    text.bytes("used_memory", usage.used);
    text.bytes("used_memory_rss", usage.resident);
    text.bytes("used_memory_peak", usage.peak);
    text.field("used_memory_peak_perc", format_args!("{:.2}%", usage.peak_percent()));
    text.field("used_memory_overhead", usage.overhead);
    text.field("used_memory_startup", usage.startup);
    text.field("used_memory_dataset", usage.dataset());
    text.field("used_memory_dataset_perc", format_args!("{:.2}%", usage.dataset_percent()));
    text.field("allocator_allocated", usage.allocator.allocated);
    text.field("allocator_active", usage.allocator.active);
    text.field("allocator_resident", usage.allocator.resident);
    text.field("allocator_muzzy", 0);
    text.bytes("total_system_memory", total);
    write_scripts(core, &usage, text);
    let settings = &core.settings;
    text.bytes("maxmemory", settings.eviction.maxmemory as u64);
    text.field("maxmemory_policy", core.srv.config().word(weft_config::Id::MAXMEMORY_POLICY));
    write_overheads(&usage, text);
    write_rest(core, &usage, text);
}

/// Scripts and functions share interpreters, whose memory counts for scripts.
fn write_scripts(core: &Core, usage: &Usage, text: &mut Text) {
    let scripts = &core.srv.scripts;
    let libraries = scripts.functions.current();
    let interpreters = scripts.interpreters.load(Ordering::Relaxed) as u64;
    text.field("used_memory_lua", interpreters);
    text.field("used_memory_vm_eval", interpreters);
    text.field("used_memory_lua_human", human(interpreters));
    text.field("used_memory_scripts_eval", usage.scripts);
    text.field("number_of_cached_scripts", scripts.cache.totals().scripts);
    text.field("number_of_functions", libraries.functions());
    text.field("number_of_libraries", libraries.all().len());
    text.field("used_memory_vm_functions", 0);
    text.bytes("used_memory_vm_total", interpreters);
    text.field("used_memory_functions", usage.functions);
    text.bytes("used_memory_scripts", usage.scripts + usage.functions);
}

fn write_overheads(usage: &Usage, text: &mut Text) {
    let mut pair = |name: &str, overhead: Overhead| {
        text.hundredths(&format!("{name}_ratio"), overhead.ratio);
        text.field(&format!("{name}_bytes"), overhead.bytes);
    };
    pair("allocator_frag", usage.fragmentation_in_allocator());
    pair("allocator_rss", usage.resident_in_allocator());
    pair("rss_overhead", usage.resident_outside_allocator());
    pair("mem_fragmentation", usage.fragmentation());
}

fn write_rest(core: &Core, usage: &Usage, text: &mut Text) {
    text.field("mem_not_counted_for_evict", usage.not_counted);
    text.field("mem_replication_backlog", usage.stream - usage.behind);
    text.field("mem_total_replication_buffers", usage.stream);
    // Bytes of the primary's stream that a replica buffers while it loads.
    text.field("mem_replicas_repl_buffer", 0);
    text.field("mem_clients_slaves", usage.behind + usage.replicas);
    text.field("mem_clients_normal", usage.clients);
    text.zeros(&[
        "mem_cluster_links",
        "mem_cluster_slot_import",
        "mem_cluster_slot_export",
        "mem_aof_buffer",
    ]);
    text.field("mem_allocator", "jemalloc-5.3.0");
    text.field("mem_overhead_db_hashtable_rehashing", 0);
    text.field("active_defrag_running", core.srv.process.background.defrag.effort());
    text.field("lazyfree_pending_objects", core.srv.process.background.bio.pending());
    text.field("lazyfreed_objects", core.srv.process.background.bio.freed());
}
