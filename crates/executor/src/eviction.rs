//! `maxmemory`: each thread evicts keys before it runs a command.
//!
//! The limit is compared with the memory use that this thread knows, so all threads together exceed
//! it by no more than their unpublished changes. A thread evicts keys one at a time before it takes
//! the shards of the command. Other threads do the same at the same time.
//!
//! Large values are freed in the background (`lazyfree-lazy-eviction` only decides which command is
//! logged), and count as free at once: otherwise, all keys would be evicted while the first is freed.

use crate::dispatch::core::Core;
use std::sync::atomic::Ordering;
use weft_keyspace::Inside;
use weft_keyspace::evict::Step;
use weft_state::attention;
use weft_state::server::Server;

/// Keys evicted for one command at most: a limit that was just lowered by gigabytes is reached over
/// many commands.
const KEYS_PER_COMMAND: usize = 16 * 1024;

/// Steps of one command that may find all candidates in busy shards (some ten microseconds each).
const BUSY_STEPS: usize = 16;

/// Evicted memory that may wait to be freed: one part in this number of the limit. The memory in use
/// may exceed the limit by as much.
const WAITING_PART: usize = 8;

/// Evicts keys until the memory in use is within the limit. Returns whether the command may use more memory.
pub fn make_room(core: &mut Core, inside: &mut Inside<'_>) -> bool {
    let limit = core.settings.eviction.maxmemory;
    let attention = core.srv.attention.load(Ordering::Relaxed);
    // A pause of writes also stops eviction.
    if limit == 0 || attention & attention::PAUSED != 0 {
        return true;
    }
    core.memory.publish_if_large(&core.srv.memory);
    if is_within(core, limit) {
        return true;
    }
    if attention & attention::IMPORT != 0 {
        // The server that sends the data decides about evictions.
        return false;
    }
    core.srv.statistics.totals.evict_cycles.fetch_add(1, Ordering::Relaxed);
    let began = core.srv.statistics.latency.begin();
    let is_done = evict(core, inside, limit);
    core.srv.sample_latency("eviction-cycle", began);
    is_done
}

/// The loop of [`make_room`].
fn evict(core: &mut Core, inside: &mut Inside<'_>, limit: usize) -> bool {
    let srv = core.srv;
    let mut busy = 0;
    for _ in 0..KEYS_PER_COMMAND {
        let (policy, samples) = (core.settings.eviction.policy, core.settings.eviction.samples);
        let began = srv.statistics.latency.begin();
        match core.evictor.step(inside, &mut core.context, policy, samples) {
            Step::Evicted { record, .. } => {
                srv.process.background.bio.free_evicted(record, limit / WAITING_PART);
                srv.sample_latency("eviction-del", began);
            }
            // I/O threads release their shards at once. A command of the slow lane may hold them for
            // long, and an I/O thread must not wait for it.
            Step::Busy if srv.slow.jobs() > 0 => return false,
            Step::Busy if busy < BUSY_STEPS => busy += 1,
            Step::Busy => return true,
            Step::Nothing => return false,
        }
        core.free_deferred();
        core.memory.publish(&srv.memory);
        if is_within(core, limit) {
            return true;
        }
    }
    // There is more to evict: the next command continues.
    true
}

/// Bytes in use that don't count for `maxmemory`:
///
/// * objects that are about to be freed, and statistics
/// * copies of a snapshot in addition to the data
/// * the replication stream that is kept for slow replicas
/// * the part of the effect log that is not sent to replicas or written to the append-only file yet
///
/// Evictions would make the last three grow.
pub fn not_counted(srv: &Server) -> usize {
    let unread = srv.nodes.replication.behind() + srv.links.answers.unread();
    srv.process.background.bio.pending_bytes()
        + srv.memory.statistics()
        + srv.ks.snapshot_bytes()
        + unread
}

/// Whether the memory in use is within `maxmemory`, as this thread knows it.
pub fn has_room(core: &Core) -> bool {
    let limit = core.settings.eviction.maxmemory;
    limit == 0 || is_within(core, limit)
}

/// Whether the memory in use, without what does not count, is within `limit`.
fn is_within(core: &Core, limit: usize) -> bool {
    let used = core.memory.used(&core.srv.memory);
    used <= limit || used.saturating_sub(not_counted(core.srv)) <= limit
}
