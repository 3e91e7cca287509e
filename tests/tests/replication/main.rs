//! Primaries, replicas and the stream between them.

mod broken_copies;
mod clients;
mod commands;
mod copies;
mod copy;
mod copy_clients;
mod cut_links;
mod demotion;
mod effect_log;
mod ends;
mod faults;
mod link;
mod pressure;
mod replica_reads;
mod replica_restart;
mod roles;
mod scripts;
mod states;
mod stream;
mod streams;
mod swaps;
