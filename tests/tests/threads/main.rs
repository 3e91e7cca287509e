//! I/O threads, long commands, commands on all shards, and the order that clients see.

mod active;
mod all_shards;
mod long_commands;
mod order;
mod placement;
mod slow_lane;
mod states;
