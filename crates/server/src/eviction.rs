//! Keeping below `maxmemory`: before each command, on whichever thread runs it.
//!
//! The limit is compared with this thread's own latest figure, so that writers on all threads
//! together overshoot by no more than the threads' unpublished steps. Evicting happens before
//! the command takes its shards, some keys at a time; other threads do the same meanwhile.

use crate::dispatch::Core;
use std::sync::atomic::Ordering;
use weft_keyspace::evict::Step;

/// Keys evicted for one command before it is let through: a limit that was just lowered by
/// gigabytes is reached over many commands, not in one.
const KEYS_PER_COMMAND: usize = 16 * 1024;

/// Evicts until the memory in use is within the limit; whether it is.
pub fn make_room(core: &mut Core) -> bool {
    let limit = core.settings.maxmemory;
    if limit == 0 {
        return true;
    }
    core.memory.publish_if_far(&core.srv.memory);
    if core.memory.used(&core.srv.memory) <= limit {
        return true;
    }
    let srv = core.srv;
    srv.totals.evict_cycles.fetch_add(1, Ordering::Relaxed);
    for _ in 0..KEYS_PER_COMMAND {
        let (policy, samples) = (core.settings.policy, core.settings.samples);
        match core.evictor.step(&srv.ks, &mut core.turn, policy, samples) {
            Step::Evicted { record, .. } => drop(record),
            Step::Busy => std::hint::spin_loop(),
            Step::Nothing => return false,
        }
        core.free_trash();
        core.memory.publish(&srv.memory);
        if core.memory.used(&srv.memory) <= limit {
            return true;
        }
    }
    // Much remains to be done, but there is something to evict: go on with the next command.
    true
}
