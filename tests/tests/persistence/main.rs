//! Snapshots, append-only files, loading, and crashes during each of them.

mod aof;
mod aof_beginnings;
mod aof_switching;
mod aof_transactions;
mod aof_zeros;
mod disk_faults;
mod durability;
mod ends_at_start;
mod faults;
mod killed;
mod killed_in_steps;
mod killed_scripts;
mod many_databases;
mod rdb_files;
mod save_orders;
mod snapshot_limit;
mod snapshot_sums;
mod snapshots;
mod sync_before_answer;
