//! Constants on which several crates must agree, and their relations.
//!
//! A constant is here when two crates would otherwise each define it. Derived constants are
//! computed, and relations between constants are asserted at compile time, so that a change that
//! breaks a relation does not build. Sizes are in bytes.

/// Hash slots: the granularity of cluster ownership, fixed by the cluster protocol.
pub const SLOTS: usize = 16_384;

/// Shards of the keyspace: the units of locking. A slot belongs to one shard, so
/// that keys of one slot can always be locked together.
pub const SHARDS: usize = 256;

/// Hash slots per shard.
pub const SLOTS_PER_SHARD: usize = SLOTS / SHARDS;

/// The longest string value, and the default of `proto-max-bulk-len`.
pub const MAX_STRING: usize = 512 * 1024 * 1024;

/// The longest key. Keys arrive as bulk strings, so the same bound holds.
pub const MAX_KEY: usize = MAX_STRING;

/// The longest inline command, and the longest line that announces a length.
pub const INLINE_MAX: usize = 64 * 1024;

/// The most arguments that one command may announce.
pub const MAX_ARGUMENTS: usize = i32::MAX as usize;

/// The most arguments per command that an unauthenticated client may announce.
pub const MAX_ARGUMENTS_UNAUTHENTICATED: usize = 10;

/// The most bytes per argument that an unauthenticated client may announce.
pub const MAX_BULK_UNAUTHENTICATED: usize = 16 * 1024;

/// Length of the ids of servers, replication histories and cluster nodes, in hex digits.
pub const RUN_ID_LEN: usize = 40;

/// File descriptors reserved from `maxclients`: listeners, logs, snapshot files.
pub const RESERVED_FDS: u64 = 32;

const _: () = assert!(SLOTS.is_power_of_two() && SHARDS.is_power_of_two());
const _: () = assert!(SHARDS <= SLOTS, "a shard without a slot would never hold a key");
const _: () = assert!(SLOTS - 1 <= u16::MAX as usize, "slot numbers travel as u16");
const _: () = assert!(SHARDS - 1 <= u8::MAX as usize, "shard numbers are stored in a byte");
const _: () = assert!(SLOTS_PER_SHARD * SHARDS == SLOTS);
const _: () = assert!(MAX_KEY <= MAX_STRING, "a key is sent as a string");
const _: () = assert!(MAX_STRING <= u32::MAX as usize, "lengths of values are stored in 32 bits");
const _: () = assert!(INLINE_MAX < MAX_STRING);
const _: () = assert!(MAX_ARGUMENTS_UNAUTHENTICATED * MAX_BULK_UNAUTHENTICATED < 1024 * 1024);
const _: () = assert!(MAX_BULK_UNAUTHENTICATED <= INLINE_MAX);

/// The shard of a hash slot: the slot modulo the number of shards, so that even a node that owns
/// one narrow range of slots uses all its shards.
pub const fn shard_of_slot(slot: u16) -> usize {
    slot as usize % SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_has_its_share_of_slots() {
        let mut slots = [0; SHARDS];
        for slot in 0..SLOTS as u16 {
            slots[shard_of_slot(slot)] += 1;
        }
        assert!(slots.iter().all(|&n| n == SLOTS_PER_SHARD));
    }
}
