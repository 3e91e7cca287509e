//! Keeping below `maxmemory`: before each command, on whichever thread runs it.
//!
//! The limit is compared with this thread's own latest figure, so that writers on all threads
//! together overshoot by no more than the threads' unpublished steps. Evicting happens before
//! the command takes its shards, some keys at a time; other threads do the same meanwhile.
//!
//! Large values are freed in the background (`lazyfree-lazy-eviction` decides only in what word that is
//! logged), and count as free at once: else all keys would go while the first is freed.

use crate::dispatch::core::Core;
use std::sync::atomic::Ordering;
use weft_keyspace::Inside;
use weft_keyspace::evict::Step;
use weft_state::attention;
use weft_state::server::Server;

/// Keys evicted for one command before it is let through: a limit that was just lowered by
/// gigabytes is reached over many commands, not in one.
const KEYS_PER_COMMAND: usize = 16 * 1024;

/// Steps of one command that find all keys to evict in busy shards (some ten microseconds each).
const BUSY_STEPS: usize = 16;

/// Evicted memory that may wait to be freed, as a part of the limit: by so much the memory in use
/// may exceed it meanwhile.
const WAITING_PART: usize = 8;

/// Evicts until the memory in use is within the limit; whether it is.
pub fn make_room(core: &mut Core, inside: &mut Inside<'_>) -> bool {
    let limit = core.settings.eviction.maxmemory;
    let attention = core.srv.attention.load(Ordering::Relaxed);
    // While writes are paused nothing is evicted either.
    if limit == 0 || attention & attention::PAUSED != 0 {
        return true;
    }
    core.memory.publish_if_large(&core.srv.memory);
    if is_within(core, limit) {
        return true;
    }
    if attention & attention::IMPORT != 0 {
        // What goes is decided by the server that brings the data.
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
                srv.background.bio.free_evicted(record, limit / WAITING_PART);
                srv.sample_latency("eviction-del", began);
            }
            // Those who hold the shards on I/O threads let go of them at once; a command of the
            // slow lane does not, and nobody can be kept waiting for it here.
            Step::Busy if srv.slow.jobs() > 0 => return false,
            Step::Busy if busy < BUSY_STEPS => busy += 1,
            Step::Busy => return true,
            Step::Nothing => return false,
        }
        core.free_trash();
        core.memory.publish(&srv.memory);
        if is_within(core, limit) {
            return true;
        }
    }
    // Much remains to be done, but there is something to evict: go on with the next command.
    true
}

/// Bytes in use that `maxmemory` is not about: what is about to be free, statistics, what a snapshot holds
/// beside the data (evicting keys would make it hold more), what is kept of the stream for replicas that are behind, and what of the log nobody has read yet for them or for the
/// append-only file: evicting keys would only make that more.
pub fn not_counted(srv: &Server) -> usize {
    let logged = srv.replication.behind() + srv.links.answers.unread();
    srv.background.bio.pending_bytes() + srv.memory.statistics() + srv.ks.snapshot_bytes() + logged
}

/// Whether the memory in use, without what does not count, is within `limit`.
fn is_within(core: &Core, limit: usize) -> bool {
    let used = core.memory.used(&core.srv.memory);
    used <= limit || used.saturating_sub(not_counted(core.srv)) <= limit
}
